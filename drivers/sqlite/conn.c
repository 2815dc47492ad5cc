/* Connections: which file, how it is opened, and the two handlers that keep every call within its
 * time. */
#include "sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if SQLITE_VERSION_NUMBER < 3037000
#error "sqlock needs the headers of SQLite 3.37 or newer"
#endif

/* ---- time ------------------------------------------------------------------------------------ */

#define PAUSE_MIN_US      200
#define PAUSE_MAX_US      5000
#define OPEN_TRIES        10
#define OPS_BETWEEN_LOOKS 1000 /* of SQLite's virtual machine: some tens of microseconds */

void lite_call_start(lite_conn *conn, int64_t deadline)
{
    conn->deadline = deadline;
}

/* On an adopted connection a cancel ends with the call, on others the number is another one. */
void lite_call_end(lite_conn *conn)
{
    if (conn->adopted)
        atomic_store(&conn->cancelled, 0);
    else
        conn->call = 0;
    conn->pauses = 0;
}

int lite_is_cancelled(const lite_conn *conn)
{
    return conn->call != 0 && atomic_load(&conn->cancelled) == conn->call;
}

/* While a connection opens, no other thread has it to cancel it. The caller's descriptor is the way
 * to do that, and counts as a cancel. */
static int call_is_cut(lite_conn *conn, int64_t until)
{
    if (conn->open_wake >= 0 && !lite_is_cancelled(conn) &&
        sqlock_wait_fd(-1, 0, conn->open_wake, until) == 2)
        atomic_store(&conn->cancelled, LITE_OPENING);
    return lite_is_cancelled(conn);
}

int lite_call_over(lite_conn *conn)
{
    return call_is_cut(conn, 0) || sqlock_now_us() >= conn->deadline;
}

/* sqlite3_interrupt() is not used. It could strike late: the call that it was meant for has ended,
 * the next one has begun, and nothing clears it then. SQLite looks at this number through the
 * handlers below. */
void lite_cancel(void *arg, uint64_t call)
{
    lite_conn *conn = arg;

    atomic_store(&conn->cancelled, call);
}

int lite_pause(lite_conn *conn, int count)
{
    const uint32_t most = count < 5 ? (uint32_t)PAUSE_MIN_US << count : PAUSE_MAX_US;
    int64_t pause = PAUSE_MIN_US + sqlock_random_below(most - PAUSE_MIN_US + 1);
    const int64_t now = sqlock_now_us(), left = conn->deadline - now;

    if (left <= 0 || conn->unstoppable || call_is_cut(conn, 0))
        return 0;
    pause = pause < left ? pause : left;
    if (conn->open_wake >= 0)
        return !call_is_cut(conn, now + pause);
    sqlock_sleep_us(pause);
    return !lite_is_cancelled(conn);
}

/* Instead of sqlite3_busy_timeout(): with its fixed steps, one of several processes in a tight loop
 * gets nearly all the grants. */
static int call_on_busy(void *conn, int count)
{
    return lite_pause(conn, count);
}

static int call_on_progress(void *arg)
{
    lite_conn *conn = arg;

    return !conn->unstoppable && lite_call_over(conn);
}

/* ---- the file -------------------------------------------------------------------------------- */

/* 0, or the errno that says why the file's folder does not allow it. */
static int folder_error(const char *path, int mode)
{
    const char *slash = strrchr(path, '/');
    char folder[PATH_MAX];

    if (slash == NULL)
        return 0;
    snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    return faccessat(AT_FDCWD, folder, mode, AT_EACCESS) == 0 ? 0 : errno;
}

static int folder_is_writable(const char *path)
{
    const int why = folder_error(path, W_OK | X_OK);

    return why != EACCES && why != EROFS && why != EPERM;
}

/* ---- open ------------------------------------------------------------------------------------ */

