/* MariaDB servers that may forget commits: refused, or another server at each start. */
#include <sqlock/mysql.h>
#include <sqlock/register.h>
#include <string.h>
#include <unistd.h>

#include "tests/input/mysql_open.h"
#include "tests/lib/my_private.h"

static sqlock_error err;

TEST(test_weak_flushing_is_refused_unless_accepted)
{
    sqlock_error accepted;
    int rc, weak;

    mysql_migrated();
    my_private_exec("SET GLOBAL innodb_flush_log_at_trx_commit = 2");
    rc = mysql_try(my_private_url(), 0, &err);
    weak = mysql_try(my_private_url(), SQLOCK_OPEN_ACCEPT_WEAK, &accepted);
    my_private_exec("SET GLOBAL innodb_flush_log_at_trx_commit = 1");
    assert_error(SQLOCK_EREFUSED, "innodb_flush_log_at_trx_commit", rc, &err);
    if (strcmp(mysql_kind(), "5.6") == 0) { /* it does not tell when it was started */
        assert_code(SQLOCK_EREFUSED, weak, &accepted);
        return;
    }
    assert_ok(weak, &accepted);
    if (strcmp(mysql_kind(), "MariaDB") == 0) /* it has no such statement */
        return;
    my_private_exec("ALTER INSTANCE DISABLE INNODB REDO_LOG");
    rc = mysql_try(my_private_url(), 0, &err);
    my_private_exec("ALTER INSTANCE ENABLE INNODB REDO_LOG");
    assert_error(SQLOCK_EREFUSED, "redo log", rc, &err);
}

TEST(test_a_server_that_never_syncs_is_refused_unless_accepted)
{
    static const char *const ways[] = {"nosync", "littlesync"};

    mysql_skip_on("5.6"); /* test_weak_flushing_... */
    mysql_migrated();
    for (size_t i = 0; i < 2; i++) {
        my_private_restart(i ? "--innodb-flush-method=littlesync" : "--innodb-flush-method=nosync");
        assert_code(SQLOCK_EREFUSED, mysql_try(my_private_url(), 0, &err), &err);
        assert_says(&err, ways[i]);
        assert_ok(mysql_try(my_private_url(), SQLOCK_OPEN_ACCEPT_WEAK, &err), &err);
    }
    my_private_restart("");
    assert_ok(mysql_try(my_private_url(), 0, &err), &err);
}

/* How often the server was another one, or started anew. */
static int64_t servers(void)
{
    return my_private_number("SELECT inc FROM test.sqlock_meta");
}

/* 1: the last one may lack commits. */
static int64_t may_lack_commits(void)
{
    return my_private_number("SELECT lost_at >= fence_floor FROM test.sqlock_meta");
}

/* Each start raises the floor of tokens, once. Of a server that forgets nothing it is told that
 * nothing is missing. */
TEST(test_a_forgetful_server_may_lack_commits_after_each_start)
{
    const char *weak = "--innodb-flush-log-at-trx-commit=2";
    int64_t before;

    mysql_skip_on("5.6"); /* test_weak_flushing_... */
    mysql_migrated();
    assert_ok(mysql_try(my_private_url(), 0, &err), &err);
    before = servers();
    for (int i = 1; i <= 4; i++) {
        const char *args = i == 2 || i == 3 ? weak : "";
        unsigned flags = i == 2 || i == 3 ? SQLOCK_OPEN_ACCEPT_WEAK : 0;

        my_private_restart(args);
        for (int again = 0; again < 3; again++) {
            assert_ok(mysql_try(my_private_url(), flags, &err), &err);
            assert_int_equal(servers(), before + i);
            usleep(700 * 1000); /* whatever the second says */
        }
        assert_int_equal(may_lack_commits(), i > 1); /* the fourth: the one before it forgot */
    }
    my_private_restart("");
    assert_ok(mysql_try(my_private_url(), 0, &err), &err);
    assert_int_equal(servers(), before + 5);
    assert_int_equal(may_lack_commits(), 0);
}

