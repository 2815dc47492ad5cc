/* SQLite's prepared statements and nothing else: sqlock's own, in the transactions that it makes of
 * them, and the leanest that make a lock. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <sqlite3.h>

#include <sqlock/sqlite.h>

#include "bench.h"

#define WAIT_MS 10000

struct own {
    sqlite3 *db;
    sqlite3_stmt *begin, *commit, *look, *grant, *answer, *release, *released;
    sqlite3_stmt *take, *give_back; /* of the lean loop */
    char name[32];
    /* Of the swap: the name that it has, for whom, and the other name. */
    char had[32];
    unsigned char owner[SQLOCK_OWNER_SIZE];
    int64_t token; /* 0: it has none yet */
};

static sqlite3_stmt *prepare(struct own *own, const char *sql)
{
    sqlite3_stmt *stmt = NULL;

    if (sqlite3_prepare_v3(own->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &stmt, NULL) != SQLITE_OK)
        bench_die("bare loop: %s", sqlite3_errmsg(own->db));
    return stmt;
}

static struct own *connect_to(const char *url, int client)
{
    struct own *own = calloc(1, sizeof *own);

    if (own == NULL)
        bench_die("out of memory");
    if (sqlite3_open(url + strlen("sqlite:"), &own->db) != SQLITE_OK ||
        sqlite3_busy_timeout(own->db, WAIT_MS) != SQLITE_OK ||
        sqlite3_exec(own->db, "PRAGMA synchronous = FULL", NULL, NULL, NULL) != SQLITE_OK)
        bench_die("bare loop: %s", sqlite3_errmsg(own->db));
    snprintf(own->name, sizeof own->name, "bench %d", client);
    return own;
}

static void *start(const struct bench_db *db, void *shared, int client)
{
    const sqlock_script *acquire = &db->scripts[SQLOCK_STMT_ACQUIRE];
    struct own *own = connect_to(db->url, client);

    (void)shared;
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
    sqlite3_stmt *all[] = {own->begin,   own->commit,   own->look, own->grant,    own->answer,
                           own->release, own->released, own->take, own->give_back};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        sqlite3_finalize(all[i]);
    sqlite3_close(own->db);
    free(own);
}

/* Returns the answer's column number `column`, -1 if there is none. */
static int64_t step_for(struct own *own, sqlite3_stmt *stmt, int column)
{
    int64_t value = -1;
    int rc;

    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
        value = sqlite3_column_int64(stmt, column);
    if (rc != SQLITE_DONE)
        bench_die("bare loop: %s", sqlite3_errmsg(own->db));
    sqlite3_reset(stmt);
    return value;
}

