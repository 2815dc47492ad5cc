/* What the files of the SQLite driver share; nothing here leaves the folder. */
#ifndef SQLOCK_DRIVERS_SQLITE_H
#define SQLOCK_DRIVERS_SQLITE_H

#include <sqlock/adopt.h>
#include <sqlock/driver.h>
#include <sqlock/sqlite.h>

#include <sqlite3.h>
#include <stdatomic.h>
#include <sys/types.h>

#define LITE_VERSION_MIN 3037000 /* STRICT tables */
#define LITE_SIDES       2       /* -wal, -shm */

extern const sqlock_dialect sqlock_sqlite_dialect;

/* What an adopted connection was set to, while a request runs on it. */
typedef struct lite_before {
    sqlite3_int64 last_rowid;
    int busy_ms; /* 0: its busy handler stayed */
} lite_before;

typedef struct lite_conn {
    sqlite3 *db;
    int makes;   /* it may make the file: a migration's */
    int adopted; /* db is the application's, and so is the transaction: see adopted.c */
    const sqlock_script *scripts;
    sqlite3_stmt **steps[SQLOCK_STMT_COUNT]; /* prepared when first needed */
    sqlite3_stmt *begin;
    sqlite3_stmt *commit;
    sqlite3_stmt *rollback;
    char *path;       /* absolute; dev and ino belong to the file that was opened */
    const char *name; /* SQLite's name for it: where the path led to; belongs to db */
    dev_t dev;
    ino_t ino;
    uint64_t mount;          /* where file and folder are; 0: not known, or not the same */
    ino_t sides[LITE_SIDES]; /* in WAL mode: the inodes of its files; 0: not known yet */
    char *side_paths[LITE_SIDES];
    int in_tx;        /* between begin() and commit() or rollback(); adopted: always */
    int lazy;         /* commits do not wait for the disk (synchronous is NORMAL) */
    int64_t deadline; /* of the call that is under way */
    int open_wake;    /* a descriptor that ends the opening; -1: none, or it is open */
    int lock_missing; /* the kernel does not know the lock that SQLite believes in */
    int unstoppable;  /* a ROLLBACK runs: neither deadline nor cancel may end it */
    uint64_t call;    /* the number of the run() that is under way; 0: none can be cancelled */
    int pauses;       /* SQLOCK_CALL_PAUSES: at its end it is rolled back, to be made anew */
    int paused;       /* the last call was, */
    sqlock_error why; /* for this reason */
    _Atomic uint64_t cancelled; /* a call; the only field that another thread writes */
    sqlite3_stmt *version;      /* of the file's data: listen.c */
    int64_t heard;              /* the last version that hear() has reported; -1: none */
    int64_t look_at;            /* not before that again */
    int ear;                    /* a socket for messages; -1: none */
    int wake_fd;                /* set when hear() is to end; -1: none */
} lite_conn;

/* The number of the call while a connection opens, and of all calls on an adopted one. */
#define LITE_OPENING UINT64_MAX
#define LITE_ADOPTED 1

/* process.c: 0, or SQLOCK_EREFUSED in a process that was forked while there was a connection. Then
 * no function of SQLite may be called. enter and leave begin and end the life of each
 * connection. */
int lite_process_check(sqlock_error *err);
int lite_process_enter(sqlock_error *err);
void lite_process_leave(void);
/* The process was forked, and has executed no program since. */
int lite_process_is_forked(void);
/* 0, or SQLOCK_EREFUSED if the lock that SQLite believes in does not belong to this process. To be
 * called within a reading transaction. */
int lite_process_check_lock(lite_conn *conn, sqlock_error *err);
/* Whether this process has a descriptor of the file: 1, 0, or -1: not known. */
int lite_process_has_open(dev_t dev, ino_t ino);
/* 1: it is opened by SQLite's own VFS for files, with its usual locks. */
int lite_is_plain(const lite_conn *conn);
/* Read a file of /proc, cut to fit; 0, or -1. */
int lite_read_text(const char *path, char *out, size_t size);

/* place.c: 0 while the path still leads to the open file (else an error with SQLOCK_RECONNECT), and
 * all programs that open it find the same journals (else SQLOCK_EREFUSED). */
int lite_check_file(const lite_conn *conn, sqlock_error *err);
/* The same for a file that was just opened; and, in WAL mode, once it has been read. */
int lite_remember_file(lite_conn *conn, sqlock_error *err);
int lite_remember_sides(lite_conn *conn, sqlock_error *err);
/* Before each commit: the file may have come into WAL mode since it was opened. */
int lite_follow_journal(lite_conn *conn, sqlock_error *err);
/* The same for the application's connection. */
int lite_check_adopted(lite_conn *conn, sqlock_error *err);
/* The file's device and inode; "memory" where there is none. */
void lite_running(void *conn, char *out, size_t size);

