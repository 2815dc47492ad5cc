/* The seam between sqlock's core and a database, for those who write a driver.
 *
 * A driver moves bytes and classifies errors. It holds no lock logic: what is granted to whom is
 * decided by the statements in schema/<dialect>/statements.sql, which it runs as it is given them.
 * Core knows no dialect, a driver knows no lock: a database is added without touching core.
 *
 * Threads: a connection is used by one thread at a time, not always the same; only cancel() may be
 * called from another one meanwhile. Time: deadlines are microseconds of sqlock_now_us().
 *
 * Versions: core and a driver may be of two releases. Structs that start with their size grow at the
 * end only; who is given one reads no field that its size does not cover (SQLOCK_HAS_FIELD), and takes
 * what is not there for 0. Those without a size never change. Requests are appended to SQLOCK_STMTS.
 * When a manager is opened, core compares the driver's requests with its own, name and parameters:
 *   the driver lacks some   what needs them is refused (SQLOCK_EREFUSED), the rest works
 *   the driver has more     they are never asked for
 *   they differ             SQLOCK_EREFUSED
 * A driver is asked only for requests that its own dialect has, so an older one meets no number that
 * it does not know. */
#ifndef SQLOCK_DRIVER_H
#define SQLOCK_DRIVER_H

#include <sqlock/sqlock.h>
#include <sqlock/value.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 1: the struct at p, which starts with its size, has this field. Of those in the first release it need
 * not be asked. */
#define SQLOCK_HAS_FIELD(p, field)                                                                 \
    ((size_t)((const char *)(&(p)->field + 1) - (const char *)(p)) <= (p)->size)

/* ---- requests --------------------------------------------------------------------------------- */

/* Every request: its enum, its block in statements.sql, its parameters in order (b: bytes or NULL,
 * t: the same, for a column of text, in UTF-8; i: integer). The build reads this list and fails when a dialect lacks a block or uses a parameter
 * that is not here. Times are microseconds, whatever a dialect stores. */
#define SQLOCK_STMTS(X)                                                                            \
    X(HANDSHAKE, "handshake", "i:accept_weak")                                                             \
    X(REINCARNATE, "reincarnate", "b:server i:lift i:floor")                                       \
    X(LONGEST, "longest", "i:ttl")                                                                 \
    X(ACQUIRE, "acquire", "b:ns b:name b:owner i:ttl i:not_after i:grace b:label")                 \
    X(GUARDED, "guarded", "b:ns b:name b:owner")                                                   \
    X(RENEW, "renew", "b:ns b:name b:owner i:token i:ttl i:not_after")                             \
    X(RELEASE, "release", "b:ns b:name b:owner i:token")                                           \
    X(WITHDRAW, "withdraw", "b:ns b:name b:owner i:not_after")                                     \
    X(BREAK, "break", "b:ns b:name i:token")                                                       \
    X(LIST, "list", "b:ns b:after b:prefix i:free i:limit")                                        \
    X(SWEEP, "sweep", "b:ns b:after b:own i:grace i:idle i:limit")                                 \
    X(REAP, "reap", "b:ns b:name b:to_ns b:to b:own i:cut i:limit")                                \
    X(PRUNE, "prune", "b:ns b:name i:cut i:floor")                                                 \
    X(MIGRATE_LOCK, "migrate_lock", "")                                                            \
    X(MIGRATE_VERSION, "migrate_version", "i:changes")                                             \
    X(MIGRATE_RECORD, "migrate_record", "i:version t:name t:checksum i:done")                      \
    X(MIGRATE_LEDGER, "migrate_ledger", "i:changes")                                               \
    X(MIGRATE_DIFFER, "migrate_differ", "")                                                        \
    X(MIGRATE_CLOSE, "migrate_close", "")                                                          \
    X(MIGRATE_HELD, "migrate_held", "b:ns")                                                        \
    X(MIGRATE_LEASE, "migrate_lease", "b:ns b:name b:owner i:ttl b:label")                         \
    X(MIGRATE_AROUND, "migrate_around", "")                                                        \
    X(GUARD, "guard", "b:ns b:name b:owner i:token i:ttl")                                         \
    X(PROBE, "probe", "b:ns b:name i:token")                                                       \
    X(ENSURE, "ensure", "b:ns b:name")                                                             \
    X(REGISTER_GET, "register_get", "b:ns b:name")                                                 \
    X(REGISTER_SET, "register_set", "b:ns b:name b:value i:expected b:writer i:not_after i:above")   \
    X(TABLE_KEY, "table_key", "t:schema t:table")                                                  \
    X(TABLE_AT, "table_at", "")                                                                    \
    X(ROW_LOCK, "row_lock", "")                                                                    \
    X(TABLE_VERSION, "table_version", "t:schema t:table t:column")                                 \
    X(VERSION_INTEGER, "version_integer", "")                                                      \
    X(VERSION_TIMESTAMP, "version_timestamp", "")                                                  \
    X(CAS_UPDATE, "cas_update", "")                                                                \
    X(CAS_DELETE, "cas_delete", "")                                                                \
    X(CAS_INSERT, "cas_insert", "")                                                                \
    X(CAS_MET, "cas_met", "")                                                                      \
    X(FENCE, "fence", "")                                                                          \
    X(SESSION, "session", "")                                                                      \
    X(BLOCKERS, "blockers", "i:session t:schema t:table")                                          \
    X(LEASE, "lease", "b:ns b:name b:owner i:token")                                               \
    X(BREAK_NOTED, "break_noted", "b:ns b:name i:token")                                           \
    X(WAS_BROKEN, "was_broken", "b:ns b:name i:token")

