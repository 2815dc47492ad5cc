/* ZooKeeper as its recipe says: an ephemeral node with a number, a look at who has the lowest one,
 * and its deletion. Each client has a session: with one for a process, this takes longer. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADED
#include <zookeeper/zookeeper.h>

#include "bench.h"

#define WAIT_S 30

struct own {
    zhandle_t *zk;
    pthread_mutex_t mu;
    pthread_cond_t changed;
    int connected;
    char folder[32], prefix[40];
};

static void check(int rc, const char *what)
{
    if (rc != ZOK)
        bench_die("ZooKeeper: %s: %s", what, zerror(rc));
}

static void notice(zhandle_t *zk, int type, int state, const char *path, void *context)
{
    struct own *own = context;

    (void)zk, (void)path;
    if (type != ZOO_SESSION_EVENT)
        return;
    pthread_mutex_lock(&own->mu);
    own->connected = state == ZOO_CONNECTED_STATE;
    pthread_cond_broadcast(&own->changed);
    pthread_mutex_unlock(&own->mu);
}

static void await(struct own *own)
{
    struct timespec until;
    int rc = 0;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    pthread_mutex_lock(&own->mu);
    while (!own->connected && rc == 0)
        rc = pthread_cond_timedwait(&own->changed, &own->mu, &until);
    pthread_mutex_unlock(&own->mu);
    if (rc != 0)
        bench_die("ZooKeeper does not answer");
}

/* The URL is HOST:PORT. */
static void *start(const struct bench_db *db, void *shared, int client)
{
    struct own *own = calloc(1, sizeof *own);
    int rc;

    (void)shared;
    if (own == NULL)
        bench_die("out of memory");
    pthread_mutex_init(&own->mu, NULL);
    pthread_cond_init(&own->changed, NULL);
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    if ((own->zk = zookeeper_init(db->url, notice, BENCH_LEASE_MS, NULL, own, 0)) == NULL)
        bench_die("ZooKeeper: no session");
    await(own);
    snprintf(own->folder, sizeof own->folder, "/bench%d", client);
    snprintf(own->prefix, sizeof own->prefix, "%s/lock-", own->folder);
    rc = zoo_create(own->zk, own->folder, NULL, -1, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
    if (rc != ZNODEEXISTS)
        check(rc, own->folder);
    return own;
}

static void end(void *arg)
{
    struct own *own = arg;

    zookeeper_close(own->zk);
    free(own);
}

static int has_lowest(const struct String_vector *children, const char *path)
{
    const char *name = strrchr(path, '/') + 1;

    for (int i = 0; i < children->count; i++)
        if (strcmp(children->data[i], name) < 0)
            return 0;
    return 1;
}

static void pair(void *arg)
{
    struct own *own = arg;
    unsigned char owner[SQLOCK_OWNER_SIZE];
    struct String_vector children;
    char path[64];

    bench_owner(owner);
    check(zoo_create(own->zk, own->prefix, (char *)owner, sizeof owner, &ZOO_OPEN_ACL_UNSAFE,
                     ZOO_EPHEMERAL | ZOO_SEQUENCE, path, sizeof path),
          own->prefix);
    check(zoo_get_children(own->zk, own->folder, 0, &children), own->folder);
    if (!has_lowest(&children, path))
        bench_die("ZooKeeper: %s is held", own->folder);
    deallocate_String_vector(&children);
    check(zoo_delete(own->zk, path, -1), path);
}

const struct bench_way bench_zookeeper = {
    .name = "ZooKeeper", .start = start, .end = end, .pair = pair, .requests = 3};
