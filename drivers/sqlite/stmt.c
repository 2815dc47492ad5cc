/* Running requests: the steps of a script, and the transactions around them. */
#include "sqlite.h"

#include <string.h>

int lite_prepare(lite_conn *conn, const char *sql, sqlite3_stmt **out_stmt, sqlock_error *err)
{
    const unsigned flags = conn->adopted ? 0 : SQLITE_PREPARE_PERSISTENT;
    const int rc = sqlite3_prepare_v3(conn->db, sql, -1, flags, out_stmt, NULL);

    return rc == SQLITE_OK ? 0 : lite_error(conn, rc, 0, NULL, err);
}

/* ---- requests -------------------------------------------------------------------------------- */

typedef struct call {
    lite_conn *conn;
    sqlock_stmt id;
    const sqlock_script *script;
    const sqlock_value *values; /* of the request that is run now */
    size_t request;
    const sqlock_group *more; /* NULL: none */
    size_t n_more;
    int lazy;      /* SQLOCK_CALL_LAZY */
    int must_wait; /* SQLOCK_STEP_DURABLE: the call is made anew, and not lazily */
    int own_tx;    /* we began it, so we end it */
    sqlock_rows *rows;
    sqlock_error *err;
} call;

static int step_get(call *c, size_t step, sqlite3_stmt **out_stmt)
{
    sqlite3_stmt ***slot = &c->conn->steps[c->id];

    if (c->conn->adopted) /* keeps none: the application may close at any time */
        return lite_prepare(c->conn, c->script->steps[step].sql, out_stmt, c->err);
    if (*slot == NULL)
        *slot = sqlock_mem_alloc(c->script->n_steps * sizeof **slot);
    if (*slot == NULL)
        return sqlock_error_set(c->err, SQLOCK_ENOMEM, 0, "out of memory");
    /* Not before it is needed: a step may name a table that an earlier step found to be absent. */
    if ((*slot)[step] == NULL &&
        lite_prepare(c->conn, c->script->steps[step].sql, &(*slot)[step], c->err) != 0)
        return c->err->code;
    *out_stmt = (*slot)[step];
    return 0;
}

/* Necessary: a statement that stays at a row keeps its lock, and so every writer out. */
static void step_put_back(const call *c, sqlite3_stmt *stmt)
{
    if (c->conn->adopted) {
        sqlite3_finalize(stmt);
        return;
    }
    sqlite3_reset(stmt);
    sqlite3_clear_bindings(stmt); /* they point into the caller's values */
}

/* Binds bytes as a blob, because 'a' and x'61' are not equal. But it binds them as text if the
 * script wants text: a cast would take the bytes for text in the file's own encoding, which may be
 * UTF-16. */
static int stmt_bind_bytes(sqlite3_stmt *stmt, int at, const sqlock_value *v, int is_text)
{
    if (is_text)
        return sqlite3_bind_text64(stmt, at, v->data, v->len, SQLITE_STATIC, SQLITE_UTF8);
    return sqlite3_bind_blob64(stmt, at, v->data, v->len, SQLITE_STATIC);
}

static const char *stmt_next_spec(const char *spec)
{
    const char *blank = strchr(spec, ' ');

    return blank != NULL ? blank + 1 : "";
}

static int stmt_bind(call *c, sqlite3_stmt *stmt)
{
    const char *spec = c->script->params != NULL ? c->script->params : "";
    const int used = sqlite3_bind_parameter_count(stmt); /* a step need not use the last ones */
    int rc = SQLITE_OK;

    /* names (:name, @name, $name) are parameters too, and would shift the others */
    if (used > c->script->n_params)
        return sqlock_error_set(c->err, SQLOCK_EINVAL, 0, "an expression has a parameter in it");
    for (int i = 0; rc == SQLITE_OK && i < used && i < c->script->n_params; i++) {
        const sqlock_value *v = &c->values[i];

        if (v->type == SQLOCK_INT)
            rc = sqlite3_bind_int64(stmt, i + 1, v->i);
        else if (v->type != SQLOCK_NULL)
            rc = stmt_bind_bytes(stmt, i + 1, v, v->type == SQLOCK_TEXT || *spec == 't');
        else
            rc = sqlite3_bind_null(stmt, i + 1);
        spec = stmt_next_spec(spec);
    }
    return rc == SQLITE_OK ? 0 : lite_error(c->conn, rc, 0, NULL, c->err);
}

