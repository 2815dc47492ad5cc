/* Tokens only rise (P2): drawn under the write lock, kept by the floor when rows are pruned, and by
 * the clock when the file was put back. */
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
        assert_int_equal(got.token > rb.token, i == 0); /* wrong: granted twice, or falls */
        memset(rb.owner, 'B', sizeof rb.owner);
    }
}

static void test_tokens_rise_under_four_clients_and_two_reapers(void **state)
{
    (void)state;
    tokens_rise(lite_open, 6 * MS, 10, ours(SQLOCK_STMT_PRUNE));
}

/* Tokens are ahead of the clock, which was put back; the row is pruned. */
static int64_t token_after_a_prune(const script *pruner)
{
    conn c = lite_open();
    request r = request_of('A', 5000 * MS);
    run(c, "DELETE FROM {lock}");
    r.token = acquire(c, r).token;
    EXPECT(release(c, r), SQLOCK_OUT_DONE);
    run(c, "UPDATE {lock} SET token = 4503599627370496; UPDATE {meta} SET fence_floor = 0");
    r.floor = INT64_C(4503599627370496);
    for (int i = 0; i < pruner->n; i++) {
        script step = *pruner;
        step.step[0] = pruner->step[i], step.flags[0] = pruner->flags[i], step.n = 1;
        assert_string_equal(ask(c, &step, &r).error, "");
    }
    assert_int_equal(number(c, "SELECT count(*) FROM {lock}"), 0);
    return acquire(c, r).token;
}

/* Wrong: the row goes, and what it knew with it. */
static script prune_and_forget(void)
{
    script s = changed(ours(SQLOCK_STMT_PRUNE), "fence_floor < ?4", "fence_floor < 0");
    return changed(s, "<= (SELECT fence_floor FROM {meta} WHERE id = 1)", ">= 0");
}

static void test_floor_stands_for_the_rows_that_were_pruned(void **state)
{
    script right = ours(SQLOCK_STMT_PRUNE), wrong = prune_and_forget();
    (void)state;
    assert_true(token_after_a_prune(&right) == INT64_C(4503599627370497));
    assert_true(token_after_a_prune(&wrong) < INT64_C(4503599627370496));
}

/* The file is put back as it was before the last grant, of which nothing in it tells. */
static answer grant_after_the_file_was_put_back(const script *s, int64_t *forgotten)
{
    conn c = lite_open();
    request r = request_of('A', 5000 * MS);
    char sql[96];
    run(c, "DELETE FROM {lock}");
    r.token = acquire(c, r).token;
    EXPECT(release(c, r), SQLOCK_OUT_DONE);
    pause_ms(2);
    *forgotten = acquire(c, request_of('B', 5000 * MS)).token;
    snprintf(sql, sizeof sql, "UPDATE {lock} SET owner = NULL, exp = NULL, token = %lld",
             (long long)r.token);
    run(c, sql);
    pause_ms(5);
    r = request_of('C', 5000 * MS);
    return ask(c, s, &r);
}

static void test_tokens_rise_over_a_file_that_was_put_back(void **state)
{
    script right = ours(SQLOCK_STMT_ACQUIRE);
    script wrong = changed(right, "max(l.token + 1, excluded.token)", "l.token + 1");
    conn c = lite_open();
    request r = request_of('A', 5000 * MS), next = request_of('B', 5000 * MS);
    int64_t forgotten, first;
    (void)state;
    assert_true(grant_after_the_file_was_put_back(&right, &forgotten).token > forgotten);
    assert_true(grant_after_the_file_was_put_back(&wrong, &forgotten).token < forgotten);
    /* A row that was not there yet, or is not any more: the clock and the floor stand for it. */
    run(c, "DELETE FROM {lock}");
    first = acquire(c, r).token;
    run(c, "DELETE FROM {lock}");
    pause_ms(2);
    assert_true(acquire(c, next).token > first);
    /* Nor do they fall with the clock. */
    run(c, "UPDATE {lock} SET owner = NULL, exp = NULL, token = 4503599627370496");
    assert_true(acquire(c, r).token == INT64_C(4503599627370497));
    run(c, "DELETE FROM {lock}; UPDATE {meta} SET fence_floor = 4503599627370500");
    assert_true(acquire(c, next).token == INT64_C(4503599627370501));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_SQLITE(test_token_is_drawn_under_the_write_lock),
        ON_SQLITE(test_tokens_rise_under_four_clients_and_two_reapers),
        ON_SQLITE(test_floor_stands_for_the_rows_that_were_pruned),
        ON_SQLITE(test_tokens_rise_over_a_file_that_was_put_back),
    };
    return cmocka_run_group_tests_name("tokens on SQLite", tests, NULL, NULL);
}
