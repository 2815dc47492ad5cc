/* The smallest driver that keeps what sqlock/driver.h wants: SQLite in the plainest way, to be read
 * by those who write a driver of their own. README.md says what it does without.
 *
 * A driver moves bytes and classifies errors. Which owner is granted a lock is decided in
 * statements.sql. */
#include "small.h"

#include <errno.h>
#include <sqlite3.h>
#include <sqlock/driver.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

extern const sqlock_dialect sqlock_small_dialect; /* embed.awk makes it of the SQL */

#define OPS_BETWEEN_LOOKS 1000 /* of SQLite's virtual machine: some tens of microseconds */
#define PAUSE_US          2000 /* between tries for the file's lock, on average */

typedef struct small_conn {
    sqlite3 *db;
    const sqlock_script *scripts; /* core's: with the names of tables in them */
    int64_t deadline;             /* of the call that is under way */
    int wake_fd;                  /* while the connection opens: this ends it */
    uint64_t call;                /* its number; 0: no one can cancel it */
    _Atomic uint64_t cancelled;   /* that number; the only field that another thread writes */
} small_conn;

/* ---- errors ---------------------------------------------------------------------------------- */

/* SQLite's codes as SQLSTATEs. Core's table says what these mean for the caller. */
static const struct mapping {
    int native;
    const char *sqlstate;
    unsigned flags;
} mappings[] = {
    {SQLITE_BUSY, "55P03", 0},
    {SQLITE_LOCKED, "55P03", 0},
    {SQLITE_SCHEMA, "40001", 0},
    {SQLITE_READONLY, "25006", 0},
    {SQLITE_PERM, "42501", 0},
    {SQLITE_AUTH, "42501", 0},
    {SQLITE_CONSTRAINT, "23000", 0},
    {SQLITE_CORRUPT, "XX001", 0},
    {SQLITE_NOTADB, "XX001", 0},
    {SQLITE_FULL, "53100", 0},
    {SQLITE_NOMEM, "53200", 0},
    {SQLITE_IOERR, "58030", SQLOCK_RECONNECT}, /* what is in its cache is not to be trusted */
    {SQLITE_CANTOPEN, "08001", SQLOCK_RECONNECT},
    {SQLITE_ERROR, "XX000", 0}, /* the last one: for all others */
};

static int call_is_cancelled(const small_conn *c)
{
    if (c->wake_fd >= 0)
        return sqlock_wait_fd(-1, 0, c->wake_fd, 0) == 2;
    return c->call != 0 && atomic_load(&c->cancelled) == c->call;
}

static int error_ended(const small_conn *c, unsigned flags, sqlock_error *err)
{
    if (call_is_cancelled(c))
        return sqlock_error_set(err, SQLOCK_ECANCELLED, flags, "cancelled");
    return sqlock_error_set(err, SQLOCK_ETIMEOUT, flags | SQLOCK_RETRY, "stopped at the deadline");
}

/* Of SQLite's last call on c. Before the next call, which would overwrite it. */
static int error_last(const small_conn *c, unsigned flags, sqlock_error *err)
{
    const int code = sqlite3_errcode(c->db) & 0xff;
    const char *text = sqlite3_errmsg(c->db);
    const struct mapping *m = mappings;

    if (code == SQLITE_INTERRUPT || (code == SQLITE_BUSY && call_is_cancelled(c)))
        return error_ended(c, flags, err);
    if (code == SQLITE_ERROR && strncmp(text, "no such table", 13) == 0)
        return sqlock_error_db(err, "42P01", code, flags, text); /* core: run the migrations */
    while (m->native != code && m->native != SQLITE_ERROR)
        m++;
    return sqlock_error_db(err, m->sqlstate, code, flags | m->flags, text);
}

/* ---- time ------------------------------------------------------------------------------------ */

/* Each call ends at its deadline, or soon after a cancel. SQLite looks here while it works, and
 * while it waits for the file's lock. sqlite3_interrupt() could strike the call after the one that
 * it was meant for. */
