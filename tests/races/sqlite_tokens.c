/* Tokens only rise (P2): drawn under the write lock, kept by the floor when rows are pruned, and
 * ahead of what another file granted. */
#include "races.h"

#define READ_TOKEN                                                                                 \
    "UPDATE {lock} SET owner = ?3, exp = " LITE_NOW " + ?4 / 1000, token = @number"                \
    " WHERE ns = ?1 AND name = ?2 AND owner IS NULL RETURNING 0, 1, token"

static void test_token_is_drawn_under_the_write_lock(void **state)
{
    conn a = lite_open(), b = lite_open();
    request ra = request_of('A', 5000 * MS), rb = request_of('B', 5000 * MS);
    script read = only_the_read(ours(SQLOCK_STMT_ACQUIRE));
    script decide = after_the_read(ours(SQLOCK_STMT_ACQUIRE));
    script wrong;
    answer got;
    (void)state;
    for (int i = 0; i < 2; i++) {
        run(a, "DELETE FROM {lock}");
        rb.token = acquire(b, rb).token;
        EXPECT(release(b, rb), SQLOCK_OUT_DONE);
        /* A reads; B is granted the lock and gives it back; A goes on. Wrong: with what it read. */
        assert_int_equal(ask(a, &read, &ra).rows, 0);
        wrong = with_number(written(SQLOCK_STMT_ACQUIRE, READ_TOKEN),
                            number(a, "SELECT token FROM {lock}") + 1);
        memset(rb.owner, 'C', sizeof rb.owner);
        rb.token = acquire(b, rb).token;
        EXPECT(release(b, rb), SQLOCK_OUT_DONE);
        got = ask(a, i ? &wrong : &decide, &ra);
        EXPECT(got, SQLOCK_OUT_DONE);
        assert_int_equal(got.token, i ? rb.token : rb.token + 1); /* wrong: granted twice */
        memset(rb.owner, 'B', sizeof rb.owner);
    }
}

/* Wrong: the row goes, and what it knew with it. */
static script prune_and_forget(void)
{
    script s = changed(ours(SQLOCK_STMT_PRUNE), "fence_floor < ?4", "fence_floor < 0");
    return changed(s, "<= (SELECT fence_floor FROM {meta} WHERE id = 1)", ">= 0");
}

static void test_tokens_rise_under_four_clients_and_two_reapers(void **state)
{
    (void)state;
    tokens_rise(lite_open, 6 * MS, 10, ours(SQLOCK_STMT_PRUNE));
    tokens_fall(lite_open, 6 * MS, prune_and_forget());
}

static void test_pruned_row_of_an_older_incarnation_raises_the_floor_by_the_jump(void **state)
{
    (void)state;
    old_row_raises_the_floor_by_the_jump(
        lite_open(),
        "INSERT INTO {lock} (ns, name, token, inc, idle_since) VALUES (x'617070', x'6a6f62', "
        "8589934592, 0, 1)",
        "token + ((SELECT inc FROM {meta} WHERE id = 1) - inc) * 4294967296", "token");
}

static void test_tokens_jump_with_the_incarnation(void **state)
{
    conn c = lite_open();
    request file = request_name(request_of('-', 0), "other", 5), r = request_of('A', 5000 * MS);
    script right = ours(SQLOCK_STMT_ACQUIRE), meet = ours(SQLOCK_STMT_REINCARNATE);
    script wrong =
        changed(right, "ELSE l.token + (excluded.inc - l.inc) * 4294967296", "ELSE l.token + 1");
    (void)state;
    for (int i = 0; i < 2; i++) { /* token 7 was granted, and forgotten with its commit */
        run(c, "DELETE FROM {lock}");
        run(c, "UPDATE {meta} SET server = 'file', inc = 0, fence_floor = 6");
        run(c, "INSERT INTO {lock} (ns, name, token, inc) VALUES (x'617070', x'6a6f62', 6, 0)");
        EXPECT(ask(c, &meet, &file), SQLOCK_OUT_DONE);
        assert_true(ask(c, i ? &wrong : &right, &r).token == (i ? 7 : 6 + JUMP));
        assert_true(acquire(c, request_name(r, "new", 3)).token > 6 + JUMP);
        assert_int_equal(ask(c, &meet, &file).rows, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_SQLITE(test_token_is_drawn_under_the_write_lock),
        ON_SQLITE(test_tokens_rise_under_four_clients_and_two_reapers),
        ON_SQLITE(test_tokens_jump_with_the_incarnation),
        ON_SQLITE(test_pruned_row_of_an_older_incarnation_raises_the_floor_by_the_jump),
    };
    return cmocka_run_group_tests_name("tokens on SQLite", tests, NULL, NULL);
}
