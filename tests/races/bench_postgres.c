/* PostgreSQL: a schema for each test, and sessions that can be held still within a statement. */
#include "bench.h"

#include <poll.h>
#include <stdlib.h>

#include "tests/lib/pg.h"

extern const sqlock_dialect sqlock_postgres_dialect;

/* ---- asking ---------------------------------------------------------------------------------- */

static int is_lazy(sqlock_stmt stmt)
{
    return (sqlock_postgres_dialect.scripts[stmt].flags & SQLOCK_REQ_LAZY) != 0;
}

/* Behind the request's own parameters, if it is one of those that need not wait for the disk. */
static int add_lazy(sqlock_stmt stmt, Oid *types, const char **values, int n)
{
    if (!is_lazy(stmt))
        return n;
    types[n] = 16; /* bool */
    values[n] = "t";
    return n + 1;
}

static void pg_send(PGconn *c, sqlock_stmt stmt, const char *sql, const sqlock_value *v, int n)
{
    Oid types[MAX_PARAMS + 1];
    const char *values[MAX_PARAMS + 1];
    int lengths[MAX_PARAMS + 1] = {0}, formats[MAX_PARAMS + 1] = {0};
    char numbers[8][24];
    for (int i = 0; i < n; i++) {
        int is_int = v[i].type == SQLOCK_INT;
        types[i] = is_int ? 20 : 17; /* int8, bytea */
        formats[i] = !is_int;
        snprintf(numbers[i], sizeof numbers[i], "%lld", (long long)v[i].i);
        values[i] = is_int ? numbers[i] : v[i].data;
        lengths[i] = is_int ? 0 : (int)v[i].len;
    }
    n = add_lazy(stmt, types, values, n);
    PQsendQueryParams(c, sql, n, types, values, lengths, formats, 0);
}

static void pg_column(const PGresult *res, int row, int col, int64_t *out)
{
    if (col < PQnfields(res) && !PQgetisnull(res, row, col))
        *out = strtoll(PQgetvalue(res, row, col), NULL, 10);
}

/* All results of what was sent. The first error wins; the last rows do. */
static int pg_finish(conn c, answer *out, int max)
{
    PGresult *res = NULL;
    int n = 0;
    memset(out, 0, (size_t)max * sizeof *out);
    while ((res = PQgetResult(c.pg)) != NULL) {
        ExecStatusType status = PQresultStatus(res);
        const char *state = PQresultErrorField(res, PG_DIAG_SQLSTATE);
        if (status == PGRES_TUPLES_OK)
            for (n = 0; n < PQntuples(res) && n < max; n++)
                for (int i = 0; i < CELLS; i++)
                    pg_column(res, n, i, &out[n].cell[i]);
        else if (status != PGRES_COMMAND_OK && !out[0].error[0])
            snprintf(out[0].error, sizeof out[0].error, "%s", state ? state : "broken");
        PQclear(res);
    }
    if (PQstatus(c.pg) != CONNECTION_OK)
        snprintf(out[0].error, sizeof out[0].error, "connection");
    if (max == 1)
        out[0].rows = n;
    return n;
}

/* One array literal for parameter col of all requests. */
static char *pg_array(sqlock_stmt stmt, const request *r, int n, int col)
{
    char *out = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&out, &size);
    assert_non_null(f);
    fputc('{', f);
    for (int i = 0; i < n; i++) {
        sqlock_value v[MAX_PARAMS];
        bind_request(stmt, &r[i], v);
        fputs(i ? "," : "", f);
        if (v[col].type == SQLOCK_INT) {
            fprintf(f, "%lld", (long long)v[col].i);
            continue;
        }
        fputs("\"\\\\x", f);
        for (size_t b = 0; b < v[col].len; b++)
            fprintf(f, "%02x", ((const unsigned char *)v[col].data)[b]);
        fputc('"', f);
    }
    fputc('}', f);
    fclose(f);
    return keep(out);
}

