/* Inside of races.h: what the bench's own files share. Tests do not include it. */
#ifndef SQLOCK_TESTS_RACES_BENCH_H
#define SQLOCK_TESTS_RACES_BENCH_H

#include "races.h"

/* What a database, or a mode of it, does in its own way; as races.h tells of each. */
struct database {
    const char *name, *mode; /* a line of a race is for either */
    const char *driver;      /* for test_wants() */
    const char *url;         /* the variable that has it; NULL: it needs no server */
    unsigned bit;            /* ON_... */
    const sqlock_dialect *dialect;
    const char *now, *ms, *owner;     /* texts: {now}, {ms}, the first byte of a row's owner */
    const char *held, *hold, *unhold; /* {hold}; what makes it wait, and ends that */
    char quote;
    int (*skips_locked)(void);
    void (*create)(void); /* the test's schema, and who the server is */
    conn (*open)(void);
    void (*close)(conn c);
    answer (*ask)(conn c, const script *s, const request *r);
    void (*start)(conn c, const script *s, const request *r, int n);
    int (*waits)(conn c);
    int (*finish)(conn c, answer *out, int max);
    int (*try_run)(conn c, const char *sql);
    char *(*value)(conn c, const char *sql, int column); /* for keep(); NULL: no row, or NULL */
    const char *(*error)(conn c);
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
conn track(conn c);     /* the teardown closes it */
char *keep(char *text); /* and frees this */
/* Cells of a row, by their SQLOCK_COL_ numbers; those that did not come are as in no_cells. */
enum { CELLS = 6 };
extern const int64_t no_cells[CELLS];
void take_cells(const int64_t *cell, answer *a);
void migrate(conn c);   /* as the library does */
void introduce(conn c); /* the same, when it first meets a server */
/* The request's parameters, in driver.h's order; returns how many. */
int bind_request(sqlock_stmt stmt, const request *r, sqlock_value *v);
/* A step's positional placeholders become numbers, $1 as PostgreSQL's; free() it. */
char *my_numbered(const sqlock_step *step);

#endif
