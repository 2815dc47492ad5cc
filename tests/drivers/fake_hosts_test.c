/* P8, P16, P18 on fake servers: several hosts in one URL, of which one grants at a time. Which one
 * is asked, and for how long. */
#include "tests/drivers/fake_hosts.h"
#include "tests/lib/words.h"

#define NAME "nightly"

/* ---- which host is asked, and for how long --------------------------------------------------- */

BARE_TEST(test_P8_each_has_a_part_of_what_is_left)
{
    sqlock *m;

    host_is(0, SILENT);
    host_is(1, SILENT);
    host_is(2, REFUSES);
    says(SQLOCK_EUNREACH, try_hosts(w, 1500, &m, &said));
    assert_between(450000, atomic_load(&hosts_net.spent_us[0]), 500000);
    assert_between(400000, atomic_load(&hosts_net.spent_us[1]), 500000);
    assert_between(350000, atomic_load(&hosts_net.spent_us[2]), 500000);
}

/* What a host that refuses has left over is for those that only needed longer. */
BARE_TEST(test_P8_a_slow_host_has_what_others_left)
{
    host_is(0, SLOW); /* 700 ms */
    host_is(1, REFUSES);
    host_is(2, REPLICA);
    open_hosts(w, 1500);
    assert_int_equal(visits(), 4);
    assert_int_equal(visited(3), 0);
}

BARE_TEST(test_the_host_that_answered_last_is_tried_first)
{
    sqlock *m;

    host_is(0, REFUSES);
    m = open_hosts(w, 1000);
    host_is(0, SILENT);
    host_cut(1);
    give(grant(m, NAME));
    assert_int_equal(visits(), 3);
    assert_int_equal(visited(0), 0);
    assert_int_equal(visited(1), 1);
    assert_int_equal(visited(2), 1);
}

BARE_TEST(test_a_host_that_denies_us_is_passed_over)
{
    host_is(0, DENIES);
    give(grant(open_hosts(w, 1000), NAME));
    assert_int_equal(acquires(1), 1);
}

/* And nobody waits for a password to become right. */
BARE_TEST(test_P18_what_all_hosts_say_is_reported_at_once)
{
    sqlock *m;

    for (int i = 0; i < HOSTS; i++)
        host_is(i, DENIES);
    says(SQLOCK_EDENIED, try_hosts(w, 60000, &m, &said));
    assert_string_equal(said.sqlstate, "28P01");
    assert_says(&said, "host 1: wrong password");
    assert_int_equal(said.flags & SQLOCK_RETRY, 0);
    assert_int_equal(visits(), HOSTS);
}

/* The primary is away for a moment, and its neighbour is no use to us: it is found again. */
BARE_TEST(test_P7_a_host_of_no_use_does_not_keep_a_manager_from_the_primary)
{
    sqlock_acquire_opts o = wait_opts(0, 0, SQLOCK_NO_RENEW);
    sqlock *m = open_hosts(w, 1000);
    sqlock_lock *lock = grant(m, NAME), *none = NULL;

    host_is(0, REFUSES);
    host_is(1, DENIES);
    host_is(2, DENIES);
    host_cut(0);
    assert_int_not_equal(sqlock_acquire(m, "another", &o, &none, &said), 0);
    drop(none); /* its link may have broken behind the request */
    host_is(0, PRIMARY);
    give(grant(m, "another"));
    give(lock);
}

/* It was the primary, still believes to be, and nobody fenced it. A request that hangs for some
 * other reason does not lead back to it while the new primary answers. */
BARE_TEST(test_P2_a_server_that_was_overtaken_is_the_last_resort)
{
    sqlock *m = open_hosts(w, 1000);
    sqlock_lock *lock;
    int64_t token;

    host_promoted(1);
    host_is(0, REFUSES);
    host_is(2, REFUSES);
    host_cut(0);
    lock = grant(m, NAME);
    assert_int_equal(acquires(1), 1);
    host_is(0, PRIMARY);
    sqlock_fake_fault(hosts[1].db, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_STALL, 0, 1, 20000);
    give(grant(m, "another"));
    assert_int_equal(acquires(0), 0);
    assert_true(sqlock_is_held(lock));

    token = sqlock_lock_token(lock);
    host_is(1, REFUSES);
    host_cut(1);
    lock = grant(m, NAME);
    assert_true(sqlock_lock_token(lock) > token);
    assert_int_not_equal(acquires(0), 0);
    give(lock);
}

BARE_TEST(test_P18_all_failures_are_reported)
{
    sqlock *m;

    host_is(0, REPLICA);
    host_is(1, REFUSES);
    host_is(2, REPLICA);
    says(SQLOCK_EUNREACH, try_hosts(w, 1000, &m, &said));
    assert_true(said.flags & SQLOCK_RETRY);
    assert_string_equal(said.sqlstate, "08001");
    assert_says(&said, "host 1: this server cannot hold locks: the server is a replica; host 2: "
                       "connection refused");
    host_is(1, REPLICA);
    says(SQLOCK_EREADONLY, try_hosts(w, 1000, &m, &said));
    assert_true(said.flags & SQLOCK_RETRY);
}

/* Between the end of one primary and the promotion of the next there are replicas alone. */
static void *promote(void *arg)
{
    sleep_ms(300);
    host_is(*(int *)arg, PRIMARY);
    return NULL;
}

BARE_TEST(test_P8_a_wait_outlasts_the_time_without_a_primary)
{
    sqlock_acquire_opts o = wait_opts(patience_ms(10000), 0, SQLOCK_NO_RENEW);
    sqlock *m = open_hosts(w, 1000);
    pthread_t thread;
    int next = 2;

    for (int i = 0; i < HOSTS; i++)
        host_is(i, REPLICA);
    host_cut(0);
    assert_int_equal(pthread_create(&thread, NULL, promote, &next), 0);
    give(take_with(m, NAME, &o));
    pthread_join(thread, NULL);
    assert_int_equal(acquires(2), 1);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* A primary that waits for its standby answers handshake, and no request that writes. */
BARE_TEST(test_P8_a_host_that_answers_no_request_is_left_after_it)
{
    sqlock *m = open_hosts(w, 2000);

    host_promoted(1);
    host_is(0, HALF_SILENT);
    assert_takes(500, 1000 + late_ms(500), give(grant(m, NAME)));
    assert_int_equal(acquires(1), 1);
}

/* ---- migrations ------------------------------------------------------------------------------ */

static int migrate(struct world *w, int version, unsigned flags, sqlock_error *err)
{
    memset(err, 0, sizeof *err);
    return sqlock_migrate_to(spied_driver(), w->place.url, NULL, version, flags, NULL, err);
}

BARE_TEST(test_P16_migrations_go_where_locks_would)
{
    host_is(0, REPLICA);
    host_is(1, REFUSES);
    ok(migrate(w, SQLOCK_SCHEMA_LATEST, 0, &said));
    assert_true(sqlock_fake_seen(hosts[2].db, SQLOCK_STMT_MIGRATE_VERSION) > 0);
    assert_int_equal(sqlock_fake_seen(hosts[0].db, -1), 0);
    host_is(2, REPLICA);
    says(SQLOCK_EUNREACH, migrate(w, SQLOCK_SCHEMA_LATEST, 0, &said));
    assert_says(&said, "migrate: host 1: this server cannot hold locks");
    host_is(2, PRIMARY); /* the way down goes there, too */
    ok(migrate(w, 1, SQLOCK_MIGRATE_DOWN, &said));
}

TEST_MAIN_ON(hosts)
