/* P2, P6, P7, P8: one of two servers takes over from the other, and the URL names both. On
 * PostgreSQL with a synchronous standby, and on MariaDB with a replica. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/check.h"
#include "tests/lib/pair.h"

#ifdef TEST_HAVE_POSTGRES
#include <sqlock/postgres.h>
#endif
#ifdef TEST_HAVE_MYSQL
#include <sqlock/mysql.h>
#endif

enum { LEASE_MS = 9000, REQUEST_MS = 2000 };
#define NAME "nightly"

static struct pair *pair;
static sqlock *m;

static int teardown(void **state)
{
    (void)state;
    sqlock_close(m);
    m = NULL;
    pair_stop(pair);
    pair = NULL;
    return 0;
}

static const sqlock_driver *driver_of(enum pair_kind kind)
{
#ifdef TEST_HAVE_POSTGRES
    if (kind == PAIR_POSTGRES)
        return sqlock_driver_postgres();
#endif
#ifdef TEST_HAVE_MYSQL
    if (kind == PAIR_MARIADB)
        return sqlock_driver_mysql();
#endif
    skip();
    return NULL;
}

/* A manager on a pair that was migrated. */
static void begin(enum pair_kind kind)
{
    const sqlock_driver *driver = driver_of(kind);
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock_error err = {0};

    pair = pair_start(kind);
    o.request_ms = REQUEST_MS;
    assert_ok(sqlock_migrate(driver, pair_url(pair), NULL, NULL, &err), &err);
    assert_ok(sqlock_open(driver, pair_url(pair), &o, &m, &err), &err);
}

static sqlock_lock *take(const char *name, int32_t wait_ms)
{
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL;
    sqlock_error err = {0};

    o.wait_ms = wait_ms;
    o.lease_ms = LEASE_MS;
    assert_ok(sqlock_acquire(m, name, &o, &lock, &err), &err);
    return lock;
}

static void give(sqlock_lock *lock)
{
    sqlock_error err = {0};

    assert_ok(sqlock_release(lock, &err), &err);
    sqlock_lock_free(lock);
}

/* It is renewed on the new server: under the token that it had, and never told as lost. */
static void goes_on(sqlock_lock *lock, int64_t token)
{
    int64_t deadline = sqlock_lock_deadline_us(lock);

    assert_soon(sqlock_lock_deadline_us(lock) > deadline || !sqlock_is_held(lock), LEASE_MS);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_HELD);
    assert_int_equal(sqlock_lock_token(lock), token);
}

static void survives_a_freeze(enum pair_kind kind)
{
    sqlock_lock *lock;
    int64_t token;

    begin(kind);
    lock = take(NAME, 0);
    token = sqlock_lock_token(lock);
    pair_await(pair);
    pair_freeze(pair);
    pair_promote(pair);
    goes_on(lock, token);
    give(lock);
    lock = take(NAME, patience_ms(5000));
    assert_true(sqlock_lock_token(lock) > token);
    give(lock);
}

static void test_P7_a_lease_outlives_a_primary_that_is_frozen_postgres(void **state)
{
    (void)state;
    survives_a_freeze(PAIR_POSTGRES);
}

static void test_P7_a_lease_outlives_a_primary_that_is_frozen_mariadb(void **state)
{
    (void)state;
    survives_a_freeze(PAIR_MARIADB);
}

/* ---- a primary that is killed, and commits that are lost
 * --------------------------------------------------------------------
 */

static void part(void)
{
    if (pair_url(pair)[0] == 'm') {
        pair_exec(pair, 1, "STOP SLAVE");
        return;
    }
    pair_exec(pair, 0, "ALTER SYSTEM SET synchronous_standby_names = ''");
    pair_exec(pair, 0, "SELECT pg_reload_conf()");
    pair_exec(pair, 1, "ALTER SYSTEM SET primary_conninfo = ''");
    pair_exec(pair, 1, "SELECT pg_reload_conf()");
    assert_soon(pair_number(pair, 0, "SELECT count(*) FROM pg_stat_replication") == 0,
                patience_ms(10000));
}

static void is_told(enum pair_kind kind)
{
    sqlock_lock *kept, *lost, *other;
    int64_t token, kept_token;

    begin(kind);
    kept = take("kept", 0);
    kept_token = sqlock_lock_token(kept);
    give(take(NAME, 0));
    pair_await(pair);
    part();
    lost = take(NAME, 0);
    token = sqlock_lock_token(lost);
    pair_kill(pair);
    pair_promote(pair);
    other = take("another", patience_ms(10000)); /* it finds the new server */
    assert_soon(sqlock_lock_state(lost) == SQLOCK_LOST, patience_ms(1000));
    assert_true(sqlock_now_us() < sqlock_lock_deadline_us(lost));
    assert_int_equal(sqlock_lock_why(lost), SQLOCK_WHY_FORGOTTEN);
    sqlock_lock_free(lost);
    goes_on(kept, kept_token);
    give(kept);
    give(other);
    lost = take(NAME, patience_ms(5000));
    assert_true(sqlock_lock_token(lost) > token);
    give(lost);
}

static void test_P6_P7_a_killed_primary_ends_what_it_alone_had_committed_postgres(void **state)
{
    (void)state;
    is_told(PAIR_POSTGRES);
}

static void test_P6_P7_a_killed_primary_ends_what_it_alone_had_committed_mariadb(void **state)
{
    (void)state;
    is_told(PAIR_MARIADB);
}

/* ---- a primary without its standby ------------------------------------------------------------
 */

/* Its commits wait for a standby that will never answer: it says handshake, and nothing else. */
static void test_P8_a_primary_whose_commits_hang_stops_nobody(void **state)
{
    sqlock_lock *lock;

    (void)state;
    begin(PAIR_POSTGRES);
    give(take(NAME, 0));
    pair_exec(pair, 1, "ALTER SYSTEM SET primary_conninfo = ''");
    pair_exec(pair, 1, "SELECT pg_reload_conf()");
    assert_soon(pair_number(pair, 0, "SELECT count(*) FROM pg_stat_replication") == 0,
                patience_ms(10000));
    pair_promote(pair);
    lock = take("another", patience_ms(6000));
    assert_int_equal(pair_number(pair, 1,
                                 "SELECT count(*) FROM sqlock_lock WHERE owner IS NOT NULL AND "
                                 "name = 'another'::bytea"),
                     1);
    give(lock);
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)

static const struct CMUnitTest tests[] = {
    TEST(test_P7_a_lease_outlives_a_primary_that_is_frozen_postgres),
    TEST(test_P7_a_lease_outlives_a_primary_that_is_frozen_mariadb),
    TEST(test_P6_P7_a_killed_primary_ends_what_it_alone_had_committed_postgres),
    TEST(test_P6_P7_a_killed_primary_ends_what_it_alone_had_committed_mariadb),
    TEST(test_P8_a_primary_whose_commits_hang_stops_nobody),
};

TEST_MAIN(tests)
