/* Work on an application's connection, in its transaction (P14): the second table of a driver. For
 * those who write a driver; a program calls sqlock_adopt() (sqlock/transaction.h).
 *
 * A driver may lack this table: its `adopter` is NULL. Then sqlock_adopt() fails with
 * SQLOCK_EREFUSED, and everything else works.
 *
 * adopt() makes an adopted connection, a conn. Only the slots of this table get it, never those of
 * sqlock_driver. What sqlock/driver.h says about threads, time, versions and failures holds here
 * too, except that a slot never ends the application's transaction by its own will: after a failure
 * tx_state() says what has become of it. */
#ifndef SQLOCK_ADOPT_H
#define SQLOCK_ADOPT_H

#include <sqlock/driver.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A connection of the application's, to be adopted. */
typedef struct sqlock_adopt_opts {
    uint32_t size;
    void *native; /* PGconn *, MYSQL *, sqlite3 *: borrowed; one thread at a time uses it */
    /* The caller's own view of the client library, from where the caller was compiled. */
    size_t native_size;     /* sizeof what native points to (MYSQL); 0: the type is opaque, or not
                               known */
    void (*library)(void);  /* one of its functions (sqlite3_libversion_number, mysql_init,
                               PQlibVersion), as the caller's program calls it; NULL: not known */
    const sqlock_script *scripts; /* with names filled in; they outlive the conn */
} sqlock_adopt_opts;

typedef enum sqlock_tx_state {
    SQLOCK_TX_UNKNOWN = 0, /* a request is under way, an answer is not read yet, the link is down */
    SQLOCK_TX_IDLE = 1,    /* no transaction is open */
    SQLOCK_TX_ACTIVE = 2,  /* one is open, and the next statement runs in it */
    SQLOCK_TX_FAILED = 3   /* one is open, and accepts only its end or a rollback to a savepoint */
} sqlock_tx_state;

typedef enum sqlock_savepoint {
    SQLOCK_SAVEPOINT_SET = 1,
    SQLOCK_SAVEPOINT_RELEASE = 2, /* keep what was done since */
    SQLOCK_SAVEPOINT_UNDO = 3     /* roll back to it, then release it */
} sqlock_savepoint;

/* What core must do differently on these connections: bits of sqlock_adopter.flags. */
#define SQLOCK_ADOPT_SPOILS 0x1u /* a statement that fails spoils its transaction until a rollback:
                                    core puts a savepoint around its own */
#define SQLOCK_ADOPT_BESIDE 0x2u /* a look into the catalogue makes the transaction's snapshot: core
                                    looks on a connection of its own. On the adopted one it reads
                                    only the schema (table_at) */

struct sqlock_adopter {
    uint32_t size;  /* sizeof(sqlock_adopter) when the driver was built; new slots go at the end */
    uint32_t flags; /* SQLOCK_ADOPT_... */

    /* Make a conn for opts->native, without I/O. Settings of the native connection stay as they
     * are. On failure nothing is left behind:
     * - SQLOCK_EREFUSED: the caller has another view of the client library (another sizeof, another
     *   copy of it)
     * - SQLOCK_EINVAL: native is NULL
     * - SQLOCK_ESTATE: it is not connected, or in a mode where answers do not follow their requests
     * - SQLOCK_ESYS, SQLOCK_ENOMEM */
    SQLOCK_EXPERIMENTAL int (*adopt)(const sqlock_adopt_opts *opts, void **out_conn,
                                     sqlock_error *err);
    /* Free conn. Do not look at native: the application may have closed it by then. */
    SQLOCK_EXPERIMENTAL void (*close)(void *conn);
    /* The transaction's state, as the client library knows it from the last answer; without I/O.
     * What the library cannot know is UNKNOWN, never a guess. */
    SQLOCK_EXPERIMENTAL sqlock_tx_state (*tx_state)(void *conn);
    /* A savepoint around the library's own statements. There is at most one; its name starts with
     * "sqlock_". Core calls SET and RELEASE in state ACTIVE, UNDO in ACTIVE or FAILED. Never while
     * IDLE: there SQLite would begin a transaction, and RELEASE would commit it. After 0 the state
     * is ACTIVE:
     * - SET: it stands
     * - RELEASE: it is gone; what was done since, row locks too, belongs to the transaction
     * - UNDO: it is gone, and what was done since; row locks may stay until the transaction ends
     *
     * After a failure tx_state() says:
     * - ACTIVE: after SET none stands, after RELEASE and UNDO it still does
     * - FAILED: the application must roll back
     * - IDLE: the database has ended the transaction
     * - UNKNOWN: the link is lost
     *
     * cancel() does not end it. */
    SQLOCK_EXPERIMENTAL int (*savepoint)(void *conn, sqlock_savepoint what, int64_t deadline,
                                         sqlock_error *err);
    /* Run a request of the dialect's in the transaction that is open: no begin, commit or rollback,
     * also for steps with SQLOCK_STEP_WRITE. Core has seen SQLOCK_TX_ACTIVE just before.
     * - Nothing stays in the session: no prepared statement, no setting, no handler.
     * - Nothing is under way at the return, else the application would read the answer as its own.
     *   At the deadline the driver cancels the statement and waits for its end: a round trip
     *   longer. If no end comes, it cuts the link. A statement that succeeded meanwhile counts as
     *   done.
     * - Before the application commits, nothing is applied. So SQLOCK_MAYBE means: a statement that
     *   writes was done, there was no room for its answer, and the change is in the transaction.
     * - SQLOCK_RECONNECT: the link is lost, and the transaction with it.
     * - What the application can still read about its own last statement is restored: last insert
     *   id, row count, warnings, error. The driver's README names what its client library cannot
     *   restore. */
    SQLOCK_EXPERIMENTAL int (*run)(void *conn, sqlock_stmt stmt, const sqlock_value *values,
                                   int64_t deadline, sqlock_rows *rows, sqlock_error *err);
    /* The same for a script that core has made for a table of the application's. values:
     * script->n_params of them, each of its own type. The server fits each to the column that it is
     * compared with or assigned to. script->params is not used. If placeholders are positional and
     * a step's order is NULL, they are the values in their order. */
    SQLOCK_EXPERIMENTAL int (*run_script)(void *conn, const sqlock_script *script,
                                          const sqlock_value *values, int64_t deadline,
                                          sqlock_rows *rows, sqlock_error *err);
    /* Let the run() or run_script() that is under way return soon with SQLOCK_ECANCELLED. If none
     * is, the next one does. A cancel is forgotten when one of them returns, also when its deadline
     * had passed and it sent nothing. Any thread. Must not block. */
    SQLOCK_EXPERIMENTAL void (*cancel)(void *conn);

    /* ---- optional */

    /* sqlock_driver.running for a conn. A driver with SQLOCK_CAP_RUNNING needs it, others may leave
     * it NULL. */
    SQLOCK_EXPERIMENTAL void (*running)(void *conn, char *out, size_t size);
};

#ifdef __cplusplus
}
#endif
#endif
