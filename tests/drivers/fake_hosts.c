#ifdef TEST_HAVE_FAKE
#include "tests/drivers/fake_hosts.h"

#include <poll.h>
#include <time.h>

struct host hosts[HOSTS];
struct hosts_net hosts_net;

struct link {
    uint32_t host;
    void *conn;
    int wake;
    _Atomic uint64_t cancelled; /* the call of this number, then wake */
};

static int hang(int wake, int64_t until)
{
    struct pollfd p = {.fd = wake, .events = POLLIN};

    while (sqlock_now_us() < until)
        if (poll(&p, wake >= 0, 5) > 0)
            return SQLOCK_ECANCELLED;
    return SQLOCK_ETIMEOUT;
}

/* A wake-up without a cancel of this call is an old one. */
static int link_hang(struct link *l, uint64_t call, int64_t until)
{
    int rc = atomic_load(&l->cancelled) == call ? SQLOCK_ECANCELLED : hang(l->wake, until);

    while (rc == SQLOCK_ECANCELLED && atomic_load(&l->cancelled) != call) {
        sqlock_wake_clear(l->wake);
        rc = atomic_load(&l->cancelled) == call ? SQLOCK_ECANCELLED : hang(l->wake, until);
    }
    return rc;
}

static int no_answer(int code, unsigned flags, sqlock_error *err)
{
    return code == SQLOCK_ECANCELLED ? sqlock_error_set(err, code, flags, "cancelled")
                                     : sqlock_error_set(err, code, flags, "no answer");
}

static int net_hosts(const char *url, sqlock_hosts *out, sqlock_error *err)
{
    (void)url, (void)err;
    out->n = hosts_net.n;
    out->each_us = hosts_net.each_us;
    return 0;
}

static int refuse(enum mood mood, const sqlock_conn_opts *o, int64_t deadline, sqlock_error *err)
{
    int rc;

    switch (mood) {
    case REFUSES:
        return sqlock_error_db(err, "08001", 0, 0, "connection refused");
    case DENIES:
        return sqlock_error_db(err, "28P01", 0, 0, "wrong password");
    case SLOW:
        rc = hang(o->wake_fd,
                  sqlock_now_us() + 700000 < deadline ? sqlock_now_us() + 700000 : deadline + 1);
        return rc == SQLOCK_ETIMEOUT && sqlock_now_us() < deadline
                   ? 0
                   : sqlock_error_db(err, "08001", 0, 0, "no connection before the deadline");
    case SILENT:
        rc = hang(o->wake_fd, deadline);
        return rc == SQLOCK_ECANCELLED
                   ? no_answer(rc, 0, err)
                   : sqlock_error_db(err, "08001", 0, 0, "no connection before the deadline");
    default:
        return 0;
    }
}

static int net_open(const sqlock_conn_opts *o, int64_t deadline, void **out, sqlock_error *err)
{
    uint32_t host = o->host > 0 ? o->host - 1 : 0;
    int at = atomic_fetch_add(&hosts_net.visits, 1), rc;
    sqlock_conn_opts own = *o;
    struct link *l;

    if (at < VISITS) {
        atomic_store(&hosts_net.visited[at], (int)host);
        atomic_store(&hosts_net.spent_us[at], deadline - sqlock_now_us());
    }
    if ((rc = refuse((enum mood)atomic_load(&hosts[host].mood), o, deadline, err)) != 0)
        return rc;
    own.url = NULL;
    own.connect = sqlock_fake_connect;
    own.connect_user = hosts[host].db;
    if ((l = sqlock_mem_alloc(sizeof *l)) == NULL)
        return sqlock_error_set(err, SQLOCK_ENOMEM, 0, "out of memory");
    l->host = host;
    l->wake = sqlock_wake_make();
    if ((rc = sqlock_driver_fake()->open(&own, deadline, &l->conn, err)) != 0) {
        sqlock_wake_close(l->wake);
        sqlock_mem_free(l);
        return rc;
    }
    atomic_fetch_add(&hosts[host].links, 1);
    *out = l;
    return 0;
}

static void net_close(void *conn)
{
    struct link *l = conn;

    atomic_fetch_sub(&hosts[l->host].links, 1);
    sqlock_driver_fake()->close(l->conn);
    sqlock_wake_close(l->wake);
    sqlock_mem_free(l);
}

static int is_replica(sqlock_rows *rows)
{
    static const char detail[] = "the server is a replica";
    int64_t ahead = atomic_load(&hosts_net.replica_ahead_us);

    sqlock_rows_add(rows, 0);
    sqlock_rows_put_int(rows, 0);
    sqlock_rows_put_int(rows, SQLOCK_OUT_READONLY);
    for (int i = 2; i < SQLOCK_COL_DETAIL; i++)
        sqlock_rows_put_int(
            rows, i == SQLOCK_COL_NOW && ahead != 0 ? time(NULL) * INT64_C(1000000) + ahead : 0);
    return sqlock_rows_put_bytes(rows, detail, sizeof detail - 1);
}

