/* P13: compare and set on a table whose triggers change what was written (PostgreSQL). */
#include <sqlock/postgres.h>

#include "tests/drivers/suite_cas.h"
#include "tests/lib/postgres_quirks.h"

/* Before each change of an offer, in this transaction. */
static void trigger(const char *body)
{
    char sql[300];

    app_exec(g.app, "BEGIN");
    snprintf(sql, sizeof sql,
             "CREATE FUNCTION app_meddle() RETURNS trigger LANGUAGE plpgsql AS "
             "'BEGIN %s; END'",
             body);
    app_exec(g.app, sql);
    app_exec(g.app, "CREATE TRIGGER app_meddler BEFORE UPDATE ON app_offer FOR EACH ROW "
                    "EXECUTE PROCEDURE app_meddle()");
}

/* Whoever has read the row before would not see that it was changed. */
TEST_AFTER(set_cas_stage, test_version_that_a_trigger_puts_back_requires_a_restart)
{
    trigger("NEW.version = OLD.version; RETURN NEW");
    says(SQLOCK_ETXRESTART, set_price(cas.conn, 1, sqlock_int(1000), 11));
}

TEST_AFTER(set_cas_stage, test_row_that_a_trigger_keeps_is_refused)
{
    trigger("RETURN NULL");
    says(SQLOCK_EREFUSED, set_price(cas.conn, 1, sqlock_int(1000), 11));
    assert_int_equal(price_of(g.app, 1), 10);
}

TEST_MAIN_ON(postgres)
