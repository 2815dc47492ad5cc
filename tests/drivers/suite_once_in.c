/* Once per period (recipes/once.h), where the ledger commits with the work. */
#define SUITE_NEEDS (ADOPTION | GUARDS)
#include <sqlock/admin.h>

#include "recipes/once.h"
#include "tests/drivers/suite_in_transaction.h"

#define NAME "nightly"

/* A ledger as the header has it, with a job that has not been done yet; and another program. The
 * work is n of the application's row 1, which is 10 at first. */
static struct stage {
    sqlock *m, *other;
    sqlock_conn *conn;
    void *others;
    sqlock_conn *others_conn;
    sqlock_lock *lock;
} s;

static void set_stage(struct world *w)
{
    begin_app(w);
    app_exec(g.app, "CREATE TABLE app_job (name VARCHAR(255) PRIMARY KEY, period BIGINT)");
    app_exec(g.app, "INSERT INTO app_job (name) VALUES ('nightly')");
    s.m = open_manager(g.w, NULL);
    s.other = open_manager(g.w, NULL);
    s.conn = adopted(s.m, g.app);
    s.others = app_connect_impatient();
    s.others_conn = adopted(s.other, s.others);
    s.lock = take(s.m, NAME);
}

static const sqlock_row *job(const char *name)
{
    static sqlock_column key;
    static sqlock_row row;

    key = (sqlock_column){"name", sqlock_text(name), NULL};
    row = (sqlock_row){sizeof row, NULL, "app_job", &key, 1};
    return &row;
}

static int note(int64_t period)
{
    return once_note_in(s.conn, s.lock, job("nightly"), period, &said);
}

static void begin(void)
{
    app_exec(g.app, g.side->begins[0]);
}

/* One transaction, and what it ended with: its work counts if the period is due. */
static int once_in(const struct way *way, int64_t period, const char *end)
{
    int rc;

    go_in(g.app, way);
    if ((rc = note(period)) == 0)
        app_exec(g.app, "UPDATE app_row SET n = n + 1 WHERE id = 1");
    go_out(g.app, way, rc == 0 ? end : "ROLLBACK");
    return rc;
}

static int64_t done(void)
{
    return app_number(s.others, "SELECT COALESCE(period, 0) FROM app_job");
}

TEST_AFTER(set_stage, test_note_commits_with_the_work_or_not_at_all)
{
    int64_t period = 7, n = 10;

    for (const struct way *way = g.side->ways; way->name; way++, period++) {
        ok(once_in(way, period, "ROLLBACK"));
        assert_int_equal(seen_by(s.others), n);
        ok(once_in(way, period, "COMMIT")); /* it was due again */
        assert_int_equal(seen_by(s.others), ++n);
        assert_int_equal(done(), period);
        assert_int_equal(once_in(way, period, "COMMIT"), ONCE_DONE);
        assert_int_equal(once_in(way, period - 1, "COMMIT"), ONCE_DONE); /* its clock is behind */
        assert_int_equal(seen_by(s.others), n);
        assert_int_equal(done(), period);
    }
}

/* Its work is undone, and the next holder does it. */
TEST_AFTER(set_stage, test_stale_holder_cannot_commit_work_and_note)
{
    sqlock_lock *others;

    ok(sqlock_break(s.other, NAME, sqlock_lock_token(s.lock), &said));
    others = take(s.other, NAME); /* the first one may not know of its loss */
    begin();
    says(SQLOCK_ELOST, note(7));
    app_exec(g.app, "ROLLBACK");
    assert_int_equal(done(), 0);
    app_exec(s.others, g.side->begins[0]);
    ok(once_note_in(s.others_conn, others, job("nightly"), 7, &said));
    app_exec(s.others, "COMMIT");
    assert_int_equal(done(), 7);
    give(others);
}

/* Lost behind the note: no one is granted the lock before the transaction has ended, so no one has
 * done the work, and it may commit. */
TEST_AFTER(set_stage, test_note_keeps_others_out_until_the_transaction_ends)
{
    sqlock *thief = open_with(g.w, with.request_ms = 400);
    int rc;

    begin();
    ok(note(7));
    rc = sqlock_break(thief, NAME, sqlock_lock_token(s.lock), &said);
    assert_int_equal(rc, SQLOCK_EGUARDED);
    assert_int_not_equal(try_once(thief, NAME), SQLOCK_OK);
    app_exec(g.app, "UPDATE app_row SET n = n + 1 WHERE id = 1");
    app_exec(g.app, "COMMIT");
    assert_int_equal(done(), 7);
    assert_int_equal(seen_by(s.others), 11);
    assert_int_equal(note(8), SQLOCK_ESTATE); /* without a transaction */
}

TEST_AFTER(set_stage, test_ledger_in_a_table_that_is_far_ahead_is_reported)
{
    begin();
    ok(note(4000));
    app_exec(g.app, "COMMIT");
    begin();
    says(ONCE_AHEAD, note(7));
    assert_non_null(strstr(said.text, "a clock is wrong"));
    assert_int_equal(note(3999), ONCE_DONE);
    app_exec(g.app, "ROLLBACK");
    assert_int_equal(done(), 4000);
    app_exec(g.app, "UPDATE app_job SET period = 6");
    begin();
    ok(note(7));
    app_exec(g.app, "COMMIT");
    assert_int_equal(done(), 7);
}

/* Two transactions under one lock, which keeps neither out: the row does. */
TEST_AFTER(set_stage, test_second_transaction_of_a_holder_does_not_do_the_work_again)
{
    void *second_app = app_connect();
    sqlock_conn *second = adopted(s.m, second_app);
    int rc;

    begin();
    ok(note(7));
    exec_later(200, g.app, "COMMIT");
    app_exec(second_app, g.side->begins[0]);
    rc = once_note_in(second, s.lock, job("nightly"), 7, &said);
    await_later();
    if (rc != ONCE_DONE)
        assert_restart(rc, &said);
    app_exec(second_app, "ROLLBACK");
    assert_int_equal(done(), 7);
}

TEST_AFTER(set_stage, test_note_that_cannot_be_written_is_refused)
{
    begin();
    assert_int_equal(once_note_in(s.conn, s.lock, job("weekly"), 7, &said), SQLOCK_ABSENT);
    says(SQLOCK_EREFUSED,
         once_note_in(s.conn, s.lock, ROW("app_row", 1), 7, &said)); /* no column */
    says(SQLOCK_EINVAL, note(1));
    says(SQLOCK_EINVAL, note(SQLOCK_TOKEN_MAX + 1));
    app_exec(g.app, "COMMIT");
    app_exec(s.others, g.side->begins[0]);
    says(SQLOCK_EINVAL, once_note_in(s.others_conn, s.lock, job("nightly"), 7, &said));
    app_exec(s.others, "ROLLBACK");
    assert_int_equal(done(), 0);
}
