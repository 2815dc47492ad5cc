/* A client's threads and what they share. */
#ifndef SQLOCK_TESTS_TORTURE_CLIENT_HAND_H
#define SQLOCK_TESTS_TORTURE_CLIENT_HAND_H

#include <pthread.h>
#include <stdatomic.h>

#include <sqlock/transaction.h>

#include "tests/lib/dice.h"
#include "tests/torture/client.h"
#include "tests/torture/client_app.h"
#include "tests/torture/client_plan.h"
#include "tests/torture/text.h"

struct crew {
    struct plan plan;
    struct left before; /* all this began */
    int64_t end_us;     /* of its time */
    const struct app *app;
    int history;
    sqlock_cancel *cancel; /* cuts waits when the time is up */
    atomic_bool over;
    atomic_bool failed;
    sqlock *managers[CLIENT_THREADS_MAX];
    int64_t n_managers;
};

struct hand {
    struct crew *crew;
    pthread_t thread;
    struct dice dice;
    sqlock *m;    /* maybe of several hands */
    void *native; /* its own; NULL: not connected now */
    sqlock_conn *conn;
    struct event now;    /* what it asks */
    struct event beside; /* and within that, as if another thread did */
    struct event *at;    /* one of these */
};

/* ---- what is asked and answered -------------------------------------------------------------- */

void hand_ask(struct hand *h, int verb, uint32_t name, int64_t token);
void hand_answer(struct hand *h, int outcome, int64_t deadline_us, int64_t value);
/* An answer that nothing explains ends the client; err may be NULL. True: it is explained. */
bool hand_explain(struct hand *h, int code, const sqlock_error *err, const char *what);

/* ---- choices --------------------------------------------------------------------------------- */

bool hand_dares(struct hand *h, enum client_mix chance);
uint32_t hand_name(struct hand *h);
void hand_nap(int64_t ms);
/* A longer one, which ends with the client's time. */
void hand_sleep(struct hand *h, int64_t ms);
/* Long enough for a lease that is not renewed to run out. */
void hand_oversleep(struct hand *h);

/* ---- leases (client_lease.c) ----------------------------------------------------------------- */

void lease_take(struct hand *h, int way); /* the value of V_ACQUIRE */
/* Release it in the middle of something else that is asked. */
void lease_release_beside(struct hand *h, sqlock_lock *lock, uint32_t name);

/* ---- transactions of the application (client_rows.c) ----------------------------------------- */

/* How the guarded write is made: its commit may come past the end of the lease, or after its
 * release. */
enum guarded_way { GUARDED_AT_ONCE, GUARDED_SLOWLY, GUARDED_RELEASED };
void rows_guarded(struct hand *h, sqlock_lock *lock, uint32_t name, enum guarded_way way);
void rows_row_lock(struct hand *h);
void rows_cas(struct hand *h);
/* Give up the application's connection; the next transaction makes another. */
void rows_disconnect(struct hand *h);

/* ---- the command (client_command.c) ---------------------------------------------------------- */

void command_step(struct hand *h);

#endif
