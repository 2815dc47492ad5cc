/* The client library's blocking calls and nothing else: the packets that sqlock's driver sends,
 * written by hand; and the leanest prepared statements that make a lock. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mysql.h>

#include <sqlock/mysql.h>

#include "bench.h"

/* What changes from pair to pair has places of fixed width in a text that is made once. */
#define OWNER_WIDTH (2 * SQLOCK_OWNER_SIZE)
#define TOKEN_WIDTH 19
#define PLACES_MAX  64
#define TEXT_MAX    16384

struct text {
    char sql[TEXT_MAX];
    size_t len;
    size_t owners[PLACES_MAX], tokens[PLACES_MAX]; /* where they stand */
    size_t n_owners, n_tokens;
};

struct own {
    MYSQL *my;
    char name[32];
    struct text acquire, release;
    struct lean *lean; /* NULL: not the lean loop */
};

static const char hex_digits[] = "0123456789abcdef";

static int64_t ask(struct own *own, const char *sql, size_t len);

/* ---- texts ----------------------------------------------------------------------------------- */

static void put(struct text *t, const char *what, size_t len)
{
    if (t->len + len > sizeof t->sql)
        bench_die("bare loop: a statement is too long");
    memcpy(t->sql + t->len, what, len);
    t->len += len;
}

static void put_hex(struct text *t, const char *bytes)
{
    put(t, "X'", 2);
    for (const char *s = bytes; *s != '\0'; s++)
        put(t, (char[]){hex_digits[*s >> 4 & 15], hex_digits[*s & 15]}, 2);
    put(t, "'", 1);
}

static void put_place(struct text *t, size_t width, size_t *places, size_t *n)
{
    static const char blanks[OWNER_WIDTH] = {0};

    if (*n == PLACES_MAX)
        bench_die("bare loop: a statement has too many parameters");
    places[(*n)++] = t->len;
    put(t, blanks, width);
}

static void put_parameter(struct own *own, struct text *t, const char *name)
{
    char number[24];

    if (strncmp(name, "b:owner", 7) == 0) {
        put(t, "X'", 2);
        put_place(t, OWNER_WIDTH, t->owners, &t->n_owners);
        put(t, "'", 1);
    } else if (strncmp(name, "i:token", 7) == 0) {
        put_place(t, TOKEN_WIDTH, t->tokens, &t->n_tokens);
    } else if (strncmp(name, "b:name", 6) == 0) {
        put_hex(t, own->name);
    } else if (strncmp(name, "b:label", 7) == 0) {
        put_hex(t, "bare");
    } else if (strncmp(name, "b:", 2) == 0) {
        put_hex(t, "");
    } else if (strncmp(name, "i:grace", 7) == 0) {
        put(t, "0", 1);
    } else {
        int64_t i = strncmp(name, "i:ttl", 5) == 0 ? BENCH_LEASE_MS * INT64_C(1000) : INT64_MAX;

        put(t, number, (size_t)snprintf(number, sizeof number, "%lld", (long long)i));
    }
}

/* The name, with its type, of parameter number n. */
static const char *parameter(const sqlock_script *script, unsigned n)
{
    const char *at = script->params;

    for (; n > 0; n--)
        at = strchr(at, ' ') + 1;
    return at;
}

static int is_mariadb(struct own *own)
{
    return strstr(mysql_get_server_info(own->my), "MariaDB") != NULL;
}

/* The first step that this server gets. */
static const sqlock_step *first_step(struct own *own, const sqlock_script *script)
{
    const sqlock_step *step = script->steps;

    while (step->flags & SQLOCK_STEP_NOWAIT && !is_mariadb(own))
        step++;
    return step;
}

/* On MariaDB the driver has the session prepare its first statement, by the name of the request. */
static void make_execute(struct own *own, struct text *t, const sqlock_script *script,
                         const sqlock_step *step)
{
    char quoted[TEXT_MAX], prepare[TEXT_MAX + 64];
    const char *rest = strstr(step->sql, ";\n");
    size_t len = rest != NULL ? (size_t)(rest - step->sql) : strlen(step->sql);

    if (len * 2 >= sizeof quoted)
        bench_die("bare loop: a statement is too long");
    mysql_real_escape_string(own->my, quoted, step->sql, (unsigned long)len);
    snprintf(prepare, sizeof prepare, "PREPARE bare_%s FROM '%s'", script->name, quoted);
    ask(own, prepare, strlen(prepare));
    put(t, prepare, (size_t)snprintf(prepare, sizeof prepare, "EXECUTE bare_%s", script->name));
    for (unsigned i = 0; i < step->n_order; i++) {
        put(t, i == 0 ? " USING " : ", ", i == 0 ? 7 : 2);
        put_parameter(own, t, parameter(script, step->order[i]));
    }
    if (rest != NULL)
        put(t, rest, strlen(rest));
}

