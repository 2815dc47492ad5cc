#ifndef SQLOCK_BASE_ERROR_H
#define SQLOCK_BASE_ERROR_H

#include <sqlock/driver.h>

/* Put context before the text while climbing: error_prefix(err, "acquire \"%s\"", name). */
void error_prefix(sqlock_error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* SQLOCK_ENOMEM. */
int error_nomem(sqlock_error *err);

/* Copy *from to the caller's err, which may be NULL; returns from's code. */
int error_give(sqlock_error *err, const sqlock_error *from);

/* A row, or a whole file, that some open transaction keeps locked is contention, and no error
 * (P18), also if it ended in a deadlock: that becomes SQLOCK_EGUARDED. Returns the code. */
int error_contention(sqlock_error *err);

#endif
