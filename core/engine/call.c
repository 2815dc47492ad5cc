/* One request to the database, and its answer. */
#include <assert.h>
#include <string.h>

#include "core/base/text.h"
#include "core/engine/call.h"
#include "core/engine/hosts.h"
#include "core/engine/server.h"
#include "core/sql/requests.h"

int64_t call_counts_from(const sqlock *m, const struct answer *a)
{
    return a->now != 0 && m->skew.known ? time_min(a->sent, a->now - m->skew.hi) : a->sent;
}

int64_t call_not_after(const sqlock *m, int64_t deadline)
{
    return skew_server_latest(&m->skew, deadline);
}

/* Tokens rise. A row of this name with a smaller token is older than this grant, so the server has
 * lost the commit that made the grant. */
sqlock_why answer_why(const struct answer *a, int64_t token)
{
    switch (a->outcome) {
    case SQLOCK_OUT_BROKEN:
        return SQLOCK_WHY_BROKEN;
    case SQLOCK_OUT_REAPED:
        return SQLOCK_WHY_REAPED;
    case SQLOCK_OUT_TAKEN:
        return a->token > 0 && a->token < token ? SQLOCK_WHY_FORGOTTEN : SQLOCK_WHY_TAKEN;
    case SQLOCK_OUT_GONE:
        return SQLOCK_WHY_GONE;
    case SQLOCK_OUT_EXPIRED:
        return SQLOCK_WHY_EXPIRED;
    case SQLOCK_OUT_RELEASED:
        return SQLOCK_WHY_RELEASED;
    default:
        return SQLOCK_WHY_NONE;
    }
}

/* m->mu is held. */
static void call_begin(struct conn *c, sqlock_op *op)
{
    assert(c->busy && c->native != NULL && !c->running);
    assert(op == NULL || op->running == NULL);
    c->running = 1;
    c->call++;
    if (op != NULL)
        op->running = c;
}

void call_stop(struct conn *c, sqlock_op *op)
{
    assert(c->busy && c->running);
    assert(op == NULL || op->running == c);
    c->running = 0;
    if (op != NULL) {
        op->running = NULL;
        op->server = c->server;
    }
}

int call_enter(sqlock *m, struct conn *c, sqlock_op *op, const struct call *k, sqlock_error *err)
{
    int rc = texts_has(m->texts, k->stmt, err);

    if (rc != 0)
        return rc;
    if (m->stopping || (op != NULL && op->end_attempt))
        return sqlock_error_set(err, SQLOCK_ECANCELLED, 0, "cancelled");
    call_begin(c, op);
    return 0;
}

void call_take_over(sqlock *m, struct conn *c, sqlock_op *op)
{
    call_begin(c, op);
    if (m->stopping || op->end_attempt || !server_is_ours(m, c))
        m->driver->cancel(c->native, c->call);
}

/* One of its requests has the flag. */
static int call_is(const struct call *k, unsigned flag)
{
    int is = request_is(k->stmt, flag);

    for (size_t i = 0; i < k->n_more; i++)
        is = is || request_is(k->more[i].stmt, flag);
    return is;
}

/* SQLOCK_CALL_LAZY if all of its requests are lazy, and the application has not forbidden it. A
 * release that travels with an acquire waits for the disk with it. */
static unsigned call_lazy(const sqlock *m, const struct call *k)
{
    int lazy = !(m->flags & SQLOCK_OPEN_DURABLE_RELEASE) && request_is(k->stmt, SQLOCK_REQ_LAZY);

    for (size_t i = 0; i < k->n_more; i++)
        lazy = lazy && request_is(k->more[i].stmt, SQLOCK_REQ_LAZY);
    return lazy ? SQLOCK_CALL_LAZY : 0;
}

static unsigned call_doubt(const struct call *k)
{
    unsigned doubt = request_doubt(k->stmt);

    for (size_t i = 0; i < k->n_more; i++)
        doubt |= request_doubt(k->more[i].stmt);
    return doubt;
}