/* The file is not there, and SQLite has not made it. */
static int file_fail_absent(const lite_conn *conn, sqlock_error *err)
{
    const sqlock_dialect *d = &sqlock_sqlite_dialect;

    if (!folder_is_writable(conn->path))
        return sqlock_error_set(err, SQLOCK_EREADONLY, 0,
                                "%s is not there and its folder can only be read", conn->path);
    return sqlock_error_set(
        err, SQLOCK_ESCHEMA, 0,
        "%s is not there: no sqlock tables (version %d is needed): run the migrations", conn->path,
        d->migrations[d->n_migrations - 1].version);
}

/* SQLite opens no file. */
static int file_fail(const lite_conn *conn, int rc, sqlock_error *err)
{
    struct stat st;
    char text[PATH_MAX + 64];

    if (folder_error(conn->path, F_OK) == ENOENT)
        snprintf(text, sizeof text, "%s: its folder is not there: make it first", conn->path);
    else if (stat(conn->path, &st) == 0 && S_ISDIR(st.st_mode))
        snprintf(text, sizeof text, "%s is a folder, not a file", conn->path);
    else
        return lite_error(conn, rc, 0, conn->path, err);
    return sqlock_error_db(err, "08001", rc, SQLOCK_RECONNECT, text);
}

/* SQLite would put a journal beside it, and fail when it reads what it wrote. */
static int file_is_special(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

/* Only a migration makes the file. If another program has moved the file away, a connection that is
 * opened again must not put an empty one in its place, where the first one is to come back. */
static int conn_open_url(lite_conn *conn, const char *url, sqlock_error *err)
{
    const int flags = SQLITE_OPEN_READWRITE | (conn->makes ? SQLITE_OPEN_CREATE : 0) |
                      SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE;
    const char *path = lite_url_path(url, err);
    int rc;

    if (path == NULL || (conn->path = lite_path_absolute("", path, err)) == NULL)
        return err->code;
    if (file_is_special(conn->path))
        return sqlock_error_set(err, SQLOCK_EREFUSED, 0,
                                "%s is a device, a pipe or a socket, not a file", conn->path);
    rc = sqlite3_open_v2(conn->path, &conn->db, flags, NULL);
    if (rc == SQLITE_OK)
        return 0;
    /* SQLite's errno comes from its second try, which was for reading only. */
    if ((rc & 0xff) == SQLITE_CANTOPEN && access(conn->path, F_OK) != 0 && errno == ENOENT &&
        folder_error(conn->path, F_OK) == 0 && (!conn->makes || !folder_is_writable(conn->path)))
        return file_fail_absent(conn, err);
    return (rc & 0xff) == SQLITE_CANTOPEN ? file_fail(conn, rc, err)
                                          : lite_error(conn, rc, 0, conn->path, err);
}

/* 1 also if a file beside it locks it (unix-dotfile): programs that open the database in the usual
 * way do not see that lock. */
int lite_is_unlocked(sqlite3 *db, const char *path)
{
    char *vfs = NULL;
    int none;

    sqlite3_file_control(db, "main", SQLITE_FCNTL_VFSNAME, &vfs);
    none = vfs != NULL && (strstr(vfs, "unix-none") != NULL || strstr(vfs, "unix-dotfile") != NULL);
    sqlite3_free(vfs);
    return none || (path[0] != '\0' && sqlite3_uri_boolean(path, "nolock", 0));
}

/* Take over what the application's factory made. */
static int conn_open_native(lite_conn *conn, const sqlock_conn_opts *opts, sqlock_error *err)
{
    void *native = NULL;
    const char *path = NULL;
    int rc = opts->connect(opts->connect_user, &native, err);

    if (rc != 0)
        return rc;
    conn->db = native;
    if (conn->db == NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0,
                                "the connection factory returned no connection");
    if (sqlite3_txn_state(conn->db, NULL) != SQLITE_TXN_NONE || !sqlite3_get_autocommit(conn->db))
        return sqlock_error_set(
            err, SQLOCK_EINVAL, 0,
            "the connection factory returned a connection inside a transaction");
    path = sqlite3_db_filename(conn->db, "main");
    if (path == NULL || path[0] == '\0')
        return sqlock_error_set(err, SQLOCK_EINVAL, 0,
                                "a database in memory or a temporary one keeps no one out");
    if (lite_is_unlocked(conn->db, path))
        return sqlock_error_set(err, SQLOCK_EREFUSED, 0, "%s was opened without the usual locks",
                                path);
    conn->path = lite_path_absolute("", path, err);
    return conn->path != NULL ? 0 : err->code;
}

int lite_query(lite_conn *conn, const char *sql, char *out, size_t size, sqlock_error *err)
{
    sqlite3_stmt *stmt = NULL;
    const unsigned char *text = NULL;
    int rc = 0;
    int step;

    out[0] = '\0';
    if (lite_prepare(conn, sql, &stmt, err) != 0)
        return err->code;
    step = sqlite3_step(stmt);
    if (step == SQLITE_ROW) {
        text = sqlite3_column_text(stmt, 0);
        snprintf(out, size, "%s", text != NULL ? (const char *)text : "");
        step = sqlite3_step(stmt);
    }
    if (step != SQLITE_DONE)
        rc = lite_error(conn, step, 0, conn->path, err);
    sqlite3_finalize(stmt);
    return rc;
}

/* Settings that grants rely on. The answers are checked, because SQLite ignores what it cannot do.
 */
static int session_set(lite_conn *conn, sqlock_error *err)
{
    char answer[32];
    int rc = lite_query(conn, "PRAGMA main.locking_mode = NORMAL", answer, sizeof answer, err);

    if (rc == 0 && strcmp(answer, "normal") != 0)
        rc = sqlock_error_set(err, SQLOCK_EREFUSED, 0, "%s: its locking_mode stays %s", conn->path,
                              answer);
    if (rc == 0) /* reads the file's first page: notices a file that is no database */
        rc = lite_query(conn, "PRAGMA main.schema_version", answer, sizeof answer, err);
    if (rc == 0)
        rc = lite_query(conn, "PRAGMA main.synchronous = FULL", answer, sizeof answer, err);
    if (rc == 0)
        rc = lite_query(conn, "PRAGMA main.synchronous", answer, sizeof answer, err);
    if (rc == 0 && atoi(answer) < 2)
        rc = sqlock_error_set(err, SQLOCK_EREFUSED, 0, "%s: synchronous cannot be set to FULL",
                              conn->path);
    if (rc == 0)
        rc = lite_query(conn, "PRAGMA main.mmap_size = 0", answer, sizeof answer, err);
    if (rc == 0) /* a reader that stayed for long leaves a long WAL */
        rc = lite_query(conn, "PRAGMA main.journal_size_limit = 67108864", answer, sizeof answer,
                        err);
    if (rc == 0) /* else a write answers with a row of its own */
        rc = lite_query(conn, "PRAGMA count_changes = 0", answer, sizeof answer, err);
    if (rc == 0)
        rc = lite_journal_set(conn, err);
    return rc;
}

static int session_check_writable(lite_conn *conn, sqlock_error *err)
{
    char answer[32];
    int rc = lite_query(conn, "PRAGMA query_only", answer, sizeof answer, err);

    if (rc != 0)
        return rc;
    if (sqlite3_db_readonly(conn->db, "main") != 0 || strcmp(answer, "1") == 0)
        return sqlock_error_set(err, SQLOCK_EREADONLY, 0, "%s can only be read", conn->path);
    rc = lite_query(conn, "PRAGMA main.journal_mode", answer, sizeof answer, err);
    if (rc == 0 && strcmp(answer, "wal") == 0)
        return lite_remember_sides(conn, err);
    /* Each commit makes a rollback journal beside the file that symbolic links lead to. */
    if (rc == 0 && !folder_is_writable(conn->name))
        rc = sqlock_error_set(err, SQLOCK_EREADONLY, 0,
                              "%s: its folder can only be read, and the journal must be made there",
                              conn->path);
    return rc;
}

static int session_prepare(lite_conn *conn, sqlock_error *err)
{
    int rc = lite_prepare(conn, "BEGIN IMMEDIATE", &conn->begin, err);

    if (rc == 0)
        rc = lite_prepare(conn, "COMMIT", &conn->commit, err);
    if (rc == 0)
        rc = lite_prepare(conn, "ROLLBACK", &conn->rollback, err);
    return rc == 0 ? lite_notify_make(conn, err) : rc;
}

/* *out_missing: the kernel does not know the lock that SQLite believes to have. */
static int conn_open_once(const sqlock_conn_opts *opts, int64_t deadline, void **out_conn,
                          int *out_missing, sqlock_error *err)
{
    lite_conn *conn = NULL;
    int rc = lite_process_enter(err);

    *out_missing = 0;
    *out_conn = NULL;
    if (rc != 0)
        return rc;
    conn = sqlock_mem_alloc(sizeof *conn);
    if (conn == NULL) {
        lite_process_leave();
        return sqlock_error_set(err, SQLOCK_ENOMEM, 0, "out of memory");
    }
    atomic_init(&conn->cancelled, 0);
    conn->call = LITE_OPENING;
    conn->scripts = opts->scripts;
    conn->makes = (opts->flags & SQLOCK_CONN_MAKE) != 0;
    conn->open_wake = conn->wake_fd = SQLOCK_HAS_FIELD(opts, wake_fd) ? opts->wake_fd : -1;
    conn->ear = -1;
    lite_call_start(conn, deadline);
    rc = lite_library_check(err);
    if (rc == 0)
        rc = opts->connect != NULL ? conn_open_native(conn, opts, err)
                                   : conn_open_url(conn, opts->url, err);
    if (rc != 0)
        goto fail;
    lite_lock_guard(conn);
    sqlite3_extended_result_codes(conn->db, 1);
    sqlite3_busy_handler(conn->db, call_on_busy, conn);
    sqlite3_progress_handler(conn->db, OPS_BETWEEN_LOOKS, call_on_progress, conn);
    rc = lite_remember_file(conn, err);
    if (rc == 0)
        rc = session_set(conn, err);
    if (rc == 0)
        rc = session_check_writable(conn, err);
    if (rc == 0)
        rc = session_prepare(conn, err);
    if (rc != 0)
        goto fail;
    conn->open_wake = -1;
    lite_call_end(conn);
    *out_conn = conn;
    return 0;

fail:
    *out_missing = conn->lock_missing;
    lite_close(conn);
    return rc;
}

/* A missing lock may have been this process's own: a connection of the application's took it for
 * all, and lost it by the close() of another one (lock.c). This connection is useless then, and the
 * next one will hardly meet the same again. A parent's lock is missing for ever. */
int lite_open(const sqlock_conn_opts *opts, int64_t deadline, void **out_conn, sqlock_error *err)
{
    int missing = 0, rc;

    for (int tries = 1;; tries++) {
        rc = conn_open_once(opts, deadline, out_conn, &missing, err);
        if (!missing || opts->connect != NULL || tries == OPEN_TRIES || sqlock_now_us() >= deadline)
            return rc;
        sqlite3_sleep(tries);
    }
}

void lite_close(void *arg)
{
    lite_conn *conn = arg;

    if (conn->adopted) { /* the application may have closed it by now */
        sqlock_mem_free(conn);
        return;
    }
    conn->deadline = 0; /* waits for no lock */
    for (size_t s = 0; s < SQLOCK_STMT_COUNT; s++) {
        for (size_t i = 0; conn->steps[s] != NULL && i < conn->scripts[s].n_steps; i++)
            sqlite3_finalize(conn->steps[s][i]);
        sqlock_mem_free(conn->steps[s]);
    }
    sqlock_message_close(conn->ear);
    sqlite3_finalize(conn->version);
    sqlite3_finalize(conn->begin);
    sqlite3_finalize(conn->commit);
    sqlite3_finalize(conn->rollback);
    /* If the application's factory left something in it (a statement, a backup), that keeps it and
     * its file open for longer. Then it counts as open for good. */
    if (sqlite3_close(conn->db) == SQLITE_OK)
        lite_process_leave();
    else
        sqlite3_close_v2(conn->db);
    for (size_t i = 0; i < LITE_SIDES; i++)
        sqlock_mem_free(conn->side_paths[i]);
    sqlock_mem_free(conn->path);
    sqlock_mem_free(conn);
}
