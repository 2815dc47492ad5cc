/* P2, P5 on the fake driver: what happens while a leader holds its batch back. */
#define SUITE_NEEDS BATCHES
#include "tests/drivers/fake_batch.h"

#include "core/engine/manager.h"

enum { TRIES = 200 };

/* The next leader waits for others as long as one may. */
static void expect_many(sqlock *m)
{
    mutex_lock(&m->mu);
    m->hold = (struct hold){.expected = 100, .call_us = 2 * HOLD_MOST_US};
    mutex_unlock(&m->mu);
}

/* As if another connection had found another server. Returns false if no leader waits. */
static bool depose_while_held_back(sqlock *m)
{
    bool waits;

    mutex_lock(&m->mu);
    waits = m->hold.leader != NULL;
    m->server += waits;
    mutex_unlock(&m->mu);
    return waits;
}

/* A caller's request is held back, and meanwhile the server is deposed. Returns false if the caller
 * was quicker than that. */
static bool call_while_deposed(struct caller *c)
{
    long runs = spy_runs(SQLOCK_STMT_ACQUIRE) + spy_runs(SQLOCK_STMT_RELEASE);
    bool deposed = false;

    expect_many(crowd.m);
    start_caller(c);
    while (!deposed && spy_runs(SQLOCK_STMT_ACQUIRE) + spy_runs(SQLOCK_STMT_RELEASE) == runs)
        deposed = depose_while_held_back(crowd.m);
    end_caller(c);
    assert_code(SQLOCK_OK, c->code, &c->err);
    return deposed;
}

/* A release that the old server has done may stand on the new one. */
TEST_AFTER(begin_crowd, test_P5_request_that_is_held_back_does_not_go_to_a_deposed_server)
{
    struct caller *c = &crowd.callers[0];
    bool deposed[2] = {false, false};

    c->opts.flags |= SQLOCK_NO_RENEW;
    for (int i = 0; i < TRIES && !(deposed[0] && deposed[1]); i++) {
        bool releases = c->lock != NULL, was_held_back;
        int stmt = releases ? SQLOCK_STMT_RELEASE : SQLOCK_STMT_ACQUIRE;
        long runs = spy_runs(stmt), opens = spy_opens();

        was_held_back = call_while_deposed(c);
        if (releases) {
            drop(c->lock);
            c->lock = NULL;
        }
        if (!was_held_back)
            continue;
        deposed[releases] = true;
        assert_true(spy_opens() > opens);
        assert_int_equal(spy_runs(stmt) - runs, 1);
    }
    assert_true(deposed[0] && deposed[1]);
}

TEST_MAIN_ON(fake)
