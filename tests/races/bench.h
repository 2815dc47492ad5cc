/* What races are played on: a fresh schema for each test, connections that may be held still in the
 * middle of a statement, and the library's statements as texts that a race may damage. By the
 * client libraries directly: it is the SQL that is on trial, not the code around it. */
#ifndef SQLOCK_TESTS_RACES_BENCH_H
#define SQLOCK_TESTS_RACES_BENCH_H

#include <stdio.h>
#include <string.h>

#include <libpq-fe.h>
#include <sqlite3.h>
#include <sqlock/driver.h>

#include "tests/lib/check.h"

#define MS         INT64_C(1000) /* requests speak of microseconds */
#define COUNT(a)   (sizeof(a) / sizeof *(a))
#define MAX_STEPS  11
#define MAX_PARAMS 11

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
    int64_t cut, floor;        /* of reap and prune */
    int64_t grace;             /* of acquire */
    int64_t lift;              /* of reincarnate */
    const char *to;            /* the last name of a reap; NULL: name */
    unsigned char client[16];  /* of one that waits; as the owner, if nothing else is said */
    int64_t waits;             /* 0: it is not to be queued */
    int64_t session;           /* of beat. 1: it listens */
    const unsigned char *next; /* of pass: one more that may get the lock; NULL: no one */
    int64_t seats;             /* of seat: -1, or how many slots there are */
    int64_t turn;              /* of seat: 1: only for who has the turn */
    int64_t mode;  /* of queue and pass: 0 the lock alone, -1 shared, or of how many slots */
    int64_t again; /* of queue: 1: it has waited */
    const unsigned char *beside; /* of drain: whose seat is its own; NULL: no one's */
} request;

enum { CELLS = 13 };

typedef struct answer {
    int rows; /* 0: none came; then error tells whether something went wrong */
    union {
        int64_t cell[CELLS]; /* by their SQLOCK_COL_ numbers */
        struct {
            int64_t index, outcome, token, left, now, since, label, seat, kept, next[3], grant;
        };
    };
    char error[32]; /* SQLSTATE, or SQLite's name for the error; "" for none */
} answer;

/* What a database, or a mode of it, does in its own way. */
struct database {
    const char *name, *mode;          /* a line of a race is for either */
    const char *driver;               /* for test_wants() */
    const struct test_server *server; /* NULL: it needs none */
    const sqlock_dialect *dialect;
    const char *now, *ms, *owner;     /* texts: {now}, {ms}, the first byte of a row's owner */
    const char *held, *hold, *unhold; /* {hold}; what makes it wait, and ends that */
    char quote;
    bool (*skips_locked)(void); /* whether the server can step over locked rows; NULL: it can */
    void (*create)(void);       /* the test's schema, and who the server is */
    conn (*open)(void);
    void (*close)(conn c);
    /* Runs the steps until one returns a row, on SQLite those marked `write` in one write
     * transaction, unless one is open. */
    answer (*ask)(conn c, const script *s, const request *r);
    /* Sends the first step, or runs all of them (SQLite), and does not wait for the answer. */
    void (*start)(conn c, const script *s, const request *r, int n);
    int (*waits)(
        conn c); /* 1: what was sent waits for a lock, or at a {hold}; 0: its answer came */
    int (*finish)(conn c, answer *out, int max); /* how many rows came */
    int (*try_run)(conn c, const char *sql);
    char *(*value)(conn c, const char *sql, int column); /* for keep(); NULL: no row, or NULL */
    const char *(*error)(conn c);
    const char *(*plan)(conn c,
                        const script *s); /* how it finds the lock's row, in a word or two */
};
extern const struct database postgres, mysql, sqlite_wal, sqlite_rollback;

/* What belongs to the test that runs now; its teardown frees it, however the test ended. */
struct bench {
    const struct database *db;
    const char *where; /* the line of a race */
    char schema[64];
    char *dir, file[128];
    conn conns[64], gate;
    int n_conns;
    char *texts[8192];
    int n_texts;
    int number;
};
extern struct bench bench;

void bench_begin(const struct database *db);
void bench_end(void);
/* Fails the test, and tells where. */
void broken(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
char *keep(char *text);   /* the teardown frees it */
void migrate(conn c);     /* as the library does */
void create_schema(void); /* a database's create */

/* ---- requests and texts ---------------------------------------------------------------------- */

/* For the lock "job" in namespace "app": owner is sixteen times the letter, not_after never. */
request request_of(char owner, int64_t ttl);

/* Every `from` becomes `to`; *hits counts them. Frees text; the result is the caller's. */
char *replaced(char *text, const char *from, const char *to, int *hits);
/* sqlock_outcome as a race says it. */
#define N_OUTCOMES (SQLOCK_OUT_FULL + 1)
extern const char *const outcomes[N_OUTCOMES];
/* The texts of these live until the test's teardown. */
char *fill(const char *text);
script ours(sqlock_stmt stmt);
script ours_many(sqlock_stmt stmt);
script written(sqlock_stmt stmt, const char *text);
script from_step(script s, int step);          /* without those before; the first one is 1 */
script from_worth(script s, const request *r); /* as drivers send it: without those before that
                                                  would do nothing for this request */
/* A copy of s with every `from` replaced; the test fails if there is none, so that a statement
 * which was rewritten cannot leave a test that damages nothing. */
script changed(script s, const char *from, const char *to);
/* The request's parameters, in driver.h's order; returns how many. */
int bind_request(sqlock_stmt stmt, const request *r, sqlock_value *v);
/* A step's positional placeholders become numbers, $1 as PostgreSQL's; free() it. */
char *my_numbered(const sqlock_step *step);

/* ---- asking ---------------------------------------------------------------------------------- */

conn open_conn(void);                        /* the teardown closes it */
void run(conn c, const char *text);          /* must succeed */
int try_run(conn c, const char *text);       /* 0, or why not (SQLite's code, or -1) */
const char *value(conn c, const char *text); /* of one row, must be there; NULL as it is */
int64_t number(conn c, const char *text);    /* the same; NULL: -1 */
int64_t row_owner(conn c);                   /* the first byte of the lock's owner; -1: free */
void let_it_run_out(conn c);                 /* whoever holds it */
void hold(void);   /* from now on statements with {hold} in them stop there */
void unhold(void); /* until now */

#endif