typedef enum sqlock_stmt {
#define SQLOCK_STMT_ENUM(id, block, params) SQLOCK_STMT_##id,
    SQLOCK_STMTS(SQLOCK_STMT_ENUM)
#undef SQLOCK_STMT_ENUM
        SQLOCK_STMT_COUNT
} sqlock_stmt;

/* What a request came to: column `outcome` of its answer. Kept as numbers in the statements. */
typedef enum sqlock_outcome {
    SQLOCK_OUT_NONE = 0,      /* no row came: ask again */
    SQLOCK_OUT_DONE = 1,      /* granted, renewed, released, broken, made, read, changed */
    SQLOCK_OUT_HELD = 2,      /* someone else's lease runs; token, left, since, label are theirs */
    SQLOCK_OUT_SKIPPED = 3,   /* would be possible, but the row is locked, or was when we looked */
    SQLOCK_OUT_LATE = 4,      /* the server's clock had passed not_after: nothing was done */
    SQLOCK_OUT_RELEASED = 5,  /* this owner's grant was released before */
    SQLOCK_OUT_BROKEN = 6,    /* ... was broken by an operator */
    SQLOCK_OUT_REAPED = 7,    /* ... ran out and was swept away */
    SQLOCK_OUT_TAKEN = 8,     /* ... ran out and was taken over; or others came since, and nobody
                                 can tell how it ended */
    SQLOCK_OUT_GONE = 9,      /* the row is not there */
    SQLOCK_OUT_EXPIRED = 10,  /* ... ran out; granted to nobody since */
    SQLOCK_OUT_KIND = 11,     /* the row is of a kind that this version does not know */
    SQLOCK_OUT_GUARDED = 12,  /* an open transaction guards the row */
    SQLOCK_OUT_STRANGER = 13, /* the server is not the one that meta knows: handshake again */
    SQLOCK_OUT_NEVER = 14,    /* no sign of this owner */
    SQLOCK_OUT_EARLY = 15,    /* ... yet: what it asked may still arrive, until not_after */
    SQLOCK_OUT_IDLE = 16,     /* free for so long that its row may go */
    SQLOCK_OUT_STALE = 17,    /* the transaction's snapshot is too old to tell */
    SQLOCK_OUT_CONFLICT = 18, /* the version is another one than expected: nothing was done */
    SQLOCK_OUT_GRACE = 19,    /* commits may be missing here, and who was granted the lock by one may still
                                 believe in it: for `left` */
    SQLOCK_OUT_READONLY = 20, /* handshake: a replica or a read-only session */
    SQLOCK_OUT_WEAK = 21,     /* handshake: commits may be forgotten after a crash; detail says why */
    SQLOCK_OUT_UNFIT = 22,    /* handshake, migrate_version, migrate_ledger: a setting or table makes it unsafe;
                                 detail says which */
    SQLOCK_OUT_DENIED = 23,   /* handshake: a right is missing; detail says which */
    SQLOCK_OUT_BEHIND = 25    /* reincarnate: the server's clock is behind tokens that were drawn */
} sqlock_outcome;

