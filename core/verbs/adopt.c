/* The application's own connections (P14). */
#include <string.h>

#include "core/engine/table.h"
#include "core/verbs/check.h"

static int check_arguments(const sqlock *m, const void *native, sqlock_conn **out_conn,
                           sqlock_error *err)
{
    int rc;

    if (out_conn == NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "adopt: out_conn is NULL");
    *out_conn = NULL;
    if ((rc = check_alive(m, err)) != 0)
        return rc;
    if (native == NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "adopt: the connection is NULL");
    if (m->driver->adopt == NULL)
        return sqlock_error_set(err, SQLOCK_EREFUSED, 0,
                                "the driver %s does not work on an application's connections",
                                m->driver->name);
    return 0;
}

/* The application may have changed to another database since it connected (USE), which may have
 * tables of ours too: there a guard would find another lock of the same name. */
static int take_texts(sqlock *m, sqlock_conn *c, sqlock_error *err)
{
    char place[sizeof m->place];
    int rc;

    mutex_lock(&m->mu);
    memcpy(place, m->place, sizeof place);
    mutex_unlock(&m->mu);
    rc = rendered_within(m->texts, m->driver->dialect, place, &c->own_texts, err);
    c->texts = c->own_texts != NULL ? c->own_texts : m->texts;
    return rc;
}

int sqlock_adopt(sqlock *m, void *native, size_t native_size, void (*library)(void),
                 sqlock_conn **out_conn, sqlock_error *err)
{
    UNCANCELLED;
    sqlock_error own = {0};
    sqlock_conn *c;
    int rc;

    err = err != NULL ? err : &own;
    if ((rc = check_arguments(m, native, out_conn, err)) != 0)
        return rc;

    if ((c = sqlock_mem_alloc(sizeof *c)) == NULL)
        return error_nomem(err);
    if ((rc = take_texts(m, c, err)) != 0) {
        sqlock_mem_free(c);
        return rc;
    }
    sqlock_adopt_opts o = {
        .size = sizeof o,
        .native = native,
        .native_size = native_size,
        .library = library,
        .scripts = rendered_scripts(c->texts),
    };
    if ((rc = m->driver->adopt(&o, &c->native, err)) != 0) {
        rendered_free(c->own_texts);
        sqlock_mem_free(c);
        return check_context(err, "adopt", "", 0, rc);
    }
    c->m = m;
    c->process = m->process;
    mutex_lock(&m->mu);
    m->refs++; /* its texts and its driver's table */
    mutex_unlock(&m->mu);
    *out_conn = c;
    return 0;
}

void sqlock_conn_free(sqlock_conn *c)
{
    UNCANCELLED;
    sqlock *m;

    if (c == NULL || c->process != sqlock_process_id())
        return;
    m = c->m;
    m->driver->close(c->native);
    table_forget(c);
    rendered_free(c->own_texts);
    sqlock_mem_free(c);
    mutex_lock(&m->mu);
    manager_unref_locked(m);
}
