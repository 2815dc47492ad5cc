/* Keeps all but one migrator out. If DDL is transactional, a lock of the transaction does it.
 * Otherwise it is a row with a lease in our own lock table. Session locks would get stranded behind
 * poolers, and are local to a node of a cluster. Only while that table is missing, a session lock
 * has to do. */
#include <assert.h>
#include <string.h>

#include "core/base/random.h"
#include "core/engine/call.h"
#include "core/engine/locks.h"
#include "core/schema/migrator.h"

#define GUARD_NAME   "migrate"
#define PAUSE_MAX_US 50000

/* How long to wait for other migrators: longer than the lease of a killed one. */
static int64_t guard_wait_limit(const struct migrator *g)
{
    return sqlock_now_us() + 2 * g->m->request_us;
}

static int guard_others_at_work(struct migrator *g)
{
    return sqlock_error_set(&g->err, SQLOCK_ETIMEOUT, SQLOCK_RETRY, "another migration is running");
}

/* Take the lock of the session, or of the transaction. */
static int guard_take_lock(struct migrator *g)
{
    int rc = migrator_send(g, SQLOCK_STMT_MIGRATE_LOCK, NULL, guard_wait_limit(g));

    if (rc == SQLOCK_ETIMEOUT)
        error_prefix(&g->err, "waiting for another migration");
    if (rc == 0 && sqlock_rows_count(g->rows) == 0)
        rc = guard_others_at_work(g);
    return rc;
}

/* ---- the lease ------------------------------------------------------------------------------- */

/* The lease is longer than a statement that takes all of its time, even if the client's clock is 10
 * % too fast. */
static int64_t guard_lease_us(const struct migrator *g)
{
    return g->m->request_us + g->m->request_us / 2;
}

/* Take or renew the lease (ttl 0: give it back). SQLOCK_EBUSY: another migrator has it, for
 * *out_left. A changed token shows that the lease had run out, and that others may have worked
 * since. */
static int guard_send_lease(struct migrator *g, int64_t ttl, int64_t *out_left)
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

    if ((rc = migrator_send(g, SQLOCK_STMT_MIGRATE_LEASE, values, sent + g->m->request_us)) != 0)
        return rc;
    there = sqlock_rows_count(g->rows) > 0;
    token = there ? rows_int(g->rows, 0, SQLOCK_COL_TOKEN, 0) : 0;
    held = !there || rows_int(g->rows, 0, SQLOCK_COL_OUTCOME, 0) != SQLOCK_OUT_DONE;
    if (g->token != 0 && token != g->token)
        return sqlock_error_set(&g->err, SQLOCK_ELOST, SQLOCK_RETRY,
                                "the migration's lease ran out before it was renewed");
    if (held && g->token != 0)
        return 0; /* the row was locked for too long: the lease is not extended, but still ours */
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
        rc = guard_send_lease(g, guard_lease_us(g), &left);
    *out_deadline = time_min(sqlock_now_us() + g->m->request_us, g->lease_end);
    return rc;
}

/* Run the first migration's statements without a record of it. Its last statement makes the lock
 * table. A session lock keeps others from doing the same. A quicker migrator may have made the
 * table meanwhile. */
static int guard_make_tables(struct migrator *g)
{
    const sqlock_dialect *d = g->m->driver->dialect;
    int64_t left;
    int rc;

    if ((rc = guard_take_lock(g)) != 0)
        return rc;
    rc = guard_send_lease(g, guard_lease_us(g), &left);
    if (rc == 0 || rc == SQLOCK_EBUSY)
        return 0;
    if (rc == SQLOCK_ESCHEMA && (rc = migrator_look(g)) == 0 && g->version == 0)
        for (size_t i = 0; rc == 0 && d->n_migrations > 0 && i < d->migrations[0].n_up; i++)
            rc = migrator_exec(g, d->migrations[0].up[i]);
    return rc;
}