/* Columns of an answer. Every answer starts with index (the request's number within an array
 * statement, else 0) and outcome. A dialect may leave trailing columns away: they read as NULL. */
enum { SQLOCK_COL_INDEX = 0, SQLOCK_COL_OUTCOME = 1 };
/* acquire, guarded, renew, release, withdraw, break, break_noted, lease, guard (which has no label, see
 * SQLOCK_COL_GUARDS_PLACE), list (which goes on with name and owner) */
enum {
    SQLOCK_COL_TOKEN = 2, /* of the grant made or in the row */
    SQLOCK_COL_LEFT = 3,  /* of its lease */
    SQLOCK_COL_NOW = 4,   /* the server's clock */
    SQLOCK_COL_SINCE = 5, /* when it was granted */
    SQLOCK_COL_LABEL = 6, /* of its holder */
    SQLOCK_COL_NAME = 7,
    SQLOCK_COL_OWNER = 8
};
/* sweep: token, left, now, since, label and name as above. The row with outcome DONE is the page itself: its token
 * is the number of rows, its name and namespace are those of the last one. reap: one row, its token is the number
 * of rows freed. */
enum { SQLOCK_COL_NS = 8 };
/* register_get, register_set: NULL between the version and now (SQLOCK_COL_NOW) */
enum {
    SQLOCK_COL_REGISTER = 2, /* the version that it has now; 0: there is no such register */
    SQLOCK_COL_VALUE = 5
};
/* handshake, migrate_version */
enum {
    SQLOCK_COL_VERSION = 2,    /* of the schema; 0: none */
    SQLOCK_COL_MIN_READER = 3, /* the oldest generation of libraries that may use it */
    SQLOCK_COL_HANDSHAKE_NOW = 4,
    SQLOCK_COL_SAME = 5,   /* 1: meta's server is this server */
    SQLOCK_COL_SERVER = 6, /* the server's identity now */
    SQLOCK_COL_DETAIL = 7, /* for READONLY, WEAK, UNFIT, DENIED: what it is */
    SQLOCK_COL_PLACE = 7,  /* else, or not there: the schema that a connection has for its own */
    SQLOCK_COL_RUNNING = 8, /* the server that is running, and the database, for guards; NULL: not told */
    SQLOCK_COL_LONGEST = 9, /* no lease was longer; NULL: that is not kept */
    SQLOCK_COL_ABOVE = 10   /* every token from now on is larger; NULL: they follow the clock */
};
/* reincarnate: DONE or BEHIND */
enum {
    SQLOCK_COL_FLOOR = 2,     /* every token from now on is larger */
    SQLOCK_COL_BEHIND_BY = 3  /* BEHIND: by how much the clock is behind it */
};
/* guard: what SQLOCK_COL_RUNNING is on the application's connection; with every answer */
enum { SQLOCK_COL_GUARDS_PLACE = 6 };
/* migrate_ledger: a row for each record, behind SQLOCK_COL_VERSION; or UNFIT, with SQLOCK_COL_DETAIL */
enum {
    SQLOCK_COL_TITLE = 3,    /* the migration's name */
    SQLOCK_COL_CHECKSUM = 4, /* of the file that was applied */
    SQLOCK_COL_APPLIED = 5   /* when */
};
/* migrate_differ: a row for each difference */
enum {
    SQLOCK_COL_THERE = 2,      /* 0: the whole table is missing */
    SQLOCK_COL_DIFFERENCE = 3, /* in words */
    SQLOCK_COL_MADE_BY = 4      /* the migration that makes the table */
};
/* migrate_held: no row, or one */
enum {
    SQLOCK_COL_HELD = 2,     /* how many leases run */
    SQLOCK_COL_HELD_NAME = 3 /* the name of one of them */
};

