#include "tests/torture/followers.h"

#ifdef TEST_HAVE_POSTGRES
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlock/postgres.h>

#include "tests/lib/check.h"
#include "tests/lib/pooler.h"
#include "tests/lib/undo.h"

#define OTHERS                                                                                     \
    " FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"

enum { POOLED = 12 }; /* the pooler's sessions, for all clients */

/* Deadlocks are found soon by the clients' sessions and late by ours: they are the ones to end. */
#define CONF                                                                                       \
    "deadlock_timeout = 30ms\nautovacuum_naptime = 5s\n"                                           \
    "max_wal_size = 64MB\nmin_wal_size = 32MB\n"
static const char conf[] = CONF;
static const char followed_conf[] = CONF "wal_retrieve_retry_interval = 100ms\n"
                                         "wal_keep_size = 64MB\nwal_sender_timeout = 0\n";

static bool is_pooled(const struct engine *e)
{
    return e->kind->variant && strcmp(e->kind->variant, "pgbouncer") == 0;
}

/* Another major comes out of a package that is fetched once. */
static bool choose_server(struct engine *e)
{
    char words[400], bin[400];

    if (!e->kind->variant || is_pooled(e))
        return true;
    snprintf(words, sizeof words, "unpack %s %s", e->kind->variant, temp_dir());
    if (!engine_script(e, "tests/tools/pgs.sh", words, bin, sizeof bin))
        return false;
    return setenv("SQLOCK_TEST_PG_BIN", bin, 1) == 0;
}

static bool create(struct engine *e)
{
    setenv("SQLOCK_TEST_PG_CONF", e->wants & ENGINE_FOLLOWED ? followed_conf : conf, 1);
    return e->number > 1 || choose_server(e);
}

static void end(void)
{
    pooler_stop(NULL);
}

/* A pooler keeps sessions that nobody uses: of them only those count that are in a transaction. */
static int sessions(struct engine *e, bool end)
{
    const char *count =
        is_pooled(e) ? "SELECT count(*)" OTHERS " AND state <> 'idle'" : "SELECT count(*)" OTHERS;

    return (int)engine_number(
        e, end ? "SELECT count(*) FROM (SELECT pg_terminate_backend(pid)" OTHERS ") s" : count);
}

static bool put_pooler_before(struct engine *e)
{
    char dir[256];
    const char *url;

    engine_folder(e, dir);
    if ((e->wants & ENGINE_FRONTED) && !engine_front(e))
        return false;
    url = pooler_start(e->front[0] ? e->front : dir, POOLED);
    if (url)
        snprintf(e->client_url, sizeof e->client_url, "%s", url);
    else
        snprintf(e->why, sizeof e->why, "no pgbouncer is installed");
    return url != NULL;
}

static bool prepare(struct engine *e)
{
    snprintf(e->version, sizeof e->version, "PostgreSQL %s",
             PQparameterStatus(e->session, "server_version"));
    return !is_pooled(e) || put_pooler_before(e);
}

const struct engine_ops engine_postgres = {
    .create = create,
    .script = "tests/tools/pg.sh",
    .prepare = prepare,
    .sessions = sessions,
    .end = end,
    .bulk = {"CREATE TABLE IF NOT EXISTS bulk (filler text)",
             "INSERT INTO bulk SELECT repeat(md5(i::text), 30) FROM generate_series(1, 3000) i",
             "TRUNCATE bulk"},
    .follow = &follow_postgres};
#endif