/* lock.c: from now on, no close() in this process takes a lock of this connection's, and it finds
 * each journal that it must roll back. To be called before its first transaction. */
void lite_lock_guard(const lite_conn *conn);

/* library.c: 0, or SQLOCK_EREFUSED for a SQLite that cannot be used, or is there twice. */
int lite_library_check(sqlock_error *err);
/* The same for a caller that passes the address of its sqlite3_libversion_number(), or NULL. */
int lite_library_check_caller(void (*library)(void), sqlock_error *err);

/* url.c: the path of a URL: sqlite:PATH or sqlite:///PATH. NULL: not valid, err says why. */
const char *lite_url_path(const char *url, sqlock_error *err);
/* Makes a relative path absolute now, because the program may change its directory later. It does
 * not resolve symbolic links, so a link that later leads elsewhere is noticed too. Puts front
 * before the path. NULL: err has the reason. */
char *lite_path_absolute(const char *front, const char *path, sqlock_error *err);
int lite_whole_url(const char *url, char **out_url, sqlock_error *err);

/* conn.c */
int lite_open(const sqlock_conn_opts *opts, int64_t deadline, void **out_conn, sqlock_error *err);
void lite_close(void *conn);
void lite_cancel(void *conn, uint64_t call);
/* Every slot that uses SQLite starts with this. run() ends with lite_call_end(). */
void lite_call_start(lite_conn *conn, int64_t deadline);
void lite_call_end(lite_conn *conn);
int lite_is_cancelled(const lite_conn *conn);
/* 1: cancelled, or the deadline is over. */
int lite_call_over(lite_conn *conn);
/* Sleep a little before try number count + 1. Returns 0 if there must be no further try. */
int lite_pause(lite_conn *conn, int count);
/* Run a statement and read the first value of its first row, "" if there is none. */
int lite_query(lite_conn *conn, const char *sql, char *out, size_t size, sqlock_error *err);
/* 1: its URL or VFS turns locks off. path may be "". */
int lite_is_unlocked(sqlite3 *db, const char *path);

/* journal.c: set a rollback journal so that a commit survives a power cut; WAL stays. */
int lite_journal_set(lite_conn *conn, sqlock_error *err);
/* Before the first table is made: an empty file becomes one in WAL mode, if it can. */
int lite_journal_make(lite_conn *conn, sqlock_error *err);

/* adopted.c */
extern const sqlock_adopter lite_adopter;
/* Around requests on an adopted connection. Call leave also after enter has failed. */
int lite_adopted_enter(lite_conn *conn, lite_before *before, sqlock_error *err);
void lite_adopted_leave(lite_conn *conn, const lite_before *before);

/* tx.c */
/* Whether the commits that follow wait for the disk. Outside of a transaction. */
int lite_tx_set_lazy(lite_conn *conn, int lazy, sqlock_error *err);
int lite_tx_begin(lite_conn *conn, sqlock_error *err);
/* doubt: SQLOCK_MAYBE or 0, if no one knows whether it was applied. */
int lite_tx_commit(lite_conn *conn, unsigned doubt, sqlock_error *err);
/* After the error in *err: leave no transaction, and keep the first error's text. */
void lite_tx_abandon(lite_conn *conn, sqlock_error *err);
int lite_exec(void *conn, const char *sql, int64_t deadline, sqlock_error *err);
int lite_begin(void *conn, int64_t deadline, sqlock_error *err);
int lite_commit(void *conn, int64_t deadline, sqlock_error *err);
int lite_rollback(void *conn, int64_t deadline, sqlock_error *err);

/* stmt.c */
int lite_prepare(lite_conn *conn, const char *sql, sqlite3_stmt **out_stmt, sqlock_error *err);
int lite_run(void *conn, const sqlock_call *number, sqlock_stmt stmt, const sqlock_value *values,
             size_t n, int64_t deadline, sqlock_rows *rows, sqlock_error *err);
int lite_run_script(void *conn, const sqlock_script *script, const sqlock_value *values,
                    int64_t deadline, sqlock_rows *rows, sqlock_error *err);

/* listen.c */
int lite_listen(void *conn, const unsigned char client[SQLOCK_MESSAGE_SIZE], int64_t deadline,
                sqlock_error *err);
int lite_notify_make(lite_conn *conn, sqlock_error *err);
int lite_hear(void *conn, const sqlock_call *number, int64_t deadline, sqlock_rows *rows,
              sqlock_error *err);

/* errmap.c: fill err for SQLite's result rc of the last call on conn, and return the code. Call it
 * before the next call on conn, which overwrites SQLite's message. what may be NULL. */
int lite_error(const lite_conn *conn, int rc, unsigned flags, const char *what, sqlock_error *err);

#endif
