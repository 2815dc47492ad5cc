/* MySQL's client library alone: connections, the leanest prepared statements that make a lock, and
 * the server's own locks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlock/mysql.h>

#include "bench/bare_mysql.h"

void bare_mysql_die(MYSQL *my)
{
    bench_die("bare loop: %s", mysql_error(my));
}

/* What follows `at` in s, which ends there; NULL if it is not in s. */
static char *cut(char *s, int at)
{
    char *p = s != NULL ? strchr(s, at) : NULL;

    if (p != NULL)
        *p++ = '\0';
    return p;
}

/* mysql://user:password@host:port/database?socket=PATH, without percent signs. */
MYSQL *bare_mysql_connect(const char *url)
{
    char text[1024], *user = text, *options, *database, *host, *password, *port, *socket;
    static const unsigned wait_s = 30; /* also for the server's greeting */
    MYSQL *my = mysql_init(NULL);

    snprintf(text, sizeof text, "%s", strstr(url, "://") + 3);
    options = cut(text, '?');
    socket = options != NULL && strncmp(options, "socket=", 7) == 0 ? options + 7 : NULL;
    database = cut(text, '/');
    host = cut(text, '@');
    if (host == NULL) {
        host = text;
        user = NULL;
    }
    password = cut(user, ':');
    port = cut(host, ':');
    if (my == NULL)
        bench_die("out of memory");
    mysql_options(my, MYSQL_OPT_CONNECT_TIMEOUT, &wait_s);
    if (mysql_real_connect(my, host, user, password, database,
                           port != NULL ? (unsigned)atoi(port) : 0, socket,
                           CLIENT_MULTI_STATEMENTS) == NULL)
        bare_mysql_die(my);
    return my;
}

static void run(const char *url, const char *sql)
{
    MYSQL *my = bare_mysql_connect(url);

    if (mysql_query(my, sql) != 0)
        bare_mysql_die(my);
    mysql_close(my);
}

static double asked; /* statements that only count */

static double status(MYSQL *my, const char *sql)
{
    MYSQL_RES *res;
    double value;

    if (mysql_query(my, sql) != 0 || (res = mysql_store_result(my)) == NULL)
        bare_mysql_die(my);
    value = atof(mysql_fetch_row(res)[1]);
    mysql_free_result(res);
    asked++;
    return value;
}

static struct bench_counts count(const struct bench_db *db)
{
    MYSQL *my = bare_mysql_connect(db->url);
    struct bench_counts counts;

    counts.statements = status(my, "SHOW GLOBAL STATUS LIKE 'Questions'");
    counts.statements -= asked;
    counts.commits = status(my, "SHOW GLOBAL STATUS LIKE 'Handler_commit'");
    mysql_close(my);
    return counts;
}

/* The client library wants that before its first thread. */
static void create(const char *url)
{
    (void)url;
    mysql_library_init(0, NULL, NULL);
}

/* ---- the lean loop --------------------------------------------------------------------------- */

struct lean {
    MYSQL *my;
    char name[32];
    MYSQL_STMT *take, *give_back;
    unsigned char owner[SQLOCK_OWNER_SIZE];
    unsigned long name_len, owner_len;
    int64_t token;
    MYSQL_BIND take_params[2], give_params[3];
};

static MYSQL_STMT *prepare(MYSQL *my, const char *sql, MYSQL_BIND *params)
{
    MYSQL_STMT *stmt = mysql_stmt_init(my);

    if (stmt == NULL || mysql_stmt_prepare(stmt, sql, (unsigned long)strlen(sql)) != 0 ||
        mysql_stmt_bind_param(stmt, params) != 0)
        bare_mysql_die(my);
    return stmt;
}

static MYSQL_BIND parameter_at(enum enum_field_types type, void *at, unsigned long *len)
{
    return (MYSQL_BIND){
        .buffer_type = type, .buffer = at, .buffer_length = len != NULL ? *len : 8, .length = len};
}