/* table_key: a row for each column of each index that may be a key's; one row, with nothing in it,
 * where there is no such index. UNFIT, with SQLOCK_COL_DETAIL: the table or the server does not do */
enum {
    SQLOCK_COL_KEY = 2,    /* the index, by its name in the table */
    SQLOCK_COL_COLUMN = 3, /* NULL: of something else than a column's whole value */
    SQLOCK_COL_FITS = 4,   /* letters: values that are looked up in it, and do not read the whole
                              index. i: integers, b: bytes, t: texts; m: texts without characters of
                              four bytes, a: of ASCII alone */
    SQLOCK_COL_INSTANT = 5, /* 1: the server can tell that a row is locked without waiting for it. 2: and
                               rows may be hidden from who locks them, so that it has to be told so */
    SQLOCK_COL_WHERE = 6,   /* the schema that the table was found in; NULL: not told */
    SQLOCK_COL_COMPARES = 8, /* the index's collation, where the column's may be another; NULL: is the
                                column's */
    SQLOCK_COL_EQUALS = 9    /* the operator by which it finds a value; NULL: `=` */
};
/* table_at */
enum { SQLOCK_COL_AT = 2 /* the schema where the connection finds tables; NULL: none */ };

/* table_version: one row, or none where there is no such column. UNFIT, with SQLOCK_COL_DETAIL */
enum {
    SQLOCK_COL_TIMESTAMP = 2, /* 0: the column is an integer, 1: a timestamp with microseconds */
    SQLOCK_COL_MOST = 3       /* the largest integer that it can hold */
};
/* cas_update, cas_delete, cas_insert, cas_met, fence: the version, as an integer or NULL. NONE: a look at
 * the row, once it is locked; what it showed is {seen} for the steps that follow */
enum { SQLOCK_COL_SEEN = 2 };

/* session */
enum { SQLOCK_COL_SESSION = 2 /* the number by which blockers knows this session */ };
/* blockers: a row for each session that is in the way */
enum {
    SQLOCK_COL_BLOCKER = 2, /* its number */
    SQLOCK_COL_OPEN = 3,    /* for how long its transaction has been open; NULL: not told */
    SQLOCK_COL_ABOUT = 4    /* a text about it, for people */
};

/* ---- values and rows -------------------------------------------------------------------------- */

/* An answer's rows. Core makes and frees them, a driver fills them; bytes are copied. Each returns 0
 * or SQLOCK_ENOMEM, which the driver hands on as an error of its request. */
typedef struct sqlock_rows sqlock_rows;
SQLOCK_API int sqlock_rows_add(sqlock_rows *rows, size_t request); /* start a row for a request */
SQLOCK_API int sqlock_rows_put_null(sqlock_rows *rows);
SQLOCK_API int sqlock_rows_put_int(sqlock_rows *rows, int64_t i);
SQLOCK_API int sqlock_rows_put_bytes(sqlock_rows *rows, const void *data, size_t len);
/* Forget the rows from number n on: what a statement answered before it failed. */
SQLOCK_API void sqlock_rows_cut(sqlock_rows *rows, size_t n);
SQLOCK_API size_t sqlock_rows_count(const sqlock_rows *rows);

/* ---- dialects --------------------------------------------------------------------------------- */

#define SQLOCK_ORDER_INDEX 255 /* in order[]: not a parameter, but the request's number */
#define SQLOCK_STEP_WRITE 0x1u /* this step and those after it run in one write transaction */
#define SQLOCK_STEP_HEARS 0x4u /* on an adopted conn: this step waits rather than works, and a cancel() is to end
                                  it within half a second or so, also where that costs its place in a queue */
