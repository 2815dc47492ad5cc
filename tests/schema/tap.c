#include "tests/schema/schema.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct tap tap;

static void before_call(void)
{
    if (tap.kill_after == 0)
        kill(getpid(), SIGKILL);
    if (tap.before != NULL)
        tap.before(tap.user, tap.calls);
}

static int after_call(int rc)
{
    if (++tap.calls == tap.kill_after)
        kill(getpid(), SIGKILL);
    return rc;
}

static int tap_run(void *conn, const sqlock_call *call, sqlock_stmt stmt,
                   const sqlock_value *values, size_t n, int64_t deadline, sqlock_rows *rows,
                   sqlock_error *err)
{
    before_call();
    return after_call(tap.real->run(conn, call, stmt, values, n, deadline, rows, err));
}

static int tap_exec(void *conn, const char *sql, int64_t deadline, sqlock_error *err)
{
    before_call();
    return after_call(tap.real->exec(conn, sql, deadline, err));
}

static int tap_begin(void *conn, int64_t deadline, sqlock_error *err)
{
    before_call();
    return after_call(tap.real->begin(conn, deadline, err));
}

static int tap_commit(void *conn, int64_t deadline, sqlock_error *err)
{
    before_call();
    return after_call(tap.real->commit(conn, deadline, err));
}

static int tap_rollback(void *conn, int64_t deadline, sqlock_error *err)
{
    before_call();
    return after_call(tap.real->rollback(conn, deadline, err));
}

struct place place_tapped(const struct place *p, struct tap **out_tap)
{
    static sqlock_driver driver;
    struct place tapped = *p;

    tap = (struct tap){.real = p->driver, .kill_after = -1};
    driver = *p->driver;
    driver.run = tap_run;
    driver.exec = tap_exec;
    driver.begin = tap_begin;
    driver.commit = tap_commit;
    driver.rollback = tap_rollback;
    tapped.driver = &driver;
    *out_tap = &tap;
    return tapped;
}

/* ---- other libraries ------------------------------------------------------------------------- */

/* To the end of the process, where managers point to it. */
static void *keep(const void *data, size_t size)
{
    return memcpy(kept(malloc(size)), data, size);
}

struct place place_with(const struct place *p, const sqlock_dialect *dialect)
{
    struct place other = *p;
    sqlock_driver driver = *p->driver;

    other.dialect = keep(dialect, sizeof *dialect);
    driver.dialect = other.dialect;
    other.driver = keep(&driver, sizeof driver);
    return other;
}

static const char *const more_up[] = {
    "CREATE TABLE IF NOT EXISTS {schema}.{prefix}more (id integer PRIMARY KEY)",
    "UPDATE {meta} SET min_reader = 4 WHERE id = 1",
    "CREATE TABLE IF NOT EXISTS {schema}.{prefix}most (id integer PRIMARY KEY)",
};
static const char *const more_down[] = {
    "UPDATE {meta} SET version = 3, min_reader = 4 WHERE id = 1",
    "DROP TABLE IF EXISTS {schema}.{prefix}most",
    "DROP TABLE IF EXISTS {schema}.{prefix}more",
    "DELETE FROM {migration} WHERE version = 4",
};

struct place place_grown(const struct place *p)
{
    sqlock_dialect dialect = *p->dialect;
    sqlock_migration all[4];

    assert_int_equal(p->dialect->n_migrations, 3); /* else give `more` the next number */
    memcpy(all, p->dialect->migrations, 3 * sizeof *all);
    all[3] = (sqlock_migration){4, "more", "0123456789abcdef", more_up, 3, more_down, 4};
    dialect.migrations = keep(all, sizeof all);
    dialect.n_migrations = 4;
    return place_with(p, &dialect);
}

struct place place_older(const struct place *p)
{
    sqlock_dialect dialect = *p->dialect;

    assert_true(dialect.n_migrations > 1);
    dialect.n_migrations--;
    return place_with(p, &dialect);
}

struct place place_of_generation(const struct place *p, int more)
{
    sqlock_dialect dialect = *p->dialect;
    sqlock_script scripts[SQLOCK_STMT_COUNT], *handshake = &scripts[SQLOCK_STMT_HANDSHAKE];
    sqlock_step steps[16], *last;
    const char *other = textf("min_reader + %d", more);

    memcpy(scripts, dialect.scripts, sizeof scripts);
    assert_true(handshake->n_steps <= sizeof steps / sizeof *steps);
    memcpy(steps, handshake->steps, handshake->n_steps * sizeof *steps);
    last = &steps[handshake->n_steps - 1];
    assert_non_null(strstr(last->sql, "min_reader"));
    last->sql = text_replace(last->sql, "min_reader", other);
    handshake->steps = keep(steps, sizeof steps);
    dialect.scripts = keep(scripts, sizeof scripts);
    return place_with(p, &dialect);
}
