/* A link that swallows everything (P4 to P8): for good, for half of a lease, and under an acquire.
 * PostgreSQL behind the proxy; a rival has a direct connection, as a program elsewhere would. */
#include "tests/faults/faults.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>

#define NAME  "nightly"
#define LEASE 1000
#define LATE  100 /* so many milliseconds after the deadline a loss may be told */

/* The server's clock is known to within a round trip and a little more; a request that comes later
 * than that after its last moment must do nothing. Half of the margin of LEASE. */
#define SLACK_MS 50

static struct place place;

/* Somebody else who waits for the lock. */
static struct rival {
    pthread_t thread;
    bool runs;
    sqlock *m;
    sqlock_lock *lock;
    int rc;
    int64_t granted_at;
} rival;

static void rival_join(void)
{
    if (rival.runs)
        pthread_join(rival.thread, NULL);
    rival.runs = false;
}

static int teardown(void **state)
{
    (void)state;
    rival_join();
    place_remove(&place);
    return 0;
}

/* ---- silent for good ---------------------------------------------------------------------------
 */

static void *rival_main(void *arg)
{
    (void)arg;
    rival.rc = take(rival.m, NAME, 5000, 6000, NULL, &rival.lock, NULL);
    rival.granted_at = sqlock_now_us();
    return NULL;
}

static void rival_start(sqlock *m)
{
    memset(&rival, 0, sizeof rival);
    rival.m = m;
    assert_int_equal(pthread_create(&rival.thread, NULL, rival_main, NULL), 0);
    rival.runs = true;
}

/* When fd became readable, or -1: not within so long. */
static int64_t readable_at(int fd, int limit_ms)
{
    struct pollfd p = {fd, POLLIN, 0};

    return poll(&p, 1, limit_ms) == 1 ? sqlock_now_us() : -1;
}

/* The renewal is in the driver and stays there; with the way up open its bytes have also passed the
 * proxy. */
static void wait_until_stuck(proxy_mode mode, int requests)
{
    assert_soon(atomic_load(&watch.renewing) == 1, patience_ms(LEASE));
    if (mode == PROXY_HOLD_DOWN)
        assert_soon(proxy_requests(place.proxy) == requests + 1, patience_ms(LEASE));
    sleep_ms(50);
    assert_int_equal(atomic_load(&watch.renewing), 1);
}

static void silent_for_good(proxy_mode mode)
{
    struct events events = {0};
    sqlock_lock *lock;
    sqlock_error err;
    sqlock *m, *direct;
    int64_t deadline, readable, token;
    int fd, answered, requests;

    place_proxied(&place);
    m = place_open_cut(&place);
    direct = place_open(&place);
    lock = held(m, NAME, LEASE, &events);
    token = sqlock_lock_token(lock);
    fd = sqlock_lock_fd(lock, &err);
    assert_true(fd >= 0);
    wait_renewed(lock);
    proxy_mode_set(place.proxy, mode);
    sleep_ms(20);
    deadline = sqlock_lock_deadline_us(lock);
    answered = atomic_load(&watch.answered[SQLOCK_STMT_RENEW]);
    requests = proxy_requests(place.proxy);
    rival_start(direct);

    wait_until_stuck(mode, requests);
    assert_true(sqlock_is_held(lock));
    readable = readable_at(fd, 3000);
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

    rival_join();
    assert_int_equal(rival.rc, 0);
    assert_true(rival.granted_at > deadline);
    assert_true(sqlock_lock_token(rival.lock) > token);
    proxy_mode_set(place.proxy, PROXY_PASS);
    assert_code(SQLOCK_ELOST, sqlock_renew(lock, &err), &err);
    assert_code(SQLOCK_ELOST, sqlock_release(lock, &err), &err);
    assert_ok(sqlock_renew(rival.lock, &err), &err);
    assert_ok(sqlock_release(rival.lock, &err), &err);
    sqlock_lock_free(rival.lock);
    sqlock_lock_free(lock);
}

static void test_loss_is_told_at_the_deadline_when_the_link_swallows_both_ways(void **state)
{
    (void)state;
    silent_for_good(PROXY_HOLD);
}

static void test_loss_is_told_at_the_deadline_when_only_replies_are_swallowed(void **state)
{
    (void)state;
    silent_for_good(PROXY_HOLD_DOWN);
}

