#include "races.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* What belongs to the test that runs now; its teardown frees it, however the test ended. */
static struct {
    const sqlock_dialect *dialect;
    char schema[64];
    char dir[64], file[96];
    conn conns[64];
    int n_conns;
    char *texts[1024];
    int n_texts;
    int number;
} test;

int64_t clock_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

void pause_ms(int ms)
{
    struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
    nanosleep(&t, NULL);
}

/* ---- requests and texts -----------------------------------------------------------------------
 */

request request_of(char owner, int64_t ttl)
{
    request r = {"app", "job", 3, 3, {0}, 0, ttl, INT64_MAX};
    memset(r.owner, owner, sizeof r.owner);
    return r;
}

request request_token(request r, int64_t token)
{
    r.token = token;
    return r;
}

request request_name(request r, const char *name, size_t len)
{
    r.name = name;
    r.name_len = len;
    return r;
}

static char *keep(char *text)
{
    assert_non_null(text);
    assert_true(test.n_texts < (int)COUNT(test.texts));
    test.texts[test.n_texts++] = text;
    return text;
}

/* Every `from` becomes `to`; *hits counts them. Frees text. */
static char *replaced(char *text, const char *from, const char *to, int *hits)
{
    char *out = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&out, &size);
    const char *rest = text, *at = NULL;
    assert_non_null(f);
    while ((at = strstr(rest, from)) != NULL) {
        fprintf(f, "%.*s%s", (int)(at - rest), rest, to);
        rest = at + strlen(from);
        (*hits)++;
    }
    fputs(rest, f);
    fclose(f);
    free(text);
    return out;
}

char *fill(const char *text)
{
    int pg = test.dialect == &sqlock_postgres_dialect;
    const char *words[] = {"{lock}", "{meta}", "{migration}", "{lock:text}", "{meta:text}"};
    const char *tables[] = {"lock", "meta", "migration", "lock", "meta"};
    char name[160];
    char *out = NULL;
    int hits = 0;
    snprintf(name, sizeof name, "(SELECT pg_advisory_xact_lock_shared(731205, %d)::text) = ''",
             (int)getpid());
    out = replaced(strdup(text), "{hold}", name, &hits);
    for (size_t i = 0; i < COUNT(words); i++) {
        const char *q = i < 3 ? "" : "'";
        snprintf(name, sizeof name, "%s\"%s\".\"sqlock_%s\"%s", q, pg ? test.schema : "main",
                 tables[i], q);
        out = replaced(out, words[i], name, &hits);
    }
    out = replaced(out, "{schema}", test.schema, &hits);
    return keep(replaced(out, "{prefix}", "sqlock_", &hits));
}

static script take(sqlock_stmt stmt, const sqlock_step *steps, int n)
{
    script s = {stmt, n, {NULL}, {0}};
    assert_true(n >= 1 && n <= MAX_STEPS);
    for (int i = 0; i < n; i++) {
        s.step[i] = fill(steps[i].sql);
        s.flags[i] = steps[i].flags;
    }
    return s;
}

script ours(sqlock_stmt stmt)
{
    const sqlock_script *from = &test.dialect->scripts[stmt];
    /* hello has more steps than a race needs: the last one tells who the server is */
    int skip = from->n_steps > MAX_STEPS ? from->n_steps - MAX_STEPS : 0;
    return take(stmt, from->steps + skip, from->n_steps - skip);
}

script ours_array(sqlock_stmt stmt)
{
    const sqlock_script *from = &test.dialect->scripts[stmt];
    return take(stmt, from->array_steps, from->n_array_steps);
}

script written(sqlock_stmt stmt, const char *text)
{
    const sqlock_step step = {text, NULL, 0, SQLOCK_STEP_WRITE};
    return take(stmt, &step, 1);
}

script changed(script s, const char *from, const char *to)
{
    int hits = 0;
    char *f = fill(from), *t = fill(to);
    for (int i = 0; i < s.n; i++)
        s.step[i] = keep(replaced(strdup(s.step[i]), f, t, &hits));
    if (!hits)
        fail_msg("the statement has no \"%s\" to change", f);
    return s;
}

