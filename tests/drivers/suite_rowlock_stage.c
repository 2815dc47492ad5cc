#include "tests/drivers/suite_rowlock.h"

struct row_stage rs;

void set_row_stage(struct world *w)
{
    begin_app(w);
    rs.m = open_manager(g.w, NULL);
    rs.conn = adopted(rs.m, g.app);
    rs.other_app = app_connect();
    rs.other = adopted(rs.m, rs.other_app);
    rs.one_writer = (g.driver->caps & SQLOCK_CAP_ONE_WRITER) != 0;
    app_exec(g.app, "INSERT INTO app_row VALUES (2, 20)");
}

sqlock_row_opts row_opts(unsigned flags, int32_t wait_ms)
{
    sqlock_row_opts o = SQLOCK_ROW_OPTS_INIT;

    o.flags = flags;
    o.wait_ms = wait_ms;
    return o;
}

int lock_row_opts(sqlock_conn *conn, int64_t id, const sqlock_row_opts *opts)
{
    return sqlock_row_lock(conn, ROW("app_row", id), 1, opts, &said);
}

int lock_row_with(sqlock_conn *conn, int64_t id, unsigned flags, int32_t wait_ms)
{
    sqlock_row_opts o = row_opts(flags, wait_ms);

    return lock_row_opts(conn, id, &o);
}

int lock_row(sqlock_conn *conn, int64_t id)
{
    return lock_row_with(conn, id, 0, 0);
}

int lock_row_by(const char *table, const char *column, sqlock_value value)
{
    sqlock_row_opts o = row_opts(0, 0);
    sqlock_column key[] = {{.name = column, .value = value}};
    sqlock_row row = {sizeof row, NULL, table, key, 1};

    return sqlock_row_lock(rs.conn, &row, 1, &o, &said);
}

int lock_row_name(sqlock_conn *conn, const char *name, int32_t wait_ms)
{
    sqlock_row_opts o = row_opts(0, wait_ms);

    return sqlock_name_lock(conn, name, &o, &said);
}

void begin_both(void)
{
    app_exec(g.app, g.side->begins[0]);
    app_exec(rs.other_app, g.side->begins[0]);
}

void begin_behind_other(void)
{
    begin_both();
    ok(lock_row(rs.other, 1));
}

void end_both(const char *how)
{
    app_exec(g.app, how);
    app_exec(rs.other_app, "ROLLBACK");
}
