/* Finds out which session blocks a row for the application's transaction (P9). While a call waits,
 * its connection is busy. So the manager's worker looks meanwhile, as if for a request of an event
 * loop. */
#include <assert.h>
#include <sqlock/rows.h>
#include <string.h>

#include "core/base/text.h"
#include "core/engine/locks.h"
#include "core/leases/leases.h"
#include "core/transaction/blockers.h"
#include "core/transaction/catalogue.h"

#define FIRST_LOOK_US INT64_C(10000)
#define PAUSE_MIN_US  INT64_C(150000) /* MariaDB gathers nothing new for quicker looks */
#define PAUSE_MAX_US  INT64_C(1000000)
#define LOOK_US       INT64_C(200000) /* for one look that a caller waits for */

/* ---- what was found -------------------------------------------------------------------------- */

static void blocker_read(const sqlock_rows *rows, sqlock_blocker *out)
{
    int64_t open = rows_int(rows, 0, SQLOCK_COL_OPEN, -1);
    size_t len;
    const char *about = rows_bytes(rows, 0, SQLOCK_COL_ABOUT, &len);

    memset(out, 0, sizeof *out);
    out->size = sizeof *out;
    out->sessions = (int32_t)sqlock_rows_count(rows);
    out->session = rows_int(rows, 0, SQLOCK_COL_BLOCKER, 0);
    out->open_ms = open < 0 ? -1 : open / 1000;
    text_show(out->text, sizeof out->text, about != NULL ? about : "", len);
}

/* A look that finds no blocker may have come between two waits. Then the last finding stands.
 * m->mu is held. */
static void blockers_note(struct blockers *b)
{
    if (sqlock_rows_count(b->rows) == 0)
        return;
    assert(b->conn != NULL);
    blocker_read(b->rows, &b->conn->blocker);
}

static void blockers_forget(sqlock_conn *c)
{
    mutex_lock(&c->m->mu);
    memset(&c->blocker, 0, sizeof c->blocker);
    mutex_unlock(&c->m->mu);
}

/* Copy as much as an older caller's struct has room for. */
static void blockers_give(sqlock_blocker *out, const sqlock_blocker *found)
{
    uint32_t size = out->size;

    memcpy(out, found, size < sizeof *found ? size : sizeof *found);
    out->size = size;
}

int sqlock_row_blocker(sqlock_conn *conn, sqlock_blocker *out)
{
    UNCANCELLED;
    sqlock_blocker found;

    if (conn == NULL || out == NULL || conn->process != sqlock_process_id())
        return 0;
    mutex_lock(&conn->m->mu);
    found = conn->blocker;
    mutex_unlock(&conn->m->mu);
    blockers_give(out, &found);
    return found.sessions > 0;
}

/* ---- looking --------------------------------------------------------------------------------- */

/* Learn the server's number for the connection. Behind a pooler the client library does not know
 * it. */
static int blockers_know_session(struct blockers *b)
{
    sqlock_error ignored = {0};
    int64_t deadline = sqlock_now_us() + b->conn->m->request_us;

    if (b->session == 0 &&
        adopted_rows(b->conn, SQLOCK_STMT_SESSION, NULL, deadline, b->rows, &ignored) == 0)
        b->session = rows_int(b->rows, 0, SQLOCK_COL_SESSION, 0);
    rows_clear(b->rows);
    return b->session != 0;
}

static sqlock_value blockers_name_value(const char *name)
{
    return name != NULL && *name != '\0' ? value_bytes(name, strlen(name)) : sqlock_null();
}

/* On the worker: one look after the other. */
static int blockers_next(sqlock_op *op, int64_t now)
{
    const struct blockers *b = op->work;

    (void)now;
    OP_SEND(op, SQLOCK_STMT_BLOCKERS, value_int(b->session), sqlock_null(), sqlock_null());
    op->attempt->request.rows = b->rows;
    return 1;
}

