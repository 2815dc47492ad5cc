#ifndef SQLOCK_BASE_ERROR_H
#define SQLOCK_BASE_ERROR_H

#include <stdarg.h>

#include <sqlock/driver.h>

/* No error yet. Its texts are empty; they are too long to be zeroed as a whole. */
void error_clear(sqlock_error *err);

/* Put context before the text on the way up: error_prefix(err, "acquire \"%s\"", name). */
void error_prefix(sqlock_error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Set SQLOCK_ENOMEM and return it. */
int error_nomem(sqlock_error *err);

/* An error that an object keeps. Its text takes the memory that it needs, and what shares an error
 * has the same text. */
struct kept_error {
    int32_t code; /* 0: none */
    uint32_t flags;
    int64_t native;
    char sqlstate[8];
    struct error_text *text; /* NULL: there is none, or was no memory for it */
};

/* Put err, or what `from` keeps, in the place of what was kept before. Whoever shares errors holds
 * one mutex meanwhile, and to forget them. */
void error_keep(struct kept_error *kept, const sqlock_error *err);
void error_share(struct kept_error *kept, const struct kept_error *from);
void error_forget(struct kept_error *kept);
/* The code's sentence stands for a text that there was no memory for. "": there is no error. */
const char *error_text(const struct kept_error *kept);
/* Fill err, which may be NULL. */
void error_recall(const struct kept_error *kept, sqlock_error *err);

/* As sqlock_error_set(). */
int error_set_list(sqlock_error *err, int code, unsigned flags, const char *fmt, va_list ap)
    __attribute__((format(printf, 4, 0)));

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
int error_contention(int32_t *code, const char *sqlstate, int one_writer);

#endif
