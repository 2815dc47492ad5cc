/* Migrating where DDL commits by itself, on the fake database: a migrator whose link is cut behind
 * any call, that meets another one, or that comes late for its own lease. */
#include "tests/drivers/suite.h"

#include "tests/lib/fake_quirks.h"

extern const sqlock_dialect sqlock_fake_dialect;

/* ---- a driver without transactional DDL, that knows one migration more ----------------------- */

enum { LATEST = 4 }; /* of that driver */

static struct {
    sqlock_fake *db;
    long calls;
    long cut_after; /* the link breaks behind so many calls; -1: never */
    long visit_at;  /* visit() is called before this call; -1: never */
    void (*visit)(void);
    int64_t lease_end; /* by the migrator's own reckoning; 0: it has none */
    bool locked;       /* its row, from now on */
    long beyond;       /* calls that may last for longer than the lease */
} tap;

static void step(void)
{
    tap.calls++;
    if (tap.calls == tap.visit_at)
        tap.visit();
}

static void cut(void)
{
    if (tap.calls != tap.cut_after)
        return;
    sqlock_fake_down(tap.db, 1);
    sqlock_fake_down(tap.db, 0);
}

/* The lease counts from before the request, less a tenth; a moment more is forgiven. */
static void note_lease(const sqlock_value *values)
{
    tap.lease_end = sqlock_now_us() + values[3].i - values[3].i / 10 + 2000;
}

static void note_deadline(int64_t deadline)
{
    tap.beyond += tap.lease_end != 0 && deadline > tap.lease_end;
}

/* Its row is locked: it is the first token's, and is not renewed. */
static int answer_locked(sqlock_rows *rows)
{
    return sqlock_rows_add(rows, 0) != 0 || sqlock_rows_put_int(rows, 0) != 0 ||
                   sqlock_rows_put_int(rows, SQLOCK_OUT_SKIPPED) != 0 ||
                   sqlock_rows_put_int(rows, 1) != 0
               ? SQLOCK_ENOMEM
               : 0;
}

static int tap_run(void *conn, sqlock_stmt stmt, const sqlock_value *values, size_t n,
                   int64_t deadline, sqlock_rows *rows, sqlock_error *err)
{
    int rc;

    step();
    if (stmt == SQLOCK_STMT_MIGRATE_LEASE && tap.locked)
        return answer_locked(rows);
    if (stmt == SQLOCK_STMT_MIGRATE_LEASE)
        note_lease(values);
    else if (stmt != SQLOCK_STMT_HANDSHAKE && stmt != SQLOCK_STMT_REINCARNATE)
        note_deadline(deadline); /* those two come when the lease was given back */
    rc = sqlock_driver_fake()->run(conn, stmt, values, n, deadline, rows, err);
    cut();
    return rc;
}

/* Where each statement commits by itself migrations are of such as can be run again. */
static void repeatable(const char *sql, char *out, size_t size)
{
    static const char *const words[][2] = {{"CREATE TABLE IF NOT EXISTS ", ""}, /* is so already */
                                           {"CREATE TABLE ", "IF NOT EXISTS "},
                                           {"CREATE INDEX ", "IF NOT EXISTS "},
                                           {"DROP TABLE ", "IF EXISTS "},
                                           {"", ""}};
    size_t i = 0, n;

    while (strncmp(sql, words[i][0], strlen(words[i][0])) != 0)
        i++;
    n = strlen(words[i][0]);
    assert_true((size_t)snprintf(out, size, "%.*s%s%s", (int)n, sql, words[i][1], sql + n) < size);
}

static int tap_exec(void *conn, const char *sql, int64_t deadline, sqlock_error *err)
{
    char again[4096];
    int rc;

    step();
    note_deadline(deadline);
    repeatable(sql, again, sizeof again);
    rc = sqlock_driver_fake()->exec(conn, again, deadline, err);
    cut();
    return rc;
}

static const sqlock_driver *stepwise(sqlock_fake *db)
{
    static const char *const up[] = {"CREATE TABLE more (x)", "CREATE TABLE most (x)"};
    static const char *const down[] = {"UPDATE sqlock_meta SET version = 3",
                                       "DELETE FROM sqlock_migration WHERE version = 4",
                                       "DROP TABLE most", "DROP TABLE more"};
    static sqlock_migration migrations[LATEST];
    static sqlock_dialect dialect;
    static sqlock_driver driver;

    memset(&tap, 0, sizeof tap);
    tap.db = db;
    tap.cut_after = tap.visit_at = -1;
    tap.calls = tap.beyond = 0;
    tap.lease_end = 0;
    tap.locked = false;
    assert_int_equal(sqlock_fake_dialect.n_migrations, LATEST - 1);
    memcpy(migrations, sqlock_fake_dialect.migrations, (LATEST - 1) * sizeof *migrations);
    migrations[LATEST - 1] = (sqlock_migration){LATEST, "more", "0123456789abcdef", up, 2, down, 4};
    dialect = sqlock_fake_dialect;
    dialect.migrations = migrations;
    dialect.n_migrations = LATEST;
    driver = *sqlock_driver_fake();
    driver.caps &= ~SQLOCK_CAP_TX_DDL;
    driver.dialect = &dialect;
    driver.run = tap_run;
    driver.exec = tap_exec;
    return &driver;
}

static sqlock_open_opts opts_of(sqlock_fake *db)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;

    o.connect = sqlock_fake_connect;
    o.connect_user = db;
    return o;
}

