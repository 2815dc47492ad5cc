/* Releases do not wait for the disk, nor for a standby: what a crash may then undo, and what not
 * (P1, P2, P5). The same for SQLite's files: tests/input/file_synced_test.c. */
#include "tests/faults/faults.h"

#include <signal.h>
#include <sqlock/async.h>
#include <string.h>

#include "tests/lib/private.h"

#ifdef TEST_HAVE_POSTGRES

static sqlock_error err;

#define NAME "nightly"

enum { LEASE_MS = 3000 };

static struct db db;
static sqlock *managers[2];

static void begin(unsigned flags)
{
    db = private_new("lazy");
    db.flags = flags;
    db.request_ms = patience_ms(1000);
    for (int i = 0; i < 2; i++)
        managers[i] = db_open(db);
    lock_draw(managers[1], NAME);
}

static int64_t pid_of(const char *what)
{
    return private_number("SELECT pid FROM pg_stat_activity WHERE backend_type = '%s'", what);
}

/* ---- a crash --------------------------------------------------------------------------------- */

/* What nobody waits for stays in the server's memory. */
static void writer_stopped(void)
{
    assert_int_equal(kill((pid_t)pid_of("walwriter"), SIGSTOP), 0);
    private_exec("CHECKPOINT");
}

static void crash(void)
{
    private_restart(0);
    for (int i = 0; i < 2; i++) {
        sqlock_close(managers[i]);
        managers[i] = db_open(db);
    }
}

static sqlock_lock *released_and_crashed(unsigned flags)
{
    sqlock_lock *lock;

    begin(flags);
    lock = lock_take(managers[0], NAME, LEASE_MS, 0);
    writer_stopped();
    assert_ok(sqlock_release(lock, &err), &err);
    assert_int_equal(row_of(managers[1], NAME).held, 0);
    crash();
    return lock;
}

/* The lock stands until the lease of its former holder ends. Tokens go on above its token. */
TEST(test_P5_release_that_a_crash_undid_stands_until_its_lease_ends)
{
    sqlock_lock *was = released_and_crashed(0), *lock = NULL;
    struct row row = row_of(managers[1], NAME);
    int64_t token = sqlock_lock_token(was);

    assert_int_equal(row.held, 1);
    assert_int_equal(row.token, token);
    assert_code(SQLOCK_EBUSY, lock_try(managers[1], NAME, 0, &lock, &err), &err);
    lock = lock_take(managers[1], NAME, LEASE_MS, 0); /* waits */
    assert_true(sqlock_lock_token(lock) > token);
    lock_give(lock);
    sqlock_lock_free(was);
}

TEST(test_P5_durable_release_outlives_a_crash)
{
    sqlock_lock *was = released_and_crashed(SQLOCK_OPEN_DURABLE_RELEASE);

    assert_int_equal(row_of(managers[1], NAME).held, 0);
    assert_true(lock_draw(managers[1], NAME) > sqlock_lock_token(was));
    sqlock_lock_free(was);
}

static void grant_outlives_a_crash(sqlock_lock *lock)
{
    sqlock_lock *next = NULL;
    struct row row;

    crash();
    row = row_of(managers[0], NAME);
    assert_int_equal(row.held, 1);
    assert_int_equal(row.token, sqlock_lock_token(lock));
    assert_code(SQLOCK_EBUSY, lock_try(managers[0], NAME, 0, &next, &err), &err);
    sqlock_lock_free(lock);
}

/* The grant waits for the disk, and takes the release before it along. */
TEST(test_P1_grant_behind_a_release_outlives_a_crash)
{
    sqlock_lock *lock;

    begin(0);
    lock = lock_take(managers[0], NAME, LEASE_MS, 0);
    writer_stopped();
    lock_give(lock);
    lock = lock_take(managers[1], NAME, 60000, 0);
    grant_outlives_a_crash(lock);
}

/* ---- with a waiter --------------------------------------------------------------------------- */

/* In the queue, behind whoever holds the lock. */
static sqlock_op *wait_in_queue(int manager)
{
    sqlock_acquire_opts opts = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_op *op = NULL;

    opts.wait_ms = patience_ms(20000);
    opts.lease_ms = 60000;
    assert_ok(sqlock_acquire_start(managers[manager], NAME, &opts, &op, &err), &err);
    assert_soon(sqlock_op_place(op) == 1, patience_ms(5000));
    return op;
}

static void passed_on_and_crashed(int waits)
{
    sqlock_lock *lock;
    sqlock_op *op;

    begin(0);
    lock = lock_take(managers[0], NAME, 60000, 0);
    op = wait_in_queue(waits);
    writer_stopped();
    lock_give(lock);
    assert_ok(sqlock_op_finish(op, &lock, &err), &err);
    grant_outlives_a_crash(lock);
}

