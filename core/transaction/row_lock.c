/* Locks rows in the application's transaction: its own by key, and ours by name (P12). */
#include <assert.h>
#include <string.h>

#include <sqlock/rows.h>
#include <sqlock/transaction.h>

#include "core/engine/arguments.h"
#include "core/leases/leases.h"
#include "core/transaction/blockers.h"

/* The steps of the block row_lock. */
enum { STEP_TRY = 0, STEP_WAIT = 1, STEP_PROBE = 2, STEP_LOOK = 3, STEPS_KEEP_KEY = 4 };

/* STEP_PROBE fails if the row is locked. If it finds no row although there is one, another session
 * may have been quicker, but not so often in a row. */
enum { MISSES_MAX = 3 };

/* The longest wait of a single statement, because servers know no endless times. */
#define WAIT_SLICE_US INT64_C(3600000000)

struct job {
    sqlock_conn *conn;
    sqlock_row_opts o;
    int64_t deadline; /* end of the wait; TIME_NEVER */
    sqlock_rows *answer;
    sqlock_error *err;
    struct blockers blockers;
};

/* ---- one row --------------------------------------------------------------------------------- */

static int row_skips(const struct job *j)
{
    return (j->o.flags & SQLOCK_ROW_SKIP_LOCKED) != 0;
}

static int row_waits(const struct job *j)
{
    return !row_skips(j) && j->o.wait_ms != 0;
}

static int64_t row_request_deadline(const struct job *j)
{
    return sqlock_now_us() + j->conn->m->request_us;
}

/* Run a step. If no row comes back, a look shows whether the row exists. */
static int row_send(struct job *j, const struct table *t, size_t step, int64_t deadline, int *out)
{
    size_t keeps = j->o.flags & SQLOCK_ROW_KEEPS_KEY && step != STEP_LOOK ? STEPS_KEEP_KEY : 0;
    int rc;

    rows_clear(j->answer);
    rc = table_run(t, SQLOCK_STMT_ROW_LOCK, step + keeps, NULL, 0, deadline, j->answer, j->err);
    *out = (int)rows_int(j->answer, 0, SQLOCK_COL_OUTCOME, SQLOCK_OUT_NONE);
    if (rc == 0 && *out == SQLOCK_OUT_NONE && step != STEP_LOOK)
        return row_send(j, t, STEP_LOOK, row_request_deadline(j), out);
    return rc;
}

static int row_check_server(const struct job *j, const struct table *t)
{
    if (t->key.instant)
        return 0;
    if (j->o.cancel != NULL)
        return sqlock_error_set(j->err, SQLOCK_EREFUSED, 0,
                                "this server cannot end a wait for a row without ending the "
                                "transaction: no cancel is possible");
    if (!row_skips(j) && j->o.wait_ms == SQLOCK_WAIT_FOREVER)
        return 0;
    return sqlock_error_set(j->err, SQLOCK_EREFUSED, 0,
                            "this server cannot report a locked row without waiting for it: set "
                            "wait_ms to SQLOCK_WAIT_FOREVER");
}

/* The first attempt looks up the table. With a single writer, that needs the write lock, too. */
static int row_attempt(struct job *j, const sqlock_row *row, struct table *t, size_t *step,
                       int *out)
{
    int64_t slice = sqlock_now_us() + WAIT_SLICE_US;
    int rc;

    if (t->conn == NULL &&
        ((rc = table_open(j->conn, row, row_request_deadline(j), t, j->err)) != 0 ||
         (rc = row_check_server(j, t)) != 0)) {
        t->conn = NULL;
        return rc;
    }
    t->cancellable = j->o.cancel != NULL;
    if (!t->key.instant) /* such a server waits for ever */
        *step = STEP_WAIT;
    else if (t->key.instant > 1 && *step == STEP_TRY)
        *step = STEP_PROBE;
    return row_send(j, t, *step,
                    *step == STEP_WAIT ? time_min(j->deadline, slice) : row_request_deadline(j),
                    out);
}

/* A row that another session has locked is no failure. Nor is a waiting statement whose time has
 * run out. */
static int row_was_busy(const struct job *j, size_t step, int rc)
{
    return adopted_was_busy(j->err) || (step == STEP_WAIT && rc == SQLOCK_ETIMEOUT);
}

