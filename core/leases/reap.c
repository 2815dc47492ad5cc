/* Reaping: it clears expired grants and prunes rows that are long idle, so that the table does not
 * grow for ever. It only tidies up, and no caller waits for it (P10). */
#include <string.h>

#include <sqlock/admin.h>

#include "core/engine/arguments.h"
#include "core/engine/locks.h"
#include "core/leases/leases.h"
#include "core/leases/sweep.h"

#define LEASE_NAME "reap"

/* ---- the reaper's own lease ------------------------------------------------------------------ */

/* If this fails, the lease runs out by itself, and is not in the way for long. */
static void reap_give_back(sqlock_lock *lock)
{
    const int rc = sqlock_release(lock, NULL);

    (void)rc;
}

/* Another reaper is at work. On a server a row that stays locked means that, too, because no other
 * program knows its name. In SQLite's single file any writer may be in the way. */
static int reap_is_at_work(const sqlock *m, int rc)
{
    return rc == SQLOCK_EBUSY || (rc == SQLOCK_EGUARDED && !manager_has_one_writer(m));
}

/* Returns 0 if the lease is ours. Otherwise reap_is_at_work() says whether another reaper has
 * it. */
static int reap_take_lease(sqlock_lock *lock, sqlock_cancel *cancel, sqlock_error *err)
{
    sqlock_op *op = NULL;
    int rc = acquire_start(lock, 0, cancel, &op, err);

    if (rc != 0)
        return rc;
    rc = op_drive(op, NULL, err);
    if (rc == SQLOCK_EUNSURE && (rc = sqlock_settle(lock, 0, err)) == SQLOCK_EUNSURE)
        reap_give_back(lock);
    return rc;
}

static int reap_run(sqlock *m, struct sweep *s, sqlock_error *err)
{
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_error failure = {0};
    sqlock_lock *lock = NULL;
    int rc, dry = (s->o.flags & SQLOCK_REAP_DRY_RUN) != 0;

    o.flags = dry ? SQLOCK_NO_RENEW : 0; /* then the handle takes no lock */
    if ((rc = lock_new(m, LEASE_NAME, sizeof LEASE_NAME - 1, &o, &lock, &failure)) != 0)
        return error_give(err, &failure);
    lock_make_own(lock);
    if (!dry)
        rc = reap_take_lease(lock, s->o.cancel, &failure);
    s->r.ran = rc == 0;
    if (rc == 0)
        rc = sweep_run(m, s, lock, &failure);
    else if (reap_is_at_work(m, rc))
        rc = 0;
    if (!dry && s->r.ran)
        reap_give_back(lock);
    lock_free(lock);
    return rc == 0 ? 0 : error_give(err, &failure);
}

/* ---- the call -------------------------------------------------------------------------------- */

/* Copy as much of it as the caller knows. */
static void reap_give_report(sqlock_reap_report *out, sqlock_reap_report *r)
{
    if (out == NULL)
        return;
    r->size = out->size;
    memcpy(out, r, out->size < sizeof *r ? out->size : sizeof *r);
}

int sqlock_reap(sqlock *m, const sqlock_reap_opts *opts, sqlock_reap_report *out, sqlock_error *err)
{
    UNCANCELLED;
    int64_t begun = sqlock_now_us();
    struct sweep s;
    int rc;

    memset(&s, 0, sizeof s);
    if ((rc = check_alive(m, err)) == 0 && (rc = check_reap_opts(opts, &s.o, err)) == 0 &&
        (out == NULL || (rc = check_size(out->size, "the report's size is not set", err)) == 0)) {
        if ((rc = sweep_init(&s, err)) == 0)
            rc = reap_run(m, &s, err);
        sweep_free(&s);
        s.r.duration_us = sqlock_now_us() - begun;
        reap_give_report(out, &s.r);
    }
    return check_context(err, "reap", NULL, 0, rc);
}