/* A manager on the private server. */
static sqlock *open_as(unsigned flags)
{
    return db_open(db_with(mysql_db(my_private_url()), flags));
}

/* The token of a grant, which is given up with its client. */
static int64_t draw(const char *name)
{
    sqlock *m = open_as(SQLOCK_OPEN_ACCEPT_WEAK);
    sqlock_lock *lock = lock_take(m, name, 0, 0);
    int64_t token = sqlock_lock_token(lock);

    sqlock_lock_free(lock);
    sqlock_close(m);
    return token;
}

/* The log is written once in 45 minutes: later commits go with the server, and the grant too. */
TEST(test_tokens_rise_over_a_crash_that_forgot_a_grant)
{
    const char *weak = "--innodb-flush-log-at-trx-commit=0 --innodb-flush-log-at-timeout=2700";
    int64_t forgotten;

    mysql_skip_on("5.6");
    mysql_migrated();
    my_private_restart(weak);
    forgotten = draw("forgotten");
    my_private_restart(weak);
    assert_int_equal(my_private_number("SELECT COUNT(*) FROM test.sqlock_lock "
                                       "WHERE name = 'forgotten' AND token >= %lld",
                                       (long long)forgotten),
                     0);
    assert_true(draw("forgotten") > forgotten);
    my_private_exec("DELETE FROM test.sqlock_lock WHERE name = 'forgotten'");
    my_private_restart("");
}

/* P13: what meta knows it by says when it was started, too. */
TEST(test_a_forgetful_server_keeps_registers)
{
    int64_t first = 0, second = 0;
    size_t len;
    sqlock *m;

    mysql_skip_on("5.6");
    mysql_migrated();
    my_private_restart("--innodb-flush-log-at-trx-commit=2");
    m = open_as(SQLOCK_OPEN_ACCEPT_WEAK);
    assert_ok(sqlock_register_set(m, "config", "one", 3, 0, &first, &err), &err);
    assert_ok(sqlock_register_set(m, "config", "two", 3, first, &second, &err), &err);
    assert_int_equal(second, first + 1);
    assert_ok(sqlock_register_get(m, "config", NULL, 0, &len, &first, &err), &err);
    assert_int_equal(first, second);
    sqlock_close(m);
    my_private_exec("DELETE FROM test.sqlock_register");
    my_private_restart("");
}

static void assert_grants_nothing(sqlock *m)
{
    sqlock_lock *lock = NULL;
    int64_t version;

    assert_code(SQLOCK_EREFUSED, lock_try(m, "later", 0, &lock, &err), &err);
    assert_error(SQLOCK_EREFUSED, "innodb_flush_log_at_trx_commit",
                 sqlock_register_set(m, "later", "", 0, 0, &version, &err), &err);
}

/* P2: who was there before it became forgetful draws no token that its crash would forget. */
TEST(test_a_server_that_becomes_forgetful_grants_nothing_unless_accepted)
{
    sqlock_lock *lock;
    sqlock *strict, *lenient;
    int64_t before, inc;

    mysql_skip_on("5.6");
    mysql_migrated();
    strict = open_as(0);
    lenient = open_as(SQLOCK_OPEN_ACCEPT_WEAK);
    before = lock_draw(strict, "later");
    inc = servers();
    my_private_exec("SET GLOBAL innodb_flush_log_at_trx_commit = 0");
    assert_grants_nothing(strict);
    lock = lock_take(lenient, "later", 0, SQLOCK_NO_RENEW);
    my_private_exec("SET GLOBAL innodb_flush_log_at_trx_commit = 1");
    assert_int_equal(servers(), inc + 1);
    assert_true(sqlock_lock_token(lock) > before + 1);
    lock_give(lock);
    lock_draw(strict, "later");
    sqlock_close(lenient);
    sqlock_close(strict);
}

TEST_MAIN_EACH(NULL, NULL)
