/* P9 for row locks: who keeps a row is told, where the server tells, and asking costs nothing. */
#define SUITE_NEEDS GUARDS
#include "tests/drivers/suite_rowlock.h"

static int64_t session_of(void *app)
{
    return app_number(app, g.side->session);
}

/* Lock a row on the first connection, and learn who keeps it. */
static int lock_asking(int64_t id, unsigned flags, int32_t wait_ms, sqlock_blocker *out)
{
    sqlock_row_opts o = row_opts(flags, wait_ms);

    memset(out, 0xA5, sizeof *out);
    out->size = sizeof *out;
    o.blocker = out;
    return lock_row_opts(rs.conn, id, &o);
}

static void assert_blocked_by(void *app, const sqlock_blocker *b)
{
    if (g.side->session == NULL) {
        assert_int_equal(b->sessions, 0);
        return;
    }
    assert_int_equal(b->sessions, 1);
    assert_int_equal(b->session, session_of(app));
    assert_in_range(b->open_ms, 0, 600000);
    assert_non_null(strstr(b->text, "user "));
    assert_non_null(strstr(b->text, "idle in transaction"));
}

static void assert_no_one(const sqlock_blocker *b)
{
    assert_int_equal(b->size, sizeof *b);
    assert_int_equal(b->sessions, 0);
    assert_int_equal(b->session, 0);
    assert_string_equal(b->text, "");
}

TEST_AFTER(set_row_stage, test_wait_that_ends_says_who_keeps_the_row)
{
    sqlock_blocker b;

    begin_behind_other();
    assert_takes(700, 700 + patience_ms(1500), says(SQLOCK_EBUSY, lock_asking(1, 0, 700, &b)));
    assert_blocked_by(rs.other_app, &b);
    app_exec(rs.other_app, "ROLLBACK");
    ok(lock_asking(1, 0, 700, &b));
    assert_no_one(&b);
    assert_int_equal(sqlock_row_blocker(rs.conn, &b), 0);
    app_exec(g.app, "COMMIT");
    says(SQLOCK_ESTATE, lock_asking(1, 0, 700, &b)); /* not what was there before */
    assert_no_one(&b);
}

TEST_AFTER(set_row_stage, test_name_s_blocker_is_reported_too)
{
    sqlock_row_opts o = row_opts(0, 700);
    sqlock_blocker b = {.size = sizeof b};

    o.blocker = &b;
    begin_both();
    ok(lock_row_name(rs.other, "job", 0));
    says(SQLOCK_EBUSY, sqlock_name_lock(rs.conn, "job", &o, &said));
    assert_blocked_by(rs.other_app, &b);
}

/* An update is a lock like others, and its savepoint may have been released since. */
TEST_AFTER(set_row_stage, test_who_changed_the_row_is_reported)
{
    sqlock_blocker b;

    begin_both();
    app_exec(rs.other_app, "SAVEPOINT theirs", "UPDATE app_row SET n = 11 WHERE id = 1");
    app_exec(rs.other_app, "RELEASE SAVEPOINT theirs");
    says(SQLOCK_EBUSY, lock_asking(1, 0, 700, &b));
    assert_blocked_by(rs.other_app, &b);
}

static int waited;

static void wait_for_the_row(void *conn)
{
    waited = lock_row_with(conn, 1, 0, 10000);
}

/* Who waits before us is in our way too, but it is the holder that people look for. */
TEST_AFTER(set_row_stage, test_holder_is_reported_and_not_who_waits_before_us)
{
    sqlock_blocker b;
    int rc;
    void *app = app_connect();
    sqlock_conn *before = adopted(rs.m, app);

    begin_both();
    app_exec(app, g.side->begins[0]);
    ok(lock_row(rs.other, 1));
    do_later(0, wait_for_the_row, before);
    sleep_ms(300);
    rc = lock_asking(1, 0, 700, &b);
    end_both("ROLLBACK");
    await_later();
    says(SQLOCK_EBUSY, rc);
    assert_blocked_by(rs.other_app, &b);
    assert_int_equal(waited, 0);
    app_exec(app, "ROLLBACK");
}

