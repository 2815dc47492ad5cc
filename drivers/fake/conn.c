/* Connections to the fake database, and the driver's table. */
#include "fake.h"

#include <poll.h>

/* ---- links and transactions ----------------------------------------------------------------- */

static void conns_wake(sqlock_fake *db)
{
    for (struct fake_conn *c = db->conns; c != NULL; c = c->next)
        sqlock_wake_set(c->wake_fd);
}

/* Calls that wait for the end of a transaction have to look again. */
static int tx_end(struct fake_conn *c, const char *how, sqlock_error *err)
{
    if (c->db->owner != c)
        return 0;
    int rc = fake_exec(c->db, how, err);
    if (rc != 0)
        (void)fake_exec(c->db, "ROLLBACK", NULL);
    c->db->owner = NULL;
    conns_wake(c->db);
    return rc;
}

static void tx_undo(struct fake_conn *c)
{
    (void)tx_end(c, "ROLLBACK", NULL);
}

void fake_cut_all(sqlock_fake *db)
{
    for (struct fake_conn *c = db->conns; c != NULL; c = c->next) {
        if (c->link == FAKE_LINK_UP)
            c->link = FAKE_LINK_CUT;
        tx_undo(c);
    }
    conns_wake(db);
}

static int link_fail(struct fake_conn *c, unsigned flags, const char *text, sqlock_error *err)
{
    c->link = FAKE_LINK_DEAD;
    return sqlock_error_db(err, "08006", 0, flags | SQLOCK_RECONNECT, text);
}

/* ---- calls ---------------------------------------------------------------------------------- */

static int call_is_cancelled(struct fake_conn *c)
{
    return c->call != 0 && atomic_load(&c->cancelled) == c->call;
}

/* The client gives up; its request goes on. */
static int call_give_up(struct fake_conn *c, int code, const char *text, sqlock_error *err)
{
    if (c->pauses && code != SQLOCK_ESYS)
        return SQLOCK_NOT_YET;
    c->link = FAKE_LINK_DEAD;
    return sqlock_error_set(err, code, c->doubt | SQLOCK_RECONNECT, "%s", text);
}

/* Wait once, outside of the database, until then or until woken. The wake-up is cleared before the
 * flags are read, and they are set before it: so none is missed between two waits. */
static int call_wait_once(struct fake_conn *c, int64_t until, int64_t deadline, sqlock_error *err)
{
    if (c->link != FAKE_LINK_UP)
        return link_fail(c, c->doubt, "the link broke while the request ran", err);
    if (call_is_cancelled(c))
        return call_give_up(c, SQLOCK_ECANCELLED, "cancelled while the request ran", err);
    if (sqlock_now_us() >= deadline)
        return call_give_up(c, SQLOCK_ETIMEOUT, "no answer in time", err);

    fake_leave(c->db);
    int woken = sqlock_wait_fd(c->wake_fd, POLLIN, -1, until < deadline ? until : deadline);
    if (woken == 1)
        sqlock_wake_clear(c->wake_fd);
    fake_enter(c->db);
    return woken < 0 ? call_give_up(c, SQLOCK_ESYS, "waiting for the answer failed", err) : 0;
}

/* Enter the database for a call. call_end() leaves it, whatever this returns. There is one
 * transaction at a time: others wait for its end, as for a lock on the server. */
static int call_begin(struct fake_conn *c, unsigned doubt, int64_t deadline, sqlock_error *err)
{
    int rc = 0;

    c->doubt = doubt;
    fake_enter(c->db);
    if (c->link == FAKE_LINK_CUT)
        return link_fail(c, c->doubt, "the link to the fake server was cut", err);
    if (c->link == FAKE_LINK_DEAD)
        return link_fail(c, 0, "the link to the fake server is gone", err);
    if (call_is_cancelled(c))
        return sqlock_error_set(err, SQLOCK_ECANCELLED, 0, "cancelled before it was sent");
    if (sqlock_now_us() >= deadline)
        return sqlock_error_set(err, SQLOCK_ETIMEOUT, 0, "no time was left to send the request");
    while (rc == 0 && c->db->owner != NULL && c->db->owner != c)
        rc = call_wait_once(c, INT64_MAX, deadline, err);
    if (rc == 0 && c->link != FAKE_LINK_UP)
        rc = link_fail(c, c->doubt, "the link broke while the request waited", err);
    c->db->sql_now = fake_clock(c->db);
    return rc;
}

