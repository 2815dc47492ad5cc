/* Statements in a transaction of the application's. What is left of the transaction when one fails
 * is asked of the driver, and told by the code (P14). */
#include <string.h>

#include "core/engine/guest.h"

int guest_check(const sqlock_conn *c, sqlock_error *err)
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
        return sqlock_error_set(err, SQLOCK_ESTATE, 0, "the manager has been closed");
    switch (c->m->driver->tx_state(c->native)) {
    case SQLOCK_TX_ACTIVE:
        return 0;
    case SQLOCK_TX_IDLE:
        return sqlock_error_set(err, SQLOCK_ESTATE, 0, "no transaction is open: begin one first");
    case SQLOCK_TX_FAILED:
        return sqlock_error_set(err, SQLOCK_ESTATE, 0,
                                "the transaction has failed: roll back first");
    default:
        return sqlock_error_set(err, SQLOCK_ESTATE, 0,
                                "the connection is in the middle of something, or lost");
    }
}

static int is_state(const sqlock_error *err, const char *state)
{
    return strncmp(err->sqlstate, state, strlen(state)) == 0;
}

int guest_was_busy(const sqlock_error *err)
{
    return err->code == SQLOCK_EDB && is_state(err, "55P03");
}

int guest_next(int n, int64_t deadline, sqlock_error *err)
{
    if (sqlock_now_us() >= deadline)
        return sqlock_error_set(err, SQLOCK_ETIMEOUT, SQLOCK_RETRY,
                                "somebody else kept the row, or the file, locked");
    sqlock_sleep_us(1000 + sqlock_random_below(n < 4 ? 1000u << n : 20000u));
    return 0;
}

int guest_half_done(sqlock_error *err)
{
    if (err->code != SQLOCK_ETXGONE) {
        err->code = SQLOCK_ETXRESTART;
        err->flags |= SQLOCK_RETRY;
    }
    return err->code;
}

/* Nothing of it is applied before the application commits: so nothing is unsure. But what was done,
 * and cannot be told, is in the transaction: only what stood behind a savepoint has been undone. */
static int failed(const sqlock_conn *c, int rc, sqlock_error *err)
{
    unsigned keep = err->flags & ~SQLOCK_MAYBE;
    int done = err->flags & SQLOCK_MAYBE && !(c->m->driver->caps & SQLOCK_CAP_SPOILS);
    sqlock_tx_state state =
        err->flags & SQLOCK_RECONNECT ? SQLOCK_TX_IDLE : c->m->driver->tx_state(c->native);

    err->flags = keep;
    if (state == SQLOCK_TX_IDLE || state == SQLOCK_TX_UNKNOWN) {
        err->code = SQLOCK_ETXGONE;
        err->flags |= SQLOCK_RETRY | (state == SQLOCK_TX_UNKNOWN ? SQLOCK_RECONNECT : 0);
    } else if (state == SQLOCK_TX_FAILED || is_state(err, "40") || done) {
        guest_half_done(err);
    } else {
        err->code = rc;
    }
    return err->code;
}

/* Leave the savepoint, if the link is there to say it on. It has time of its own: whatever became
 * of the statement, nothing of ours may stay behind. */
static int leave(sqlock_conn *c, sqlock_savepoint how, sqlock_error *err)
{
    sqlock_tx_state state = c->m->driver->tx_state(c->native);

    if (state != SQLOCK_TX_ACTIVE && state != SQLOCK_TX_FAILED)
        return sqlock_error_set(err, SQLOCK_EUNREACH, SQLOCK_RECONNECT, "the connection is lost");
    return c->m->driver->savepoint(c->native, how, sqlock_now_us() + c->m->request_us, err);
}

/* What is sent: a request of the dialect's, or, if that is given, a script of our own. */
struct sent {
    sqlock_stmt stmt;
    const sqlock_script *script;
    const sqlock_value *values;
};

static int send(const sqlock_conn *c, const struct sent *s, int64_t deadline, sqlock_rows *rows,
                sqlock_error *err)
{
    const sqlock_driver *d = c->m->driver;

    if (s->script != NULL)
        return d->ask(c->native, s->script, s->values, deadline, rows, err);
    return d->run(c->native, s->stmt, s->values, 1, deadline, rows, err);
}

/* Where a statement that fails spoils the transaction, it stands behind a savepoint, and is undone.
 * The first error is the one that is told. */
static int run(sqlock_conn *c, const struct sent *s, int64_t deadline, sqlock_rows *rows,
               sqlock_error *err)
{
    const sqlock_driver *d = c->m->driver;
    int spoils = (d->caps & SQLOCK_CAP_SPOILS) != 0, rc;
    sqlock_error second = {0};

    if (spoils && (rc = d->savepoint(c->native, SQLOCK_SAVEPOINT_SET, deadline, err)) != 0)
        return failed(c, rc, err);
    rc = send(c, s, deadline, rows, err);
    if (spoils && rc == 0)
        rc = leave(c, SQLOCK_SAVEPOINT_RELEASE, err);
    if (spoils && rc != 0 && !(err->flags & SQLOCK_RECONNECT))
        leave(c, SQLOCK_SAVEPOINT_UNDO, &second);
    return rc == 0 ? 0 : failed(c, rc, err);
}

int guest_rows(sqlock_conn *c, sqlock_stmt stmt, const sqlock_value *values, int64_t deadline,
               sqlock_rows *rows, sqlock_error *err)
{
    struct sent s = {.stmt = stmt, .values = values};
    int rc = rendered_has(c->texts, stmt, err);

    return rc == 0 ? run(c, &s, deadline, rows, err) : rc;
}

int guest_ask(sqlock_conn *c, const sqlock_script *script, const sqlock_value *values,
              int64_t deadline, sqlock_rows *rows, sqlock_error *err)
{
    struct sent s = {.script = script, .values = values};

    return run(c, &s, deadline, rows, err);
}

static void cut_now(struct cut *cut)
{
    sqlock_conn *c = LIST_MEMBER(cut, sqlock_conn, cut_by);

    atomic_store(&c->cancelled, 1);
    c->m->driver->cancel(c->native);
}

void guest_listen(sqlock_conn *c, sqlock_cancel *cancel)
{
    cut_listen(&c->cut_by, cancel, cut_now);
}

int guest_was_cancelled(sqlock_conn *c, sqlock_error *err)
{
    if (!atomic_load(&c->cancelled))
        return 0;
    return sqlock_error_set(err, SQLOCK_ECANCELLED, 0, "cancelled");
}

/* A cancel that came when the last statement had ended would cut the driver's next one: the guard,
 * say, that the application calls then. So one is asked that is sent nowhere, since its time is
 * over, and with which the driver forgets. */
void guest_deafen(sqlock_conn *c, sqlock_rows *scratch)
{
    static const sqlock_script nothing = {.name = "nothing", .params = ""};
    sqlock_error ignored;

    cut_deafen(&c->cut_by);
    if (atomic_exchange(&c->cancelled, 0))
        c->m->driver->ask(c->native, &nothing, NULL, 0, scratch, &ignored);
}

int guest_run(sqlock_conn *c, sqlock_stmt stmt, const sqlock_value *values, int64_t deadline,
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
    rc = guest_rows(c, stmt, values, deadline, rows, err);
    out->received = sqlock_now_us();
    if (rc == 0 && sqlock_rows_count(rows) > 0)
        answer_read(rows, 0, out);
    rows_free(rows);
    return rc;
}