#define SQLOCK_STEP_ASIDE 0x2u /* what this step does is not yet what the request asks for: when it
                                  fails, SQLOCK_MAYBE is not set */

/* One statement; for a driver that can, several with `;` between them, which it sends in one packet
 * and of which the last one's rows count. Placeholders are numbered as the parameters of the request
 * ($2, ?2), or positional (?) with order[] telling which parameter, from 0, stands at each. In an array
 * step with positional ones, what stands between a comment "each SEPARATOR" and a comment "end" is
 * written once for each request, with the separator between; all placeholders stand within. */
typedef struct sqlock_step {
    const char *sql;
    const uint8_t *order; /* NULL: numbered */
    uint8_t n_order;
    uint8_t flags; /* SQLOCK_STEP_... */
} sqlock_step;

/* A request's steps, run in order. The first step that returns a row ends the script, and its rows
 * are the answer; a script may end without rows. Steps stand alone (autocommit) unless
 * SQLOCK_STEP_WRITE puts them into a transaction. */
typedef struct sqlock_script {
    const char *name;
    const char *params; /* "b:ns b:name ..." */
    uint8_t n_params;
    uint8_t n_steps;
    uint8_t n_array_steps;          /* 0: requests of a batch run one after the other */
    const sqlock_step *steps;       /* for one request */
    const sqlock_step *array_steps; /* for many: each parameter is an array with an element each */
} sqlock_script;

/* A migration: statements, one each, of migrations/<dialect>/NNN_name.{up,down}.sql. */
typedef struct sqlock_migration {
    int version;
    const char *name;
    const char *checksum; /* of the up file: the first 16 hex digits of its SHA-256 */
    const char *const *up;
    size_t n_up;
    const char *const *down;
    size_t n_down;
} sqlock_migration;

/* All texts hold {lock} and the other tables' names, {schema} and {prefix}; core puts quoted and
 * qualified names there before a driver sees them. The texts of migrate_around are never run: they stand
 * before and behind migrations that are written out. */
typedef struct sqlock_dialect {
    uint32_t size; /* sizeof(sqlock_dialect) */
    const char *name;
    char quote;                   /* around identifiers: '"' or '`' */
    const char *default_schema;   /* "public", "main"; "": that of the connection */
    int fixed_schema;             /* 1: no other schema is possible */
    const sqlock_script *scripts; /* n_scripts of them, in the order of the enum */
    const sqlock_migration *migrations;
    size_t n_migrations;
    size_t n_scripts; /* SQLOCK_STMT_COUNT when the driver was built */
    char placeholder; /* of parameters, in texts that core makes: '$' ($1, $2), '?' (positional) */
} sqlock_dialect;

/* ---- the driver ------------------------------------------------------------------------------- */

#define SQLOCK_CONN_MAKE 0x10000u /* for migrations: a database that is a file is made if it is absent */

typedef struct sqlock_conn_opts {
    uint32_t size;
    unsigned flags;            /* SQLOCK_OPEN_UNPREPARED, SQLOCK_CONN_MAKE */
    const char *url; /* its scheme, one of the driver's, in lower case; NULL where connect is given */
    sqlock_connect_fn connect; /* makes the native connection; the driver closes it */
    void *connect_user;
    const sqlock_script *scripts; /* rendered; they outlive the connection */
    int wake_fd; /* open() ends with SQLOCK_ECANCELLED when it becomes readable; -1, or no such field:
                    none */
    uint32_t host; /* which of the URL's hosts, from 1, to connect to, and to no other; 0, or no such
                      field: it has one */
} sqlock_conn_opts;

/* What a URL says of the servers that it leads to. */
typedef struct sqlock_hosts {
    uint32_t size;   /* sizeof(sqlock_hosts) of who asks */
    uint32_t n;      /* how many */
    int64_t each_us; /* no longer for one of them; 0: not said */
} sqlock_hosts;

/* What of a driver is optional: a bit in caps, and the slots that it stands for. Core refuses a driver
 * that has the bit and lacks a slot (SQLOCK_EINVAL, when a manager is opened), never calls a slot
 * whose bit is off, and refuses what would need it; it emulates nothing. */