static int migrate_to(const sqlock_driver *driver, sqlock_fake *db, int version, unsigned flags,
                      sqlock_error *err)
{
    sqlock_open_opts o = opts_of(db);

    return sqlock_migrate_to(driver, NULL, &o, version, flags, NULL, err);
}

static int count_applied(const sqlock_migration_info *info, void *user)
{
    *(int *)user += info->state == SQLOCK_MIGRATION_APPLIED;
    return 0;
}

static int applied(const sqlock_driver *driver, sqlock_fake *db)
{
    sqlock_open_opts o = opts_of(db);
    int n = 0;

    ok(sqlock_migration_status(driver, NULL, &o, count_applied, &n, &said));
    return n;
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* The next one waits for the lease of the one that was cut off; here the server's clock is put on.
 */
static void cut_everywhere(int version, unsigned flags, int expected)
{
    long n = 1;

    for (;; n++) {
        sqlock_fake *db = sqlock_fake_new();
        const sqlock_driver *driver = stepwise(db);

        ok(migrate_to(driver, db, version == 0 ? LATEST : 0, SQLOCK_MIGRATE_DOWN ^ flags, &said));
        tap.calls = 0;
        tap.cut_after = n;
        int rc = migrate_to(driver, db, version, flags, &said);
        bool was_cut = tap.calls >= n;

        tap.cut_after = -1;
        if (rc != 0)
            assert_true(said.flags & SQLOCK_RECONNECT);
        sqlock_fake_step_clock(db, 60000);
        ok(migrate_to(driver, db, version, flags, &said));
        assert_int_equal(applied(driver, db), expected);
        sqlock_fake_free(db);
        if (!was_cut)
            break;
    }
    assert_true(n > 8);
}

TEST(test_a_migrator_cut_off_behind_any_call_is_just_run_again)
{
    cut_everywhere(LATEST, 0, LATEST);
    cut_everywhere(0, SQLOCK_MIGRATE_DOWN, 0);
}

/* ---- two at once ----------------------------------------------------------------------------- */

/* Another migrator of the same kind, whose calls nobody counts. */
static int second_migrator(int32_t request_ms, sqlock_error *err)
{
    sqlock_driver driver = *sqlock_driver_fake();
    sqlock_open_opts o = opts_of(tap.db);

    driver.caps &= ~SQLOCK_CAP_TX_DDL;
    o.request_ms = request_ms;
    return sqlock_migrate(&driver, NULL, &o, NULL, err);
}

static void come_too_early(void)
{
    says(SQLOCK_ETIMEOUT, second_migrator(500, &said));
    assert_non_null(strstr(said.text, "another migration is running"));
}

TEST(test_a_migrator_waits_while_another_one_works)
{
    sqlock_fake *db = sqlock_fake_new();
    const sqlock_driver *driver = stepwise(db);

    tap.visit = come_too_early;
    tap.visit_at = 4; /* the lease, the version and the records come before */
    ok(migrate_to(driver, db, LATEST, 0, &said));
    assert_true(tap.calls > 4);
    assert_int_equal(applied(driver, db), LATEST);
    sqlock_fake_free(db);
}

/* To the server the first one's lease has run out, and the second one works, and ends. */
static void take_over(void)
{
    sqlock_fake_step_clock(tap.db, 60000);
    ok(second_migrator(1000, &said));
    sleep_ms(120);
}

TEST(test_a_migrator_that_lost_its_lease_stops)
{
    sqlock_fake *db = sqlock_fake_new();
    const sqlock_driver *driver = stepwise(db);
    sqlock_open_opts o = opts_of(db);

    o.request_ms = 200;
    tap.visit = take_over;
    tap.visit_at = 4;
    says(SQLOCK_ELOST, sqlock_migrate(driver, NULL, &o, NULL, &said));
    assert_int_equal(applied(driver, db), LATEST - 1);
    sqlock_fake_free(db);
}

/* P2: the rows of this database go with their table. */
static void lock_row(void)
{
    tap.locked = true;
    sleep_ms(150);
}

/* It goes on for as long as its lease lasts; what it asks for then must be over by the end of that.
 */
TEST(test_no_statement_of_a_migrator_outlasts_its_lease)
{
    sqlock_fake *db = sqlock_fake_new();
    const sqlock_driver *driver = stepwise(db);
    sqlock_open_opts o = opts_of(db);

    o.request_ms = 200; /* and 300 for the lease */
    tap.visit = lock_row;
    tap.visit_at = 4;
    if (sqlock_migrate(driver, NULL, &o, NULL, &said) != 0) /* on a slow machine it is too late */
        print_message("%s\n", said.text);
    assert_true(tap.calls > 4);
    assert_int_equal(tap.beyond, 0);
    sqlock_fake_free(db);
}

TEST(test_P2_tokens_rise_over_steps_down_and_up)
{
    sqlock_fake *db = sqlock_fake_new();
    const sqlock_driver *driver = stepwise(db);
    sqlock_open_opts o = opts_of(db);
    int64_t largest = 0;

    for (int round = 0; round < 3; round++) {
        sqlock *m = NULL;

        ok(migrate_to(driver, db, LATEST, 0, &said));
        ok(sqlock_open(driver, NULL, &o, &m, &said));
        for (int i = 0; i < 5; i++) {
            sqlock_lock *lock = take(m, "nightly");

            assert_true(sqlock_lock_token(lock) > largest);
            largest = sqlock_lock_token(lock);
            give(lock);
        }
        sqlock_close(m);
        ok(migrate_to(driver, db, 0, SQLOCK_MIGRATE_DOWN, &said));
    }
    sqlock_fake_free(db);
}

TEST_MAIN_ON(fake)
