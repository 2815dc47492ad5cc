/* P7, P8, P16, P18, P19 on the fake driver: which connection a request takes, what becomes of it
 * when none can be made, and who is cut for whom. */
#include <stdatomic.h>

#include "tests/drivers/fake_network.h"

/* ---- a factory that fails -------------------------------------------------------------------- */

static int never_called(sqlock_lock *lock, void *user)
{
    (void)lock;
    *(int *)user += 1;
    return 0;
}

/* P18: neither a success nor somebody who holds the lock. */
TEST(test_factory_that_fails_without_a_word_grants_nothing)
{
    const int codes[] = {SQLOCK_EUNREACH, SQLOCK_EDENIED, -1, 1};
    const int told[] = {SQLOCK_EUNREACH, SQLOCK_EDENIED, SQLOCK_EUNREACH, SQLOCK_EUNREACH};
    sqlock_open_opts oo = SQLOCK_OPEN_OPTS_INIT;

    oo.request_ms = 200;
    for (int i = 0; i < 4; i++) {
        sqlock *m = open_allowed(w, 1, &oo);
        sqlock_acquire_opts o = wait_opts(0, 0, SQLOCK_NO_RENEW);
        sqlock_lock *lock = NULL;
        int called = 0;

        cut_links(w);
        atomic_store(&network.code, codes[i]);
        /* Finds that its link was cut. */
        if (sqlock_acquire(m, "nightly", &o, &lock, NULL) == 0 || lock != NULL)
            drop(lock);
        lock = NULL;
        says(told[i], sqlock_acquire(m, "nightly", &o, &lock, &said));
        assert_int_equal(said.code, told[i]);
        assert_null(lock);
        says(told[i], sqlock_with(m, "nightly", &o, never_called, &called, NULL, &said));
        assert_int_equal(called, 0);
        close_manager(w, m);
    }
}

/* ---- the renewals' own connection ------------------------------------------------------------ */

/* A lock that is soon released needs no second connection; one that stays gets it. */
TEST(test_reserved_connection_is_opened_behind_the_grant)
{
    sqlock *m = open_allowed(w, 2, NULL);
    sqlock_lock *lock;

    give(take(m, "nightly"));
    lock = take_for(m, "nightly", patience_ms(1000), 0);
    assert_int_equal(sqlock_fake_connections(fake_at(&w->place)), 1);
    assert_soon(sqlock_fake_connections(fake_at(&w->place)) == 2, patience_ms(1000));
    assert_int_equal(spy_runs(SQLOCK_STMT_RENEW), 0);
    give(lock);
}

/* P7: while the server allows one connection, renewals borrow it. */
TEST(test_grant_is_renewed_over_the_only_connection_there_may_be)
{
    sqlock *m = open_allowed(w, 1, NULL);
    int32_t lease_ms = patience_ms(600);
    sqlock_lock *lock = take_for(m, "nightly", lease_ms, 0);

    stays_held(lock, 3 * lease_ms);
    assert_int_equal(sqlock_fake_connections(fake_at(&w->place)), 1);
    atomic_store(&network.allowed, ALWAYS);
    assert_soon(sqlock_fake_connections(fake_at(&w->place)) == 2, patience_ms(5000));
    stays_held(lock, 2 * lease_ms);
    give(lock);
}

/* Who needs no renewals needs no second connection. */
TEST(test_one_connection_is_enough_without_renewals)
{
    sqlock *m = open_allowed(w, 1, NULL);
    sqlock_lock *lock = take_for(m, "nightly", 0, SQLOCK_NO_RENEW);

    ok(sqlock_renew(lock, &said));
    ok(sqlock_list(m, NULL, ignore_info, NULL, &said));
    ok(sqlock_break(m, "nightly", sqlock_lock_token(lock), &said));
    assert_int_equal(sqlock_fake_connections(fake_at(&w->place)), 1);
}

/* The next renewal breaks its connection. */
static void break_renewals(struct world *w)
{
    fault(w, SQLOCK_STMT_RENEW, SQLOCK_FAULT_LOSE_REQUEST, 1, 0);
}