#define SQLOCK_CAP_TX_DDL 0x1u /* no slot. DDL is transactional: a migration is one transaction, and
                                  migrate_lock keeps others out of it. Without it each statement can
                                  be repeated, and migrate_lease keeps others out */
#define SQLOCK_CAP_ADOPT 0x8u  /* adopt, tx_state, savepoint, ask */
#define SQLOCK_CAP_SPOILS 0x10u /* no slot. A statement that fails spoils its transaction until a
                                   rollback: core puts a savepoint around its own on an adopted conn */

#define SQLOCK_CAP_ONE_WRITER 0x20u /* no slot. A write transaction keeps all other writers out: a guard
                                       keeps out the holder's renewals too, and has to extend the lease */

#define SQLOCK_CAP_BESIDE 0x40u /* no slot. To look into the catalogue makes a transaction's snapshot: core
                                   does that on a connection of its own, and asks the adopted one for
                                   its schema alone (table_at) */
#define SQLOCK_CAP_WHOLE_URL 0x80u /* whole_url */
#define SQLOCK_CAP_RUNNING 0x100u  /* running */
#define SQLOCK_CAP_HOSTS 0x200u    /* hosts */

/* A connection of the application's, to be adopted. */
typedef struct sqlock_adopt_opts {
    uint32_t size;
    void *native; /* PGconn *, MYSQL *, sqlite3 *: borrowed; no other thread uses it during a call */
    /* The caller's own view of the client library, taken where the caller was compiled. */
    size_t native_size;     /* sizeof what native points to (MYSQL); 0: the type is opaque */
    void (*library)(void);  /* one of its functions (sqlite3_libversion_number, mysql_init, PQlibVersion)
                               as the caller's program calls it; NULL: not told */
    const sqlock_script *scripts; /* rendered; they outlive the connection */
} sqlock_adopt_opts;

typedef enum sqlock_tx_state {
    SQLOCK_TX_UNKNOWN = 0, /* a request is under way, an answer has not been read, the link is down */
    SQLOCK_TX_IDLE = 1,    /* no transaction is open */
    SQLOCK_TX_ACTIVE = 2,  /* one is open, and the next statement runs in it */
    SQLOCK_TX_FAILED = 3   /* one is open, and refuses everything but an end or a rollback to a savepoint */
} sqlock_tx_state;

typedef enum sqlock_savepoint {
    SQLOCK_SAVEPOINT_SET = 1,
    SQLOCK_SAVEPOINT_RELEASE = 2, /* keep what was done since */
    SQLOCK_SAVEPOINT_UNDO = 3     /* roll back to it, then release it */
} sqlock_savepoint;

/* How each slot fails: with a negative SQLOCK_E code and *err filled (err is never NULL here), by
 * sqlock_error_db() where the database or client library said so. err->flags must then hold
 *   SQLOCK_RECONNECT  the connection must not be used again; core will close it
 *   SQLOCK_MAYBE      the request was sent and may have been applied (a reply lost, a deadline or
 *                     cancel after sending); never set when it certainly was not
 * A write is confirmed only when its commit is. After a failure without SQLOCK_RECONNECT the
 * connection is outside any transaction and fit for the next call; an adopted one is in that of the
 * application, and tx_state() tells what has become of it. */
struct sqlock_driver {
    uint32_t size; /* sizeof(sqlock_driver) when the driver was built; new slots go at the end */
    uint32_t caps; /* SQLOCK_CAP_... */
    const char *name;
    const char *schemes; /* of URLs, in lower case, blank between: "postgres postgresql" */
    const sqlock_dialect *dialect;

