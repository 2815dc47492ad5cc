/* One migrator at a time. Where DDL is transactional, a lock of the transaction's sees to it.
 * Elsewhere it is a row with a lease in our own lock table, for locks of sessions strand behind
 * poolers and are local to a node of a cluster; only while there is no such table yet, a lock of
 * the session must do. */
#include <string.h>

#include "core/base/random.h"
#include "core/engine/call.h"
#include "core/engine/locks.h"
#include "core/schema/migrator.h"

#define GUARD_NAME   "migrate"
#define PAUSE_MAX_US 50000

/* How long others are waited for: longer than the lease of one that was killed. */
static int64_t wait_limit(const struct migrator *g)
{
    return sqlock_now_us() + 2 * g->m->request_us;
}

static int others_at_work(struct migrator *g)
{
    return sqlock_error_set(&g->err, SQLOCK_ETIMEOUT, SQLOCK_RETRY, "another migrator is at work");
}

/* The lock of the session or the transaction. */
static int take_lock(struct migrator *g)
{
    int rc = migrator_ask(g, SQLOCK_STMT_MIGRATE_LOCK, NULL, wait_limit(g));

    if (rc == SQLOCK_ETIMEOUT)
        error_prefix(&g->err, "waiting for another migrator");
    if (rc == 0 && sqlock_rows_count(g->rows) == 0)
        rc = others_at_work(g);
    return rc;
}

/* ---- the lease ------------------------------------------------------------------------------ */

/* It outlasts a statement that takes all of its time, and the client's clock may run a tenth fast.
 */
static int64_t lease_us(const struct migrator *g)
{
    return g->m->request_us + g->m->request_us / 2;
}

/* Take or renew the lease (ttl 0: give it back). SQLOCK_EBUSY: somebody else has it, for *out_left.
 * A token that changed tells that it had run out, and that others may have been at work since. */
static int lease_ask(struct migrator *g, int64_t ttl, int64_t *out_left)
{
    int64_t sent = sqlock_now_us(), token;
    sqlock_value values[] = {
        value_bytes(LOCK_OWN_NS, sizeof LOCK_OWN_NS - 1),
        value_bytes(GUARD_NAME, strlen(GUARD_NAME)),
        value_bytes(g->owner, sizeof g->owner),
        value_int(ttl),
        value_bytes(g->m->label, strlen(g->m->label)),
    };
    int rc, there, held;

    if ((rc = migrator_ask(g, SQLOCK_STMT_MIGRATE_LEASE, values, sent + g->m->request_us)) != 0)
        return rc;
    there = sqlock_rows_count(g->rows) > 0;
    token = there ? rows_int(g->rows, 0, SQLOCK_COL_TOKEN, 0) : 0;
    held = !there || rows_int(g->rows, 0, SQLOCK_COL_OUTCOME, 0) != SQLOCK_OUT_DONE;
    if (g->token != 0 && token != g->token)
        return sqlock_error_set(&g->err, SQLOCK_ELOST, SQLOCK_RETRY,
                                "the migrator's lease ran out before it was renewed");
    if (held && g->token != 0)
        return 0; /* its row was locked for too long: not longer, but still ours */
    if (held) {
        *out_left = there ? rows_int(g->rows, 0, SQLOCK_COL_LEFT, 0) : 0;
        return SQLOCK_EBUSY;
    }
    g->token = token;
    g->lease_end = sent + ttl - ttl / 10;
    return 0;
}

int guard_keep(struct migrator *g, int64_t *out_deadline)
{
    int64_t left;
    int rc = 0;

    *out_deadline = sqlock_now_us() + g->m->request_us;
    if (g->token == 0)
        return 0;
    if (g->lease_end < *out_deadline)
        rc = lease_ask(g, lease_us(g), &left);
    *out_deadline = time_min(sqlock_now_us() + g->m->request_us, g->lease_end);
    return rc;
}

/* The first migration's statements, without a record of it; its last one makes the lock table. A
 * lock of the session's keeps others from the same; who was quicker has made it meanwhile. */