/* Servers that wait by themselves take longer than this, and need no pause. */
static void row_pause(const struct job *j, int64_t began, int tries)
{
    int64_t span = time_min(1000 << tries % 5, 20000);
    int64_t left = j->deadline - sqlock_now_us();

    if (sqlock_now_us() - began < span && left > 0)
        sqlock_sleep_us(time_min(1000 + sqlock_random_below((uint32_t)span), left));
}

/* A policy may show a row to readers, and hide it from sessions that lock. Then no session has
 * locked it, and waiting does not help. */
static int row_refuse_hidden(const struct job *j)
{
    return sqlock_error_set(
        j->err, SQLOCK_EREFUSED, 0,
        "the row exists but cannot be locked: a policy of the table prevents it");
}

/* The first statement does not wait, because a free row needs no wait. Only a busy row needs a
 * statement that waits. Some databases have no queue: they answer soon, and this tries again. */
static int row_persist(struct job *j, const sqlock_row *row, struct table *t, int *out)
{
    size_t step = STEP_TRY;
    int rc, misses = 0;

    for (int tries = 0;; tries++) {
        int64_t began = sqlock_now_us();

        if ((rc = adopted_was_cancelled(j->conn, j->err)) != 0)
            return rc;
        rc = row_attempt(j, row, t, &step, out);
        if (rc != 0 && !row_was_busy(j, step, rc))
            return rc;
        misses = rc == 0 && step == STEP_PROBE ? misses + 1 : 0;
        if (rc != 0)
            *out = SQLOCK_OUT_SKIPPED;
        if (*out != SQLOCK_OUT_SKIPPED)
            return 0;
        if (misses == MISSES_MAX)
            return row_refuse_hidden(j);
        if (misses > 0)
            continue;
        if (!row_waits(j) || sqlock_now_us() >= j->deadline)
            return 0;
        if (step == STEP_WAIT)
            row_pause(j, began, tries);
        else
            blockers_watch(&j->blockers);
        step = rc == 0 && step == STEP_WAIT && t->key.instant > 1 ? STEP_PROBE : STEP_WAIT;
    }
}

static int row_judge(struct job *j, int outcome)
{
    switch (outcome) {
    case SQLOCK_OUT_DONE:
        return 0;
    case SQLOCK_OUT_GONE:
        return SQLOCK_ABSENT;
    case SQLOCK_OUT_SKIPPED:
        if (row_skips(j))
            return SQLOCK_CONFLICT;
        return sqlock_error_set(j->err, SQLOCK_EBUSY, SQLOCK_RETRY,
                                "another transaction keeps the row locked");
    default:
        return sqlock_error_set(j->err, SQLOCK_ECORRUPT, 0, "unknown outcome %d", outcome);
    }
}

static int row_lock_one(struct job *j, const sqlock_row *row)
{
    struct table t = {.conn = NULL};
    int outcome = SQLOCK_OUT_NONE;
    int rc = row_persist(j, row, &t, &outcome);

    blockers_rest(&j->blockers);
    if (rc == 0 && outcome == SQLOCK_OUT_SKIPPED && !row_waits(j))
        blockers_look(&j->blockers, &t);
    return rc == 0 ? row_judge(j, outcome) : rc;
}

/* ---- many rows ------------------------------------------------------------------------------- */

static int size_order(size_t a, size_t b)
{
    return (a > b) - (a < b);
}

static int text_order(const char *a, const char *b)
{
    if (a == NULL || b == NULL)
        return (a != NULL) - (b != NULL);
    return strcmp(a, b);
}

static int value_order(const sqlock_value *a, const sqlock_value *b)
{
    size_t n = a->len < b->len ? a->len : b->len;
    int d;

    if (a->type != b->type)
        return (a->type > b->type) - (a->type < b->type);
    if (a->type == SQLOCK_INT)
        return (a->i > b->i) - (a->i < b->i);
    d = n > 0 ? memcmp(a->data, b->data, n) : 0;
    return d != 0 ? d : size_order(a->len, b->len);
}

