/* What is told of locks and registers when a server takes over, and of what was lost on the way
 * (P1, P2, P6, P13). */
#include "tests/faults/faults.h"

#include <pthread.h>
#include <sqlock/register.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/pooler.h"
#include "tests/lib/servers.h"

#ifdef TEST_HAVE_POSTGRES
#include <sqlock/postgres.h>
#endif
#ifdef TEST_HAVE_MYSQL
#include <sqlock/mysql.h>
#endif

static const sqlock_driver *driver;

static void migrate(const struct server *s, const sqlock_driver *d)
{
    sqlock_error err;

    driver = d;
    assert_ok(sqlock_migrate(driver, s->url, NULL, NULL, &err), &err);
}

static sqlock *open_at(const char *url, int32_t grace_ms, unsigned flags)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock_error err;
    sqlock *m = NULL;

    o.grace_ms = grace_ms;
    o.flags = flags;
    assert_ok(sqlock_open(driver, url, &o, &m, &err), &err);
    return m;
}

static int try_lock(sqlock *m, const char *name, unsigned flags, sqlock_lock **out)
{
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_error err;

    o.wait_ms = 0;
    o.flags = flags;
    *out = NULL;
    return sqlock_acquire(m, name, &o, out, &err);
}

/* ---- grace --------------------------------------------------------------------------------------
 */

/* The schema reached the follower, and nothing that was granted since. */
static void judge_first_grants(const struct server *a, const struct server *b, sqlock *on_a,
                               void (*take_over)(const struct server *))
{
    sqlock_lock *held, *none;
    sqlock *on_b;

    assert_int_equal(try_lock(on_a, "job", 0, &held), 0);
    server_kill(a);
    take_over(b);
    on_b = open_at(b->url, 60000, 0);
    assert_int_equal(try_lock(on_b, "job", 0, &none), SQLOCK_EBUSY);
    assert_true(sqlock_is_held(held));
    sqlock_lock_free(held);
    sqlock_close(on_a);
    sqlock_close(on_b);
}

#ifdef TEST_HAVE_POSTGRES
static void test_P1_the_first_grants_ever_are_kept_by_a_grace_postgres(void **state)
{
    struct server a = server_postgres(), b;

    (void)state;
    migrate(&a, sqlock_driver_postgres());
    b = server_copy(&a);
    assert_soon(server_number(&b, "SELECT count(*) FROM sqlock_meta WHERE server <> ''") == 1,
                patience_ms(10000));
    server_cut(&b);
    judge_first_grants(&a, &b, open_at(a.url, 60000, 0), server_promote);
}
#endif

#ifdef TEST_HAVE_MYSQL
static void test_P1_the_first_grants_ever_are_kept_by_a_grace_mysql(void **state)
{
    struct server a = server_mysql(), b;

    (void)state;
    migrate(&a, sqlock_driver_mysql());
    server_kill(&a);
    b = server_copy(&a);
    server_again(&a);
    judge_first_grants(&a, &b, open_at(a.url, 60000, 0), server_again);
}
#endif

/* ---- reasons ------------------------------------------------------------------------------------
 */

/* Nobody renews it, so it is looked at when the server was started anew. */
static void judge_reason(struct server a, const sqlock_driver *d)
{
    sqlock_lock *held, *other;
    sqlock *m, *operator;
    sqlock_error err;

    migrate(&a, d);
    m = open_at(a.url, 0, 0);
    assert_int_equal(try_lock(m, "job", SQLOCK_NO_RENEW, &held), 0);
    server_kill(&a);
    server_again(&a);
    operator= open_at(a.url, 0, 0);
    assert_ok(sqlock_break(operator, "job", sqlock_lock_token(held), &err), &err);
    assert_soon(try_lock(m, "other", 0, &other) == 0, patience_ms(10000));
    assert_soon(sqlock_lock_state(held) == SQLOCK_LOST, patience_ms(10000));
    assert_int_equal(sqlock_lock_why(held), SQLOCK_WHY_BROKEN);
    sqlock_lock_free(held);
    sqlock_lock_free(other);
    sqlock_close(m);
    sqlock_close(operator);
}

#ifdef TEST_HAVE_POSTGRES
static void test_P6_a_break_after_a_restart_is_told_as_one_postgres(void **state)
{
    (void)state;
    judge_reason(server_postgres(), sqlock_driver_postgres());
}
#endif

#ifdef TEST_HAVE_MYSQL
static void test_P6_a_break_after_a_restart_is_told_as_one_mysql(void **state)
{
    (void)state;
    judge_reason(server_mysql(), sqlock_driver_mysql());
}
#endif

#ifdef TEST_HAVE_POSTGRES
/* ---- a standby that is waited for --------------------------------------------------------------
 */

static struct setter {
    sqlock *m;
    int64_t version;
    int code;
    sqlock_error err;
    atomic_int ended;
} setter;

