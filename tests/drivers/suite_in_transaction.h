/* An application's connection, adopted by the driver's slots: what tests of it share. The requests
 * are the tests' own: a script of one step each, put where GUARDED is. */
#ifndef SQLOCK_TESTS_DRIVERS_SUITE_GUEST_H
#define SQLOCK_TESTS_DRIVERS_SUITE_GUEST_H

#include <sqlock/adopt.h>
#include <sqlock/transaction.h>
#include <sqlock/value.h>

#include "tests/drivers/suite.h"
#include "tests/lib/adopt_app.h"

#include "core/sql/rows.h"

#define OUR_WRITE "UPDATE app_row SET n = n + 100 WHERE id = 1"
#define OUR_READ  "SELECT 0, 1"
#define OUR_WRONG "SELECT 0, 1 FROM no_such_table"

enum { GUEST_CONNS = 8 };

/* The test's one. */
struct guest {
    const struct adopt_app *side;
    const sqlock_driver *driver;
    const sqlock_adopter *adopter; /* the driver's */
    struct world *w;
    void *app;
    void *conn;
    sqlock_conn *conns[GUEST_CONNS];
    size_t n_conns;
    sqlock_rows *rows;
    sqlock_step step;
    sqlock_script scripts[SQLOCK_STMT_COUNT];
};
extern struct guest g;

/* First line of every test: an application with a table app_row, whose row 1 has n = 10, and no
 * transaction; not adopted yet, or adopted. */
void begin_app(struct world *w);
void begin_adopted(struct world *w);
void begin_in_transaction(struct world *w); /* adopted, and the transaction has begun */
int adopt(void *app, void **out_conn);
void end_adopted(void); /* before the test ends, which does it by itself */

/* The application's connection, adopted by the public header; let_go() or the end frees it. */
sqlock_conn *adopted(sqlock *m, void *app);
void let_go(sqlock_conn *conn);

/* Its connection still tells the same: settings() or last(). It takes `before`, or NULL. */
void still_says(char *before, char *(*tell)(void *app));

/* The row of a table that has this id. */
#define ROW(table, id)                                                                             \
    (&(sqlock_row){sizeof(sqlock_row), NULL, (table),                                              \
                   &(sqlock_column){"id", sqlock_int(id), NULL}, 1})

/* Into a transaction, and out of it. */
void go_in(void *app, const struct way *way);
bool go_out(void *app, const struct way *way,
            const char *end); /* false: it failed, and is undone */

/* One more connection of the application's, closed when the test ends. */
void *app_connect(void);
/* It gives up soon where somebody else has locked a row for good; and a connection that does from
 * now on. */
void *app_connect_impatient(void);
void be_impatient(void *app);
/* Statements, one after the other. */
#define app_exec(app, ...) app_exec_all((app), (const char *const[]){__VA_ARGS__, NULL})
void app_exec_all(void *app, const char *const *sql);
/* So much later, on a thread of its own: this, or a statement; one at a time. It has been done when
 * await_later() returns, or the test fails. */
void do_later(int32_t ms, void (*what)(void *arg), void *arg);
void exec_later(int32_t ms, void *app, const char *sql);
void await_later(void);
int64_t app_number(void *app, const char *sql);
int64_t seen_by(void *app);                   /* n of row 1 */
void quote_name(char *out, const char *name); /* as the dialect writes it */

/* Nothing can be sent, for an answer has not come, or not been read. */
void assert_in_the_middle(void);
/* The application has another connection, by this URL, which is adopted in the place of the test's,
 * and in a transaction. */
void begin_at(const char *url);

int64_t soon(void);
/* Run this step as a request, until soon() or the deadline. */
int run(const char *sql);
int run_until(const char *sql, int64_t deadline);
int run_own(void *conn, const char *sql); /* on a connection that the driver has opened */
/* Ask with a text about the application's tables. It is written with `?`, in the order of the
 * values;
 * `$N` is put there where the dialect has it. */
int ask(const char *sql, const sqlock_value *values, uint8_t n);
int point(sqlock_savepoint what);
void point_ok(sqlock_savepoint what);
/* rc says that a transaction with an old snapshot cannot go on: SQLOCK_ETXRESTART; SQLOCK_ETXGONE
 * on a MariaDB with innodb_snapshot_isolation, which ends it. */
void assert_restart(int rc, const sqlock_error *err);
/* What the state is after a statement that failed, and the way out of it. */
void undo_failed(void);
/* What core does around its statements: one that succeeds, one that fails. */
void be_adopted(void);

#endif