    /* Connect until deadline at the latest (name resolution may take longer). Sets what the dialect's
     * statements rely on (isolation, durability) for the session. On failure nothing is left behind. */
    int (*open)(const sqlock_conn_opts *opts, int64_t deadline, void **out_conn, sqlock_error *err);
    /* Close; no I/O that can block for long. conn is never NULL. */
    void (*close)(void *conn);
    /* Run a request n times: values holds n * n_params values, the first request's first. Answers go
     * to rows, with the request's number; none is there for requests that answered nothing. Returns
     * at deadline at the latest. Either all requests of the batch are answered for, or it fails. Then
     * rows have at most answers of requests that have been committed each by themselves, from the
     * first one on without a gap; of renewals these count. */
    int (*run)(void *conn, sqlock_stmt stmt, const sqlock_value *values, size_t n, int64_t deadline,
               sqlock_rows *rows, sqlock_error *err);
    /* One statement of a migration, without parameters and without rows. */
    int (*exec)(void *conn, const char *sql, int64_t deadline, sqlock_error *err);
    /* A write transaction around migrations. */
    int (*begin)(void *conn, int64_t deadline, sqlock_error *err);
    int (*commit)(void *conn, int64_t deadline, sqlock_error *err);
    int (*rollback)(void *conn, int64_t deadline, sqlock_error *err);
    /* Make the run() that is under way on conn return soon with SQLOCK_ECANCELLED, or, if none is,
     * the next one; it is forgotten when a run() returns, also one whose deadline had passed and
     * which sent nothing. Any thread; must not block. */
    void (*cancel)(void *conn);

    /* ---- optional: all that follow, by their bits in caps. They may still change. */

    /* SQLOCK_CAP_ADOPT: work in a transaction of the application's (P14).
     * adopt: a conn for opts->native, without I/O; what was set on it stays as it is. Fails with
     * SQLOCK_EREFUSED when the caller's view of the client library is not the driver's own (another
     * sizeof, another copy), SQLOCK_EINVAL (native is NULL), SQLOCK_ESTATE (not connected, or in a mode
     * in which one request cannot be answered before the next), SQLOCK_ESYS, SQLOCK_ENOMEM; nothing is
     * left behind.
     * Of the slots above an adopted conn is given to run, cancel and close only:
     * - run sends no begin, commit or rollback: steps run in the transaction that is open, those with
     *   SQLOCK_STEP_WRITE too. The caller has seen SQLOCK_TX_ACTIVE just before. Nothing is left in the
     *   session: no prepared statement, no setting, no handler. Nothing is under way when it returns,
     *   for the application would read the answer as its own: at the deadline the statement is cancelled
     *   and its end awaited, a round trip longer, or until the link is cut because no end comes. One that
     *   ended well meanwhile is told as done. SQLOCK_RECONNECT: the link is spent, the transaction
     *   gone. Nothing is applied before the application commits; so SQLOCK_MAYBE means that a statement
     *   which writes was done, and its answer could not be kept: the change is in the transaction.
     *   What the application may still ask about its own last statement (last insert id, row count,
     *   warnings, error) is given back as it was; the driver's README names what its client library
     *   has no way to give back.
     * - close frees conn and does not look at native, which may be closed by then. */
    SQLOCK_EXPERIMENTAL int (*adopt)(const sqlock_adopt_opts *opts, void **out_conn,
                                     sqlock_error *err);
    /* The transaction's state, as the client library knows it from the last answer; without I/O. A
     * state that the library cannot tell is UNKNOWN, never a guess. */
    SQLOCK_EXPERIMENTAL sqlock_tx_state (*tx_state)(void *conn);
    /* A savepoint around the library's own statements; at most one, of a name that starts with
     * "sqlock_". SET and RELEASE are called in state ACTIVE, UNDO in ACTIVE or FAILED; never while
     * IDLE, where SQLite would begin a transaction and RELEASE commit it. After 0 the state is ACTIVE:
     *   SET      it stands
     *   RELEASE  it is gone; what was done since, row locks too, belongs to the transaction
     *   UNDO     it is gone, and what was done since; row locks may stay until the transaction ends
     * After a failure tx_state tells: ACTIVE (SET: none stands; else: it still does), FAILED (the
     * application has to roll back), IDLE (the database has ended the transaction), UNKNOWN.
     * cancel() does not cut it. */
    SQLOCK_EXPERIMENTAL int (*savepoint)(void *conn, sqlock_savepoint what, int64_t deadline,
                                         sqlock_error *err);
    /* run() on an adopted conn, of a script that is not one of the dialect's, for one request: it is
     * about a table of the application's. values: script->n_params of them, each of its own type, which
     * the server fits to the column that it is compared with or assigned to; script->params is not
     * used. Where placeholders are positional and a step's order is NULL, they are the values in their
     * order. */
    SQLOCK_EXPERIMENTAL int (*ask)(void *conn, const sqlock_script *script,
                                   const sqlock_value *values, int64_t deadline,
                                   sqlock_rows *rows, sqlock_error *err);

