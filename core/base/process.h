#ifndef SQLOCK_BASE_PROCESS_H
#define SQLOCK_BASE_PROCESS_H

#include <sqlock/driver.h> /* sqlock_process_id() */

/* Write "pid@host", cut to size. A pid of 0 means this process. */
void process_name(long pid, char *out, unsigned long size);

#endif