TEST(test_P1_grant_after_an_offer_outlives_a_crash)
{
    passed_on_and_crashed(1);
}

TEST(test_P1_grant_by_a_release_of_the_same_manager_outlives_a_crash)
{
    passed_on_and_crashed(0);
}

/* ---- a standby that does not answer ---------------------------------------------------------- */

static void standby_wanted(bool wanted)
{
    private_set("synchronous_standby_names", wanted ? "nobody" : "");
    sleep_ms(50); /* until the checkpointer has said so */
}

TEST(test_P5_release_waits_for_no_standby)
{
    sqlock_lock *lock;

    begin(0);
    lock = lock_take(managers[0], NAME, 60000, 0);
    standby_wanted(true);
    assert_ok(sqlock_release(lock, &err), &err);
    assert_int_equal(row_of(managers[1], NAME).held, 0);
    sqlock_lock_free(lock);
}

static int notify_and_hang(void *arg)
{
    (void)arg;
    private_exec("BEGIN; INSERT INTO lazy_app VALUES (1); NOTIFY jobs; COMMIT");
    return 0;
}

/* The server process of an application that keeps the server's lock for notifications: it waited
 * for the standby, and is stopped. */
static pid_t notifier_stopped(void)
{
    const char *locked = "FROM pg_locks WHERE locktype = 'object' AND classid = 1262 AND objid = 0"
                         " AND granted";
    pid_t server;

    assert_soon(private_number("SELECT count(*) %s", locked) == 1, patience_ms(5000));
    server = (pid_t)private_number("SELECT pid %s", locked);
    assert_int_equal(kill(server, SIGSTOP), 0);
    standby_wanted(false);
    return server;
}

TEST(test_P22_release_does_not_wait_for_long_for_a_notification_of_others)
{
    sqlock_lock *lock, *next;
    int64_t token, began;
    pid_t app, server;
    sqlock_op *op;

    begin(0);
    private_exec("CREATE TABLE IF NOT EXISTS lazy_app (x int)");
    lock = lock_take(managers[0], NAME, 60000, 0);
    token = sqlock_lock_token(lock);
    op = wait_in_queue(1);
    standby_wanted(true);
    app = child_start(notify_and_hang, NULL);
    server = notifier_stopped();
    began = now_us();
    assert_ok(sqlock_release(lock, &err), &err);
    assert_between(0, now_us() - began, late_ms(700) * INT64_C(1000));
    sqlock_lock_free(lock);
    assert_ok(sqlock_op_finish(op, &next, &err), &err); /* by a look */
    assert_true(sqlock_lock_token(next) > token);
    kill(server, SIGCONT);
    assert_int_equal(child_wait(app, patience_ms(5000)), 0);
    lock_give(next);
}

TEST(test_P5_durable_release_waits_for_the_standby)
{
    sqlock_lock *lock;

    begin(SQLOCK_OPEN_DURABLE_RELEASE);
    lock = lock_take(managers[0], NAME, 60000, 0);
    standby_wanted(true);
    assert_code(SQLOCK_EUNSURE, sqlock_release(lock, &err), &err);
    standby_wanted(false);
    assert_ok(sqlock_release(lock, &err), &err);
    sqlock_lock_free(lock);
}

/* Also on the connection that has just sent a release. */
TEST(test_P1_all_but_releases_wait_for_the_standby)
{
    sqlock_lock *lock, *broken, *other = NULL;

    begin(0);
    lock = lock_take(managers[0], "a", 60000, 0);
    broken = lock_take(managers[0], "b", 60000, 0);
    lock_draw(managers[0], "c");
    standby_wanted(true);
    assert_code(SQLOCK_EUNSURE, sqlock_break(managers[0], "b", sqlock_lock_token(broken), &err),
                &err);
    assert_code(SQLOCK_EUNSURE, sqlock_renew(lock, &err), &err);
    assert_code(SQLOCK_EUNSURE, lock_try(managers[1], "c", 0, &other, &err), &err);
    standby_wanted(false);
    sqlock_lock_free(other);
    sqlock_lock_free(broken);
    sqlock_lock_free(lock);
}

static int teardown(void **state)
{
    (void)state;
    if (managers[0] != NULL)
        standby_wanted(false);
    for (int i = 0; i < 2; i++) {
        sqlock_close(managers[i]);
        managers[i] = NULL;
    }
    return 0;
}

TEST_MAIN_EACH(NULL, teardown)

#else

TEST(test_releases_that_do_not_wait_for_the_disk)
{
    private_url(); /* skips */
}

TEST_MAIN_EACH(NULL, NULL)

#endif
