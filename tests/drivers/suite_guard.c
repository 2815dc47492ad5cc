/* P11: a lease proved, and kept from everybody else, in the application's own transaction. */
#define SUITE_NEEDS ADOPTION
#include <sqlock/rows.h>
#include <sqlock/transaction.h>

#include "tests/drivers/suite_in_transaction.h"

enum { LEASE_MS = 400 };

/* A holder, a thief with little patience, and the holder's adopted connection. */
static struct stage {
    sqlock *m, *thief;
    sqlock_lock *lock;
    sqlock_conn *conn;
    bool one_writer;
} s;

static void set_stage(struct world *w, int32_t lease_ms, unsigned flags)
{
    begin_app(w);
    s.m = open_manager(g.w, NULL);
    s.thief = open_with(g.w, with.request_ms = 400);
    s.lock = take_for(s.m, "sale", lease_ms, flags);
    s.conn = adopted(s.m, g.app);
    s.one_writer = (g.driver->caps & SQLOCK_CAP_ONE_WRITER) != 0;
}

static int guard(void)
{
    return sqlock_guard(s.lock, s.conn, &said);
}

static void begin_guarded(const char *begin)
{
    app_exec(g.app, begin);
    ok(guard());
}

/* It is granted to no one, and soon a try says why. On MariaDB another session may be in the way of
 * the look for a moment: then the row is just locked. */
static bool thief_is_told(int code)
{
    int said_code = try_once(s.thief, "sale");

    assert_int_not_equal(said_code, SQLOCK_OK);
    return said_code == code;
}

TEST_IF(GUARDS, test_no_one_is_granted_a_guarded_name_before_the_commit)
{
    set_stage(w, LEASE_MS, SQLOCK_NO_RENEW);
    for (int i = 0; g.side->begins[i]; i++) {
        app_exec(g.app, g.side->begins[i]);
        ok(guard());
        app_exec(g.app, "UPDATE app_row SET n = n + 1 WHERE id = 1");
        assert_int_equal(try_once(s.thief, "sale"), SQLOCK_EBUSY);
        sleep_ms(LEASE_MS + 50); /* it runs out */
        assert_false(sqlock_is_held(s.lock));
        assert_soon(thief_is_told(SQLOCK_EGUARDED), patience_ms(5000));
        app_exec(g.app, i % 2 ? "ROLLBACK" : "COMMIT"); /* nobody has been there in between */
        assert_true(is_free(s.thief, "sale"));
        s.lock = take_for(s.m, "sale", LEASE_MS, SQLOCK_NO_RENEW);
    }
}

/* The third classical mistake. */
TEST_IF(GUARDS, test_release_before_the_commit_admits_no_one)
{
    set_stage(w, 10000, 0);
    begin_guarded(g.side->begins[0]);
    says(SQLOCK_EGUARDED, sqlock_release(s.lock, &said));
    assert_state(s.one_writer ? SQLOCK_UNSURE : SQLOCK_RELEASED, s.lock);
    assert_soon(thief_is_told(s.one_writer ? SQLOCK_EBUSY : SQLOCK_EGUARDED), patience_ms(5000));
    app_exec(g.app, "COMMIT");
    ok(sqlock_release(s.lock, &said));
    assert_true(is_free(s.thief, "sale"));
}

TEST_IF(GUARDS, test_break_of_a_guarded_lock_says_so_and_admits_no_one)
{
    set_stage(w, 10000, 0);
    begin_guarded(g.side->begins[0]);
    says(SQLOCK_EGUARDED, sqlock_break(s.thief, "sale", sqlock_lock_token(s.lock), &said));
    assert_soon(thief_is_told(s.one_writer ? SQLOCK_EBUSY : SQLOCK_EGUARDED), patience_ms(5000));
    app_exec(g.app, "COMMIT");
    if (s.one_writer) /* it was not done */
        ok(sqlock_break(s.thief, "sale", sqlock_lock_token(s.lock), &said));
    assert_true(is_free(s.thief, "sale"));
}

/* Two handles of one grant, of which one has guarded it; and by the time it is asked to give the
 * grant back too, the next holder guards his. */
TEST_IF(GUARDS, test_release_does_not_report_the_next_holders_guard)
{
    sqlock_lock *first = NULL, *thiefs;
    sqlock_conn *theirs;
    void *app;

    set_stage(w, 10000, SQLOCK_NO_RENEW);
    app = app_connect();
    theirs = adopted(s.thief, app);
    ok(sqlock_import(s.m, "sale", sqlock_lock_owner(s.lock), sqlock_lock_token(s.lock), NULL,
                     &first, &said));
    begin_guarded(g.side->begins[0]);
    app_exec(g.app, "COMMIT");
    ok(sqlock_release(first, &said));
    thiefs = take(s.thief, "sale");
    app_exec(app, g.side->begins[0]);
    ok(sqlock_guard(thiefs, theirs, &said));
    if (!s.one_writer) /* there it waits for their transaction */
        ok(sqlock_release(s.lock, &said));
    app_exec(app, "COMMIT");
    give(thiefs);
    drop(first);
}

