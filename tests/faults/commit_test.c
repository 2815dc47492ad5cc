/* Commits whose wait is cancelled or killed, or that are not confirmed yet (P5). On PostgreSQL a
 * synchronous standby that is not there keeps the commit waiting; on SQLite, without WAL, a reader
 * does. The SQL alone is tried in tests/races. */
#include "tests/faults/faults.h"

#include <poll.h>
#include <string.h>

#include "tests/lib/lite.h"
#include "tests/lib/private.h"

#ifdef TEST_HAVE_SQLITE
#include <sqlite3.h>
#endif

static sqlock_error err;

#define NAME "nightly"

static sqlock *managers[2]; /* on PostgreSQL */

/* An acquire that is under way. */
static struct caller {
    sqlock_op *op;
    sqlock_lock *lock;
    int rc;
    int64_t begun, got;
} caller;

__attribute__((unused)) static void caller_start(sqlock *m, int32_t wait_ms)
{
    sqlock_acquire_opts opts = SQLOCK_ACQUIRE_OPTS_INIT;

    memset(&caller, 0, sizeof caller);
    opts.lease_ms = 2000;
    opts.wait_ms = wait_ms;
    opts.flags = SQLOCK_NO_RENEW;
    caller.begun = sqlock_now_us();
    assert_ok(sqlock_acquire_start(m, NAME, &opts, &caller.op, &err), &err);
}

static void caller_join(void)
{
    struct pollfd p = {.events = POLLIN};

    if (caller.op == NULL)
        return;
    p.fd = sqlock_op_fd(caller.op);
    while (!sqlock_op_step(caller.op))
        poll(&p, 1, 1000);
    caller.got = sqlock_now_us();
    caller.rc = sqlock_op_finish(caller.op, &caller.lock, NULL);
    caller.op = NULL;
}

/* ---- PostgreSQL ------------------------------------------------------------------------------ */

#ifdef TEST_HAVE_POSTGRES

#define SCHEMA "commits"

/* From now on commits wait for a standby that never comes; or they do not any more. */
static void standby_wanted(bool wanted)
{
    private_set("synchronous_standby_names", wanted ? "nobody" : "");
    /* sessions learn of it when the checkpointer has said so */
    sleep_ms(50);
}

static int64_t who_waits(void)
{
    return private_number("SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' LIMIT 1");
}

/* The driver, but for a look by whom a row is locked: the standby comes just before it, and the
 * commit that waited for it ends. */
static const sqlock_driver *real;
static int looks;

static int run_behind_the_commit(void *conn, const sqlock_call *call, sqlock_stmt stmt,
                                 const sqlock_value *values, size_t n, int64_t deadline,
                                 sqlock_rows *rows, sqlock_error *out_err)
{
    if (stmt == SQLOCK_STMT_GUARDED && looks++ == 0) {
        standby_wanted(false);
        assert_soon(who_waits() < 0, patience_ms(5000));
    }
    return real->run(conn, call, stmt, values, n, deadline, rows, out_err);
}

static const sqlock_driver *delayed(void)
{
    static sqlock_driver driver;

    real = private_db(SCHEMA).driver;
    driver = *real;
    driver.run = run_behind_the_commit;
    looks = 0;
    return &driver;
}

/* Two managers whose connections are open; the name has a row with token 1, which is free. */
static void postgres_with_standby(void)
{
    struct db db = private_new(SCHEMA);

    db.request_ms = 2000;
    db.driver = delayed();
    for (int i = 0; i < 2; i++)
        managers[i] = db_open(db);
    lock_draw(managers[0], NAME);
    standby_wanted(true);
}

/* `how` ends the wait of an acquire for the standby. The grant is on this server and may be lost
 * with it: nobody may be told that it is held, before a commit was confirmed. */
