/* SQLite's prepared statements and nothing else, in the transactions that sqlock makes of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include <sqlock/sqlite.h>

#include "bench.h"

#define WAIT_MS 10000

struct own {
    sqlite3 *db;
    sqlite3_stmt *begin, *commit, *look, *grant, *answer, *release, *released;
    char name[32];
};

static sqlite3_stmt *prepare(struct own *own, const char *sql)
{
    sqlite3_stmt *stmt = NULL;

    if (sqlite3_prepare_v3(own->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &stmt, NULL) != SQLITE_OK)
        bench_die("bare loop: %s", sqlite3_errmsg(own->db));
    return stmt;
}

/* In WAL mode, as most applications with several threads have it. */
static void create(const char *url)
{
    sqlite3 *db = NULL;

    if (sqlite3_open(url + strlen("sqlite:"), &db) != SQLITE_OK ||
        sqlite3_exec(db, "PRAGMA journal_mode = WAL", NULL, NULL, NULL) != SQLITE_OK)
        bench_die("%s: %s", url, sqlite3_errmsg(db));
    sqlite3_close(db);
}

static void *start(const struct bench_db *db, void *shared, int thread)
{
    const sqlock_script *acquire = &db->scripts[SQLOCK_STMT_ACQUIRE];
    struct own *own = calloc(1, sizeof *own);

    (void)shared;
    if (own == NULL)
        bench_die("out of memory");
    if (sqlite3_open(db->url + strlen("sqlite:"), &own->db) != SQLITE_OK ||
        sqlite3_busy_timeout(own->db, WAIT_MS) != SQLITE_OK ||
        sqlite3_exec(own->db, "PRAGMA synchronous = FULL", NULL, NULL, NULL) != SQLITE_OK)
        bench_die("bare loop: %s", sqlite3_errmsg(own->db));
    snprintf(own->name, sizeof own->name, "bench %d", thread);
    own->begin = prepare(own, "BEGIN IMMEDIATE");
    own->commit = prepare(own, "COMMIT");
    own->look = prepare(own, acquire->steps[0].sql);
    own->grant = prepare(own, acquire->steps[1].sql);
    own->answer = prepare(own, acquire->steps[2].sql);
    own->release = prepare(own, db->scripts[SQLOCK_STMT_RELEASE].steps[0].sql);
    own->released = prepare(own, db->scripts[SQLOCK_STMT_RELEASE].steps[1].sql);
    return own;
}

static void end(void *arg)
{
    struct own *own = arg;
    sqlite3_stmt *all[] = {own->begin,  own->commit,  own->look,    own->grant,
                           own->answer, own->release, own->released};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        sqlite3_finalize(all[i]);
    sqlite3_close(own->db);
    free(own);
}

/* Returns the column `token` of the answer, -1 if there is none. */
static int64_t step(struct own *own, sqlite3_stmt *stmt)
{
    int64_t token = -1;
    int rc;

    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
        token = sqlite3_column_int64(stmt, SQLOCK_COL_TOKEN);
    if (rc != SQLITE_DONE)
        bench_die("bare loop: %s", sqlite3_errmsg(own->db));
    sqlite3_reset(stmt);
    return token;
}

static void bind(struct own *own, sqlite3_stmt *stmt, const unsigned char *owner)
{
    sqlite3_bind_blob(stmt, 1, "", 0, SQLITE_STATIC);
    sqlite3_bind_blob(stmt, 2, own->name, (int)strlen(own->name), SQLITE_STATIC);
    sqlite3_bind_blob(stmt, 3, owner, SQLOCK_OWNER_SIZE, SQLITE_STATIC);
}

static void pair(void *arg)
{
    struct own *own = arg;
    unsigned char owner[SQLOCK_OWNER_SIZE];
    int64_t token;

    bench_owner(owner);
    bind(own, own->look, owner);
    if (step(own, own->look) >= 0)
        bench_die("bare loop: %s is held", own->name);
    bind(own, own->grant, owner);
    sqlite3_bind_int64(own->grant, 4, BENCH_LEASE_MS * INT64_C(1000));
    sqlite3_bind_int64(own->grant, 5, INT64_MAX);
    sqlite3_bind_int64(own->grant, 6, 0);
    sqlite3_bind_blob(own->grant, 7, "bare", 4, SQLITE_STATIC);
    bind(own, own->answer, owner);
    step(own, own->begin);
    step(own, own->grant);
    if ((token = step(own, own->answer)) < 0)
        bench_die("bare loop: %s was not granted", own->name);
    step(own, own->commit);
    bind(own, own->release, owner);
    sqlite3_bind_int64(own->release, 4, token);
    bind(own, own->released, owner);
    sqlite3_bind_int64(own->released, 4, token);
    step(own, own->begin);
    step(own, own->release);
    step(own, own->released);
    step(own, own->commit);
}

static const sqlock_driver *driver(void)
{
    return sqlock_driver_sqlite();
}

const struct bench_way bench_bare_sqlite = {
    .database = "sqlite",
    .driver = driver,
    .name = "sqlite3",
    .create = create,
    .start = start,
    .end = end,
    .pair = pair,
};