/* To begin anew would not help: the loss is in any snapshot that is taken now. */
static void fail_to_guard(void)
{
    for (const char *const *begin = g.side->begins; *begin; begin++) {
        app_exec(g.app, *begin);
        says(SQLOCK_ELOST, guard());
        app_exec(g.app, "ROLLBACK");
    }
}

TEST_IF(GUARDS, test_stale_holder_cannot_guard)
{
    sqlock_lock *thiefs;

    set_stage(w, 10000, SQLOCK_NO_RENEW);
    ok(sqlock_break(s.thief, "sale", sqlock_lock_token(s.lock), &said));
    thiefs = take(s.thief, "sale");
    assert_true(sqlock_is_held(s.lock)); /* it does not know yet */
    fail_to_guard();
    give(thiefs);
}

/* The transaction began before the grant. What an earlier holder wrote since is not in its
 * snapshot, so it would undo that; or it has no such snapshot, and sees it. */
TEST_IF(GUARDS | MANY_WRITERS, test_P11_guarded_transaction_sees_what_earlier_holders_wrote)
{
    void *other;
    int restarts = 0;

    set_stage(w, 10000, SQLOCK_NO_RENEW);
    other = app_connect();
    give(s.lock);
    for (const struct way *way = g.side->ways; way->name; way++) {
        int64_t seen;
        int code;

        go_in(g.app, way);
        assert_int_equal(app_number(g.app, "SELECT COUNT(*) FROM app_row WHERE id = 7"), 0);
        seen = seen_by(other);
        s.lock = take(s.thief, "sale");
        app_exec(other, "UPDATE app_row SET n = n + 1 WHERE id = 1");
        give(s.lock);
        s.lock = take_for(s.m, "sale", 10000, SQLOCK_NO_RENEW);
        if ((code = guard()) == SQLOCK_OK) {
            assert_int_equal(seen_by(g.app), seen + 1);
        } else {
            assert_restart(code, &said);
            restarts++;
        }
        go_out(g.app, way, "ROLLBACK");
        give(s.lock);
    }
    assert_in_range(restarts, 2, 3); /* with a snapshot of the whole transaction */
    s.lock = NULL;
}

/* Its owner was granted the name again, by another program: then the first grant is as stale. */
TEST_IF(GUARDS, test_guard_is_for_the_exact_grant)
{
    unsigned char owner[SQLOCK_OWNER_SIZE];
    sqlock_acquire_opts o = wait_opts(0, 10000, SQLOCK_NO_RENEW);
    sqlock_lock *second;

    set_stage(w, 10000, SQLOCK_NO_RENEW);
    memcpy(owner, sqlock_lock_owner(s.lock), sizeof owner);
    o.owner = owner;
    ok(sqlock_break(s.thief, "sale", sqlock_lock_token(s.lock), &said));
    second = take_with(s.thief, "sale", &o);
    assert_between(sqlock_lock_token(s.lock) + 1, sqlock_lock_token(second), SQLOCK_TOKEN_MAX);
    assert_true(sqlock_is_held(s.lock)); /* it does not know yet */
    fail_to_guard();
    give(second);
}

TEST_IF(GUARDS, test_guard_wants_an_open_transaction_and_a_held_lock)
{
    sqlock_conn *others;

    set_stage(w, 10000, 0);
    says(SQLOCK_ESTATE, guard());
    app_exec(g.app, g.side->begins[0]);
    if (g.side->fails_whole) {
        assert_false(g.side->exec(g.app, OUR_WRONG));
        says(SQLOCK_ESTATE, guard());
        app_exec(g.app, "ROLLBACK", g.side->begins[0]);
    }
    others = adopted(s.thief, g.app);
    says(SQLOCK_EINVAL, sqlock_guard(s.lock, others, &said));
    says(SQLOCK_EINVAL, sqlock_guard(NULL, s.conn, &said));
    says(SQLOCK_EINVAL, sqlock_guard(s.lock, NULL, &said));
    ok(sqlock_release(s.lock, &said));
    says(SQLOCK_ESTATE, guard());
}

/* Three leases long. */
TEST_IF(GUARDS | MANY_WRITERS, test_renewals_go_on_in_a_guarded_transaction)
{
    const int32_t lease_ms =
        patience_ms(1000); /* a busy machine may renew late, and it may not run out */

    set_stage(w, lease_ms, 0);
    begin_guarded(g.side->begins[0]);
    stays_held(s.lock, 2 * lease_ms);
    app_exec(g.app, "COMMIT");
    ok(sqlock_release(s.lock, &said));
}

