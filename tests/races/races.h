/* What the race tests share: a fresh schema for each test, connections that may be held still in
 * the middle of a statement, and the library's statements as texts that a test may damage. The
 * tests use the client libraries directly: it is the SQL that is on trial, not the code around it.
 */
#ifndef SQLOCK_TESTS_RACES_H
#define SQLOCK_TESTS_RACES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <libpq-fe.h>
#include <sqlite3.h>
#include <sqlock/driver.h>

extern const sqlock_dialect sqlock_postgres_dialect;
extern const sqlock_dialect sqlock_sqlite_dialect;

#define MS        INT64_C(1000)       /* requests speak of microseconds */
#define LIFT      INT64_C(4294967296) /* of the floor, where a clock is behind it */
#define COUNT(a)  (sizeof(a) / sizeof *(a))
#define PG_NOW    "(extract(epoch from clock_timestamp()) * 1000000)::bigint"
#define LITE_NOW  "CAST(strftime('%s','now') || substr(strftime('%f','now'), 4) AS INTEGER)"
#define MAX_STEPS 4
#define MY_NOW                                                                                     \
    "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) +"                                \
    " TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6)))"

/* One side of a race. Exactly one of them is set. */
typedef struct conn {
    PGconn *pg;
    sqlite3 *lite;
    struct st_mysql *my;
} conn;

/* The texts of a request, names put in. In hand-written ones {lock}, {meta}, {schema} stand for the
 * test's tables, and {hold} for a condition that is true and waits for pg_hold(). */
typedef struct script {
    sqlock_stmt stmt;
    int n;
    char *step[MAX_STEPS];
    unsigned flags[MAX_STEPS];
} script;

typedef struct request {
    const char *ns, *name;
    size_t ns_len, name_len;
    unsigned char owner[16];
    int64_t token, ttl, not_after;
    int64_t cut, floor; /* of reap and prune */
    int64_t grace;      /* of acquire */
    int64_t lift;       /* of reincarnate */
    const char *to;     /* the last name of a reap; NULL: name */
} request;

typedef struct answer {
    int rows; /* 0: none came; then error tells whether something went wrong */
    int index, outcome;
    int64_t token, left, now, since;
    char error[32]; /* SQLSTATE, or SQLite's name for the error; "" for none */
} answer;

/* ---- requests and texts -----------------------------------------------------------------------
 */

/* For the lock "job" in namespace "app": owner is sixteen times the letter, not_after never. */
request request_of(char owner, int64_t ttl);
request request_token(request r, int64_t token);
request request_name(request r, const char *name, size_t len);

/* Texts live until the test's teardown. */
char *fill(const char *text);
script ours(sqlock_stmt stmt);
script ours_array(sqlock_stmt stmt);
script written(sqlock_stmt stmt, const char *text);
/* A copy of s with every `from` replaced; the test fails if there is none, so that a statement
 * which was rewritten cannot leave a test that damages nothing. Damage ours when it was judged:
 * what is wrong with it is told then, and not that a piece is missing. */
script changed(script s, const char *from, const char *to);

/* ---- asking -----------------------------------------------------------------------------------
 */

/* Runs the steps until one returns a row, those marked `write` in one write transaction, unless one
 * is open. Never fails the test: fit for threads. */
answer ask(conn c, const script *s, const request *r);
answer acquire(conn c, request r);
answer renew(conn c, request r);
answer release(conn c, request r);
answer withdraw(conn c, request r);
/* Whatever is free by now, as the library does it after it saw the row. */
answer prune(conn c, const script *s, request r);
void run(conn c, const char *text);       /* must succeed */
int try_run(conn c, const char *text);    /* 0, or why not (SQLite's code, or -1) */
int64_t number(conn c, const char *text); /* one number, must be there; NULL: -1 */
/* The outcome, and no error. */
#define EXPECT(a, outcome) expect((a), (outcome), __FILE__, __LINE__)
void expect(answer a, int outcome, const char *file, int line);

/* The server's running clock, in microseconds. Bounds are taken on it, before what they are for:
 * then a machine that stands still moves none of them. */
int64_t server_us(conn c);
/* The lock's row, where there is one. */
int64_t row_end(conn c);     /* of its lease, by the clock of server_us() */
int64_t row_owner(conn c);   /* the first byte of the owner; -1: free */
void let_it_run_out(conn c); /* whoever holds it */

/* ---- withdrawals.c: the same on every database -------------------------------------------------
 */

/* no_tombstone: the withdrawal, damaged so that it leaves no trace of the owner. */
void withdrawn_acquire_arrives(conn a, script no_tombstone);
/* still_idle: the same, damaged so that the row stays as idle as it was. */
void withdrawn_acquire_arrives_after_the_pruner(conn a, script still_idle);
void withdrawal_is_certain_later(conn a, conn b);
void withdrawal_beside_another_holder(conn a, conn b);
void withdrawal_leaves_how_others_ended(conn a, conn b);

/* ---- leases.c: the same on several databases ---------------------------------------------------
 */

/* too_long: the error of a name of 256 bytes. */
void names_are_bytes(conn c, const char *too_long);
/* Takes a name for one that is held: "c" of "ab" for "bc" of "a", then others for "c" of "ab". */
typedef struct mistaken {
    const char *name;
    script how;
} mistaken;
void names_are_told_apart(conn c, const mistaken *wrong, size_t n);
/* by_name, by_owner: releases that do not ask for the grant. */
void late_release_frees_nobody(conn a, conn b, script by_name, script by_owner);
/* late() runs a statement that is held up past its not_after. The lock is X's, whose lease ran out,
 * or has no row, and none is made. */
void nothing_is_done_too_late(conn c, answer (*late)(const script *, request), script wrong_grant,
                              script wrong_renewal);
