/* The file of --metrics-file: what the reaper's last run did. A collector may read it at any
 * time. */
#ifndef SQLOCK_CLI_REAP_METRICS_H
#define SQLOCK_CLI_REAP_METRICS_H

#include <sqlock/admin.h>
#include <sqlock/sqlock.h>

/* Write it for a run that ended with this code. report->ran is 0 if the run looked at nothing.
 * Returns 0, or EXIT_IO after printing why; then the old file is unchanged. */
int metrics_write(const char *path, int code, const sqlock_reap_report *report);

#endif
