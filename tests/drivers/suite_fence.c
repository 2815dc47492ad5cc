/* Data beside the lock's own database: an older holder's token does not pass where a newer one was.
 */
#include <sqlock/cas.h>

#include <pthread.h>
#include <stdio.h>

#include "tests/drivers/suite_guest.h"

/* A table of things: number 1 with no token yet, number 2 with a fence of 32 bits. */
static struct stage {
    sqlock *m;
    sqlock_conn *conn;
    void *other;
} s;

static void strike(void)
{
    sqlock_conn_free(s.conn);
}

static void set_stage(void **state)
{
    begin_app(state);
    app_exec(g.app, "CREATE TABLE app_thing (id INTEGER PRIMARY KEY, n INTEGER NOT NULL, "
                    "fence BIGINT, brief SMALLINT)");
    app_exec(g.app, "INSERT INTO app_thing (id, n) VALUES (1, 0)");
    s.m = open_manager(g.w, NULL);
    s.conn = adopted(s.m, g.app);
    s.other = app_connect_impatient();
    at_end(g.w, strike);
}

static int fence_in(const char *column, int64_t id, int64_t token)
{
    sqlock_column key = {"id", sqlock_int(id), NULL};
    sqlock_row row = {sizeof row, NULL, "app_thing", &key, 1};

    return sqlock_fence(s.conn, &row, column, token, &said);
}

static int fence(int64_t token)
{
    return fence_in("fence", 1, token);
}

static int64_t fence_seen_by(void *app)
{
    return app_number(app, "SELECT fence FROM app_thing WHERE id = 1");
}

static void test_token_passes_unless_a_larger_one_was_here(void **state)
{
    int64_t token = 7;

    set_stage(state);
    for (const struct way *way = g.side->ways; way->name; way++, token++) {
        go_in(g.app, way);
        ok(fence(token));
        ok(fence(token)); /* one holder writes many times */
        says(SQLOCK_ELOST, fence(token - 1));
        assert_int_equal(fence_in("fence", 9, token), SQLOCK_ABSENT);
        assert_true(go_out(g.app, way, "COMMIT"));
        assert_int_equal(fence_seen_by(s.other), token);
        go_in(g.app, way);
        says(SQLOCK_ELOST, fence(1));
        ok(fence(token));
        ok(fence(token + 5));
        go_out(g.app, way, "ROLLBACK");
        assert_int_equal(fence_seen_by(s.other), token);
    }
}

/* What the older holder has read is older than the newer one's write. */
static void test_transaction_that_read_before_the_last_write_does_not_pass(void **state)
{
    set_stage(state);
    for (const struct way *way = g.side->ways; way->name; way++) {
        int64_t n;
        int rc;

        app_exec(s.other, "UPDATE app_thing SET fence = 5, n = 0");
        go_in(g.app, way);
        n = app_number(g.app, "SELECT n FROM app_thing WHERE id = 1");
        if (!g.side->exec(s.other, "UPDATE app_thing SET fence = 6, n = n + 1")) {
            go_out(g.app, way, "ROLLBACK"); /* SQLite keeps it out */
            continue;
        }
        rc = fence(9); /* the newest of all */
        if (rc == 0)   /* then it reads what was written */
            assert_int_equal(app_number(g.app, "SELECT n FROM app_thing WHERE id = 1"), n + 1);
        else
            assert_restart(rc, &said);
        go_out(g.app, way, "ROLLBACK");
    }
}

/* Who passed keeps the row: a newer holder's fence waits, and an older one's is judged by it. */
static void test_fenced_row_is_kept_until_the_transaction_ends(void **state)
{
    sqlock_conn *mine, *others;
    sqlock_column key = {"id", sqlock_int(1), NULL};
    sqlock_row row = {sizeof row, NULL, "app_thing", &key, 1};
    int rc;

    set_stage(state);
    mine = s.conn;
    others = adopted(s.m, s.other);
    app_exec(g.app, g.side->begins[0]);
    ok(fence(8));
    app_exec(s.other, g.side->begins[0]);
    app_exec(g.app, "UPDATE app_thing SET n = n + 1 WHERE id = 1");
    exec_later(200, g.app, "COMMIT");
    rc = sqlock_fence(others, &row, "fence", 7, &said);
    await_later();
    says(SQLOCK_ELOST, rc);
    app_exec(s.other, "ROLLBACK");
    assert_int_equal(app_number(s.other, "SELECT n FROM app_thing WHERE id = 1"), 1);
    sqlock_conn_free(others);
    s.conn = mine;
}

static void test_fence_must_have_room_for_every_token(void **state)
{
    set_stage(state);
    says(SQLOCK_ESTATE, fence(1));
    app_exec(g.app, g.side->begins[0]);
    says(SQLOCK_EREFUSED, fence_in("absent", 1, 5));
    if (!(g.driver->caps & SQLOCK_CAP_ONE_WRITER)) {
        says(SQLOCK_EREFUSED, fence_in("n", 1, 5)); /* 32 bits */
        says(SQLOCK_EREFUSED, fence_in("brief", 1, 5));
    }
    says(SQLOCK_EINVAL, fence_in("id", 1, 5));
    says(SQLOCK_EINVAL, fence_in(NULL, 1, 5));
    says(SQLOCK_EINVAL, fence(0));
    says(SQLOCK_EINVAL, fence(-1));
    says(SQLOCK_EINVAL, fence(INT64_C(1) << 53));
    ok(fence((INT64_C(1) << 53) - 1));
    app_exec(g.app, "COMMIT");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_token_passes_unless_a_larger_one_was_here),
    cmocka_unit_test(test_transaction_that_read_before_the_last_write_does_not_pass),
    cmocka_unit_test(test_fenced_row_is_kept_until_the_transaction_ends),
    cmocka_unit_test(test_fence_must_have_room_for_every_token),
};
PART(suite_fence, tests);
