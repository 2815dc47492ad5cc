/* P11, P16 on MariaDB and MySQL: a guard would be lost when an XA transaction is prepared. */
#include <mysql.h>

#include <sqlock/mysql.h>
#include <sqlock/transaction.h>

#include "tests/drivers/mysql_adopted.h"
#include "tests/drivers/suite.h"
#include "tests/lib/my.h"
#include "tests/lib/mysql_quirks.h"

static struct {
    sqlock *m;
    sqlock_lock *lock;
    sqlock_conn *conn;
} s;

static void begin(struct world *w)
{
    begin_mysql(w);
    s.m = open_manager(g.w, NULL);
    s.lock = take_for(s.m, "sale", 10000, SQLOCK_NO_RENEW);
    s.conn = adopted(s.m, g.app);
}

static int guard(void)
{
    return sqlock_guard(s.lock, s.conn, &said);
}

/* A guard as it is written by hand keeps nobody out there: so this is what is refused. */
TEST(test_prepared_transaction_of_mariadb_lets_go_of_share_locks)
{
    sqlock_lock *thiefs;

    begin(w);
    if (strstr(mysql_get_server_info(native(g.app)), "MariaDB") == NULL)
        skip();
    app_exec(g.app, "XA START 'order'");
    app_exec(g.app, "SELECT 1 FROM sqlock_lock FORCE INDEX (nt) WHERE ns = '' AND name = 'sale' "
                    "LOCK IN SHARE MODE");
    app_exec(g.app, "INSERT INTO app_new (n) VALUES (1)");
    ok(sqlock_release(s.lock, &said));
    assert_int_equal(try_once(s.m, "sale"), SQLOCK_EGUARDED);
    app_exec(g.app, "XA END 'order'", "XA PREPARE 'order'");
    thiefs = take(s.m, "sale");
    app_exec(g.app, "XA COMMIT 'order'");
    assert_int_equal(app_number(g.app, "SELECT COUNT(*) FROM app_new"), 1);
    give(thiefs);
}

TEST(test_guard_is_refused_in_an_xa_transaction_which_goes_on)
{
    begin(w);
    app_exec(g.app, "XA START 'order'");
    says(SQLOCK_EREFUSED, guard()); /* nothing was said in it yet */
    app_exec(g.app, "INSERT INTO app_new (n) VALUES (1)");
    says(SQLOCK_EREFUSED, guard());
    app_exec(g.app, "INSERT INTO app_new (n) VALUES (2)", "XA END 'order'", "XA PREPARE 'order'");
    app_exec(g.app, "XA COMMIT 'order'");
    assert_int_equal(app_number(g.app, "SELECT COUNT(*) FROM app_new"), 2);
}

TEST_MAIN_ON(mysql)
