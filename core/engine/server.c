/* All connections of a manager are on one server: what one has answered tells nothing of another's
 * rows. When handshake meets another server than before, a standby was promoted, or the server was
 * started anew. */
#include <string.h>

#include "core/engine/locks.h"
#include "core/engine/pool.h"
#include "core/engine/server.h"

int server_is_ours(const sqlock *m, const struct conn *c)
{
    return c->server == m->server;
}

/* Take away what nobody uses: of one host, or all but `kept`. They are closed without the mutex.
 * m->mu is held. */
static size_t take_idle(sqlock *m, const struct conn *kept, const struct conn *host, void **out)
{
    size_t n = 0;

    for (int i = 0; i < m->n_conns; i++) {
        struct conn *c = &m->conns[i];

        if (c == kept || c->busy || c->native == NULL || (host != NULL && c->host != host->host))
            continue;
        out[n++] = c->native;
        c->native = NULL;
    }
    return n;
}

static void close_all(sqlock *m, void **natives, size_t n)
{
    for (size_t i = 0; i < n; i++)
        m->driver->close(natives[i]);
}

/* What is under way elsewhere would be believed by nobody. m->mu is held. */
static void cut_others(sqlock *m, const struct conn *kept)
{
    for (int i = 0; i < m->n_conns; i++)
        if (&m->conns[i] != kept && m->conns[i].running)
            pool_cancel_call(m, &m->conns[i]);
}

/* m->mu is held. */
static void doubt_leases(sqlock *m)
{
    LIST_EACH(at, &m->locks)
    {
        lock_moved(LIST_MEMBER(at, sqlock_lock, in_manager));
    }
    worker_wake(m, 0);
}

static int is_same(const sqlock *m, const void *id, size_t len)
{
    return m->server_len == len && memcmp(m->server_id, id, len) == 0;
}

/* m->mu is held. */
static void server_become(sqlock *m, struct conn *c, const void *id, size_t len)
{
    int is_first = m->server == 0;

    memcpy(m->server_id, id, len);
    m->server_len = len;
    c->server = ++m->server;
    if (!is_first) {
        cut_others(m, c);
        doubt_leases(m);
    }
}

int server_note(sqlock *m, struct conn *c, const void *id, size_t len, sqlock_error *err)
{
    void *natives[CONNECTIONS_MAX];
    size_t n = 0;
    int rc = 0;

    len = len < sizeof m->server_id ? len : sizeof m->server_id;
    mutex_lock(&m->mu);
    if (m->server != 0 && is_same(m, id, len)) {
        c->server = m->server;
    } else if (!server_is_ours(m, c)) {
        rc = sqlock_error_set(err, SQLOCK_EUNREACH, SQLOCK_RETRY | SQLOCK_RECONNECT,
                              "another server was found meanwhile");
    } else {
        server_become(m, c, id, len);
        n = take_idle(m, c, NULL, natives);
    }
    mutex_unlock(&m->mu);
    close_all(m, natives, n);
    return rc;
}

void server_leave(sqlock *m, const struct conn *c)
{
    void *natives[CONNECTIONS_MAX];
    size_t n;

    mutex_lock(&m->mu);
    n = take_idle(m, c, c, natives);
    mutex_unlock(&m->mu);
    close_all(m, natives, n);
}
