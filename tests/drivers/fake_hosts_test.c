/* P8, P16, P18 on fake servers: several hosts in one URL, of which one grants at a time. Which one
 * is asked, and for how long. */
#include "tests/drivers/fake_hosts.h"

#include <pthread.h>
#include <string.h>

#define NAME "nightly"

static void assert_says(const sqlock_error *err, const char *words)
{
    if (strstr(err->text, words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", err->text, words);
}

/* ---- which host is asked, and for how long ----------------------------------------------------
 */

static void test_P8_a_silent_first_host_takes_its_share_alone(void **state)
{
    struct world *w = world_bare(state);
    int64_t begun = now_us(), took;

    host_is(0, SILENT);
    open_hosts(w, 1500);
    took = now_us() - begun;
    assert_between(400000, took, 500000 + late_ms(300) * INT64_C(1000));
    assert_int_equal(visits(), 2);
    assert_int_equal(visited(1), 1);
}

static void test_P8_each_has_a_part_of_what_is_left(void **state)
{
    struct world *w = world_bare(state);
    sqlock_error err;
    sqlock *m;

    host_is(0, SILENT);
    host_is(1, SILENT);
    host_is(2, REFUSES);
    assert_code(SQLOCK_EUNREACH, try_hosts(w, 1500, &m, &err), &err);
    assert_between(450000, atomic_load(&hosts_net.spent_us[0]), 500000);
    assert_between(400000, atomic_load(&hosts_net.spent_us[1]), 500000);
    assert_between(350000, atomic_load(&hosts_net.spent_us[2]), 500000);
}

/* What a host that refuses has left over is for those that only needed longer. */
static void test_P8_a_slow_host_has_what_others_left(void **state)
{
    struct world *w = world_bare(state);

    host_is(0, SLOW); /* 700 ms */
    host_is(1, REFUSES);
    host_is(2, REPLICA);
    open_hosts(w, 1500);
    assert_int_equal(visits(), 4);
    assert_int_equal(visited(3), 0);
}

static void test_P8_the_urls_time_for_each_host_is_kept(void **state)
{
    struct world *w = world_bare(state);
    int64_t begun = now_us();

    hosts_net.each_us = 200000;
    host_is(0, SILENT);
    host_is(1, SILENT);
    open_hosts(w, 5000);
    assert_between(350000, now_us() - begun, 400000 + late_ms(500) * INT64_C(1000));
}

static void test_one_host_has_all_of_the_time(void **state)
{
    struct world *w = world_bare(state);
    sqlock_error err;
    sqlock *m;

    hosts_net.n = 1;
    host_is(0, SILENT);
    assert_code(SQLOCK_EUNREACH, try_hosts(w, 400, &m, &err), &err);
    assert_int_equal(visits(), 1);
    assert_between(380000, atomic_load(&hosts_net.spent_us[0]), 400000);
    assert_null(strstr(err.text, "host 1"));
}

static void test_the_host_that_answered_last_is_asked_first(void **state)
{
    struct world *w = world_bare(state);
    sqlock_acquire_opts o = wait_opts(0, 0, SQLOCK_NO_RENEW);
    sqlock *m;

    host_is(0, REFUSES);
    m = open_hosts(w, 1000);
    host_is(0, SILENT);
    host_cut(1);
    give(take_with(m, NAME, &o));
    assert_int_equal(visits(), 3);
    assert_int_equal(visited(0), 0);
    assert_int_equal(visited(1), 1);
    assert_int_equal(visited(2), 1);
}

static void test_P16_a_replica_is_passed_over(void **state)
{
    struct world *w = world_bare(state);
    sqlock_acquire_opts o = wait_opts(0, 0, SQLOCK_NO_RENEW);

    host_is(0, REPLICA);
    host_is(1, REFUSES);
    give(take_with(open_hosts(w, 1000), NAME, &o));
    assert_int_equal(sqlock_fake_seen(hosts[2].db, SQLOCK_STMT_ACQUIRE), 1);
}

static void test_a_host_that_denies_us_is_passed_over(void **state)
{
    struct world *w = world_bare(state);
    sqlock_acquire_opts o = wait_opts(0, 0, SQLOCK_NO_RENEW);

    host_is(0, DENIES);
    give(take_with(open_hosts(w, 1000), NAME, &o));
    assert_int_equal(sqlock_fake_seen(hosts[1].db, SQLOCK_STMT_ACQUIRE), 1);
}

/* And nobody waits for a password to become right. */
static void test_P18_what_all_hosts_say_is_told_at_once(void **state)
{
    struct world *w = world_bare(state);
    sqlock_error err;
    sqlock *m;

    for (int i = 0; i < HOSTS; i++)
        host_is(i, DENIES);
    assert_code(SQLOCK_EDENIED, try_hosts(w, 60000, &m, &err), &err);
    assert_string_equal(err.sqlstate, "28P01");
    assert_says(&err, "host 1: wrong password");
    assert_int_equal(err.flags & SQLOCK_RETRY, 0);
    assert_int_equal(visits(), HOSTS);
}

/* The primary is away for a moment, and its neighbour is no use to us: it is found again. */
static void test_P7_a_host_of_no_use_does_not_keep_a_manager_from_the_primary(void **state)
{
    struct world *w = world_bare(state);
    sqlock_acquire_opts o = wait_opts(0, 0, SQLOCK_NO_RENEW);
    sqlock *m = open_hosts(w, 1000);
    sqlock_lock *lock = take_with(m, NAME, &o), *none = NULL;
    sqlock_error err = {0};

    host_is(0, REFUSES);
    host_is(1, DENIES);
    host_is(2, DENIES);
    host_cut(0);
    assert_int_not_equal(sqlock_acquire(m, "another", &o, &none, &err), 0);
    sqlock_lock_free(none); /* its link may have broken behind the request */
    host_is(0, PRIMARY);
    give(take_with(m, "another", &o));
    give(lock);
}

/* It was the primary, still believes to be, and nobody fenced it. A request that hangs for some
 * other reason does not lead back to it while the new primary answers. */
static void test_P2_a_server_that_was_overtaken_is_the_last_resort(void **state)
{
    struct world *w = world_bare(state);
    sqlock_acquire_opts o = wait_opts(0, 0, SQLOCK_NO_RENEW);
    sqlock *m = open_hosts(w, 1000);
    sqlock_lock *lock;
    int64_t token;

    host_promoted(1);
    host_is(0, REFUSES);
    host_is(2, REFUSES);
    host_cut(0);
    lock = take_with(m, NAME, &o);
    assert_int_equal(sqlock_fake_seen(hosts[1].db, SQLOCK_STMT_ACQUIRE), 1);
    host_is(0, PRIMARY);
    sqlock_fake_fault(hosts[1].db, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_STALL, 0, 1, 20000);
    give(take_with(m, "another", &o));
    assert_int_equal(sqlock_fake_seen(hosts[0].db, SQLOCK_STMT_ACQUIRE), 0);
    assert_true(sqlock_is_held(lock));

    token = sqlock_lock_token(lock);
    host_is(1, REFUSES);
    host_cut(1);
    sqlock_lock_free(lock);
    lock = take_with(m, NAME, &o);
    assert_true(sqlock_lock_token(lock) > token);
    assert_int_not_equal(sqlock_fake_seen(hosts[0].db, SQLOCK_STMT_ACQUIRE), 0);
    give(lock);
}

static void test_P18_all_failures_are_told(void **state)
{
    struct world *w = world_bare(state);
    sqlock_error err;
    sqlock *m;

    host_is(0, REPLICA);
    host_is(1, REFUSES);
    host_is(2, REPLICA);
    assert_code(SQLOCK_EUNREACH, try_hosts(w, 1000, &m, &err), &err);
    assert_true(err.flags & SQLOCK_RETRY);
    assert_string_equal(err.sqlstate, "08001");
    assert_says(&err, "host 1: this server cannot hold locks: the server is a replica; host 2: "
                      "connection refused");
    host_is(1, REPLICA);
    assert_code(SQLOCK_EREADONLY, try_hosts(w, 1000, &m, &err), &err);
    assert_true(err.flags & SQLOCK_RETRY);
}

/* Between the end of one primary and the promotion of the next there are replicas alone. */
static void *promote(void *arg)
{
    sleep_ms(300);
    host_is(*(int *)arg, PRIMARY);
    return NULL;
}

static void test_P8_a_wait_outlasts_the_time_without_a_primary(void **state)
{
    struct world *w = world_bare(state);
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
    assert_int_equal(sqlock_fake_seen(hosts[2].db, SQLOCK_STMT_ACQUIRE), 1);
}

/* ---- requests ---------------------------------------------------------------------------------
 */

/* A primary that waits for its standby answers handshake, and no request that writes. */
static void test_P8_a_host_that_answers_no_request_is_left_after_it(void **state)
{
    struct world *w = world_bare(state);
    sqlock_acquire_opts o = wait_opts(0, 0, SQLOCK_NO_RENEW);
    sqlock *m = open_hosts(w, 2000);
    int64_t begun;

    host_promoted(1);
    host_is(0, HALF_SILENT);
    begun = now_us();
    give(take_with(m, NAME, &o));
    assert_between(500000, now_us() - begun, 1000000 + late_ms(500) * INT64_C(1000));
    assert_int_equal(sqlock_fake_seen(hosts[1].db, SQLOCK_STMT_ACQUIRE), 1);
}

static void test_a_server_that_has_become_read_only_is_left(void **state)
{
    struct world *w = world_bare(state);
    sqlock_acquire_opts o = wait_opts(0, 0, SQLOCK_NO_RENEW);
    sqlock *m = open_hosts(w, 1000);

    give(take_with(m, NAME, &o));
    host_promoted(1);
    host_is(0, READ_ONLY);
    give(take_with(m, NAME, &o));
    assert_int_equal(sqlock_fake_seen(hosts[1].db, SQLOCK_STMT_ACQUIRE), 1);
}

/* ---- migrations -------------------------------------------------------------------------------
 */

static int migrate(struct world *w, int version, unsigned flags, sqlock_error *err)
{
    memset(err, 0, sizeof *err);
    return sqlock_migrate_to(spied_driver(), w->place.url, NULL, version, flags, NULL, err);
}

static void test_P16_migrations_go_where_locks_would(void **state)
{
    struct world *w = world_bare(state);
    sqlock_error err;

    host_is(0, REPLICA);
    host_is(1, REFUSES);
    assert_ok(migrate(w, SQLOCK_SCHEMA_LATEST, 0, &err), &err);
    assert_true(sqlock_fake_seen(hosts[2].db, SQLOCK_STMT_MIGRATE_VERSION) > 0);
    assert_int_equal(sqlock_fake_seen(hosts[0].db, -1), 0);
    host_is(2, REPLICA);
    assert_code(SQLOCK_EUNREACH, migrate(w, SQLOCK_SCHEMA_LATEST, 0, &err), &err);
    assert_says(&err, "migrate: host 1: this server cannot hold locks");
    host_is(2, PRIMARY); /* the way down goes there, too */
    assert_ok(migrate(w, 1, SQLOCK_MIGRATE_DOWN, &err), &err);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_P8_a_silent_first_host_takes_its_share_alone),
    cmocka_unit_test(test_P8_each_has_a_part_of_what_is_left),
    cmocka_unit_test(test_P8_a_slow_host_has_what_others_left),
    cmocka_unit_test(test_P8_the_urls_time_for_each_host_is_kept),
    cmocka_unit_test(test_one_host_has_all_of_the_time),
    cmocka_unit_test(test_the_host_that_answered_last_is_asked_first),
    cmocka_unit_test(test_P16_a_replica_is_passed_over),
    cmocka_unit_test(test_a_host_that_denies_us_is_passed_over),
    cmocka_unit_test(test_P18_what_all_hosts_say_is_told_at_once),
    cmocka_unit_test(test_P7_a_host_of_no_use_does_not_keep_a_manager_from_the_primary),
    cmocka_unit_test(test_P2_a_server_that_was_overtaken_is_the_last_resort),
    cmocka_unit_test(test_P18_all_failures_are_told),
    cmocka_unit_test(test_P8_a_wait_outlasts_the_time_without_a_primary),
    cmocka_unit_test(test_P8_a_host_that_answers_no_request_is_left_after_it),
    cmocka_unit_test(test_a_server_that_has_become_read_only_is_left),
    cmocka_unit_test(test_P16_migrations_go_where_locks_would),
};

TEST_MAIN_ON(hosts, tests)