static int64_t step(struct own *own, sqlite3_stmt *stmt)
{
    return step_for(own, stmt, SQLOCK_COL_TOKEN);
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

/* ---- what is counted ------------------------------------------------------------------------- */

static struct counters {
    atomic_long statements, commits;
} * counters; /* of all processes */

static int count_statement(unsigned type, void *to, void *stmt, void *sql)
{
    (void)type, (void)to, (void)stmt, (void)sql;
    counters->statements++;
    return 0;
}

static int count_commit(void *to)
{
    (void)to;
    counters->commits++;
    return 0;
}

static int watch(sqlite3 *db, char **error, const sqlite3_api_routines *api)
{
    (void)error, (void)api;
    sqlite3_trace_v2(db, SQLITE_TRACE_STMT, count_statement, NULL);
    sqlite3_commit_hook(db, count_commit, NULL);
    return SQLITE_OK;
}

/* Every connection of this process and of its children is watched, sqlock's too. */
static void create(const char *url)
{
    (void)url;
    counters =
        mmap(NULL, sizeof *counters, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (counters == MAP_FAILED || sqlite3_auto_extension((void (*)(void))watch) != SQLITE_OK)
        bench_die("SQLite cannot be watched");
}

static struct bench_counts count(const struct bench_db *db)
{
    (void)db;
    return (struct bench_counts){(double)counters->statements, (double)counters->commits};
}

/* ---- the lean loop --------------------------------------------------------------------------- */

static void run(const char *url, const char *sql)
{
    struct own *own = connect_to(url, 0);

    if (sqlite3_exec(own->db, sql, NULL, NULL, NULL) != SQLITE_OK)
        bench_die("lean loop: %s", sqlite3_errmsg(own->db));
    end(own);
}

static void *lean_start(const struct bench_db *db, void *shared, int client)
{
    struct own *own = connect_to(db->url, client);

    (void)shared;
    own->take =
        prepare(own, "UPDATE bench_lean SET owner = ?2, token = token + 1, "
                     "expires = CAST(strftime('%s', 'now') AS INTEGER) + 30 "
                     "WHERE name = ?1 AND expires <= CAST(strftime('%s', 'now') AS INTEGER) "
                     "RETURNING token");
    own->give_back = prepare(own, "UPDATE bench_lean SET owner = NULL, expires = 0 "
                                  "WHERE name = ?1 AND owner = ?2 AND token = ?3");
    return own;
}

static void lean_bind(struct own *own, sqlite3_stmt *stmt, const unsigned char *owner)
{
    sqlite3_bind_text(stmt, 1, own->name, -1, SQLITE_STATIC);
    sqlite3_bind_blob(stmt, 2, owner, SQLOCK_OWNER_SIZE, SQLITE_STATIC);
}

static int64_t lean_take(struct own *own, unsigned char *owner)
{
    int64_t token;

    bench_owner(owner);
    lean_bind(own, own->take, owner);
    if ((token = step_for(own, own->take, 0)) < 0)
        bench_die("lean loop: %s was not granted", own->name);
    return token;
}

static void lean_give(struct own *own, const unsigned char *owner, int64_t token)
{
    lean_bind(own, own->give_back, owner);
    sqlite3_bind_int64(own->give_back, 3, token);
    step(own, own->give_back);
    if (sqlite3_changes(own->db) != 1)
        bench_die("lean loop: %s was not released", own->name);
}

static void lean_pair(void *arg)
{
    unsigned char owner[SQLOCK_OWNER_SIZE];
    int64_t token = lean_take(arg, owner);

    lean_give(arg, owner, token);
}

/* SQLite does a PRAGMA's work when it is prepared. */
static void lean_wait(struct own *own, const char *how)
{
    if (sqlite3_exec(own->db, how, NULL, NULL, NULL) != SQLITE_OK)
        bench_die("lean loop: %s", sqlite3_errmsg(own->db));
}

static void lean_lazy_pair(void *arg)
{
    struct own *own = arg;
    unsigned char owner[SQLOCK_OWNER_SIZE];
    int64_t token;

    token = lean_take(own, owner);
    lean_wait(own, "PRAGMA synchronous = NORMAL");
    lean_give(own, owner, token);
    lean_wait(own, "PRAGMA synchronous = FULL");
}

static void *swap_start(const struct bench_db *db, void *shared, int client)
{
    struct own *own = lean_start(db, shared, client);

    own->begin = prepare(own, "BEGIN IMMEDIATE");
    own->commit = prepare(own, "COMMIT");
    snprintf(own->name, sizeof own->name, "swap %d", 2 * client);
    snprintf(own->had, sizeof own->had, "swap %d", 2 * client + 1);
    return own;
}

static void swap_names(struct own *own)
{
    char name[sizeof own->name];

    memcpy(name, own->name, sizeof name);
    memcpy(own->name, own->had, sizeof name);
    memcpy(own->had, name, sizeof name);
}

static void swap_pair(void *arg)
{
    struct own *own = arg;

    step(own, own->begin);
    if (own->token != 0)
        lean_give(own, own->owner, own->token);
    swap_names(own);
    own->token = lean_take(own, own->owner);
    step(own, own->commit);
}

static int say(void *arg, const char *sql)
{
    struct own *own = arg;

    if (sqlite3_exec(own->db, sql, NULL, NULL, NULL) != SQLITE_OK)
        bench_die("lean loop: %s", sqlite3_errmsg(own->db));
    return sqlite3_changes(own->db);
}

static void *login(const char *url)
{
    return connect_to(url, 0);
}

static const struct bench_way our_sql = {
    .name = "our SQL in sqlite3", .start = start, .end = end, .pair = pair};

const struct bench_client bench_sqlite = {
    .database = "sqlite",
    .driver = sqlock_driver_sqlite,
    .create = create,
    .run = run,
    .login = login,
    .logout = end,
    .count = count,
    .lean_table = "CREATE TABLE bench_lean (name TEXT PRIMARY KEY, owner BLOB, "
                  "token INTEGER NOT NULL DEFAULT 0, expires INTEGER NOT NULL DEFAULT 0) "
                  "WITHOUT ROWID",
    .bare = &our_sql,
    .lean = {.name = "lean loop",
             .prepare = bench_lean_prepare,
             .clean = bench_lean_clean,
             .start = lean_start,
             .end = end,
             .pair = lean_pair},
    .lean_lazy = {.name = "lean loop, lazy",
                  .start = lean_start,
                  .end = end,
                  .pair = lean_lazy_pair},
    .lean_swap = {.name = "lean swap", .start = swap_start, .end = end, .pair = swap_pair},
    .lean_take = "UPDATE bench_lean SET owner = 'x', token = token + 1, "
                 "expires = CAST(strftime('%s', 'now') AS INTEGER) + 30 WHERE name IN (@) "
                 "AND expires <= CAST(strftime('%s', 'now') AS INTEGER) RETURNING name, token",
    .lean_give = "UPDATE bench_lean SET owner = NULL, expires = 0 "
                 "WHERE name IN (@) AND owner = 'x'",
    /* another number each time: what does not change is not written */
    .lean_renew = "UPDATE bench_lean SET expires = expires + 1 WHERE name IN (@) AND owner = 'x'",
    .say = say,
};
