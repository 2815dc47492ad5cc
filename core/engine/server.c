/* All connections of a manager are on one server, because one server's answer says nothing about
 * another's rows. If a handshake meets another server than before, a standby was promoted, or the
 * server was restarted. */
#include <assert.h>
#include <string.h>

#include "core/engine/locks.h"
#include "core/engine/pool.h"
#include "core/engine/server.h"

/* Take the idle connections out of the pool: those of one host, or all but `except`. The caller
 * closes them without the mutex. m->mu is held. */
static size_t server_take_idle(sqlock *m, const struct conn *except, const struct conn *host,
                               void **out)
{
    size_t n = 0;

    for (int i = 0; i < m->n_conns; i++) {
        struct conn *c = &m->conns[i];

        if (c == except || c->busy || c->native == NULL || (host != NULL && c->host != host->host))
            continue;
        assert(!c->running && n < CONNECTIONS_MAX);
        if ((out[n] = pool_part(m, c)) != NULL)
            n++;
    }
    return n;
}

static void server_close_all(sqlock *m, void **natives, size_t n)
{
    for (size_t i = 0; i < n; i++)
        m->driver->close(natives[i]);
}

/* Cancel the calls on other connections: their answers would not be believed. m->mu is held. */
static void server_cancel_others(sqlock *m, const struct conn *except)
{
    for (int i = 0; i < m->n_conns; i++)
        if (&m->conns[i] != except && m->conns[i].running)
            pool_cancel_call(m, &m->conns[i]);
}

/* m->mu is held. */
static void server_doubt_leases(sqlock *m)
{
    int64_t now = sqlock_now_us();

    LIST_EACH(at, &m->locks)
    {
        sqlock_lock *lock = LIST_MEMBER(at, sqlock_lock, in_manager);

        lock_moved(lock, now);
        lock_act(lock);
    }
    worker_wake(m, 0);
}

static int server_is_same(const sqlock *m, const void *id, size_t len)
{
    return m->server_len == len && memcmp(m->server_id, id, len) == 0;
}

/* m->mu is held. */
static void server_become(sqlock *m, struct conn *c, const void *id, size_t len)
{
    int is_first = m->server == 0;

    assert(mutex_is_mine(&m->mu) && c->busy && len <= sizeof m->server_id);
    memcpy(m->server_id, id, len);
    m->server_len = len;
    c->server = ++m->server;
    if (!is_first) {
        server_cancel_others(m, c);
        server_doubt_leases(m);
    }
}

int server_note(sqlock *m, struct conn *c, const void *id, size_t len, sqlock_error *err)
{
    void *natives[CONNECTIONS_MAX];
    size_t n = 0;
    int rc = 0;

    len = len < sizeof m->server_id ? len : sizeof m->server_id;
    mutex_lock(&m->mu);
    if (m->server != 0 && server_is_same(m, id, len)) {
        c->server = m->server;
    } else if (!server_is_ours(m, c)) {
        rc = sqlock_error_set(err, SQLOCK_EUNREACH, SQLOCK_RETRY | SQLOCK_RECONNECT,
                              "another server was found meanwhile");
    } else {
        server_become(m, c, id, len);
        n = server_take_idle(m, c, NULL, natives);
    }
    mutex_unlock(&m->mu);
    server_close_all(m, natives, n);
    return rc;
}

void server_leave(sqlock *m, const struct conn *c)
{
    void *natives[CONNECTIONS_MAX];
    size_t n;

    mutex_lock(&m->mu);
    n = server_take_idle(m, c, c, natives);
    mutex_unlock(&m->mu);
    server_close_all(m, natives, n);
}
