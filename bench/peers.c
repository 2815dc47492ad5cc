/* Other servers that give locks, as far as bench was built with their client libraries. */
#include <stdio.h>
#include <string.h>

#include "bench.h"

static const struct peer {
    const char *name;
    const struct bench_way *way, *line;
} known[] = {
#ifdef BENCH_HAVE_REDIS
    {"redis-always", &bench_redis_always, &bench_redis_line},
    {"redis-everysec", &bench_redis_everysec, NULL},
#endif
#ifdef BENCH_HAVE_ETCD
    {"etcd", &bench_etcd, NULL},
#endif
#ifdef BENCH_HAVE_ZOOKEEPER
    {"zookeeper", &bench_zookeeper, NULL},
#endif
    {NULL, NULL, NULL},
};

#define PEERS_MAX (sizeof known / sizeof *known)

static struct bench_peer found[PEERS_MAX];
static size_t n_found;

void bench_peers_print(void)
{
    for (const struct peer *p = known; p->name != NULL; p++)
        puts(p->name);
}

int bench_peer_add(const struct bench_db *db)
{
    for (const struct peer *p = known; p->name != NULL; p++) {
        if (strcmp(p->name, db->name) != 0)
            continue;
        if (n_found == PEERS_MAX)
            bench_die("too many peers");
        found[n_found++] = (struct bench_peer){*db, p->way, p->line};
        return 1;
    }
    return 0;
}

const struct bench_peer *bench_peer(size_t i)
{
    return i < n_found ? &found[i] : NULL;
}

const struct bench_peer *bench_peer_named(const char *name)
{
    for (size_t i = 0; i < n_found; i++)
        if (strcmp(found[i].db.name, name) == 0)
            return &found[i];
    return NULL;
}

void bench_peer_try(const struct bench_peer *peer)
{
    const struct bench_way *way = peer->way;
    void *shared, *own;

    if (way->prepare != NULL)
        way->prepare(&peer->db, 1);
    shared = way->open != NULL ? way->open(&peer->db, 1) : NULL;
    own = way->start(&peer->db, shared, 0);
    way->pair(own);
    way->end(own);
    if (way->close != NULL)
        way->close(shared);
}