/* Another server has replaced the one of this call. What the old one has done may be unknown to the
 * new one. If the call was cancelled because of that, its caller did not cancel it. */
static int call_moved_away(const sqlock *m, const sqlock_op *op, const struct call *k, int rc,
                           sqlock_error *err)
{
    if (rc == SQLOCK_ECANCELLED && !m->stopping && (op == NULL || !op->end_attempt))
        return sqlock_error_set(err, SQLOCK_EUNREACH, err->flags | SQLOCK_RETRY,
                                "another server took over during the request");
    if (rc != 0 || !call_is(k, SQLOCK_REQ_FORGOTTEN))
        return rc;
    rows_clear(k->rows);
    return sqlock_error_set(err, SQLOCK_EUNREACH, SQLOCK_RETRY | SQLOCK_RECONNECT | call_doubt(k),
                            "another server took over while this one answered");
}

int call_wait(sqlock *m, struct conn *c, struct call *k, sqlock_error *err)
{
    sqlock_call call = {sizeof call, k->flags | call_lazy(m, k), c->call, k->more, k->n_more};
    int rc;

    assert(k->n > 0 && c->running);
    mutex_unlock(&m->mu);
    if (k->sent == 0) {
        rows_clear(k->rows);
        k->sent = sqlock_now_us(); /* before the request: a lease counts from here (P4) */
    }
    rc = m->driver->run(c->native, &call, k->stmt, k->values, k->n, k->deadline, k->rows, err);
    k->received = sqlock_now_us();
    mutex_lock(&m->mu);
    if (rc == SQLOCK_NOT_YET && (k->flags & SQLOCK_CALL_PAUSES))
        return rc;
    if (rc == 0)
        error_clear(err); /* of what the driver has got over */
    else if (err->code == 0)
        sqlock_error_set(err, rc, SQLOCK_RECONNECT | call_doubt(k), "the driver gave no reason");
    if (rc != 0 && !call_is(k, SQLOCK_REQ_EACH))
        rows_clear(k->rows);
    return rc;
}

int call_leave(sqlock *m, struct conn *c, sqlock_op *op, const struct call *k, int rc,
               sqlock_error *err)
{
    int64_t server_now = rows_int(k->rows, 0, SQLOCK_COL_NOW, 0);
    int moved = !server_is_ours(m, c);

    call_stop(c, op);
    /* Learn nothing from another server's clock, or from one that may be a replica. */
    if (c->accepted && !moved && server_now != 0)
        manager_saw_clock(m, k->sent, k->received, server_now);
    if (moved)
        rc = call_moved_away(m, op, k, rc, err);
    if (rc != 0)
        hosts_failed(m, c, k->sent, err);
    if (rc == SQLOCK_ETIMEOUT) /* this call's time is up, but perhaps not that of what it is for */
        err->flags |= SQLOCK_RETRY;
    return rc;
}

int call_run(sqlock *m, struct conn *c, sqlock_op *op, struct call *k, sqlock_error *err)
{
    int rc = call_enter(m, c, op, k, err);

    return rc != 0 ? rc : call_leave(m, c, op, k, call_wait(m, c, k, err), err);
}

int call_rows(sqlock *m, struct conn *c, sqlock_op *op, sqlock_stmt stmt,
              const sqlock_value *values, size_t n, int64_t deadline, sqlock_rows *rows,
              int64_t *out_sent, sqlock_error *err)
{
    struct call k = {.stmt = stmt, .values = values, .n = n, .deadline = deadline, .rows = rows};
    sqlock_error own;
    int rc;

    mutex_lock(&m->mu);
    rc = call_run(m, c, op, &k, err != NULL ? err : &own);
    mutex_unlock(&m->mu);
    if (out_sent != NULL && k.sent != 0)
        *out_sent = k.sent;
    return rc;
}