/* ---- asking -----------------------------------------------------------------------------------
 */

static sqlock_value bytes(const void *data, size_t len)
{
    return (sqlock_value){SQLOCK_BYTES, 0, data, len};
}

static sqlock_value integer(int64_t i)
{
    return (sqlock_value){SQLOCK_INT, i, NULL, 0};
}

/* The request's parameters, in driver.h's order. */
static int bind(sqlock_stmt stmt, const request *r, sqlock_value *v)
{
    int n = 0;
    if (stmt == SQLOCK_STMT_HELLO) {
        v[n++] = integer(1);
        return n;
    }
    if (stmt == SQLOCK_STMT_REINCARNATE) {
        v[n++] = bytes(r->name, r->name_len);
        return n;
    }
    v[n++] = bytes(r->ns, r->ns_len);
    v[n++] = bytes(r->name, r->name_len);
    if (stmt == SQLOCK_STMT_ACQUIRE || stmt == SQLOCK_STMT_RENEW || stmt == SQLOCK_STMT_RELEASE)
        v[n++] = bytes(r->owner, sizeof r->owner);
    if (stmt == SQLOCK_STMT_RENEW || stmt == SQLOCK_STMT_RELEASE || stmt == SQLOCK_STMT_BREAK)
        v[n++] = integer(r->token);
    if (stmt == SQLOCK_STMT_ACQUIRE || stmt == SQLOCK_STMT_RENEW) {
        v[n++] = integer(r->ttl);
        v[n++] = integer(r->not_after);
    }
    if (stmt == SQLOCK_STMT_ACQUIRE)
        v[n++] = bytes("label", 5);
    return n;
}

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
    int n = bind(s->stmt, r, v);
    pg_send(c, s->step[i], v, n);
    pg_collect(c, &a, 1);
    return a;
}

static int lite_bind(sqlite3_stmt *st, const sqlock_value *v, int n)
{
    int wanted = sqlite3_bind_parameter_count(st), rc = SQLITE_OK;
    for (int i = 0; i < n && i < wanted && rc == SQLITE_OK; i++)
        rc = v[i].type == SQLOCK_INT
                 ? sqlite3_bind_int64(st, i + 1, v[i].i)
                 : sqlite3_bind_blob(st, i + 1, v[i].data, (int)v[i].len, SQLITE_TRANSIENT);
    return rc;
}

static void lite_read(sqlite3_stmt *st, answer *a)
{
    int n = sqlite3_column_count(st);
    a->rows++;
    a->index = sqlite3_column_int(st, SQLOCK_COL_INDEX);
    a->outcome = sqlite3_column_int(st, SQLOCK_COL_OUTCOME);
    a->token = n > SQLOCK_COL_TOKEN ? sqlite3_column_int64(st, SQLOCK_COL_TOKEN) : 0;
    a->left = n > SQLOCK_COL_LEFT ? sqlite3_column_int64(st, SQLOCK_COL_LEFT) : 0;
    a->now = n > SQLOCK_COL_NOW ? sqlite3_column_int64(st, SQLOCK_COL_NOW) : 0;
    a->since = n > SQLOCK_COL_SINCE ? sqlite3_column_int64(st, SQLOCK_COL_SINCE) : 0;
}

static int lite_step(sqlite3 *db, const char *sql, const sqlock_value *v, int n, answer *a)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &st, NULL);
    if (rc == SQLITE_OK)
        rc = lite_bind(st, v, n);
    if (rc == SQLITE_OK)
        while ((rc = sqlite3_step(st)) == SQLITE_ROW)
            lite_read(st, a);
    sqlite3_finalize(st);
    return rc == SQLITE_DONE ? SQLITE_OK : sqlite3_extended_errcode(db);
}

