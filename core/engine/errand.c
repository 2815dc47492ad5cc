/* Requests that no op makes. */
#include <string.h>

#include "core/engine/errand.h"
#include "core/engine/hosts.h"
#include "core/engine/loop.h"
#include "core/engine/pool.h"
#include "core/sql/requests.h"

static int64_t errand_until(const struct errand *e)
{
    return e->until != NULL ? e->until(e, sqlock_now_us()) : e->deadline;
}

static int errand_take_conn(sqlock *m, struct errand *e, struct conn **out, int *stale)
{
    int64_t until = errand_until(e), server;
    int rc;

    mutex_lock(&m->mu);
    server = m->server;
    rc = pool_take(m, e->use, NULL, until, out, &e->err);
    if (rc == 0) {
        e->took = 1;
        e->borrowed = *out != &m->conns[0];
        e->server = (*out)->server;
    }
    *stale = m->server != server;
    mutex_unlock(&m->mu);
    return rc;
}

/* Returns 1 in *stale if the connection was open before, or if another one has met another server,
 * which cuts this one short. */
static int errand_try(sqlock *m, struct errand *e, int again, int *stale)
{
    int64_t until;
    struct conn *c;
    int rc;

    memset(&e->err, 0, sizeof e->err);
    if ((rc = errand_take_conn(m, e, &c, stale)) != 0)
        return rc;
    *stale = c->used;
    until = errand_until(e);
    rc = call_rows(m, c, NULL, e->stmt, e->values, e->n,
                   again ? hosts_room(m, sqlock_now_us(), until) : until, e->rows, &e->sent,
                   &e->err);
    mutex_lock(&m->mu);
    pool_give(m, c, rc != 0 && (e->err.flags & SQLOCK_RECONNECT));
    mutex_unlock(&m->mu);
    return rc;
}

static int errand_do(sqlock *m, struct errand *e)
{
    int again = request_doubt(e->stmt) == 0, stale, rc;

    e->sent = sqlock_now_us();
    for (int tries = 0;; tries++) {
        rc = errand_try(m, e, again, &stale);
        if (rc == 0 || !again || !(e->err.flags & (SQLOCK_RETRY | SQLOCK_RECONNECT)) ||
            (tries > 0 && !stale) || sqlock_now_us() >= errand_until(e))
            return rc;
    }
}

struct errand_work {
    sqlock *m;
    struct errand *e;
    int rc;
};

static void errand_work(void *arg)
{
    struct errand_work *w = arg;

    w->rc = errand_do(w->m, w->e);
}

int errand_run(sqlock *m, struct errand *e)
{
    struct errand_work w = {m, e, 0};

    if (loop_blocks(m))
        loop_do(m, errand_work, &w);
    else
        errand_work(&w);
    return w.rc;
}