struct onlooker {
    int told;
    sqlock_blocker blocker;
    sqlock_cancel *cancel;
};

/* Somebody who would like to know for whom everything waits, and has it ended. */
static void look_on(void *arg)
{
    struct onlooker *l = arg;
    int64_t until = sqlock_now_us() + (g.side->session ? patience_ms(5000) * 1000 : 300000);

    l->blocker.size = sizeof l->blocker;
    while (!(l->told = sqlock_row_blocker(rs.conn, &l->blocker)) && sqlock_now_us() < until)
        sleep_ms(5);
    sqlock_cancel_fire(l->cancel);
}

TEST_AFTER(set_row_stage, test_another_thread_is_reported_while_the_call_waits)
{
    sqlock_row_opts o = row_opts(0, SQLOCK_WAIT_FOREVER);
    sqlock_blocker b = {.size = sizeof b};
    struct onlooker l = {.told = 0};
    int rc;

    ok(sqlock_cancel_new(&l.cancel, &said));
    o.cancel = l.cancel;
    o.blocker = &b;
    begin_behind_other();
    do_later(0, look_on, &l);
    rc = lock_row_opts(rs.conn, 1, &o);
    await_later();
    sqlock_cancel_free(l.cancel);
    says(SQLOCK_ECANCELLED, rc);
    assert_int_equal(l.told, g.side->session != NULL);
    assert_blocked_by(rs.other_app, &l.blocker);
    assert_blocked_by(rs.other_app, &b);
    assert_int_equal(sqlock_row_blocker(rs.conn, &b), 0); /* the call is over */
}

/* Without a wait there is nothing that a server could be asked about, but who has any rows of the
 * table; which is not told where there are several. */
TEST_AFTER(set_row_stage, test_refusal_names_no_one_but_the_only_one)
{
    sqlock_blocker b;
    int64_t began;
    void *app = app_connect();
    sqlock_conn *third = adopted(rs.m, app);

    begin_behind_other();
    began = sqlock_now_us();
    says(SQLOCK_EBUSY, lock_asking(1, 0, 0, &b));
    assert_true(sqlock_now_us() - began < patience_ms(1000) * 1000);
    if (g.side->says_refusal)
        assert_blocked_by(rs.other_app, &b);
    else
        assert_no_one(&b);
    assert_int_equal(lock_asking(1, SQLOCK_ROW_SKIP_LOCKED, 0, &b), SQLOCK_CONFLICT);
    if (g.side->says_refusal)
        assert_blocked_by(rs.other_app, &b);
    else
        assert_no_one(&b);
    app_exec(app, g.side->begins[0]);
    if (!rs.one_writer)
        ok(lock_row(third, 2));
    says(SQLOCK_EBUSY, lock_asking(1, 0, 0, &b));
    assert_no_one(&b);
    app_exec(app, "ROLLBACK");
    end_both("ROLLBACK");
}

TEST_AFTER(set_row_stage, test_asking_leaves_the_session_as_it_was)
{
    char *before = NULL;
    sqlock_blocker b;

    if (rs.one_writer) /* who has read could not wait */
        before = g.side->settings(g.app);
    begin_behind_other();
    if (before == NULL)
        before = g.side->settings(g.app);
    says(SQLOCK_EBUSY, lock_asking(1, 0, 200, &b));
    says(SQLOCK_EBUSY, lock_asking(1, 0, 0, &b));
    still_says(before, g.side->settings);
    assert_int_equal(seen_by(g.app), 10);
    end_both("COMMIT");
}

TEST_AFTER(set_row_stage, test_blocker_without_a_size_is_refused)
{
    sqlock_row_opts o = row_opts(0, 0);
    sqlock_blocker b = {.size = 0};

    o.blocker = &b;
    app_exec(g.app, g.side->begins[0]);
    says(SQLOCK_EINVAL, sqlock_name_lock(rs.conn, "job", &o, &said));
}
