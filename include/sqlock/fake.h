/* A database in memory with faults on request (libsqlock-fake), for tests of programs that use
 * sqlock. What does your program do when a reply is lost, the server is slow, its clock jumps or
 * the row vanishes?
 *
 *     sqlock_fake *db = sqlock_fake_new();
 *     sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
 *     o.connect = sqlock_fake_connect;
 *     o.connect_user = db;
 *     sqlock_open(sqlock_driver_fake(), NULL, &o, &m, &err);
 *
 * Any number of managers may use one sqlock_fake. Free it after they are closed. Any thread. */
#ifndef SQLOCK_FAKE_H
#define SQLOCK_FAKE_H

#include <sqlock/driver.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sqlock_fake sqlock_fake;

/* The driver, for sqlock_open() and the other functions that need one.
 * Ownership: static; never free it.
 * Threads:   any thread.
 * Bindings:  a plain symbol of libsqlock-fake. */
SQLOCK_API const sqlock_driver *sqlock_driver_fake(void);
/* A database with a schema and without locks; NULL: out of memory. */
SQLOCK_API sqlock_fake *sqlock_fake_new(void);
SQLOCK_API void sqlock_fake_free(sqlock_fake *db);
/* The connection factory; user is the sqlock_fake. */
SQLOCK_API int sqlock_fake_connect(void *user, void **out_native, sqlock_error *err);

typedef enum sqlock_fault {
    SQLOCK_FAULT_NONE = 0,
    SQLOCK_FAULT_LOSE_REQUEST, /* the link breaks before the server sees the request */
    SQLOCK_FAULT_LOSE_REPLY,   /* the request is applied, then the link breaks */
    SQLOCK_FAULT_LATE,         /* the link breaks now, the server runs the request delay_ms later */
    SQLOCK_FAULT_SLOW,         /* the request is applied at once, the answer comes delay_ms later */
    SQLOCK_FAULT_STALL,        /* the request runs and answers delay_ms later */
    SQLOCK_FAULT_VANISH,       /* the lock and the register that the request names go first */
    SQLOCK_FAULT_ERROR         /* the server answers with SQLSTATE 40001, nothing is applied */
} sqlock_fault;

/* Let a fault happen to the next `times` requests of a kind, after `skip` of them have passed. stmt
 * is an sqlock_stmt (sqlock/request.h), or -1: any request that is not SQLOCK_REQ_ONCE. Faults keep
 * their order: each request takes the first one that fits. */
SQLOCK_API void sqlock_fake_fault(sqlock_fake *db, int stmt, sqlock_fault fault, int skip,
                                  int times, int32_t delay_ms);
/* Step the server's clock, forward or back. */
SQLOCK_API void sqlock_fake_step_clock(sqlock_fake *db, int64_t ms);
/* Break the present connections and refuse new ones, until you call it with 0. */
SQLOCK_API void sqlock_fake_down(sqlock_fake *db, int down);
/* Make the database another server, without the last commits: tokens go on above its clock (P2). */
SQLOCK_API void sqlock_fake_failover(sqlock_fake *db);
/* Requests of a kind that the server has seen; stmt -1: all. */
SQLOCK_API long sqlock_fake_seen(sqlock_fake *db, int stmt);
/* Connections that are open now. */
SQLOCK_API int sqlock_fake_connections(sqlock_fake *db);

#ifdef __cplusplus
}
#endif
#endif
