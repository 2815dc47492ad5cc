/* Inside of races.h: what the bench's own files share. Tests do not include it. */
#ifndef SQLOCK_TESTS_RACES_BENCH_H
#define SQLOCK_TESTS_RACES_BENCH_H

#include "races.h"

/* What belongs to the test that runs now; its teardown frees it, however the test ended. */
struct bench {
    const sqlock_dialect *dialect;
    char schema[64];
    char *dir, file[128];
    conn conns[64];
    int n_conns;
    char *texts[1024];
    int n_texts;
    int number;
};
extern struct bench bench;

conn track(conn c);     /* the teardown closes it */
char *keep(char *text); /* and frees this */
void migrate(conn c);   /* as the library does */
/* The request's parameters, in driver.h's order; returns how many. */
int bind_request(sqlock_stmt stmt, const request *r, sqlock_value *v);

answer pg_ask(PGconn *c, const script *s, const request *r);
int64_t pg_number(PGconn *c, const char *sql);

answer lite_ask(sqlite3 *db, const script *s, const request *r);
int64_t lite_number(sqlite3 *db, const char *sql);
void lite_remove(void); /* the test's files */

answer my_ask(struct st_mysql *my, const script *s, const request *r);
int my_try(struct st_mysql *my, const char *sql);
int64_t my_count(struct st_mysql *my, const char *sql);
void my_close(struct st_mysql *my);
int is_mysql(void); /* the test's database */
/* A step's positional placeholders become numbers, $1 as PostgreSQL's; free() it. */
char *my_numbered(const sqlock_step *step);

#endif
