/* A table of offers, whose rows have a version: what tests of compare and set share. */
#ifndef SQLOCK_TESTS_DRIVERS_SUITE_CAS_H
#define SQLOCK_TESTS_DRIVERS_SUITE_CAS_H

#include <sqlock/cas.h>

#include "tests/drivers/suite_in_transaction.h"

#define REQUEST_MS patience_ms(600) /* where a test waits for its end */

/* app_offer: number 1 has the price 10 and the version 1000, number 2 no version. */
struct cas_stage {
    sqlock *m;
    sqlock_conn *conn;
    void *other; /* somebody else's connection */
    sqlock_row_version version;
};
extern struct cas_stage cas;

/* Before every test. The other one's requests have REQUEST_MS. */
void set_cas_stage(struct world *w);
void set_brief_cas_stage(struct world *w);

sqlock_row_version *expect_version(sqlock_value expected);
int set_price(sqlock_conn *conn, int64_t id, sqlock_value expected, int64_t price);
int insert_offer(int64_t id, int64_t code);
/* One column of number 1, whose version is this, or what it is now. */
int assign_from(int64_t expected, sqlock_column set);
int assign(const char *column, sqlock_value value, const char *expression);
int64_t price_of(void *app, int64_t id);
int64_t version_of(void *app, int64_t id);
void found_version(int64_t version); /* it is what the last call found */

#endif
