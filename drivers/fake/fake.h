/* The fake driver's own types: a database in memory, the script of its faults, connections to it.
 * Everything in a sqlock_fake, and in its connections all but `cancelled`, is guarded by its mutex.
 * Nobody sleeps holding it. */
#ifndef SQLOCK_FAKE_INTERNAL_H
#define SQLOCK_FAKE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include <sqlock/driver.h>
#include <sqlock/fake.h>

extern const sqlock_dialect sqlock_fake_dialect;

/* ---- the database (db.c) -------------------------------------------------------------------- */

#define FAKE_LIFT INT64_C(4294967296) /* of tokens, where the clock is behind them */

enum {
    FAKE_ENDED_RELEASED = 1,
    FAKE_ENDED_BROKEN = 2,
    FAKE_ENDED_REAPED = 3,
    FAKE_ENDED_TAKEN = 4
};

/* What stands in a row beside its key; schema/postgres/tables.sql tells the columns. */
enum { FAKE_BROKEN_MAX = 4 };
struct fake_state {
    int there; /* 0: before the row was made */
    int kind;
    int held; /* owner, exp and since are not NULL */
    unsigned char owner[SQLOCK_OWNER_SIZE];
    int64_t token;
    int64_t exp;
    int64_t since;
    int has_label;
    size_t label_len;
    unsigned char label[SQLOCK_LABEL_MAX];
    int has_ended; /* ended_owner is not NULL */
    unsigned char ended_owner[SQLOCK_OWNER_SIZE];
    int64_t ended_token;
    int ended_why;
    int has_withdrawn;                          /* withdrawn is not NULL */
    unsigned char withdrawn[SQLOCK_OWNER_SIZE]; /* whose request is granted nothing, if it comes */
    int64_t idle_since;                         /* of a free row */
    int64_t broken[FAKE_BROKEN_MAX]; /* tokens of the last grants that were broken; 0: none */
};

struct fake_row {
    size_t ns_len, name_len;
    unsigned char ns[SQLOCK_NAMESPACE_MAX];
    unsigned char name[SQLOCK_NAME_MAX];
    struct fake_state now;
    struct fake_state before; /* the last change: what a failover goes back to */
    int has_before;
};

/* A register, or a named row, which has no value. */
struct fake_value {
    int there; /* 0: before it was made */
    int64_t version;
    unsigned char writer[SQLOCK_OWNER_SIZE];
    unsigned char *data;
    size_t len;
};

struct fake_register {
    struct fake_register *next;
    size_t ns_len, name_len;
    unsigned char ns[SQLOCK_NAMESPACE_MAX];
    unsigned char name[SQLOCK_NAME_MAX];
    struct fake_value now;
    struct fake_value before; /* the last change: what a failover goes back to */
    int has_before;
};

/* The migration table. */
enum { FAKE_RECORDS_MAX = 16 };
struct fake_record {
    int64_t version;
    int64_t applied;
    char name[64];
    char checksum[40];
};
struct fake_ledger {
    size_t n;
    struct fake_record record[FAKE_RECORDS_MAX]; /* by version */
};

struct sqlock_fake {
    pthread_mutex_t mutex;
    int64_t clock_offset; /* microseconds from the machine's clock to the server's */
    int number;           /* of the server: its identity is "fake/<number>" */
    int down;

    int64_t version, min_reader, fence_floor, lost_at, longest; /* meta */
    char meta_server[64];
    struct fake_ledger ledger;
    int has_locks;          /* the lock table is there */
    struct fake_row **rows; /* by ns and name, bytewise */
    size_t n_rows, max_rows;
    struct fake_register *registers, *named;
    long seen[SQLOCK_STMT_COUNT];

    struct fake_fault *faults;
    int bad_fault; /* a fault could not be noted: no request may pass as if it were */
    struct fake_pending *pending; /* by due time */

    struct fake_conn *conns;
    struct fake_conn *migrator; /* holds migrate_lock until its transaction ends */
};

/* Requests of one kind, on their way through the server. */
struct fake_call {
    sqlock_fake *db;
    struct fake_conn *conn; /* NULL: nobody waits for the answer any more */
    sqlock_stmt stmt;
    const sqlock_value *values;
    size_t n;
    sqlock_rows *rows; /* NULL: the answer is lost */
    sqlock_error *err;
    int64_t now;    /* the server's clock */
    size_t request; /* the one that is being answered */
    int full;       /* not 0: there was no memory for its answer */
};

/* Lock the database, and first run what was due by now. */
void fake_enter(sqlock_fake *db);
void fake_leave(sqlock_fake *db);
/* The server's clock now. */
int64_t fake_clock(const sqlock_fake *db);
/* The schema's version as conn's transaction sees it; conn may be NULL. */
int64_t fake_version(const sqlock_fake *db, const struct fake_conn *conn);
/* The same for the records. */
const struct fake_ledger *fake_ledger_of(const sqlock_fake *db, const struct fake_conn *conn);
/* Record a migration, at once or with the transaction; done: and let the version be at least this.
 */
int fake_record_put(struct fake_call *call, const sqlock_value *version, const sqlock_value *name,
                    const sqlock_value *checksum, int done);
/* One statement of a migration, within conn's transaction. */
int fake_db_exec(struct fake_conn *conn, const char *sql, sqlock_error *err);
/* Make conn's transaction's changes. */
void fake_db_commit(struct fake_conn *conn);
/* The server's name for itself, and whether meta knows another one. */
void fake_identity(const sqlock_fake *db, char out[32]);
int fake_is_stranger(const sqlock_fake *db);