static void pg_start(conn c, const script *s, const request *r, int n)
{
    sqlock_value v[MAX_PARAMS];
    Oid types[MAX_PARAMS + 1];
    const char *values[MAX_PARAMS + 1];
    int n_params = bind_request(s->stmt, r, v);
    if (!s->many) {
        pg_send(c.pg, s->stmt, s->step[0], v, n_params);
        return;
    }
    for (int i = 0; i < n_params; i++) {
        types[i] = v[i].type == SQLOCK_INT ? 1016 : 1001; /* int8[], bytea[] */
        values[i] = pg_array(s->stmt, r, n, i);
    }
    n_params = add_lazy(s->stmt, types, values, n_params);
    PQsendQueryParams(c.pg, s->step[0], n_params, types, values, NULL, NULL, 0);
}

static answer pg_fetch(conn c, const script *s, const request *r)
{
    answer a = {0};
    script rest = *s;
    for (; rest.n > 0 && !a.rows && !a.error[0]; rest = from_step(rest, 2)) {
        pg_start(c, &rest, r, 1);
        pg_finish(c, &a, 1);
    }
    return a;
}

static int pg_try(conn c, const char *sql)
{
    PGresult *res = PQexec(c.pg, sql);
    int ok = PQresultStatus(res) == PGRES_COMMAND_OK || PQresultStatus(res) == PGRES_TUPLES_OK;
    PQclear(res);
    return ok ? 0 : -1;
}

static char *pg_value(conn c, const char *sql, int column)
{
    PGresult *res = PQexec(c.pg, sql);
    char *out = NULL;
    if (PQresultStatus(res) != PGRES_TUPLES_OK || PQntuples(res) != 1)
        broken("%s: %s", sql, PQerrorMessage(c.pg));
    if (!PQgetisnull(res, 0, column)) {
        size_t len = 0;
        unsigned char *text = (unsigned char *)PQgetvalue(res, 0, column);
        unsigned char *bytes = PQftype(res, column) == 17 ? PQunescapeBytea(text, &len) : NULL;
        out = strdup((char *)(bytes ? bytes : text));
        PQfreemem(bytes);
    }
    PQclear(res);
    return out;
}

/* ---- plans ----------------------------------------------------------------------------------- */

/* What EXPLAIN says of one node, up to the next one, when it reads the lock's table. */
static int is_by_key(const char *node)
{
    const char *next = strstr(node + 1, "\"Node Type\": "),
               *cond = strstr(node, "\"Index Cond\": ");
    char line[400];

    if (cond == NULL || (next != NULL && cond > next))
        return 0;
    snprintf(line, sizeof line, "%.*s", (int)strcspn(cond, "\n"), cond);
    if (strstr(line, "(ROW(ns, name) >= ROW(") != NULL && strstr(line, "(ROW(ns, name) < ROW("))
        return 1;
    return strstr(line, "(ns = ") != NULL &&
           (strstr(line, "(name = ") != NULL ||
            (strstr(line, "(name > ") != NULL && strstr(line, "(name < ") != NULL));
}

static const char *plan_in_words(const char *json)
{
    static const char type[] = "\"Node Type\": ", table[] = "\"Relation Name\": \"sqlock_lock\"";
    for (const char *node = json; (node = strstr(node, type)) != NULL; node++) {
        const char *next = strstr(node + 1, type), *of = strstr(node, table);
        const char *name = node + sizeof type;
        if (strncmp(name, "Sort", 4) == 0)
            return "sorted";
        if (of != NULL && (next == NULL || of < next) && strncmp(name, "ModifyTable", 11) != 0 &&
            !is_by_key(node))
            return "whole table";
    }
    return "by key";
}

/* Frees the first one. */
static char *joined(char *text, const char *more)
{
    char *both = strdup(textf("%s%s", text, more));

    free(text);
    return both;
}