static const char *lite_error(int rc)
{
    return rc == SQLITE_BUSY_SNAPSHOT         ? "BUSY_SNAPSHOT"
           : (rc & 0xff) == SQLITE_BUSY       ? "BUSY"
           : (rc & 0xff) == SQLITE_CONSTRAINT ? "CONSTRAINT"
                                              : sqlite3_errstr(rc);
}

static answer lite_ask(sqlite3 *db, const script *s, const request *r)
{
    answer a = {0};
    sqlock_value v[8];
    int n = bind(s->stmt, r, v), own = 0, rc = SQLITE_OK;
    for (int i = 0; i < s->n && rc == SQLITE_OK && !a.rows; i++) {
        if ((s->flags[i] & SQLOCK_STEP_WRITE) && sqlite3_get_autocommit(db)) {
            rc = sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
            own = rc == SQLITE_OK;
        }
        if (rc == SQLITE_OK)
            rc = lite_step(db, s->step[i], v, n, &a);
    }
    if (own && rc == SQLITE_OK)
        rc = sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    if (own && rc != SQLITE_OK)
        sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    if (rc != SQLITE_OK) { /* rows came before the commit: they count for nothing */
        memset(&a, 0, sizeof a);
        snprintf(a.error, sizeof a.error, "%s", lite_error(rc));
    }
    return a;
}

answer ask(conn c, const script *s, const request *r)
{
    answer a = {0};
    if (c.lite)
        return lite_ask(c.lite, s, r);
    for (int i = 0; i < s->n && !a.rows && !a.error[0]; i++)
        a = pg_step(c.pg, s, i, r);
    return a;
}

answer acquire(conn c, request r)
{
    script s = ours(SQLOCK_STMT_ACQUIRE);
    return ask(c, &s, &r);
}

answer renew(conn c, request r)
{
    script s = ours(SQLOCK_STMT_RENEW);
    return ask(c, &s, &r);
}

answer release(conn c, request r)
{
    script s = ours(SQLOCK_STMT_RELEASE);
    return ask(c, &s, &r);
}

int try_run(conn c, const char *text)
{
    PGresult *res = NULL;
    int ok = 0;
    if (c.lite)
        return sqlite3_exec(c.lite, text, NULL, NULL, NULL);
    res = PQexec(c.pg, text);
    ok = PQresultStatus(res) == PGRES_COMMAND_OK || PQresultStatus(res) == PGRES_TUPLES_OK;
    PQclear(res);
    return ok ? 0 : -1;
}

void run(conn c, const char *text)
{
    char *sql = fill(text);
    if (try_run(c, sql) != 0)
        fail_msg("%s: %s", sql, c.lite ? sqlite3_errmsg(c.lite) : PQerrorMessage(c.pg));
}

static int64_t lite_number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *st = NULL;
    int64_t n = -1;
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &st, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    if (sqlite3_column_type(st, 0) != SQLITE_NULL)
        n = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return n;
}

int64_t number(conn c, const char *text)
{
    char *sql = fill(text);
    PGresult *res = NULL;
    int64_t n = -1;
    if (c.lite)
        return lite_number(c.lite, sql);
    res = PQexec(c.pg, sql);
    if (PQresultStatus(res) != PGRES_TUPLES_OK || PQntuples(res) != 1)
        fail_msg("%s: %s", sql, PQerrorMessage(c.pg));
    pg_column(res, 0, 0, &n);
    PQclear(res);
    return n;
}

void expect(answer a, int outcome, int line)
{
    if (a.error[0])
        fail_msg("line %d: error %s, not outcome %d", line, a.error, outcome);
    if (a.rows != 1 || a.outcome != outcome)
        fail_msg("line %d: %d rows, outcome %d, not %d", line, a.rows, a.outcome, outcome);
}

/* ---- PostgreSQL -------------------------------------------------------------------------------
 */

int pg_missing(void)
{
    const char *strict = getenv("STRICT");
    if (getenv("SQLOCK_TEST_POSTGRES_URL"))
        return 0;
    printf("SKIP: SQLOCK_TEST_POSTGRES_URL is not set: the races on PostgreSQL did not run\n");
    return strict && strcmp(strict, "1") == 0 ? 2 : 1;
}

