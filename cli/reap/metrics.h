/* The file of --metrics-file: what the last run of the reaper did, for a collector that reads it
 * whenever it likes. */
#ifndef SQLOCK_CLI_REAP_METRICS_H
#define SQLOCK_CLI_REAP_METRICS_H

#include <sqlock/admin.h>
#include <sqlock/sqlock.h>

/* Write it for a run that ended with this code. report->ran is 0 where nothing was looked at.
 * Returns 0, or EXIT_IO, and then has told why; the old file is there still. */
int metrics_write(const char *path, int code, const sqlock_reap_report *report);

#endif
