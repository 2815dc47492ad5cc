/* P14: a guest behaves. On a connection of the application's, whatever the driver did there, the
 * application finds its transaction, its answers and its session as they were; also where a
 * statement is cut by its deadline, by cancel, by the end of the session. */
#define SUITE_NEEDS ADOPTION
#include "tests/drivers/suite_in_transaction.h"

/* ---- adopting -------------------------------------------------------------------------------- */

TEST_AFTER(begin_app, test_adopting_requires_the_callers_view_of_the_library)
{
    sqlock_adopt_opts o = {.size = sizeof o, .scripts = g.scripts}, other;
    void *conn = NULL;

    g.side->offer(g.app, &o);
    other = o;
    other.library = (void (*)(void))abort;
    says(SQLOCK_EREFUSED, g.adopter->adopt(&other, &conn, &said));
    other.library = NULL;
    ok(g.adopter->adopt(&other, &conn, &said));
    g.adopter->close(conn);
    if (o.native_size > 0) {
        other = o;
        other.native_size--;
        says(SQLOCK_EREFUSED, g.adopter->adopt(&other, &conn, &said));
    }
    other = o;
    other.native = NULL;
    says(SQLOCK_EINVAL, g.adopter->adopt(&other, &conn, &said));
}

TEST_AFTER(begin_adopted, test_adopted_connection_is_closed_after_the_applications_own)
{
    g.side->close(g.w->apps[--g.w->n_apps]);
}

TEST_AFTER(begin_adopted, test_state_follows_the_application)
{
    assert_int_equal(g.adopter->tx_state(g.conn), SQLOCK_TX_IDLE);
    for (const char *const *begin = g.side->begins; *begin; begin++) {
        app_exec(g.app, *begin);
        assert_int_equal(g.adopter->tx_state(g.conn), SQLOCK_TX_ACTIVE);
        seen_by(g.app);
        assert_int_equal(g.adopter->tx_state(g.conn), SQLOCK_TX_ACTIVE);
        assert_false(g.side->exec(g.app, "SELECT n FROM no_such_table"));
        assert_int_equal(g.adopter->tx_state(g.conn),
                         g.side->fails_whole ? SQLOCK_TX_FAILED : SQLOCK_TX_ACTIVE);
        app_exec(g.app, "ROLLBACK");
        assert_int_equal(g.adopter->tx_state(g.conn), SQLOCK_TX_IDLE);
    }
}

/* ---- the application's transaction ----------------------------------------------------------- */

TEST_AFTER(begin_in_transaction, test_undo_takes_back_only_what_was_done_since_the_savepoint)
{
    app_exec(g.app, "UPDATE app_row SET n = n + 1 WHERE id = 1");
    point_ok(SQLOCK_SAVEPOINT_SET);
    ok(run(OUR_WRITE));
    assert_int_equal(seen_by(g.app), 111);
    point_ok(SQLOCK_SAVEPOINT_UNDO);
    assert_int_equal(seen_by(g.app), 11);
    app_exec(g.app, "COMMIT");
    assert_int_equal(seen_by(g.app), 11);
}

/* Its name is ours by its beginning only: an application may have the same. */
TEST_AFTER(begin_in_transaction, test_no_savepoint_of_ours_is_left)
{
    be_adopted();
    point_ok(SQLOCK_SAVEPOINT_SET);
    point_ok(SQLOCK_SAVEPOINT_RELEASE);
    assert_true(point(SQLOCK_SAVEPOINT_RELEASE) < 0);
}

static sqlock_value number(int64_t i)
{
    return (sqlock_value){.type = SQLOCK_INT, .i = i};
}

static sqlock_value text(const char *s)
{
    return (sqlock_value){.type = SQLOCK_TEXT, .data = s, .len = strlen(s)};
}

static int64_t asked(void)
{
    assert_int_equal(sqlock_rows_count(g.rows), 1);
    return rows_int(g.rows, 0, SQLOCK_COL_TOKEN, -1);
}

TEST_AFTER(begin_app, test_values_are_fitted_to_the_columns_of_the_application)
{
    const unsigned char bytes[] = {0, 255, '\'', '\\'};
    const sqlock_value insert[] = {text("it's \\ \"a\""),
                                   number(-32768),
                                   number(INT64_MIN),
                                   {.type = SQLOCK_NULL},
                                   {.type = SQLOCK_BYTES, .data = bytes, .len = sizeof bytes}};
    const sqlock_value more = number(1000);

    app_exec(g.app, g.side->table_of_types);
    ok(adopt(g.app, &g.conn));
    app_exec(g.app, g.side->begins[0]);
    ok(ask("INSERT INTO app_types (t, s, b, n, o) VALUES (?, ?, ?, ?, ?)", insert, 5));
    assert_int_equal(sqlock_rows_count(g.rows), 0);
    ok(ask("SELECT 0, 1, s FROM app_types WHERE t = ?", insert, 1));
    assert_int_equal(asked(), -32768);
    ok(ask("SELECT 0, 1, b FROM app_types WHERE s = ? AND b = ?", insert + 1, 2));
    assert_true(asked() == INT64_MIN);
    ok(ask("SELECT 0, 1, 7 FROM app_types WHERE o = ? AND n IS NULL", insert + 4, 1));
    assert_int_equal(asked(), 7);
    ok(ask("UPDATE app_types SET b = s + ?", &more, 1));
    app_exec(g.app, "COMMIT");
    assert_int_equal(app_number(g.app, "SELECT b FROM app_types"), 1000 - 32768);
}

/* ---- what the application reads next --------------------------------------------------------- */

/* While an answer has not been read to its end there is no room for a request. */
TEST_AFTER(begin_in_transaction, test_half_read_answer_is_left_alone)
{
    g.side->start_reading(g.app);
    if (g.side->one_answer)
        assert_in_the_middle();
    else
        be_adopted();
    assert_int_equal(g.side->read_rest(g.app), APP_ROWS - 1);
    be_adopted();
    app_exec(g.app, "COMMIT");
}

TEST_AFTER(begin_adopted, test_prepared_statement_of_the_application_survives)
{
    g.side->prepare(g.app);
    app_exec(g.app, g.side->begins[0]);
    be_adopted();
    assert_int_equal(g.side->run_prepared(g.app), 42);
    app_exec(g.app, "COMMIT");
    assert_int_equal(g.side->run_prepared(g.app), 42);
}

/* ---- statements that are cut ----------------------------------------------------------------- */

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
TEST_AFTER(begin_adopted, test_wait_for_a_row_ends_at_the_deadline)
{
    int64_t begun;
    void *other = app_connect();

    app_exec(other, g.side->begins[0], "UPDATE app_row SET n = 0 WHERE id = 1");
    app_exec(g.app, g.side->begins[0]);
    point_ok(SQLOCK_SAVEPOINT_SET);
    begun = sqlock_now_us();
    assert_true(run_until(OUR_WRITE, begun + 200000) < 0);
    assert_between(g.side->says_locked ? 0 : 200000, sqlock_now_us() - begun,
                   patience_ms(3000) * INT64_C(1000));
    undo_failed();
    assert_int_equal(seen_by(g.app), 10);
    app_exec(other, "ROLLBACK");
    app_exec(g.app, "UPDATE app_row SET n = n + 1 WHERE id = 1", "COMMIT");
    assert_int_equal(seen_by(other), 11);
}

TEST_AFTER(begin_adopted, test_end_of_the_session_is_reported)
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