/* As memcmp, a shorter string before a longer one. */
int fake_bytes_order(const unsigned char *a, size_t a_len, const sqlock_value *b);
/* The same for a row's key. */
int fake_key_order(const struct fake_row *row, const sqlock_value *ns, const sqlock_value *name);
/* The place of the first row that is not before this key. */
size_t fake_row_place(const sqlock_fake *db, const sqlock_value *ns, const sqlock_value *name);
/* NULL: there is none. */
struct fake_row *fake_row_find(const sqlock_fake *db, const sqlock_value *ns,
                               const sqlock_value *name);
/* Make a row that is not there; from the floor, than which no token of a deleted row was larger. */
int fake_row_make(struct fake_call *call, const sqlock_value *ns, const sqlock_value *name,
                  struct fake_row **out);
/* Every change of a row goes through here, so that a failover can forget it. */
struct fake_state *fake_row_change(struct fake_row *row);
/* No token of a deleted row may be larger. */
void fake_floor_raise(sqlock_fake *db, int64_t token);
/* Delete a row, as a pruner does: the floor of tokens stays above it. */
void fake_row_vanish(sqlock_fake *db, const sqlock_value *ns, const sqlock_value *name);

/* ---- requests (request.c) ------------------------------------------------------------------- */

/* 1 if the values have the types that the request declares. */
int fake_values_fit(sqlock_stmt stmt, const sqlock_value *values, size_t n);
/* The values of one request of a batch; NULL: it has none. */
const sqlock_value *fake_values_of(const struct fake_call *call, size_t request);
/* Run a call on the database: 0, or the code of *call->err. */
int fake_db_run(struct fake_call *call);

/* Free a row and remember why, for its holder to be told. */
void fake_end_grant(const struct fake_call *k, struct fake_row *row, int why);

/* ---- requests that go through many rows (sweep.c) ------------------------------------------- */

int fake_run_list(struct fake_call *k, const sqlock_value *v);
int fake_run_sweep(struct fake_call *k, const sqlock_value *v);
int fake_run_reap(struct fake_call *k, const sqlock_value *v);
int fake_run_prune(struct fake_call *k, const sqlock_value *v);

/* ---- registers and named rows (register.c) -------------------------------------------------- */

int fake_run_ensure(struct fake_call *k, const sqlock_value *v);
int fake_run_register_get(struct fake_call *k, const sqlock_value *v);
int fake_run_register_set(struct fake_call *k, const sqlock_value *v);
void fake_register_vanish(sqlock_fake *db, const sqlock_value *ns, const sqlock_value *name);
/* The last change of each is forgotten. */
void fake_registers_go_back(sqlock_fake *db);
void fake_registers_free(sqlock_fake *db);

/* ---- answers (answer.c) --------------------------------------------------------------------- */

void fake_put_int(struct fake_call *k, int64_t i);
void fake_put_int_or_null(struct fake_call *k, int there, int64_t i);
void fake_put_bytes_or_null(struct fake_call *k, int there, const void *data, size_t len);
/* Index and outcome. Requests of a batch are run one after the other, so each is number 0 of its
 * own statement. */
void fake_start_row(struct fake_call *k, int outcome);
/* Index, outcome, token, left, now. */
void fake_put_lease(struct fake_call *k, int outcome, const struct fake_state *s);
/* since, label */
void fake_put_holder(struct fake_call *k, const struct fake_state *s);

/* ---- faults (fault.c) ----------------------------------------------------------------------- */

/* A request that the server runs when its time comes, whether or not somebody waits for it. */
struct fake_pending {
    struct fake_pending *next;
    int64_t due; /* by sqlock_now_us() */
    struct fake_call call;
    sqlock_error err;
    int rc;
    int done;              /* run, or gone with its server; whoever waits frees it */
    sqlock_value values[]; /* and behind them the bytes that they point to */
};

/* What happens to this call: NONE, or a fault with its delay. VANISH has happened already. */
sqlock_fault fake_fault_draw(const struct fake_call *call, int64_t *out_delay_us);
/* Let the call be run later, by whoever comes to the database first then. conn is who waits. */
int fake_pending_add(const struct fake_call *call, int64_t delay_us, struct fake_pending **out);
/* Nobody waits any more. The request is run all the same, unless it is forgotten here. */
void fake_pending_abandon(sqlock_fake *db, struct fake_pending *pending, int forget);
void fake_pending_run_due(sqlock_fake *db);
/* The server is gone with all that it had not run yet. */
void fake_pending_forget_all(sqlock_fake *db);
void fake_faults_free(sqlock_fake *db);

/* ---- connections (conn.c) ------------------------------------------------------------------- */

enum fake_link {
    FAKE_LINK_UP,
    FAKE_LINK_CUT, /* the client has not noticed: its next request goes nowhere */
    FAKE_LINK_DEAD /* the client was told */
};

/* A transaction is for migrations alone: what it changes waits here for the commit. What it does
 * not change it sees as others left it, who may have committed while it waited for migrate_lock. */
struct fake_tx {
    int open;
    int dropped;     /* the lock table with all of its rows */
    int created;     /* ... is there, after all */
    int has_version; /* version and records were changed */
    int64_t version;
    struct fake_ledger ledger;
};

struct fake_conn {
    sqlock_fake *db;
    struct fake_conn *next;
    enum fake_link link;
    struct fake_tx tx;
    int wake_fd;
    atomic_int cancelled; /* set by any thread, then wake_fd */
};

/* Break every link; calls that wait on them find out. */
void fake_cut_all(sqlock_fake *db);

#endif
