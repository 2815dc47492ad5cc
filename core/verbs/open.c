/* Opening and closing a manager. */
#include "core/engine/pool.h"
#include "core/verbs/check.h"

/* Connect once: what is wrong is told now, not at the first acquire. */
static int try_connection(sqlock *m, sqlock_error *err)
{
    struct conn *c;
    int rc = pool_take(m, POOL_CALLS, NULL, sqlock_now_us() + m->request_us, &c, err);

    if (rc == 0)
        pool_give(m, c, 0);
    return rc;
}

int sqlock_open(const sqlock_driver *driver, const char *url, const sqlock_open_opts *opts,
                sqlock **out_m, sqlock_error *err)
{
    UNCANCELLED;
    sqlock_open_opts o;
    sqlock_driver table;
    sqlock *m = NULL;
    int rc;

    if (out_m == NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "open: out_m is NULL");
    *out_m = NULL;
    if ((rc = check_open_opts(opts, &o, err)) == 0 &&
        (rc = check_driver(driver, url, &o, &table, err)) == 0)
        rc = manager_new(&table, url, &o, &m, err);
    if (rc == 0 && (rc = try_connection(m, err)) != 0)
        sqlock_close(m);
    if (rc != 0) {
        error_prefix(err, "open");
        return rc;
    }
    *out_m = m;
    return 0;
}

void sqlock_close(sqlock *m)
{
    UNCANCELLED;
    if (m == NULL || m->process != sqlock_process_id())
        return;
    manager_stop(m);
    mutex_lock(&m->mu);
    manager_unref_locked(m); /* handles that still live keep the rest of it */
}
