/* An adopted connection: the application's, in the transaction that is open there. The driver sets
 * nothing on it that it cannot restore. So it installs no handlers there, and no statement outlives
 * a call. */
#include "sqlite.h"

#include <stdlib.h>
#include <string.h>

/* ---- adopting -------------------------------------------------------------------------------- */

/* The copy of SQLite that opened a handle knows the handle's VFS by name, and each copy has its own
 * VFS. That shows a second copy also if the caller did not say which one it uses. */
static int handle_check(sqlite3 *db, sqlock_error *err)
{
    sqlite3_vfs *vfs = NULL;
    const char *path = NULL;

    if (sqlite3_initialize() != SQLITE_OK || /* our copy may never have been used */
        sqlite3_file_control(db, "main", SQLITE_FCNTL_VFS_POINTER, &vfs) != SQLITE_OK ||
        vfs == NULL)
        return sqlock_error_set(err, SQLOCK_ESTATE, 0, "the connection is not open");
    if (sqlite3_vfs_find(vfs->zName) != vfs)
        return sqlock_error_set(err, SQLOCK_EREFUSED, 0,
                                "the connection was opened by a second copy of SQLite");
    path = sqlite3_db_filename(db, "main");
    if (lite_is_unlocked(db, path != NULL ? path : ""))
        return sqlock_error_set(err, SQLOCK_EREFUSED, 0, "%s is opened without the usual locking",
                                path);
    return 0;
}

static int adopted_make(const sqlock_adopt_opts *opts, void **out_conn, sqlock_error *err)
{
    lite_conn *conn = NULL;
    int rc = 0;

    *out_conn = NULL;
    if (opts->native == NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "there is no connection to adopt");
    rc = lite_process_check(err);
    if (rc == 0)
        rc = lite_library_check_caller(opts->library, err);
    if (rc == 0)
        rc = handle_check(opts->native, err);
    if (rc != 0)
        return rc;
    conn = sqlock_mem_alloc(sizeof *conn);
    if (conn == NULL)
        return sqlock_error_set(err, SQLOCK_ENOMEM, 0, "out of memory");
    conn->db = opts->native;
    conn->adopted = 1;
    conn->in_tx = 1;
    conn->scripts = opts->scripts;
    conn->open_wake = conn->wake_fd = conn->ear = -1;
    conn->call = LITE_ADOPTED;
    atomic_init(&conn->cancelled, 0);
    lite_lock_guard(conn);
    *out_conn = conn;
    return 0;
}

/* ---- the transaction ------------------------------------------------------------------------- */

/* SQLite knows no failed transaction: an error leaves it usable, or has ended it. */
static sqlock_tx_state adopted_state(void *arg)
{
    const lite_conn *conn = arg;

    return sqlite3_get_autocommit(conn->db) ? SQLOCK_TX_IDLE : SQLOCK_TX_ACTIVE;
}

static int tx_check_active(const lite_conn *conn, sqlock_error *err)
{
    if (!sqlite3_get_autocommit(conn->db))
        return 0;
    return sqlock_error_set(err, SQLOCK_ESTATE, 0, "no transaction is open on the connection");
}

/* A savepoint needs no lock. BUSY means: the application has a statement at a row that writes
 * (RETURNING), or a blob open for writing. Only the application can end that. */
static int savepoint_exec(lite_conn *conn, const char *sql, sqlock_error *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = lite_prepare(conn, sql, &stmt, err);
    int step;

    if (rc != 0)
        return rc;
    step = sqlite3_step(stmt);
    if ((step & 0xff) == SQLITE_BUSY)
        rc = sqlock_error_set(err, SQLOCK_ESTATE, 0, "%s", sqlite3_errmsg(conn->db));
    else if (step != SQLITE_DONE)
        rc = lite_error(conn, step, 0, sql, err);
    sqlite3_finalize(stmt);
    return rc;
}

