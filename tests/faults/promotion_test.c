/* Servers of one origin that take over from each other, with commits that are lost on the way:
 * tokens and registers' versions only rise (P2, P13), over promotions, over one that comes back on
 * its old disk, over clocks. PostgreSQL's are standbys that are promoted; MariaDB's have copies of
 * one data folder. */
#include "tests/faults/faults.h"

#include <sqlock/register.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/private.h"
#include "tests/lib/servers.h"

#ifdef TEST_HAVE_POSTGRES
#include <sqlock/postgres.h>
#endif
#ifdef TEST_HAVE_MYSQL
#include <sqlock/mysql.h>
#endif

/* ---- one client after the other ----------------------------------------------------------------
 */

static const sqlock_driver *driver;

/* What has been given away so far, on all servers. */
static struct {
    int64_t token, version;
} last;

static void begin(const struct server *a, const sqlock_driver *d)
{
    sqlock_error err;

    driver = d;
    memset(&last, 0, sizeof last);
    assert_ok(sqlock_migrate(driver, a->url, NULL, NULL, &err), &err);
}

static sqlock *open_at(const char *url, const sqlock_open_opts *opts)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock_error err;
    sqlock *m = NULL;

    assert_ok(sqlock_open(driver, url, opts != NULL ? opts : &o, &m, &err), &err);
    return m;
}

/* 1: they are above all that there have been. A lease that another left may have to run out first.
 */
static int draw(sqlock *m, const char *name)
{
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    int64_t version = 0, token;
    sqlock_lock *lock = NULL;
    sqlock_error err;
    size_t len;
    int rises;

    o.lease_ms = 300;
    o.wait_ms = patience_ms(5000);
    assert_ok(sqlock_acquire(m, name, &o, &lock, &err), &err);
    token = sqlock_lock_token(lock);
    assert_ok(sqlock_release(lock, &err), &err);
    sqlock_lock_free(lock);
    assert_ok(sqlock_register_get(m, "r", NULL, 0, &len, &version, &err), &err);
    assert_ok(sqlock_register_set(m, "r", name, strlen(name), version, &version, &err), &err);
    rises = token > last.token && version > last.version;
    last.token = token > last.token ? token : last.token;
    last.version = version > last.version ? version : last.version;
    return rises;
}

/* A client that is there for three grants. 1: all rose. */
static int visit(const struct server *s)
{
    sqlock *m = open_at(s->url, NULL);
    int rises = 1;

    for (int i = 0; i < 3; i++)
        rises &= draw(m, "x");
    sqlock_close(m);
    return rises;
}

/* ---- promotions --------------------------------------------------------------------------------
 */

#ifdef TEST_HAVE_POSTGRES
static void await_rows(const struct server *standby, int64_t rows)
{
    assert_soon(server_number(standby, "SELECT count(*) FROM sqlock_lock") >= rows,
                patience_ms(10000));
}

/* A dies, and B is promoted; B dies, and C is promoted, which has never heard of B: both are
 * timeline 2. Each time the last commits are lost. How many of the three visits rose. */
static int two_promotions(void)
{
    struct server a = server_postgres(), b, c;
    int risen;

    begin(&a, sqlock_driver_postgres());
    risen = visit(&a);
    b = server_copy(&a);
    c = server_copy(&a);
    await_rows(&b, 1);
    await_rows(&c, 1);
    server_cut(&b);
    server_cut(&c);
    risen &= visit(&a); /* of this neither knows */
    server_kill(&a);
    server_promote(&b);
    risen += visit(&b);
    server_kill(&b);
    server_promote(&c);
    assert_int_equal(server_number(&c, "SELECT ('x' || left(pg_walfile_name(pg_current_wal_lsn()), "
                                       "8))::bit(32)::int"),
                     2);
    risen += visit(&c);
    server_kill(&c);
    return risen;
}

static void test_P2_tokens_rise_over_two_promotions_that_know_nothing_of_each_other(void **state)
{
    (void)state;
    assert_int_equal(two_promotions(), 3);
}

/* A comes back on its disk, where nothing is known of what B has granted meanwhile. */
static int failback(void)
{
    struct server a = server_postgres(), b;
    int risen;

    begin(&a, sqlock_driver_postgres());
    risen = visit(&a);
    b = server_copy(&a);
    await_rows(&b, 1);
    server_kill(&a);
    server_promote(&b);
    risen += visit(&b);
    server_kill(&b);
    server_again(&a);
    risen += visit(&a);
    server_kill(&a);
    return risen;
}

static void test_P2_tokens_rise_over_a_failback_without_a_rebuild(void **state)
{
    (void)state;
    assert_int_equal(failback(), 3);
}

