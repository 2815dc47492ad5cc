/* MariaDB and MySQL: the application's connection, a cell's server, and servers that follow it. */
#ifdef TEST_HAVE_MYSQL
#include <inttypes.h>
#include <mysql.h>
#include <stdlib.h>
#include <string.h>

#include <sqlock/mysql.h>

#include "tests/lib/check.h"
#include "tests/lib/proxy.h"
#include "tests/torture/client_app.h"
#include "tests/torture/engine.h"

/* NULL, 0 and a socket's path, or a host and its port. As root, who has no password here. */
static MYSQL *connect_to(const char *host, unsigned port, const char *socket)
{
    MYSQL *my = mysql_init(NULL);
    unsigned connecting = (unsigned)app_patience.connect_s;
    unsigned answering = (unsigned)app_patience.answer_s;

    if (my == NULL)
        return NULL;
    mysql_options(my, MYSQL_OPT_CONNECT_TIMEOUT, &connecting);
    mysql_options(my, MYSQL_OPT_READ_TIMEOUT, &answering);
    mysql_options(my, MYSQL_OPT_WRITE_TIMEOUT, &answering);
    /* A cell's server has no database before its cell makes it. A broken link is no connection. */
    if (mysql_real_connect(my, host, "root", "", NULL, port, socket, 0) &&
        (mysql_select_db(my, "test") == 0 || mysql_errno(my) < 2000))
        return my;
    mysql_close(my);
    return NULL;
}

static bool is_writable(MYSQL *my)
{
    MYSQL_RES *res = NULL;
    MYSQL_ROW row;
    bool writable;

    writable = mysql_query(my, "SELECT @@global.read_only") == 0 &&
               (res = mysql_store_result(my)) != NULL && (row = mysql_fetch_row(res)) != NULL &&
               row[0] != NULL && row[0][0] == '0';
    mysql_free_result(res);
    return writable;
}

/* mysql://root@localhost/test?socket=PATH, or mysql://root@HOST:PORT,HOST:PORT/test: of several
 * servers the first that answers and can be written to. */
static void *app_connect(const char *url)
{
    const char *socket = strstr(url, "socket=");
    char hosts[256] = "", *left = hosts, host[64];
    const bool several = strchr(url, ',') != NULL;
    unsigned port;

    if (socket != NULL)
        return connect_to(NULL, 0, socket + strlen("socket="));
    sscanf(url, "mysql://root@%255[^/]", hosts);
    for (const char *one; (one = strsep(&left, ",")) != NULL;) {
        MYSQL *my =
            sscanf(one, "%63[^:]:%u", host, &port) == 2 ? connect_to(host, port, NULL) : NULL;

        if (my != NULL && (!several || is_writable(my)))
            return my;
        if (my != NULL)
            mysql_close(my);
    }
    return NULL;
}

static void app_close(void *native)
{
    mysql_close(native);
}

static int app_adopt(sqlock *m, void *native, sqlock_conn **out_conn, sqlock_error *err)
{
    return sqlock_adopt_mysql(m, (MYSQL *)native, out_conn, err);
}

/* 1927, 1053 and 3169 are said before the server closes the connection. */
static int code_of(MYSQL *my)
{
    unsigned code = mysql_errno(my);

    if (code == 0)
        return 0;
    if ((code >= 2000 && code < 3000) || code == 1927 || code == 1053 || code == 3169 ||
        code == 1317)
        return SQLOCK_EUNREACH;
    if (code == 1213 || code == 1020) /* a deadlock; an old snapshot (innodb_snapshot_isolation) */
        return SQLOCK_ETXGONE;
    if (code == 1205)
        return SQLOCK_EBUSY;
    return code == 1114 || code == 1021 || code == 3 ? SQLOCK_EFULL : SQLOCK_EDB;
}