/* Without a journal SQLite answers ROLLBACK TO with success, and undoes nothing. */
static int savepoint_check(lite_conn *conn, sqlock_error *err)
{
    char mode[16];
    sqlock_error
        ignored; /* an authorizer may hide settings: that is the application's own affair */

    lite_query(conn, "PRAGMA main.journal_mode", mode, sizeof mode, &ignored);
    if (strcmp(mode, "off") != 0)
        return 0;
    return sqlock_error_set(err, SQLOCK_EREFUSED, 0,
                            "journal_mode is OFF: nothing can be rolled back");
}

/* No deadline: none of this waits for another connection. */
static int adopted_savepoint(void *arg, sqlock_savepoint what, int64_t deadline, sqlock_error *err)
{
    lite_conn *conn = arg;
    int rc = tx_check_active(conn, err);
    (void)deadline;

    if (rc == 0 && what == SQLOCK_SAVEPOINT_SET)
        rc = savepoint_check(conn, err);
    if (rc == 0 && what == SQLOCK_SAVEPOINT_SET)
        return savepoint_exec(conn, "SAVEPOINT sqlock_adopted", err);
    if (rc == 0 && what == SQLOCK_SAVEPOINT_UNDO)
        rc = savepoint_exec(conn, "ROLLBACK TO sqlock_adopted", err);
    return rc != 0 ? rc : savepoint_exec(conn, "RELEASE sqlock_adopted", err);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* The application's sqlite3_busy_timeout() would wait within our statement, beyond our deadline and
 * without regard to cancel(). It can be read, and so be restored. While it is off, BUSY comes at
 * once. A busy handler of the application's own cannot be read, so it stays. Returns 0 if there is
 * nothing to restore. */
static int busy_timeout_take(lite_conn *conn)
{
    char text[16];
    sqlock_error ignored;
    int ms = 0;

    if (sqlite3_compileoption_used("ENABLE_SETLK_TIMEOUT"))
        return 0; /* it also sets a second timeout, which cannot be read */
    lite_query(conn, "PRAGMA busy_timeout", text, sizeof text, &ignored);
    ms = atoi(text);
    if (ms > 0)
        sqlite3_busy_timeout(conn->db, 0);
    return ms;
}

int lite_adopted_enter(lite_conn *conn, lite_before *before, sqlock_error *err)
{
    int rc = 0;

    before->last_rowid = sqlite3_last_insert_rowid(conn->db);
    before->busy_ms = 0;
    rc = tx_check_active(conn, err); /* else our statement would commit by itself */
    if (rc == 0 && lite_is_cancelled(conn))
        rc = sqlock_error_set(err, SQLOCK_ECANCELLED, SQLOCK_RETRY, "cancelled");
    if (rc == 0 && lite_call_over(conn))
        rc = sqlock_error_set(err, SQLOCK_ETIMEOUT, SQLOCK_RETRY, "no time was left");
    if (rc == 0)
        rc = lite_check_adopted(conn, err);
    if (rc == 0)
        before->busy_ms = busy_timeout_take(conn);
    return rc;
}

void lite_adopted_leave(lite_conn *conn, const lite_before *before)
{
    if (before->busy_ms > 0)
        sqlite3_busy_timeout(conn->db, before->busy_ms);
    sqlite3_set_last_insert_rowid(conn->db, before->last_rowid);
}

/* ---- the table ------------------------------------------------------------------------------- */

static int adopted_run(void *conn, sqlock_stmt stmt, const sqlock_value *values, int64_t deadline,
                       sqlock_rows *rows, sqlock_error *err)
{
    return lite_run(conn, NULL, stmt, values, 1, deadline, rows, err);
}

static void adopted_cancel(void *conn)
{
    lite_cancel(conn, LITE_ADOPTED);
}

const sqlock_adopter lite_adopter = {
    .size = sizeof(sqlock_adopter),
    .adopt = adopted_make,
    .close = lite_close,
    .tx_state = adopted_state,
    .savepoint = adopted_savepoint,
    .run = adopted_run,
    .run_script = lite_run_script,
    .cancel = adopted_cancel,
    .running = lite_running,
};