static void *lean_start(const struct bench_db *db, void *shared, int client)
{
    struct lean *lean = calloc(1, sizeof *lean);

    (void)shared;
    if (lean == NULL)
        bench_die("out of memory");
    lean->my = bare_mysql_connect(db->url);
    snprintf(lean->name, sizeof lean->name, "bench %d", client);
    lean->name_len = (unsigned long)strlen(lean->name);
    lean->owner_len = sizeof lean->owner;
    lean->take_params[0] = parameter_at(MYSQL_TYPE_BLOB, lean->owner, &lean->owner_len);
    lean->take_params[1] = parameter_at(MYSQL_TYPE_BLOB, lean->name, &lean->name_len);
    lean->give_params[0] = lean->take_params[1];
    lean->give_params[1] = lean->take_params[0];
    lean->give_params[2] = parameter_at(MYSQL_TYPE_LONGLONG, &lean->token, NULL);
    lean->take = prepare(lean->my,
                         "UPDATE bench_lean SET owner = ?, token = LAST_INSERT_ID(token + 1), "
                         "expires = UTC_TIMESTAMP(6) + INTERVAL 30 SECOND "
                         "WHERE name = ? AND expires <= UTC_TIMESTAMP(6)",
                         lean->take_params);
    lean->give_back = prepare(lean->my,
                              "UPDATE bench_lean SET owner = NULL, expires = DEFAULT "
                              "WHERE name = ? AND owner = ? AND token = ?",
                              lean->give_params);
    return lean;
}

static void lean_end(void *arg)
{
    struct lean *lean = arg;

    mysql_stmt_close(lean->take);
    mysql_stmt_close(lean->give_back);
    mysql_close(lean->my);
    free(lean);
}

static void lean_pair(void *arg)
{
    struct lean *lean = arg;

    bench_owner(lean->owner);
    if (mysql_stmt_execute(lean->take) != 0 || mysql_stmt_affected_rows(lean->take) != 1)
        bench_die("lean loop: %s was not granted: %s", lean->name, mysql_stmt_error(lean->take));
    lean->token = (int64_t)mysql_stmt_insert_id(lean->take);
    if (mysql_stmt_execute(lean->give_back) != 0 || mysql_stmt_affected_rows(lean->give_back) != 1)
        bench_die("lean loop: %s was not released: %s", lean->name,
                  mysql_stmt_error(lean->give_back));
}

/* ---- the same for several names -------------------------------------------------------------- */

/* All rows that it changed. */
static int say(void *my, const char *sql)
{
    int changed = 0, more;

    more = mysql_query(my, sql);
    while (more == 0) {
        MYSQL_RES *res = mysql_store_result(my);

        if (res == NULL)
            changed += (int)mysql_affected_rows(my);
        mysql_free_result(res);
        more = mysql_next_result(my);
    }
    if (more > 0)
        bare_mysql_die(my);
    return changed;
}

struct swapping {
    MYSQL *my;
    int client, at; /* which of its two names it has; -1: none yet */
};

static void *swap_start(const struct bench_db *db, void *shared, int client)
{
    struct swapping *s = malloc(sizeof *s);

    (void)shared;
    if (s == NULL)
        bench_die("out of memory");
    *s = (struct swapping){bare_mysql_connect(db->url), client, -1};
    return s;
}

static void swap_end(void *arg)
{
    struct swapping *s = arg;

    mysql_close(s->my);
    free(s);
}