/* The guard has extended the lease, which nobody could renew meanwhile. */
TEST_IF(GUARDS | ONE_WRITER, test_lease_is_unsure_while_its_only_writer_is_the_guard)
{
    set_stage(w, 1000, 0);
    sleep_ms(300);
    begin_guarded("BEGIN IMMEDIATE");
    assert_soon(sqlock_lock_state(s.lock) == SQLOCK_UNSURE, 2000);
    assert_false(sqlock_is_held(s.lock));
    assert_int_equal(sqlock_lock_why(s.lock), SQLOCK_WHY_NONE);
    app_exec(g.app, "COMMIT");
    assert_soon(sqlock_lock_state(s.lock) == SQLOCK_HELD, 500);
    assert_int_equal(try_once(s.thief, "sale"), SQLOCK_EBUSY);

    /* longer than the guard's extension: others may have it afterwards */
    begin_guarded("BEGIN IMMEDIATE");
    assert_soon(sqlock_lock_state(s.lock) == SQLOCK_UNSURE, 2500);
    sleep_ms(400);
    app_exec(g.app, "COMMIT");
    assert_soon(sqlock_lock_state(s.lock) == SQLOCK_LOST, 1000);
    assert_lost(s.lock, SQLOCK_WHY_EXPIRED);
}

TEST_IF(GUARDS | ONE_WRITER, test_settling_says_what_became_of_a_guarded_lease)
{
    set_stage(w, 1000, SQLOCK_NO_RENEW);
    sleep_ms(300);
    begin_guarded("BEGIN IMMEDIATE");
    assert_soon(sqlock_lock_state(s.lock) == SQLOCK_UNSURE, 2000);
    says(SQLOCK_EGUARDED, sqlock_settle(s.lock, 100, &said));
    app_exec(g.app, "COMMIT");
    ok(sqlock_settle(s.lock, 400, &said));
    assert_true(sqlock_is_held(s.lock));
    ok(sqlock_release(s.lock, &said));
}

/* P6: nobody renews it, so nobody but the clock can tell. */
TEST_IF(GUARDS | ONE_WRITER, test_guarded_lease_that_is_not_renewed_is_reported_lost)
{
    int fd;

    set_stage(w, LEASE_MS, SQLOCK_NO_RENEW);
    assert_true((fd = sqlock_lock_fd(s.lock, &said)) >= 0);
    begin_guarded("BEGIN IMMEDIATE");
    app_exec(g.app, "COMMIT");
    assert_soon(sqlock_lock_state(s.lock) == SQLOCK_LOST, 2 * LEASE_MS);
    assert_true(readable_within(fd, LEASE_MS));
    assert_lost(s.lock, SQLOCK_WHY_EXPIRED);
    assert_true(is_free(s.thief, "sale"));
}

/* Its own transaction is over, and somebody else writes for longer than a guarded release waits. */
static int guard_and_commit(sqlock_lock *lock, void *other)
{
    app_exec(g.app, "BEGIN IMMEDIATE");
    ok(sqlock_guard(lock, s.conn, &said));
    app_exec(g.app, "COMMIT");
    app_exec(other, "BEGIN IMMEDIATE");
    exec_later(800, other, "COMMIT");
    return 0;
}

TEST_IF(GUARDS | ONE_WRITER, test_scope_of_a_guarded_lock_gives_it_back_beside_another_writer)
{
    void *other;

    set_stage(w, 10000, 0);
    other = app_connect();
    ok(sqlock_with(s.m, "order", NULL, guard_and_commit, other, NULL, &said));
    await_later();
    assert_true(is_free(s.thief, "order"));
}

TEST_IF(GUARDS, test_handles_may_be_freed_in_any_order)
{
    set_stage(w, 10000, 0);
    close_manager(g.w, s.m);
    app_exec(g.app, g.side->begins[0]);
    says(SQLOCK_ESTATE, guard()); /* the manager is closed */
    says(SQLOCK_ESTATE, sqlock_name_lock(s.conn, "job", NULL, &said));
    app_exec(g.app, "ROLLBACK");
    drop(s.lock);
    let_go(s.conn);
    sqlock_conn_free(NULL);
}

/* P16 */
TEST_IF(NO_GUARDS, test_guard_is_refused_where_it_cannot_be_kept)
{
    set_stage(w, 10000, 0);
    app_exec(g.app, g.side->begins[0]);
    says(SQLOCK_EREFUSED, guard());
    app_exec(g.app, "COMMIT");
}

/* Locks of an index may reach to the entry before the one that is locked. */
TEST_IF(GUARDS | MANY_WRITERS, test_P11_guard_leaves_the_neighbours_of_its_name_alone)
{
    set_stage(w, 10000, 0);
    give(take(s.thief, "sald"));
    give(take(s.thief, "sale/1"));
    for (int i = 0; g.side->begins[i]; i++) {
        sleep_ms(300); /* what earlier grants left in the index would stand between the two */
        begin_guarded(g.side->begins[i]);
        assert_takes(0, late_ms(300), assert_true(is_free(s.thief, "sald")));
        assert_takes(0, late_ms(300), assert_true(is_free(s.thief, "sale/1")));
        app_exec(g.app, "COMMIT");
    }
}
