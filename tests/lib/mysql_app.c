/* An application that talks to MariaDB or MySQL through its client library. */
#ifdef TEST_HAVE_MYSQL
#include "tests/lib/mysql_app.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/my.h"

static void app_close(void *conn)
{
    struct mysql_app_conn *app = conn;

    if (app->stmt)
        mysql_stmt_close(app->stmt);
    mysql_free_result(app->reading);
    mysql_close(app->my);
    mysql_close(app->keeper);
    free(app);
}

static bool app_exec(void *conn, const char *sql)
{
    struct mysql_app_conn *app = conn;

    if (mysql_query(app->my, sql) != 0)
        return false;
    mysql_free_result(mysql_store_result(app->my));
    return mysql_errno(app->my) == 0;
}

static char *app_fetch(void *conn, const char *sql)
{
    struct mysql_app_conn *app = conn;
    MYSQL_RES *res = NULL;
    MYSQL_ROW row;
    char *text;

    if (mysql_query(app->my, sql) != 0 || (res = mysql_store_result(app->my)) == NULL)
        fail_msg("%s: %s", sql, mysql_error(app->my));
    row = mysql_fetch_row(res);
    text = row && row[0] ? strdup(row[0]) : NULL;
    mysql_free_result(res);
    return text;
}

static MYSQL *client(const char *schema)
{
    MYSQL *my = mysql_init(NULL);

    assert_non_null(my);
    if (!mysql_real_connect(my, NULL, "root", "", schema, 0, my_socket_path(), 0))
        fail_msg("%s", mysql_error(my));
    return my;
}

static void keep_row(struct mysql_app_conn *app, const struct place *p)
{
    static const char *const steps[] = {"BEGIN", "INSERT INTO app_kept VALUES (1)"};

    if (mysql_query(app->my, "CREATE TABLE app_kept (id INT PRIMARY KEY) ENGINE=InnoDB") != 0)
        return; /* somebody does already */
    app->keeper = client(p->schema);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        assert_int_equal(mysql_query(app->keeper, steps[i]), 0);
}

/* It takes one statement in a packet, as most do. */
static void *app_connect(const struct place *p)
{
    struct mysql_app_conn *app = calloc(1, sizeof *app);

    assert_non_null(app);
    app->my = client(p->schema);
    keep_row(app, p);
    return app;
}

static void app_offer(void *conn, sqlock_adopt_opts *opts)
{
    struct mysql_app_conn *app = conn;

    opts->native = app->my;
    opts->native_size = sizeof(MYSQL);
    opts->library = (void (*)(void))mysql_init;
}

/* These tell of the last statement, or of the clock. */
static const char not_settings[] =
    "'error_count', 'gtid_executed', 'identity', 'insert_id', 'last_insert_id', 'rand_seed1', "
    "'rand_seed2',"
    " 'timestamp', 'warning_count', 'in_transaction', 'statement_id'";

static char *app_settings(void *conn)
{
    struct mysql_app_conn *app = conn;
    char *out = NULL, sql[512];
    size_t size = 0;
    MYSQL_RES *res = NULL;
    MYSQL_ROW row;
    FILE *f = open_memstream(&out, &size);

    assert_non_null(f);
    snprintf(sql, sizeof sql, "SHOW SESSION VARIABLES WHERE Variable_name NOT IN (%s)",
             not_settings);
    if (mysql_query(app->my, sql) != 0 || (res = mysql_store_result(app->my)) == NULL)
        fail_msg("%s: %s", sql, mysql_error(app->my));
    while ((row = mysql_fetch_row(res)) != NULL)
        fprintf(f, "%s=%s\n", row[0], row[1] ? row[1] : "NULL");
    mysql_free_result(res);
    fprintf(f, "charset=%s options=%lx capabilities=%lx\n", mysql_character_set_name(app->my),
            app->my->client_flag, app->my->server_capabilities);
    fclose(f);
    return out;
}

static char *app_last(void *conn)
{
    struct mysql_app_conn *app = conn;
    const char *info = mysql_info(app->my);
    char *out = NULL;

    if (asprintf(&out, "rows=%lld id=%lld warnings=%u columns=%u info=%s error=%u %s %s",
                 (long long)mysql_affected_rows(app->my), (long long)mysql_insert_id(app->my),
                 mysql_warning_count(app->my), mysql_field_count(app->my), info ? info : "none",
                 mysql_errno(app->my), mysql_sqlstate(app->my), mysql_error(app->my)) < 0)
        fail_msg("out of memory");
    return out;
}