/* However often A was started anew, a copy that has seen none of it is above A. */
static void test_P2_tokens_rise_over_three_restarts_and_the_promotion_of_a_copy(void **state)
{
    struct server a = server_postgres(), b;
    (void)state;

    begin(&a, sqlock_driver_postgres());
    assert_true(visit(&a));
    b = server_copy(&a);
    await_rows(&b, 1);
    server_cut(&b);
    for (int i = 0; i < 3; i++) {
        server_kill(&a);
        server_again(&a);
        assert_true(visit(&a));
    }
    assert_int_equal(server_number(&a, "SELECT inc FROM sqlock_meta"), 4);
    server_kill(&a);
    server_promote(&b);
    assert_true(visit(&b));
    server_kill(&b);
}

/* ---- clocks ------------------------------------------------------------------------------------
 */

/* The server was an hour ahead, and is started with the true time. */
static void test_P2_clock_behind_the_tokens_is_refused_or_lifts_them(void **state)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock_error err;
    sqlock *m = NULL;
    int64_t floor;
    (void)state;

    private_clock(3600);
    driver = sqlock_driver_postgres();
    memset(&last, 0, sizeof last);
    assert_ok(sqlock_migrate(driver, private_url(), NULL, NULL, &err), &err);
    m = open_at(private_url(), NULL);
    assert_true(draw(m, "x"));
    sqlock_close(m);
    floor = private_number("SELECT fence_floor FROM sqlock_meta");
    private_restart(0);
    m = NULL;
    assert_code(SQLOCK_EREFUSED, sqlock_open(driver, private_url(), &o, &m, &err), &err);
    assert_null(m);
    assert_true((err.flags & SQLOCK_RETRY) != 0);
    assert_non_null(strstr(err.text, "s behind the last token"));
    assert_non_null(strstr(err.text, "SQLOCK_OPEN_LIFT_TOKENS"));
    assert_int_equal(private_number("SELECT fence_floor FROM sqlock_meta"), floor);
    o.flags = SQLOCK_OPEN_LIFT_TOKENS;
    m = open_at(private_url(), &o);
    assert_int_equal(private_number("SELECT fence_floor FROM sqlock_meta"),
                     floor + INT64_C(4294967296));
    assert_true(draw(m, "x"));
    sqlock_close(m);
    m = open_at(private_url(), NULL); /* it has been done, and once for all */
    assert_true(draw(m, "x"));
    sqlock_close(m);
    assert_int_equal(private_number("SELECT fence_floor FROM sqlock_meta"),
                     floor + INT64_C(4294967296));
}

/* ---- grace -------------------------------------------------------------------------------------
 */

enum { LONGEST = 4000 };

static sqlock *open_gracious(const struct server *a, const struct server *b, int32_t grace_ms)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    char url[512], *host_a = strstr(a->url, "host="), *host_b = strstr(b->url, "host=");

    snprintf(url, sizeof url, "postgresql:///postgres?%.*s,%.*s&user=postgres",
             (int)strcspn(host_a, "&"), host_a, (int)strcspn(host_b + 5, "&"), host_b + 5);
    o.lease_ms = LONGEST;
    o.grace_ms = grace_ms;
    return open_at(url, &o);
}

static int try(sqlock *m, const char *name, sqlock_error *err)
{
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL;
    int rc;

    o.wait_ms = 0;
    rc = sqlock_acquire(m, name, &o, &lock, err);
    if (lock != NULL)
        assert_ok(sqlock_release(lock, err), err);
    sqlock_lock_free(lock);
    return rc;
}

/* "lost" is granted by a commit that B does not have. Who was granted it believes in it, until its
 * lease is over; and so long nobody else is granted it. "kept" goes on. */
