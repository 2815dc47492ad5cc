/* Waiters of the lock "nightly", which stand in the database's queue. */
#ifndef SQLOCK_TESTS_DRIVERS_SUITE_QUEUE_H
#define SQLOCK_TESTS_DRIVERS_SUITE_QUEUE_H

#include <sqlock/admin.h>

#include "tests/drivers/suite.h"

enum { OFFER_MS = 1000 };

static inline int count_waiter(const sqlock_waiter *waiter, void *n)
{
    (void)waiter;
    ++*(int *)n;
    return 0;
}

static inline int n_waiting_for(sqlock *m, const char *name)
{
    int n = 0;

    ok(sqlock_list_waiters(m, name, count_waiter, &n, &said));
    return n;
}

/* Until this many are in the queue. */
static inline void wait_queued(long before, long n)
{
    assert_soon(spy_runs(SQLOCK_STMT_QUEUE) >= before + n, patience_ms(5000));
    sleep_ms(100);
}

static inline void queue_up(struct waiter *t, sqlock *m, int32_t wait_ms)
{
    long before = spy_runs(SQLOCK_STMT_QUEUE);

    *t = (struct waiter){.m = m, .name = "nightly", .opts = wait_opts(wait_ms, 0, 0)};
    wait_start(t);
    wait_queued(before, 1);
}

/* Behind one of the same manager, which is in the queue. For less than 50 ms it waits there
 * alone. */
static inline void queue_up_behind(struct waiter *t, sqlock *m, int32_t wait_ms, int32_t since_ms)
{
    *t = (struct waiter){.m = m, .name = "nightly", .opts = wait_opts(wait_ms, 0, 0)};
    wait_start(t);
    sleep_ms(since_ms);
}

static inline void served(struct waiter *t)
{
    pthread_join(t->thread, NULL);
    assert_ok(t->code, &t->err);
}

#endif
