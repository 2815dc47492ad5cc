/* A manager's life, and what answers show about the server's clock. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alarm.h"
#include "core/base/text.h"
#include "core/engine/hosts.h"
#include "core/engine/leavers.h"
#include "core/engine/locks.h"
#include "core/engine/loop.h"
#include "core/engine/op.h"
#include "core/engine/pool.h"
#include "core/engine/queue.h"

#define FLUSH_US 250000 /* at close: for those that leave queues */

/* A copy of the URL with its scheme in lower case, which is the same URL (RFC 3986, section
 * 6.2.2.1). So drivers and client libraries need to know only one form. */
static char *manager_copy_url(const char *url)
{
    size_t size = strlen(url) + 1;
    char *copy = sqlock_mem_alloc(size);

    if (copy == NULL)
        return NULL;
    memcpy(copy, url, size);
    for (char *at = copy; *at != ':' && *at != '\0'; at++)
        *at = text_lower(*at);
    return copy;
}

/* All connections of a manager go to one database, no matter when they are opened. */
static int manager_set_url(sqlock *m, const char *url, sqlock_error *err)
{
    char *copy = manager_copy_url(url);
    sqlock_error own = {0}; /* drivers always get one */

    if (copy == NULL)
        return error_nomem(err);
    if (m->driver->whole_url == NULL) {
        m->url = copy;
        return 0;
    }
    own.code = m->driver->whole_url(copy, &m->url, &own);
    sqlock_mem_free(copy);
    return error_give(err, &own);
}

void manager_label(const sqlock *m, const char *text, char out[LABEL_MAX + 1])
{
    snprintf(out, LABEL_MAX + 1, "%s%s%s", m->who, text != NULL && *text != '\0' ? " " : "",
             text != NULL ? text : "");
}

static void manager_copy_opts(sqlock *m, const sqlock_open_opts *o)
{
    m->flags = o->flags;
    m->connect = o->connect;
    m->connect_user = o->connect_user;
    m->n_conns = o->connections;
    m->request_us = o->request_ms * INT64_C(1000);
    m->lease_us = m->longest = o->lease_ms * INT64_C(1000);
    m->grace_us = o->grace_ms * INT64_C(1000);
    m->ns_len = o->ns != NULL ? strlen(o->ns) : 0;
    assert(m->ns_len <= SQLOCK_NAMESPACE_MAX && m->n_conns <= CONNECTIONS_MAX);
    memcpy(m->ns, o->ns != NULL ? o->ns : "", m->ns_len);
    process_name(o->pid, m->who, sizeof m->who);
    manager_label(m, o->label, m->label);
}

static void manager_init_shared(sqlock *m)
{
    mutex_init(&m->mu);
    cond_init(&m->worker_cond);
    cond_init(&m->reported);
    list_init(&m->locks);
    list_init(&m->ops);
    list_init(&m->waiting);
    list_init(&m->events);
    m->refs = 1;
    for (int i = 0; i < CONNECTIONS_MAX; i++)
        m->conns[i].wake = -1;
    m->timer_alarm = m->timer_wake_fd = -1;
    m->timer_until = m->worker_until = INT64_MIN;
    m->mend_at = TIME_NEVER;
    queue_init(m);
}

static void manager_free(sqlock *m)
{
    assert(m->refs <= 1); /* 1: it could not be opened */
    assert(m->locks.next == &m->locks && m->ops.next == &m->ops);
    loop_free(m);
    queue_free(m);
    alarm_close(m->timer_alarm);
    sqlock_wake_close(m->timer_wake_fd);
    cond_free(&m->reported);
    cond_free(&m->worker_cond);
    mutex_free(&m->mu);
    texts_free(m->texts);
    sqlock_mem_free(m->url);
    sqlock_mem_free(m);
}

/* Neither table has to outlive the call. The adopter may be of another release. */
static void take_tables(sqlock *m, const sqlock_driver *driver)
{
    const sqlock_adopter *in = driver->adopter;

    m->table = *driver;
    m->driver = &m->table;
    if (in == NULL)
        return;
    memcpy(&m->adopter, in, in->size < sizeof m->adopter ? in->size : sizeof m->adopter);
    m->adopter.size = sizeof m->adopter;
    m->table.adopter = &m->adopter;
}