static int call_end(struct fake_conn *c, int rc)
{
    if (rc < 0)
        tx_undo(c);
    c->call = 0;
    c->pauses = 0;
    sqlock_wake_clear(c->wake_fd);
    fake_leave(c->db);
    return rc;
}

static int call_wait_until(struct fake_conn *c, int64_t until, int64_t deadline, sqlock_error *err)
{
    int rc = 0;
    while (rc == 0 && sqlock_now_us() < until)
        rc = call_wait_once(c, until, deadline, err);
    /* Cut at this very moment: no answer gets through any more. */
    if (rc == 0 && c->link != FAKE_LINK_UP)
        rc = link_fail(c, c->doubt, "the link broke while the request ran", err);
    return rc;
}

/* ---- requests ------------------------------------------------------------------------------- */

/* The answer, or SQLOCK_NOT_YET: then this is called again. */
static int call_await(struct fake_conn *c, int64_t deadline, sqlock_error *err)
{
    struct fake_wait *w = &c->wait;
    int rc = call_wait_until(c, w->until, deadline, err);

    if (rc == 0 && w->pending != NULL)
        fake_pending_run_due(c->db);
    while (rc == 0 && w->pending != NULL && !w->pending->done) /* another's transaction is open */
        rc = call_wait_once(c, INT64_MAX, deadline, err);
    if (rc == SQLOCK_NOT_YET)
        return rc;
    if (rc == 0 && (rc = w->pending != NULL ? w->pending->rc : w->rc) != 0)
        *err = w->pending != NULL ? w->pending->err : w->err;
    if (w->pending != NULL)
        fake_pending_abandon(c->db, w->pending, w->in_tx);
    w->on = 0;
    return rc;
}

/* Applied at once, answered later. */
static int call_run_slow(struct fake_call *call, int64_t delay_us, int64_t deadline)
{
    struct fake_wait *w = &call->conn->wait;

    *w = (struct fake_wait){.on = 1, .until = sqlock_now_us() + delay_us};
    w->rc = fake_db_run(call);
    w->err = *call->err;
    return call_await(call->conn, deadline, call->err);
}

/* The first call that enters the database after the request is due runs it, this call or another.
 * If this call gives up before, the request runs all the same, except for what its transaction
 * takes along. */
static int call_run_stalled(struct fake_call *call, int64_t delay_us, int64_t deadline)
{
    struct fake_conn *c = call->conn;
    struct fake_wait *w = &c->wait;
    struct fake_pending *p = NULL;
    int rc = fake_pending_add(call, delay_us, &p);
    if (rc != 0)
        return rc;
    *w = (struct fake_wait){.on = 1, .in_tx = c->db->owner == c, .until = p->due, .pending = p};
    return call_await(c, deadline, call->err);
}

static int call_run_late(struct fake_call *call, int64_t delay_us)
{
    struct fake_conn *c = call->conn;
    struct fake_call late = *call;
    late.conn = NULL;
    late.rows = NULL;
    /* With the link goes the transaction, and all that it would have done. */
    int rc = c->db->owner == c ? 0 : fake_pending_add(&late, delay_us, NULL);
    return rc != 0 ? rc : link_fail(c, c->doubt, "the link broke (LATE)", call->err);
}

