/* What the files of the fake driver share: a database in memory, the script of its faults,
 * connections to it. Its mutex guards everything in a sqlock_fake, and in its connections
 * everything except `cancelled`. No thread sleeps while it has the mutex. */
#ifndef SQLOCK_FAKE_INTERNAL_H
#define SQLOCK_FAKE_INTERNAL_H

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>

#include <sqlock/driver.h>
#include <sqlock/fake.h>

extern const sqlock_dialect sqlock_fake_dialect;

/* ---- the database (db.c) -------------------------------------------------------------------- */

enum { FAKE_STEPS_MAX = 16 };

struct sqlock_fake {
    pthread_mutex_t mutex;
    int64_t clock_offset; /* microseconds from the machine's clock to the server's */
    int number;           /* of the server: its identity is "fake/<number>" */
    int down;
    long seen[SQLOCK_STMT_COUNT];

    sqlite3 *sql;    /* one for all connections */
    int64_t sql_now; /* the server's clock for the statement that runs */
    int64_t commits; /* so many were made, or begun */
    sqlite3_stmt *steps[SQLOCK_STMT_COUNT][FAKE_STEPS_MAX]; /* prepared when first needed */
    sqlite3_stmt *begin, *commit;
    struct fake_conn *owner; /* of the open transaction; all others wait for its end */

    struct fake_fault *faults;
    int bad_fault;                /* a fault could not be noted: no request may pass without it */
    struct fake_pending *pending; /* by due time */

    struct fake_conn *conns;
};

/* Requests of one kind, on their way through the server. */
struct fake_call {
    sqlock_fake *db;
    struct fake_conn *conn; /* NULL: no call waits for the answer any more */
    sqlock_stmt stmt;
    const sqlock_value *values;
    size_t n;
    sqlock_rows *rows; /* NULL: the answer is lost */
    sqlock_error *err;
    int64_t now; /* the server's clock */
};

/* Lock the database, and first run the requests that are due. */
void fake_enter(sqlock_fake *db);
void fake_leave(sqlock_fake *db);
/* The server's clock now. */
int64_t fake_clock(const sqlock_fake *db);
/* Statements without parameters and rows. */
int fake_exec(sqlock_fake *db, const char *sql, sqlock_error *err);
/* After migrations: from now on note what each row was before its last change, so that a failover
 * can forget that change. */
void fake_watch_tables(sqlock_fake *db);

/* ---- requests (request.c) ------------------------------------------------------------------- */

/* 1 if the values have the types that the request declares. */
int fake_values_fit(sqlock_stmt stmt, const sqlock_value *values, size_t n);
/* The values of one of the requests. */
const sqlock_value *fake_values_of(const struct fake_call *call, size_t request);
/* Run the requests and put their rows, in a transaction of their own unless one is open. */
int fake_db_run(struct fake_call *call);
/* Delete the register and the row of this key. As with pruning, the floor of tokens stays above the
 * row. */
void fake_vanish(sqlock_fake *db, const sqlock_value *key);
/* Fill err for SQLite's result of the last call, and return its code. */
int fake_sql_error(sqlock_fake *db, int result, sqlock_error *err);

/* ---- faults (fault.c) ----------------------------------------------------------------------- */

/* A request that the server runs when its time comes, whether or not a call waits for it. */
struct fake_pending {
    struct fake_pending *next;
    int64_t due; /* by sqlock_now_us() */
    struct fake_call call;
    sqlock_error err;
    int rc;
    int done;              /* run, or gone with its server; a call that waits frees it */
    sqlock_value values[]; /* followed by the bytes that they point to */
};

/* What happens to this call: NONE, or a fault with its delay. VANISH has happened already. */
sqlock_fault fake_fault_draw(const struct fake_call *call, int64_t *out_delay_us);
/* Let the call run later, at the first entry into the database after that time. conn is the one
 * that waits. */
int fake_pending_add(const struct fake_call *call, int64_t delay_us, struct fake_pending **out);
/* No call waits any more. The request runs all the same, unless it is forgotten here. */
void fake_pending_abandon(sqlock_fake *db, struct fake_pending *pending, int forget);
/* While a transaction is open, only what is part of it. */
void fake_pending_run_due(sqlock_fake *db);
/* The server is gone with all that it had not run yet. */
void fake_pending_forget_all(sqlock_fake *db);
void fake_faults_free(sqlock_fake *db);

/* ---- connections (conn.c) ------------------------------------------------------------------- */

enum fake_link {
    FAKE_LINK_UP,
    FAKE_LINK_CUT, /* the client has not noticed: its next request goes nowhere */
    FAKE_LINK_DEAD /* the client knows */
};

/* A request that the server has, while its client waits for the answer. */
struct fake_wait {
    int on, in_tx;
    int64_t until;                /* the answer comes then; the rest says which */
    struct fake_pending *pending; /* the request runs then; NULL: it has run */
    int rc;
    sqlock_error err;
};

struct fake_conn {
    sqlock_fake *db;
    struct fake_conn *next;
    enum fake_link link;
    int wake_fd;
    unsigned doubt; /* SQLOCK_MAYBE, if a lost answer to the present call leaves one */
    uint64_t call;  /* that is under way; 0: none that can be cancelled */
    int pauses;
    struct fake_wait wait;
    _Atomic uint64_t cancelled; /* a call's number: set by any thread, then wake_fd */
};

/* Break every link. Calls that wait on them notice. */
void fake_cut_all(sqlock_fake *db);

#endif
