/* The server: the fake database, without its own faults. It runs each request at once when that
 * arrives. */
#include <malloc.h>
#include <string.h>

#include <sqlite3.h>

#include "tests/sim/packet.h"

/* One thread uses SQLite, and asks for the same memory again and again: then a simulated hour takes
 * a quarter less time. */
static void server_tune(void)
{
    static bool tuned;

    if (tuned)
        return;
    tuned = true;
    mallopt(M_TRIM_THRESHOLD, 1 << 28);
    mallopt(M_MMAP_THRESHOLD, 1 << 28);
    sqlite3_config(SQLITE_CONFIG_SINGLETHREAD);
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    sqlite3_config(SQLITE_CONFIG_PAGECACHE, NULL, 0, 0);
}

static void server_run(struct packet *p, sqlock_rows *rows, sqlock_error *err)
{
    memset(err, 0, sizeof *err);
    world.requests += (int64_t)p->n;
    world.batched += p->n > 1 ? (int64_t)p->n : 0;
    p->rc = p->refused ? sqlock_error_db(err, "40001", 0, 0, "the server refused the request")
                       : sqlock_driver_fake()->run(world.session, NULL, p->stmt, p->values, p->n,
                                                   TIME_NEVER, rows, err);
    trace('r', p->stmt, p->rc);
}

void server_runs(struct packet *p)
{
    server_run(p, &p->rows, &p->err);
    p->ran = true;
}

void server_runs_again(struct packet *p)
{
    sqlock_rows unread;
    sqlock_error unread_too;
    int rc = p->rc;

    rows_init(&unread);
    server_run(p, &unread, &unread_too);
    rows_end(&unread);
    p->rc = rc;
}

static bool server_connect(void)
{
    return sqlock_fake_connect(world.db, &world.session, NULL) == 0;
}

bool server_begin(void)
{
    server_tune();
    machine_begin(NULL);
    world.db = sqlock_fake_new();
    return world.db != NULL && server_connect();
}

void server_end(void)
{
    tasks_reset(packet_happened);
    if (world.session != NULL)
        sqlock_driver_fake()->close(world.session);
    sqlock_fake_free(world.db);
    world.db = NULL;
    if (machine_end(NULL) != 0)
        record_breach(NULL, "the server left memory behind");
}

void server_crash(bool silently)
{
    world.server_start++;
    network_breaks(silently);
}

void server_failover(void)
{
    server_crash(chance_of(500));
    world.replaced_us = world.now;
    sqlock_driver_fake()->close(world.session);
    sqlock_fake_failover(world.db);
    server_connect();
}
