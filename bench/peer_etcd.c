/* etcd as its usual clients lock with it: a lease for the process, a transaction that makes the key
 * if there is none, and one that deletes it if it is still ours. They speak gRPC: messages of
 * protobuf over HTTP/2, which is libcurl's part. (By etcd's JSON gateway the same takes longer.) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>

#include "bench.h"

#define PREFIX      5 /* of a message in gRPC: a flag and its length */
#define MESSAGE_MAX 512
#define TTL_S       600 /* nothing here keeps it alive */

struct message {
    unsigned char bytes[MESSAGE_MAX];
    size_t len;
};

struct channel {
    CURL *curl;
    struct curl_slist *headers;
    struct message answer;
};

struct own {
    struct channel *channel;
    char name[32];
    uint64_t lease;
};

/* ---- protobuf -------------------------------------------------------------------------------- */

static void put_bytes(struct message *m, const void *bytes, size_t len)
{
    if (m->len + len > sizeof m->bytes)
        bench_die("etcd: a message is too long");
    memcpy(m->bytes + m->len, bytes, len);
    m->len += len;
}

static void put_varint(struct message *m, uint64_t value)
{
    do {
        unsigned char byte = (unsigned char)(value & 127);

        value >>= 7;
        byte = (unsigned char)(byte | (value != 0 ? 128 : 0));
        put_bytes(m, &byte, 1);
    } while (value != 0);
}

static void put_number(struct message *m, unsigned field, uint64_t value)
{
    put_varint(m, field << 3);
    put_varint(m, value);
}

static void put_text(struct message *m, unsigned field, const void *bytes, size_t len)
{
    put_varint(m, field << 3 | 2);
    put_varint(m, len);
    put_bytes(m, bytes, len);
}

static void put_message(struct message *m, unsigned field, const struct message *inner)
{
    put_text(m, field, inner->bytes, inner->len);
}

static uint64_t get_varint(const struct message *m, size_t *at)
{
    uint64_t value = 0;

    for (unsigned shift = 0; *at < m->len && shift < 64; shift += 7) {
        const unsigned char byte = m->bytes[(*at)++];

        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            break;
    }
    return value;
}

/* The number in a field of an answer; 0 if it is not there, which is protobuf's default. */
static uint64_t get_number(const struct message *m, unsigned field)
{
    for (size_t at = PREFIX; at < m->len;) {
        const uint64_t key = get_varint(m, &at), value = get_varint(m, &at);

        if (key == field << 3)
            return value;
        if ((key & 7) == 2)
            at += value;
    }
    return 0;
}

/* ---- gRPC ------------------------------------------------------------------------------------ */

static size_t take(char *bytes, size_t size, size_t n, void *to)
{
    put_bytes(to, bytes, size * n);
    return size * n;
}

/* Of one method. The URL is HOST:PORT. */
static struct channel *connect_to(const char *at, const char *method)
{
    struct channel *c = calloc(1, sizeof *c);
    char url[256];

    if (c == NULL || (c->curl = curl_easy_init()) == NULL)
        bench_die("out of memory");
    snprintf(url, sizeof url, "http://%s/%s", at, method);
    c->headers = curl_slist_append(NULL, "content-type: application/grpc");
    c->headers = curl_slist_append(c->headers, "te: trailers");
    curl_easy_setopt(c->curl, CURLOPT_URL, url);
    curl_easy_setopt(c->curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE);
    curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, c->headers);
    curl_easy_setopt(c->curl, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(c->curl, CURLOPT_WRITEDATA, &c->answer);
    curl_easy_setopt(c->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c->curl, CURLOPT_PROXY, "");
    return c;
}

static void disconnect(struct channel *c)
{
    curl_easy_cleanup(c->curl);
    curl_slist_free_all(c->headers);
    free(c);
}

