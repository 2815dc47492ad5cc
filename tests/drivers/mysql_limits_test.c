/* P18: a time limit that an administrator has set for a user, or for a statement. A connection of
 * our own is not bound by the first; the second is told for what it is. */
#include <sqlock/mysql.h>

#include <stdio.h>

#include "core/sql/rows.h"
#include "tests/drivers/suite.h"
#include "tests/lib/my.h"

/* A request of the test's own. */
static struct limited {
    void *conn;
    sqlock_step step;
    sqlock_script scripts[SQLOCK_STMT_COUNT];
    sqlock_rows *rows;
} l;

static int64_t soon(void)
{
    return sqlock_now_us() + patience_ms(10000) * INT64_C(1000);
}

static void connect_as(const char *user)
{
    sqlock_conn_opts o = {.size = sizeof o, .scripts = l.scripts, .wake_fd = -1};
    char url[400];

    snprintf(url, sizeof url, "mysql://%s@localhost/?socket=%s", user, my_socket_path());
    o.url = url;
    ok(sqlock_driver_mysql()->open(&o, soon(), &l.conn, &said));
    assert_non_null(l.rows = rows_new());
}

static void disconnect(void)
{
    sqlock_driver_mysql()->close(l.conn);
    rows_free(l.rows);
}

static int run(const char *sql)
{
    l.step = (sqlock_step){.sql = sql};
    l.scripts[SQLOCK_STMT_GUARDED] =
        (sqlock_script){.name = "test", .params = "", .n_steps = 1, .steps = &l.step};
    return sqlock_driver_mysql()->run(l.conn, SQLOCK_STMT_GUARDED, NULL, 1, soon(), l.rows, &said);
}

static void test_limit_of_a_user_does_not_bind_our_connections(void **state)
{
    (void)state;
    my_url();
    if (!my_is_mariadb())
        skip(); /* MySQL has no such limit */
    my_exec("CREATE OR REPLACE USER limited@localhost WITH MAX_STATEMENT_TIME 0.05");
    connect_as("limited");
    ok(run("SELECT 0, 1 FROM DUAL WHERE SLEEP(0.2) = 0"));
    disconnect();
    my_exec("DROP USER limited@localhost");
}

static void test_limit_of_a_statement_is_not_told_as_contention(void **state)
{
    (void)state;
    my_url();
    if (!my_is_mariadb())
        skip();
    connect_as("root");
    says(SQLOCK_EDB, run("SET STATEMENT max_statement_time = 0.05 FOR SELECT 0, 1 FROM DUAL "
                         "WHERE SLEEP(0.2) = 0"));
    assert_string_equal(said.sqlstate, "57014");
    assert_int_equal(said.native, 1969);
    assert_true((said.flags & SQLOCK_RETRY) != 0);
    ok(run("SELECT 0, 1")); /* the connection goes on */
    disconnect();
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_limit_of_a_user_does_not_bind_our_connections),
    cmocka_unit_test(test_limit_of_a_statement_is_not_told_as_contention),
};

TEST_MAIN(tests)
