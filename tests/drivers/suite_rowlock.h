/* Two of the application's connections that meet at rows: what tests of row locks share. */
#ifndef SQLOCK_TESTS_DRIVERS_SUITE_ROWLOCK_H
#define SQLOCK_TESTS_DRIVERS_SUITE_ROWLOCK_H

#include <sqlock/rows.h>

#include "tests/drivers/suite_in_transaction.h"

/* Both connections, and what the last call said. */
struct row_stage {
    sqlock *m;
    void *other_app;
    sqlock_conn *conn, *other;
    bool one_writer;
};
extern struct row_stage rs;

/* First line of every test: app_row has a row 1 with n = 10, and a row 2. */
void set_row_stage(struct world *w);

sqlock_row_opts row_opts(unsigned flags, int32_t wait_ms);
/* Lock row number id of app_row; without a wait. */
int lock_row_opts(sqlock_conn *conn, int64_t id, const sqlock_row_opts *opts);
int lock_row_with(sqlock_conn *conn, int64_t id, unsigned flags, int32_t wait_ms);
int lock_row(sqlock_conn *conn, int64_t id);
/* The row of a table where column has the value, on the first connection. */
int lock_row_by(const char *table, const char *column, sqlock_value value);
int lock_row_name(sqlock_conn *conn, const char *name, int32_t wait_ms);

void begin_both(void);
void begin_behind_other(void);  /* and the other has locked row 1 */
void end_both(const char *how); /* of the first one; the other rolls back */

#endif
