/* The talker thread: renews leases, and drives the requests of event loops. */
#include "core/engine/op.h"
#include "core/engine/renewals.h"

void talker_poke(sqlock *m, int64_t at)
{
    if (at < m->talker_until)
        cond_wake_all(&m->talker_wake);
}

/* The request of an event loop that is due first. m->mu is held. */
static sqlock_op *first_op(sqlock *m, int64_t *out_due)
{
    sqlock_op *first = NULL;

    *out_due = TIME_NEVER;
    LIST_EACH(at, &m->ops)
    {
        sqlock_op *op = LIST_MEMBER(at, sqlock_op, in_manager);

        if (op_due(op) < *out_due) {
            first = op;
            *out_due = op_due(op);
        }
    }
    return first;
}

void *talker_main(void *arg)
{
    sqlock *m = arg;

    mutex_lock(&m->mu);
    while (!m->stopping) {
        int64_t op_at, now = sqlock_now_us(), renew_at = renewals_due(m);
        int64_t mend_at = renewals_mend_due(m);
        sqlock_op *op = first_op(m, &op_at);

        if (renew_at <= now) {
            renewals_run(m);
        } else if (op != NULL && op_at <= now) {
            mutex_unlock(&m->mu);
            op->advance(op); /* nobody else takes it away: finish waits until it is done */
            mutex_lock(&m->mu);
        } else if (mend_at <= now) {
            renewals_mend(m);
        } else {
            m->talker_until = time_min(time_min(renew_at, mend_at), op_at);
            cond_wait_until(&m->talker_wake, &m->mu, m->talker_until);
            m->talker_until = INT64_MIN;
        }
    }
    mutex_unlock(&m->mu);
    return NULL;
}