static int call_is_over(void *arg)
{
    const small_conn *c = arg;

    return call_is_cancelled(c) || sqlock_now_us() >= c->deadline;
}

static int call_on_busy(void *arg, int tries)
{
    small_conn *c = arg;
    int64_t pause = PAUSE_US / 2 + sqlock_random_below(PAUSE_US), left;

    (void)tries;
    if (call_is_over(c))
        return 0;
    left = c->deadline - sqlock_now_us();
    sqlock_sleep_us(pause < left ? pause : left > 0 ? left : 0);
    return 1;
}

/* It may come when its call has ended, or has not begun. The number keeps it from any other. */
static void small_cancel(void *arg, uint64_t call)
{
    atomic_store(&((small_conn *)arg)->cancelled, call);
}

/* ---- transactions ---------------------------------------------------------------------------- */

static int conn_exec(small_conn *c, const char *sql, sqlock_error *err)
{
    return sqlite3_exec(c->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : error_last(c, 0, err);
}

/* After a failure no transaction may stay open: it would keep every other writer out. The error
 * that led here stays. */
static void tx_abandon(small_conn *c, sqlock_error *err)
{
    sqlock_error ignored;

    if (!sqlite3_get_autocommit(c->db) && conn_exec(c, "ROLLBACK", &ignored) != 0)
        err->flags |= SQLOCK_RECONNECT;
}

/* A COMMIT that failed has committed nothing if its transaction is still open. If SQLite ended the
 * transaction itself, it may have failed behind the commit. */
static int tx_commit(small_conn *c, sqlock_error *err)
{
    int rc = conn_exec(c, "COMMIT", err);

    if (rc != 0 && sqlite3_get_autocommit(c->db))
        err->flags |= SQLOCK_MAYBE | SQLOCK_RECONNECT;
    return rc;
}

/* ---- requests -------------------------------------------------------------------------------- */

/* spec is the request's list of parameters, "b:ns t:text i:ttl". A step need not use the last. */
static int stmt_bind(sqlite3_stmt *stmt, const char *spec, const sqlock_value *values)
{
    const int used = sqlite3_bind_parameter_count(stmt);
    int rc = SQLITE_OK;

    for (int i = 0; rc == SQLITE_OK && i < used; i++) {
        const sqlock_value *v = &values[i];

        if (v->type == SQLOCK_NULL)
            rc = sqlite3_bind_null(stmt, i + 1);
        else if (v->type == SQLOCK_INT)
            rc = sqlite3_bind_int64(stmt, i + 1, v->i);
        else if (*spec == 't')
            rc = sqlite3_bind_text(stmt, i + 1, v->data, (int)v->len, SQLITE_STATIC);
        else
            rc = sqlite3_bind_blob(stmt, i + 1, v->data, (int)v->len, SQLITE_STATIC);
        spec += strcspn(spec, " ");
        spec += strspn(spec, " ");
    }
    return rc;
}

static int row_put_column(sqlock_rows *rows, sqlite3_stmt *stmt, int col)
{
    const void *data;

    if (sqlite3_column_type(stmt, col) == SQLITE_NULL)
        return sqlock_rows_put_null(rows);
    if (sqlite3_column_type(stmt, col) == SQLITE_INTEGER)
        return sqlock_rows_put_int(rows, sqlite3_column_int64(stmt, col));
    data = sqlite3_column_blob(stmt, col); /* NULL if it has no bytes */
    return sqlock_rows_put_bytes(rows, data != NULL ? data : "",
                                 (size_t)sqlite3_column_bytes(stmt, col));
}

static int row_put(sqlock_rows *rows, size_t request, sqlite3_stmt *stmt, sqlock_error *err)
{
    int rc = sqlock_rows_add(rows, request);

    for (int col = 0; rc == 0 && col < sqlite3_column_count(stmt); col++)
        rc = row_put_column(rows, stmt, col);
    return rc == 0 ? 0 : sqlock_error_set(err, rc, 0, "out of memory");
}

/* A request of a call. */
typedef struct call {
    small_conn *c;
    const sqlock_script *script;
    const sqlock_value *values;
    size_t request;
    sqlock_rows *rows;
    sqlock_error *err;
} call;

/* A statement is prepared when its turn comes: it may name a table that the step before it has
 * found to be absent. */
static int step_run(const call *k, const sqlock_step *step)
{
    sqlite3_stmt *stmt = NULL;
    int state = sqlite3_prepare_v2(k->c->db, step->sql, -1, &stmt, NULL), rc = 0;

    if (state == SQLITE_OK)
        state = stmt_bind(stmt, k->script->params, k->values);
    if (state == SQLITE_OK)
        while (rc == 0 && (state = sqlite3_step(stmt)) == SQLITE_ROW)
            rc = row_put(k->rows, k->request, stmt, k->err);
    if (rc == 0 && state != SQLITE_DONE)
        rc = error_last(k->c, 0, k->err);
    sqlite3_finalize(stmt);
    return rc;
}

/* The first step that answers is the last. What was not committed is no answer. */
static int call_run(const call *k)
{
    const size_t before = sqlock_rows_count(k->rows);
    int rc = 0, own_tx = 0;

    for (size_t s = 0; rc == 0 && s < k->script->n_steps; s++) {
        const sqlock_step *step = &k->script->steps[s];

        if (call_is_over(k->c))
            rc = error_ended(k->c, 0, k->err);
        else if ((step->flags & SQLOCK_STEP_WRITE) && sqlite3_get_autocommit(k->c->db))
            own_tx = (rc = conn_exec(k->c, "BEGIN IMMEDIATE", k->err)) == 0;
        if (rc == 0)
            rc = step_run(k, step);
        if (sqlock_rows_count(k->rows) > before)
            break;
    }
    if (rc == 0 && own_tx)
        rc = tx_commit(k->c, k->err);
    if (rc != 0)
        sqlock_rows_cut(k->rows, before);
    return rc;
}

/* Each request is a transaction of its own, so what was answered before a failure is committed. */
static int small_run(void *arg, const sqlock_call *number, sqlock_stmt stmt,
                     const sqlock_value *values, size_t n, int64_t deadline, sqlock_rows *rows,
                     sqlock_error *err)
{
    small_conn *c = arg;
    call k = {c, &c->scripts[stmt], values, 0, rows, err};
    int rc = 0;

    c->deadline = deadline;
    c->call = number != NULL ? number->number : 0;
    for (; rc == 0 && k.request < n; k.request++, k.values += k.script->n_params)
        rc = call_run(&k);
    c->call = 0;
    if (rc != 0)
        tx_abandon(c, err);
    return rc;
}

/* ---- migrations ------------------------------------------------------------------------------ */

/* Their transaction is around several calls. run() finds it open, and leaves it so. */
static int small_exec(void *arg, const char *sql, int64_t deadline, sqlock_error *err)
{
    small_conn *c = arg;
    int rc;

    c->deadline = deadline;
    rc = conn_exec(c, sql, err);
    if (rc != 0)
        tx_abandon(c, err);
    return rc;
}

static int small_begin(void *arg, int64_t deadline, sqlock_error *err)
{
    return small_exec(arg, "BEGIN IMMEDIATE", deadline, err);
}

static int small_commit(void *arg, int64_t deadline, sqlock_error *err)
{
    small_conn *c = arg;
    int rc;

    c->deadline = deadline;
    rc = tx_commit(c, err);
    if (rc != 0)
        tx_abandon(c, err);
    return rc;
}

static int small_rollback(void *arg, int64_t deadline, sqlock_error *err)
{
    small_conn *c = arg;

    c->deadline = deadline;
    return sqlite3_get_autocommit(c->db) ? 0 : conn_exec(c, "ROLLBACK", err);
}

/* ---- connections ----------------------------------------------------------------------------- */

/* After a fork the child's SQLite believes in file locks that only the parent has. So a child of a
 * process with connections gets none. Neither do its children. */
static _Atomic int64_t process;
static atomic_int connections;

static int process_enter(sqlock_error *err)
{
    const int64_t own = sqlock_process_id();

    if (atomic_load(&process) != own && atomic_load(&connections) > 0)
        return sqlock_error_set(err, SQLOCK_EREFUSED, 0,
                                "this process was forked while a file was open: only a program "
                                "that it executes (exec) may open one");
    atomic_store(&process, own);
    atomic_fetch_add(&connections, 1);
    return 0;
}

/* An absolute path, since the program may change its directory before the next connection. */
static const char *url_path(const sqlock_conn_opts *opts, sqlock_error *err)
{
    static const char scheme[] = "small:";

    if (opts->connect == NULL && strncmp(opts->url, scheme, sizeof scheme - 1) == 0 &&
        opts->url[sizeof scheme - 1] == '/')
        return opts->url + sizeof scheme - 1;
    sqlock_error_set(err, SQLOCK_EINVAL, 0, "the driver takes URLs only: small:/absolute/path");
    return NULL;
}

/* Only a migration makes the file. */
static int file_open(small_conn *c, const char *path, int may_make, sqlock_error *err)
{
    const int flags = SQLITE_OPEN_READWRITE | (may_make ? SQLITE_OPEN_CREATE : 0);

    if (sqlite3_open_v2(path, &c->db, flags, NULL) == SQLITE_OK)
        return 0;
    if (!may_make && access(path, F_OK) != 0 && errno == ENOENT)
        return sqlock_error_set(err, SQLOCK_ESCHEMA, 0, "%s is not there: run the migrations",
                                path);
    return error_last(c, 0, err);
}

/* A commit that was confirmed survives a crash, also with a journal that is deleted. */
static int session_set(small_conn *c, sqlock_error *err)
{
    sqlite3_busy_handler(c->db, call_on_busy, c);
    sqlite3_progress_handler(c->db, OPS_BETWEEN_LOOKS, call_is_over, c);
    return conn_exec(c, "PRAGMA synchronous = EXTRA", err);
}

static void small_close(void *arg)
{
    small_conn *c = arg;

    sqlite3_close(c->db);
    sqlock_mem_free(c);
    atomic_fetch_sub(&connections, 1);
}

static int small_open(const sqlock_conn_opts *opts, int64_t deadline, void **out_conn,
                      sqlock_error *err)
{
    const char *path = url_path(opts, err);
    small_conn *c;
    int rc;

    if (path == NULL || process_enter(err) != 0)
        return err->code;
    c = sqlock_mem_alloc(sizeof *c);
    if (c == NULL) {
        atomic_fetch_sub(&connections, 1);
        return sqlock_error_set(err, SQLOCK_ENOMEM, 0, "out of memory");
    }
    atomic_init(&c->cancelled, 0);
    c->scripts = opts->scripts;
    c->deadline = deadline;
    c->wake_fd = SQLOCK_HAS_FIELD(opts, wake_fd) ? opts->wake_fd : -1;
    rc = file_open(c, path, (opts->flags & SQLOCK_CONN_MAKE) != 0, err);
    if (rc == 0)
        rc = session_set(c, err);
    if (rc != 0) {
        small_close(c);
        return rc;
    }
    c->wake_fd = -1;
    *out_conn = c;
    return 0;
}

/* There is no adopter, so sqlock_adopt() is refused, and with it guards, row locks and compare and
 * set. */
const sqlock_driver *sqlock_driver_small(void)
{
    static const sqlock_driver driver = {
        .size = sizeof(sqlock_driver),
        .caps = SQLOCK_CAP_TX_DDL | SQLOCK_CAP_ONE_WRITER,
        .name = "small",
        .schemes = "small",
        .dialect = &sqlock_small_dialect,
        .open = small_open,
        .close = small_close,
        .run = small_run,
        .exec = small_exec,
        .begin = small_begin,
        .commit = small_commit,
        .rollback = small_rollback,
        .cancel = small_cancel,
    };

    return &driver;
}