static conn track(conn c)
{
    assert_true(test.n_conns < (int)COUNT(test.conns));
    test.conns[test.n_conns++] = c;
    return c;
}

conn pg_open(void)
{
    conn c = {PQconnectdb(getenv("SQLOCK_TEST_POSTGRES_URL")), NULL};
    track(c);
    if (PQstatus(c.pg) != CONNECTION_OK)
        fail_msg("connect: %s", PQerrorMessage(c.pg));
    /* No test may hang: what it waits for comes within moments or not at all. */
    run(c, "SET statement_timeout = '8s'; SET client_min_messages = error");
    return c;
}

static void migrate(conn c)
{
    for (size_t m = 0; m < test.dialect->n_migrations; m++)
        for (size_t i = 0; i < test.dialect->migrations[m].n_up; i++)
            run(c, test.dialect->migrations[m].up[i]);
}

/* As the library does when it first meets a server. */
static void pg_introduce(conn c)
{
    script hello = ours(SQLOCK_STMT_HELLO), meet = ours(SQLOCK_STMT_REINCARNATE);
    request r = request_of('-', 0);
    sqlock_value v[8];
    PGresult *res = NULL;
    unsigned char *name = NULL;
    size_t len = 0;
    pg_send(c.pg, hello.step[hello.n - 1], v, bind(SQLOCK_STMT_HELLO, &r, v));
    res = PQgetResult(c.pg);
    assert_int_equal(PQresultStatus(res), PGRES_TUPLES_OK);
    name = PQunescapeBytea((const unsigned char *)PQgetvalue(res, 0, SQLOCK_COL_SERVER), &len);
    PQclear(res);
    while ((res = PQgetResult(c.pg)) != NULL)
        PQclear(res);
    r = request_name(r, (const char *)name, len);
    EXPECT(ask(c, &meet, &r), SQLOCK_OUT_DONE);
    PQfreemem(name);
}

int pg_setup(void **state)
{
    conn c;
    (void)state;
    test.dialect = &sqlock_postgres_dialect;
    snprintf(test.schema, sizeof test.schema, "race_%d_%d", (int)getpid(), ++test.number);
    c = pg_open();
    run(c, "CREATE SCHEMA {schema}");
    migrate(c);
    pg_introduce(c);
    return 0;
}

