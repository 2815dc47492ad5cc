/* Several requests in one transaction on MariaDB: what it costs, and that none of them is answered
 * before the transaction is committed. */
#include <mysql.h>
#include <pthread.h>

#include <sqlock/admin.h>
#include <sqlock/many.h>
#include <sqlock/mysql.h>

#include "core/engine/batch.h"
#include "tests/drivers/suite.h"
#include "tests/lib/my.h"
#include "tests/lib/my_private.h"
#include "tests/lib/mysql_quirks.h"
#include "tests/lib/proxy.h"

enum { SWAPS = 20, NAMES = 12 };

static struct {
    char url[400];
    sqlock *m, *other;
    sqlock_lock *locks[NAMES];
    char texts[NAMES][8];
    const char *names[NAMES];
} s;

/* Not with SQLOCK_TEST_APART, nor with MySQL's own client library. */
static int go_together(void)
{
    return my_is_mariadb() && batch_most > 1 && (sqlock_driver_mysql()->caps & SQLOCK_CAP_GROUPS);
}

static sqlock *opened(const char *url)
{
    sqlock *m = NULL;

    ok(sqlock_open(sqlock_driver_mysql(), url, NULL, &m, &said));
    return m;
}

/* Two managers on an empty database of that server. */
static void begin(const char *socket, const char *database)
{
    memset(&s, 0, sizeof s);
    for (int i = 0; i < NAMES; i++) {
        snprintf(s.texts[i], sizeof s.texts[i], "n%02d", i);
        s.names[i] = s.texts[i];
    }
    snprintf(s.url, sizeof s.url, "mysql://root@localhost/%s?socket=%s", database, socket);
    ok(sqlock_migrate(sqlock_driver_mysql(), s.url, NULL, NULL, &said));
    s.m = opened(s.url);
    s.other = opened(s.url);
}

static void begin_private(const char *args)
{
    my_private_restart(args);
    my_private_exec("DROP DATABASE IF EXISTS together");
    my_private_exec("CREATE DATABASE together");
    begin(my_private_socket(), "together");
}

static void end(void)
{
    sqlock_close(s.m);
    sqlock_close(s.other);
}

static sqlock_acquire_opts opts_of(int32_t wait_ms)
{
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;

    o.wait_ms = wait_ms;
    o.lease_ms = 60000;
    o.flags = SQLOCK_NO_RENEW;
    return o;
}

static int swap(sqlock *m, const char *name, int32_t wait_ms, int *out_released)
{
    sqlock_acquire_opts o = opts_of(wait_ms);

    return sqlock_swap(m, &s.locks[0], name, &o, out_released, &said);
}

/* The rows are there, and this session keeps the statements. */
static void take_all(sqlock *m)
{
    sqlock_acquire_opts o = opts_of(10000);

    ok(sqlock_acquire_each(m, s.names, NAMES, &o, s.locks, NULL, &said));
}

static void give_all(void)
{
    ok(sqlock_end_each(s.locks, NAMES, NULL, &said));
}

static void assert_ours(size_t i)
{
    sqlock_info info = {.size = sizeof info};

    assert_non_null(s.locks[i]);
    ok(sqlock_find(s.other, sqlock_lock_name(s.locks[i]), &info, &said));
    assert_int_equal(info.holder.token, sqlock_lock_token(s.locks[i]));
}

/* ---- cost ------------------------------------------------------------------------------------ */

TEST(test_swap_is_one_request_and_one_commit)
{
    struct proxy *p;
    char path[300];
    int before;

    if (!go_together())
        skip();
    p = proxy_start_unix(my_socket_path());
    snprintf(path, sizeof path, "%s/.s.PGSQL.5432", proxy_dir(p));
    begin(path, my_database_new());
    take_all(s.m);
    give_all();
    for (int i = 0; i < 2; i++)
        ok(swap(s.m, s.names[i], 0, NULL));
    before = proxy_requests(p);
    for (int i = 0; i < SWAPS; i++)
        ok(swap(s.m, s.names[i % 2], 0, NULL));
    assert_int_equal(proxy_requests(p) - before, SWAPS);
    assert_ours(0);
    ok(sqlock_end_each(s.locks, 1, NULL, &said));
    end();
    proxy_stop(p);
}

/* ---- a row that another session has locked --------------------------------------------------- */

static void stranger_says(MYSQL *my, const char *sql)
{
    if (mysql_query(my, sql) != 0)
        fail_msg("%s: %s", mysql_error(my), sql);
    mysql_free_result(mysql_store_result(my));
}

