/* What failed, why, and what to do about it. */
#ifndef SQLOCK_ERROR_H
#define SQLOCK_ERROR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SQLOCK_API __attribute__((visibility("default")))
#else
#define SQLOCK_API
#endif
/* Warns where the result is ignored. Compare it with 0, not with < 0: SQLOCK_CONFLICT and SQLOCK_ABSENT
 * are positive. */
#ifndef SQLOCK_CHECKED
#if defined(__GNUC__)
#define SQLOCK_CHECKED __attribute__((warn_unused_result))
#else
#define SQLOCK_CHECKED
#endif
#endif
#define SQLOCK_EXPERIMENTAL /* may change or go in any release */

/* Every code, with its sentence for sqlock_strerror(). Contention is never reported as a database
 * error, nor a database error as contention. */
#define SQLOCK_ERRORS(X)                                                                           \
    X(SQLOCK_EBUSY, -1, "the lock is held by another owner")                                       \
    X(SQLOCK_ELOST, -2, "the lock was held and is no longer ours")                                 \
    X(SQLOCK_EUNSURE, -3, "the reply was lost: the request may have been applied")                 \
    X(SQLOCK_EGUARDED, -4, "an open transaction guards the lock")                                  \
    X(SQLOCK_ECANCELLED, -5, "the call was cancelled")                                             \
    X(SQLOCK_ETIMEOUT, -6, "the database did not answer in time")                                  \
    X(SQLOCK_ETXGONE, -7, "the database has ended the transaction")                                \
    X(SQLOCK_ETXRESTART, -8, "only a new transaction can do it: roll back and begin again")        \
    X(SQLOCK_EDEADLOCK, -9, "actors wait for each other, and this one was to give up")             \
    X(SQLOCK_EINVAL, -10, "an argument is not valid")                                              \
    X(SQLOCK_ENOMEM, -11, "out of memory")                                                         \
    X(SQLOCK_ESTATE, -12, "the handle is not in a state that allows this")                         \
    X(SQLOCK_EFORK, -13, "the handle belongs to the parent process")                               \
    X(SQLOCK_ESYS, -14, "the operating system refused a resource")                                 \
    X(SQLOCK_EDB, -20, "the database answered with an error")                                      \
    X(SQLOCK_EUNREACH, -21, "the database cannot be reached")                                      \
    X(SQLOCK_EDENIED, -22, "the database refused login or privileges")                             \
    X(SQLOCK_ESCHEMA, -23, "the schema is absent, too old or too new")                             \
    X(SQLOCK_ECORRUPT, -24, "the database or a row is not what it must be")                        \
    X(SQLOCK_EREADONLY, -25, "the database is read-only")                                          \
    X(SQLOCK_EFULL, -26, "the database has no space left or failed to write")                      \
    X(SQLOCK_EREFUSED, -27, "the database cannot keep a promise, or the lock is in use in another way")

enum sqlock_code {
    SQLOCK_OK = 0,
#define SQLOCK_ENUM(code, value, text) code = value,
    SQLOCK_ERRORS(SQLOCK_ENUM)
#undef SQLOCK_ENUM
};

/* Positive outcomes are no errors. They leave the sqlock_error alone. */
#define SQLOCK_CONFLICT 1 /* compare and set: another version is there, and nothing was changed.
                             Row locks: another transaction has locked the row */
#define SQLOCK_ABSENT 2   /* there is no such row */

/* What to do, in sqlock_error.flags. */
#define SQLOCK_RETRY 0x1u     /* the same call may work later */
#define SQLOCK_RECONNECT 0x2u /* the connection is gone, or must not be used again */
#define SQLOCK_MAYBE 0x4u     /* the request may have been applied: settle before you go on */

/* 512 bytes. This layout is fixed for good, so that other languages can declare it. It is yours, and may
 * stay uninitialised: it is written on failure only. */
typedef struct sqlock_error {
    int32_t code;     /* SQLOCK_E... */
    uint32_t flags;   /* SQLOCK_RETRY, SQLOCK_RECONNECT, SQLOCK_MAYBE */
    int64_t native;   /* the client library's own number, 0 where there is none */
    char sqlstate[8]; /* 5 letters of the server, or the nearest ones; "" where there are none */
    char text[488];   /* one line with context: `acquire "nightly": connection refused` */
} sqlock_error;

/* The sentence for a code: a static string, also for unknown codes. Any thread. */
SQLOCK_API const char *sqlock_strerror(int code);
/* The name of a code, "SQLOCK_EBUSY"; "SQLOCK_?" for unknown codes. Any thread. */
SQLOCK_API const char *sqlock_code_name(int code);

#ifdef __cplusplus
}
#endif
#endif
