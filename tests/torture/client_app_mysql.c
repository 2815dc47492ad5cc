#ifdef TEST_HAVE_MYSQL
#include <mysql.h>

#include "tests/torture/client_app.h"

#include <sqlock/mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* mysql://USER[:PASSWORD]@HOST[:PORT]/DATABASE[?socket=PATH], where nothing is percent-encoded. */
struct place {
    char user[64], password[64], host[128], database[64], socket[256];
    unsigned port;
};

static void copy(char *out, size_t size, const char *from, size_t len)
{
    snprintf(out, size, "%.*s", (int)len, from);
}

static void read_url(const char *url, struct place *p)
{
    const char *at = strstr(url, "://") + 3, *socket = strstr(url, "socket=");
    const char *end = at + strcspn(at, "/?"), *host = memchr(at, '@', (size_t)(end - at));
    const char *mark;

    *p = (struct place){0};
    if (host != NULL) {
        mark = memchr(at, ':', (size_t)(host - at));
        copy(p->user, sizeof p->user, at, (size_t)((mark != NULL ? mark : host) - at));
        if (mark != NULL)
            copy(p->password, sizeof p->password, mark + 1, (size_t)(host - mark) - 1);
        at = host + 1;
    }
    mark = memchr(at, ':', (size_t)(end - at));
    copy(p->host, sizeof p->host, at, (size_t)((mark != NULL ? mark : end) - at));
    p->port = mark != NULL ? (unsigned)strtoul(mark + 1, NULL, 10) : 0;
    if (*end == '/')
        copy(p->database, sizeof p->database, end + 1, strcspn(end + 1, "?"));
    if (socket != NULL)
        copy(p->socket, sizeof p->socket, socket + 7, strcspn(socket + 7, "&"));
}

static MYSQL *connect_to(const struct place *p)
{
    MYSQL *my = mysql_init(NULL);
    unsigned connecting = (unsigned)app_patience.connect_s;
    unsigned answering = (unsigned)app_patience.answer_s;

    if (my == NULL)
        return NULL;
    mysql_options(my, MYSQL_OPT_CONNECT_TIMEOUT, &connecting);
    mysql_options(my, MYSQL_OPT_READ_TIMEOUT, &answering);
    mysql_options(my, MYSQL_OPT_WRITE_TIMEOUT, &answering);
    if (mysql_real_connect(my, *p->socket != '\0' ? NULL : p->host, p->user, p->password, NULL,
                           p->port, *p->socket != '\0' ? p->socket : NULL, 0)) {
        /* A cell's server has none before its cell makes it. A link that breaks here is no
         * connection. */
        if (mysql_select_db(my, p->database) == 0 || mysql_errno(my) < 2000)
            return my;
    }
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

/* Of several servers, HOST:PORT,HOST:PORT, the first that answers and can be written to. */
static void *app_connect(const char *url)
{
    char rest[512], one[640], list[512], *left = list;
    const char *host = strchr(url, '@'), *end = host ? host + strcspn(host, "/?") : NULL;
    struct place p;

    if (host == NULL || memchr(host, ',', (size_t)(end - host)) == NULL) {
        read_url(url, &p);
        return connect_to(&p);
    }
    copy(list, sizeof list, host + 1, (size_t)(end - host) - 1);
    snprintf(rest, sizeof rest, "%s", end);
    for (const char *next; (next = strsep(&left, ",")) != NULL;) {
        MYSQL *my;

        snprintf(one, sizeof one, "%.*s%s%s", (int)(host + 1 - url), url, next, rest);
        read_url(one, &p);
        if ((my = connect_to(&p)) != NULL && is_writable(my))
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

static void app_schema(const char *url, char out[APP_TEXT])
{
    struct place p;

    read_url(url, &p);
    snprintf(out, APP_TEXT, "%s", p.database);
}

const struct app client_app_mysql = {.scheme = "mysql:",
                                     .driver = sqlock_driver_mysql,
                                     .connect = app_connect,
                                     .close = app_close,
                                     .adopt = app_adopt,
                                     .exec = app_exec,
                                     .commit = app_commit,
                                     .said = app_said,
                                     .schema = app_schema,
                                     .begin = "BEGIN",
                                     .begin_strict = "START TRANSACTION WITH CONSISTENT SNAPSHOT",
                                     .strict_read = " FOR UPDATE",
                                     .big = "BIGINT",
                                     .engine = " ENGINE=InnoDB"};
#endif
