/* Once per period: of all programs that ask, one does the work, and the others learn that it is
 * done. For a nightly job that every host starts, and that must not run twice in a night.
 *
 *     int64_t today = once_period(24 * 3600 * 1000);
 *     rc = once_run(m, "nightly report", today, NULL, write_report, user, &result, &err);
 *     // 0 and result 0: it is done now. ONCE_DONE: it was done before.
 *
 * How it works: a lock keeps two from working at a time, and a register of the same name is the
 * ledger. It names the last period whose work is done. Whoever gets the lock reads it, and works
 * only if its own period is a later one. After the work it writes its period there, while it still
 * holds the lock. Whoever dies before that, or fails, has done nothing: the next one works again.
 * So the work must bear a second try, as with any lease: see "What a lease cannot do" in README.
 * Work that is one transaction in the database of the lock need not: once_note_in() below.
 *
 * Periods   Numbers that rise. once_period() counts those of one length since 1970, in UTC, by this
 *           machine's clock. A machine whose clock is a little ahead begins the next period early,
 *           for all: still, each period is worked once. One whose clock is years ahead, or another
 *           length of periods under the same name, would keep all others from working: that is
 *           ONCE_AHEAD, an error, until someone notes a right period (once_note()).
 * Schema    Version 2: the table of registers, with its rights (sqlock/register.h).
 * Threads   Any; a struct once belongs to one at a time.
 */
#ifndef SQLOCK_RECIPES_ONCE_H
#define SQLOCK_RECIPES_ONCE_H

#include <sqlock/cas.h>

#define ONCE_DONE  100 /* no error: the work of this period, or of the next one, is done */
#define ONCE_AHEAD 101 /* the ledger names a period later than the next one: a clock is wrong */

/* Milliseconds from 1 on. Returns the number of the period that it is now. */
int64_t once_period(int64_t length_ms);

/* Acquire the lock, do the work if it is due, and write that down.
 * opts:    of the lock, which is exclusive, or NULL. period: from 1 on.
 * work:    gets the lock, for its token and for guards; *out_result is what it returned, and 0 means
 *          that the work is done.
 * If the database cannot be reached behind the work, the note is tried again while the lock is held, 60
 * times at most, with pauses of 200 ms.
 * Returns: 0          the work was called now, and is written down if *out_result is 0
 *          ONCE_DONE, ONCE_AHEAD  it was not called; err is left alone with ONCE_DONE
 *          SQLOCK_ELOST  it was called, but the lock was lost before it was written down: others may
 *                     do it again
 *          SQLOCK_ECORRUPT  the register holds something that this recipe has not written
 *          SQLOCK_EINVAL    period or mode; before any I/O
 *          the codes of sqlock_acquire(), sqlock_register_get() and sqlock_register_set(). */
int once_run(sqlock *m, const char *name, int64_t period, const sqlock_acquire_opts *opts,
             sqlock_work_fn work, void *user, int *out_result, sqlock_error *err);

/* ---- the same in two steps, for a caller that holds the lock --------------------------------- */

struct once {
    sqlock *m;
    const char *name; /* the caller's */
    int64_t period;
    int64_t version; /* of the ledger, as it was read */
};

/* Is the work due? The caller holds the lock of this name. Returns 0 if it is, or as once_run().
 * Behind ONCE_DONE and ONCE_AHEAD the work may be done and noted all the same. */
int once_look(struct once *o, sqlock *m, const char *name, int64_t period, sqlock_error *err);
/* The work is done. lock is the one that was held while it was done. Returns as once_run(). */
int once_note(struct once *o, sqlock_lock *lock, sqlock_error *err);

/* ---- the ledger in your own transaction ------------------------------------------------------
 *
 * If the work is one transaction in the lock's database, the note can commit with it, or not at all. Then
 * nothing is done twice, and nothing is lost, whatever dies. The ledger is a column of a table of yours,
 * because the register is written by a connection of the manager's.
 *
 *     sqlock_column key = {"name", sqlock_text("nightly report"), NULL};
 *     sqlock_row row = {sizeof row, NULL, "job", &key, 1};
 *     ...
 *     PQexec(pg, "BEGIN");
 *     rc = once_note_in(conn, lock, &row, today, &err);     // first, before you read anything
 *     if (rc == 0) ... the work, by pg, and PQexec(pg, "COMMIT"): it is done now ...
 *     else PQexec(pg, "ROLLBACK");                          // ONCE_DONE: it was done before
 *
 * Ledger    Each job has a row, which exists before its first run, with NULL in the column `period`:
 *             PostgreSQL  CREATE TABLE job (name text PRIMARY KEY, period bigint);
 *             MySQL       CREATE TABLE job (name VARCHAR(255) PRIMARY KEY, period BIGINT) ENGINE=InnoDB;
 *             SQLite      CREATE TABLE job (name TEXT PRIMARY KEY, period BIGINT);
 *             then        INSERT INTO job (name) VALUES ('nightly report');
 *           The table may have other columns, and a key of any kind. It needs SELECT and UPDATE.
 * Ahead     Behind ONCE_AHEAD, set the period right by an UPDATE of yours.
 * Cost      Three requests in the transaction: the guard, and two on the row. */

/* Prove that the lock is held (sqlock_guard()), and note in the transaction on conn that the work of this
 * period is done. Until the transaction ends no one else is granted the lock, and the row stays locked. After
 * ROLLBACK TO a savepoint from before this call, call it again.
 * If the reply of your COMMIT is lost, begin again: ONCE_DONE says that it was committed.
 * period:  from 2 on, below 2^53. row: of the ledger, not of the work.
 * Returns: 0          the work is due: do it, and commit
 *          ONCE_DONE, ONCE_AHEAD  it is not due, nothing was changed: roll back
 *          SQLOCK_ELOST  the lock is no longer held: roll back
 *          SQLOCK_ABSENT the ledger has no such row
 *          SQLOCK_EINVAL period; before any I/O
 *          the codes of sqlock_guard() and sqlock_fence(). Roll back behind each. */
int once_note_in(sqlock_conn *conn, sqlock_lock *lock, const sqlock_row *row, int64_t period,
                 sqlock_error *err);

#endif
