/* The requests that core sends, and the columns of their answers. For those who write a driver or a
 * dialect's statements.
 *
 * New requests are appended. The parameters of a request never change. sqlock/driver.h says how
 * core and a driver of two releases meet. */
#ifndef SQLOCK_REQUEST_H
#define SQLOCK_REQUEST_H

#ifdef __cplusplus
extern "C" {
#endif

/* What a request is: bits of sqlock_script.flags. A driver acts by the first three, core by all.
 * - READS: it changes nothing, and no lock that it takes stays.
 * - HARMLESS: it may change something, but no one has to know whether it did. Sent again, it does
 *   no harm. A lost reply to it leaves no doubt, as with READS.
 * - ONCE: it is sent about once for each connection. To prepare it would only cost a round trip.
 * - FORGOTTEN: a server that takes over may know nothing of it. The answer of the one before does
 *   not count then, and it is sent again.
 * - JOINS: it begins with namespace and name, and one row answers it. It may travel with those of
 *   other callers.
 * - EACH: if a call with many of them fails, the answers that came before count.
 * - PACES: the time of its answers says how late the next try still makes sense.
 * - LAZY: if a crash undoes it, nothing is lost but time. Its commit need not wait for the disk,
 *   unless it grants something: then a step says so (SQLOCK_STEP_DURABLE), or the SQL itself. */
#define SQLOCK_REQ_READS     0x01u
#define SQLOCK_REQ_HARMLESS  0x02u
#define SQLOCK_REQ_ONCE      0x04u
#define SQLOCK_REQ_FORGOTTEN 0x08u
#define SQLOCK_REQ_JOINS     0x10u
#define SQLOCK_REQ_EACH      0x20u
#define SQLOCK_REQ_PACES     0x40u
#define SQLOCK_REQ_LAZY      0x80u

/* 1: a lost reply to a request with these flags leaves a doubt (SQLOCK_MAYBE). */
#define SQLOCK_LEAVES_DOUBT(flags) (((flags) & (SQLOCK_REQ_READS | SQLOCK_REQ_HARMLESS)) == 0)

/* Every request: its enum, its block in statements.sql, its parameters in order, the oldest schema
 * that it works on (0: it needs no table of ours), and its flags.
 *
 * Parameters are b: bytes or NULL. t: the same for a column of text, in UTF-8. i: an integer. Times
 * are microseconds, whatever a dialect stores.
 *
 * The build reads this list. It fails if a dialect lacks a block, or uses a parameter that is not
 * here. The schema that HANDSHAKE works on is what a manager needs. Raise it when a request for
 * leases names something newer. Later requests are refused when they are made. So a newer library
 * works on an older schema until an operator migrates it (P20). */
#define SQLOCK_STMTS(X)                                                                            \
    X(HANDSHAKE, "handshake", "i:accept_weak", 1, SQLOCK_REQ_READS | SQLOCK_REQ_ONCE)              \
    X(REINCARNATE, "reincarnate", "b:server i:lift i:floor", 1,                                    \
      SQLOCK_REQ_HARMLESS | SQLOCK_REQ_ONCE)                                                       \
    X(LONGEST, "longest", "i:ttl", 1, SQLOCK_REQ_HARMLESS | SQLOCK_REQ_FORGOTTEN)                  \
    X(ACQUIRE, "acquire", "b:ns b:name b:owner i:ttl i:not_after i:grace b:label", 1,              \
      SQLOCK_REQ_FORGOTTEN | SQLOCK_REQ_JOINS | SQLOCK_REQ_PACES)                                  \
    X(GUARDED, "guarded", "b:ns b:name b:owner", 1, SQLOCK_REQ_READS)                              \
    X(RENEW, "renew", "b:ns b:name b:owner i:token i:ttl i:not_after", 1,                          \
      SQLOCK_REQ_FORGOTTEN | SQLOCK_REQ_EACH)                                                      \
    X(RELEASE, "release", "b:ns b:name b:owner i:token i:seat", 1,                                 \
      SQLOCK_REQ_JOINS | SQLOCK_REQ_LAZY)                                                          \
    X(WITHDRAW, "withdraw", "b:ns b:name b:owner i:not_after", 1, SQLOCK_REQ_JOINS)                \
    X(BREAK, "break", "b:ns b:name i:token", 1, SQLOCK_REQ_FORGOTTEN | SQLOCK_REQ_JOINS)           \
    X(LIST, "list", "b:ns b:after b:prefix i:free i:limit", 1, SQLOCK_REQ_READS)                   \
    X(SWEEP, "sweep", "b:ns b:after b:own i:grace i:idle i:limit", 1, SQLOCK_REQ_READS)            \
    X(REAP, "reap", "b:ns b:name b:to_ns b:to b:own i:cut i:limit", 1, SQLOCK_REQ_HARMLESS)        \
    X(PRUNE, "prune", "b:ns b:name i:cut i:floor", 1, SQLOCK_REQ_HARMLESS)                         \
    X(MIGRATE_LOCK, "migrate_lock", "", 0, SQLOCK_REQ_READS | SQLOCK_REQ_ONCE)                     \
    X(MIGRATE_VERSION, "migrate_version", "i:changes", 0, SQLOCK_REQ_READS | SQLOCK_REQ_ONCE)      \
    X(MIGRATE_RECORD, "migrate_record", "i:version t:name t:checksum i:done", 0, SQLOCK_REQ_ONCE)  \
    X(MIGRATE_LEDGER, "migrate_ledger", "i:changes", 0, SQLOCK_REQ_READS | SQLOCK_REQ_ONCE)        \
    X(MIGRATE_DIFFER, "migrate_differ", "", 0, SQLOCK_REQ_READS | SQLOCK_REQ_ONCE)                 \
    X(MIGRATE_CLOSE, "migrate_close", "", 0, SQLOCK_REQ_ONCE)                                      \
    X(MIGRATE_HELD, "migrate_held", "b:ns", 0, SQLOCK_REQ_READS | SQLOCK_REQ_ONCE)                 \
    X(MIGRATE_LEASE, "migrate_lease", "b:ns b:name b:owner i:ttl b:label", 0, SQLOCK_REQ_ONCE)     \
    X(MIGRATE_AROUND, "migrate_around", "", 0, SQLOCK_REQ_READS | SQLOCK_REQ_ONCE)                 \
    X(GUARD, "guard", "b:ns b:name b:owner i:token i:ttl", 1, 0)                                   \
    X(PROBE, "probe", "b:ns b:name i:token", 1, SQLOCK_REQ_READS)                                  \
    X(ENSURE, "ensure", "b:ns b:name", 2, 0)                                                       \
    X(REGISTER_GET, "register_get", "b:ns b:name", 2, SQLOCK_REQ_READS)                            \
    X(REGISTER_SET, "register_set", "b:ns b:name b:value i:expected b:writer i:not_after i:above", \
      2, 0)                                                                                        \
    X(TABLE_KEY, "table_key", "t:schema t:table", 0, SQLOCK_REQ_HARMLESS)                          \
    X(TABLE_AT, "table_at", "", 0, SQLOCK_REQ_READS)                                               \
    X(ROW_LOCK, "row_lock", "", 0, 0)                                                              \
    X(TABLE_VERSION, "table_version", "t:schema t:table t:column", 0, SQLOCK_REQ_READS)            \
    X(VERSION_INTEGER, "version_integer", "", 0, SQLOCK_REQ_READS)                                 \
    X(VERSION_TIMESTAMP, "version_timestamp", "", 0, SQLOCK_REQ_READS)                             \
    X(CAS_UPDATE, "cas_update", "", 0, 0)                                                          \
    X(CAS_DELETE, "cas_delete", "", 0, 0)                                                          \
    X(CAS_INSERT, "cas_insert", "", 0, 0)                                                          \
    X(CAS_MET, "cas_met", "", 0, 0)                                                                \
    X(FENCE, "fence", "", 0, 0)                                                                    \
    X(SESSION, "session", "", 0, SQLOCK_REQ_READS)                                                 \
    X(BLOCKERS, "blockers", "i:session t:schema t:table", 0, SQLOCK_REQ_READS)                     \
    X(LEASE, "lease", "b:ns b:name b:owner i:token", 1, SQLOCK_REQ_READS)                          \
    X(BREAK_NOTED, "break_noted", "b:ns b:name i:token", 3,                                        \
      SQLOCK_REQ_FORGOTTEN | SQLOCK_REQ_JOINS)                                                     \
    X(WAS_BROKEN, "was_broken", "b:ns b:name i:token", 3, SQLOCK_REQ_READS)                        \
    X(QUEUE, "queue",                                                                              \
      "b:ns b:name b:owner i:ttl i:not_after i:grace b:label b:client i:waits i:mode i:again", 1,  \
      SQLOCK_REQ_FORGOTTEN | SQLOCK_REQ_PACES | SQLOCK_REQ_LAZY)                                   \
    X(LEAVE, "leave", "b:ns b:name b:owner i:gives", 1, SQLOCK_REQ_HARMLESS | SQLOCK_REQ_LAZY)     \
    X(BEAT, "beat", "b:client i:alive i:session", 1, SQLOCK_REQ_HARMLESS | SQLOCK_REQ_LAZY)        \
    X(NOTIFY, "notify", "b:client b:owner", 1, SQLOCK_REQ_READS)                                   \
    X(WAITERS, "waiters", "b:ns b:after i:ticket b:below i:limit", 1, SQLOCK_REQ_READS)            \
    X(PASS, "pass",                                                                                \
      "b:ns b:name b:owner i:token b:next i:ttl i:grace b:label b:client i:not_after i:mode", 1,   \
      SQLOCK_REQ_LAZY)                                                                             \
    X(SEAT, "seat", "b:ns b:name b:owner i:ttl i:not_after i:grace b:label i:seats i:turn", 1,     \
      SQLOCK_REQ_FORGOTTEN | SQLOCK_REQ_PACES)                                                     \
    X(DRAIN, "drain", "b:ns b:name b:owner b:beside", 1, SQLOCK_REQ_FORGOTTEN)                     \
    X(UNSEAT, "unseat", "b:ns b:name b:owner i:not_after", 1, 0)                                   \
    X(STAND, "stand", "b:ns b:name b:owner b:own", 1, SQLOCK_REQ_HARMLESS | SQLOCK_REQ_LAZY)       \
    X(CIRCLE, "circle", "b:ns b:own b:client i:limit", 1, SQLOCK_REQ_READS)

typedef enum sqlock_stmt {
#define SQLOCK_STMT_ENUM(id, block, params, since, flags) SQLOCK_STMT_##id,
    SQLOCK_STMTS(SQLOCK_STMT_ENUM)
#undef SQLOCK_STMT_ENUM
        SQLOCK_STMT_COUNT
} sqlock_stmt;

/* How a request ended: column `outcome` of its answer. Statements name it in braces, as {DONE},
 * and the build puts the number there. "It" below is the grant that owner and token name. */
typedef enum sqlock_outcome {
    SQLOCK_OUT_NONE = 0,      /* no row came: send the request again */
    SQLOCK_OUT_DONE = 1,      /* granted, renewed, released, broken, made, read, changed */
    SQLOCK_OUT_HELD = 2,      /* another owner's lease runs; token, left, since, label are theirs */
    SQLOCK_OUT_SKIPPED = 3,   /* it would be possible, but another session has locked the row, or
                                 had a moment ago */
    SQLOCK_OUT_LATE = 4,      /* the server's clock had passed not_after: nothing was done */
    SQLOCK_OUT_RELEASED = 5,  /* it was released before */
    SQLOCK_OUT_BROKEN = 6,    /* an operator has broken it */
    SQLOCK_OUT_REAPED = 7,    /* it ran out and was reaped */
    SQLOCK_OUT_TAKEN = 8,     /* it ran out and another owner took the lock; or others came since,
                                 and no trace of its end is left */
    SQLOCK_OUT_GONE = 9,      /* the row is not there */
    SQLOCK_OUT_EXPIRED = 10,  /* it ran out, and there was no grant since */
    SQLOCK_OUT_KIND = 11,     /* the row is of a kind that this version does not know */
    SQLOCK_OUT_GUARDED = 12,  /* an open transaction guards the row */
    SQLOCK_OUT_STRANGER = 13, /* meta knows another server than this one: make a new handshake */
    SQLOCK_OUT_NEVER = 14,    /* no sign of this owner */
    SQLOCK_OUT_EARLY = 15,    /* no sign of this owner yet: a request may arrive until not_after */
    SQLOCK_OUT_IDLE = 16,     /* free for so long that its row may go */
    SQLOCK_OUT_STALE = 17,    /* the transaction's snapshot is too old to decide */
    SQLOCK_OUT_CONFLICT = 18, /* the row has another version than expected: nothing was done */
    SQLOCK_OUT_GRACE = 19,    /* commits may be missing here. A holder that was granted the lock by
                                 one of them may still believe in it, for `left` */
    SQLOCK_OUT_READONLY = 20, /* handshake: a replica or a read-only session */
    SQLOCK_OUT_WEAK = 21,     /* handshake: a crash may lose commits; detail says why */
    SQLOCK_OUT_UNFIT = 22,    /* handshake, migrate_version, migrate_ledger: a setting or table
                                 makes it unsafe; detail says which */
    SQLOCK_OUT_DENIED = 23,   /* handshake: a right is missing; detail says which */
    SQLOCK_OUT_BEHIND = 25,   /* reincarnate: the server's clock is behind tokens that were drawn */
    SQLOCK_OUT_QUEUED = 26,   /* others wait for it. acquire: it is free, send `queue`; release: send `pass` */
    SQLOCK_OUT_SEATED = 27,   /* acquire: others may have seats beside it: send `drain` */
    SQLOCK_OUT_TURN = 28,     /* acquire, queue: granted, and others may still have seats beside it */
    SQLOCK_OUT_UNLIKE = 29,   /* seat: the lock has seats of another kind; queue: someone waits for it in a
                                 mode that does not go with this one; token: of which */
    SQLOCK_OUT_FULL = 30      /* seat: all slots are taken; token, left, since, label are of the holder
                                 whose lease ends first */
} sqlock_outcome;

/* Columns of an answer. Every answer starts with index and outcome. The index is the request's
 * number within an array statement, else 0. A dialect may leave out trailing columns: they read as
 * NULL. */
enum { SQLOCK_COL_INDEX = 0, SQLOCK_COL_OUTCOME = 1 };
/* acquire, guarded, renew, release, withdraw, break, break_noted, lease; guard, which has no label
 * (SQLOCK_COL_GUARDS_PLACE); list, which also has name and owner. waiters: the same columns, and the
 * client that the owner is one of. The token is the ticket, since is when it was queued, and there is no left.
 * circle: the waiters as there, and holders of locks */
enum {
    SQLOCK_COL_TOKEN = 2, /* of the grant made, or in the row */
    SQLOCK_COL_LEFT = 3,  /* of its lease */
    SQLOCK_COL_NOW = 4,   /* the server's clock */
    SQLOCK_COL_SINCE = 5, /* the time of the grant */
    SQLOCK_COL_LABEL = 6, /* of its holder */
    SQLOCK_COL_NAME = 7,
    SQLOCK_COL_OWNER = 8,
    SQLOCK_COL_WAITER_CLIENT = 10
};
/* queue, release, leave; NULL otherwise */
enum {
    SQLOCK_COL_QUEUE_PLACE = 7,  /* queue: of this owner in the queue, from 1; NULL: it is not there */
    SQLOCK_COL_NEXT_CLIENT = 8, /* who should look at the lock now: send `notify` */
    SQLOCK_COL_NEXT_OWNER = 9,
    SQLOCK_COL_NEXT_TOKEN = 10, /* release: of the grant or offer that it made to that owner, */
    SQLOCK_COL_NEXT_LEFT = 11,  /* how long that lasts, */
    SQLOCK_COL_NEXT_GRANT = 12  /* and 1 if it is a grant, which needs no request any more */
};
/* seat, drain; NULL otherwise */
enum {
    SQLOCK_COL_SEAT = 7, /* the number of the seat, from 0: of the one granted, or of that holder */
    SQLOCK_COL_KEPT = 8, /* seat: 1 if the lock's own row is still its owner's: others wait for it */
    SQLOCK_COL_SEATS = 8 /* drain, of a holder: what stands there: -1 shared holders, N: those of N slots */
};
/* circle, list: of a lock's holder: what may stand beside it, 0: nothing, -1: shared holders, N: those of N slots.
 * waiters: of a waiter: the same of what it wants */
enum { SQLOCK_COL_BESIDE = 9 };
/* beat: a row for each waiter of the client; the place of the first row is 0, and it has no owner */
enum {
    SQLOCK_COL_BEAT_PLACE = 2,
    SQLOCK_COL_BEAT_OWNER = 5, /* left and now as above */
    SQLOCK_COL_BEAT_NS = 6,
    SQLOCK_COL_BEAT_NAME = 7
};
/* sweep: token, left, now, since, label and name as above. The row with outcome DONE is the page
 * itself: its token is the number of rows, its name and namespace are those of the last one.
 *
 * reap: one row, its token is the number of rows freed. */
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
    SQLOCK_COL_SAME = 5,    /* 1: meta's server is this server */
    SQLOCK_COL_SERVER = 6,  /* the server's identity now */
    SQLOCK_COL_DETAIL = 7,  /* for READONLY, WEAK, UNFIT, DENIED: the reason */
    SQLOCK_COL_PLACE = 7,   /* for others, if there: the schema that is the connection's own */
    SQLOCK_COL_RUNNING = 8, /* this run of the server and the database, for guards; NULL: unknown */
    SQLOCK_COL_LONGEST = 9, /* no lease was longer; NULL: not kept */
    SQLOCK_COL_ABOVE = 10   /* every token from now on is larger; NULL: they follow the clock */
};
/* reincarnate: DONE or BEHIND */
enum {
    SQLOCK_COL_FLOOR = 2,    /* every token from now on is larger */
    SQLOCK_COL_BEHIND_BY = 3 /* BEHIND: by how much the clock is behind it */
};
/* guard: SQLOCK_COL_RUNNING of the application's connection, in every answer */
enum { SQLOCK_COL_GUARDS_PLACE = 6 };
/* migrate_ledger: a row for each record, after SQLOCK_COL_VERSION; or UNFIT, as above */
enum {
    SQLOCK_COL_TITLE = 3,    /* the migration's name */
    SQLOCK_COL_CHECKSUM = 4, /* of the file that was applied */
    SQLOCK_COL_APPLIED = 5   /* the time of that */
};
/* migrate_differ: a row for each difference */
enum {
    SQLOCK_COL_THERE = 2,      /* 0: the whole table is missing */
    SQLOCK_COL_DIFFERENCE = 3, /* in words */
    SQLOCK_COL_MADE_BY = 4     /* the migration that makes the table */
};
/* migrate_held: no row, or one */
enum {
    SQLOCK_COL_HELD = 2,     /* how many leases run */
    SQLOCK_COL_HELD_NAME = 3 /* the name of one of them */
};

