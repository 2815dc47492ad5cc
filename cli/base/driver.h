/* Driver libraries, opened by their fixed soname and nothing else: no folder, no list of names. */
#ifndef SQLOCK_CLI_DRIVER_H
#define SQLOCK_CLI_DRIVER_H

#include <sqlock/sqlock.h>

/* The driver for a URL. Returns 0, or what the process ends with, and then has told why. */
int driver_for_url(const char *url, const sqlock_driver **out);
/* By its name ("postgres"), for what needs no database. */
int driver_by_name(const char *name, const sqlock_driver **out);

#endif