static MYSQL *stranger(const char *socket, const char *database)
{
    MYSQL *my = mysql_init(NULL);

    assert_non_null(mysql_real_connect(my, NULL, "root", "", database, 0, socket, 0));
    return my;
}

static void stranger_locks_n01(MYSQL *my)
{
    stranger_says(my, "START TRANSACTION");
    stranger_says(my, "SELECT 1 FROM sqlock_lock WHERE ns = '' AND name = 'n01' FOR UPDATE");
}

/* The other one is done, by the same connection. */
static void meet_a_locked_row(MYSQL *my)
{
    int released = -1;

    take_all(s.m);
    give_all();
    ok(swap(s.m, s.names[0], 0, NULL));
    stranger_locks_n01(my);
    says(SQLOCK_EBUSY, swap(s.m, s.names[1], 0, &released));
    assert_int_equal(released, SQLOCK_OK);
    assert_null(s.locks[0]);
    assert_true(is_free(s.other, s.names[0]));
    stranger_says(my, "ROLLBACK");
    s.locks[0] = forget(take_for(s.m, s.names[1], 60000, SQLOCK_NO_RENEW));
    stranger_locks_n01(my);
    says(SQLOCK_OK, swap(s.m, s.names[2], 0, &released));
    assert_int_not_equal(released, SQLOCK_OK);
    assert_ours(0);
    stranger_says(my, "ROLLBACK");
    ok(sqlock_end_each(s.locks, 1, NULL, &said));
}

TEST(test_swap_for_a_locked_row_gives_back)
{
    const char *database = my_database_new();
    MYSQL *my;

    if (!go_together())
        skip();
    begin(my_socket_path(), database);
    meet_a_locked_row(my = stranger(my_socket_path(), database));
    mysql_close(my);
    end();
}

/* There a statement that waited too long ends the transaction: what was given back in it is not. */
TEST(test_swap_for_a_locked_row_gives_back_where_a_timeout_rolls_back)
{
    MYSQL *my;

    if (!go_together())
        skip();
    begin_private("--innodb-rollback-on-timeout=ON");
    meet_a_locked_row(my = stranger(my_private_socket(), "together"));
    mysql_close(my);
    end();
}

/* ---- one request that fails ------------------------------------------------------------------ */

/* The next grants of n01, so many, fail with that number. The count is in a table that no rollback
 * resets. */
static void grants_of_n01_fail(MYSQL *my, int number, int times)
{
    char sql[400];

    stranger_says(my, "DROP TRIGGER IF EXISTS grants");
    stranger_says(my, "CREATE OR REPLACE TABLE failures (n INT) ENGINE = Aria TRANSACTIONAL = 0");
    snprintf(sql, sizeof sql, "INSERT INTO failures VALUES (%d)", times);
    stranger_says(my, sql);
    snprintf(sql, sizeof sql,
             "CREATE TRIGGER grants BEFORE UPDATE ON sqlock_lock FOR EACH ROW "
             "IF NEW.name = 'n01' AND NEW.owner IS NOT NULL AND (SELECT n FROM failures) > 0 THEN "
             "UPDATE failures SET n = n - 1; "
             "SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = %d, MESSAGE_TEXT = 'planted'; END IF",
             number);
    stranger_says(my, sql);
}

static int failures_left(MYSQL *my)
{
    MYSQL_RES *res = NULL;
    int n;

    if (mysql_query(my, "SELECT n FROM failures") != 0 || (res = mysql_store_result(my)) == NULL)
        fail_msg("%s", mysql_error(my));
    n = atoi(mysql_fetch_row(res)[0]);
    mysql_free_result(res);
    return n;
}

/* So that the next ones are statements for many. */
static void meet_a_holder(void)
{
    sqlock_lock *held = forget(take_for(s.other, s.names[5], 60000, SQLOCK_NO_RENEW));

    says(SQLOCK_EBUSY, swap(s.m, s.names[5], 0, NULL));
    assert_null(s.locks[0]);
    ok(sqlock_lock_end(&held, &said));
    s.locks[0] = forget(take_for(s.m, s.names[0], 60000, SQLOCK_NO_RENEW));
}

static void begin_failures(MYSQL **out_my, int many)
{
    const char *database = my_database_new();

    begin(my_socket_path(), database);
    *out_my = stranger(my_socket_path(), database);
    take_all(s.m);
    give_all();
    ok(swap(s.m, s.names[0], 0, NULL));
    if (many)
        meet_a_holder();
}