static int app_exec(void *native, const char *sql, int64_t *out)
{
    MYSQL_RES *res = NULL;
    MYSQL_ROW row;

    if (mysql_query(native, sql) == 0 && (res = mysql_store_result(native)) != NULL &&
        out != NULL && (row = mysql_fetch_row(res)) != NULL && row[0] != NULL)
        *out = strtoll(row[0], NULL, 10);
    mysql_free_result(res);
    return code_of(native);
}

/* Only a deadlock is known to have rolled back. */
static int app_commit(void *native)
{
    int rc = app_exec(native, "COMMIT", NULL);

    return rc == 0 || rc == SQLOCK_ETXGONE ? rc : SQLOCK_EUNSURE;
}

static void app_said(void *native, char out[APP_TEXT])
{
    snprintf(out, APP_TEXT, "%u %s %s", mysql_errno(native), mysql_sqlstate(native),
             mysql_error(native));
}

const struct app client_app_mysql = {.scheme = "mysql:",
                                     .driver = sqlock_driver_mysql,
                                     .connect = app_connect,
                                     .close = app_close,
                                     .adopt = app_adopt,
                                     .exec = app_exec,
                                     .commit = app_commit,
                                     .said = app_said,
                                     .schema = "test",
                                     .begin = "BEGIN",
                                     .begin_strict = "START TRANSACTION WITH CONSISTENT SNAPSHOT",
                                     .strict_read = " FOR UPDATE",
                                     .big = "BIGINT",
                                     .engine = " ENGINE=InnoDB"};

/* ---- servers that follow --------------------------------------------------------------------- */

enum { APPLY_MS = 20000, IDLE_LOOKS = 20 };

/* A commit that no follower has got is not answered, however long that takes; where nobody follows,
 * it is not asked to wait. */
static void follow_args(struct engine *e, bool follows)
{
    if (e->port == 0)
        e->port = port_without_server("127.0.0.1", NULL);
    snprintf(e->args, sizeof e->args,
             "--innodb-lock-wait-timeout=1 --skip-name-resolve --innodb-log-file-size=16M "
             "--skip-networking=0 --bind-address=127.0.0.1 --port=%d --server-id=%d "
             "--log-bin=binlog --log-slave-updates --sync-binlog=1 --relay-log=relay "
             "--skip-slave-start --rpl-semi-sync-slave-enabled=1 "
             "--rpl-semi-sync-master-wait-point=AFTER_SYNC "
             "--rpl-semi-sync-master-timeout=3600000 --read-only=%d",
             e->port, e->number, follows);
}

/* Of a user of their own: sessions of root are clients'. */
static bool let_in(struct engine *primary)
{
    return engine_exec(primary, "CREATE USER follower@'127.0.0.1'") &&
           engine_exec(primary, "GRANT REPLICATION SLAVE ON *.* TO follower@'127.0.0.1'");
}

static bool adapt(struct engine *e, const struct engine *primary)
{
    (void)primary;
    follow_args(e, true);
    return shell("cd '%s/data' && rm -f master.info relay*", engine_folder(e));
}

/* From where its copy ends. */
static bool follow(struct engine *e, const struct engine *primary)
{
    return engine_exec(e, "SET GLOBAL gtid_slave_pos = @@GLOBAL.gtid_binlog_pos") &&
           engine_exec(e,
                       "CHANGE MASTER TO master_host = '127.0.0.1', master_port = %d, master_user "
                       "= 'follower', master_use_gtid = slave_pos, master_connect_retry = 1",
                       primary->port) &&
           engine_exec(e, "START SLAVE");
}

static void stall(struct engine *primary, struct engine *e)
{
    (void)primary;
    engine_exec(e, "STOP SLAVE IO_THREAD");
}

/* All that it has got from the primary is in its tables too, when the thread that applies it waits
 * for more, and does so for a while: the primary's death may have left the first half of a
 * transaction, whose other half never comes. */
