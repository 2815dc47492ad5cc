/* Adopted connections: connections of the application, on which sqlock makes requests in the open
 * transaction (P14). */
#include <assert.h>
#include <string.h>

#include "core/engine/arguments.h"
#include "core/transaction/adopted.h"
#include "core/transaction/table.h"

int adopted_check(const sqlock_conn *c, sqlock_error *err)
{
    int closed;

    if (c == NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "the connection is NULL");
    if (c->process != sqlock_process_id())
        return sqlock_error_set(err, SQLOCK_EFORK, 0,
                                "the connection belongs to the parent process");
    mutex_lock(&c->m->mu);
    closed = c->m->stopping;
    mutex_unlock(&c->m->mu);
    if (closed)
        return sqlock_error_set(err, SQLOCK_ESTATE, 0, "the manager was closed");
    switch (c->m->driver->adopter->tx_state(c->native)) {
    case SQLOCK_TX_ACTIVE:
        return 0;
    case SQLOCK_TX_IDLE:
        return sqlock_error_set(err, SQLOCK_ESTATE, 0, "no transaction is open: begin one first");
    case SQLOCK_TX_FAILED:
        return sqlock_error_set(err, SQLOCK_ESTATE, 0,
                                "the transaction has failed: roll back first");
    default:
        return sqlock_error_set(err, SQLOCK_ESTATE, 0,
                                "the connection is busy with another request, or lost");
    }
}

static int error_has_state(const sqlock_error *err, const char *state)
{
    return strncmp(err->sqlstate, state, strlen(state)) == 0;
}

int adopted_was_busy(const sqlock_error *err)
{
    return err->code == SQLOCK_EDB && error_has_state(err, "55P03");
}

int adopted_retry(int n, int64_t deadline, sqlock_error *err)
{
    if (sqlock_now_us() >= deadline)
        return sqlock_error_set(err, SQLOCK_ETIMEOUT, SQLOCK_RETRY,
                                "another transaction kept the row, or the file, locked");
    sqlock_sleep_us(1000 + sqlock_random_below(n < 4 ? 1000u << n : 20000u));
    return 0;
}

int adopted_half_done(sqlock_error *err)
{
    if (err->code != SQLOCK_ETXGONE) {
        err->code = SQLOCK_ETXRESTART;
        err->flags |= SQLOCK_RETRY;
    }
    return err->code;
}

/* Nothing is applied before the application commits, so no failure leaves a request in doubt. But a
 * statement whose reply was lost may be part of the transaction: only a savepoint can undo it. */
static int adopted_failed(const sqlock_conn *c, int rc, sqlock_error *err)
{
    unsigned keep = err->flags & ~SQLOCK_MAYBE;
    int done = err->flags & SQLOCK_MAYBE && !(c->m->driver->adopter->flags & SQLOCK_ADOPT_SPOILS);
    sqlock_tx_state state =
        err->flags & SQLOCK_RECONNECT ? SQLOCK_TX_IDLE : c->m->driver->adopter->tx_state(c->native);

    err->flags = keep;
    if (state == SQLOCK_TX_IDLE || state == SQLOCK_TX_UNKNOWN) {
        err->code = SQLOCK_ETXGONE;
        err->flags |= SQLOCK_RETRY | (state == SQLOCK_TX_UNKNOWN ? SQLOCK_RECONNECT : 0);
    } else if (state == SQLOCK_TX_FAILED || error_has_state(err, "40") || done) {
        adopted_half_done(err);
    } else {
        err->code = rc;
    }
    return err->code;
}

/* Leave the savepoint, if the connection still works. This has time of its own: whatever became of
 * the statement, nothing of ours may stay in the transaction. */
static int adopted_leave(sqlock_conn *c, sqlock_savepoint how, sqlock_error *err)
{
    sqlock_tx_state state = c->m->driver->adopter->tx_state(c->native);

    if (state != SQLOCK_TX_ACTIVE && state != SQLOCK_TX_FAILED)
        return sqlock_error_set(err, SQLOCK_EUNREACH, SQLOCK_RECONNECT, "the connection is lost");
    return c->m->driver->adopter->savepoint(c->native, how, sqlock_now_us() + c->m->request_us,
                                            err);
}

/* What to send: a request of the dialect or, if it is set, a script. */
struct sent {
    sqlock_stmt stmt;
    const sqlock_script *script;
    const sqlock_value *values;
};

static int adopted_send(const sqlock_conn *c, const struct sent *s, int64_t deadline,
                        sqlock_rows *rows, sqlock_error *err)
{
    const sqlock_adopter *a = c->m->driver->adopter;

    if (s->script != NULL)
        return a->run_script(c->native, s->script, s->values, deadline, rows, err);
    return a->run(c->native, s->stmt, s->values, deadline, rows, err);
}

/* If a failed statement would spoil the transaction, it runs behind a savepoint, and is undone. The
 * first error is the one that is reported. */
