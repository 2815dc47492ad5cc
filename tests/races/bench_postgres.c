/* PostgreSQL: a schema for each test, and sessions that can be held still within a statement. */
#include "bench.h"

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- asking -----------------------------------------------------------------------------------
 */

static void pg_send(PGconn *c, const char *sql, const sqlock_value *v, int n)
{
    Oid types[8];
    const char *values[8];
    int lengths[8], formats[8];
    char numbers[8][24];
    for (int i = 0; i < n; i++) {
        int is_int = v[i].type == SQLOCK_INT;
        types[i] = is_int ? 20 : 17; /* int8, bytea */
        formats[i] = !is_int;
        snprintf(numbers[i], sizeof numbers[i], "%lld", (long long)v[i].i);
        values[i] = is_int ? numbers[i] : v[i].data;
        lengths[i] = is_int ? 0 : (int)v[i].len;
    }
    PQsendQueryParams(c, sql, n, types, values, lengths, formats, 0);
}

static void pg_column(const PGresult *res, int row, int col, int64_t *out)
{
    if (col < PQnfields(res) && !PQgetisnull(res, row, col))
        *out = strtoll(PQgetvalue(res, row, col), NULL, 10);
}

static void pg_read(const PGresult *res, int row, answer *a)
{
    int64_t index = -1, outcome = 0;
    pg_column(res, row, SQLOCK_COL_INDEX, &index);
    pg_column(res, row, SQLOCK_COL_OUTCOME, &outcome);
    a->index = (int)index;
    a->outcome = (int)outcome;
    pg_column(res, row, SQLOCK_COL_TOKEN, &a->token);
    pg_column(res, row, SQLOCK_COL_LEFT, &a->left);
    pg_column(res, row, SQLOCK_COL_NOW, &a->now);
    pg_column(res, row, SQLOCK_COL_SINCE, &a->since);
}

/* All results of what was sent. The first error wins; the last rows do. */
static int pg_collect(PGconn *c, answer *out, int max)
{
    PGresult *res = NULL;
    int n = 0;
    memset(out, 0, (size_t)max * sizeof *out);
    while ((res = PQgetResult(c)) != NULL) {
        ExecStatusType status = PQresultStatus(res);
        const char *state = PQresultErrorField(res, PG_DIAG_SQLSTATE);
        if (status == PGRES_TUPLES_OK)
            for (n = 0; n < PQntuples(res) && n < max; n++)
                pg_read(res, n, &out[n]);
        else if (status != PGRES_COMMAND_OK && !out[0].error[0])
            snprintf(out[0].error, sizeof out[0].error, "%s", state ? state : "broken");
        PQclear(res);
    }
    if (PQstatus(c) != CONNECTION_OK)
        snprintf(out[0].error, sizeof out[0].error, "connection");
    if (max == 1)
        out[0].rows = n;
    return n;
}

static answer pg_step(PGconn *c, const script *s, int i, const request *r)
{
    sqlock_value v[8];
    answer a;
    int n = bind_request(s->stmt, r, v);
    pg_send(c, s->step[i], v, n);
    pg_collect(c, &a, 1);
    return a;
}

answer pg_ask(PGconn *c, const script *s, const request *r)
{
    answer a = {0};
    for (int i = 0; i < s->n && !a.rows && !a.error[0]; i++)
        a = pg_step(c, s, i, r);
    return a;
}

int64_t pg_number(PGconn *c, const char *sql)
{
    PGresult *res = PQexec(c, sql);
    int64_t n = -1;
    if (PQresultStatus(res) != PGRES_TUPLES_OK || PQntuples(res) != 1)
        fail_msg("%s: %s", sql, PQerrorMessage(c));
    pg_column(res, 0, 0, &n);
    PQclear(res);
    return n;
}

/* ---- a test's schema ---------------------------------------------------------------------------
 */

int pg_missing(void)
{
    const char *strict = getenv("STRICT");
    if (getenv("SQLOCK_TEST_POSTGRES_URL"))
        return 0;
    printf("SKIP: SQLOCK_TEST_POSTGRES_URL is not set: the races on PostgreSQL did not run\n");
    return strict && strcmp(strict, "1") == 0 ? 2 : 1;
}

conn pg_open(void)
{
    conn c = {.pg = PQconnectdb(getenv("SQLOCK_TEST_POSTGRES_URL"))};
    track(c);
    if (PQstatus(c.pg) != CONNECTION_OK)
        fail_msg("connect: %s", PQerrorMessage(c.pg));
    /* No test may hang: what it waits for comes within moments or not at all. */
    run(c, "SET statement_timeout = '8s'; SET client_min_messages = error");
    return c;
}