static void end_failures(MYSQL *my)
{
    mysql_close(my);
    end();
}

/* First the transaction fails, then the request alone. */
TEST(test_request_that_fails_leaves_the_other_one_alone)
{
    MYSQL *my;

    if (!go_together())
        skip();
    for (int many = 0; many < 2; many++) {
        int released = -1;

        begin_failures(&my, many);
        grants_of_n01_fail(my, 1644, 2);
        says(SQLOCK_EDB, swap(s.m, s.names[1], 0, &released));
        assert_int_equal(said.flags & SQLOCK_MAYBE, 0);
        assert_int_equal(failures_left(my), 0);
        assert_int_equal(released, SQLOCK_OK);
        assert_null(s.locks[0]);
        assert_true(is_free(s.other, s.names[0]));
        assert_true(is_free(s.other, s.names[1]));
        end_failures(my);
    }
}

/* A deadlock, and a wait that was too long. The server has ended the whole transaction with the
 * first one. */
TEST(test_transaction_that_met_a_deadlock_is_made_again)
{
    static const int numbers[] = {1213, 1205, 1020};
    MYSQL *my;

    if (!go_together())
        skip();
    for (int i = 0; i < 6; i++) {
        int released = -1;

        begin_failures(&my, i % 2);
        grants_of_n01_fail(my, numbers[i / 2], 1);
        ok(swap(s.m, s.names[1], 5000, &released));
        assert_int_equal(failures_left(my), 0);
        assert_int_equal(released, SQLOCK_OK);
        assert_string_equal(sqlock_lock_name(s.locks[0]), "n01");
        assert_ours(0);
        assert_true(is_free(s.other, s.names[0]));
        ok(sqlock_end_each(s.locks, 1, NULL, &said));
        end_failures(my);
    }
}

/* ---- a commit that fails --------------------------------------------------------------------- */

static int code, ended;

static void *swap_it(void *arg)
{
    code = swap(s.m, s.names[1], 20000, &ended);
    return arg;
}

static void *end_them(void *arg)
{
    static sqlock_error err;

    code = sqlock_end_each(s.locks, NAMES, NULL, &err);
    return arg;
}

/* MariaDB's own backup keeps commits waiting, and no other statement. The session is killed there:
 * it has answered all, and nothing of it is done. */
static void kill_in_commit(MYSQL *my, void *(*call)(void *))
{
    static const char *const stages[] = {"START", "FLUSH", "BLOCK_DDL", "BLOCK_COMMIT"};
    pthread_t caller;
    char sql[64];
    int64_t id = -1;

    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        snprintf(sql, sizeof sql, "BACKUP STAGE %s", stages[i]);
        stranger_says(my, sql);
    }
    assert_int_equal(pthread_create(&caller, NULL, call, NULL), 0);
    for (int i = 0; id < 0 && i < 1000; i++) {
        sleep_ms(10);
        id = my_private_number("SELECT MIN(id) FROM information_schema.processlist "
                               "WHERE info = 'COMMIT' AND state LIKE '%%backup lock%%'");
    }
    assert_true(id > 0);
    snprintf(sql, sizeof sql, "KILL %lld", (long long)id);
    stranger_says(my, sql);
    for (int i = 0;
         i < 1000 && my_private_number("SELECT COUNT(*) FROM information_schema.processlist "
                                       "WHERE id = %lld",
                                       (long long)id) > 0;
         i++)
        sleep_ms(10);
    stranger_says(my, "BACKUP STAGE END");
    pthread_join(caller, NULL);
}

TEST(test_P5_what_came_before_a_commit_that_failed_is_settled)
{
    MYSQL *my;

    if (!go_together())
        skip();
    begin_private("");
    my = stranger(my_private_socket(), "together");
    take_all(s.m);
    give_all();
    ok(swap(s.m, s.names[0], 0, NULL));
    ended = -1;
    kill_in_commit(my, swap_it);
    assert_int_equal(code, SQLOCK_OK);
    assert_int_equal(ended, SQLOCK_OK);
    assert_ours(0);
    assert_true(is_free(s.other, s.names[0]));
    ok(sqlock_end_each(s.locks, 1, NULL, &said));
    take_all(s.m);
    kill_in_commit(my, end_them);
    assert_int_equal(code, SQLOCK_OK);
    for (int i = 0; i < NAMES; i++)
        assert_true(is_free(s.other, s.names[i]));
    mysql_close(my);
    end();
}

TEST_MAIN_ON(mysql)