/* P7: a working connection idles. */
TEST(test_renewals_borrow_a_connection_while_theirs_cannot_be_opened)
{
    sqlock *m = open_allowed(w, 2, NULL);
    int32_t lease_ms = patience_ms(600);
    sqlock_lock *lock = take_for(m, "nightly", lease_ms, 0);

    break_renewals(w);
    stays_held(lock, 4 * lease_ms);
    assert_int_equal(sqlock_fake_connections(fake_at(&w->place)), 1);
    atomic_store(&network.allowed, ALWAYS);
    assert_soon(sqlock_fake_connections(fake_at(&w->place)) == 2, patience_ms(5000));
    stays_held(lock, 2 * lease_ms);
    give(lock);
}

/* As when the server was started again: those that idle are of no use. */
TEST(test_renewals_do_not_go_through_all_dead_connections)
{
    sqlock_open_opts oo = SQLOCK_OPEN_OPTS_INIT;
    sqlock *m;
    sqlock_lock *lock;
    int32_t lease_ms = patience_ms(600);

    oo.connections = 3;
    m = open_allowed(w, ALWAYS, &oo);
    lock = take_for(m, "nightly", lease_ms, 0);
    for (int i = 0; i < 3; i++) {
        sleep_ms(lease_ms / 2);
        cut_links(w);
        stays_held(lock, 2 * lease_ms);
    }
    give(lock);
}

/* An endless acquire that is stuck in the server keeps the only connection of the calls. */
static void hog_start(struct world *w, struct waiter *h, sqlock *m)
{
    long runs = spy_runs(SQLOCK_STMT_ACQUIRE);

    *h = (struct waiter){
        .m = m, .name = "stuck", .opts = wait_opts(SQLOCK_WAIT_FOREVER, 0, SQLOCK_NO_RENEW)};
    ok(sqlock_cancel_new(&h->opts.cancel, &said));
    stall(w, SQLOCK_STMT_ACQUIRE, ALWAYS, 20000);
    wait_start(h);
    assert_soon(spy_runs(SQLOCK_STMT_ACQUIRE) > runs, patience_ms(3000));
}

static void hog_end(struct waiter *h)
{
    sqlock_cancel_fire(h->opts.cancel);
    pthread_join(h->thread, NULL);
    sqlock_cancel_free(h->opts.cancel);
    assert_code(SQLOCK_EUNSURE, h->code, &h->err);
    drop(h->lock);
}

/* A third of the time that is left would not be enough, however often it is tried. */
TEST(test_opening_that_takes_its_usual_time_is_not_thrown_away)
{
    sqlock *m;
    struct waiter hog;
    sqlock_lock *lock;
    int32_t lease_ms = patience_ms(1000);

    fault(w, SQLOCK_STMT_HANDSHAKE, SQLOCK_FAULT_SLOW, ALWAYS, lease_ms * 3 / 10);
    m = open_allowed(w, ALWAYS, NULL);
    lock = take_for(m, "nightly", lease_ms, 0);
    assert_soon(spy_runs(SQLOCK_STMT_RENEW) > 0, patience_ms(5000)); /* both are open */
    break_renewals(w);
    hog_start(w, &hog, m); /* no connection can be borrowed */
    stays_held(lock, 2 * lease_ms);
    hog_end(&hog);
    give(lock);
}

/* ---- connections of the calls that are all in use -------------------------------------------- */

/* P8: by one acquire that is stuck in the server. */
TEST(test_release_does_not_starve_behind_an_acquire_that_is_stuck, m)
{
    struct waiter hog;
    sqlock_lock *by_hand = take_for(m, "by hand", 0, SQLOCK_NO_RENEW);
    sqlock_lock *first = take(m, "first"), *second = take(m, "second");
    sqlock_op *op = NULL;
    int64_t begun;

    hog_start(w, &hog, m);
    begun = now_us();
    ok(sqlock_release(first, &said));
    ok(sqlock_renew(by_hand, &said));
    ok(sqlock_release_start(second, &op, &said));
    ok(sqlock_op_finish(op, NULL, &said));
    assert_between(0, now_us() - begun, patience_ms(1500) * INT64_C(1000));
    hog_end(&hog);
    give(by_hand);
}

/* P7: what a release has been lent is taken back for the renewals, and not lent to it again. */
TEST(test_stuck_release_does_not_keep_the_renewals_connection, m)
{
    struct waiter hog;
    sqlock_lock *held = take_for(m, "held", patience_ms(1500), 0), *stuck = take(m, "other");
    sqlock_op *op = NULL;

    hog_start(w, &hog, m);
    stall(w, SQLOCK_STMT_RELEASE, ALWAYS, 20000);
    stays_held(held, 100);
    ok(sqlock_release_start(stuck, &op, &said));
    stays_held(held, patience_ms(3000));
    sqlock_op_cancel(op);
    says(SQLOCK_EUNSURE, sqlock_op_finish(op, NULL, &said));
    hog_end(&hog);
}

