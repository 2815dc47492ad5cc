/* What the race tests share: a fresh schema for each test, connections that may be held still in
 * the middle of a statement, and the library's statements as texts that a test may damage. The
 * tests use the client libraries directly: it is the SQL that is on trial, not the code around it.
 */
#ifndef SQLOCK_TESTS_RACES_H
#define SQLOCK_TESTS_RACES_H

#include <stdio.h>
#include <string.h>

#include <libpq-fe.h>
#include <sqlite3.h>
#include <sqlock/driver.h>

#include "tests/lib/check.h"

#define MS        INT64_C(1000) /* requests speak of microseconds */
#define COUNT(a)  (sizeof(a) / sizeof *(a))
#define MAX_STEPS 4

/* One side of a race. Exactly one of them is set. */
typedef struct conn {
    PGconn *pg;
    sqlite3 *lite;
    struct st_mysql *my;
} conn;

/* The texts of a request, names put in. In hand-written ones {lock}, {meta}, {schema} stand for the
 * test's tables; {now} for the running clock, as rows have it, and {ms} for a millisecond of it;
 * {hold} for a condition that is true and waits for unhold(); {DONE}, {HELD} and so on for the
 * outcomes' numbers. */
typedef struct script {
    sqlock_stmt stmt;
    int n;
    int many; /* 1: one statement for many requests */
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

/* Every `from` becomes `to`; *hits counts them. Frees text; the result is the caller's. */
char *replaced(char *text, const char *from, const char *to, int *hits);
/* sqlock_outcome as a race says it. */
#define N_OUTCOMES (SQLOCK_OUT_BEHIND + 1)
extern const char *const outcomes[N_OUTCOMES];
/* The texts of these live until the test's teardown. */
char *fill(const char *text);
script ours(sqlock_stmt stmt);
script ours_many(sqlock_stmt stmt);
script written(sqlock_stmt stmt, const char *text);
script from_step(script s, int step); /* without those before; the first one is 1 */
/* A copy of s with every `from` replaced; the test fails if there is none, so that a statement
 * which was rewritten cannot leave a test that damages nothing. */
script changed(script s, const char *from, const char *to);

/* ---- asking -----------------------------------------------------------------------------------
 */

conn open_conn(void);
void lite_close_all(void); /* before a fork: no connection of SQLite may be known to a child */
/* Runs the steps until one returns a row, on SQLite those marked `write` in one write transaction,
 * unless one is open. Never fails the test: fit for threads. */
answer ask(conn c, const script *s, const request *r);
answer acquire(conn c, request r);
void run(conn c, const char *text);          /* must succeed */
int try_run(conn c, const char *text);       /* 0, or why not (SQLite's code, or -1) */
const char *value(conn c, const char *text); /* of one row, must be there; NULL as it is */
int64_t number(conn c, const char *text);    /* the same; NULL: -1 */
/* The outcome, and no error. */
#define EXPECT(a, outcome) expect((a), (outcome), __FILE__, __LINE__)
void expect(answer a, int outcome, const char *file, int line);
int64_t row_owner(conn c);   /* the first byte of the lock's owner; -1: free */
void let_it_run_out(conn c); /* whoever holds it */

/* Sends the first step, or runs all of them (SQLite), and does not wait for the answer. */
void start(conn c, const script *s, const request *r, int n);
int waits(conn c); /* 1: what was sent waits for a lock, or at a {hold}; 0: its answer came */
int finish(conn c, answer *out, int max); /* how many rows came */
int skips_locked(void);                   /* whether the server can step over locked rows */
void hold(void);   /* from now on statements with {hold} in them stop there */
void unhold(void); /* until now */

/* ---- which tests there are ---------------------------------------------------------------------
 */

enum { ON_POSTGRES = 1, ON_MYSQL = 2, ON_WAL = 4, ON_ROLLBACK = 8, ON_SQLITE = 12, ON_ALL = 15 };

/* What a word stands for that a file of races defines. */
const char *defined(const char *word);
/* The races of tests/races/<subject>.races and each TEST(name, ON_...) of the program, on each
 * database that is there, as test_<name>_<database>. What main() returns. */
int run_races(const char *subject);
#define TEST_MAIN_OF_RACES(subject)                                                                \
    int main(void)                                                                                 \
    {                                                                                              \
        return run_races(subject);                                                                 \
    }

/* ---- four clients -----------------------------------------------------------------------------
 */

#define STRESS_CLIENTS 4

/* Clients that acquire one lock, hold it for longer or shorter than ttl, and give it back or not,
 * while two reapers clear what ran out and prune what is free, at once: more than so many grants,
 * and their tokens rise. */
void tokens_rise(int64_t ttl, int at_least, script pruner);
/* The same with a pruner that is wrong: two tokens are equal, or in another order than the grants.
 */
void tokens_fall(int64_t ttl, script forgetful);

int64_t clock_us(void);
void pause_ms(int ms);

#endif
