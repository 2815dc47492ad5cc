/* A test's connections and texts, and questions that are asked alike of every database. */
#include "bench.h"

#include <stdlib.h>
#include <time.h>

struct bench bench;

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

/* ---- what belongs to a test -------------------------------------------------------------------
 */

conn track(conn c)
{
    assert_true(bench.n_conns < (int)COUNT(bench.conns));
    bench.conns[bench.n_conns++] = c;
    return c;
}

char *keep(char *text)
{
    assert_non_null(text);
    assert_true(bench.n_texts < (int)COUNT(bench.texts));
    bench.texts[bench.n_texts++] = text;
    return text;
}

void migrate(conn c)
{
    for (size_t m = 0; m < bench.dialect->n_migrations; m++)
        for (size_t i = 0; i < bench.dialect->migrations[m].n_up; i++)
            run(c, bench.dialect->migrations[m].up[i]);
}

int race_teardown(void **state)
{
    (void)state;
    for (int i = bench.n_conns - 1; i >= 0; i--) {
        conn c = bench.conns[i];
        if (i == 0 && c.pg)
            run(c, "DROP SCHEMA {schema} CASCADE");
        if (i == 0 && c.my)
            run(c, "DROP DATABASE {schema}");
        my_close(c.my);
        PQfinish(c.pg);
        sqlite3_close_v2(c.lite);
    }
    bench.n_conns = 0;
    lite_remove();
    while (bench.n_texts > 0)
        free(bench.texts[--bench.n_texts]);
    return 0;
}

/* ---- asking -----------------------------------------------------------------------------------
 */

answer ask(conn c, const script *s, const request *r)
{
    if (c.my)
        return my_ask(c.my, s, r);
    return c.lite ? lite_ask(c.lite, s, r) : pg_ask(c.pg, s, r);
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

answer withdraw(conn c, request r)
{
    script s = ours(SQLOCK_STMT_WITHDRAW);
    return ask(c, &s, &r);
}

answer prune(conn c, const script *s, request r)
{
    r.floor = number(c, "SELECT coalesce(max(token), 0) FROM {lock}");
    return ask(c, s, &r);
}

int try_run(conn c, const char *text)
{
    PGresult *res = NULL;
    int ok = 0;
    if (c.my)
        return my_try(c.my, text);
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
        fail_msg("%s: %s", sql,
                 c.my     ? "refused"
                 : c.lite ? sqlite3_errmsg(c.lite)
                          : PQerrorMessage(c.pg));
}

int64_t number(conn c, const char *text)
{
    char *sql = fill(text);
    if (c.my)
        return my_count(c.my, sql);
    return c.lite ? lite_number(c.lite, sql) : pg_number(c.pg, sql);
}

void expect(answer a, int outcome, const char *file, int line)
{
    if (!a.error[0] && a.rows == 1 && a.outcome == outcome)
        return;
    if (a.error[0])
        print_error("error %s, not outcome %d\n", a.error, outcome);
    else
        print_error("%d rows, outcome %d, not %d\n", a.rows, a.outcome, outcome);
    _fail(file, line);
}

/* ---- the lock's row ----------------------------------------------------------------------------
 */

int64_t server_us(conn c)
{
    if (c.lite)
        return number(c, "SELECT " LITE_NOW) * MS;
    return number(c, c.my ? "SELECT " MY_NOW : "SELECT " PG_NOW);
}

int64_t row_end(conn c)
{
    return number(c, "SELECT exp FROM {lock}") * (c.lite ? MS : 1);
}

int64_t row_owner(conn c)
{
    if (c.lite)
        return number(c, "SELECT unicode(CAST(substr(owner, 1, 1) AS TEXT)) FROM {lock}");
    return number(c, c.my ? "SELECT ascii(substr(owner, 1, 1)) FROM {lock}"
                          : "SELECT get_byte(owner, 0) FROM {lock}");
}

void let_it_run_out(conn c)
{
    if (c.lite)
        run(c, "UPDATE {lock} SET exp = " LITE_NOW " - 1 WHERE owner IS NOT NULL");
    else if (c.my)
        run(c, "UPDATE {lock} SET exp = " MY_NOW " - 1 WHERE owner IS NOT NULL");
    else
        run(c, "UPDATE {lock} SET exp = " PG_NOW " - 1 WHERE owner IS NOT NULL");
}