static int make_tables(struct migrator *g)
{
    const sqlock_dialect *d = g->m->driver->dialect;
    int64_t left;
    int rc;

    if ((rc = take_lock(g)) != 0)
        return rc;
    rc = lease_ask(g, lease_us(g), &left);
    if (rc == 0 || rc == SQLOCK_EBUSY)
        return 0;
    if (rc == SQLOCK_ESCHEMA && (rc = migrator_look(g)) == 0 && g->version == 0)
        for (size_t i = 0; rc == 0 && d->n_migrations > 0 && i < d->migrations[0].n_up; i++)
            rc = migrator_exec(g, d->migrations[0].up[i]);
    return rc;
}

static void pause_for(int64_t left)
{
    int64_t most = left > 1000 && left < PAUSE_MAX_US ? left : PAUSE_MAX_US;

    sqlock_sleep_us(most / 2 + sqlock_random_below((uint32_t)(most / 2)));
}

/* There is no lock table, or was none a moment ago. *out_end: without one there is nothing to
 * change, and nobody to be kept out. A version without the table is one that somebody has made
 * since, or is not whole: a new table would begin with tokens that were given before. */
static int no_table(struct migrator *g, int creates, int *gone, int *out_end)
{
    int rc = migrator_look(g);

    if (rc == 0 && g->version > 0 && ++*gone > 1)
        rc = sqlock_error_set(&g->err, SQLOCK_ESCHEMA, 0,
                              "the schema is version %d, but its lock table is gone", g->version);
    *out_end = rc == 0 && g->version == 0 && !creates;
    if (rc == 0 && g->version == 0 && creates)
        rc = make_tables(g);
    return rc;
}

/* Take the lease, waiting for others, who may make and drop its table meanwhile. g->token stays 0
 * where there is no table and none is to be made: then g->version is 0. */
static int lease_take(struct migrator *g, int creates)
{
    int64_t give_up = wait_limit(g), left = 0;
    int rc, end = 0, gone = 0;

    if (random_bytes(g->owner, sizeof g->owner) != 0)
        return sqlock_error_set(&g->err, SQLOCK_ESYS, 0, "no random bytes to be had");
    while ((rc = lease_ask(g, lease_us(g), &left)) != 0) {
        if (rc == SQLOCK_ESCHEMA) {
            if ((rc = no_table(g, creates, &gone, &end)) != 0 || end)
                return rc;
        } else if (rc == SQLOCK_EBUSY) {
            gone = 0;
        } else if (!(g->err.flags & SQLOCK_RETRY) || (g->err.flags & SQLOCK_RECONNECT)) {
            return rc;
        }
        if (sqlock_now_us() >= give_up)
            return others_at_work(g);
        if (g->token == 0)
            pause_for(left);
    }
    return migrator_look(g);
}

static int under_lease(struct migrator *g, int creates, int (*work)(struct migrator *g, void *arg),
                       void *arg)
{
    sqlock_error failure;
    int64_t left;
    int rc;

    if ((rc = lease_take(g, creates)) == 0)
        rc = work(g, arg);
    if (g->token == 0)
        return rc;
    failure = g->err;
    /* If it fails, the lease runs out by itself; after the last way down its table is gone. */
    (void)lease_ask(g, 0, &left);
    g->err = failure;
    return rc;
}

/* ---- the transaction ------------------------------------------------------------------------ */

static int in_transaction(struct migrator *g, int (*work)(struct migrator *g, void *arg), void *arg)
{
    const sqlock_driver *driver = g->m->driver;
    sqlock_error ignored;
    int rc;

    if ((rc = driver->begin(g->conn, wait_limit(g), &g->err)) != 0)
        return rc;
    /* looked at behind the lock: what others have done while it was waited for is seen */
    if ((rc = take_lock(g)) == 0 && (rc = migrator_look(g)) == 0)
        rc = work(g, arg);
    if (rc == 0)
        return driver->commit(g->conn, sqlock_now_us() + g->m->request_us, &g->err);
    driver->rollback(g->conn, sqlock_now_us() + g->m->request_us, &ignored);
    return rc;
}

int migrator_alone(struct migrator *g, int creates, int (*work)(struct migrator *g, void *arg),
                   void *arg)
{
    g->changes = 1;
    return g->m->driver->caps & SQLOCK_CAP_TX_DDL ? in_transaction(g, work, arg)
                                                  : under_lease(g, creates, work, arg);
}
