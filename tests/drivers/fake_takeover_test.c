/* P2, P4, P6, P7 on fake servers: leases and tokens when another one of the hosts takes over. */
#include "tests/drivers/fake_hosts.h"

#define NAME "nightly"

enum { LEASE_MS = 3000 };

static struct told told;

/* Most tests': a manager, and its lease, which is renewed by itself. */
static sqlock *m;
static sqlock_lock *lock;

static void begin_leased_for(struct world *w, int32_t request_ms, unsigned flags)
{
    sqlock_acquire_opts o = reported_opts(&told, LEASE_MS, flags);

    m = open_hosts(w, request_ms);
    lock = take_with(m, NAME, &o);
}

static void begin_leased(struct world *w)
{
    begin_leased_for(w, 1000, 0);
}

/* The second host has what the first one had, but for the last change of each row: the grant, or a
 * renewal behind it. It is another server. */
static void replicate(bool has_it)
{
    if (has_it)
        ok(sqlock_renew(lock, &said));
    hosts[1].db = hosts[0].db;
    sqlock_fake_failover(hosts[1].db);
}

static void promote_second(bool has_it)
{
    host_is(0, REFUSES);
    replicate(has_it);
}

/* A request of another name finds the new server, long before the next renewal. */
static void request_another_name(void)
{
    sqlock_acquire_opts o = wait_opts(patience_ms(2000), 0, SQLOCK_NO_RENEW);

    give(take_with(m, "another", &o));
}

TEST_WITH(BARE, begin_leased, test_P2_a_lease_that_the_new_server_has_goes_on)
{
    int64_t token = sqlock_lock_token(lock), begun;

    promote_second(true);
    begun = now_us();
    request_another_name();
    assert_soon(atomic_load(&told.held) == 1, patience_ms(500));
    assert_true(now_us() - begun < LEASE_MS / 3 * 1000 || patience_ms(1) > 1);
    assert_int_equal(atomic_load(&told.lost), 0);
    assert_state(SQLOCK_HELD, lock);
    assert_int_equal(sqlock_lock_token(lock), token);
    give(lock);
}

/* Whether it is still ours, only that one knows; it was granted to last until its deadline. */
TEST_WITH(BARE, begin_leased, test_P6_a_lease_is_at_risk_until_the_new_server_confirms_it)
{
    promote_second(true);
    sqlock_fake_fault(hosts[1].db, SQLOCK_STMT_RENEW, SQLOCK_FAULT_STALL, 0, 1, 300);
    request_another_name();
    assert_soon(atomic_load(&told.at_risk) == 1, 200);
    assert_state(SQLOCK_AT_RISK, lock);
    assert_true(sqlock_is_held(lock));
    assert_soon(atomic_load(&told.held) == 1, patience_ms(1000));
    give(lock);
}

TEST_WITH(BARE, begin_leased, test_P6_a_lease_that_the_new_server_has_not_is_lost_at_once)
{
    promote_second(false);
    request_another_name();
    assert_soon(sqlock_lock_state(lock) == SQLOCK_LOST, patience_ms(500));
    assert_true(sqlock_now_us() < sqlock_lock_deadline_us(lock));
    assert_lost(lock, SQLOCK_WHY_FORGOTTEN);
    assert_soon(atomic_load(&told.lost) == 1, patience_ms(500));
}

/* Nobody renews it, and nobody is asked to. */
BARE_TEST(test_P6_a_lease_that_is_not_renewed_is_looked_at)
{
    int64_t deadline;
    long renewals;

    begin_leased_for(w, 1000, SQLOCK_NO_RENEW);
    deadline = sqlock_lock_deadline_us(lock);
    promote_second(true);
    renewals = sqlock_fake_seen(hosts[1].db, SQLOCK_STMT_RENEW);
    request_another_name();
    assert_soon(atomic_load(&told.held) == 1, patience_ms(500));
    assert_int_equal(sqlock_fake_seen(hosts[1].db, SQLOCK_STMT_RENEW), renewals);
    /* the renewal before it was lost with the old server */
    assert_between(deadline - 20000, sqlock_lock_deadline_us(lock), deadline + 2000);
    give(lock);
    lock = grant(m, NAME);
    host_is(2, PRIMARY);
    host_is(1, REFUSES);
    host_cut(1);
    sqlock_fake_failover(hosts[2].db);
    sqlock_fake_failover(hosts[2].db);
    request_another_name();
    assert_soon(sqlock_lock_state(lock) == SQLOCK_LOST, patience_ms(500));
    assert_lost(lock, SQLOCK_WHY_FORGOTTEN);
}