static int adopted_run_script(sqlock_conn *c, const struct sent *s, int64_t deadline,
                              sqlock_rows *rows, sqlock_error *err)
{
    const sqlock_adopter *a = c->m->driver->adopter;
    int spoils = (a->flags & SQLOCK_ADOPT_SPOILS) != 0, rc;
    sqlock_error second = {0};

    if (spoils && (rc = a->savepoint(c->native, SQLOCK_SAVEPOINT_SET, deadline, err)) != 0)
        return adopted_failed(c, rc, err);
    rc = adopted_send(c, s, deadline, rows, err);
    if (spoils && rc == 0)
        rc = adopted_leave(c, SQLOCK_SAVEPOINT_RELEASE, err);
    if (spoils && rc != 0 && !(err->flags & SQLOCK_RECONNECT))
        adopted_leave(c, SQLOCK_SAVEPOINT_UNDO, &second);
    return rc == 0 ? 0 : adopted_failed(c, rc, err);
}

int adopted_rows(sqlock_conn *c, sqlock_stmt stmt, const sqlock_value *values, int64_t deadline,
                 sqlock_rows *rows, sqlock_error *err)
{
    struct sent s = {.stmt = stmt, .values = values};
    int rc = texts_has(c->texts, stmt, err);

    return rc == 0 ? adopted_run_script(c, &s, deadline, rows, err) : rc;
}

int adopted_script(sqlock_conn *c, const sqlock_script *script, const sqlock_value *values,
                   int64_t deadline, sqlock_rows *rows, sqlock_error *err)
{
    struct sent s = {.script = script, .values = values};

    return adopted_run_script(c, &s, deadline, rows, err);
}

static void adopted_cancel_now(struct cancel_listener *listener)
{
    sqlock_conn *c = LIST_MEMBER(listener, sqlock_conn, listener);

    atomic_store(&c->cancelled, 1);
    c->m->driver->adopter->cancel(c->native);
}

void adopted_listen(sqlock_conn *c, sqlock_cancel *cancel)
{
    assert(c->listener.cancel == NULL); /* one call at a time */
    cancel_listen(&c->listener, cancel, adopted_cancel_now);
}

int adopted_was_cancelled(sqlock_conn *c, sqlock_error *err)
{
    if (!atomic_load(&c->cancelled))
        return 0;
    return sqlock_error_set(err, SQLOCK_ECANCELLED, 0, "cancelled");
}

/* A cancel that came after the last statement would end the driver's next one, for example a guard
 * that the application sends then. So this makes a request whose time is over. The driver sends
 * nothing, and forgets the cancel. */
void adopted_unlisten(sqlock_conn *c, sqlock_rows *scratch)
{
    static const sqlock_script nothing = {.name = "nothing", .params = ""};
    sqlock_error ignored;

    cancel_unlisten(&c->listener);
    if (atomic_exchange(&c->cancelled, 0))
        c->m->driver->adopter->run_script(c->native, &nothing, NULL, 0, scratch, &ignored);
}

int adopted_run(sqlock_conn *c, sqlock_stmt stmt, const sqlock_value *values, int64_t deadline,
                struct answer *out, sqlock_error *err)
{
    sqlock_error own = {0};
    sqlock_rows *rows;
    int rc;

    memset(out, 0, sizeof *out);
    out->left = INT64_MIN;
    err = err != NULL ? err : &own;
    if ((rows = rows_new()) == NULL)
        return error_nomem(err);
    out->sent = sqlock_now_us();
    rc = adopted_rows(c, stmt, values, deadline, rows, err);
    out->received = sqlock_now_us();
    if (rc == 0 && sqlock_rows_count(rows) > 0)
        answer_read(rows, 0, out);
    rows_free(rows);
    return rc;
}

static int adopt_check_arguments(const sqlock *m, const void *native, sqlock_conn **out_conn,
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
    if (m->driver->adopter == NULL)
        return sqlock_error_set(err, SQLOCK_EREFUSED, 0,
                                "the driver %s does not work on an application's connections",
                                m->driver->name);
    return 0;
}

/* The application may have selected another database since it connected (USE). That one may have
 * tables of ours, too, in which a guard would find another lock of the same name. */
static int adopted_take_texts(sqlock *m, sqlock_conn *c, sqlock_error *err)
{
    char place[sizeof m->place];
    int rc;

    mutex_lock(&m->mu);
    memcpy(place, m->place, sizeof place);
    mutex_unlock(&m->mu);
    rc = texts_within(m->texts, m->driver->dialect, place, &c->own_texts, err);
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
    if ((rc = adopt_check_arguments(m, native, out_conn, err)) != 0)
        return rc;

    if ((c = sqlock_mem_alloc(sizeof *c)) == NULL)
        return error_nomem(err);
    if ((rc = adopted_take_texts(m, c, err)) != 0) {
        sqlock_mem_free(c);
        return rc;
    }
    sqlock_adopt_opts o = {
        .size = sizeof o,
        .native = native,
        .native_size = native_size,
        .library = library,
        .scripts = texts_scripts(c->texts),
    };
    if ((rc = m->driver->adopter->adopt(&o, &c->native, err)) != 0) {
        texts_free(c->own_texts);
        sqlock_mem_free(c);
        return check_context(err, "adopt", "", 0, rc);
    }
    c->m = m;
    c->process = m->process;
    mutex_lock(&m->mu);
    m->refs++; /* keeps its texts and its driver's table */
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
    m->driver->adopter->close(c->native);
    table_forget(c);
    texts_free(c->own_texts);
    sqlock_mem_free(c);
    mutex_lock(&m->mu);
    manager_unref_locked(m);
}