/* The column with the k-th smallest name. */
static const sqlock_column *key_column_at(const sqlock_row *row, size_t k)
{
    for (size_t i = 0; i < row->n_key; i++) {
        size_t before = 0;

        for (size_t other = 0; other < row->n_key; other++)
            before += strcmp(row->key[other].name, row->key[i].name) < 0;
        if (before == k)
            return &row->key[i];
    }
    assert(0); /* each name is there once */
    return &row->key[0];
}

static int row_order(const sqlock_row *a, const sqlock_row *b)
{
    int d;

    if ((d = text_order(a->schema, b->schema)) != 0 || (d = text_order(a->table, b->table)) != 0 ||
        (d = size_order(a->n_key, b->n_key)) != 0)
        return d;
    for (size_t k = 0; k < a->n_key; k++)
        if ((d = strcmp(key_column_at(a, k)->name, key_column_at(b, k)->name)) != 0)
            return d;
    for (size_t k = 0; k < a->n_key; k++)
        if ((d = value_order(&key_column_at(a, k)->value, &key_column_at(b, k)->value)) != 0)
            return d;
    return 0;
}

/* Heap sort needs no memory, and has no bad case. */
static void keys_sift(const sqlock_row **at, size_t root, size_t n)
{
    for (size_t child; (child = 2 * root + 1) < n; root = child) {
        const sqlock_row *moved = at[root];

        if (child + 1 < n && row_order(at[child], at[child + 1]) < 0)
            child++;
        if (row_order(moved, at[child]) >= 0)
            return;
        at[root] = at[child];
        at[child] = moved;
    }
}

static void keys_sort(const sqlock_row **at, size_t n)
{
    for (size_t i = n / 2; i-- > 0;)
        keys_sift(at, i, n);
    for (size_t end = n; end-- > 1;) {
        const sqlock_row *last = at[end];

        at[end] = at[0];
        at[0] = last;
        keys_sift(at, 0, end);
    }
}

static int rows_lock_in_order(struct job *j, const sqlock_row *rows, const sqlock_row *const *order,
                              size_t n)
{
    int worst = 0;

    for (size_t i = 0; j->o.outcomes != NULL && i < n; i++)
        j->o.outcomes[i] = SQLOCK_ROW_UNTRIED;
    for (size_t i = 0; i < n; i++) {
        int rc = row_lock_one(j, order[i]);

        if (j->o.outcomes != NULL)
            j->o.outcomes[order[i] - rows] = rc;
        if (rc < 0)
            return check_context(j->err, "row lock", order[i]->table, strlen(order[i]->table), rc);
        worst = rc > worst ? rc : worst;
    }
    return worst;
}

/* ---- the calls ------------------------------------------------------------------------------- */

static int rows_check(const sqlock_row *rows, size_t n, sqlock_error *err)
{
    int rc = 0;

    if (rows == NULL || n == 0 || n > SQLOCK_ROWS_MAX)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "a call locks 1 to %d rows",
                                SQLOCK_ROWS_MAX);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = table_check(&rows[i], err);
    return rc;
}

static int row_begin(struct job *j, sqlock_conn *conn, const sqlock_row_opts *opts,
                     sqlock_error *err)
{
    int rc;

    *j = (struct job){.conn = conn, .err = err};
    /* Check the options first: each later failure has to clear what they point to. */
    if ((rc = check_row_opts(opts, &j->o, err)) != 0 || (rc = adopted_check(conn, err)) != 0)
        return rc;
    j->deadline = j->o.wait_ms == SQLOCK_WAIT_FOREVER
                      ? TIME_NEVER
                      : sqlock_now_us() + j->o.wait_ms * INT64_C(1000);
    if ((j->answer = rows_new()) == NULL)
        return error_nomem(err);
    adopted_listen(conn, j->o.cancel);
    if (j->o.blocker != NULL)
        blockers_begin(&j->blockers, conn);
    return 0;
}

static int row_end(struct job *j, int rc)
{
    int refused = rc == SQLOCK_EBUSY || rc == SQLOCK_ECANCELLED || (rc > 0 && row_skips(j));

    if (j->answer != NULL)
        adopted_unlisten(j->conn, j->answer);
    rows_free(j->answer);
    blockers_end(&j->blockers, refused, j->o.blocker);
    return rc;
}