static void ended_in_its_commit(const char *how)
{
    struct row row;

    postgres_with_standby();
    caller_start(managers[0], 1500);
    assert_soon(who_waits() > 0, patience_ms(5000));
    private_number("SELECT %s(%lld)::int", how, (long long)who_waits());
    caller_join();
    assert_int_equal(caller.rc, SQLOCK_EUNSURE);
    assert_int_equal(sqlock_lock_state(caller.lock), SQLOCK_UNSURE);
    assert_between(1400 * MS, caller.got - caller.begun, 1600 * MS + patience_ms(300) * MS);
    row = row_of(managers[1], NAME);
    assert_int_equal(row.held, 1);
    standby_wanted(false);
    assert_ok(sqlock_settle(caller.lock, 5000, &err), &err);
    assert_int_equal(sqlock_lock_state(caller.lock), SQLOCK_HELD);
    row = row_of(managers[1], NAME);
    assert_int_equal(row.n, 1);
    assert_int_equal(row.token, sqlock_lock_token(caller.lock));
    assert_true(row.token >= 2);
    lock_give(caller.lock);
}

TEST(test_grant_whose_commit_was_cancelled_is_unsure_on_postgres)
{
    ended_in_its_commit("pg_cancel_backend");
}

TEST(test_grant_whose_commit_was_killed_is_unsure_on_postgres)
{
    ended_in_its_commit("pg_terminate_backend");
}

/* An acquire that nothing is heard of while its commit waits for the standby. */
static void unsure_in_its_commit(void)
{
    postgres_with_standby();
    caller_start(managers[0], 600);
    caller_join();
    assert_int_equal(caller.rc, SQLOCK_EUNSURE);
}

/* The row is locked, perhaps by the very grant that is asked about. */
TEST(test_settle_of_a_grant_in_its_commit_is_unsure_on_postgres)
{
    unsure_in_its_commit();
    looks = 1; /* the standby does not come by itself */
    assert_code(SQLOCK_EUNSURE, sqlock_settle(caller.lock, 500, &err), &err);
    assert_int_equal(sqlock_lock_state(caller.lock), SQLOCK_UNSURE);
    standby_wanted(false);
    assert_ok(sqlock_settle(caller.lock, 5000, &err), &err);
    assert_int_equal(sqlock_lock_state(caller.lock), SQLOCK_HELD);
    lock_give(caller.lock);
}

/* The row is locked by the very grant that is asked about, which is committed before the look. */
TEST(test_settle_of_a_grant_whose_commit_ends_meanwhile_is_held_on_postgres)
{
    unsure_in_its_commit();
    assert_ok(sqlock_settle(caller.lock, 5000, &err), &err);
    assert_true(looks > 0);
    assert_int_equal(sqlock_lock_state(caller.lock), SQLOCK_HELD);
    assert_int_equal(row_of(managers[1], NAME).token, sqlock_lock_token(caller.lock));
    lock_give(caller.lock);
}

#endif

/* ---- SQLite ---------------------------------------------------------------------------------- */

#ifdef TEST_HAVE_SQLITE

static sqlite3 *reader;

/* The managers know the file and its statements; nothing is held. */
static void sqlite_with_reader(void)
{
    stage_sqlite();
    for (int i = 0; i < 2; i++)
        lock_draw(stage_open(), NAME);
    reader = lite_open(stage_file());
    lite_exec(reader, "BEGIN; SELECT count(*) FROM sqlock_lock");
}

TEST(test_grant_whose_commit_was_cancelled_is_none_on_sqlite)
{
    int64_t before;

    sqlite_with_reader();
    before = row_of(stage.managers[1], NAME).token;
    caller_start(stage.managers[0], 8000);
    sleep_ms(200);
    sqlock_op_cancel(caller.op);
    caller_join();
    assert_int_equal(caller.rc, SQLOCK_ECANCELLED);
    assert_null(caller.lock);
    lite_exec(reader, "COMMIT");
    assert_int_equal(row_of(stage.managers[1], NAME).held, 0);
    assert_int_equal(row_of(stage.managers[1], NAME).token, before); /* nor drawn */
    assert_true(lock_draw(stage.managers[1], NAME) > before);        /* nothing was left open */
}

#endif

static int teardown(void **state)
{
#ifdef TEST_HAVE_POSTGRES
    if (managers[0])
        standby_wanted(false);
#endif
#ifdef TEST_HAVE_SQLITE
    sqlite3_close(reader);
    reader = NULL;
#endif
    caller_join();
    memset(&caller, 0, sizeof caller);
    for (int i = 0; i < 2; i++) {
        sqlock_close(managers[i]);
        managers[i] = NULL;
    }
    return stage_teardown(state);
}

TEST_MAIN_EACH(NULL, teardown)
