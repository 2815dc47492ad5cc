/* How the reaper walks over the table. It reads a page in key order, and then changes that page's
 * rows, one statement at a time. Each statement decides anew on the locked rows. So two reapers at
 * once do no harm, nor does one whose lease has ended: the lease only saves work. */
#include <assert.h>
#include <string.h>

#include "core/engine/locks.h"
#include "core/leases/sweep.h"

#define NEVER_US     (INT64_MAX / 4) /* an age that no row reaches */
#define FIRST_SIZE   100             /* rows of the first statement that changes rows */
#define STATEMENT_US 100000          /* ... of later ones: as many as take so long */
#define STUCK_TRIES  2               /* tries of one row, before it is left alone */
#define PRUNE_PARAMS 4

/* ---- a page ---------------------------------------------------------------------------------- */

static int64_t sweep_grace_us(const struct sweep *s)
{
    return s->o.grace_ms * 1000;
}

static int64_t sweep_idle_us(const struct sweep *s)
{
    return s->o.idle_ms == SQLOCK_REAP_KEEP ? NEVER_US : s->o.idle_ms * 1000;
}

static int sweep_send_page(sqlock_op *op)
{
    struct sweep *s = op->work;

    OP_SEND(op, SQLOCK_STMT_SWEEP, value_bytes(s->ns, s->ns_len), value_bytes(s->name, s->name_len),
            value_bytes(LOCK_OWN_NS, sizeof LOCK_OWN_NS - 1), value_int(sweep_grace_us(s)),
            value_int(sweep_idle_us(s)), value_int(s->o.batch));
    op->attempt->request.rows = s->page;
    return 1;
}

static void sweep_copy_key(char *to, size_t size, size_t *out_len, const void *from, size_t len)
{
    *out_len = len < size ? len : size;
    if (*out_len > 0)
        memcpy(to, from, *out_len);
}

/* The page's last row says how many rows were looked at, and where the page ends. */
static void sweep_note_end(struct sweep *s, size_t row)
{
    int64_t n = rows_int(s->page, row, SQLOCK_COL_TOKEN, 0);
    size_t len;
    const void *bytes = rows_bytes(s->page, row, SQLOCK_COL_NS, &len);

    s->r.seen += n;
    s->last = n < s->o.batch;
    s->page_now = rows_int(s->page, row, SQLOCK_COL_NOW, 0);
    sweep_copy_key(s->ns, sizeof s->ns, &s->ns_len, bytes, len);
    bytes = rows_bytes(s->page, row, SQLOCK_COL_NAME, &len);
    sweep_copy_key(s->name, sizeof s->name, &s->name_len, bytes, len);
}

static void sweep_note_page(struct sweep *s)
{
    s->last = 1; /* without that row there is no page */
    s->todo = TODO_REAP;
    s->from = 0;
    for (size_t row = 0; row < sqlock_rows_count(s->page); row++) {
        int64_t outcome = rows_int(s->page, row, SQLOCK_COL_OUTCOME, 0);
        int64_t age_ms = -rows_int(s->page, row, SQLOCK_COL_LEFT, 0) / 1000;

        if (outcome == SQLOCK_OUT_DONE)
            sweep_note_end(s, row);
        else if (outcome == SQLOCK_OUT_EXPIRED && age_ms > s->r.oldest_ms)
            s->r.oldest_ms = age_ms;
    }
}

/* ---- changing a page ------------------------------------------------------------------------- */

/* Pruning first raises the floor of tokens to the largest token of the batch. Then it deletes only
 * rows that are not above the floor. So the floor is never too low for a name that has no row. */
static int64_t sweep_top_token(const struct sweep *s)
{
    int64_t top = 0;

    for (size_t row = 0; row < sqlock_rows_count(s->page); row++)
        if (rows_int(s->page, row, SQLOCK_COL_OUTCOME, 0) == SQLOCK_OUT_IDLE &&
            rows_int(s->page, row, SQLOCK_COL_TOKEN, 0) > top)
            top = rows_int(s->page, row, SQLOCK_COL_TOKEN, 0);
    return top;
}

/* The keys of the page's next rows with this outcome: as many at most, and no more than the limit
 * allows. */
static size_t sweep_find(struct sweep *s, int outcome, size_t most)
{
    int64_t left = s->o.limit - s->r.cleared - s->r.pruned;
    size_t n = 0, len, row = s->from;

    for (; row < sqlock_rows_count(s->page) && n < most; row++) {
        const void *bytes;

        if (rows_int(s->page, row, SQLOCK_COL_OUTCOME, 0) != outcome)
            continue;
        if (s->o.limit != SQLOCK_REAP_NO_LIMIT && (int64_t)n == left) {
            s->r.more = 1;
            break;
        }
        bytes = rows_bytes(s->page, row, SQLOCK_COL_NS, &len);
        s->keys[2 * n] = value_bytes(bytes, len);
        bytes = rows_bytes(s->page, row, SQLOCK_COL_NAME, &len);
        s->keys[2 * n + 1] = value_bytes(bytes, len);
        n++;
    }
    assert(n <= s->size && s->size <= (size_t)s->o.batch); /* keys has room for a batch */
    s->to = row;
    return n;
}

