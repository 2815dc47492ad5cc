#include "tests/torture/followers.h"

#ifdef TEST_HAVE_MYSQL
#include <arpa/inet.h>
#include <errno.h>
#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/check.h"

#define READ_ALL "Slave has read all relay log"
enum { APPLY_MS = 20000, HALF_US = 500000 };

/* ---- its command line -------------------------------------------------------------------------
 */

static int free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port = 0;

    if (fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0 &&
        getsockname(fd, (struct sockaddr *)&at, &size) == 0)
        port = ntohs(at.sin_port);
    if (fd >= 0)
        close(fd);
    return port;
}

/* A commit that no follower has got is not answered, however long that takes; where nobody follows,
 * it is not asked to wait. */
bool follow_mysql_args(struct engine *e, bool follows)
{
    if (e->port == 0 && (e->port = free_port()) == 0) {
        snprintf(e->why, sizeof e->why, "no port of 127.0.0.1 can be had: %s", strerror(errno));
        return false;
    }
    snprintf(e->args, sizeof e->args,
             "--innodb-lock-wait-timeout=1 --skip-name-resolve --innodb-log-file-size=16M "
             "--skip-networking=0 --bind-address=127.0.0.1 --port=%d --server-id=%d "
             "--log-bin=binlog --log-slave-updates --sync-binlog=1 --relay-log=relay "
             "--skip-slave-start --rpl-semi-sync-slave-enabled=1 "
             "--rpl-semi-sync-master-wait-point=AFTER_SYNC "
             "--rpl-semi-sync-master-timeout=3600000 --read-only=%d",
             e->port, e->number, follows);
    return true;
}

/* ---- following --------------------------------------------------------------------------------
 */

/* Of a user of their own: sessions of root are clients'. */
static bool prepare(struct engine *primary)
{
    return engine_exec(primary, "CREATE USER follower@'127.0.0.1'") &&
           engine_exec(primary, "GRANT REPLICATION SLAVE ON *.* TO follower@'127.0.0.1'");
}

static bool adapt(struct engine *e, const struct engine *primary)
{
    char to[256], command[600];

    (void)primary;
    engine_folder(e, to);
    snprintf(command, sizeof command, "cd '%s/data' && rm -f master.info relay*", to);
    return system(command) == 0 && follow_mysql_args(e, true);
}

/* From where its copy ends. */
static bool follow(struct engine *e, const struct engine *primary)
{
    char sql[256];

    snprintf(sql, sizeof sql,
             "CHANGE MASTER TO master_host = '127.0.0.1', master_port = %d, master_user = "
             "'follower', master_use_gtid = slave_pos, master_connect_retry = 1",
             primary->port);
    return engine_exec(e, "SET GLOBAL gtid_slave_pos = @@GLOBAL.gtid_binlog_pos") &&
           engine_exec(e, sql) && engine_exec(e, "START SLAVE");
}

static int followers(struct engine *primary)
{
    return (int)engine_number(primary, "SELECT count(*) FROM information_schema.processlist "
                                       "WHERE command = 'Binlog Dump'");
}

static bool ask_synchronous(struct engine *primary)
{
    return engine_exec(primary, "SET GLOBAL rpl_semi_sync_master_enabled = 1");
}

static bool is_synchronous(struct engine *primary)
{
    return engine_number(primary, "SELECT variable_value FROM information_schema.global_status "
                                  "WHERE variable_name = 'rpl_semi_sync_master_clients'") > 0 &&
           engine_number(primary, "SELECT variable_value = 'ON' FROM "
                                  "information_schema.global_status "
                                  "WHERE variable_name = 'rpl_semi_sync_master_status'") == 1;
}

static void stall(struct engine *primary, struct engine *e)
{
    (void)primary;
    engine_exec(e, "STOP SLAVE IO_THREAD");
}

/* ---- taking over ------------------------------------------------------------------------------
 */

static const char *column(MYSQL_RES *res, MYSQL_ROW row, const char *name)
{
    for (unsigned i = 0; i < mysql_num_fields(res); i++)
        if (strcmp(mysql_fetch_field_direct(res, i)->name, name) == 0)
            return row[i] ? row[i] : "";
    return "";
}

/* All that it has got from the primary is in its tables too. The positions say so, unless the
 * primary's death left the first half of a transaction: its other half never comes. Then the thread
 * that applies has read everything, and waits. */
static bool has_applied_all(MYSQL *c, int64_t waiting_since)
{
    MYSQL_RES *res = NULL;
    MYSQL_ROW row;
    bool all = false;

    if (mysql_query(c, "SHOW SLAVE STATUS") == 0 && (res = mysql_store_result(c)) != NULL &&
        (row = mysql_fetch_row(res)) != NULL)
        all = (strcmp(column(res, row, "Master_Log_File"),
                      column(res, row, "Relay_Master_Log_File")) == 0 &&
               strcmp(column(res, row, "Read_Master_Log_Pos"),
                      column(res, row, "Exec_Master_Log_Pos")) == 0) ||
              (now_us() > waiting_since + HALF_US &&
               strncmp(column(res, row, "Slave_SQL_Running_State"), READ_ALL,
                       sizeof READ_ALL - 1) == 0);
    mysql_free_result(res);
    return all;
}

static bool promote(struct engine *e)
{
    int64_t start_us = now_us();
    bool all;

    if (!engine_exec(e, "STOP SLAVE IO_THREAD"))
        return false;
    while (!(all = has_applied_all(e->session, start_us)) &&
           now_us() < start_us + APPLY_MS * INT64_C(1000))
        sleep_ms(5);
    return all && engine_exec(e, "STOP SLAVE") && engine_exec(e, "RESET SLAVE ALL") &&
           follow_mysql_args(e, false) && engine_exec(e, "SET GLOBAL read_only = 0");
}

static void url(const struct engine *const all[], int n, char *out, size_t size)
{
    int used = snprintf(out, size, "mysql://root@");

    for (int i = 0; i < n; i++)
        used +=
            snprintf(out + used, size - (size_t)used, "%s127.0.0.1:%d", i ? "," : "", all[i]->port);
    snprintf(out + used, size - (size_t)used, "/test");
}

const struct follow_ops follow_mysql = {.prepare = prepare,
                                        .adapt = adapt,
                                        .follow = follow,
                                        .followers = followers,
                                        .ask_synchronous = ask_synchronous,
                                        .is_synchronous = is_synchronous,
                                        .stall = stall,
                                        .promote = promote,
                                        .url = url};
#endif
