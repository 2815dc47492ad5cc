/* Reaping when replies are lost, rows are kept locked, the server is gone or another one. */
#include "tests/drivers/fake_network.h"

#define HOUR_MS INT64_C(3600000)

enum { ROWS = 5 };

static sqlock_reap_opts at_once(int32_t batch)
{
    sqlock_reap_opts o = SQLOCK_REAP_OPTS_INIT;

    o.grace_ms = 0;
    o.pause_ms = 0;
    o.batch = batch;
    return o;
}

/* A manager that is quick to give up, and rows of holders that died. */
static sqlock *leave_rows(struct world *w)
{
    char name[32];

    sqlock *m = open_with(w, with.request_ms = 200);
    for (int i = 0; i < ROWS; i++) {
        snprintf(name, sizeof name, "dead/%d", i);
        drop(take_for(m, name, 600000, SQLOCK_NO_RENEW));
    }
    w->q->age(&w->place, HOUR_MS);
    return m;
}

static int count_one(const sqlock_info *info, void *user)
{
    *(int *)user += info->held;
    return 0;
}

static int held(sqlock *m)
{
    int n = 0;

    ok(sqlock_list(m, NULL, count_one, &n, &said));
    return n;
}

TEST(test_lost_replies_and_requests_are_asked_again)
{
    sqlock_reap_opts o = at_once(2);
    sqlock_reap_report r = {.size = sizeof r};
    sqlock *m = leave_rows(w);

    fault(w, SQLOCK_STMT_SWEEP, SQLOCK_FAULT_LOSE_REPLY, 1, 0);
    fault(w, SQLOCK_STMT_REAP, SQLOCK_FAULT_LOSE_REQUEST, 1, 0);
    fault(w, SQLOCK_STMT_REAP, SQLOCK_FAULT_LOSE_REPLY, 1, 0);
    ok(sqlock_reap(m, &o, &r, &said));
    assert_int_equal(r.cleared, ROWS - 2); /* what the lost reply told was not heard */
    assert_int_equal(r.seen, ROWS);
    assert_int_equal(held(m), 0);
}

TEST(test_lost_reply_to_the_lease_is_settled)
{
    sqlock_reap_opts o = at_once(100);
    sqlock_reap_report r = {.size = sizeof r};
    sqlock *m = leave_rows(w);

    fault(w, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_LOSE_REPLY, 1, 0);
    ok(sqlock_reap(m, &o, &r, &said));
    assert_int_equal(r.ran, 1);
    assert_int_equal(r.cleared, ROWS);
    /* and was given back: nobody has to wait for the next */
    ok(sqlock_reap(m, &o, &r, &said));
    assert_int_equal(r.ran, 1);
}

/* A row that cannot be changed, as where somebody keeps it locked and the database cannot step over
 * it, holds up none of the others. */
TEST(test_row_that_fails_again_and_again_is_left_for_the_next_sweep)
{
    sqlock_reap_opts o = at_once(1);
    sqlock_reap_report r = {.size = sizeof r};
    sqlock *m = leave_rows(w);

    sqlock_fake_fault(fake_at(&w->place), SQLOCK_STMT_REAP, SQLOCK_FAULT_ERROR, 1, 3, 0);
    ok(sqlock_reap(m, &o, &r, &said));
    assert_int_equal(r.cleared, ROWS - 1);
    assert_int_equal(held(m), 1);
    ok(sqlock_reap(m, &o, &r, &said));
    assert_int_equal(r.cleared, 1);
}

TEST(test_reap_tells_when_the_server_has_gone)
{
    sqlock_reap_opts o = at_once(1);
    sqlock_reap_report r = {.size = sizeof r};
    sqlock *m = leave_rows(w);

    /* two statements go well, and then no request arrives any more */
    sqlock_fake_fault(fake_at(&w->place), SQLOCK_STMT_REAP, SQLOCK_FAULT_LOSE_REQUEST, 2, ALWAYS,
                      0);
    says(SQLOCK_EUNREACH, sqlock_reap(m, &o, &r, &said));
    assert_int_equal(r.cleared, 2);
    assert_int_equal(said.flags & SQLOCK_MAYBE, 0);
    assert_int_equal(held(m), ROWS - 2);
}

TEST(test_reap_does_not_hang_on_a_silent_server)
{
    sqlock_reap_opts o = at_once(100);
    sqlock_reap_report r = {.size = sizeof r};
    sqlock *m = leave_rows(w);
    int64_t begun = now_us();

    stall(w, SQLOCK_STMT_SWEEP, ALWAYS, 60000);
    says(SQLOCK_ETIMEOUT, sqlock_reap(m, &o, &r, &said));
    assert_between(150000, now_us() - begun, patience_ms(5000) * INT64_C(1000));
    assert_int_equal(r.cleared, 0);
}

/* P2: commits were lost, and with them the last token. What is left of the row is pruned: who makes
 * it again starts above all that may have been granted. */
TEST(test_tokens_rise_over_a_failover_and_a_pruned_row, m)
{
    sqlock_reap_opts o = at_once(100);
    sqlock_reap_report r = {.size = sizeof r};
    int64_t token = 0;

    o.idle_ms = SQLOCK_REAP_IDLE_MIN_MS;
    for (int i = 0; i < 3; i++) {
        sqlock_lock *lock = take(m, "nightly");
        token = sqlock_lock_token(lock);
        give(lock);
    }
    sqlock_fake_failover(fake_at(&w->place));
    w->q->age(&w->place, 24 * HOUR_MS);
    ok(sqlock_reap(m, &o, &r, &said));
    assert_int_equal(r.cleared + r.pruned, 1); /* what the failover made of it */
    w->q->age(&w->place, 24 * HOUR_MS);
    ok(sqlock_reap(m, &o, &r, &said));
    sqlock_lock *lock = take(m, "nightly");
    assert_between(token + 1, sqlock_lock_token(lock), SQLOCK_TOKEN_MAX);
    give(lock);
}

TEST_MAIN_ON(fake)