/* The number of rows follows the time that they take. Locked rows delay clients, a busy database
 * needs rest, and a request must end by its deadline. Part of that time may be a wait for SQLite's
 * single writer, which fewer rows do not shorten. So the number shrinks late. */
static void sweep_adapt(struct sweep *s, size_t n, int64_t took, int64_t request_us)
{
    int64_t wanted = time_min(STATEMENT_US, request_us / 4);
    size_t most = (size_t)s->o.batch;

    assert(n > 0 && wanted > 0);
    if (took > 2 * wanted)
        s->size = (size_t)((int64_t)n * wanted / took);
    else if (took < wanted && n == s->size)
        s->size = 2 * n;
    s->size = s->size < 1 ? 1 : s->size < most ? s->size : most;
}

/* Clear from the first key to the last. That includes other rows between them that have run out
 * meanwhile. */
static int sweep_send_reap(sqlock_op *op, size_t n)
{
    struct sweep *s = op->work;

    OP_SEND(op, SQLOCK_STMT_REAP, s->keys[0], s->keys[1], s->keys[2 * n - 2], s->keys[2 * n - 1],
            value_bytes(LOCK_OWN_NS, sizeof LOCK_OWN_NS - 1),
            value_int(s->page_now - sweep_grace_us(s)), value_int((int64_t)n));
    op->attempt->request.rows = s->changed;
    return 1;
}

/* Delete key by key. The answer has a row for each that was deleted. */
static int sweep_send_prune(sqlock_op *op, size_t n)
{
    struct sweep *s = op->work;
    int64_t top = sweep_top_token(s);

    for (size_t i = 0; i < n; i++) {
        sqlock_value *values = &s->prunes[i * PRUNE_PARAMS];

        values[0] = s->keys[2 * i];
        values[1] = s->keys[2 * i + 1];
        values[2] = value_int(s->page_now - sweep_idle_us(s));
        values[3] = value_int(top);
    }
    op->attempt->request = (struct request){
        .stmt = SQLOCK_STMT_PRUNE, .values = s->prunes, .n = n, .rows = s->changed};
    return 1;
}

/* Say of a free lock that no one has a seat of it. It counts as idle from then on, and a later
 * sweep prunes it. */
static int sweep_send_drain(sqlock_op *op)
{
    struct sweep *s = op->work;
    const sqlock_value none = value_bytes(op->lock->owner, sizeof op->lock->owner);

    OP_SEND(op, SQLOCK_STMT_DRAIN, s->keys[0], s->keys[1], none, none);
    op->attempt->request.rows = s->changed;
    return 1;
}

/* How many rows the answer says were changed. */
static int64_t sweep_count(const struct sweep *s)
{
    size_t n = sqlock_rows_count(s->changed);
    int64_t count = 0;

    if (s->todo == TODO_PRUNE)
        return (int64_t)n;
    if (s->todo == TODO_DRAIN)
        return 0;
    for (size_t row = 0; row < n; row++)
        count += rows_int(s->changed, row, SQLOCK_COL_TOKEN, 0);
    return count;
}

/* If the database cannot skip a row that stays locked, that row is left for the next sweep. The
 * rows around it are found by halving the number. */
static int sweep_is_stuck(sqlock_op *op, int64_t now)
{
    struct sweep *s = op->work;
    size_t n = s->sent;

    if (op->err.code != SQLOCK_EDB || !(op->err.flags & SQLOCK_RETRY) ||
        (op->err.flags & SQLOCK_RECONNECT))
        return 0;
    s->size = (n + 1) / 2;
    s->answered = now;
    return n == 1 && op->tries > STUCK_TRIES;
}

/* These rows of the page are done. */
static void sweep_step(struct sweep *s, int64_t count)
{
    *(s->todo == TODO_REAP ? &s->r.cleared : &s->r.pruned) += count;
    if (!s->r.more)
        s->from = s->to;
    assert(s->from <= sqlock_rows_count(s->page) && s->todo < TODO_NEXT_PAGE);
    if (s->from == sqlock_rows_count(s->page)) {
        s->from = 0;
        s->todo++;
    }
}

/* Send what changes the next rows of the page. They may have changed meanwhile, so the statement
 * checks each again under its lock, and answers for those that it changed. Returns 0 if there is
 * nothing to send. */
static int sweep_send_change(sqlock_op *op)
{
    static const int wanted[] = {[TODO_REAP] = SQLOCK_OUT_EXPIRED,
                                 [TODO_DRAIN] = SQLOCK_OUT_SEATED,
                                 [TODO_PRUNE] = SQLOCK_OUT_IDLE};
    struct sweep *s = op->work;

    s->sent = sweep_find(s, wanted[s->todo], s->todo == TODO_DRAIN ? 1 : s->size);
    if (s->sent == 0 || (s->o.flags & SQLOCK_REAP_DRY_RUN) ||
        (s->todo == TODO_DRAIN && s->o.idle_ms == SQLOCK_REAP_KEEP)) {
        sweep_step(s, s->todo == TODO_DRAIN ? 0 : (int64_t)s->sent);
        return 0;
    }
    if (s->todo == TODO_DRAIN)
        return sweep_send_drain(op);
    return s->todo == TODO_REAP ? sweep_send_reap(op, s->sent) : sweep_send_prune(op, s->sent);
}