static int call_run_faulty(struct fake_call *call, int64_t deadline)
{
    struct fake_conn *c = call->conn;
    int64_t delay_us = 0;

    switch (fake_fault_draw(call, &delay_us)) {
    case SQLOCK_FAULT_LOSE_REQUEST:
        return link_fail(c, c->doubt, "the link broke (LOSE_REQUEST)", call->err);
    case SQLOCK_FAULT_LOSE_REPLY:
        call->rows = NULL;
        (void)fake_db_run(call);
        return link_fail(c, c->doubt, "the link broke (LOSE_REPLY)", call->err);
    case SQLOCK_FAULT_LATE:
        return call_run_late(call, delay_us);
    case SQLOCK_FAULT_SLOW:
        return call_run_slow(call, delay_us, deadline);
    case SQLOCK_FAULT_STALL:
        return call_run_stalled(call, delay_us, deadline);
    case SQLOCK_FAULT_ERROR:
        c->db->seen[call->stmt] += (long)call->n;
        return sqlock_error_db(call->err, "40001", 0, 0, "the server refused the request (ERROR)");
    case SQLOCK_FAULT_NONE:
    case SQLOCK_FAULT_VANISH:
        break;
    }
    return fake_db_run(call);
}

/* The server has its request already. */
static int call_go_on(struct fake_conn *c, int64_t deadline, sqlock_error *err)
{
    fake_enter(c->db);
    return call_await(c, deadline, err);
}

static int conn_run(void *conn, const sqlock_call *number, sqlock_stmt stmt,
                    const sqlock_value *values, size_t n, int64_t deadline, sqlock_rows *rows,
                    sqlock_error *err)
{
    struct fake_conn *c = conn;
    unsigned flags = sqlock_fake_dialect.scripts[stmt].flags;
    size_t n_rows = sqlock_rows_count(rows);

    c->call = number != NULL ? number->number : 0;
    c->pauses = number != NULL && (number->flags & SQLOCK_CALL_PAUSES);
    if (c->wait.on)
        return call_end(c, call_go_on(c, deadline, err));

    int rc = call_begin(c, SQLOCK_LEAVES_DOUBT(flags) ? SQLOCK_MAYBE : 0, deadline, err);
    if (rc == 0 && c->db->bad_fault)
        rc = sqlock_error_set(err, SQLOCK_EINVAL, 0, "sqlock_fake_fault() could not note a fault");
    if (rc == 0 && !fake_values_fit(stmt, values, n))
        rc = sqlock_error_set(err, SQLOCK_EINVAL, 0, "the values do not fit the request");
    if (rc == 0) {
        struct fake_call call = {.db = c->db, .conn = c, .stmt = stmt, .values = values, .n = n};
        call.rows = rows;
        call.err = err;
        call.now = fake_clock(c->db);
        rc = call_run_faulty(&call, deadline);
    }
    if (rc < 0)
        sqlock_rows_cut(rows, n_rows);
    return call_end(c, rc);
}

/* ---- migrations ----------------------------------------------------------------------------- */

static int conn_exec(void *conn, const char *sql, int64_t deadline, sqlock_error *err)
{
    struct fake_conn *c = conn;
    int rc = call_begin(c, SQLOCK_MAYBE, deadline, err);

    if (rc == 0)
        rc = fake_exec(c->db, sql, err);
    if (rc == 0 && c->db->owner != c)
        fake_watch_tables(c->db);
    return call_end(c, rc);
}

static int conn_begin(void *conn, int64_t deadline, sqlock_error *err)
{
    struct fake_conn *c = conn;
    int rc = call_begin(c, SQLOCK_MAYBE, deadline, err);

    if (rc == 0 && c->db->owner == c)
        rc = sqlock_error_db(err, "25001", 0, 0, "a transaction is open already");
    if (rc == 0 && (rc = fake_exec(c->db, "BEGIN", err)) == 0)
        c->db->owner = c;
    return call_end(c, rc);
}

