/* P14: a guest behaves. On a connection of the application's, whatever the driver did there, the
 * application finds its transaction, its answers and its session as they were. */
#include "tests/drivers/suite_guest.h"

/* ---- adopting -------------------------------------------------------------------------------- */

TEST_AFTER(begin_app, test_adopting_asks_for_the_callers_view_of_the_library)
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

TEST_AFTER(begin_guest, test_adopted_connection_is_closed_after_the_applications_own)
{
    g.side->close(g.w->apps[--g.w->n_apps]);
}

TEST_AFTER(begin_guest, test_state_follows_the_application)
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

TEST_AFTER(begin_guest, test_requests_are_part_of_the_applications_transaction)
{
    int64_t n = 10;

    for (const char *const *begin = g.side->begins; *begin; begin++) {
        app_exec(g.app, *begin);
        be_a_guest();
        assert_int_equal(seen_by(g.app), n + 100);
        app_exec(g.app, "ROLLBACK");
        assert_int_equal(seen_by(g.app), n);
        app_exec(g.app, *begin);
        app_exec(g.app, "UPDATE app_row SET n = n + 1 WHERE id = 1"); /* an old transaction */
        be_a_guest();
        app_exec(g.app, "COMMIT");
        assert_int_equal(seen_by(g.app), n += 101);
    }
}

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

TEST_AFTER(begin_in_transaction, test_savepoints_of_the_application_survive)
{
    app_exec(g.app, "SAVEPOINT a", "UPDATE app_row SET n = n + 1 WHERE id = 1", "SAVEPOINT b");
    be_a_guest();
    assert_int_equal(seen_by(g.app), 111);
    app_exec(g.app, "ROLLBACK TO SAVEPOINT b"); /* reaches behind what we did */
    assert_int_equal(seen_by(g.app), 11);
    be_a_guest();
    app_exec(g.app, "RELEASE SAVEPOINT b");
    assert_int_equal(seen_by(g.app), 111);
    app_exec(g.app, "ROLLBACK TO SAVEPOINT a");
    assert_int_equal(seen_by(g.app), 10);
    app_exec(g.app, "COMMIT");
}

/* Its name is ours by its beginning only: an application may have the same. */
TEST_AFTER(begin_in_transaction, test_no_savepoint_of_ours_is_left)
{
    be_a_guest();
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

TEST_AFTER(begin_in_transaction, test_asking_in_a_transaction_leaves_it_as_running_does)
{
    const sqlock_value values[] = {number(5), number(1)};

    point_ok(SQLOCK_SAVEPOINT_SET);
    ok(ask("UPDATE app_row SET n = ? WHERE id = ?", values, 2));
    assert_int_equal(seen_by(g.app), 5);
    assert_true(ask("UPDATE no_such_table SET n = ? WHERE id = ?", values, 2) < 0);
    undo_failed();
    assert_int_equal(seen_by(g.app), 10);
    app_exec(g.app, "COMMIT");
    assert_int_equal(seen_by(g.app), 10);
}

/* ---- what the application reads next --------------------------------------------------------- */

/* While an answer has not been read to its end there is no room for a request. */
TEST_AFTER(begin_in_transaction, test_half_read_answer_is_left_alone)
{
    void *conn = NULL;

    g.side->start_reading(g.app);
    if (g.side->one_answer) {
        assert_int_equal(g.adopter->tx_state(g.conn), SQLOCK_TX_UNKNOWN);
        says(SQLOCK_ESTATE, run(OUR_READ));
        says(SQLOCK_ESTATE, point(SQLOCK_SAVEPOINT_SET));
        says(SQLOCK_ESTATE, adopt(g.app, &conn));
        assert_null(conn);
    } else {
        be_a_guest();
    }
    assert_int_equal(g.side->read_rest(g.app), APP_ROWS - 1);
    be_a_guest();
    app_exec(g.app, "COMMIT");
}

TEST_AFTER(begin_app, test_settings_and_handlers_are_as_before)
{
    char *before;

    app_exec(g.app, g.side->begins[0]);
    before = g.side->settings(g.app);
    assert_true(strlen(before) > 0);
    ok(adopt(g.app, &g.conn));
    be_a_guest();
    still_tells(before, g.side->settings);
    before = g.side->settings(g.app);
    app_exec(g.app, "COMMIT");
    end_guest();
    app_exec(g.app, g.side->begins[0]);
    still_tells(before, g.side->settings);
}

TEST_AFTER(begin_guest, test_prepared_statement_of_the_application_survives)
{
    g.side->prepare(g.app);
    app_exec(g.app, g.side->begins[0]);
    be_a_guest();
    assert_int_equal(g.side->run_prepared(g.app), 42);
    app_exec(g.app, "COMMIT");
    assert_int_equal(g.side->run_prepared(g.app), 42);
}

TEST_AFTER(begin_in_transaction, test_what_is_told_of_the_last_statement_is_given_back)
{
    char *before;

    app_exec(g.app, "INSERT INTO app_row VALUES (2, 20), (3, 30)");
    before = g.side->last(g.app);
    be_a_guest();
    still_tells(before, g.side->last);
    app_exec(g.app, "COMMIT");
}
