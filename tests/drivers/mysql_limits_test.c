/* P18: a time limit that an administrator has set for a user, or for a statement. A connection of
 * our own is not bound by the first; the second is told for what it is. */
#include <sqlock/mysql.h>

#include "tests/drivers/suite_in_transaction.h"
#include "tests/lib/my.h"
#include "tests/lib/mysql_quirks.h"

static void *own;

/* A connection of ours, for the requests of the test. */
static void connect_as(const char *user)
{
    sqlock_conn_opts o = {.size = sizeof o, .scripts = g.scripts, .wake_fd = -1};
    char url[400];

    snprintf(url, sizeof url, "mysql://%s@localhost/?socket=%s", user, my_socket_path());
    o.url = url;
    ok(g.driver->open(&o, soon(), &own, &said));
}

TEST_AFTER(begin_app, test_limit_of_a_user_does_not_bind_our_connections)
{
    if (!my_is_mariadb())
        skip(); /* MySQL has no such limit */
    my_exec("CREATE OR REPLACE USER limited@localhost WITH MAX_STATEMENT_TIME 0.05");
    connect_as("limited");
    ok(run_own(own, "SELECT 0, 1 FROM DUAL WHERE SLEEP(0.2) = 0"));
    g.driver->close(own);
    my_exec("DROP USER limited@localhost");
}

TEST_AFTER(begin_app, test_limit_of_a_statement_is_not_reported_as_contention)
{
    if (!my_is_mariadb())
        skip();
    connect_as("root");
    says(SQLOCK_EDB,
         run_own(own, "SET STATEMENT max_statement_time = 0.05 FOR SELECT 0, 1 FROM DUAL "
                      "WHERE SLEEP(0.2) = 0"));
    assert_string_equal(said.sqlstate, "57014");
    assert_int_equal(said.native, 1969);
    assert_true((said.flags & SQLOCK_RETRY) != 0);
    ok(run_own(own, "SELECT 0, 1")); /* the connection goes on */
    g.driver->close(own);
}

TEST_MAIN_ON(mysql)