    /* SQLOCK_CAP_WHOLE_URL: a URL may mean another database when the program has changed something of
     * itself, as its directory. Core asks once, when a manager or a migrator is made, for one that goes
     * on to mean what this one means now, and opens each connection by that. Without I/O on the
     * database. *out_url is sqlock_mem_alloc()ed, and core's to free. */
    SQLOCK_EXPERIMENTAL int (*whole_url)(const char *url, char **out_url, sqlock_error *err);

    /* SQLOCK_CAP_RUNNING: which database a connection is on, in a text that no other has: for a driver
     * whose dialect cannot tell it (SQLOCK_COL_RUNNING). Adopted connections too; without a request. */
    SQLOCK_EXPERIMENTAL void (*running)(void *conn, char *out, size_t size);

    /* SQLOCK_CAP_HOSTS: a URL may name several servers, of which one grants at a time. Core asks once, when a
     * manager or a migrator is made, and goes from one to the next by itself (sqlock_conn_opts.host). A URL that
     * cannot be read has one: open() tells what is wrong with it. Without I/O on the database. Fails with
     * SQLOCK_ENOMEM alone. */
    SQLOCK_EXPERIMENTAL int (*hosts)(const char *url, sqlock_hosts *out, sqlock_error *err);
};

/* ---- what core lends to drivers --------------------------------------------------------------- */

/* Fill err and return code. fmt as for printf; the text is cut to fit. */
SQLOCK_API int sqlock_error_set(sqlock_error *err, int code, unsigned flags, const char *fmt, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 4, 5)))
#endif
    ;
/* Fill err for an error of the database, return its code: SQLSTATE tells code and SQLOCK_RETRY by one
 * table in core; flags are added. */
SQLOCK_API int sqlock_error_db(sqlock_error *err, const char *sqlstate, long native, unsigned flags,
                               const char *text);
/* A number for this process, never 0: a child of fork() has another one, also where its pid is the
 * same (a new pid namespace). Takes no mutex. Any thread. */
SQLOCK_API int64_t sqlock_process_id(void);
/* Sleep so long; drivers of in-process databases wait between tries with it. */
SQLOCK_API void sqlock_sleep_us(int64_t us);
/* Uniform random number in [0, below); for jitter. */
SQLOCK_API uint32_t sqlock_random_below(uint32_t below);
/* Memory by the library's allocator. free accepts NULL. */
SQLOCK_API void *sqlock_mem_alloc(size_t size); /* zeroed; NULL when there is none */
SQLOCK_API void *sqlock_mem_resize(void *p, size_t size);
SQLOCK_API void sqlock_mem_free(void *p);

/* A descriptor to wake a poll() from another thread (eventfd). make: >= 0 or SQLOCK_ESYS. */
SQLOCK_API int sqlock_wake_make(void);
SQLOCK_API void sqlock_wake_set(int fd);
SQLOCK_API void sqlock_wake_clear(int fd);
SQLOCK_API void sqlock_wake_close(int fd);
/* Wait until fd is ready for the poll() events, wake_fd (or -1) is set, or the deadline.
 * Returns 1 ready, 2 woken, 0 deadline, SQLOCK_ESYS. */
SQLOCK_API int sqlock_wait_fd(int fd, int events, int wake_fd, int64_t deadline);

#ifdef __cplusplus
}
#endif
#endif
