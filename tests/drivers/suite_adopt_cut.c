/* P14: statements of a guest's that are cut, by their deadline, by cancel, by the end of the
 * session. The transaction goes on without them, or it is told that there is none any more. */
#include "tests/drivers/suite_guest.h"

/* The application goes on with what it had done before. */
static void goes_on(void)
{
    undo_failed();
    assert_int_equal(seen_by(g.app), 11);
    app_exec(g.app, "COMMIT");
    assert_int_equal(seen_by(g.app), 11);
}

TEST_WITH(SLOW_STEP, begin_in_transaction, test_statement_is_cut_at_the_deadline)
{
    int64_t begun;

    app_exec(g.app, "UPDATE app_row SET n = n + 1 WHERE id = 1");
    point_ok(SQLOCK_SAVEPOINT_SET);
    begun = sqlock_now_us();
    says(SQLOCK_ETIMEOUT, run_until(g.side->slow, begun + 200000));
    assert_between(200000, sqlock_now_us() - begun, patience_ms(3000) * INT64_C(1000));
    goes_on();
}

TEST_AFTER(begin_in_transaction, test_nothing_is_sent_when_the_deadline_has_passed)
{
    says(SQLOCK_ETIMEOUT, run_until(OUR_WRITE, sqlock_now_us() - 1));
    assert_int_equal(said.flags & SQLOCK_RECONNECT, 0);
    assert_int_equal(g.adopter->tx_state(g.conn), SQLOCK_TX_ACTIVE);
    assert_int_equal(seen_by(g.app), 10);
    app_exec(g.app, "COMMIT");
}

TEST_WITH(SLOW_STEP, begin_in_transaction, test_statement_is_cut_by_cancel)
{
    int64_t begun = sqlock_now_us();
    int rc;

    app_exec(g.app, "UPDATE app_row SET n = n + 1 WHERE id = 1");
    point_ok(SQLOCK_SAVEPOINT_SET);
    do_later(200, g.adopter->cancel, g.conn);
    rc = run(g.side->slow);
    await_later();
    says(SQLOCK_ECANCELLED, rc);
    assert_between(0, sqlock_now_us() - begun, patience_ms(5000) * INT64_C(1000));
    goes_on();
}

/* Savepoints are not cut: what was begun must be undone. */
TEST_AFTER(begin_in_transaction, test_cancel_cuts_the_next_run_and_no_other)
{
    g.adopter->cancel(g.conn);
    point_ok(SQLOCK_SAVEPOINT_SET);
    says(SQLOCK_ECANCELLED, run(OUR_WRITE));
    point_ok(SQLOCK_SAVEPOINT_UNDO);
    ok(run(OUR_READ));
    assert_int_equal(seen_by(g.app), 10);
    app_exec(g.app, "COMMIT");
}

/* Another client has locked what our statement needs. */
TEST_AFTER(begin_guest, test_wait_for_a_row_ends_at_the_deadline)
{
    int64_t begun;
    void *other = app_connect();

    app_exec(other, g.side->begins[0], "UPDATE app_row SET n = 0 WHERE id = 1");
    app_exec(g.app, g.side->begins[0]);
    point_ok(SQLOCK_SAVEPOINT_SET);
    begun = sqlock_now_us();
    assert_true(run_until(OUR_WRITE, begun + 200000) < 0);
    assert_between(g.side->tells_locked ? 0 : 200000, sqlock_now_us() - begun,
                   patience_ms(3000) * INT64_C(1000));
    undo_failed();
    assert_int_equal(seen_by(g.app), 10);
    app_exec(other, "ROLLBACK");
    app_exec(g.app, "UPDATE app_row SET n = n + 1 WHERE id = 1", "COMMIT");
    assert_int_equal(seen_by(other), 11);
}

TEST_AFTER(begin_guest, test_end_of_the_session_is_told)
{
    if (g.side->kill) {
        app_exec(g.app, g.side->begins[0]);
        point_ok(SQLOCK_SAVEPOINT_SET);
        g.side->kill(g.app);
        assert_true(run(OUR_WRITE) < 0);
        assert_int_equal(said.flags & (SQLOCK_RECONNECT | SQLOCK_MAYBE), SQLOCK_RECONNECT);
        assert_int_equal(g.adopter->tx_state(g.conn), SQLOCK_TX_UNKNOWN);
        assert_true(point(SQLOCK_SAVEPOINT_UNDO) < 0);
    }
}
