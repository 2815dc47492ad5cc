/* The table of the lean loops. */
#include <stdio.h>
#include <string.h>

#include "bench.h"

void bench_lean_prepare(const struct bench_db *db, int clients)
{
    char rows[BENCH_CLIENTS_MAX * 16] = "INSERT INTO bench_lean (name) VALUES ('bench 0')";
    size_t len = strlen(rows);

    for (int i = 1; i < clients; i++)
        len += (size_t)snprintf(rows + len, sizeof rows - len, ", ('bench %d')", i);
    db->client->run(db->url, "DROP TABLE IF EXISTS bench_lean");
    db->client->run(db->url, db->client->lean_table);
    db->client->run(db->url, rows);
}

void bench_lean_clean(const struct bench_db *db)
{
    db->client->run(db->url, "DROP TABLE bench_lean");
}