/* A renewal that lay in the network until its lease was over must not bring the lease back. */
static void test_renewal_that_arrives_after_the_deadline_does_nothing(void **state)
{
    struct events events = {0};
    sqlock_lock *lock;
    sqlock *m, *direct;
    struct row row;
    int64_t end;
    int requests;
    (void)state;

    place_proxied(&place);
    m = place_open_cut(&place);
    direct = place_open(&place);
    lock = held(m, NAME, LEASE, &events);
    wait_renewed(lock);
    row = row_of(direct, NAME);
    end = sqlock_now_us() + row.left_ms * MS;
    proxy_mode_set(place.proxy, PROXY_HOLD_UP);
    requests = proxy_requests(place.proxy);
    assert_soon(atomic_load(&events.n_lost) == 1, patience_ms(3000));
    sleep_ms(SLACK_MS);
    /* the lease has run out at the holder's side; at the server's there is a margin left */
    assert_true(row_of(direct, NAME).left_ms > 0);
    proxy_mode_set(place.proxy, PROXY_PASS);
    assert_soon(proxy_requests(place.proxy) > requests, patience_ms(2000));
    while (sqlock_now_us() < end + 20 * MS)
        sleep_ms(1);
    assert_true(row_of(direct, NAME).left_ms <= 0);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_LOST);
    sqlock_lock_free(lock);
}

/* ---- silent for a while ------------------------------------------------------------------------
 */

/* What comes after the silence: the old links work again, or they are dead, or the library has
 * given them up by itself before. */
enum after { OLD_LINKS_LIVE, OLD_LINKS_DEAD, OLD_LINKS_GIVEN_UP };

static void silent_for_a_while(int32_t lease_ms, int32_t silent_ms, enum after after)
{
    struct events events = {0};
    int64_t token, from, end;
    sqlock_lock *lock;
    sqlock_error err;
    sqlock *m;
    int accepted;

    place_proxied(&place);
    m = place_open_cut(&place);
    lock = held(m, NAME, lease_ms, &events);
    token = sqlock_lock_token(lock);
    wait_renewed(lock);
    accepted = proxy_accepted(place.proxy);
    from = sqlock_lock_deadline_us(lock);
    proxy_mode_set(place.proxy, PROXY_HOLD);
    sleep_ms(silent_ms);
    assert_true(sqlock_lock_deadline_us(lock) <= from + 20 * MS);
    if (after == OLD_LINKS_GIVEN_UP)
        assert_true(proxy_accepted(place.proxy) > accepted);
    if (after != OLD_LINKS_LIVE)
        proxy_cut(place.proxy);
    proxy_mode_set(place.proxy, PROXY_PASS);
    for (end = sqlock_now_us() + 2 * lease_ms * MS; sqlock_now_us() < end; sleep_ms(1))
        assert_true(sqlock_is_held(lock));
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_HELD);
    assert_int_equal(sqlock_lock_token(lock), token);
    assert_int_equal(row_of(m, NAME).token, token);
    assert_int_equal(atomic_load(&events.n_lost), 0);
    if (after != OLD_LINKS_LIVE)
        assert_true(proxy_accepted(place.proxy) > accepted);
    assert_ok(sqlock_release(lock, &err), &err);
    sqlock_lock_free(lock);
}

static void test_lock_survives_half_a_lease_of_silence(void **state)
{
    (void)state;
    silent_for_a_while(LEASE, LEASE / 2, OLD_LINKS_LIVE);
}

static void test_lock_survives_half_a_lease_of_silence_and_dead_links(void **state)
{
    (void)state;
    silent_for_a_while(LEASE, LEASE / 2, OLD_LINKS_DEAD);
}

/* So long that the first renewal has to give up: it must leave time for one on a new connection. */
static void test_lock_survives_silence_that_outlasts_a_renewal(void **state)
{
    (void)state;
    silent_for_a_while(4000, 2600, OLD_LINKS_GIVEN_UP);
}

/* ---- silence under an acquire ------------------------------------------------------------------
 */

enum { WAIT_MS = 500 };

/* A timed acquire into the silence ends in time; what it gave back is *out. */
static int acquire_into_silence(sqlock *m, proxy_mode mode, sqlock_lock **out)
{
    sqlock_error err;
    int64_t begun, took;
    int rc;

    proxy_mode_set(place.proxy, mode);
    begun = sqlock_now_us();
    rc = take(m, NAME, 8000, WAIT_MS, NULL, out, &err);
    took = sqlock_now_us() - begun;
    assert_between(0, took, (WAIT_MS + LATE) * MS);
    assert_true(rc == SQLOCK_EUNSURE || rc == SQLOCK_ETIMEOUT);
    if (rc == SQLOCK_EUNSURE) {
        assert_int_equal(sqlock_lock_state(*out), SQLOCK_UNSURE);
        assert_int_equal(sqlock_lock_token(*out), 0);
        assert_true(err.flags & SQLOCK_MAYBE);
    } else {
        assert_null(*out);
    }
    return rc;
}

