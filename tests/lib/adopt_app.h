/* What an application does on a connection of its own, beside sqlock: the other side of the tests
 * of adopted connections. A driver's program fills one, and puts it into its quirks. The suite's
 * SQL is what all databases understand; what they do not have in common stands here. */
#ifndef SQLOCK_TESTS_LIB_ADOPT_APP_H
#define SQLOCK_TESTS_LIB_ADOPT_APP_H

#include <stdbool.h>
#include <stdint.h>

#include <sqlock/adopt.h>

#include "tests/lib/place.h"

enum { APP_ROWS = 3 }; /* of start_reading() */

/* A way into a transaction; any of them NULL: nothing is to be said there. */
struct way {
    const char *name;
    const char *before, *begin, *after; /* after: when the transaction has ended */
};

/* A statement that fails fails the test, unless it is told otherwise. free() the strings. */
struct adopt_app {
    /* A connection to the place, on which its tables need no schema. The suite closes it. */
    void *(*connect)(const struct place *p);
    void (*close)(void *app);
    /* What an application tells of it: native, native_size, library. */
    void (*offer)(void *app, sqlock_adopt_opts *opts);

    bool (*exec)(void *app, const char *sql); /* false: it failed. Rows are thrown away */
    /* The first value of the first row; NULL: it is NULL, or there is none. */
    char *(*ask)(void *app, const char *sql);
    /* All of the session that could be set, as text to compare: settings, handlers, modes. */
    char *(*settings)(void *app);
    /* What the client library tells of the last statement, as text to compare: row count, last
     * insert id, warnings. Without asking the server. */
    char *(*last)(void *app);

    /* A query of APP_ROWS rows, of which the first is read and the others are not. */
    void (*start_reading)(void *app);
    int (*read_rest)(void *app); /* how many those were; -1: something else came */
    /* A prepared statement that answers 42, and its answer. */
    void (*prepare)(void *app);
    int64_t (*run_prepared)(void *app);
    /* The server ends the session, and it is over when this returns; NULL: there is no server. */
    void (*kill)(void *app);

    const char *const
        *begins;            /* ways to begin a transaction, then NULL: isolation levels and such */
    const char *alone;      /* begins a transaction that keeps all others out; NULL: none does */
    const struct way *ways; /* at every isolation level; the last one has no name */
    /* A type of columns for timestamps with microseconds, and what tells them as an integer; NULL.
     */
    const char *timestamp, *timestamp_read;
    /* A table app_types: t for 40 characters of text, s for 16 bits, b for 64 bits, n for a number
     * that may be NULL, o for 40 bytes. */
    const char *table_of_types;
    /* Makes a session's waits for rows short where they are long by default; NULL. */
    const char *impatient;
    const char *session; /* what answers the number of the connection's session, by which who keeps
                            a row is told; NULL: nobody is told */
    bool says_refusal;   /* also who kept it from who did not wait */
    const char *slow; /* a step that takes ten seconds if it is not cut; NULL: nothing cuts one */
    bool says_locked; /* what another client has locked is not waited for but told at once */
    bool one_answer;  /* the next request has to wait until an answer has been read to its end */
    bool fails_whole; /* after a statement that failed the transaction is FAILED */
};

/* Functions of such names, in their places. */
#define APP_FUNCTIONS                                                                              \
    .connect = app_connect, .close = app_close, .offer = app_offer, .exec = app_exec,              \
    .ask = app_fetch, .settings = app_settings, .last = app_last,                                  \
    .start_reading = app_start_reading, .read_rest = app_read_rest, .prepare = app_prepare,        \
    .run_prepared = app_run_prepared

#endif
