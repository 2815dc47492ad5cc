/* Databases to test on: a place is an empty one that nobody else sees, and a driver's quirks say
 * how to make it and what sets it apart. What differs between drivers stands there, never in an
 * `if` of a test. */
#ifndef SQLOCK_TESTS_LIB_PLACE_H
#define SQLOCK_TESTS_LIB_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include <sqlock/driver.h>

#include "tests/lib/check.h"

/* An empty database: where it is. */
struct place {
    const char *url; /* NULL where connect is given */
    sqlock_connect_fn connect;
    void *connect_user;
    const char *schema; /* NULL: the driver's default */
    void *own;          /* of whoever made the place */
};

struct adopt_app;

struct quirks {
    const char *name;
    const sqlock_driver *(*driver)(void);
    bool between_processes; /* processes meet in one database */
    bool born_migrated;     /* an empty database has its schema already */
    bool has_schemas;       /* more than the default one */
    bool meets_deadlocks;   /* a request of ours waits for two rows, one after the other */
    bool opens_after_fork;  /* also a child of a process with a manager may have one */
    bool tries_core;        /* here core shows what it decides whatever the driver does */
    bool tokens_leave_gaps; /* they follow the clock all the time */
    bool leases_only;       /* its dialect lacks all other requests, and notes of breaks */
    /* 1: its server is wanted and not there, and that has been told; then *out_code is for main().
     * NULL: it has none. */
    int (*missing)(int *out_code);
    void (*make)(struct place *); /* may skip the test, or fail it */
    void (*drop)(struct place *);
    /* Let this much time pass for all rows: what they say happened, or will, is so much earlier. */
    void (*age)(const struct place *, int64_t ms);
    /* Make n rows whose holders died, "dead/00000001" and so on: their leases ended an hour ago. */
    void (*leave)(const struct place *, int32_t n);
    /* Run SQL past the library; NULL: the database knows none. */
    void (*execute)(const struct place *, const char *sql);
    /* An application's side of a connection; NULL: the driver adopts none. */
    const struct adopt_app *app;
    bool (*guards)(void); /* whether the server can keep a guard; NULL: it can */
};

#endif