static void guard_pause(int64_t left)
{
    int64_t most = left > 1000 && left < PAUSE_MAX_US ? left : PAUSE_MAX_US;

    sqlock_sleep_us(most / 2 + sqlock_random_below((uint32_t)(most / 2)));
}

/* There is no lock table, or there was none a moment ago. *out_end: it is not to be made, so there
 * is nothing to change and no one to keep out. If there is a version but no table, another migrator
 * may have made it since. Otherwise the schema is damaged, and a new table would draw tokens again
 * that were granted before. */
static int guard_without_table(struct migrator *g, int creates, int *gone, int *out_end)
{
    int rc = migrator_look(g);

    if (rc == 0 && g->version > 0 && ++*gone > 1)
        rc = sqlock_error_set(&g->err, SQLOCK_ESCHEMA, 0,
                              "the schema is version %d, but its lock table is gone", g->version);
    *out_end = rc == 0 && g->version == 0 && !creates;
    if (rc == 0 && g->version == 0 && creates)
        rc = guard_make_tables(g);
    return rc;
}

/* Take the lease. Waits for other migrators, which may make and drop its table meanwhile. If there
 * is no table and none is to be made, g->token stays 0, and g->version is 0. */
static int guard_take_lease(struct migrator *g, int creates)
{
    int64_t give_up = guard_wait_limit(g), left = 0;
    int rc, end = 0, gone = 0;

    if (random_bytes(g->owner, sizeof g->owner) != 0)
        return sqlock_error_set(&g->err, SQLOCK_ESYS, 0, "no random bytes available");
    while ((rc = guard_send_lease(g, guard_lease_us(g), &left)) != 0) {
        if (rc == SQLOCK_ESCHEMA) {
            if ((rc = guard_without_table(g, creates, &gone, &end)) != 0 || end)
                return rc;
        } else if (rc == SQLOCK_EBUSY) {
            gone = 0;
        } else if (!(g->err.flags & SQLOCK_RETRY) || (g->err.flags & SQLOCK_RECONNECT)) {
            return rc;
        }
        if (sqlock_now_us() >= give_up)
            return guard_others_at_work(g);
        if (g->token == 0)
            guard_pause(left);
    }
    return migrator_look(g);
}

static int guard_under_lease(struct migrator *g, int creates,
                             int (*work)(struct migrator *g, void *arg), void *arg)
{
    sqlock_error failure;
    int64_t left;
    int rc;

    if ((rc = guard_take_lease(g, creates)) == 0)
        rc = work(g, arg);
    if (g->token == 0)
        return rc;
    failure = g->err;
    /* If this fails, the lease runs out by itself. After a way down to 0 its table is gone. */
    (void)guard_send_lease(g, 0, &left);
    g->err = failure;
    return rc;
}

/* ---- the transaction ------------------------------------------------------------------------- */

static int guard_in_transaction(struct migrator *g, int (*work)(struct migrator *g, void *arg),
                                void *arg)
{
    const sqlock_driver *driver = g->m->driver;
    sqlock_error ignored;
    int rc;

    if ((rc = driver->begin(g->conn.native, guard_wait_limit(g), &g->err)) != 0)
        return rc;
    /* look only after the lock is taken, to see what others did before */
    if ((rc = guard_take_lock(g)) == 0 && (rc = migrator_look(g)) == 0)
        rc = work(g, arg);
    if (rc == 0)
        return driver->commit(g->conn.native, sqlock_now_us() + g->m->request_us, &g->err);
    driver->rollback(g->conn.native, sqlock_now_us() + g->m->request_us, &ignored);
    return rc;
}

int migrator_alone(struct migrator *g, int creates, int (*work)(struct migrator *g, void *arg),
                   void *arg)
{
    assert(g->token == 0);
    g->changes = 1;
    return g->m->driver->caps & SQLOCK_CAP_TX_DDL ? guard_in_transaction(g, work, arg)
                                                  : guard_under_lease(g, creates, work, arg);
}
