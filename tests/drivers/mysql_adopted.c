#ifdef TEST_HAVE_MYSQL
#include "tests/drivers/mysql_adopted.h"

#include "tests/lib/my.h"

MYSQL *native(void *app)
{
    return ((struct mysql_app_conn *)app)->my;
}

void connect_native(MYSQL *my, unsigned long flags, const char *socket)
{
    if (!mysql_real_connect(my, NULL, "root", "", g.w->place.schema, 0,
                            socket ? socket : my_socket_path(), flags))
        fail_msg("%s", mysql_error(my));
}

static void make_tables(void)
{
    app_exec(g.app, "INSERT INTO app_row VALUES (2, 20)");
    app_exec(g.app, "CREATE TABLE app_new (id INT PRIMARY KEY AUTO_INCREMENT, n INT UNIQUE)");
}

void begin_mysql(struct world *w)
{
    begin_adopted(w);
    make_tables();
}

void begin_mysql_as(struct world *w, MYSQL *my, unsigned long flags, const char *socket)
{
    struct mysql_app_conn *app;

    begin_app(w);
    make_tables();
    app = g.app;
    mysql_close(app->my);
    assert_non_null(app->my = mysql_init(my));
    connect_native(app->my, flags, socket);
    ok(adopt(g.app, &g.conn));
}

sqlock_tx_state tx(void)
{
    return g.adopter->tx_state(g.conn);
}
#endif
