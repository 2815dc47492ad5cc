#ifndef SQLOCK_BASE_ERROR_H
#define SQLOCK_BASE_ERROR_H

#include <sqlock/driver.h>

/* No error yet. Its texts are empty; they are too long to be zeroed as a whole. */
void error_clear(sqlock_error *err);

/* Put context before the text on the way up: error_prefix(err, "acquire \"%s\"", name). */
void error_prefix(sqlock_error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Set SQLOCK_ENOMEM and return it. */
int error_nomem(sqlock_error *err);
/* SQLOCK_ELOST of an upgrade. */
int error_given_back(sqlock_error *err);

/* Copy *from to the caller's err, which may be NULL. Returns the code of *from. */
int error_give(sqlock_error *err, const sqlock_error *from);

/* The same, for a failure on another connection than the one that the caller has. What becomes of
 * that connection, and of a request on it, says nothing about the caller's (SQLOCK_RECONNECT,
 * SQLOCK_MAYBE). */
int error_give_elsewhere(sqlock_error *err, const sqlock_error *from);

/* A row or a file that an open transaction keeps locked is contention, not an error (P18). That
 * holds also if the wait ended in a deadlock. Such an error becomes SQLOCK_EGUARDED in a database
 * with one writer, where a guard may have locked the file, and SQLOCK_ETIMEOUT on a server. Returns
 * whether it was such an error. */
int error_contention(sqlock_error *err, int one_writer);

#endif