/* As a connection that has prepared it long ago: without knowing the values. */
static const char *pg_plan(conn c, const script *s)
{
    const char *params = bench.db->dialect->scripts[s->stmt].params, *words = "by key";
    for (int i = 0; i < s->n && strcmp(words, "by key") == 0; i++) {
        char *types = strdup(""), *nulls = strdup(""), *json;
        for (const char *p = params; *p != '\0'; p += strcspn(p, " "), p += strspn(p, " ")) {
            const char *comma = *types ? ", " : "";

            types = joined(
                types, textf("%s%s%s", comma, *p == 'i' ? "bigint" : "bytea", s->many ? "[]" : ""));
            nulls = joined(nulls, textf("%sNULL", comma));
        }
        if (is_lazy(s->stmt)) {
            types = joined(types, ", boolean");
            nulls = joined(nulls, ", NULL");
        }
        run(c, textf("PREPARE planned (%s) AS %s", types, s->step[i]));
        json = keep(pg_value(c, textf("EXPLAIN (FORMAT JSON) EXECUTE planned (%s)", nulls), 0));
        run(c, "DEALLOCATE planned");
        words = plan_in_words(json);
        if (strcmp(words, "by key") != 0)
            printf("%s\n", json);
        free(types);
        free(nulls);
    }
    return words;
}

static const char *pg_error(conn c)
{
    return PQerrorMessage(c.pg);
}

/* ---- a test's schema ------------------------------------------------------------------------- */

static conn pg_open(void)
{
    conn c = {.pg = PQconnectdb(pg_url())};
    if (PQstatus(c.pg) != CONNECTION_OK)
        broken("connect: %s", PQerrorMessage(c.pg));
    /* No test may hang: what it waits for comes within moments or not at all. */
    if (pg_try(c, "SET statement_timeout = '8s'; SET client_min_messages = error") != 0)
        broken("connect: %s", PQerrorMessage(c.pg));
    return c;
}

static void pg_close(conn c)
{
    PQfinish(c.pg);
}

/* ---- without waiting ------------------------------------------------------------------------- */

/* Did the answer come? Without waiting for it. */
static int pg_came(PGconn *c)
{
    struct pollfd p = {PQsocket(c), POLLIN, 0};
    if (!PQflush(c) && poll(&p, 1, 0) > 0)
        PQconsumeInput(c);
    return !PQisBusy(c);
}

static int pg_waits(conn c)
{
    conn watch = bench.conns[0]; /* of the setup: no test talks on it */
    char sql[160];
    snprintf(sql, sizeof sql,
             "SELECT count(*) FROM pg_stat_activity WHERE pid = %d AND wait_event_type = 'Lock'",
             PQbackendPID(c.pg));
    for (int i = 0; i < 2000; i++) {
        PGresult *res = NULL;
        int64_t n = 0;
        if (pg_came(c.pg))
            return 0;
        res = PQexec(watch.pg, sql);
        pg_column(res, 0, 0, &n);
        PQclear(res);
        if (n == 1)
            return 1;
        sleep_ms(1);
    }
    broken("a statement neither waits nor returns");
}

const struct database postgres = {
    .name = "postgres",
    .mode = "postgres",
    .driver = "postgres",
    .server = &pg_server,
    .dialect = &sqlock_postgres_dialect,
    .now = "(date_part('epoch', clock_timestamp()) * 1000000)::bigint",
    .ms = "1000",
    .owner = "SELECT get_byte(owner, 0) FROM {lock}",
    .held = "(SELECT pg_advisory_xact_lock_shared(731205, {pid})::text) = ''",
    .hold = "BEGIN; SELECT pg_advisory_xact_lock(731205, {pid})",
    .unhold = "COMMIT",
    .quote = '"',
    .create = create_schema,
    .open = pg_open,
    .close = pg_close,
    .ask = pg_fetch,
    .start = pg_start,
    .waits = pg_waits,
    .finish = pg_finish,
    .try_run = pg_try,
    .value = pg_value,
    .error = pg_error,
    .plan = pg_plan,
};