static int row_put_column(call *c, sqlite3_stmt *stmt, int col)
{
    const void *data = NULL;
    int len = 0;

    switch (sqlite3_column_type(stmt, col)) {
    case SQLITE_NULL:
        return sqlock_rows_put_null(c->rows);
    case SQLITE_INTEGER:
        return sqlock_rows_put_int(c->rows, sqlite3_column_int64(stmt, col));
    case SQLITE_BLOB:
    case SQLITE_TEXT: /* in UTF-8, whatever the file's encoding */
        data = sqlite3_column_type(stmt, col) == SQLITE_TEXT
                   ? (const void *)sqlite3_column_text(stmt, col)
                   : sqlite3_column_blob(stmt, col);
        len = sqlite3_column_bytes(stmt, col);
        if (data == NULL && len != 0)
            return SQLOCK_ENOMEM;
        return sqlock_rows_put_bytes(c->rows, len != 0 ? data : "", (size_t)len);
    default:
        return SQLOCK_ECORRUPT; /* a sum that left the integers */
    }
}

static int row_put(call *c, sqlite3_stmt *stmt)
{
    const int columns = sqlite3_column_count(stmt);
    int rc = sqlock_rows_add(c->rows, c->request);

    for (int col = 0; rc == 0 && col < columns; col++)
        rc = row_put_column(c, stmt, col);
    if (rc == SQLOCK_ECORRUPT)
        return sqlock_error_set(c->err, rc, 0, "a number in the answer is not an integer");
    return rc == 0 ? 0 : sqlock_error_set(c->err, rc, 0, "out of memory");
}

/* There is no room for a row. What the statement changed is rolled back in a transaction of ours;
 * in the application's it stays. */
static int row_fail(const call *c, sqlite3_stmt *stmt, int rc)
{
    if (c->conn->adopted && !sqlite3_stmt_readonly(stmt))
        c->err->flags |= SQLOCK_MAYBE;
    return rc;
}

/* *out_answered: there were rows. They count only at SQLITE_DONE: RETURNING returns its rows before
 * the statement has ended, and it may still fail then. */
static int step_run(call *c, size_t step, int *out_answered)
{
    sqlite3_stmt *stmt = NULL;
    int answered = 0;
    int rc = step_get(c, step, &stmt);
    int state;

    if (rc != 0)
        return rc;
    rc = stmt_bind(c, stmt);
    while (rc == 0) {
        state = sqlite3_step(stmt);
        if (state == SQLITE_DONE)
            break;
        if (state != SQLITE_ROW)
            rc = lite_error(c->conn, state, 0, NULL, c->err);
        else if ((rc = row_put(c, stmt)) != 0)
            rc = row_fail(c, stmt, rc);
        answered = 1;
    }
    step_put_back(c, stmt);
    *out_answered = answered;
    return rc;
}

static int call_enter_tx(call *c)
{
    int rc = 0;

    if (c->own_tx || c->conn->in_tx)
        return 0;
    rc = lite_tx_begin(c->conn, c->err);
    c->own_tx = rc == 0;
    return rc;
}

static int call_run_request(call *c)
{
    int answered = 0;
    int rc = 0;

    for (size_t s = 0; rc == 0 && !answered && s < c->script->n_steps; s++) {
        unsigned flags = c->script->steps[s].flags;

        if (flags & SQLOCK_STEP_DURABLE && !c->conn->lazy)
            continue;
        if (flags & SQLOCK_STEP_WRITE)
            rc = call_enter_tx(c);
        if (rc == 0)
            rc = step_run(c, s, &answered);
        c->must_wait = answered && flags & SQLOCK_STEP_DURABLE;
    }
    return rc;
}

static int script_writes(const sqlock_script *script)
{
    for (size_t s = 0; s < script->n_steps; s++)
        if (script->steps[s].flags & SQLOCK_STEP_WRITE)
            return 1;
    return 0;
}

/* n requests of one kind, from number c->request on. */
static int call_run_group(call *c, const sqlock_value *values, size_t n)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && !c->must_wait && i < n; i++, c->request++) {
        if (c->request > 0 && lite_call_over(c->conn))
            return lite_error(c->conn, SQLITE_INTERRUPT, 0, NULL, c->err);
        c->values = values + i * c->script->n_params;
        rc = call_run_request(c);
    }
    return rc;
}

static int call_try_requests(call *c, const sqlock_value *values, size_t n)
{
    unsigned doubt = SQLOCK_LEAVES_DOUBT(c->script->flags) ? SQLOCK_MAYBE : 0;
    int rc = 0;

    if (!c->conn->adopted)
        rc = lite_tx_set_lazy(c->conn, c->lazy, c->err);
    /* A batch that writes is one transaction, so that either all of it is applied or nothing. */
    if (rc == 0 && (c->n_more > 0 || (n > 1 && script_writes(c->script))))
        rc = call_enter_tx(c);
    if (rc == 0)
        rc = call_run_group(c, values, n);
    for (size_t g = 0; rc == 0 && !c->must_wait && g < c->n_more; g++) {
        c->id = c->more[g].stmt;
        c->script = &c->conn->scripts[c->id];
        doubt |= SQLOCK_LEAVES_DOUBT(c->script->flags) ? SQLOCK_MAYBE : 0;
        rc = call_run_group(c, c->more[g].values, c->more[g].n);
    }
    /* Also if nothing was granted: what the transaction has read counts only after its commit. */
    if (rc == 0 && c->own_tx && !c->must_wait)
        rc = lite_tx_commit(c->conn, doubt, c->err);
    return rc;
}

