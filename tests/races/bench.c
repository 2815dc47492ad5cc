/* A test's connections and texts, and what is done alike on every database. */
#include "bench.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct bench bench;

void broken(const char *format, ...)
{
    char text[2000];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fail_msg("%s%s%s", text, bench.where ? "\n    at " : "", bench.where ? bench.where : "");
    abort();
}

/* ---- what belongs to a test ------------------------------------------------------------------ */

char *keep(char *text)
{
    assert_non_null(text);
    assert_true(bench.n_texts < (int)COUNT(bench.texts));
    bench.texts[bench.n_texts++] = text;
    return text;
}

void migrate(conn c)
{
    for (size_t m = 0; m < bench.db->dialect->n_migrations; m++)
        for (size_t i = 0; i < bench.db->dialect->migrations[m].n_up; i++)
            run(c, bench.db->dialect->migrations[m].up[i]);
}

/* As the library does when it first meets a server. */
static void introduce(conn c)
{
    script handshake = ours(SQLOCK_STMT_HANDSHAKE), meet = ours(SQLOCK_STMT_REINCARNATE);
    request r = request_of('-', 0);
    r.name = keep(bench.db->value(c, handshake.step[handshake.n - 1], SQLOCK_COL_SERVER));
    r.name_len = strlen(r.name);
    if (bench.db->ask(c, &meet, &r).outcome != SQLOCK_OUT_DONE)
        broken("the server is not known");
    run(c, "UPDATE {meta} SET fence_floor = 0"); /* so that tokens begin at 1 */
}

void create_schema(void)
{
    conn c = open_conn();
    run(c, "CREATE SCHEMA {schema}");
    migrate(c);
    introduce(c);
}

void bench_begin(const struct database *db)
{
    bench.db = db;
    snprintf(bench.schema, sizeof bench.schema, "race_%d_%d", (int)getpid(), ++bench.number);
    db->create();
}

void bench_end(void)
{
    const char *drop = bench.db == &postgres ? "DROP SCHEMA {schema} CASCADE"
                       : bench.db == &mysql  ? "DROP DATABASE {schema}"
                                             : NULL;
    for (int i = bench.n_conns - 1; i >= 0; i--) {
        if (i == 0 && drop != NULL)
            (void)try_run(bench.conns[i], drop);
        bench.db->close(bench.conns[i]);
    }
    bench.n_conns = 0;
    bench.gate = (conn){NULL, NULL, NULL};
    temp_dir_remove(bench.dir);
    bench.dir = NULL;
    while (bench.n_texts > 0)
        free(bench.texts[--bench.n_texts]);
}

conn open_conn(void)
{
    assert_true(bench.n_conns < (int)COUNT(bench.conns));
    bench.conns[bench.n_conns] = bench.db->open();
    return bench.conns[bench.n_conns++];
}

/* ---- asking ---------------------------------------------------------------------------------- */

int try_run(conn c, const char *text)
{
    return bench.db->try_run(c, fill(text));
}

void run(conn c, const char *text)
{
    if (try_run(c, text) != 0)
        broken("%s: %s", fill(text), bench.db->error(c));
}

const char *value(conn c, const char *text)
{
    char *got = bench.db->value(c, fill(text), 0);
    return got != NULL ? keep(got) : NULL;
}

int64_t number(conn c, const char *text)
{
    const char *got = value(c, text);
    return got != NULL ? strtoll(got, NULL, 10) : -1;
}

static void at_gate(const char *text)
{
    if (text == NULL)
        broken("nobody can be held still on %s", bench.db->name);
    if (!bench.gate.pg && !bench.gate.my)
        bench.gate = open_conn();
    run(bench.gate, text);
}

void hold(void)
{
    at_gate(bench.db->hold);
}

void unhold(void)
{
    at_gate(bench.db->unhold);
}

int64_t row_owner(conn c)
{
    return number(c, bench.db->owner);
}

void let_it_run_out(conn c)
{
    run(c, "UPDATE {lock} SET exp = {now} - 1 WHERE owner IS NOT NULL");
}