static void test_nobody_is_granted_what_a_lost_commit_may_have_granted(void **state)
{
    struct server a = server_postgres(), b;
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock *holder, *eager, *gracious;
    sqlock_lock *kept, *lost, *next = NULL;
    int64_t token, ends, lost_at;
    sqlock_error err;
    (void)state;

    begin(&a, sqlock_driver_postgres());
    b = server_copy(&a);
    holder = open_gracious(&a, &b, 60000);
    kept = held(holder, "kept", LONGEST, NULL);
    token = sqlock_lock_token(kept);
    await_rows(&b, 1);
    server_cut(&b);
    o.flags = SQLOCK_NO_RENEW;
    assert_ok(sqlock_acquire(holder, "lost", &o, &lost, &err), &err);
    server_kill(&a);
    server_promote(&b);
    gracious = open_gracious(&a, &b, 60000);
    ends = sqlock_lock_deadline_us(lost);
    assert_code(SQLOCK_EBUSY, try(gracious, "lost", &err), &err);
    assert_non_null(strstr(err.text, "may have lost the lock's holder"));
    assert_code(SQLOCK_EBUSY, try(gracious, "never seen", &err), &err);
    assert_code(SQLOCK_EBUSY, try(gracious, "kept", &err), &err);
    assert_non_null(strstr(err.text, "held by"));
    o.flags = 0;
    o.wait_ms = patience_ms(20000);
    assert_ok(sqlock_acquire(gracious, "lost", &o, &next, &err), &err);
    assert_true(sqlock_now_us() >= ends);
    lost_at = server_number(&b, "SELECT lost_at FROM sqlock_meta");
    assert_true(lost_at > 0);
    assert_true(server_number(&b, "SELECT since - lost_at FROM sqlock_lock, sqlock_meta "
                                  "WHERE name = 'lost'") >= LONGEST * MS);
    assert_true(sqlock_lock_token(next) > sqlock_lock_token(lost));
    assert_int_equal(sqlock_lock_state(kept), SQLOCK_HELD); /* its holder came along */
    assert_int_equal(sqlock_lock_token(kept), token);
    assert_ok(sqlock_release(next, &err), &err);
    sqlock_lock_free(next);
    /* Without the option nobody waits; nor does anybody when a server was merely started anew. */
    server_exec(&b, "UPDATE sqlock_meta SET lost_at = (extract(epoch FROM clock_timestamp()) * "
                    "1000000)::bigint, longest = 60000000");
    eager = open_gracious(&a, &b, 0);
    assert_code(SQLOCK_EBUSY, try(gracious, "lost", &err), &err);
    assert_ok(try(eager, "lost", &err), &err);
    server_exec(&b, "UPDATE sqlock_meta SET lost_at = 0");
    assert_ok(sqlock_release(kept, &err), &err);
    sqlock_lock_free(kept);
    sqlock_lock_free(lost);
    sqlock_close(holder);
    sqlock_close(eager);
    sqlock_close(gracious);
    server_kill(&b);
    server_again(&b);
    gracious = open_gracious(&a, &b, 60000);
    assert_ok(try(gracious, "lost", &err), &err);
    assert_int_equal(server_number(&b, "SELECT lost_at FROM sqlock_meta"), 0);
    sqlock_close(gracious);
    server_kill(&b);
}
#endif

/* ---- MariaDB -----------------------------------------------------------------------------------
 */

#ifdef TEST_HAVE_MYSQL
/* Before MySQL 5.7.8 nobody may know when it was started. */
static struct server server_that_tells_its_start(void)
{
    struct server s = server_mysql();

    if (server_number(&s, "SELECT version() LIKE '5.6.%%'"))
        skip();
    return s;
}

/* B has A's disk of a moment; A goes on, and what it grants then B does not know. B takes over, and
 * A comes back. */
static int take_turns_on_mysql(void)
{
    struct server a = server_that_tells_its_start(), b;
    int risen;

    begin(&a, sqlock_driver_mysql());
    risen = visit(&a);
    server_kill(&a);
    b = server_copy(&a);
    server_again(&a);
    risen += visit(&a);
    server_kill(&a);
    server_again(&b);
    risen += visit(&b);
    server_kill(&b);
    server_again(&a);
    risen += visit(&a);
    server_kill(&a);
    return risen;
}

static void test_P2_tokens_rise_over_a_copy_and_a_failback_on_mysql(void **state)
{
    (void)state;
    assert_int_equal(take_turns_on_mysql(), 4);
}

static void test_P2_tokens_rise_over_three_restarts_and_an_older_copy_on_mysql(void **state)
{
    struct server a = server_that_tells_its_start(), b;
    (void)state;

    begin(&a, sqlock_driver_mysql());
    assert_true(visit(&a));
    server_kill(&a);
    b = server_copy(&a);
    for (int i = 0; i < 3; i++) {
        server_again(&a);
        assert_true(visit(&a));
        server_kill(&a);
    }
    server_again(&b);
    assert_true(visit(&b));
    server_kill(&b);
}
#endif

static const struct CMUnitTest tests[] = {
#ifdef TEST_HAVE_POSTGRES
    cmocka_unit_test(test_P2_tokens_rise_over_two_promotions_that_know_nothing_of_each_other),
    cmocka_unit_test(test_P2_tokens_rise_over_a_failback_without_a_rebuild),
    cmocka_unit_test(test_P2_tokens_rise_over_three_restarts_and_the_promotion_of_a_copy),
    cmocka_unit_test(test_P2_clock_behind_the_tokens_is_refused_or_lifts_them),
    cmocka_unit_test(test_nobody_is_granted_what_a_lost_commit_may_have_granted),
#endif
#ifdef TEST_HAVE_MYSQL
    cmocka_unit_test(test_P2_tokens_rise_over_a_copy_and_a_failback_on_mysql),
    cmocka_unit_test(test_P2_tokens_rise_over_three_restarts_and_an_older_copy_on_mysql),
#endif
};

TEST_MAIN(tests)
