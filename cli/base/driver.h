/* Opens driver libraries by their fixed sonames only: it searches no folder. */
#ifndef SQLOCK_CLI_DRIVER_H
#define SQLOCK_CLI_DRIVER_H

#include <sqlock/sqlock.h>

/* The driver for a URL. Returns 0, or the exit code after printing why. */
int driver_for_url(const char *url, const sqlock_driver **out);
/* The driver of a name ("postgres"), for commands that need no database. */
int driver_by_name(const char *name, const sqlock_driver **out);

#endif
