/* Leases and the time (P4, P5): what is left of a lease after a wait for the write lock, in an old
 * transaction, and for whoever comes too late. */
#include "races.h"

#define READ_EXP                                                                                   \
    "UPDATE {lock} SET owner = ?3, exp = @number, token = token + 1"                               \
    " WHERE ns = ?1 AND name = ?2 AND exp <= " LITE_NOW " RETURNING 0, 1, token"

static void test_waiter_gets_a_full_lease(void **state)
{
    conn a = lite_open(), other = lite_open();
    request r = request_of('A', 2000 * MS);
    script right = ours(SQLOCK_STMT_ACQUIRE), wrong;
    int64_t asked = 0;
    (void)state;
    EXPECT(acquire(other, request_of('X', 1)), SQLOCK_OUT_DONE);
    pause_ms(2);
    run(other, "BEGIN IMMEDIATE");
    asked = server_us(a);
    EXPECT(ask_behind(a, &right, r, other, 400), SQLOCK_OUT_DONE);
    assert_true(row_end(a) >= asked + 300 * MS + r.ttl);

    /* Wrong: the end of the lease is computed before the wait. */
    let_it_run_out(a);
    wrong =
        with_number(written(SQLOCK_STMT_ACQUIRE, READ_EXP), number(a, "SELECT " LITE_NOW) + 2000);
    run(other, "BEGIN IMMEDIATE");
    asked = server_us(a);
    EXPECT(ask_behind(a, &wrong, r, other, 400), SQLOCK_OUT_DONE);
    assert_true(row_end(a) <= asked + r.ttl);
}

/* From when it was asked for. wrong: the time is taken when the transaction begins, as now() does
 * elsewhere. */
static int64_t lease_in_an_old_transaction(conn c, const char *begin, int wrong)
{
    request r = request_of('A', 1000 * MS);
    script s = ours(SQLOCK_STMT_ACQUIRE);
    int64_t asked = 0, lease = 0;
    let_it_run_out(c);
    run(c, begin);
    if (wrong)
        s = with_number(written(SQLOCK_STMT_ACQUIRE, READ_EXP),
                        number(c, "SELECT " LITE_NOW) + 1000);
    number(c, "SELECT count(*) FROM {lock}");
    pause_ms(300);
    asked = server_us(c);
    EXPECT(ask(c, &s, &r), SQLOCK_OUT_DONE);
    lease = row_end(c) - asked;
    run(c, "COMMIT");
    return lease;
}

static void test_lease_granted_in_an_old_transaction_is_whole(void **state)
{
    conn c = lite_open();
    const char *begins[] = {"BEGIN IMMEDIATE", "BEGIN"};
    (void)state;
    EXPECT(acquire(c, request_of('X', 1)), SQLOCK_OUT_DONE);
    for (size_t i = 0; i < COUNT(begins); i++) {
        assert_true(lease_in_an_old_transaction(c, begins[i], 0) >= 1000 * MS);
        assert_true(lease_in_an_old_transaction(c, begins[i], 1) <= 700 * MS);
    }
}

static answer late(const script *s, request r)
{
    conn a = lite_open(), other = lite_open();
    r.not_after = number(other, "SELECT " LITE_NOW) * MS + 100 * MS;
    run(other, "BEGIN IMMEDIATE");
    return ask_behind(a, s, r, other, 200);
}

static void test_statement_held_up_past_not_after_does_nothing(void **state)
{
    (void)state;
    nothing_is_done_too_late(
        lite_open(), late, changed(ours(SQLOCK_STMT_ACQUIRE), "AND " LITE_NOW " * 1000 <= ?5", ""),
        changed(ours(SQLOCK_STMT_RENEW), "AND " LITE_NOW " * 1000 <= ?6", ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_SQLITE(test_waiter_gets_a_full_lease),
        ON_SQLITE(test_lease_granted_in_an_old_transaction_is_whole),
        ON_SQLITE(test_statement_held_up_past_not_after_does_nothing),
    };
    return cmocka_run_group_tests_name("time on SQLite", tests, NULL, NULL);
}