static int rows_lock(struct job *j, const sqlock_row *rows, size_t n)
{
    const sqlock_row **order = sqlock_mem_alloc(n * sizeof *order);
    int rc;

    assert(n >= 1 && n <= SQLOCK_ROWS_MAX);
    if (order == NULL)
        return error_nomem(j->err);
    for (size_t i = 0; i < n; i++)
        order[i] = &rows[i];
    keys_sort(order, n);
    rc = rows_lock_in_order(j, rows, order, n);
    sqlock_mem_free(order);
    return rc;
}

int sqlock_row_lock(sqlock_conn *conn, const sqlock_row *rows, size_t n,
                    const sqlock_row_opts *opts, sqlock_error *err)
{
    UNCANCELLED;
    sqlock_error own = {0};
    struct job j = {0};
    int rc;

    err = err != NULL ? err : &own;
    if ((rc = row_begin(&j, conn, opts, err)) == 0 && (rc = rows_check(rows, n, err)) == 0)
        rc = rows_lock(&j, rows, n);
    return row_end(&j, rc);
}

/* If others can write during the transaction, the row is made on another connection. Made within
 * the transaction, it would be invisible to others before the commit. Then they would have to
 * insert it, too, and wait.
 *
 * It is made before it is looked for. On MySQL, a look that finds no row locks the gap, and the
 * other connection could not insert into it. */
static int name_lock(struct job *j, const sqlock_row *row, const char *name, size_t len)
{
    sqlock *m = j->conn->m;
    int one_writer = manager_has_one_writer(m), rc;
    sqlock_value values[] = {value_bytes(m->ns, m->ns_len), value_bytes(name, len)};
    struct answer a;

    if ((rc = adopted_was_cancelled(j->conn, j->err)) != 0 ||
        (!one_writer && (rc = sqlock_ensure(m, name, j->err)) != 0))
        return rc;
    if ((rc = row_lock_one(j, row)) != SQLOCK_ABSENT)
        return rc;
    if (one_writer)
        return adopted_run(j->conn, SQLOCK_STMT_ENSURE, values, row_request_deadline(j), &a,
                           j->err);
    return sqlock_error_set(j->err, SQLOCK_ETXRESTART, SQLOCK_RETRY,
                            "the transaction's snapshot is older than the name's row");
}

int sqlock_name_lock(sqlock_conn *conn, const char *name, const sqlock_row_opts *opts,
                     sqlock_error *err)
{
    UNCANCELLED;
    sqlock_error own = {0};
    struct job j = {0};
    size_t name_len = 0;
    char table[64];
    int rc;

    err = err != NULL ? err : &own;
    if ((rc = row_begin(&j, conn, opts, err)) == 0 &&
        (rc = check_name(name, &name_len, err)) == 0) {
        sqlock_column key[] = {
            {.name = "ns", .value = value_bytes(conn->m->ns, conn->m->ns_len)},
            {.name = "name", .value = value_bytes(name, name_len)},
        };
        sqlock_row row = {.size = sizeof row,
                          .schema = texts_schema(conn->texts),
                          .table = texts_table(conn->texts, "row", table, sizeof table),
                          .key = key,
                          .n_key = 2};

        rc = name_lock(&j, &row, name, name_len);
        if (j.o.outcomes != NULL)
            j.o.outcomes[0] = rc;
        if (rc < 0)
            check_context(err, "name lock", name, name_len, rc);
    }
    return row_end(&j, rc);
}

static int ensure_next(sqlock_op *op, int64_t now)
{
    const sqlock_lock *lock = op->lock;

    (void)now;
    return OP_SEND(op, SQLOCK_STMT_ENSURE, value_bytes(lock->ns, lock->ns_len),
                   value_bytes(lock->name, lock->name_len));
}

static void ensure_answered(sqlock_op *op, const struct answer *a, int64_t now)
{
    if (a->outcome == SQLOCK_OUT_DONE)
        op_done(op, 0);
    else
        op_retry_at_once(op, now); /* it was deleted meanwhile */
}

const struct verb ensure_verb = {ensure_next, ensure_answered, NULL, 0, NULL};

int sqlock_ensure(sqlock *m, const char *name, sqlock_error *err)
{
    UNCANCELLED;
    struct named_request request = {"ensure", name, &ensure_verb, NULL, 0, -1, 0};

    return named_request(m, &request, err);
}