/* Its links stay open, and say nothing: it must not use up the lease. */
TEST_WITH(BARE, begin_leased, test_P7_a_lease_outlives_a_server_that_falls_silent)
{
    int64_t deadline;

    ok(sqlock_renew(lock, &said)); /* which the second host is to miss */
    host_is(0, SILENT);
    replicate(false);
    deadline = sqlock_lock_deadline_us(lock);
    assert_soon(sqlock_lock_deadline_us(lock) > deadline, patience_ms(LEASE_MS));
    assert_state(SQLOCK_HELD, lock);
    assert_int_equal(atomic_load(&told.lost), 0);
    assert_int_equal(atomic_load(&hosts[0].links), 0);
    give(lock);
}

/* After a move each lease is asked for: the one that is not renewed by itself, too. */
BARE_TEST(test_P7_a_check_that_hangs_costs_no_other_lease)
{
    sqlock_lock *slow;

    begin_leased_for(w, patience_ms(8000), 0);
    slow = take_for(m, "slow", 60000, SQLOCK_NO_RENEW);
    ok(sqlock_renew(slow, &said));
    sqlock_fake_fault(hosts[0].db, SQLOCK_STMT_LEASE, SQLOCK_FAULT_STALL, 0, 1, 20000);
    promote_second(true);
    request_another_name();
    sleep_ms(2 * LEASE_MS);
    assert_int_equal(atomic_load(&told.lost), 0);
    assert_true(sqlock_is_held(lock));
    give(lock);
}

/* A request that hangs makes the manager look at the next host, which does not grant. */
BARE_TEST(test_P4_a_replicas_clock_ends_no_lease)
{
    sqlock_acquire_opts once = wait_opts(patience_ms(3000), 0, SQLOCK_NO_RENEW);

    begin_leased_for(w, 600, 0);
    host_is(1, REPLICA);
    host_is(2, REPLICA);
    atomic_store(&hosts_net.replica_ahead_us, 20 * LEASE_MS * INT64_C(1000));
    sqlock_fake_fault(hosts[0].db, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_STALL, 0, 1, 1000);
    give(take_with(m, "another", &once));
    assert_true(visits() > 1);
    atomic_store(&hosts_net.replica_ahead_us, 0);
    assert_int_equal(atomic_load(&told.lost), 0);
    assert_true(sqlock_is_held(lock));
    give(lock);
}

BARE_TEST(test_all_connections_are_to_one_server)
{
    sqlock_acquire_opts o = wait_opts(0, 0, 0);
    sqlock_lock *second;

    m = open_hosts(w, patience_ms(1000));
    take_with(m, NAME, &o);
    assert_soon(atomic_load(&hosts[0].links) == 2, patience_ms(5000));
    host_promoted(1);
    host_is(0, READ_ONLY); /* its links are well */
    second = grant(m, "second");
    assert_int_equal(atomic_load(&hosts[0].links), 0);
    give(second);
}

/* An opening that the old server answers when another one has been found. */
BARE_TEST(test_P2_an_older_server_that_answers_late_is_not_believed)
{
    struct waiter late = {.name = "late", .gives_back = true};
    long asked;

    hosts_net.n = 2;
    sqlock_fake_failover(hosts[1].db);
    late.m = m = open_hosts(w, 2000);
    host_cut(0);
    host_is(0, SLOW);
    asked = acquires(0);
    late.opts = wait_opts(patience_ms(3000), 0, SQLOCK_NO_RENEW);
    wait_start(&late);
    assert_soon(visits() == 2, patience_ms(2000));
    sleep_ms(50);
    host_is(0, REFUSES);
    host_cut(1);
    request_another_name();
    host_is(0, PRIMARY);
    pthread_join(late.thread, NULL);
    assert_ok(late.code, &late.err);
    assert_int_equal(acquires(0), asked);
    assert_true(acquires(1) >= 2);
}

/* The token of a grant that is given back, on whatever server can be found. */
static int64_t draw(sqlock *by)
{
    sqlock_acquire_opts o = wait_opts(patience_ms(2000), 0, SQLOCK_NO_RENEW);
    sqlock_lock *drawn = take_with(by, NAME, &o);
    int64_t token = sqlock_lock_token(drawn);

    give(drawn);
    return token;
}

static void switch_over(int from, int to)
{
    host_is(from, REFUSES);
    host_is(to, PRIMARY);
    host_cut(from);
}

/* Seen under Patroni 3.0.2, whose frozen leader woke up and took the key back from the new one: the
 * old primary, neither started anew nor rebuilt, grants again, and the new one's commits are gone.
 */
BARE_TEST(test_P2_a_primary_that_was_overtaken_goes_on_above_the_other)
{
    sqlock *fresh;
    int64_t first, second, third;

    m = open_hosts(w, 1000);
    first = draw(m);
    host_is(2, REFUSES);
    switch_over(0, 1);
    second = draw(m);
    assert_true(second > first);
    switch_over(1, 0);
    third = draw(m);
    assert_true(third > second);
    fresh = open_hosts(w, 1000); /* who knows nothing of that profits from who does */
    assert_true(draw(fresh) > third);
}

TEST_MAIN_ON(hosts)
