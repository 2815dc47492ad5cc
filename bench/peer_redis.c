/* Redis as its usual clients lock with it: SET if there is no such key, and a script that deletes
 * the key if it is still ours. Whether a reply waits for the disk is the server's setting. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "bench/line.h"

#define RELEASE                                                                                    \
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) "             \
    "else return 0 end"

struct own {
    redisContext *redis;
    int client;
    double handed_us; /* by the last hand-over */
    char name[32], sha[64];
};

static void check(struct own *own, const redisReply *reply, int type)
{
    if (reply == NULL)
        bench_die("Redis: %s", own->redis->errstr);
    if (reply->type != type)
        bench_die("Redis: %s", reply->type == REDIS_REPLY_ERROR ? reply->str : "not ours");
}

/* The URL is HOST:PORT. */
static void *start(const struct bench_db *db, void *shared, int client)
{
    struct own *own = calloc(1, sizeof *own);
    char host[64] = "";
    int port = 0;
    redisReply *reply;

    (void)shared;
    if (own == NULL || sscanf(db->url, "%63[^:]:%d", host, &port) != 2 ||
        (own->redis = redisConnect(host, port)) == NULL)
        bench_die("%s is not HOST:PORT, or out of memory", db->url);
    if (own->redis->err != 0)
        bench_die("Redis: %s", own->redis->errstr);
    own->client = client;
    snprintf(own->name, sizeof own->name, "bench %d", client);
    reply = redisCommand(own->redis, "SCRIPT LOAD %s", RELEASE);
    check(own, reply, REDIS_REPLY_STRING);
    snprintf(own->sha, sizeof own->sha, "%s", reply->str);
    freeReplyObject(reply);
    return own;
}

static void end(void *arg)
{
    struct own *own = arg;

    redisFree(own->redis);
    free(own);
}

static void pair(void *arg)
{
    struct own *own = arg;
    unsigned char owner[SQLOCK_OWNER_SIZE];
    redisReply *reply;

    bench_owner(owner);
    reply = redisCommand(own->redis, "SET %s %b NX PX %d", own->name, owner, sizeof owner,
                         BENCH_LEASE_MS);
    check(own, reply, REDIS_REPLY_STATUS); /* nil if someone else has it */
    freeReplyObject(reply);
    reply =
        redisCommand(own->redis, "EVALSHA %s 1 %s %b", own->sha, own->name, owner, sizeof owner);
    check(own, reply, REDIS_REPLY_INTEGER);
    if (reply->integer != 1)
        bench_die("Redis: %s was not released", own->name);
    freeReplyObject(reply);
}

/* ---- a line: BLPOP takes the only entry of a list, RPUSH gives it back ----------------------- */

static void prepare_line(const struct bench_db *db, int clients)
{
    struct own *own = start(db, NULL, 0);

    (void)clients;
    freeReplyObject(redisCommand(own->redis, "DEL bench:line"));
    freeReplyObject(redisCommand(own->redis, "RPUSH bench:line x"));
    end(own);
    line_begin();
}

static void clean_line(const struct bench_db *db)
{
    (void)db;
    line_end();
}

static void stand_in_line(void *arg)
{
    struct own *own = arg;
    redisReply *reply;

    line_wait();
    reply = redisCommand(own->redis, "BLPOP bench:line 0");
    check(own, reply, REDIS_REPLY_ARRAY);
    freeReplyObject(reply);
    own->handed_us = line_hold(own->client);
    line_leave();
    reply = redisCommand(own->redis, "RPUSH bench:line x");
    check(own, reply, REDIS_REPLY_INTEGER);
    freeReplyObject(reply);
}

static double handed(void *arg)
{
    const struct own *own = arg;

    return own->handed_us;
}

const struct bench_way bench_redis_line = {.name = "BLPOP, AOF always",
                                           .prepare = prepare_line,
                                           .clean = clean_line,
                                           .start = start,
                                           .end = end,
                                           .pair = stand_in_line,
                                           .took = handed,
                                           .requests = 2};

#define WAY(as)                                                                                    \
    {                                                                                              \
        .name = as, .start = start, .end = end, .pair = pair, .requests = 2                        \
    }

const struct bench_way bench_redis_always = WAY("Redis, AOF always");
const struct bench_way bench_redis_everysec = WAY("Redis, AOF everysec");