/* ---- one statement after the other ----------------------------------------------------------- */

/* End the sweep if it is time to stop. */
static int sweep_end_if_over(sqlock_op *op, int64_t now)
{
    struct sweep *s = op->work;
    int64_t done = s->r.cleared + s->r.pruned;

    if (s->last && s->todo == TODO_NEXT_PAGE) {
        op_done(op, 0);
    } else if (s->r.more || now >= s->until ||
               (s->o.limit != SQLOCK_REAP_NO_LIMIT && done >= s->o.limit)) {
        s->r.more = 1;
        op_done(op, 0);
    } else if (!(s->o.flags & SQLOCK_REAP_DRY_RUN) && !lease_is_held(&op->lock->lease, now)) {
        op_done(op, op_error_set(op, SQLOCK_ELOST, 0, "the reaper's own lease was lost: %s",
                                 sqlock_why_name(op->lock->lease.why)));
    } else {
        return 0;
    }
    return 1;
}

static int sweep_next(sqlock_op *op, int64_t now)
{
    struct sweep *s = op->work;

    while (!sweep_end_if_over(op, now)) {
        if (s->todo == TODO_NEXT_PAGE)
            return sweep_send_page(op);
        if (sweep_send_change(op))
            return 1;
    }
    return 0;
}

static void sweep_answered(sqlock_op *op, const struct answer *a, int64_t now)
{
    struct sweep *s = op->work;
    int64_t took = a->received - a->sent, pause = 0;

    s->r.longest_us = time_max(s->r.longest_us, took);
    s->answered = now;
    op->tries = op->refusals = 0;
    if (s->todo == TODO_NEXT_PAGE) {
        sweep_note_page(s);
    } else {
        s->r.batches++;
        if (s->todo != TODO_DRAIN)
            sweep_adapt(s, s->sent, took, op->m->request_us);
        sweep_step(s, sweep_count(s));
        pause = s->o.pause_ms * INT64_C(1000);
    }
    op_again(op, time_min(s->until, now + pause));
}

/* Try again while that can help, and while the database was not silent for too long. Each of these
 * requests may be repeated: what it has done is not done again. */
static void sweep_failed(sqlock_op *op, int64_t now)
{
    struct sweep *s = op->work;

    if (s->todo != TODO_NEXT_PAGE && sweep_is_stuck(op, now)) {
        sweep_step(s, 0);
        op->tries = op->refusals = 0;
        op_again(op, now + s->o.pause_ms * INT64_C(1000));
        return;
    }
    if (op_is_over(op, now)) /* by a cancel, as there is no other deadline */
        return;
    if (now - s->answered > op->m->request_us) {
        error_contention(&op->err.code, op->err.sqlstate, manager_has_one_writer(op->m));
        op_done(op, op->err.code);
    } else
        op_failed(op, now);
}

const struct verb sweep_verb = {sweep_next, sweep_answered, sweep_failed, 0, NULL};

/* ---- the whole walk -------------------------------------------------------------------------- */

int sweep_init(struct sweep *s, sqlock_error *err)
{
    s->todo = TODO_NEXT_PAGE;
    s->size = s->o.batch < FIRST_SIZE ? (size_t)s->o.batch : FIRST_SIZE;
    s->until = s->o.max_ms == SQLOCK_REAP_NO_LIMIT ? TIME_NEVER
                                                   : sqlock_now_us() + s->o.max_ms * INT64_C(1000);
    s->page = rows_new();
    s->changed = rows_new();
    s->keys = sqlock_mem_alloc((size_t)s->o.batch * 2 * sizeof *s->keys);
    s->prunes = sqlock_mem_alloc((size_t)s->o.batch * PRUNE_PARAMS * sizeof *s->prunes);
    return s->page != NULL && s->changed != NULL && s->keys != NULL && s->prunes != NULL
               ? 0
               : error_nomem(err);
}

void sweep_free(struct sweep *s)
{
    rows_free(s->page);
    rows_free(s->changed);
    sqlock_mem_free(s->keys);
    sqlock_mem_free(s->prunes);
}

int sweep_run(sqlock *m, struct sweep *s, sqlock_lock *lock, sqlock_error *err)
{
    sqlock_op *op = NULL;
    int rc;

    assert(s->keys != NULL && s->size >= 1); /* sweep_init() was called */
    s->answered = sqlock_now_us();
    if ((rc = op_start(m, lock, &sweep_verb, SQLOCK_WAIT_FOREVER, s->o.cancel, &op, err)) != 0)
        return rc;
    op->work = s;
    op->patient = 1; /* it must not take the connection that is reserved for renewals */
    return op_drive(op, NULL, err);
}