static const struct message *call(struct channel *c, const struct message *request)
{
    struct message framed = {
        .bytes = {0, 0, 0, (unsigned char)(request->len >> 8), (unsigned char)request->len},
        .len = PREFIX};
    CURLcode rc;

    put_bytes(&framed, request->bytes, request->len);
    c->answer.len = 0;
    curl_easy_setopt(c->curl, CURLOPT_POSTFIELDSIZE, (long)framed.len);
    curl_easy_setopt(c->curl, CURLOPT_POSTFIELDS, (char *)framed.bytes);
    if ((rc = curl_easy_perform(c->curl)) != CURLE_OK)
        bench_die("etcd: %s", curl_easy_strerror(rc));
    /* libcurl before 8.0 takes an open connection for a new one, if it is told again that the
     * server speaks HTTP/2 (curl/curl#10634). */
    if (curl_version_info(CURLVERSION_NOW)->version_num < 0x080000)
        curl_easy_setopt(c->curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2_0);
    if (c->answer.len < PREFIX) /* an error has no message */
        bench_die("etcd refuses a request");
    return &c->answer;
}

/* ---- the lock -------------------------------------------------------------------------------- */

static void prepare(const struct bench_db *db, int clients)
{
    (void)db, (void)clients;
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

static void *open_lease(const struct bench_db *db, int threads)
{
    struct channel *c = connect_to(db->url, "etcdserverpb.Lease/LeaseGrant");
    uint64_t *lease = malloc(sizeof *lease);
    struct message grant = {.len = 0};

    (void)threads;
    if (lease == NULL)
        bench_die("out of memory");
    put_number(&grant, 1, TTL_S);
    if ((*lease = get_number(call(c, &grant), 2)) == 0)
        bench_die("etcd grants no lease");
    disconnect(c);
    return lease;
}

static void *start(const struct bench_db *db, void *shared, int client)
{
    struct own *own = calloc(1, sizeof *own);

    if (own == NULL)
        bench_die("out of memory");
    own->channel = connect_to(db->url, "etcdserverpb.KV/Txn");
    own->lease = *(uint64_t *)shared;
    snprintf(own->name, sizeof own->name, "bench %d", client);
    return own;
}

static void end(void *arg)
{
    struct own *own = arg;

    disconnect(own->channel);
    free(own);
}

/* One comparison, and one operation if it holds. */
static void transact(struct own *own, const struct message *compare, const struct message *op)
{
    struct message txn = {.len = 0};

    put_message(&txn, 1, compare);
    put_message(&txn, 2, op);
    if (get_number(call(own->channel, &txn), 2) != 1)
        bench_die("etcd: %s is not as it was left", own->name);
}

enum { EQUAL = 0, CREATED = 1, VALUE = 3 }; /* of Compare */

static void acquire(struct own *own, const unsigned char *owner)
{
    struct message compare = {.len = 0}, put = {.len = 0}, op = {.len = 0};

    put_number(&compare, 1, EQUAL);
    put_number(&compare, 2, CREATED);
    put_text(&compare, 3, own->name, strlen(own->name));
    put_number(&compare, 5, 0); /* at no revision: there is no such key */
    put_text(&put, 1, own->name, strlen(own->name));
    put_text(&put, 2, owner, SQLOCK_OWNER_SIZE);
    put_number(&put, 3, own->lease);
    put_message(&op, 2, &put);
    transact(own, &compare, &op);
}

static void release(struct own *own, const unsigned char *owner)
{
    struct message compare = {.len = 0}, range = {.len = 0}, op = {.len = 0};

    put_number(&compare, 1, EQUAL);
    put_number(&compare, 2, VALUE);
    put_text(&compare, 3, own->name, strlen(own->name));
    put_text(&compare, 7, owner, SQLOCK_OWNER_SIZE);
    put_text(&range, 1, own->name, strlen(own->name));
    put_message(&op, 3, &range);
    transact(own, &compare, &op);
}

static void pair(void *arg)
{
    unsigned char owner[SQLOCK_OWNER_SIZE];

    bench_owner(owner);
    acquire(arg, owner);
    release(arg, owner);
}

const struct bench_way bench_etcd = {.name = "etcd",
                                     .prepare = prepare,
                                     .open = open_lease,
                                     .close = free,
                                     .start = start,
                                     .end = end,
                                     .pair = pair,
                                     .requests = 2};
