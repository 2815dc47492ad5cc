#include "tests/drivers/suite_cas.h"

struct cas_stage cas;

static void set_stage(struct world *w, int32_t request_ms)
{
    begin_app(w);
    app_exec(g.app, "CREATE TABLE app_offer (id INTEGER PRIMARY KEY, price INTEGER NOT NULL, "
                    "note VARCHAR(99), version BIGINT, code INTEGER UNIQUE, small SMALLINT)");
    app_exec(g.app, "INSERT INTO app_offer (id, price, version, code) VALUES (1, 10, 1000, 7)");
    app_exec(g.app, "INSERT INTO app_offer (id, price, code) VALUES (2, 20, 9)");
    cas.m = open_with(g.w, with.request_ms = request_ms);
    cas.conn = adopted(cas.m, g.app);
    cas.other = app_connect_impatient();
}

void set_cas_stage(struct world *w)
{
    set_stage(w, patience_ms(10000));
}

void set_brief_cas_stage(struct world *w)
{
    set_stage(w, REQUEST_MS);
}

sqlock_row_version *expect_version(sqlock_value expected)
{
    cas.version = (sqlock_row_version){sizeof cas.version, 0, "version", expected, sqlock_null()};
    return &cas.version;
}

int set_price(sqlock_conn *conn, int64_t id, sqlock_value expected, int64_t price)
{
    sqlock_column set = {"price", sqlock_int(price), NULL};

    return sqlock_cas_update(conn, ROW("app_offer", id), expect_version(expected), &set, 1, &said);
}

int insert_offer(int64_t id, int64_t code)
{
    sqlock_column set[] = {{"price", sqlock_int(77), NULL}, {"code", sqlock_int(code), NULL}};

    return sqlock_cas_insert(cas.conn, ROW("app_offer", id), expect_version(sqlock_null()), set, 2,
                             &said);
}

int assign_from(int64_t version, sqlock_column set)
{
    return sqlock_cas_update(cas.conn, ROW("app_offer", 1), expect_version(sqlock_int(version)),
                             &set, 1, &said);
}

int assign(const char *column, sqlock_value value, const char *expression)
{
    return assign_from(version_of(g.app, 1), (sqlock_column){column, value, expression});
}

int64_t price_of(void *app, int64_t id)
{
    char sql[80];

    snprintf(sql, sizeof sql, "SELECT price FROM app_offer WHERE id = %d", (int)id);
    return app_number(app, sql);
}

int64_t version_of(void *app, int64_t id)
{
    char sql[80];

    snprintf(sql, sizeof sql, "SELECT version FROM app_offer WHERE id = %d", (int)id);
    return app_number(app, sql);
}

void found_version(int64_t version)
{
    assert_int_equal(cas.version.found.type, SQLOCK_INT);
    assert_true(cas.version.found.i == version);
}