/* eager: grants at once, whatever commits may be missing. */
void nobody_is_granted_a_lock_in_a_grace(conn c, script eager);

/* ---- guards.c: the same where a guard locks a piece of the row ---------------------------------
 */

#define GUARD_LEVELS 3

typedef struct guarding {
    conn (*open)(void);
    const char *begins[GUARD_LEVELS]; /* how transactions begin, from the weakest level upwards */
    script acquire, guard;            /* a grant, and what has to keep it out */
    int told;                         /* 0: a server that cannot tell others of a guard */
} guarding;

/* wrong: its guard does not keep its grant out. */
void guard_keeps_the_thief_out(const guarding *right, const guarding *wrong);
void guard_outlives_an_early_end(const guarding *right, const guarding *wrong);
void probe_tells_a_guard(const guarding *g);
/* wrong: a probe that takes the next grant's guard for this one's. */
void probe_is_for_the_exact_grant(const guarding *g, const script *wrong);
/* wrong: takes every lock for a guard. */
void writer_is_not_taken_for_a_guard(const guarding *g, const script *wrong);
/* wrong: takes a row that can be locked by now for a guarded one. */
void writer_that_has_ended_is_not_taken_for_a_guard(const guarding *g, const script *wrong);
/* looking: what keeps the locks that another looker has when it is half done. The wrong ones take
 * them for a guard's. */
void looker_is_not_taken_for_a_guard(const guarding *g, const char *looking,
                                     const script *wrong_look, const script *wrong_probe);
/* strong: a guard that keeps the holder's own renewals out as well. */
void strong_guard_blocks_renewals(const guarding *g, const script *strong);
/* Four clients that are granted a lock for a moment, and work under its guard. */
void guarded_transactions_are_alone(const guarding *right);
void guarded_transactions_overlap(const guarding *wrong);

/* ---- PostgreSQL -------------------------------------------------------------------------------
 */

int pg_missing(void); /* 0: there is a server; else it says so, and main returns one less */
int pg_setup(void **state);
conn pg_open(void);
void pg_start(conn c, const script *s, int step, const request *r); /* send, do not wait */
answer pg_finish(conn c);                                           /* wait for what was sent */
int pg_waits(conn c);   /* 1: what was sent waits for a lock; 0: it came back, pg_finish tells */
void pg_hold(conn c);   /* from now on statements with {hold} in them stop there */
void pg_unhold(conn c); /* until now */
int pg_ask_array(conn c, const script *s, const request *r, int n, answer *out);
void pg_start_array(conn c, const script *s, const request *r, int n);
int pg_finish_array(conn c, answer *out, int max);
script ours_held(void); /* our acquire, which {hold} stops before it locks the row */
/* A's renewal came in time, but is not committed when its old lease runs out. Then the request is
 * sent, which {hold} stops when it has looked, and goes on after the commit. */
answer pg_beside_a_late_renewal(const script *held, request r);

/* Kept by another session, so that a statement has to wait. */
#define TABLE_LOCK "BEGIN; LOCK TABLE {lock} IN ACCESS EXCLUSIVE MODE"
#define ROW_LOCK   "BEGIN; SELECT 1 FROM {lock} FOR UPDATE"

/* ---- SQLite -----------------------------------------------------------------------------------
 */

int lite_setup_wal(void **state);
int lite_setup_rollback(void **state);
conn lite_open(void);
void lite_close_all(void);          /* before a fork: no connection may be known to a child */
script only_the_read(script s);     /* the first step of a request, */
script after_the_read(script s);    /* and what is still to be run after it told nothing */
script read_then(const char *text); /* our acquire with another text in the place of its decision */
/* A text for which the client computed a number beforehand: it stands for @number. */
script with_number(script s, int64_t n);
/* c asks while the writer has an open write transaction, which commits ms after c began to wait. */
answer ask_behind(conn c, const script *s, request r, conn writer, int ms);

/* ---- MariaDB ----------------------------------------------------------------------------------
 */

int my_missing(void); /* as pg_missing() */
int my_setup(void **state);
conn my_open(void); /* with the session that the driver sets */
void my_start(conn c, const script *s, const request *r); /* the first step; do not wait */
answer my_finish(conn c);
int my_waits(conn c); /* as pg_waits(), or 1: it stands at a {hold} */
void my_hold(conn c);
void my_unhold(conn c);
int my_ask_array(conn c, const script *s, const request *r, int n, answer *out);

int race_teardown(void **state);

#define ON_MYSQL(test)    cmocka_unit_test_setup_teardown(test, my_setup, race_teardown)
#define ON_POSTGRES(test) cmocka_unit_test_setup_teardown(test, pg_setup, race_teardown)
#define ON_WAL(test)                                                                               \
    {                                                                                              \
#test " (WAL)", test, lite_setup_wal, race_teardown, NULL                                  \
    }
#define ON_ROLLBACK(test)                                                                          \
    {                                                                                              \
#test " (rollback)", test, lite_setup_rollback, race_teardown, NULL                        \
    }
#define ON_SQLITE(test) ON_WAL(test), ON_ROLLBACK(test)

/* ---- four clients -----------------------------------------------------------------------------
 */

#define STRESS_CLIENTS 4

/* Clients that acquire one lock, hold it for longer or shorter than ttl, and give it back or not,
 * while two reapers clear what ran out and prune what is free, at once: more than so many grants,
 * and their tokens rise. */
void tokens_rise(conn (*open)(void), int64_t ttl, int at_least, script pruner);
/* The same with a pruner that is wrong: two tokens are equal, or in another order than the grants.
 */
void tokens_fall(conn (*open)(void), int64_t ttl, script forgetful);

int64_t clock_us(void);
void pause_ms(int ms);

#endif