static int conn_commit(void *conn, int64_t deadline, sqlock_error *err)
{
    struct fake_conn *c = conn;
    int rc = call_begin(c, SQLOCK_MAYBE, deadline, err);

    if (rc == 0 && c->db->owner != c)
        rc = sqlock_error_db(err, "25P01", 0, 0, "no transaction is open");
    if (rc == 0)
        fake_watch_tables(c->db);
    if (rc == 0)
        rc = tx_end(c, "COMMIT", err);
    return call_end(c, rc);
}

static int conn_rollback(void *conn, int64_t deadline, sqlock_error *err)
{
    struct fake_conn *c = conn;
    int rc = call_begin(c, 0, deadline, err);

    if (rc == 0)
        tx_undo(c);
    return call_end(c, rc);
}

/* ---- opening and closing -------------------------------------------------------------------- */

int sqlock_fake_connect(void *user, void **out_native, sqlock_error *err)
{
    sqlock_fake *db = user;
    sqlock_error unread;
    if (err == NULL)
        err = &unread;

    struct fake_conn *c = sqlock_mem_alloc(sizeof *c);
    if (c == NULL)
        return sqlock_error_set(err, SQLOCK_ENOMEM, 0, "no memory for a connection");
    c->db = db;
    c->wake_fd = sqlock_wake_make();
    int rc = 0;
    if (c->wake_fd < 0)
        rc = sqlock_error_set(err, SQLOCK_ESYS, 0, "no descriptor for a connection");

    fake_enter(db);
    if (rc == 0 && db->down)
        rc = sqlock_error_db(err, "08001", 0, 0, "the fake server is down");
    if (rc == 0) {
        c->next = db->conns;
        db->conns = c;
    }
    fake_leave(db);

    if (rc == 0) {
        *out_native = c;
        return 0;
    }
    if (c->wake_fd >= 0)
        sqlock_wake_close(c->wake_fd);
    sqlock_mem_free(c);
    return rc;
}

static int conn_open(const sqlock_conn_opts *opts, int64_t deadline, void **out_conn,
                     sqlock_error *err)
{
    (void)deadline; /* nothing here takes time */
    if (opts->url != NULL || opts->connect == NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0,
                                "the fake database has no URL: set connect to sqlock_fake_connect "
                                "and connect_user to a sqlock_fake");
    return opts->connect(opts->connect_user, out_conn, err);
}

static void conn_close(void *conn)
{
    struct fake_conn *c = conn;

    fake_enter(c->db);
    tx_undo(c);
    struct fake_conn **at = &c->db->conns;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    fake_leave(c->db);
    sqlock_wake_close(c->wake_fd);
    sqlock_mem_free(c);
}

static void conn_cancel(void *conn, uint64_t call)
{
    struct fake_conn *c = conn;
    atomic_store(&c->cancelled, call);
    sqlock_wake_set(c->wake_fd);
}

int sqlock_fake_connections(sqlock_fake *db)
{
    int n = 0;

    fake_enter(db);
    for (const struct fake_conn *c = db->conns; c != NULL; c = c->next)
        n++;
    fake_leave(db);
    return n;
}

void sqlock_fake_down(sqlock_fake *db, int down)
{
    fake_enter(db);
    db->down = down;
    if (down)
        fake_cut_all(db);
    fake_leave(db);
}

const sqlock_driver *sqlock_driver_fake(void)
{
    static const sqlock_driver driver = {
        .size = sizeof(sqlock_driver),
        .caps = SQLOCK_CAP_TX_DDL | SQLOCK_CAP_BATCH | SQLOCK_CAP_PAUSES,
        .name = "fake",
        .schemes = "fake",
        .dialect = &sqlock_fake_dialect,
        .open = conn_open,
        .close = conn_close,
        .run = conn_run,
        .exec = conn_exec,
        .begin = conn_begin,
        .commit = conn_commit,
        .rollback = conn_rollback,
        .cancel = conn_cancel,
    };
    return &driver;
}
