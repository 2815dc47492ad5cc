/* Data beside the lock's own database: no older token passes where a newer one was. */
#define SUITE_NEEDS ADOPTION
#include <sqlock/cas.h>

#include "tests/drivers/suite_in_transaction.h"

/* A table of things: number 1 with no token yet, number 2 with a fence of 32 bits. */
static struct stage {
    sqlock *m;
    sqlock_conn *conn;
    void *other;
} s;

static void set_stage(struct world *w)
{
    begin_app(w);
    app_exec(g.app, "CREATE TABLE app_thing (id INTEGER PRIMARY KEY, n INTEGER NOT NULL, "
                    "fence BIGINT, brief SMALLINT)");
    app_exec(g.app, "INSERT INTO app_thing (id, n) VALUES (1, 0)");
    s.m = open_manager(g.w, NULL);
    s.conn = adopted(s.m, g.app);
    s.other = app_connect_impatient();
}

static int fence_in(const char *column, int64_t id, int64_t token)
{
    return sqlock_fence(s.conn, ROW("app_thing", id), column, token, &said);
}

static int fence(int64_t token)
{
    return fence_in("fence", 1, token);
}

static int64_t fence_seen_by(void *app)
{
    return app_number(app, "SELECT fence FROM app_thing WHERE id = 1");
}

TEST_AFTER(set_stage, test_token_passes_unless_a_larger_one_was_here)
{
    int64_t token = 7;

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
TEST_AFTER(set_stage, test_transaction_that_read_before_the_last_write_does_not_pass)
{
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
TEST_AFTER(set_stage, test_fenced_row_is_kept_until_the_transaction_ends)
{
    sqlock_conn *others = adopted(s.m, s.other);
    int rc;

    app_exec(g.app, g.side->begins[0]);
    ok(fence(8));
    app_exec(s.other, g.side->begins[0]);
    app_exec(g.app, "UPDATE app_thing SET n = n + 1 WHERE id = 1");
    exec_later(200, g.app, "COMMIT");
    rc = sqlock_fence(others, ROW("app_thing", 1), "fence", 7, &said);
    await_later();
    says(SQLOCK_ELOST, rc);
    app_exec(s.other, "ROLLBACK");
    assert_int_equal(app_number(s.other, "SELECT n FROM app_thing WHERE id = 1"), 1);
}

TEST_AFTER(set_stage, test_fence_must_have_room_for_every_token)
{
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
