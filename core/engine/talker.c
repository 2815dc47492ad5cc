/* The talker thread: renews leases, and drives the requests of event loops. */
#include "core/engine/checks.h"
#include "core/engine/op.h"
#include "core/engine/renewals.h"

void talker_poke(sqlock *m, int64_t at)
{
    if (at < m->talker_until)
        cond_wake_all(&m->talker_wake);
}

void *talker_main(void *arg)
{
    UNCANCELLED; /* a callback could tell the application which thread it is */
    sqlock *m = arg;

    mutex_lock(&m->mu);
    while (!m->stopping) {
        int64_t op_at, now = sqlock_now_us(), renew_at = renewals_due(m);
        int64_t mend_at = renewals_mend_due(m), check_at = checks_due(m);
        sqlock_op *op = ops_first(m, &op_at);

        if (renew_at <= now) {
            renewals_run(m);
        } else if (check_at <= now) {
            checks_run(m);
        } else if (op != NULL && op_at <= now) {
            ops_drive(m, op);
        } else if (mend_at <= now) {
            renewals_mend(m);
        } else {
            m->talker_until = time_min(time_min(renew_at, mend_at), time_min(op_at, check_at));
            cond_wait_until(&m->talker_wake, &m->mu, m->talker_until);
            m->talker_until = INT64_MIN;
        }
    }
    mutex_unlock(&m->mu);
    return NULL;
}
