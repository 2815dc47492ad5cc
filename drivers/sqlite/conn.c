/* Connections: which file, opened how, and the two handlers that bound every call in time. */
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

void lite_call_end(lite_conn *conn)
{
    atomic_store(&conn->cancelled, 0);
}

/* While the connection is being opened nobody has it yet to cancel: the caller's descriptor is the
 * way to say so, and is noted as a cancel. */
static int call_is_cut(lite_conn *conn, int64_t until)
{
    if (conn->open_wake >= 0 && !atomic_load(&conn->cancelled) &&
        sqlock_wait_fd(-1, 0, conn->open_wake, until) == 2)
        atomic_store(&conn->cancelled, 1);
    return atomic_load(&conn->cancelled);
}

int lite_call_over(lite_conn *conn)
{
    return call_is_cut(conn, 0) || sqlock_now_us() >= conn->deadline;
}

/* sqlite3_interrupt() is not used: it could strike late, when the call that it was meant for has
 * ended and the next one has begun, and nothing clears it then. The flag is cleared by that call,
 * and SQLite looks at it through the handlers below. */
void lite_cancel(void *arg)
{
    lite_conn *conn = arg;

    atomic_store(&conn->cancelled, 1);
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
    return !atomic_load(&conn->cancelled);
}

/* In place of sqlite3_busy_timeout(), whose fixed steps let one of several processes in a tight
 * loop have nearly all the grants. */
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

/* The path of a URL: sqlite:PATH or sqlite:///PATH. NULL: not valid, err says why. */
static const char *url_path(const char *url, sqlock_error *err)
{
    static const char scheme[] = "sqlite:";
    const char *path = NULL;
    const char *why = NULL;
    int code = SQLOCK_EINVAL;

    if (url == NULL || strncmp(url, scheme, sizeof scheme - 1) != 0) {
        sqlock_error_set(err, SQLOCK_EINVAL, 0, "the URL does not start with %s", scheme);
        return NULL;
    }
    path = url + sizeof scheme - 1;
    if (strncmp(path, "//", 2) == 0) {
        path += 2;
        if (path[0] != '/')
            why = "there is no host: write sqlite:PATH or sqlite:///PATH";
    }
    if (path[0] == '\0')
        why = "the path is empty";
    else if (strcmp(path, ":memory:") == 0) {
        why = "a database in memory is private to its connection and locks nobody out";
        code = SQLOCK_EREFUSED;
    } else if (strncmp(path, "file:", 5) == 0)
        why = "SQLite's own file: URLs are not taken, a plain path is";
    else if (strpbrk(path, "?#") != NULL)
        why = "options behind ? or # are not known";
    if (why == NULL)
        return path;
    sqlock_error_set(err, code, 0, "%s: %s", url, why);
    return NULL;
}

/* A relative path is made absolute now: the program may change its directory later. It is not
 * resolved, so that a symbolic link which is turned elsewhere is noticed too. With this in front;
 * NULL: err says why. */
static char *path_absolute(const char *front, const char *path, sqlock_error *err)
{
    char cwd[PATH_MAX] = "";
    size_t size;
    char *out;

    if (path[0] != '/' && getcwd(cwd, sizeof cwd) == NULL) {
        sqlock_error_set(err, SQLOCK_ESYS, 0,
                         "%s: where the program works cannot be told (errno %d)", path, errno);
        return NULL;
    }
    if (strcmp(cwd, "/") == 0)
        cwd[0] = '\0';
    size = strlen(front) + strlen(cwd) + strlen(path) + 2;
    out = sqlock_mem_alloc(size);
    if (out == NULL)
        sqlock_error_set(err, SQLOCK_ENOMEM, 0, "out of memory");
    else
        snprintf(out, size, "%s%s%s%s", front, cwd, path[0] != '/' ? "/" : "", path);
    return out;
}

/* Connections that are made later, for renewals or for more threads, are to the same file. */
int lite_whole_url(const char *url, char **out_url, sqlock_error *err)
{
    const char *path = url_path(url, err);

    *out_url = path != NULL ? path_absolute("sqlite://", path, err) : NULL;
    return *out_url != NULL ? 0 : err->code;
}

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

/* The file is not there, and SQLite did not make it. */
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

/* Only a migration makes the file. A connection that is opened again, after somebody has moved the
 * file away, would put an empty one in its place: in the way of the one that is to come back. */
static int conn_open_url(lite_conn *conn, const char *url, int may_make, sqlock_error *err)
{
    const int flags = SQLITE_OPEN_READWRITE | (may_make ? SQLITE_OPEN_CREATE : 0) |
                      SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE;
    const char *path = url_path(url, err);
    int rc;

    if (path == NULL || (conn->path = path_absolute("", path, err)) == NULL)
        return err->code;
    rc = sqlite3_open_v2(conn->path, &conn->db, flags, NULL);
    if (rc == SQLITE_OK)
        return 0;
    /* SQLite's errno is that of a second try, which was for reading only. */
    if ((rc & 0xff) == SQLITE_CANTOPEN && access(conn->path, F_OK) != 0 && errno == ENOENT &&
        folder_error(conn->path, F_OK) == 0 && (!may_make || !folder_is_writable(conn->path)))
        return file_fail_absent(conn, err);
    return lite_error(conn, rc, 0, conn->path, err);
}