int call_hear(sqlock *m, struct conn *c, int64_t until, sqlock_rows *rows, sqlock_error *err)
{
    sqlock_call call = {.size = sizeof call};
    int rc = 0;

    if (m->stopping)
        return sqlock_error_set(err, SQLOCK_ECANCELLED, 0, "cancelled");
    call_begin(c, NULL);
    call.number = c->call;
    mutex_unlock(&m->mu);
    rc = m->driver->hear(c->native, &call, until, rows, err);
    mutex_lock(&m->mu);
    call_stop(c, NULL);
    return rc;
}

/* The label is a text, and too long to be zeroed as a whole. What comes after it is set with
 * has_next. */
void answer_clear(struct answer *a)
{
    memset(a, 0, offsetof(struct answer, label));
    a->label[0] = '\0';
}

int answer_read_id(const sqlock_rows *rows, size_t row, size_t column,
                   unsigned char id[SQLOCK_OWNER_SIZE])
{
    size_t len = 0;
    const void *data = rows_bytes(rows, row, column, &len);

    if (data == NULL || len != SQLOCK_OWNER_SIZE)
        return 0;
    memcpy(id, data, len);
    return 1;
}

static void answer_read_next(const sqlock_rows *rows, size_t row, struct answer *out)
{
    const struct rows_line line = rows_line(rows, row);
    int is_grant = line_int(line, SQLOCK_COL_NEXT_GRANT, 0) == 1;

    out->has_next = answer_read_id(rows, row, SQLOCK_COL_NEXT_CLIENT, out->next_client) &&
                    answer_read_id(rows, row, SQLOCK_COL_NEXT_OWNER, out->next_owner);
    out->next_token = is_grant ? line_int(line, SQLOCK_COL_NEXT_TOKEN, 0) : 0;
    out->next_left = is_grant ? line_int(line, SQLOCK_COL_NEXT_LEFT, 0) : 0;
}

void answer_read(const sqlock_rows *rows, size_t row, struct answer *out)
{
    const struct rows_line line = rows_line(rows, row);
    const void *label;
    size_t len;

    out->outcome = (int)line_int(line, SQLOCK_COL_OUTCOME, SQLOCK_OUT_NONE);
    out->token = line_int(line, SQLOCK_COL_TOKEN, 0);
    out->left = line_int(line, SQLOCK_COL_LEFT, INT64_MIN);
    out->now = line_int(line, SQLOCK_COL_NOW, 0);
    out->since = line_int(line, SQLOCK_COL_SINCE, 0);
    out->place = line_int(line, SQLOCK_COL_QUEUE_PLACE, 0);
    out->has_next = 0;
    if (line.n > SQLOCK_COL_NEXT_CLIENT)
        answer_read_next(rows, row, out);
    if (line.n <= SQLOCK_COL_LABEL ||
        (label = rows_bytes(rows, row, SQLOCK_COL_LABEL, &len)) == NULL)
        return;
    len = len <= LABEL_MAX ? len : text_whole(label, LABEL_MAX);
    assert(len <= LABEL_MAX);
    memcpy(out->label, label, len);
    out->label[len] = '\0';
}

void answer_holder(const struct answer *a, sqlock_holder *out)
{
    memset(out, 0, sizeof *out);
    out->size = sizeof *out;
    out->token = a->token;
    out->left_ms = a->left == INT64_MIN ? 0 : a->left / 1000;
    out->held_ms = a->since > 0 && a->now > a->since ? (a->now - a->since) / 1000 : 0;
    text_show(out->label, sizeof out->label, a->label, strlen(a->label));
}

int call_one(sqlock *m, struct conn *c, sqlock_op *op, sqlock_stmt stmt, const sqlock_value *values,
             int64_t deadline, struct answer *out, sqlock_error *err)
{
    sqlock_rows rows;
    int rc;

    answer_clear(out);
    out->left = INT64_MIN;
    rows_init(&rows);
    rc = call_rows(m, c, op, stmt, values, 1, deadline, &rows, &out->sent, err);
    out->received = sqlock_now_us();
    if (rc == 0 && sqlock_rows_count(&rows) > 0)
        answer_read(&rows, 0, out);
    rows_end(&rows);
    return rc;
}