/* Whether commits wait cannot change within a transaction. */
static int call_run_requests(call *c, const sqlock_value *values, size_t n)
{
    const size_t n_rows = sqlock_rows_count(c->rows);
    const sqlock_stmt first = c->id;
    int rc = call_try_requests(c, values, n);

    if (rc != 0 || !c->must_wait)
        return rc;
    rc = lite_rollback(c->conn, c->conn->deadline, c->err);
    if (rc != 0)
        return rc;
    sqlock_rows_cut(c->rows, n_rows);
    c->id = first;
    c->script = &c->conn->scripts[first];
    c->request = 0;
    c->own_tx = c->lazy = c->must_wait = 0;
    return call_try_requests(c, values, n);
}

/* Each call looks at the file once, after it has read it: an answer from a file that is gone does
 * not count. A commit has looked just before. What it left unknown stays unknown. */
static int call_check_file(call *c, int rc)
{
    if (c->conn->adopted || (rc == 0 ? c->own_tx : (c->err->flags & SQLOCK_MAYBE) != 0))
        return rc;
    return lite_check_file(c->conn, c->err) != 0 ? c->err->code : rc;
}

/* A call that may pause has ended at its deadline or by a cancel, and everything was rolled back:
 * then it can be made anew. */
static int call_pause(call *c, int rc)
{
    lite_conn *conn = c->conn;

    if (!conn->pauses || rc == 0 || (c->err->flags & (SQLOCK_RECONNECT | SQLOCK_MAYBE)) ||
        !lite_call_over(conn))
        return rc;
    conn->paused = 1;
    conn->why = *c->err;
    memset(c->err, 0, sizeof *c->err);
    return SQLOCK_NOT_YET;
}

/* It is not to be made anew: it ends as it did when it paused. */
static int call_stays_ended(call *c)
{
    lite_conn *conn = c->conn;
    int ended = conn->paused && !conn->pauses && lite_call_over(conn);

    conn->paused = 0;
    if (ended)
        *c->err = conn->why;
    return ended;
}

static int call_run(call *c, const sqlock_value *values, size_t n, int64_t deadline)
{
    const size_t n_rows = sqlock_rows_count(c->rows);
    lite_before before;
    int rc;

    lite_call_start(c->conn, deadline);
    if (call_stays_ended(c)) {
        lite_call_end(c->conn);
        return c->err->code;
    }
    rc = c->conn->adopted             ? lite_adopted_enter(c->conn, &before, c->err)
         : lite_is_cancelled(c->conn) ? sqlock_error_set(c->err, SQLOCK_ECANCELLED, 0, "cancelled")
                                      : 0;
    if (rc == 0)
        rc = call_check_file(c, call_run_requests(c, values, n));
    if (rc != 0)
        sqlock_rows_cut(c->rows, n_rows); /* a grant that was not committed does not count */
    if (c->conn->adopted)
        lite_adopted_leave(c->conn, &before);
    else if (rc != 0)
        lite_tx_abandon(c->conn, c->err);
    rc = call_pause(c, rc);
    lite_call_end(c->conn);
    return rc;
}

int lite_run(void *arg, const sqlock_call *number, sqlock_stmt stmt, const sqlock_value *values,
             size_t n, int64_t deadline, sqlock_rows *rows, sqlock_error *err)
{
    lite_conn *conn = arg;
    call c = {.conn = conn, .id = stmt, .script = &conn->scripts[stmt], .rows = rows, .err = err};

    if (!conn->adopted)
        conn->call = number != NULL ? number->number : 0;
    conn->pauses = number != NULL && (number->flags & SQLOCK_CALL_PAUSES);
    if (number != NULL) {
        c.more = number->more;
        c.n_more = number->n_more;
        c.lazy = (number->flags & SQLOCK_CALL_LAZY) != 0;
    }
    return call_run(&c, values, n, deadline);
}

int lite_run_script(void *arg, const sqlock_script *script, const sqlock_value *values,
                    int64_t deadline, sqlock_rows *rows, sqlock_error *err)
{
    call c = {.conn = arg, .script = script, .rows = rows, .err = err};

    return call_run(&c, values, 1, deadline);
}
