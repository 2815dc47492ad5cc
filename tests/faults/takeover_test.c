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

static sqlock_error err;

/* ---- grace ----------------------------------------------------------------------------------- */

/* The schema is known to the copy, and nothing that was granted since. */
static void judge_first_grants(struct server a)
{
    struct server b;
    sqlock_lock *held, *none = NULL;
    sqlock *on_a, *on_b;
    struct db db = db_of(a.url);

    db.grace_ms = 60000;
    db_migrate(db);
    b = server_branch(&a);
    on_a = db_open(db);
    held = lock_now(on_a, "job");
    server_kill(&a);
    server_take_over(&b);
    on_b = db_open(db_by(db, b.url));
    assert_code(SQLOCK_EBUSY, lock_try(on_b, "job", 0, &none, &err), &err);
    assert_true(sqlock_is_held(held));
    sqlock_lock_free(held);
    sqlock_close(on_a);
    sqlock_close(on_b);
}

TEST(test_P1_the_first_grants_ever_are_kept_by_a_grace_postgres)
{
    judge_first_grants(server_postgres());
}

TEST(test_P1_the_first_grants_ever_are_kept_by_a_grace_mysql)
{
    judge_first_grants(server_mysql());
}

/* ---- reasons --------------------------------------------------------------------------------- */

/* Nobody renews it, so it is looked at when the server was started anew. */
static void judge_reason(struct server a)
{
    struct db db = db_of(a.url);
    sqlock_lock *held, *other = NULL;
    sqlock *m, *operator;

    db_migrate(db);
    m = db_open(db);
    held = lock_take(m, "job", 0, SQLOCK_NO_RENEW);
    server_kill(&a);
    server_again(&a);
    operator= db_open(db);
    assert_ok(sqlock_break(operator, "job", sqlock_lock_token(held), &err), &err);
    assert_soon(lock_try(m, "other", 0, &other, &err) == 0, patience_ms(10000));
    assert_soon(sqlock_lock_state(held) == SQLOCK_LOST, patience_ms(10000));
    assert_int_equal(sqlock_lock_why(held), SQLOCK_WHY_BROKEN);
    sqlock_lock_free(held);
    sqlock_lock_free(other);
    sqlock_close(m);
    sqlock_close(operator);
}

TEST(test_P6_a_break_after_a_restart_is_reported_as_one_postgres)
{
    judge_reason(server_postgres());
}

TEST(test_P6_a_break_after_a_restart_is_reported_as_one_mysql)
{
    judge_reason(server_mysql());
}

/* ---- a standby that is waited for ------------------------------------------------------------ */

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
    setter.code =
        sqlock_register_set(setter.m, "r", "new", 3, setter.version, &setter.version, &setter.err);
    atomic_store(&setter.ended, 1);
    return NULL;
}

static int set_while_the_wait_is_cut(const struct server *a)
{
    pthread_t t;

    atomic_store(&setter.ended, 0);
    assert_int_equal(pthread_create(&t, NULL, set_register, NULL), 0);
    for (int cuts = 0; cuts < 2; cuts++)
        assert_soon(server_number(a, "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity "
                                     "WHERE wait_event = 'SyncRep'") > 0 ||
                        atomic_load(&setter.ended),
                    patience_ms(10000));
    pthread_join(t, NULL);
    return setter.code;
}

/* Somebody cuts the wait for the standby. The server shows the row; nobody knows if it lasts. The
 * setter's session may learn a moment late that it is to wait. */
TEST(test_P13_a_set_is_done_when_the_standby_has_it)
{
    struct server a = server_postgres();

    db_migrate(db_of(a.url));
    memset(&setter, 0, sizeof setter);
    setter.m = db_open(db_of(a.url));
    assert_ok(sqlock_register_set(setter.m, "r", "old", 3, 0, &setter.version, &err), &err);
    server_set(&a, "synchronous_standby_names", "gone");
    for (int i = 0; i < 3 && set_while_the_wait_is_cut(&a) == SQLOCK_OK; i++)
        sleep_ms(200);
    assert_code(SQLOCK_EUNSURE, setter.code, &setter.err);
    server_set(&a, "synchronous_standby_names", NULL);
    sqlock_close(setter.m);
}

/* ---- a pooler -------------------------------------------------------------------------------- */

/* Its clients' connections outlive the servers that it leads to. */
static void lead_to(const char *link, const struct server *to, const struct server *from)
{
    char folder[256], *fresh = textf("%s.new", link);

    server_folder(to, folder);
    assert_int_equal(symlink(folder, fresh), 0);
    assert_int_equal(rename(fresh, link), 0);
    if (from != NULL)
        server_number(from, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE "
                            "pid <> pg_backend_pid() AND backend_type = 'client backend'");
}

TEST(test_P2_tokens_rise_when_a_pooler_leads_back_to_the_old_primary)
{
    struct server a = server_postgres(), b;
    struct db db = db_of(a.url);
    int64_t first, second;
    char *folder, *link;
    sqlock *m;

    db_migrate(db);
    b = server_copy(&a);
    folder = temp_dir();
    assert_int_equal(chmod(folder, 0755), 0); /* the pooler is another user */
    link = textf("%s/server", folder);
    lead_to(link, &a, NULL);
    if ((db.url = pooler_start(link, 4)) == NULL)
        skip();
    m = db_open(db_with(db, SQLOCK_OPEN_UNPREPARED | SQLOCK_OPEN_DURABLE_RELEASE));
    first = lock_draw(m, "x");
    assert_soon(server_number(&b, "SELECT count(*) FROM sqlock_lock") == 1, patience_ms(10000));
    server_promote(&b);
    lead_to(link, &b, &a);
    second = lock_draw(m, "x");
    assert_true(second > first);
    lead_to(link, &a, &b);
    assert_true(lock_draw(m, "x") > second);
    sqlock_close(m);
    pooler_stop(NULL);
}

TEST_MAIN_EACH(NULL, NULL)
