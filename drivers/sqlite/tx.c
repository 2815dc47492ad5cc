/* Transactions: of a script, of a migration; and a migration's statements. */
#include "sqlite.h"

#include <string.h>

/* Whether the commits that follow wait for the disk. Outside of a transaction: SQLite refuses it
 * within one. In WAL mode a commit that waits syncs all that was written before, by whomever, and a
 * checkpoint syncs it too. A rollback journal without its sync could damage the file. The mode
 * cannot change while we have the file open in WAL mode. */
int lite_tx_set_lazy(lite_conn *conn, int lazy, sqlock_error *err)
{
    char ignored[8];
    int rc;

    lazy = lazy && conn->sides[0] != 0;
    if (lazy == conn->lazy)
        return 0;
    conn->lazy = 1; /* a failure may come behind the change */
    rc = lite_query(conn,
                    lazy ? "PRAGMA main.synchronous = NORMAL" : "PRAGMA main.synchronous = FULL",
                    ignored, sizeof ignored, err);
    if (rc == 0)
        conn->lazy = lazy;
    return rc;
}

/* Step a statement that has no rows. Read an error's text before the reset. */
static int tx_step(lite_conn *conn, sqlite3_stmt *stmt, const char *what, sqlock_error *err)
{
    const int step = sqlite3_step(stmt);
    const int rc = step == SQLITE_DONE ? 0 : lite_error(conn, step, 0, what, err);

    sqlite3_reset(stmt);
    return rc;
}

int lite_tx_begin(lite_conn *conn, sqlock_error *err)
{
    return tx_step(conn, conn->begin, "begin", err);
}

/* COMMIT until the outcome is certain. BUSY keeps the transaction, because a reader is still in
 * (without WAL): try again. An error that left a transaction open has certainly committed nothing:
 * the caller rolls back. If SQLite itself ended the transaction, it may have failed after the
 * commit took effect, for instance in the last sync of the journal. Then the outcome is unknown,
 * which is what `doubt` says. */
int lite_tx_commit(lite_conn *conn, unsigned doubt, sqlock_error *err)
{
    unsigned flags = 0;
    int rc = SQLITE_BUSY;

    if (lite_follow_journal(conn, err) != 0 || lite_check_file(conn, err) != 0)
        return err->code;
    for (int tries = 0;; tries++) {
        rc = sqlite3_step(conn->commit);
        if ((rc & 0xff) != SQLITE_BUSY || sqlock_now_us() >= conn->deadline)
            break;
        sqlite3_reset(conn->commit);
        if (!lite_pause(conn, tries))
            break;
    }
    if (rc != SQLITE_DONE) {
        if (sqlite3_get_autocommit(conn->db))
            flags = doubt | SQLOCK_RECONNECT;
        rc = lite_error(conn, rc, flags, "commit", err);
    } else {
        rc = 0;
    }
    sqlite3_reset(conn->commit);
    return rc;
}

/* End any open transaction. The deadline does not stop this: a transaction that stays open would
 * keep every other writer out. */
static int tx_rollback(lite_conn *conn, sqlock_error *err)
{
    int rc = 0;

    conn->in_tx = 0;
    if (sqlite3_get_autocommit(conn->db))
        return 0; /* SQLite has rolled back itself, as it does after some errors */
    conn->unstoppable = 1;
    rc = tx_step(conn, conn->rollback, "rollback", err);
    conn->unstoppable = 0;
    if (rc != 0)
        err->flags |= SQLOCK_RECONNECT;
    return rc;
}

/* After the error in *err: leave no transaction, and keep the first error's text. */
void lite_tx_abandon(lite_conn *conn, sqlock_error *err)
{
    sqlock_error second = {0};

    if (tx_rollback(conn, &second) != 0)
        err->flags |= SQLOCK_RECONNECT;
}

/* ---- migrations ------------------------------------------------------------------------------ */

/* Outside a transaction a statement commits by itself, and may fail after the commit: see
 * lite_tx_commit(). */
static unsigned exec_flags(const lite_conn *conn, int rc)
{
    const int primary = rc & 0xff;

    if (conn->in_tx || (primary != SQLITE_IOERR && primary != SQLITE_FULL))
        return 0;
    return SQLOCK_MAYBE | SQLOCK_RECONNECT;
}

int lite_exec(void *arg, const char *sql, int64_t deadline, sqlock_error *err)
{
    lite_conn *conn = arg;
    sqlite3_stmt *stmt = NULL;
    int step = SQLITE_DONE;
    int rc = 0;

    lite_call_start(conn, deadline);
    rc = conn->in_tx ? 0 : lite_tx_set_lazy(conn, 0, err);
    if (rc == 0)
        rc = lite_prepare(conn, sql, &stmt, err);
    if (rc == 0) {
        do
            step = sqlite3_step(stmt);
        while (step == SQLITE_ROW);
        if (step != SQLITE_DONE)
            rc = lite_error(conn, step, exec_flags(conn, step), NULL, err);
    }
    sqlite3_finalize(stmt);
    if (rc != 0)
        lite_tx_abandon(conn, err);
    return rc;
}

int lite_begin(void *arg, int64_t deadline, sqlock_error *err)
{
    lite_conn *conn = arg;
    int rc;

    lite_call_start(conn, deadline);
    rc = lite_check_file(conn, err);
    if (rc == 0 && conn->makes)
        rc = lite_journal_make(conn, err);
    if (rc == 0)
        rc = lite_tx_set_lazy(conn, 0, err);
    if (rc == 0)
        rc = lite_tx_begin(conn, err);
    conn->in_tx = rc == 0;
    return rc;
}

int lite_commit(void *arg, int64_t deadline, sqlock_error *err)
{
    lite_conn *conn = arg;
    int rc;

    lite_call_start(conn, deadline);
    if (!conn->in_tx)
        return sqlock_error_set(err, SQLOCK_ESTATE, 0, "there is no transaction to commit");
    rc = lite_tx_commit(conn, SQLOCK_MAYBE, err);
    conn->in_tx = 0;
    if (rc != 0)
        lite_tx_abandon(conn, err);
    return rc;
}

/* 0 also if there is none: a failed statement has ended it already. */
int lite_rollback(void *arg, int64_t deadline, sqlock_error *err)
{
    lite_conn *conn = arg;

    lite_call_start(conn, deadline);
    return tx_rollback(conn, err);
}
