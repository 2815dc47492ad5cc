/* What the answers of renewals, and of looks after a change of server, mean: by values alone. */
#include <string.h>

#include "core/engine/checks.h"
#include "core/engine/locks.h"
#include "core/engine/renewals.h"
#include "tests/lib/check.h"

#define NOW   INT64_C(1000000000)
#define TTL   INT64_C(30000000)
#define SENT  (NOW + 10000000)
#define LOCKS 3

static struct {
    sqlock m;
    sqlock_lock locks[LOCKS];
    struct renewal_batch b;
    sqlock_rows *rows;
} s;

static void begin(void)
{
    memset(&s, 0, sizeof s);
    s.m.server = s.b.server = 1;
    s.b.m = &s.m;
    s.b.n = LOCKS;
    s.b.sent = SENT;
    s.rows = rows_new();
    assert_non_null(s.rows);
    for (int i = 0; i < LOCKS; i++) {
        sqlock_lock *lock = &s.locks[i];
        struct answer a = {.token = 70 + i, .left = TTL, .now = 5, .sent = NOW, .server = 1};

        *lock = (sqlock_lock){.m = &s.m, .refs = 2, .renewing = 1, .fd = -1};
        lease_init(&lock->lease, TTL, TTL / 3, 0);
        assert_true(lock_granted(lock, &a, NOW));
        s.b.locks[i] = lock;
    }
}

static void put(size_t request, sqlock_outcome outcome, int64_t token)
{
    assert_int_equal(sqlock_rows_add(s.rows, request), 0);
    sqlock_rows_put_int(s.rows, 0); /* within an array statement */
    sqlock_rows_put_int(s.rows, outcome);
    sqlock_rows_put_int(s.rows, token);
    sqlock_rows_put_int(s.rows, TTL);
    sqlock_rows_put_int(s.rows, 6);
}

/* At that time, of these rows and no others. */
static void judge(int64_t now)
{
    renewals_judge(&s.b, s.rows, now);
    rows_clear(s.rows);
}

static int64_t extended(void)
{
    return lease_deadline(&s.locks[0].lease, SENT);
}

TEST(test_P4_renewal_counts_from_before_its_request)
{
    begin();
    put(0, SQLOCK_OUT_DONE, 70);
    judge(SENT + 2000000);
    assert_int_equal(s.locks[0].lease.deadline, extended());
    assert_int_equal(s.locks[0].lease.state, SQLOCK_HELD);
    rows_free(s.rows);
}

TEST(test_P7_answers_reach_the_locks_that_they_name)
{
    begin();
    put(2, SQLOCK_OUT_DONE, 72);
    put(0, SQLOCK_OUT_DONE, 70);
    put(1, SQLOCK_OUT_SKIPPED, 71);
    put(7, SQLOCK_OUT_DONE, 77); /* of no one */
    judge(SENT + 1000);
    assert_int_equal(s.locks[0].lease.deadline, extended());
    assert_int_equal(s.locks[2].lease.deadline, extended());
    assert_true(s.locks[1].lease.deadline < extended());
    rows_free(s.rows);
}

/* It is tried again soon, behind the others, and has not failed. */
TEST(test_P7_locked_row_delays_no_other)
{
    begin();
    put(1, SQLOCK_OUT_SKIPPED, 71);
    put(0, SQLOCK_OUT_DONE, 70);
    put(2, SQLOCK_OUT_DONE, 72);
    judge(SENT + 1000);
    assert_true(s.locks[1].behind);
    assert_false(s.locks[0].behind || s.locks[2].behind);
    assert_between(SENT + 1001, s.locks[1].retry_at, SENT + 1000 + TTL / 8);
    assert_int_equal(s.locks[1].failures, 0);
    assert_int_equal(s.locks[1].lease.state, SQLOCK_HELD);
    rows_free(s.rows);
}

/* The first one without an answer may have used up the time of those after it. */
TEST(test_P7_short_count_is_looked_at_again)
{
    begin();
    put(0, SQLOCK_OUT_DONE, 70);
    judge(SENT + 1000);
    assert_false(s.locks[0].behind);
    assert_true(s.locks[1].behind);
    assert_false(s.locks[2].behind);
    for (int i = 1; i < LOCKS; i++) {
        assert_int_equal(s.locks[i].failures, 1);
        assert_true(s.locks[i].retry_at > SENT + 1000);
        assert_int_equal(s.locks[i].lease.state, SQLOCK_HELD);
    }
    rows_free(s.rows);
}