static void make_text(struct own *own, struct text *t, const sqlock_script *script)
{
    const sqlock_step *step = first_step(own, script);
    const uint8_t *order = step->order;

    if (is_mariadb(own)) {
        make_execute(own, t, script, step);
        return;
    }
    for (const char *s = step->sql; *s != '\0'; s++) {
        if (*s == '?')
            put_parameter(own, t, parameter(script, *order++));
        else
            put(t, s, 1);
    }
}

static void set_owner(struct text *t, const unsigned char *owner)
{
    char hex[OWNER_WIDTH];

    for (size_t i = 0; i < SQLOCK_OWNER_SIZE; i++) {
        hex[2 * i] = hex_digits[owner[i] >> 4];
        hex[2 * i + 1] = hex_digits[owner[i] & 15];
    }
    for (size_t i = 0; i < t->n_owners; i++)
        memcpy(t->sql + t->owners[i], hex, sizeof hex);
}

static void set_token(struct text *t, int64_t token)
{
    char number[TOKEN_WIDTH + 1];

    snprintf(number, sizeof number, "%*lld", TOKEN_WIDTH, (long long)token);
    for (size_t i = 0; i < t->n_tokens; i++)
        memcpy(t->sql + t->tokens[i], number, TOKEN_WIDTH);
}

/* ---- the server ------------------------------------------------------------------------------ */