/* As the library does when it first meets a server. */
static void pg_introduce(conn c)
{
    script handshake = ours(SQLOCK_STMT_HANDSHAKE), meet = ours(SQLOCK_STMT_REINCARNATE);
    request r = request_of('-', 0);
    sqlock_value v[8];
    PGresult *res = NULL;
    unsigned char *name = NULL;
    size_t len = 0;
    pg_send(c.pg, handshake.step[handshake.n - 1], v, bind_request(SQLOCK_STMT_HANDSHAKE, &r, v));
    res = PQgetResult(c.pg);
    assert_int_equal(PQresultStatus(res), PGRES_TUPLES_OK);
    name = PQunescapeBytea((const unsigned char *)PQgetvalue(res, 0, SQLOCK_COL_SERVER), &len);
    PQclear(res);
    while ((res = PQgetResult(c.pg)) != NULL)
        PQclear(res);
    r = request_name(r, (const char *)name, len);
    EXPECT(ask(c, &meet, &r), SQLOCK_OUT_DONE);
    run(c, "UPDATE {meta} SET fence_floor = 0"); /* so that tokens begin at 1 */
    PQfreemem(name);
}

int pg_setup(void **state)
{
    conn c;
    (void)state;
    bench.dialect = &sqlock_postgres_dialect;
    snprintf(bench.schema, sizeof bench.schema, "race_%d_%d", (int)getpid(), ++bench.number);
    c = pg_open();
    run(c, "CREATE SCHEMA {schema}");
    migrate(c);
    pg_introduce(c);
    return 0;
}

/* ---- without waiting ---------------------------------------------------------------------------
 */

void pg_start(conn c, const script *s, int step, const request *r)
{
    sqlock_value v[8];
    int n = bind_request(s->stmt, r, v);
    pg_send(c.pg, s->step[step], v, n);
}

answer pg_finish(conn c)
{
    answer a;
    pg_collect(c.pg, &a, 1);
    return a;
}

/* Did the answer come? Without waiting for it. */
static int pg_came(PGconn *c)
{
    struct pollfd p = {PQsocket(c), POLLIN, 0};
    if (!PQflush(c) && poll(&p, 1, 0) > 0)
        PQconsumeInput(c);
    return !PQisBusy(c);
}

int pg_waits(conn c)
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
        pause_ms(1);
    }
    fail_msg("a statement neither waits nor returns");
    return -1;
}

void pg_hold(conn c)
{
    char sql[96];
    snprintf(sql, sizeof sql, "BEGIN; SELECT pg_advisory_xact_lock(731205, %d)", (int)getpid());
    run(c, sql);
}

void pg_unhold(conn c)
{
    run(c, "COMMIT");
}

script ours_held(void)
{
    return changed(ours(SQLOCK_STMT_ACQUIRE), "FOR UPDATE OF c", "AND {hold} FOR UPDATE OF c");
}

answer pg_beside_a_late_renewal(const script *held, request r)
{
    conn a = pg_open(), c = pg_open(), gate = pg_open();
    request ra = request_of('A', 150 * MS);
    run(a, "DELETE FROM {lock}");
    ra.token = acquire(a, ra).token;
    ra.ttl = 5000 * MS;
    run(a, "BEGIN");
    EXPECT(renew(a, ra), SQLOCK_OUT_DONE);
    pause_ms(200);
    pg_hold(gate);
    pg_start(c, held, 0, &r);
    assert_int_equal(pg_waits(c), 1);
    run(a, "COMMIT");
    pg_unhold(gate);
    return pg_finish(c);
}

/* ---- many requests in one statement
 * ------------------------------------------------------------ */

/* One array literal for parameter col of all requests. */
static char *pg_array(sqlock_stmt stmt, const request *r, int n, int col)
{
    char *out = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&out, &size);
    assert_non_null(f);
    fputc('{', f);
    for (int i = 0; i < n; i++) {
        sqlock_value v[8];
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

void pg_start_array(conn c, const script *s, const request *r, int n)
{
    sqlock_value v[8];
    Oid types[8];
    const char *values[8];
    int n_params = bind_request(s->stmt, r, v);
    for (int i = 0; i < n_params; i++) {
        types[i] = v[i].type == SQLOCK_INT ? 1016 : 1001; /* int8[], bytea[] */
        values[i] = pg_array(s->stmt, r, n, i);
    }
    PQsendQueryParams(c.pg, s->step[0], n_params, types, values, NULL, NULL, 0);
}

int pg_finish_array(conn c, answer *out, int max)
{
    assert_true(max > 1);
    return pg_collect(c.pg, out, max);
}

int pg_ask_array(conn c, const script *s, const request *r, int n, answer *out)
{
    pg_start_array(c, s, r, n);
    return pg_finish_array(c, out, n);
}