/* Each failure doubles the pause, up to an eighth of the lease. */
TEST(test_pause_after_failures_grows_to_an_eighth_of_the_lease)
{
    int64_t before = 0, pause = 0;

    begin();
    for (int i = 0; i < 12; i++) {
        judge(SENT);
        pause = s.locks[0].retry_at - SENT;
        assert_true(pause >= before);
        before = pause;
    }
    assert_int_equal(pause, TTL / 8);
    put(0, SQLOCK_OUT_DONE, 70);
    judge(SENT);
    assert_int_equal(s.locks[0].failures, 0);
    rows_free(s.rows);
}

TEST(test_denial_is_believed_when_it_came_twice)
{
    begin();
    put(0, SQLOCK_OUT_BROKEN, 70);
    judge(SENT);
    assert_int_equal(s.locks[0].lease.state, SQLOCK_HELD);
    assert_true(s.locks[0].doubted);
    assert_int_equal(s.locks[0].lease.renew_at, SENT); /* at once */
    put(0, SQLOCK_OUT_BROKEN, 70);
    judge(SENT);
    assert_int_equal(s.locks[0].lease.state, SQLOCK_LOST);
    assert_int_equal(s.locks[0].lease.why, SQLOCK_WHY_BROKEN);
    rows_free(s.rows);
}

TEST(test_success_between_two_denials_ends_the_doubt)
{
    begin();
    put(0, SQLOCK_OUT_GONE, 70);
    judge(SENT);
    put(0, SQLOCK_OUT_DONE, 70);
    judge(SENT);
    put(0, SQLOCK_OUT_GONE, 70);
    judge(SENT);
    assert_int_equal(s.locks[0].lease.state, SQLOCK_HELD);
    rows_free(s.rows);
}

/* A release is under way, and its answer decides. */
TEST(test_answer_changes_no_lock_that_is_being_released)
{
    int64_t deadline;

    begin();
    deadline = s.locks[0].lease.deadline;
    s.locks[0].quiet = 1;
    put(0, SQLOCK_OUT_DONE, 70);
    judge(SENT);
    assert_int_equal(s.locks[0].lease.deadline, deadline);
    rows_free(s.rows);
}

/* ---- looks after a change of server ---------------------------------------------------------- */

static struct answer looked(sqlock_outcome outcome, int64_t token)
{
    return (struct answer){
        .outcome = (int)outcome, .token = token, .left = TTL, .now = 6, .sent = SENT, .server = 2};
}

static sqlock_lock *at_risk(void)
{
    begin();
    rows_free(s.rows);
    s.m.server = 2;
    s.locks[0].lease.manual = 1;
    lock_moved(&s.locks[0], SENT);
    assert_int_equal(s.locks[0].lease.state, SQLOCK_AT_RISK);
    assert_true(s.locks[0].unchecked);
    return &s.locks[0];
}

TEST(test_P6_lease_that_the_new_server_has_is_held_and_not_extended)
{
    sqlock_lock *lock = at_risk();
    int64_t deadline = lock->lease.deadline;
    struct answer a = looked(SQLOCK_OUT_DONE, 70);

    checks_judge(lock, &a, SENT + 1000);
    assert_int_equal(lock->lease.state, SQLOCK_HELD);
    assert_int_equal(lock->lease.deadline, deadline);
    assert_false(lock->unchecked);
}

TEST(test_P6_lease_that_the_new_server_lacks_is_lost_at_the_second_look)
{
    sqlock_lock *lock = at_risk();
    struct answer a = looked(SQLOCK_OUT_NONE, 0);

    checks_judge(lock, &a, SENT + 1000);
    assert_int_equal(lock->lease.state, SQLOCK_AT_RISK);
    checks_judge(lock, &a, SENT + 2000);
    assert_int_equal(lock->lease.state, SQLOCK_LOST);
    assert_int_equal(lock->lease.why, SQLOCK_WHY_FORGOTTEN);
}

TEST_MAIN_EACH(NULL, NULL)