static void app_start_reading(void *conn)
{
    struct mysql_app_conn *app = conn;

    assert_int_equal(mysql_query(app->my, "SELECT 1 UNION SELECT 2 UNION SELECT 3"), 0);
    assert_non_null(app->reading = mysql_use_result(app->my));
    assert_non_null(mysql_fetch_row(app->reading));
}

static int app_read_rest(void *conn)
{
    struct mysql_app_conn *app = conn;
    int n = 0;

    while (mysql_fetch_row(app->reading) != NULL)
        n++;
    mysql_free_result(app->reading);
    app->reading = NULL;
    return mysql_errno(app->my) == 0 ? n : -1;
}

static void app_prepare(void *conn)
{
    static const char sql[] = "SELECT 42";
    struct mysql_app_conn *app = conn;

    assert_non_null(app->stmt = mysql_stmt_init(app->my));
    assert_int_equal(mysql_stmt_prepare(app->stmt, sql, sizeof sql - 1), 0);
}

static int64_t app_run_prepared(void *conn)
{
    struct mysql_app_conn *app = conn;
    long long n = -1;
    MYSQL_BIND bind = {.buffer_type = MYSQL_TYPE_LONGLONG, .buffer = &n, .buffer_length = sizeof n};

    if (mysql_stmt_execute(app->stmt) != 0 || mysql_stmt_bind_result(app->stmt, &bind) != 0 ||
        mysql_stmt_fetch(app->stmt) != 0)
        fail_msg("%s", mysql_stmt_error(app->stmt));
    mysql_stmt_free_result(app->stmt);
    return n;
}

/* MySQL 5.6 loses a KILL that comes while the session begins to wait for its next statement, and
 * those that come after it. */
static void app_kill(void *conn)
{
    struct mysql_app_conn *app = conn;
    unsigned long id = mysql_thread_id(app->my);
    MYSQL *killer = client(NULL);
    char kill[64], count[128];

    snprintf(kill, sizeof kill, "KILL CONNECTION %lu", id);
    snprintf(count, sizeof count,
             "SELECT COUNT(*) FROM information_schema.processlist WHERE id = %lu", id);
    sleep_ms(50);
    assert_soon((mysql_query(killer, kill), my_number(count)) == 0, patience_ms(10000));
    mysql_close(killer);
}

static const char *const begins[] = {"START TRANSACTION",
                                     "START TRANSACTION WITH CONSISTENT SNAPSHOT", "BEGIN", NULL};

#define LEVEL "SET SESSION TRANSACTION ISOLATION LEVEL "
#define BACK  LEVEL "REPEATABLE READ"

static const struct way ways[] = {
    {"repeatable read", NULL, "START TRANSACTION", NULL},
    {"read uncommitted", LEVEL "READ UNCOMMITTED", "START TRANSACTION", BACK},
    {"read committed", LEVEL "READ COMMITTED", "START TRANSACTION", BACK},
    {"serializable", LEVEL "SERIALIZABLE", "START TRANSACTION", BACK},
    {"this one only", "SET TRANSACTION ISOLATION LEVEL READ COMMITTED", "START TRANSACTION", NULL},
    {"an old one", NULL, "START TRANSACTION WITH CONSISTENT SNAPSHOT", NULL},
    {"autocommit off", "SET autocommit = 0", NULL, "SET autocommit = 1"},
    {0}};

/* Slow is what waits: before 5.7 MySQL can end nothing else. */
const struct adopt_app mysql_app = {
    APP_FUNCTIONS,
    .kill = app_kill,
    .begins = begins,
    .ways = ways,
    .impatient = "SET innodb_lock_wait_timeout = 1",
    .timestamp = "DATETIME(6)",
    .timestamp_read = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', version)",
    .table_of_types = "CREATE TABLE app_types (t VARCHAR(40) PRIMARY KEY, s SMALLINT, b BIGINT, "
                      "n DECIMAL(20, 5), o VARBINARY(40)) ENGINE=InnoDB",
    .session = "SELECT CONNECTION_ID()",
    .slow = "SELECT 0, 1 FROM app_kept WHERE id = 1 FOR UPDATE",
    .one_answer = true};
#endif
