/* The client library's blocking calls and nothing else: the packets that sqlock's driver sends,
 * written by hand. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bare_mysql.h"

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

static void keep(struct own *own, const char *name, const char *which, const char *sql, size_t len)
{
    char quoted[TEXT_MAX], prepare[TEXT_MAX + 64];

    if (len * 2 >= sizeof quoted)
        bench_die("bare loop: a statement is too long");
    mysql_real_escape_string(own->my, quoted, sql, (unsigned long)len);
    snprintf(prepare, sizeof prepare, "PREPARE bare_%s%s FROM '%s'", name, which, quoted);
    ask(own, prepare, strlen(prepare));
}

/* On MariaDB the driver has the session prepare its statements, by the name of the request. What
 * stands behind the first one is one statement without values. */
static void make_execute(struct own *own, struct text *t, const sqlock_script *script,
                         const sqlock_step *step)
{
    const char *rest = strstr(step->sql, ";\n");
    size_t len = rest != NULL ? (size_t)(rest - step->sql) : strlen(step->sql);
    char execute[128];

    keep(own, script->name, "", step->sql, len);
    put(t, execute, (size_t)snprintf(execute, sizeof execute, "EXECUTE bare_%s", script->name));
    for (unsigned i = 0; i < step->n_order; i++) {
        put(t, i == 0 ? " USING " : ", ", i == 0 ? 7 : 2);
        put_parameter(own, t, parameter(script, step->order[i]));
    }
    if (rest == NULL)
        return;
    keep(own, script->name, "_rest", rest + 2, strlen(rest + 2));
    put(t, execute,
        (size_t)snprintf(execute, sizeof execute, ";\nEXECUTE bare_%s_rest", script->name));
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
        bare_mysql_die(own->my);
    return token;
}

/* As sqlock's sessions work. */
static void *start(const struct bench_db *db, void *shared, int client)
{
    static const char session[] = "SET time_zone = '+00:00';"
                                  "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
    const sqlock_script *handshake = &db->scripts[SQLOCK_STMT_HANDSHAKE];
    const char *note = handshake->steps[handshake->n_steps - 2].sql;
    struct own *own = calloc(1, sizeof *own);

    (void)shared;
    if (own == NULL)
        bench_die("out of memory");
    own->my = bare_mysql_connect(db->url);
    snprintf(own->name, sizeof own->name, "bench %d", client);
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

const struct bench_way bare_mysql_texts = {
    .name = "our SQL in libmariadb", .start = start, .end = end, .pair = pair};