static void *set_register(void *arg)
{
    (void)arg;
    setter.code = sqlock_register_set(setter.m, "r", "new", 3, setter.version, NULL, &setter.err);
    atomic_store(&setter.ended, 1);
    return NULL;
}

/* Somebody cuts the wait for the standby. The server shows the row; whether it lasts nobody knows.
 */
static void test_P13_a_set_is_done_when_the_standby_has_it(void **state)
{
    struct server a = server_postgres();
    sqlock_error err;
    pthread_t t;

    (void)state;
    migrate(&a, sqlock_driver_postgres());
    memset(&setter, 0, sizeof setter);
    setter.m = open_at(a.url, 0, 0);
    assert_ok(sqlock_register_set(setter.m, "r", "old", 3, 0, &setter.version, &err), &err);
    server_exec(&a, "ALTER SYSTEM SET synchronous_standby_names = 'gone'");
    server_number(&a, "SELECT pg_reload_conf()::int");
    assert_soon(server_number(&a, "SELECT count(*) FROM pg_settings WHERE name = "
                                  "'synchronous_standby_names' AND setting = 'gone'") == 1,
                patience_ms(5000));
    assert_int_equal(pthread_create(&t, NULL, set_register, NULL), 0);
    for (int cuts = 0; cuts < 2; cuts++)
        assert_soon(server_number(&a, "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity "
                                      "WHERE wait_event = 'SyncRep'") > 0 ||
                        atomic_load(&setter.ended),
                    patience_ms(10000));
    pthread_join(t, NULL);
    assert_code(SQLOCK_EUNSURE, setter.code, &setter.err);
    server_exec(&a, "ALTER SYSTEM RESET synchronous_standby_names");
    server_number(&a, "SELECT pg_reload_conf()::int");
    sqlock_close(setter.m);
}

/* ---- a pooler -----------------------------------------------------------------------------------
 */

/* Its clients' connections outlive the servers that it leads to. */
static void lead_to(const char *link, const struct server *to, const struct server *from)
{
    char folder[256], fresh[320];

    server_folder(to, folder);
    snprintf(fresh, sizeof fresh, "%s.new", link);
    assert_int_equal(symlink(folder, fresh), 0);
    assert_int_equal(rename(fresh, link), 0);
    if (from != NULL)
        server_number(from, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE "
                            "pid <> pg_backend_pid() AND "
                            "backend_type = 'client backend'");
}

static int64_t draw(sqlock *m)
{
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL;
    sqlock_error err;
    int64_t token;

    o.wait_ms = patience_ms(5000);
    assert_ok(sqlock_acquire(m, "x", &o, &lock, &err), &err);
    token = sqlock_lock_token(lock);
    assert_ok(sqlock_release(lock, &err), &err);
    sqlock_lock_free(lock);
    return token;
}

static void test_P2_tokens_rise_when_a_pooler_leads_back_to_the_old_primary(void **state)
{
    struct server a = server_postgres(), b;
    int64_t first, second;
    const char *url, *folder;
    char link[300];
    sqlock *m;

    (void)state;
    migrate(&a, sqlock_driver_postgres());
    b = server_copy(&a);
    folder = temp_dir();
    assert_int_equal(chmod(folder, 0755), 0); /* the pooler is another user */
    snprintf(link, sizeof link, "%s/server", folder);
    lead_to(link, &a, NULL);
    if ((url = pooler_start(link, 4)) == NULL)
        skip();
    m = open_at(url, 0, SQLOCK_OPEN_UNPREPARED);
    first = draw(m);
    assert_soon(server_number(&b, "SELECT count(*) FROM sqlock_lock") == 1, patience_ms(10000));
    server_promote(&b);
    lead_to(link, &b, &a);
    second = draw(m);
    assert_true(second > first);
    lead_to(link, &a, &b);
    assert_true(draw(m) > second);
    sqlock_close(m);
    pooler_stop(NULL);
}
#endif

static const struct CMUnitTest tests[] = {
#ifdef TEST_HAVE_POSTGRES
    cmocka_unit_test(test_P1_the_first_grants_ever_are_kept_by_a_grace_postgres),
    cmocka_unit_test(test_P6_a_break_after_a_restart_is_told_as_one_postgres),
    cmocka_unit_test(test_P13_a_set_is_done_when_the_standby_has_it),
    cmocka_unit_test(test_P2_tokens_rise_when_a_pooler_leads_back_to_the_old_primary),
#endif
#ifdef TEST_HAVE_MYSQL
    cmocka_unit_test(test_P1_the_first_grants_ever_are_kept_by_a_grace_mysql),
    cmocka_unit_test(test_P6_a_break_after_a_restart_is_told_as_one_mysql),
#endif
};

TEST_MAIN(tests)