/* A renewal that falls due meanwhile can wait for an answer that is on its way. */
TEST(test_release_on_the_renewals_connection_is_not_cut_for_a_renewal, m)
{
    sqlock_acquire_opts o = wait_opts(0, 6000, 0);
    struct waiter hog;
    sqlock_lock *held, *other = take(m, "other");
    long renewals, opens;

    o.renew_ms = 600;
    held = take_with(m, "held", &o);
    hog_start(w, &hog, m);
    fault(w, SQLOCK_STMT_RELEASE, SQLOCK_FAULT_SLOW, 1, 250);
    renewals = spy_runs(SQLOCK_STMT_RENEW);
    assert_soon(spy_runs(SQLOCK_STMT_RENEW) > renewals, patience_ms(3000));
    sleep_ms(350); /* the next one comes 600 ms after that, and the release is lent it after 100 */
    opens = spy_opens();
    ok(sqlock_release(other, &said));
    assert_true(sqlock_is_held(held));
    assert_int_equal(spy_opens(), opens);
    hog_end(&hog);
    give(held);
}

/* ---- who is cut ------------------------------------------------------------------------------ */

/* P19: also while the renewals' connection, which was lost, says handshake again. */
TEST(test_close_cuts_a_handshake_that_hangs)
{
    sqlock_acquire_opts o = wait_opts(0, 60000, 0);
    sqlock *m = open_with(w, with.request_ms = 20000);
    long handshakes;

    o.renew_ms = 100;
    take_with(m, "nightly", &o);
    assert_soon(spy_runs(SQLOCK_STMT_RENEW) > 0, patience_ms(3000));
    handshakes = spy_runs(SQLOCK_STMT_HANDSHAKE);
    stall(w, SQLOCK_STMT_HANDSHAKE, ALWAYS, 20000);
    cut_links(w);
    assert_soon(spy_runs(SQLOCK_STMT_HANDSHAKE) > handshakes, patience_ms(3000));
    sleep_ms(20);
    assert_takes(0, late_ms(500), close_manager(w, m));
}

/* The driver with a hold on answers: they have come, but core has not heard of them. */
static struct {
    atomic_int hold, held;
} late;

static int run_late(void *conn, const sqlock_call *call, sqlock_stmt stmt,
                    const sqlock_value *values, size_t n, int64_t deadline, sqlock_rows *rows,
                    sqlock_error *err)
{
    int rc = spied_driver()->run(conn, call, stmt, values, n, deadline, rows, err);

    if (stmt == SQLOCK_STMT_ACQUIRE && atomic_load(&late.hold)) {
        atomic_store(&late.held, 1);
        while (atomic_load(&late.hold))
            sleep_ms(1);
    }
    return rc;
}

/* The cut comes in the very moment when the call ends. The next call there is another's. */
TEST(test_cancel_that_comes_with_the_answer_hits_no_other_call)
{
    sqlock_acquire_opts o = wait_opts(SQLOCK_WAIT_FOREVER, 0, SQLOCK_NO_RENEW);
    sqlock_lock *lock = NULL;
    sqlock_op *op = NULL;
    long opens;
    sqlock *m;

    w->driver.run = run_late;
    m = open_changed(w, 5000);
    atomic_store(&late.held, 0);
    atomic_store(&late.hold, 1);
    ok(sqlock_acquire_start(m, "nightly", &o, &op, &said));
    assert_soon(atomic_load(&late.held), patience_ms(3000));
    opens = spy_opens();
    sqlock_op_cancel(op);
    atomic_store(&late.hold, 0);
    ok(sqlock_op_finish(op, &lock, &said)); /* it was granted, and is told so */
    fault(w, SQLOCK_STMT_LIST, SQLOCK_FAULT_SLOW, 1, 20);
    ok(sqlock_list(m, NULL, ignore_info, NULL, &said));
    assert_int_equal(spy_runs(SQLOCK_STMT_LIST), 1);
    assert_int_equal(spy_opens(), opens); /* nothing of it is left on the connection */
    give(lock);
}

TEST_MAIN_ON(fake)