static bool has_applied_all(struct engine *e)
{
    int64_t end_us = now_us() + APPLY_MS * INT64_C(1000);

    for (int seen = 0; seen < IDLE_LOOKS; seen++) {
        if (engine_number(e, "SELECT count(*) FROM information_schema.processlist "
                             "WHERE state LIKE 'Slave has read all relay log%%'") != 1)
            seen = 0;
        if (now_us() > end_us)
            return false;
        sleep_ms(5);
    }
    return true;
}

static bool promote(struct engine *e)
{
    follow_args(e, false);
    return engine_exec(e, "STOP SLAVE IO_THREAD") && has_applied_all(e) &&
           engine_exec(e, "STOP SLAVE") && engine_exec(e, "RESET SLAVE ALL") &&
           engine_exec(e, "SET GLOBAL read_only = 0");
}

#define STATUS "FROM information_schema.global_status WHERE variable_name = 'rpl_semi_sync_master_"

static const struct follow_ops follow_mysql = {
    .prepare = let_in,
    .adapt = adapt,
    .follow = follow,
    .followers = "SELECT count(*) FROM information_schema.processlist "
                 "WHERE command = 'Binlog Dump'",
    .send_synchronous = "SET GLOBAL rpl_semi_sync_master_enabled = 1",
    .is_synchronous = "SELECT variable_value = 'ON' AND (SELECT variable_value > 0 " STATUS
                      "clients') " STATUS "status'",
    .stall = stall,
    .promote = promote,
    .url = {"mysql://root@", "/test"}};

/* ---- a cell's server ------------------------------------------------------------------------- */

/* A genuine MySQL is fetched once and unpacked for each cell. */
static bool choose_server(struct engine *e)
{
    char program[400];

    if (!e->kind->variant)
        return true;
    return engine_script(
               e,
               text("tests/tools/mysqld.sh fetch %s && tests/tools/mysqld.sh unpack %s %s",
                    e->kind->variant, e->kind->variant, temp_dir()),
               program, sizeof program) &&
           setenv("SQLOCK_TEST_MYSQLD", program, 1) == 0;
}

static bool create(struct engine *e)
{
    setenv("SQLOCK_TEST_MYSQL_ARGS", "--innodb-lock-wait-timeout=1 --skip-name-resolve", 1);
    if (e->wants & ENGINE_FOLLOWED)
        follow_args(e, e->number > 1);
    return e->number > 1 || choose_server(e);
}

/* Those that come meanwhile are not ended: they have larger ids. MySQL 5.6 may list sessions as
 * killed for long when their clients have gone. */
static int sessions(struct engine *e, bool end)
{
#define OTHERS                                                                                     \
    " FROM information_schema.processlist WHERE user = 'root' AND command <> 'Killed' "            \
    "AND id <> connection_id()"
    int64_t n = engine_number(e, "SELECT count(*)" OTHERS), id = 0;
    int64_t last = end && n > 0 ? engine_number(e, "SELECT max(id)" OTHERS) : 0;

    while (id < last &&
           (id = engine_number(e, "SELECT min(id)" OTHERS " AND id > %" PRId64, id)) > 0 &&
           id <= last)
        engine_exec(e, "KILL %" PRId64, id);
    return (int)n;
}

static bool prepare(struct engine *e)
{
    const char *version;

    if (!engine_exec(e, "CREATE DATABASE IF NOT EXISTS test") || !engine_exec(e, "USE test"))
        return false;
    version = mysql_get_server_info(e->session);
    snprintf(e->version, sizeof e->version, "%s%s", strstr(version, "MariaDB") ? "" : "MySQL ",
             version);
    return true;
}

const struct engine_ops engine_mysql = {
    .create = create,
    .script = "tests/tools/my.sh",
    .prepare = prepare,
    .sessions = sessions,
    .bulk = {"CREATE TABLE IF NOT EXISTS bulk (filler varchar(1000))",
             "INSERT INTO bulk SELECT repeat('x', 900) FROM information_schema.columns LIMIT 3000",
             "TRUNCATE bulk"},
    .follow = &follow_mysql};
#endif