/* table_key: a row for each column of each index that may be a key's. If there is no such index:
 * one row without an index. UNFIT, with SQLOCK_COL_DETAIL: the table or server is not suitable. */
enum {
    SQLOCK_COL_KEY = 2,      /* the index, by its name in the table */
    SQLOCK_COL_COLUMN = 3,   /* NULL: of something else than a column's whole value */
    SQLOCK_COL_FITS = 4,     /* letters: the values that a look-up finds without reading the whole
                                index. i: integers. b: bytes. t: texts. m: texts without characters
                                of four bytes. a: texts of ASCII alone */
    SQLOCK_COL_INSTANT = 5,  /* 1: the server can report a locked row without a wait. 2: it can, but
                                may hide rows from a statement that locks: core looks for them */
    SQLOCK_COL_WHERE = 6,    /* the schema that has the table; NULL: not known */
    SQLOCK_COL_COMPARES = 8, /* the index's collation, if the column's may differ; NULL: the
                                column's */
    SQLOCK_COL_EQUALS = 9    /* the operator by which it finds a value; NULL: `=` */
};
/* table_at */
enum { SQLOCK_COL_AT = 2 /* the schema where the connection finds tables; NULL: none */ };

/* table_version: one row, or none if there is no such column. UNFIT, with SQLOCK_COL_DETAIL */
enum {
    SQLOCK_COL_TIMESTAMP = 2, /* 0: the column is an integer, 1: a timestamp with microseconds */
    SQLOCK_COL_MOST = 3       /* the largest integer that it can hold */
};
/* cas_update, cas_delete, cas_insert, cas_met, fence: the version, as an integer or NULL. With
 * outcome NONE: a look at the locked row, whose version is {seen} for the steps that follow */
enum { SQLOCK_COL_SEEN = 2 };

/* session */
enum { SQLOCK_COL_SESSION = 2 /* the number of this session in the answers of blockers */ };
/* blockers: a row for each session that is in the way */
enum {
    SQLOCK_COL_BLOCKER = 2, /* its number */
    SQLOCK_COL_OPEN = 3,    /* for how long its transaction has been open; NULL: not known */
    SQLOCK_COL_ABOUT = 4    /* a text about it, for people */
};

#ifdef __cplusplus
}
#endif
#endif
