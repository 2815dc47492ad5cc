/* A migrator that comes late for its own lease, where DDL commits by itself: on the fake database.
 * Those that are killed, meet others, or lose the lease are in tests/schema. */
#include "tests/drivers/suite.h"

#include "tests/lib/fake_quirks.h"

static struct {
    int statements;
    int64_t lease_end; /* by the migrator's own reckoning; 0: it has none */
    bool locked;       /* its row, from now on */
    long beyond;       /* calls that may last for longer than the lease */
} tap;

static void note_deadline(int64_t deadline)
{
    tap.beyond += tap.lease_end != 0 && deadline > tap.lease_end;
}

/* Its row is locked: it is the first token's, and is not renewed. */
static int answer_locked(sqlock_rows *rows)
{
    return spy_answer(rows, 0, SQLOCK_OUT_SKIPPED) != 0 || sqlock_rows_put_int(rows, 1) != 0
               ? SQLOCK_ENOMEM
               : 0;
}

/* The lease counts from before the request, less a tenth; a moment more is forgiven. */
static int tap_run(void *conn, const sqlock_call *call, sqlock_stmt stmt,
                   const sqlock_value *values, size_t n, int64_t deadline, sqlock_rows *rows,
                   sqlock_error *err)
{
    if (stmt == SQLOCK_STMT_MIGRATE_LEASE && tap.locked)
        return answer_locked(rows);
    if (stmt == SQLOCK_STMT_MIGRATE_LEASE)
        tap.lease_end = sqlock_now_us() + values[3].i - values[3].i / 10 + 2000;
    else if (stmt != SQLOCK_STMT_HANDSHAKE && stmt != SQLOCK_STMT_REINCARNATE)
        note_deadline(deadline); /* those two come when the lease was given back */
    return sqlock_driver_fake()->run(conn, call, stmt, values, n, deadline, rows, err);
}

/* Behind the first statement the row is locked, and time passes. */
static int tap_exec(void *conn, const char *sql, int64_t deadline, sqlock_error *err)
{
    note_deadline(deadline);
    if (tap.statements++ == 0) {
        tap.locked = true;
        sleep_ms(150);
    }
    return sqlock_driver_fake()->exec(conn, sql, deadline, err);
}

/* One migration more is there to be run. The migrator goes on for as long as its lease lasts; what
 * it asks for then must be over by the end of that. */
BARE_TEST(test_no_statement_of_a_migrator_outlasts_its_lease)
{
    static const char *const more[] = {"CREATE TABLE more (x)", "CREATE TABLE most (x)"};
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock_driver driver = *sqlock_driver_fake();
    sqlock_dialect dialect = *driver.dialect;
    sqlock_migration migrations[8];
    int n = (int)dialect.n_migrations;

    memcpy(migrations, dialect.migrations, dialect.n_migrations * sizeof *migrations);
    migrations[n] = (sqlock_migration){n + 1, "more", "0123456789abcdef", more, 2, more, 2};
    dialect.migrations = migrations;
    dialect.n_migrations++;
    driver.dialect = &dialect;
    driver.caps &= ~SQLOCK_CAP_TX_DDL;
    driver.run = tap_run;
    driver.exec = tap_exec;
    place_opts(w, &o);
    o.request_ms = 200;                                      /* and 300 for the lease */
    if (sqlock_migrate(&driver, NULL, &o, NULL, &said) != 0) /* on a slow machine it is too late */
        print_message("%s\n", said.text);
    assert_true(tap.statements > 1);
    assert_int_equal(tap.beyond, 0);
}

TEST_MAIN_ON(fake)