void pg_start(conn c, const script *s, int step, const request *r)
{
    sqlock_value v[8];
    int n = bind(s->stmt, r, v);
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
    conn watch = test.conns[0]; /* of the setup: no test talks on it */
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
        bind(stmt, &r[i], v);
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
    int n_params = bind(s->stmt, r, v);
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

/* ---- SQLite -----------------------------------------------------------------------------------
 */

conn lite_open(void)
{
    conn c = {NULL, NULL};
    assert_int_equal(sqlite3_open(test.file, &c.lite), SQLITE_OK);
    sqlite3_extended_result_codes(c.lite, 1);
    return track(c);
}

static int lite_setup(const char *mode)
{
    conn c;
    test.dialect = &sqlock_sqlite_dialect;
    snprintf(test.dir, sizeof test.dir, "/tmp/sqlock-race-XXXXXX");
    assert_non_null(mkdtemp(test.dir));
    snprintf(test.file, sizeof test.file, "%s/locks.db", test.dir);
    c = lite_open();
    run(c, mode);
    migrate(c);
    return 0;
}

int lite_setup_wal(void **state)
{
    (void)state;
    return lite_setup("PRAGMA journal_mode = WAL");
}

int lite_setup_rollback(void **state)
{
    (void)state;
    return lite_setup("PRAGMA journal_mode = DELETE");
}

static void remove_files(void)
{
    const char *tails[] = {"", "-wal", "-shm", "-journal"};
    for (size_t i = 0; i < COUNT(tails); i++) {
        char path[128];
        snprintf(path, sizeof path, "%s%s", test.file, tails[i]);
        unlink(path);
    }
    rmdir(test.dir);
}

int race_teardown(void **state)
{
    (void)state;
    for (int i = test.n_conns - 1; i >= 0; i--) {
        conn c = test.conns[i];
        if (i == 0 && c.pg)
            run(c, "DROP SCHEMA {schema} CASCADE");
        PQfinish(c.pg);
        sqlite3_close_v2(c.lite);
    }
    test.n_conns = 0;
    if (test.dir[0])
        remove_files();
    test.dir[0] = '\0';
    while (test.n_texts > 0)
        free(test.texts[--test.n_texts]);
    return 0;
}

/* ---- four clients -----------------------------------------------------------------------------
 */

struct client {
    stress *of;
    conn c;
    pthread_mutex_t *mutex;
    unsigned seed;
    int number;
    int64_t end;
};

static void note(struct client *k, const answer *a, int64_t sent)
{
    stress *s = k->of;
    pthread_mutex_lock(k->mutex);
    if (a->error[0] && strcmp(a->error, "BUSY") != 0)
        s->errors++;
    if (a->rows && a->outcome == SQLOCK_OUT_DONE && s->grants < (int)COUNT(s->seen))
        s->seen[s->grants++] = (seen){a->token, a->since, sent, clock_us()};
    pthread_mutex_unlock(k->mutex);
}

static void *client_main(void *arg)
{
    struct client *k = arg;
    for (int64_t i = 0; clock_us() < k->end; i++) {
        request r = request_of((char)('a' + k->number), k->of->ttl);
        int64_t sent = clock_us();
        answer a;
        memcpy(r.owner, &i, sizeof i); /* a new owner for each acquisition */
        a = ask(k->c, &k->of->acquire, &r);
        note(k, &a, sent);
        if (!a.rows || a.outcome != SQLOCK_OUT_DONE) {
            pause_ms(rand_r(&k->seed) % 2);
            continue;
        }
        pause_ms((int)((int64_t)rand_r(&k->seed) % (2 * k->of->ttl / MS)));
        r.token = a.token;
        for (int try = rand_r(&k->seed) % 4 ? 50 : 0; try > 0; try--) {
            a = ask(k->c, &k->of->release, &r);
            if (a.rows)
                break;
            pause_ms(1);
        }
        pause_ms(rand_r(&k->seed) % 8); /* so that the row is idle at times */
    }
    return NULL;
}

static void *pruner_main(void *arg)
{
    struct client *k = arg;
    while (k->of->prune[0] && clock_us() < k->end) {
        int failed = 0;
        for (int i = 0; k->of->prune[i] && !failed; i++)
            failed = try_run(k->c, k->of->prune[i]);
        if (failed)
            try_run(k->c, "ROLLBACK");
        pause_ms(1);
    }
    return NULL;
}

void stress_run(stress *s)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_t threads[STRESS_CLIENTS + 1];
    struct client k[STRESS_CLIENTS + 1];
    int64_t end = clock_us() + s->ms * MS;
    for (int i = 0; i <= STRESS_CLIENTS; i++)
        k[i] = (struct client){s, s->open(), &mutex, 7u + (unsigned)i, i, end};
    for (int i = 0; i <= STRESS_CLIENTS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL,
                                        i < STRESS_CLIENTS ? client_main : pruner_main, &k[i]),
                         0);
    for (int i = 0; i <= STRESS_CLIENTS; i++)
        pthread_join(threads[i], NULL);
}

/* Grants are ordered by the server's clock as the statement read it under the row's lock, and by
 * the clients' clock where one had its answer before the other asked. */
int stress_faults(const stress *s)
{
    int faults = 0;
    for (int i = 0; i < s->grants; i++)
        for (int j = 0; j < s->grants; j++) {
            const seen *a = &s->seen[i], *b = &s->seen[j];
            int before = a->since < b->since || a->got < b->sent;
            faults += (i < j && a->token == b->token) || (before && a->token > b->token);
        }
    return faults;
}