/* One packet of texts: to prepare them would take a packet for each. */
static void swap_pair(void *arg)
{
    struct swapping *s = arg;
    const int is = s->at == 0;
    char sql[512];

    snprintf(sql, sizeof sql,
             "START TRANSACTION; "
             "UPDATE bench_lean SET owner = NULL, expires = DEFAULT WHERE name = 'swap %d' AND "
             "owner = 'c%d'; "
             "UPDATE bench_lean SET owner = 'c%d', token = LAST_INSERT_ID(token + 1), "
             "expires = UTC_TIMESTAMP(6) + INTERVAL 30 SECOND "
             "WHERE name = 'swap %d' AND expires <= UTC_TIMESTAMP(6); COMMIT",
             2 * s->client + s->at, s->client, s->client, 2 * s->client + is);
    if (say(s->my, sql) != 1 + (s->at >= 0))
        bench_die("lean loop: the client's names were not swapped");
    s->at = is;
}

/* ---- advisory locks -------------------------------------------------------------------------- */

struct advisory {
    MYSQL *my;
    char get[64], release[64];
};

static void *advisory_start(const struct bench_db *db, void *shared, int client)
{
    struct advisory *own = malloc(sizeof *own);

    (void)shared;
    if (own == NULL)
        bench_die("out of memory");
    own->my = bare_mysql_connect(db->url);
    snprintf(own->get, sizeof own->get, "SELECT GET_LOCK('bench %d', 10)", client);
    snprintf(own->release, sizeof own->release, "SELECT RELEASE_LOCK('bench %d')", client);
    return own;
}

static void advisory_end(void *arg)
{
    struct advisory *own = arg;

    mysql_close(own->my);
    free(own);
}

/* The answer must be 1. */
static void ask(struct advisory *own, const char *sql)
{
    MYSQL_RES *res = NULL;
    MYSQL_ROW row;

    if (mysql_query(own->my, sql) != 0 || (res = mysql_store_result(own->my)) == NULL)
        bare_mysql_die(own->my);
    row = mysql_fetch_row(res);
    if (row == NULL || row[0] == NULL || strcmp(row[0], "1") != 0)
        bench_die("advisory lock: %s is not 1", sql);
    mysql_free_result(res);
}

static void advisory_pair(void *arg)
{
    struct advisory *own = arg;

    ask(own, own->get);
    ask(own, own->release);
}

/* ---- the client ------------------------------------------------------------------------------ */

static void *login(const char *url)
{
    return bare_mysql_connect(url);
}

static void logout(void *my)
{
    mysql_close(my);
}

const struct bench_client bench_mysql = {
    .database = "mysql",
    .driver = sqlock_driver_mysql,
    .create = create,
    .run = run,
    .login = login,
    .logout = logout,
    .count = count,
    .lean_table = "CREATE TABLE bench_lean (name VARBINARY(255) PRIMARY KEY, "
                  "owner VARBINARY(16), token BIGINT NOT NULL DEFAULT 0, "
                  "expires DATETIME(6) NOT NULL DEFAULT '2000-01-01') ENGINE = InnoDB",
    .bare = &bare_mysql_texts,
    .advisory = {.name = "advisory, not durable",
                 .start = advisory_start,
                 .end = advisory_end,
                 .pair = advisory_pair},
    .lean = {.name = "lean loop",
             .prepare = bench_lean_prepare,
             .clean = bench_lean_clean,
             .start = lean_start,
             .end = lean_end,
             .pair = lean_pair},
    .lean_swap = {.name = "lean swap", .start = swap_start, .end = swap_end, .pair = swap_pair},
    .lean_take = "START TRANSACTION; UPDATE bench_lean SET owner = 'x', token = token + 1, "
                 "expires = UTC_TIMESTAMP(6) + INTERVAL 30 SECOND "
                 "WHERE name IN (@) AND expires <= UTC_TIMESTAMP(6); "
                 "SELECT name, token FROM bench_lean WHERE name IN (@) AND owner = 'x'; COMMIT",
    .lean_give = "UPDATE bench_lean SET owner = NULL, expires = DEFAULT "
                 "WHERE name IN (@) AND owner = 'x'",
    .lean_renew = "UPDATE bench_lean SET expires = UTC_TIMESTAMP(6) + INTERVAL 30 SECOND "
                  "WHERE name IN (@) AND owner = 'x'",
    .say = say,
};
