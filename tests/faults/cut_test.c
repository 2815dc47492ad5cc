/* A link that swallows everything (P4, P6, P7), for good and for a while. PostgreSQL behind
 * the proxy; a rival has a direct connection, as a program elsewhere would. */
#include "tests/faults/faults.h"

#include <poll.h>
#include <pthread.h>

#include <sqlock/many.h>

static sqlock_error err;

#define NAME  "nightly"
#define LEASE 1000
#define LATE  100 /* so many milliseconds after the deadline a loss may be told */

/* ---- silent for good ------------------------------------------------------------------------- */

/* When fd became readable, or -1: not within so long. */
static int64_t readable_at(int fd, int limit_ms)
{
    struct pollfd p = {fd, POLLIN, 0};

    return poll(&p, 1, limit_ms) == 1 ? sqlock_now_us() : -1;
}

/* The renewal is in the driver and stays there; its bytes have also passed the proxy. */
static void wait_until_stuck(int requests)
{
    assert_soon(atomic_load(&watch.renewing) == 1, patience_ms(LEASE));
    assert_soon(proxy_requests(stage.proxy) == requests + 1, patience_ms(LEASE));
    sleep_ms(50);
    assert_int_equal(atomic_load(&watch.renewing), 1);
}

TEST(test_loss_is_reported_at_the_deadline_when_only_replies_are_swallowed)
{
    struct events events = {0};
    sqlock_lock *lock, *rival;
    sqlock *m, *direct;
    struct row row;
    int64_t deadline, readable, token;
    int fd, answered, requests;

    stage_proxied();
    m = stage_open_cut();
    direct = stage_open();
    lock = held(m, NAME, LEASE, &events);
    token = sqlock_lock_token(lock);
    fd = sqlock_lock_fd(lock, &err);
    assert_true(fd >= 0);
    wait_renewed(lock);
    proxy_mode_set(stage.proxy, PROXY_HOLD_DOWN);
    sleep_ms(20);
    deadline = sqlock_lock_deadline_us(lock);
    answered = atomic_load(&watch.answered[SQLOCK_STMT_RENEW]);
    requests = proxy_requests(stage.proxy);

    wait_until_stuck(requests);
    assert_true(sqlock_is_held(lock));
    readable = readable_at(fd, 3000);
    row = row_of(direct, NAME); /* nobody else is let in before that */
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_LOST);
    assert_int_equal(sqlock_lock_why(lock), SQLOCK_WHY_EXPIRED);
    assert_int_equal(sqlock_is_held(lock), 0);
    assert_soon(atomic_load(&events.lost_at) != 0, 1000);

    assert_int_equal(sqlock_lock_deadline_us(lock), deadline);
    assert_between(0, readable - deadline, LATE * MS);
    assert_between(0, atomic_load(&events.lost_at) - deadline, LATE * MS);
    assert_between(1, atomic_load(&events.risk_at), deadline - 1);
    assert_int_equal(atomic_load(&events.n_lost), 1);
    assert_int_equal(atomic_load(&events.state), SQLOCK_LOST);
    assert_int_equal(atomic_load(&events.why), SQLOCK_WHY_EXPIRED);
    /* all that time nothing had come back */
    assert_int_equal(atomic_load(&watch.answered[SQLOCK_STMT_RENEW]), answered);

    assert_int_equal(row.held, 1);
    assert_int_equal(row.token, token);
    rival = held(direct, NAME, 5000, NULL);
    assert_true(sqlock_lock_token(rival) > token);
    proxy_mode_set(stage.proxy, PROXY_PASS);
    assert_code(SQLOCK_ELOST, sqlock_renew(lock, &err), &err);
    assert_code(SQLOCK_ELOST, sqlock_release(lock, &err), &err);
    assert_ok(sqlock_renew(rival, &err), &err);
    lock_give(rival);
    sqlock_lock_free(lock);
}

/* ---- away for a while --------------------------------------------------------------------------
 */

static void *let_in_later(void *none)
{
    sleep_ms(1000);
    proxy_refuse(stage.proxy, 0);
    return none;
}

/* P8: whoever waits for a list waits for a database that is away, as with one name. */
TEST(test_list_waits_for_a_database_that_is_away)
{
    const char *names[] = {"a", "b", "c"};
    sqlock_acquire_opts opts = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *locks[3];
    pthread_t thread;
    sqlock *m;

    stage_proxied();
    m = stage_open_cut();
    opts.wait_ms = 20000;
    proxy_refuse(stage.proxy, 1);
    proxy_cut(stage.proxy);
    assert_int_equal(pthread_create(&thread, NULL, let_in_later, NULL), 0);
    assert_ok(sqlock_acquire_all(m, names, 3, &opts, locks, &err), &err);
    pthread_join(thread, NULL);
    assert_ok(sqlock_end_each(locks, 3, NULL, &err), &err);
}

/* ---- silent for a while ---------------------------------------------------------------------- */

/* So long that the first renewal has to give up: it must leave time for one on a new connection.
 * After the silence the old links are dead. */
TEST(test_lock_survives_silence_that_outlasts_a_renewal)
{
    enum { LONG_LEASE = 3000, SILENT = 1950 };
    struct events events = {0};
    int64_t token, from, end;
    sqlock_lock *lock;
    sqlock *m;
    int accepted;

    stage_proxied();
    m = stage_open_cut();
    lock = held(m, NAME, LONG_LEASE, &events);
    token = sqlock_lock_token(lock);
    wait_renewed(lock);
    accepted = proxy_accepted(stage.proxy);
    from = sqlock_lock_deadline_us(lock);
    proxy_mode_set(stage.proxy, PROXY_HOLD);
    sleep_ms(SILENT);
    assert_true(sqlock_lock_deadline_us(lock) <= from + 20 * MS);
    assert_true(proxy_accepted(stage.proxy) > accepted);
    proxy_cut(stage.proxy);
    proxy_mode_set(stage.proxy, PROXY_PASS);
    for (end = sqlock_now_us() + LONG_LEASE * MS; sqlock_now_us() < end; sleep_ms(1))
        assert_true(sqlock_is_held(lock));
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_HELD);
    assert_int_equal(sqlock_lock_token(lock), token);
    assert_int_equal(row_of(m, NAME).token, token);
    assert_int_equal(atomic_load(&events.n_lost), 0);
    lock_give(lock);
}

TEST_MAIN_EACH(NULL, stage_teardown)