/* Or locked by a file of its own beside it, which those do not see who open it as everybody does.
 */
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
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "the connection factory gave no connection");
    if (sqlite3_txn_state(conn->db, NULL) != SQLITE_TXN_NONE || !sqlite3_get_autocommit(conn->db))
        return sqlock_error_set(err, SQLOCK_EINVAL, 0,
                                "the connection factory gave a connection inside a transaction");
    path = sqlite3_db_filename(conn->db, "main");
    if (path == NULL || path[0] == '\0')
        return sqlock_error_set(err, SQLOCK_EINVAL, 0,
                                "a database in memory or a temporary one locks nobody out");
    if (lite_is_unlocked(conn->db, path))
        return sqlock_error_set(err, SQLOCK_EREFUSED, 0, "%s is opened without the usual locking",
                                path);
    conn->path = path_absolute("", path, err);
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

/* TRUNCATE syncs the journal after emptying it; with DELETE, a power cut can bring the journal
 * back, and with it the state before a commit that was confirmed. WAL is left as it is: the mode
 * belongs to the file, and so to the application. The read lock of the transaction is what keeps
 * somebody from switching the file to WAL between the question and the setting, which would then
 * switch it back. */
static int session_set_journal(lite_conn *conn, sqlock_error *err)
{
    char mode[16] = "";
    char ignored[16];
    int rc = lite_query(conn, "BEGIN", ignored, sizeof ignored, err);

    if (rc == 0)
        rc = lite_query(conn, "SELECT count(*) FROM main.sqlite_master", ignored, sizeof ignored,
                        err);
    if (rc == 0)
        rc = lite_process_check_lock(conn, err);
    if (rc == 0)
        rc = lite_query(conn, "PRAGMA main.journal_mode", mode, sizeof mode, err);
    if (rc == 0 && strcmp(mode, "wal") != 0)
        rc = lite_query(conn, "PRAGMA main.journal_mode = TRUNCATE", mode, sizeof mode, err);
    if (rc == 0)
        rc = lite_query(conn, "COMMIT", ignored, sizeof ignored, err);
    if (rc == 0 && strcmp(mode, "wal") != 0 && strcmp(mode, "truncate") != 0)
        rc = sqlock_error_set(err, SQLOCK_EREFUSED, 0, "%s: its journal_mode stays %s", conn->path,
                              mode);
    return rc;
}

/* Settings that grants rely on; the answers are checked, for SQLite ignores what it cannot do. */
static int session_set(lite_conn *conn, sqlock_error *err)
{
    char answer[32];
    int rc = lite_query(conn, "PRAGMA main.locking_mode = NORMAL", answer, sizeof answer, err);

    if (rc == 0 && strcmp(answer, "normal") != 0)
        rc = sqlock_error_set(err, SQLOCK_EREFUSED, 0, "%s: its locking_mode stays %s", conn->path,
                              answer);
    if (rc == 0) /* reads the file's first page: tells what is not a database */
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
    if (rc == 0) /* else a write answers with a row of its own */
        rc = lite_query(conn, "PRAGMA count_changes = 0", answer, sizeof answer, err);
    if (rc == 0)
        rc = session_set_journal(conn, err);
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
    /* A rollback journal is made beside the file (where links lead to) for each commit. */
    if (rc == 0 && !folder_is_writable(conn->name))
        rc = sqlock_error_set(err, SQLOCK_EREADONLY, 0,
                              "%s: its folder can only be read, and needs a journal", conn->path);
    return rc;
}

static int session_prepare(lite_conn *conn, sqlock_error *err)
{
    int rc = lite_prepare(conn, "BEGIN IMMEDIATE", &conn->begin, err);

    if (rc == 0)
        rc = lite_prepare(conn, "COMMIT", &conn->commit, err);
    if (rc == 0)
        rc = lite_prepare(conn, "ROLLBACK", &conn->rollback, err);
    return rc;
}

/* *out_missing: the kernel knows nothing of the lock that SQLite believes to have. */
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
    conn->scripts = opts->scripts;
    conn->open_wake = SQLOCK_HAS_FIELD(opts, wake_fd) ? opts->wake_fd : -1;
    lite_call_start(conn, deadline);
    rc = lite_library_check(err);
    if (rc == 0)
        rc = opts->connect != NULL
                 ? conn_open_native(conn, opts, err)
                 : conn_open_url(conn, opts->url, (opts->flags & SQLOCK_CONN_MAKE) != 0, err);
    if (rc != 0)
        goto fail;
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

/* A lock that is missing may have been ours: SQLite (3.40.1) closes a descriptor when it has seen
 * that nobody in the process has a lock, and lets go of its mutex in between; who takes one then
 * loses it by that close(). Such a connection is of no use, and the next one is not likely to meet
 * it again. A parent's lock is missing for ever. */
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

    if (conn->adopted) { /* and its host may be closed by now */
        sqlock_mem_free(conn);
        return;
    }
    conn->deadline = 0; /* nothing that is locked is waited for */
    for (size_t s = 0; s < SQLOCK_STMT_COUNT; s++) {
        for (size_t i = 0; conn->steps[s] != NULL && i < conn->scripts[s].n_steps; i++)
            sqlite3_finalize(conn->steps[s][i]);
        sqlock_mem_free(conn->steps[s]);
    }
    sqlite3_finalize(conn->begin);
    sqlite3_finalize(conn->commit);
    sqlite3_finalize(conn->rollback);
    /* What the application's factory left in it (a statement, a backup) keeps it, and its file,
     * open for longer: it counts for good. */
    if (sqlite3_close(conn->db) == SQLITE_OK)
        lite_process_leave();
    else
        sqlite3_close_v2(conn->db);
    sqlock_mem_free(conn->path);
    sqlock_mem_free(conn);
}