static void die(struct own *own)
{
    bench_die("bare loop: %s", mysql_error(own->my));
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
static struct own *connect_to(const char *url, int client)
{
    char text[1024], *user = text, *options, *database, *host, *password, *port, *socket;
    struct own *own = calloc(1, sizeof *own);

    if (own == NULL)
        bench_die("out of memory");
    snprintf(own->name, sizeof own->name, "bench %d", client);
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
    if ((own->my = mysql_init(NULL)) == NULL ||
        mysql_real_connect(own->my, host, user, password, database,
                           port != NULL ? (unsigned)atoi(port) : 0, socket,
                           CLIENT_MULTI_STATEMENTS) == NULL)
        die(own);
    return own;
}

/* Send a text, and read all of its answers; returns the token of the last one's row, -1 if that is
 * not `done`. If it has no row but has changed one: its last insert id. */
static int64_t ask(struct own *own, const char *sql, size_t len)
{
    int64_t token = -1;
    int more = mysql_real_query(own->my, sql, (unsigned long)len);

    for (; more == 0; more = mysql_next_result(own->my)) {
        MYSQL_RES *res = mysql_store_result(own->my);
        MYSQL_ROW row = res != NULL ? mysql_fetch_row(res) : NULL;

        if (row != NULL && atoi(row[SQLOCK_COL_OUTCOME]) == SQLOCK_OUT_DONE)
            token = atoll(row[SQLOCK_COL_TOKEN]);
        else if (res == NULL && mysql_affected_rows(own->my) == 1)
            token = (int64_t)mysql_insert_id(own->my);
        mysql_free_result(res);
    }
    if (mysql_errno(own->my) != 0)
        die(own);
    return token;
}

/* The client library wants that before its first thread. */
static void create(const char *url)
{
    (void)url;
    mysql_library_init(0, NULL, NULL);
}

/* As sqlock's sessions work. */
static void *start(const struct bench_db *db, void *shared, int client)
{
    static const char session[] = "SET time_zone = '+00:00';"
                                  "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
    const sqlock_script *handshake = &db->scripts[SQLOCK_STMT_HANDSHAKE];
    const char *note = handshake->steps[handshake->n_steps - 2].sql;
    struct own *own = connect_to(db->url, client);

    (void)shared;
    ask(own, session, sizeof session - 1);
    ask(own, note, strlen(note));
    make_text(own, &own->acquire, &db->scripts[SQLOCK_STMT_ACQUIRE]);
    make_text(own, &own->release, &db->scripts[SQLOCK_STMT_RELEASE]);
    return own;
}

static void end(void *arg)
{
    struct own *own = arg;

    mysql_close(own->my);
    free(own);
}

static void pair(void *arg)
{
    struct own *own = arg;
    unsigned char owner[SQLOCK_OWNER_SIZE];
    int64_t token;

    bench_owner(owner);
    set_owner(&own->acquire, owner);
    if ((token = ask(own, own->acquire.sql, own->acquire.len)) < 0)
        bench_die("bare loop: %s was not granted", own->name);
    set_owner(&own->release, owner);
    set_token(&own->release, token);
    if (ask(own, own->release.sql, own->release.len) <= 0)
        bench_die("bare loop: %s was not released", own->name);
}

/* ---- the lean loop --------------------------------------------------------------------------- */

struct lean {
    MYSQL_STMT *take, *give_back;
    unsigned char owner[SQLOCK_OWNER_SIZE];
    unsigned long name_len, owner_len;
    int64_t token;
    MYSQL_BIND take_params[2], give_params[3];
};

static void run(const char *url, const char *sql)
{
    struct own *own = connect_to(url, 0);

    if (mysql_query(own->my, sql) != 0)
        die(own);
    end(own);
}

static double asked; /* statements that only count */

static double status(struct own *own, const char *sql)
{
    MYSQL_RES *res;
    double value;

    if (mysql_query(own->my, sql) != 0 || (res = mysql_store_result(own->my)) == NULL)
        die(own);
    value = atof(mysql_fetch_row(res)[1]);
    mysql_free_result(res);
    asked++;
    return value;
}

static struct bench_counts count(const struct bench_db *db, int on)
{
    struct own *own = connect_to(db->url, 0);
    struct bench_counts counts;

    (void)on;
    counts.statements = status(own, "SHOW GLOBAL STATUS LIKE 'Questions'");
    counts.statements -= asked;
    counts.commits = status(own, "SHOW GLOBAL STATUS LIKE 'Handler_commit'");
    end(own);
    return counts;
}

static MYSQL_STMT *prepare(struct own *own, const char *sql, MYSQL_BIND *params)
{
    MYSQL_STMT *stmt = mysql_stmt_init(own->my);

    if (stmt == NULL || mysql_stmt_prepare(stmt, sql, (unsigned long)strlen(sql)) != 0 ||
        mysql_stmt_bind_param(stmt, params) != 0)
        die(own);
    return stmt;
}

static MYSQL_BIND parameter_at(enum enum_field_types type, void *at, unsigned long *len)
{
    return (MYSQL_BIND){
        .buffer_type = type, .buffer = at, .buffer_length = len != NULL ? *len : 8, .length = len};
}

static void *lean_start(const struct bench_db *db, void *shared, int client)
{
    struct own *own = connect_to(db->url, client);
    struct lean *lean = own->lean = calloc(1, sizeof *lean);

    (void)shared;
    if (lean == NULL)
        bench_die("out of memory");
    lean->name_len = (unsigned long)strlen(own->name);
    lean->owner_len = sizeof lean->owner;
    lean->take_params[0] = parameter_at(MYSQL_TYPE_BLOB, lean->owner, &lean->owner_len);
    lean->take_params[1] = parameter_at(MYSQL_TYPE_BLOB, own->name, &lean->name_len);
    lean->give_params[0] = lean->take_params[1];
    lean->give_params[1] = lean->take_params[0];
    lean->give_params[2] = parameter_at(MYSQL_TYPE_LONGLONG, &lean->token, NULL);
    lean->take = prepare(own,
                         "UPDATE bench_lean SET owner = ?, token = LAST_INSERT_ID(token + 1), "
                         "expires = UTC_TIMESTAMP(6) + INTERVAL 30 SECOND "
                         "WHERE name = ? AND expires <= UTC_TIMESTAMP(6)",
                         lean->take_params);
    lean->give_back = prepare(own,
                              "UPDATE bench_lean SET owner = NULL, expires = DEFAULT "
                              "WHERE name = ? AND owner = ? AND token = ?",
                              lean->give_params);
    return own;
}

static void lean_end(void *arg)
{
    struct own *own = arg;

    mysql_stmt_close(own->lean->take);
    mysql_stmt_close(own->lean->give_back);
    free(own->lean);
    end(own);
}

static void lean_pair(void *arg)
{
    struct own *own = arg;
    struct lean *lean = own->lean;

    bench_owner(lean->owner);
    if (mysql_stmt_execute(lean->take) != 0 || mysql_stmt_affected_rows(lean->take) != 1)
        bench_die("lean loop: %s was not granted: %s", own->name, mysql_stmt_error(lean->take));
    lean->token = (int64_t)mysql_stmt_insert_id(lean->take);
    if (mysql_stmt_execute(lean->give_back) != 0 || mysql_stmt_affected_rows(lean->give_back) != 1)
        bench_die("lean loop: %s was not released: %s", own->name,
                  mysql_stmt_error(lean->give_back));
}

static void *login(const char *url)
{
    return connect_to(url, 0);
}

const struct bench_client bench_mysql = {
    .database = "mysql",
    .driver = sqlock_driver_mysql,
    .create = create,
    .run = run,
    .login = login,
    .logout = end,
    .count = count,
    .lean_table = "CREATE TABLE bench_lean (name VARBINARY(255) PRIMARY KEY, "
                  "owner VARBINARY(16), token BIGINT NOT NULL DEFAULT 0, "
                  "expires DATETIME(6) NOT NULL DEFAULT '2000-01-01') ENGINE = InnoDB",
    .bare = {.name = "our SQL in libmariadb", .start = start, .end = end, .pair = pair},
    .lean = {.name = "lean loop",
             .prepare = bench_lean_prepare,
             .clean = bench_lean_clean,
             .start = lean_start,
             .end = lean_end,
             .pair = lean_pair},
};
