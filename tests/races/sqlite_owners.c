/* One owner for each acquisition (P3, P5): the same request twice, and releases that come late. */
#include "races.h"

static void test_same_request_twice_is_one_grant(void **state)
{
    conn a = lite_open(), again = lite_open();
    request r = request_of('A', 5000 * MS);
    script wrong;
    answer first, second;
    (void)state;
    first = acquire(a, r);
    EXPECT(first, SQLOCK_OUT_DONE);
    second = acquire(again, r);
    EXPECT(second, SQLOCK_OUT_DONE);
    assert_int_equal(second.token, first.token);
    assert_int_equal(second.since, first.since);
    assert_int_equal(number(a, "SELECT count(*) FROM {lock}"), 1);
    /* Wrong: it meets its own ghost and is told to wait for it. */
    wrong = changed(ours(SQLOCK_STMT_ACQUIRE), "owner IS NOT NULL AND owner <> ?3 AND exp",
                    "owner IS NOT NULL AND exp");
    EXPECT(ask(again, &wrong, &r), SQLOCK_OUT_HELD);
}

static void test_released_owner_is_never_granted_again(void **state)
{
    conn a = lite_open(), dup = lite_open();
    request r = request_of('A', 5000 * MS);
    script right = ours(SQLOCK_STMT_ACQUIRE), read = only_the_read(right), rest;
    script wrong =
        changed(right, "(l.ended_why <> 1 OR l.ended_owner IS NOT excluded.owner)", "true");
    (void)state;
    for (int i = 0; i < 2; i++) {
        run(a, "DELETE FROM {lock}");
        r.token = acquire(a, r).token;
        /* The duplicate reads before the release and decides after it. */
        assert_int_equal(ask(dup, &read, &r).rows, 0);
        EXPECT(release(a, r), SQLOCK_OUT_DONE);
        rest = after_the_read(i ? wrong : right);
        EXPECT(ask(dup, &rest, &r), i ? SQLOCK_OUT_DONE : SQLOCK_OUT_RELEASED);
        assert_int_equal(row_owner(a), i ? 'A' : -1); /* wrong: held by nobody */
        if (!i)
            EXPECT(acquire(dup, r), SQLOCK_OUT_RELEASED);
    }
}

static void test_late_release_does_not_free_the_successor(void **state)
{
    script right = ours(SQLOCK_STMT_RELEASE);
    script by_name = changed(right, "AND owner = ?3 AND token = ?4", "");
    script by_owner = changed(right, "AND owner = ?3 AND token = ?4", "AND owner = ?3");
    (void)state;
    late_release_frees_nobody(lite_open(), lite_open(), by_name, by_owner);
}

static void test_acquire_that_arrives_after_its_withdrawal_grants_nothing(void **state)
{
    script s = ours(SQLOCK_STMT_WITHDRAW);
    (void)state;
    withdrawn_acquire_arrives(lite_open(), changed(s, "?3 FROM", "NULL FROM"));
}

static void test_pruner_leaves_the_mark_of_a_withdrawal(void **state)
{
    script s = ours(SQLOCK_STMT_WITHDRAW);
    (void)state;
    withdrawn_acquire_arrives_after_the_pruner(
        lite_open(), changed(s, "l.owner IS NULL OR l.owner = ?3 THEN " LITE_NOW " END",
                             "l.owner = ?3 THEN " LITE_NOW " ELSE l.idle_since END"));
}

/* Another one who withdraws takes the tombstone's place; until not_after nothing is certain. */
static void test_withdrawal_is_certain_only_after_the_last_moment(void **state)
{
    (void)state;
    withdrawal_is_certain_later(lite_open(), lite_open());
}

static void test_withdrawal_leaves_another_holder_alone(void **state)
{
    (void)state;
    withdrawal_beside_another_holder(lite_open(), lite_open());
}

static void test_withdrawal_leaves_how_others_ended(void **state)
{
    (void)state;
    withdrawal_leaves_how_others_ended(lite_open(), lite_open());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_SQLITE(test_same_request_twice_is_one_grant),
        ON_SQLITE(test_released_owner_is_never_granted_again),
        ON_SQLITE(test_late_release_does_not_free_the_successor),
        ON_SQLITE(test_acquire_that_arrives_after_its_withdrawal_grants_nothing),
        ON_SQLITE(test_pruner_leaves_the_mark_of_a_withdrawal),
        ON_SQLITE(test_withdrawal_is_certain_only_after_the_last_moment),
        ON_SQLITE(test_withdrawal_leaves_another_holder_alone),
        ON_SQLITE(test_withdrawal_leaves_how_others_ended),
    };
    return cmocka_run_group_tests_name("owners on SQLite", tests, NULL, NULL);
}
