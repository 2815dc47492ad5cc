/* The session on which a manager listens for its waiters ends, by the server's will or the
 * network's (P21). */
#include "tests/faults/faults.h"

#include <sqlock/async.h>

static sqlock_error err;

#define NAME  "nightly"
#define DELAY 30 /* of each byte, each direction */
#define FAR   100

static int64_t clients_by_session(int session)
{
    return pg_number("SELECT count(*) FROM %s.sqlock_client WHERE session = %d", stage.at.schema,
                     session);
}

/* In the queue, and the database knows that a session listens for it. */
static sqlock_op *wait_and_listen(sqlock *m)
{
    sqlock_acquire_opts opts = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_op *op = NULL;

    opts.wait_ms = patience_ms(30000);
    assert_ok(sqlock_acquire_start(m, NAME, &opts, &op, &err), &err);
    assert_soon(
        pg_number("SELECT count(*) FROM %s.sqlock_client WHERE session = 1", stage.at.schema) == 1,
        patience_ms(10000));
    return op;
}

static void listener_ends(void)
{
    int64_t n =
        pg_number("SELECT count(pg_terminate_backend(l.pid)) FROM pg_locks l, %s.sqlock_client c"
                  " WHERE l.locktype = 'advisory' AND l.granted AND (l.classid::bigint << 32 | "
                  "l.objid::bigint)"
                  " = ('x' || encode(substr(c.id, 1, 8), 'hex'))::bit(64)::bigint",
                  stage.at.schema);

    assert_int_equal(n, 1);
}

/* To say that it lives the client needs one request, on the connection that it has. To connect anew
 * takes four times as long here. */
TEST(test_P21_client_whose_listening_session_ended_says_at_once_that_it_lives)
{
    sqlock_lock *lock, *newcomer = NULL;
    sqlock *far, *near;
    int64_t ended;
    sqlock_op *op;

    stage_proxied();
    near = stage_open();
    lock = held(near, NAME, 60000, NULL);
    proxy_delay(stage.proxy, DELAY);
    far = stage_open_cut();
    op = wait_and_listen(far);
    late_begin();
    ended = now_us();
    listener_ends();
    assert_soon(clients_by_session(0) == 1, patience_ms(5000));
    assert_between(0, now_us() - ended, late_ms(6 * DELAY) * INT64_C(1000));
    assert_ok(sqlock_release(lock, &err), &err);
    sqlock_lock_free(lock);
    assert_code(SQLOCK_EBUSY, take(near, NAME, 5000, 0, NULL, &newcomer, &err), &err);
    assert_ok(sqlock_op_finish(op, &lock, &err), &err);
    assert_ok(sqlock_release(lock, &err), &err);
    sqlock_lock_free(lock);
}

/* Where it takes long to connect, looks must leave time for it: a look takes longer here than their
 * interval is. */
TEST(test_P22_waiter_of_a_server_that_is_far_away_listens)
{
    sqlock_lock *lock;
    sqlock_op *op;

    stage_proxied();
    lock = held(stage_open(), NAME, 60000, NULL);
    proxy_delay(stage.proxy, FAR);
    op = wait_and_listen(stage_open_cut());
    assert_ok(sqlock_release(lock, &err), &err);
    sqlock_lock_free(lock);
    assert_ok(sqlock_op_finish(op, &lock, &err), &err);
    assert_ok(sqlock_release(lock, &err), &err);
    sqlock_lock_free(lock);
}

TEST_MAIN_EACH(NULL, stage_teardown)