/* A manager whose connection is open and knows its statements; the name's row is there and free. */
static sqlock *warm(sqlock **out_direct)
{
    sqlock *m;
    sqlock_error err;

    place_proxied(&place);
    m = place_open_cut(&place);
    *out_direct = place_open(&place);
    for (int i = 0; i < 2; i++) {
        sqlock_lock *lock = held(m, NAME, 5000, NULL);

        assert_ok(sqlock_release(lock, &err), &err);
        sqlock_lock_free(lock);
    }
    return m;
}

/* The server granted it, and nobody heard. */
static void test_acquire_whose_replies_are_swallowed_is_settled_as_held(void **state)
{
    sqlock_lock *lock = NULL;
    sqlock_error err;
    sqlock *direct, *m;
    struct row row;
    int64_t token;
    (void)state;

    m = warm(&direct);
    token = row_of(direct, NAME).token;
    assert_int_equal(acquire_into_silence(m, PROXY_HOLD_DOWN, &lock), SQLOCK_EUNSURE);
    row = row_of(direct, NAME);
    assert_int_equal(row.held, 1);
    assert_int_equal(row.token, token + 1);
    assert_code(SQLOCK_EUNSURE, sqlock_settle(lock, 100, &err), &err);
    proxy_mode_set(place.proxy, PROXY_PASS);
    assert_ok(sqlock_settle(lock, 3000, &err), &err);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_HELD);
    assert_int_equal(sqlock_lock_token(lock), token + 1);
    row = row_of(direct, NAME);
    assert_int_equal(row.n, 1);
    assert_int_equal(row.token, token + 1);
    assert_ok(sqlock_release(lock, &err), &err);
    sqlock_lock_free(lock);
}

/* The server sees the request only after the caller has gone: it must not grant it then. */
static void test_acquire_that_arrives_after_its_wait_grants_nothing(void **state)
{
    sqlock_lock *lock = NULL;
    sqlock_error err;
    sqlock *direct, *m;
    struct row row;
    int64_t token;
    int rc, requests;
    (void)state;

    m = warm(&direct);
    token = row_of(direct, NAME).token;
    requests = proxy_requests(place.proxy);
    rc = acquire_into_silence(m, PROXY_HOLD, &lock);
    sleep_ms(SLACK_MS);
    proxy_mode_set(place.proxy, PROXY_PASS);
    assert_soon(proxy_requests(place.proxy) > requests, patience_ms(2000));
    assert_soon(proxy_links(place.proxy) == 1, patience_ms(2000)); /* the renewals' */
    sleep_ms(100);
    row = row_of(direct, NAME);
    assert_int_equal(row.held, 0);
    assert_int_equal(row.token, token);
    if (rc != SQLOCK_EUNSURE)
        return;
    assert_ok(sqlock_settle(lock, 3000, &err), &err);
    row = row_of(direct, NAME);
    assert_int_equal(row.held, 1);
    assert_int_equal(row.token, token + 1);
    assert_int_equal(sqlock_lock_token(lock), row.token);
    assert_ok(sqlock_release(lock, &err), &err);
    sqlock_lock_free(lock);
}

static void test_unsure_acquire_is_settled_as_busy_when_a_rival_was_quicker(void **state)
{
    sqlock_lock *lock = NULL, *winner;
    sqlock_error err;
    sqlock *direct, *m;
    (void)state;

    m = warm(&direct);
    assert_int_equal(acquire_into_silence(m, PROXY_HOLD, &lock), SQLOCK_EUNSURE);
    winner = held(direct, NAME, 8000, NULL);
    proxy_mode_set(place.proxy, PROXY_PASS);
    assert_code(SQLOCK_EBUSY, sqlock_settle(lock, 3000, &err), &err);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_LOST);
    assert_int_equal(sqlock_lock_why(lock), SQLOCK_WHY_NOT_GRANTED);
    sqlock_lock_free(lock);
    assert_ok(sqlock_renew(winner, &err), &err);
    assert_ok(sqlock_release(winner, &err), &err);
    sqlock_lock_free(winner);
}

#define T(name) cmocka_unit_test_teardown(test_##name, teardown)

static const struct CMUnitTest tests[] = {
    T(loss_is_told_at_the_deadline_when_the_link_swallows_both_ways),
    T(loss_is_told_at_the_deadline_when_only_replies_are_swallowed),
    T(renewal_that_arrives_after_the_deadline_does_nothing),
    T(lock_survives_half_a_lease_of_silence),
    T(lock_survives_half_a_lease_of_silence_and_dead_links),
    T(lock_survives_silence_that_outlasts_a_renewal),
    T(acquire_whose_replies_are_swallowed_is_settled_as_held),
    T(acquire_that_arrives_after_its_wait_grants_nothing),
    T(unsure_acquire_is_settled_as_busy_when_a_rival_was_quicker),
};

TEST_MAIN(tests)