static void blockers_again(sqlock_op *op, int64_t at)
{
    struct blockers *b = op->work;

    op_again(op, at);
    b->pause = time_min(2 * b->pause, PAUSE_MAX_US);
}

static void blockers_answered(sqlock_op *op, const struct answer *a, int64_t now)
{
    struct blockers *b = op->work;

    (void)a;
    blockers_note(b);
    blockers_again(op, now + b->pause);
}

/* A missing privilege will not come later. */
static void blockers_failed(sqlock_op *op, int64_t now)
{
    const struct blockers *b = op->work;

    blockers_again(op, op->err.code == SQLOCK_EDENIED ? TIME_NEVER : now + b->pause);
}

const struct verb blockers_verb = {blockers_next, blockers_answered, blockers_failed, 0, NULL};

/* The request has a hidden handle, as all requests do. */
static int blockers_start(struct blockers *b)
{
    sqlock *m = b->conn->m;
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_error ignored;

    assert(b->op == NULL && b->lock == NULL && b->session != 0);
    if (lock_new(m, "row", 3, &o, &b->lock, &ignored) != 0)
        return 0;
    b->lock->pending = PENDING_NOTHING; /* it will not be granted anything */
    if (op_start(m, b->lock, &blockers_verb, SQLOCK_WAIT_FOREVER, NULL, &b->op, &ignored) != 0)
        return 0;
    b->op->work = b;
    b->op->patient = 1;
    op_again(b->op, sqlock_now_us() + FIRST_LOOK_US);
    return async_go(b->op, NULL, &b->op, &ignored) == 0;
}

void blockers_watch(struct blockers *b)
{
    if (b->conn == NULL || b->op != NULL || !blockers_know_session(b))
        return;
    blockers_forget(b->conn);
    b->pause = PAUSE_MIN_US;
    if (!blockers_start(b))
        blockers_rest(b);
}

/* Cancels a look that is under way. b belongs to the worker before that, and then to this
 * thread. */
void blockers_rest(struct blockers *b)
{
    if (b->op != NULL) {
        op_interrupt(b->op);
        op_finish(b->op, NULL, NULL);
    }
    if (b->lock != NULL)
        lock_free(b->lock);
    b->op = NULL;
    b->lock = NULL;
}

void blockers_look(struct blockers *b, const struct table *t)
{
    sqlock_error ignored = {0};
    sqlock_value values[3];

    if (b->conn == NULL || b->conn->blocker.sessions > 0 || !blockers_know_session(b))
        return;
    values[0] = value_int(b->session);
    values[1] = blockers_name_value(t->key.schema);
    values[2] = blockers_name_value(t->row->table);
    if (catalogue_beside(b->conn->m, SQLOCK_STMT_BLOCKERS, values, sqlock_now_us() + LOOK_US,
                         b->rows, &ignored) != 0)
        return;
    mutex_lock(&b->conn->m->mu);
    blockers_note(b);
    mutex_unlock(&b->conn->m->mu);
}

/* ---- the call that waits --------------------------------------------------------------------- */

void blockers_begin(struct blockers *b, sqlock_conn *c)
{
    sqlock_error ignored;

    memset(b, 0, sizeof *b);
    blockers_forget(c);
    if (manager_has_one_writer(c->m) || texts_has(c->texts, SQLOCK_STMT_BLOCKERS, &ignored) != 0 ||
        texts_has(c->texts, SQLOCK_STMT_SESSION, &ignored) != 0 || (b->rows = rows_new()) == NULL)
        return;
    b->conn = c;
}

void blockers_end(struct blockers *b, int wanted, sqlock_blocker *out)
{
    sqlock_blocker found = {.size = sizeof found};

    assert(b->op == NULL && b->lock == NULL); /* blockers_rest() was called */
    if (b->conn != NULL && wanted && !sqlock_row_blocker(b->conn, &found))
        found = (sqlock_blocker){.size = sizeof found};
    if (b->conn != NULL)
        blockers_forget(b->conn);
    rows_free(b->rows);
    if (out != NULL)
        blockers_give(out, &found);
}
