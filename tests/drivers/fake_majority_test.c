/* A lock on a majority of databases (recipes/majority.h), of which some are slow, or lose replies.
 */
#include <sqlock/register.h>

#include "recipes/majority.h"
#include "tests/drivers/fake_network.h"

#define NAME "nightly"

enum { MEMBERS = 3, SHORT_MS = 600 };

/* The databases; the first one is given less time for a request. */
static sqlock_fake *dbs[MEMBERS];
static sqlock *mine[MEMBERS], *others[MEMBERS];

static void end_members(void)
{
    for (int i = 0; i < MEMBERS; i++) {
        sqlock_close(mine[i]);
        sqlock_close(others[i]);
        sqlock_fake_free(dbs[i]);
    }
}

static void begin_members(struct world *w)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;

    at_end(w, end_members);
    for (int i = 0; i < MEMBERS; i++) {
        dbs[i] = sqlock_fake_new();
        o.connect_user = dbs[i];
        o.connect = sqlock_fake_connect;
        o.request_ms = 5000;
        ok(sqlock_open(sqlock_driver_fake(), NULL, &o, &others[i], &said));
        o.request_ms = i == 0 ? SHORT_MS : 2000;
        ok(sqlock_open(sqlock_driver_fake(), NULL, &o, &mine[i], &said));
    }
}

#define MAJORITY_TEST(...) TEST_AFTER(begin_members, __VA_ARGS__)

static struct majority all_of(sqlock *members[MEMBERS])
{
    return (struct majority){
        .members = {members[0], members[1], members[2]}, .n = MEMBERS, .slow_ms = 800};
}

static int acquire(struct majority *set, int32_t lease_ms, majority_lock **out_lock)
{
    sqlock_acquire_opts opts = wait_opts(0, lease_ms, 0);

    return majority_acquire(set, NAME, &opts, out_lock, &said);
}

/* The grant was made, and its answer does not come in time. */
MAJORITY_TEST(test_P5_grant_whose_reply_was_lost_is_given_back)
{
    struct majority set = all_of(mine);
    majority_lock *lock = NULL;

    take(others[1], NAME);
    take(others[2], NAME);
    sqlock_fake_fault(dbs[0], SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_SLOW, 0, 1, 5 * SHORT_MS);
    says(SQLOCK_EBUSY, acquire(&set, 60000, &lock));
    assert_null(lock);
    assert_true(sqlock_fake_seen(dbs[0], SQLOCK_STMT_WITHDRAW) > 0);
    assert_true(is_free(others[0], NAME));
}

/* All were granted. When the last register was set, two of the leases had run out. */
MAJORITY_TEST(test_P4_leases_that_ran_out_on_the_way_are_no_majority)
{
    struct majority set = all_of(mine);
    majority_lock *lock = NULL;

    for (int i = 1; i < MEMBERS; i++) {
        sqlock_fake_fault(dbs[i], SQLOCK_STMT_REGISTER_SET, SQLOCK_FAULT_SLOW, 0, 1, 900);
        sqlock_fake_fault(dbs[i], SQLOCK_STMT_RENEW, SQLOCK_FAULT_LOSE_REQUEST, 0, ALWAYS, 0);
    }
    says(SQLOCK_ETIMEOUT, acquire(&set, 500, &lock));
    assert_non_null(strstr(said.text, "ran out"));
    assert_null(lock);
    for (int i = 0; i < MEMBERS; i++)
        assert_true(is_free(others[i], NAME));
}

/* It costs one of them its time, and the others none. A mend looks whether it is back. */
MAJORITY_TEST(test_slow_member_is_left_out_for_a_while)
{
    struct majority set = all_of(mine);
    majority_lock *lock = NULL;

    sqlock_fake_fault(dbs[1], SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_SLOW, 0, 1, 1000);
    assert_takes(1000, patience_ms(5000), ok(acquire(&set, 0, &lock)));
    assert_int_equal(majority_count(lock), 3);
    ok(majority_end(&lock, &said));
    sqlock_fake_fault(dbs[1], SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_SLOW, 0, 1, 1000);
    assert_takes(0, 1000, ok(acquire(&set, 0, &lock)));
    assert_int_equal(majority_count(lock), 2);
    assert_takes(1000, patience_ms(5000), ok(majority_mend(lock, &said)));
    assert_int_equal(majority_count(lock), 3);
    ok(majority_end(&lock, &said));
}

/* Without it there would be no quorum. */
MAJORITY_TEST(test_member_that_was_left_out_is_tried_if_another_one_fails)
{
    struct majority set = all_of(mine);
    majority_lock *lock = NULL;

    sqlock_fake_fault(dbs[1], SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_SLOW, 0, 1, 1000);
    ok(acquire(&set, 0, &lock));
    ok(majority_end(&lock, &said));
    sqlock_fake_down(dbs[2], 1);
    ok(acquire(&set, 0, &lock));
    assert_int_equal(majority_count(lock), 2);
    ok(majority_end(&lock, &said));
}

static void *set_between(void *arg)
{
    int failed = 0;

    sleep_ms(300); /* both have been read, and the answer is on its way */
    for (int i = 1; i < MEMBERS; i++)
        failed |= sqlock_register_set(others[i], NAME, arg, strlen(arg), 0, NULL, NULL);
    return failed ? NULL : arg;
}

/* A slow holder of before, whose numbers come between reading and setting. */
MAJORITY_TEST(test_P2_number_that_came_between_is_read_and_passed)
{
    struct majority set = all_of(mine);
    majority_lock *lock = NULL;
    char text[] = "majority 9007199254000000";
    pthread_t thread;
    void *was_set = NULL;

    for (int i = 1; i < MEMBERS; i++)
        sqlock_fake_fault(dbs[i], SQLOCK_STMT_REGISTER_GET, SQLOCK_FAULT_SLOW, 0, 1, 1000);
    assert_int_equal(pthread_create(&thread, NULL, set_between, text), 0);
    ok(acquire(&set, 0, &lock));
    pthread_join(thread, &was_set);
    assert_non_null(was_set);
    assert_int_equal(majority_token(lock), INT64_C(9007199254000001));
    ok(majority_end(&lock, &said));
}

/* Which members are asked changes from one to the next, and the clock of one is an hour ahead. */
MAJORITY_TEST(test_P2_tokens_rise_past_a_member_whose_clock_is_ahead)
{
    static const int left_out[] = {2, 0, 1, 0, 2};
    majority_lock *lock = NULL;
    int64_t last = 0;

    sqlock_fake_step_clock(dbs[0], 3600000);
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++) {
        struct majority set = all_of(mine);

        set.members[left_out[i]] = NULL;
        ok(acquire(&set, 0, &lock));
        assert_true(majority_token(lock) > last);
        last = majority_token(lock);
        ok(majority_end(&lock, &said));
    }
}

TEST_MAIN_ON(fake)