int manager_new(const sqlock_driver *driver, const char *url, const sqlock_open_opts *opts,
                sqlock **out_m, sqlock_error *err)
{
    sqlock *m = sqlock_mem_alloc(sizeof *m);
    int rc;

    if (m == NULL)
        return error_nomem(err);
    take_tables(m, driver);
    m->process = sqlock_process_id();
    manager_copy_opts(m, opts);
    manager_init_shared(m);
    rc = texts_render(driver->dialect, opts->schema, opts->prefix, &m->texts, err);
    if (rc == 0 && url != NULL)
        rc = manager_set_url(m, url, err);
    if (rc == 0)
        rc = hosts_count(m, err);
    if (rc != 0) {
        manager_free(m);
        return rc;
    }
    *out_m = m;
    return 0;
}

void manager_unref_locked(sqlock *m)
{
    int refs;

    assert(m->refs > 0);
    refs = --m->refs;
    mutex_unlock(&m->mu);
    if (refs == 0)
        manager_free(m);
}

/* Make what is missing. If that fails, a later call makes the rest. */
int manager_start_threads(sqlock *m)
{
    assert(mutex_is_mine(&m->mu));
    if (m->loop != NULL)
        return 0;
    if (m->timer_alarm < 0)
        m->timer_alarm = alarm_make();
    if (m->timer_wake_fd < 0)
        m->timer_wake_fd = sqlock_wake_make();
    if (m->timer_alarm < 0 || m->timer_wake_fd < 0)
        return SQLOCK_ESYS;
    if (!m->timer_runs)
        m->timer_runs = thread_start(&m->timer, timer_main, m) == 0;
    if (!m->worker_runs)
        m->worker_runs = thread_start(&m->worker, worker_main, m) == 0;
    return m->timer_runs && m->worker_runs ? 0 : SQLOCK_ESYS;
}

/* End all waits and all calls under way soon. m->mu is held. */
static void manager_cancel_all(sqlock *m)
{
    assert(mutex_is_mine(&m->mu));
    for (int i = 0; i < m->n_conns; i++)
        pool_cancel_call(m, &m->conns[i]);
    LIST_EACH(at, &m->ops)
    {
        LIST_MEMBER(at, sqlock_op, in_manager)->cancelled = 1;
    }
    pool_wake_all(m);
    queue_cancel_all(m);
    timer_wake(m, 0);
    worker_wake(m, 0);
}

static void manager_close_locks(sqlock *m)
{
    LIST_EACH(at, &m->locks)
    {
        sqlock_lock *lock = LIST_MEMBER(at, sqlock_lock, in_manager);

        lock->quiet = 1;
        lock_apply(lock, LEASE_CLOSED, 0);
    }
}

void manager_stop(sqlock *m)
{
    mutex_lock(&m->mu);
    leavers_flush(m, sqlock_now_us() + time_min(m->request_us, FLUSH_US));
    m->stopping = 1;
    manager_cancel_all(m);
    if (m->loop != NULL)
        loop_stop(m);
    mutex_unlock(&m->mu);
    if (m->worker_runs)
        thread_join(m->worker);
    if (m->timer_runs)
        thread_join(m->timer);
    pool_close_all(m);
    mutex_lock(&m->mu);
    manager_close_locks(m);
    LIST_EACH(at, &m->ops)
    {
        op_abandon(LIST_MEMBER(at, sqlock_op, in_manager));
    }
    mutex_unlock(&m->mu);
}

void manager_saw_clock(sqlock *m, int64_t sent, int64_t received, int64_t server_now)
{
    int64_t jumped;

    assert(mutex_is_mine(&m->mu));
    jumped = skew_learn(&m->skew, sent, received, server_now);
    if (jumped <= 0)
        return;
    LIST_EACH(at, &m->locks)
    {
        lock_apply(LIST_MEMBER(at, sqlock_lock, in_manager), LEASE_JUMPED, jumped);
    }
    worker_wake(m, 0);
}
