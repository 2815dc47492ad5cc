/* The table of the lean loops. */
#include <stdio.h>
#include <string.h>

#include "bench.h"

void *bench_lean_open(const struct bench_db *db, int threads)
{
    char rows[BENCH_THREADS_MAX * 16] = "INSERT INTO bench_lean (name) VALUES ('bench 0')";
    size_t len = strlen(rows);

    for (int i = 1; i < threads; i++)
        len += (size_t)snprintf(rows + len, sizeof rows - len, ", ('bench %d')", i);
    db->client->run(db->url, "DROP TABLE IF EXISTS bench_lean");
    db->client->run(db->url, db->client->lean_table);
    db->client->run(db->url, rows);
    return NULL;
}

void bench_lean_close(const struct bench_db *db, void *shared)
{
    (void)shared;
    db->client->run(db->url, "DROP TABLE bench_lean");
}