static int writes(sqlock_stmt stmt)
{
    return stmt != SQLOCK_STMT_HANDSHAKE && stmt != SQLOCK_STMT_LEASE;
}

static int net_run(void *conn, const sqlock_call *call, sqlock_stmt stmt,
                   const sqlock_value *values, size_t n, int64_t deadline, sqlock_rows *rows,
                   sqlock_error *err)
{
    struct link *l = conn;
    unsigned flags = sqlock_driver_fake()->dialect->scripts[stmt].flags;
    enum mood mood = (enum mood)atomic_load(&hosts[l->host].mood);
    int rc;

    if (mood == REPLICA && stmt == SQLOCK_STMT_HANDSHAKE)
        return is_replica(rows);
    if (mood == READ_ONLY && writes(stmt))
        return sqlock_error_db(err, "25006", 0, 0, "read-only transaction");
    if (mood == SILENT || (mood == HALF_SILENT && writes(stmt))) {
        rc = link_hang(l, call != NULL ? call->number : UINT64_MAX, deadline);
        if (call != NULL && (call->flags & SQLOCK_CALL_PAUSES))
            return SQLOCK_NOT_YET;
        return no_answer(rc, SQLOCK_RECONNECT | (SQLOCK_LEAVES_DOUBT(flags) ? SQLOCK_MAYBE : 0),
                         err);
    }
    return sqlock_driver_fake()->run(l->conn, call, stmt, values, n, deadline, rows, err);
}

static void net_cancel(void *conn, uint64_t call)
{
    struct link *l = conn;

    atomic_store(&l->cancelled, call);
    sqlock_wake_set(l->wake);
    sqlock_driver_fake()->cancel(l->conn, call);
}

static int net_exec(void *conn, const char *sql, int64_t deadline, sqlock_error *err)
{
    return sqlock_driver_fake()->exec(((struct link *)conn)->conn, sql, deadline, err);
}

#define NET_CALL(name)                                                                             \
    static int net_##name(void *conn, int64_t deadline, sqlock_error *err)                         \
    {                                                                                              \
        return sqlock_driver_fake()->name(((struct link *)conn)->conn, deadline, err);             \
    }
NET_CALL(begin)
NET_CALL(commit)
NET_CALL(rollback)

static const sqlock_driver *hosts_driver(void)
{
    static sqlock_driver d;

    d = *sqlock_driver_fake();
    d.caps |= SQLOCK_CAP_HOSTS;
    d.open = net_open;
    d.close = net_close;
    d.run = net_run;
    d.exec = net_exec;
    d.begin = net_begin;
    d.commit = net_commit;
    d.rollback = net_rollback;
    d.cancel = net_cancel;
    d.hosts = net_hosts;
    return &d;
}

static void make_hosts(struct place *p)
{
    p->url = "fake://h1,h2,h3";
    memset(&hosts_net, 0, sizeof hosts_net);
    hosts_net.n = HOSTS;
    for (int i = 0; i < HOSTS; i++) {
        hosts[i].db = hosts[i].own = sqlock_fake_new();
        assert_non_null(hosts[i].db);
        host_is(i, PRIMARY);
        atomic_store(&hosts[i].links, 0);
    }
}

static void drop_hosts(struct place *p)
{
    (void)p;
    for (int i = 0; i < HOSTS; i++)
        sqlock_fake_free(hosts[i].own);
}

const struct quirks hosts_quirks = {.name = "fake",
                                    .driver = hosts_driver,
                                    .born_migrated = true,
                                    .make = make_hosts,
                                    .drop = drop_hosts};

void host_is(int host, enum mood mood)
{
    atomic_store(&hosts[host].mood, (int)mood);
}

void host_cut(int host)
{
    sqlock_fake_down(hosts[host].db, 1);
    sqlock_fake_down(hosts[host].db, 0);
}

void host_promoted(int host)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock *m = NULL;

    o.connect = sqlock_fake_connect;
    o.connect_user = hosts[host].db;
    ok(sqlock_open(sqlock_driver_fake(), NULL, &o, &m, &said));
    sqlock_close(m);
}

int visits(void)
{
    return atomic_load(&hosts_net.visits);
}

int visited(int i)
{
    return atomic_load(&hosts_net.visited[i]);
}

sqlock_lock *grant(sqlock *m, const char *name)
{
    sqlock_acquire_opts o = wait_opts(0, 0, SQLOCK_NO_RENEW);

    return take_with(m, name, &o);
}

long acquires(int host)
{
    return sqlock_fake_seen(hosts[host].db, SQLOCK_STMT_ACQUIRE);
}

int try_hosts(struct world *w, int32_t request_ms, sqlock **out, sqlock_error *err)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;

    o.request_ms = request_ms;
    o.connections = 3;
    *out = NULL;
    memset(err, 0, sizeof *err);
    return open_here(w, &o, out, err);
}

sqlock *open_hosts(struct world *w, int32_t request_ms)
{
    return open_with(w, with.request_ms = request_ms, with.connections = 3);
}
#endif
