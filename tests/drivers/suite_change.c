/* P3, P8, P21, P24, P26: the mode of a lock that is held changes, or is refused to. */
#define SUITE_NEEDS QUEUES
#include <poll.h>

#include <sqlock/admin.h>
#include <sqlock/async.h>
#include <sqlock/mode.h>

#include "tests/drivers/suite_change.h"
#include "tests/drivers/suite_reap.h"

int downgrade(sqlock_lock **lock)
{
    int code;

    forget(*lock);
    code = sqlock_downgrade(lock, &said);
    keep(*lock);
    return code;
}

int upgrade(sqlock_lock **lock, int32_t wait_ms)
{
    int code;

    forget(*lock);
    code = sqlock_upgrade(lock, wait_ms, NULL, &said);
    keep(*lock);
    return code;
}

sqlock_lock *downgraded(sqlock_lock *lock)
{
    ok(downgrade(&lock));
    return lock;
}

sqlock_lock *upgraded(sqlock_lock *lock, int32_t wait_ms)
{
    ok(upgrade(&lock, wait_ms));
    return lock;
}

sqlock_lock *change_result(sqlock_op *op, int *out_code)
{
    sqlock_lock *lock = NULL;
    struct pollfd ready = {.fd = sqlock_op_fd(op), .events = POLLIN};

    while (!sqlock_op_step(op))
        assert_true(poll(&ready, 1, patience_ms(10000)) == 1);
    *out_code = sqlock_op_finish(op, &lock, &said);
    return lock != NULL ? keep(lock) : NULL;
}

/* It is refused, and the handle is the same. */
static int try_upgrade(sqlock_lock *lock, int32_t wait_ms)
{
    sqlock_lock *same = lock;
    int code = upgrade(&same, wait_ms);

    assert_true(code == SQLOCK_OK || same == lock);
    return code;
}

TEST(test_P24_exclusive_lock_becomes_shared_at_once, m, other)
{
    sqlock_lock *lock = take(m, "door"), *second;
    int64_t token = sqlock_lock_token(lock);

    lock = downgraded(lock);
    assert_true(sqlock_is_held(lock));
    assert_true(sqlock_lock_token(lock) > token);
    assert_int_equal(sqlock_lock_slot(lock), 0);
    assert_int_equal(sqlock_lock_mode(lock), SQLOCK_SHARED);
    second = sit(other, "door", SQLOCK_SHARED);
    assert_int_equal(try_mode(other, "door", SQLOCK_EXCLUSIVE), SQLOCK_EBUSY);
    give(lock);
    give(second);
    assert_true(is_free(other, "door"));
}

TEST(test_P24_shared_lock_becomes_exclusive_when_it_is_the_only_one, m, other)
{
    sqlock_lock *lock = sit(m, "door", SQLOCK_SHARED);
    int64_t token = sqlock_lock_token(lock);

    lock = upgraded(lock, 0);
    assert_true(sqlock_is_held(lock));
    assert_true(sqlock_lock_token(lock) > token);
    assert_int_equal(sqlock_lock_slot(lock), -1);
    assert_int_equal(sqlock_lock_mode(lock), SQLOCK_EXCLUSIVE);
    assert_int_equal(try_mode(other, "door", SQLOCK_SHARED), SQLOCK_EBUSY);
    ok(sqlock_renew(lock, &said));
    give(lock);
    assert_true(is_free(other, "door"));
}

/* With the same handle variable, as often as one likes. */
TEST(test_mode_goes_to_and_fro, m, other)
{
    sqlock_lock *lock = take(m, "door");
    int64_t token = 0;

    for (int i = 0; i < 3; i++) {
        lock = downgraded(lock);
        assert_int_equal(try_mode(other, "door", SQLOCK_SHARED), SQLOCK_OK);
        lock = upgraded(lock, 0);
        assert_int_equal(try_mode(other, "door", SQLOCK_SHARED), SQLOCK_EBUSY);
        assert_true(sqlock_lock_token(lock) > token);
        token = sqlock_lock_token(lock);
    }
    give(lock);
    assert_true(is_free(other, "door"));
}

/* An upgrade on a thread of its own. It may outlive a test that fails. */
static struct {
    pthread_t thread;
    sqlock_lock *lock;
    int code;
    sqlock_error err;
    atomic_bool ended;
} upgrader;

static void *upgrader_run(void *unused)
{
    (void)unused;
    upgrader.code = sqlock_upgrade(&upgrader.lock, 20000, NULL, &upgrader.err);
    atomic_store(&upgrader.ended, true);
    return NULL;
}

static void upgrader_start(sqlock_lock *lock)
{
    upgrader.lock = forget(lock);
    atomic_store(&upgrader.ended, false);
    assert_int_equal(pthread_create(&upgrader.thread, NULL, upgrader_run, NULL), 0);
}

static sqlock_lock *upgrader_join(void)
{
    pthread_join(upgrader.thread, NULL);
    keep(upgrader.lock);
    assert_ok(upgrader.code, &upgrader.err);
    return upgrader.lock;
}

TEST(test_P24_upgrade_waits_for_the_other_holders_and_lets_no_new_ones_in, m, other)
{
    sqlock_lock *first = sit(other, "door", SQLOCK_SHARED),
                *second = sit(other, "door", SQLOCK_SHARED);

    upgrader_start(sit(m, "door", SQLOCK_SHARED));
    assert_soon(try_mode(other, "door", SQLOCK_SHARED) == SQLOCK_EBUSY, patience_ms(5000));
    give(first);
    sleep_ms(patience_ms(100));
    assert_false(atomic_load(&upgrader.ended));
    give(second);
    first = upgrader_join();
    assert_int_equal(try_mode(other, "door", SQLOCK_SHARED), SQLOCK_EBUSY);
    give(first);
    assert_true(is_free(other, "door"));
}

/* What it is granted in the end has another token than its turn. */
TEST(test_P24_upgrade_goes_on_when_a_pruner_raises_the_floor, m, other)
{
    sqlock_lock *first;

    for (int i = 0; i < 100; i++)
        give(take(other, "often"));
    age(w, 3 * HOUR_MS);
    first = sit(other, "door", SQLOCK_SHARED);
    upgrader_start(sit(m, "door", SQLOCK_SHARED));
    assert_soon(try_mode(other, "door", SQLOCK_SHARED) == SQLOCK_EBUSY, patience_ms(5000));
    assert_int_equal(reap_idle(other).pruned, 1);
    give(first);
    give(upgrader_join());
}

static bool waits_in_vain(sqlock_lock *lock)
{
    int64_t begun = now_us();

    assert_int_equal(try_upgrade(lock, 200), SQLOCK_EBUSY);
    return now_us() - begun >= 190000;
}

/* P8: its shared lock is as it was, and no one is kept out. */
TEST(test_P8_upgrade_that_waits_in_vain_leaves_the_shared_lock, m, other)
{
    sqlock_lock *reader = sit(other, "door", SQLOCK_SHARED), *lock = sit(m, "door", SQLOCK_SHARED);
    int64_t token = sqlock_lock_token(lock);

    assert_int_equal(try_upgrade(lock, 0), SQLOCK_EBUSY);
    assert_soon(waits_in_vain(lock), patience_ms(5000)); /* the first one leaves behind its end */
    assert_true(sqlock_is_held(lock));
    assert_int_equal(sqlock_lock_token(lock), token);
    ok(sqlock_renew(lock, &said));
    assert_soon(try_mode(other, "door", SQLOCK_SHARED) == SQLOCK_OK, patience_ms(5000));
    give(reader);
    lock = upgraded(lock, patience_ms(5000));
    give(lock);
    assert_true(is_free(other, "door"));
}

/* Two that both keep their shared lock would wait for each other for ever. */
TEST(test_P24_second_upgrade_is_refused_at_once, m, other)
{
    sqlock_lock *lock = sit(other, "door", SQLOCK_SHARED);

    upgrader_start(sit(m, "door", SQLOCK_SHARED));
    assert_soon(try_mode(other, "door", SQLOCK_SHARED) == SQLOCK_EBUSY, patience_ms(5000));
    assert_takes(0, patience_ms(1500), assert_int_equal(try_upgrade(lock, 10000), SQLOCK_EBUSY));
    assert_true(sqlock_is_held(lock));
    assert_false(atomic_load(&upgrader.ended));
    give(lock);
    give(upgrader_join());
}

/* P26: an actor that has a seat, and waits for the lock alone, does not wait for itself. */
TEST(test_P26_upgrade_of_an_actor_is_no_circle, m, other)
{
    sqlock_acquire_opts opts = mode_opts(SQLOCK_SHARED, 0);
    sqlock_lock *lock = sit(other, "door", SQLOCK_SHARED);

    opts.actor = "editor";
    upgrader_start(take_with(m, "door", &opts));
    sleep_ms(3500); /* a look after a second, and another one */
    assert_false(atomic_load(&upgrader.ended));
    give(lock);
    lock = upgrader_join();
    assert_int_equal(try_mode(other, "door", SQLOCK_SHARED), SQLOCK_EBUSY);
    give(lock);
}

/* The waiter wants the lock alone, too, and waits for this very holder. */
TEST(test_P24_upgrade_beside_an_exclusive_waiter_is_refused_at_once, m, other)
{
    sqlock_lock *lock = sit(m, "door", SQLOCK_SHARED);
    struct waiter writer = {.m = other, .name = "door", .opts = wait_opts(20000, 0, 0)};

    wait_start(&writer);
    assert_soon(try_mode(m, "door", SQLOCK_SHARED) == SQLOCK_EBUSY, patience_ms(5000));
    assert_takes(0, patience_ms(1500), assert_int_equal(try_upgrade(lock, 10000), SQLOCK_EBUSY));
    assert_true(sqlock_is_held(lock));
    give(lock);
    pthread_join(writer.thread, NULL);
    assert_ok(writer.code, &writer.err);
    give(keep(writer.lock));
}

/* Those that waited for the exclusive holder are let in. */
TEST(test_P21_downgrade_calls_the_shared_ones_that_wait, m, other)
{
    sqlock_lock *lock = take(m, "door");
    struct waiter reader = {.m = other, .name = "door", .opts = mode_opts(SQLOCK_SHARED, 20000)};
    long queued = spy_runs(SQLOCK_STMT_QUEUE);

    wait_start(&reader);
    assert_soon(spy_runs(SQLOCK_STMT_QUEUE) > queued, patience_ms(5000));
    sleep_ms(patience_ms(50));
    lock = downgraded(lock);
    assert_soon(atomic_load(&reader.ended), patience_ms(3000));
    pthread_join(reader.thread, NULL);
    assert_ok(reader.code, &reader.err);
    assert_true(sqlock_is_held(lock));
    give(keep(reader.lock));
    give(lock);
    assert_true(is_free(other, "door"));
}

/* What was broken was free for a while: others may have had it, and it becomes no shared one. */
TEST(test_P3_lost_lock_is_not_changed, m, other)
{
    sqlock_lock *lock = take(m, "door"), *same = lock;

    ok(sqlock_break(other, "door", sqlock_lock_token(lock), &said));
    says(SQLOCK_ELOST, downgrade(&same));
    assert_ptr_equal(same, lock);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_LOST);
    assert_int_equal(sqlock_lock_why(lock), SQLOCK_WHY_BROKEN);
    says(SQLOCK_ELOST, downgrade(&same)); /* known by now */
    assert_true(is_free(other, "door"));
    lock = same = sit(m, "port", SQLOCK_SHARED);
    ok(sqlock_break(other, "port", sqlock_lock_token(lock), &said));
    says(SQLOCK_ELOST, upgrade(&same, 0));
    assert_ptr_equal(same, lock);
    assert_false(sqlock_is_held(lock));
    assert_soon(is_free(other, "port"), patience_ms(5000));
}

TEST(test_what_cannot_change_is_refused_before_any_request, m, other)
{
    sqlock_lock *alone = take(m, "door"), *shared = sit(m, "gate", SQLOCK_SHARED),
                *gone = take(m, "room"), *slot = sit(m, "port", SQLOCK_SLOTS(2)), *none = NULL;
    long runs = spy_requests(-1);

    (void)other;
    says(SQLOCK_ESTATE, sqlock_downgrade(&shared, &said));
    says(SQLOCK_ESTATE, sqlock_downgrade(&slot, &said));
    says(SQLOCK_ESTATE, sqlock_upgrade(&alone, 0, NULL, &said));
    says(SQLOCK_ESTATE, sqlock_upgrade(&slot, 0, NULL, &said));
    says(SQLOCK_EINVAL, sqlock_upgrade(&shared, -2, NULL, &said));
    says(SQLOCK_EINVAL, sqlock_upgrade(&none, 0, NULL, &said));
    says(SQLOCK_EINVAL, sqlock_upgrade(NULL, 0, NULL, &said));
    says(SQLOCK_EINVAL, sqlock_downgrade(&none, &said));
    says(SQLOCK_EINVAL, sqlock_downgrade(NULL, &said));
    assert_int_equal(spy_requests(-1), runs);
    ok(sqlock_release(gone, &said));
    says(SQLOCK_ESTATE, sqlock_downgrade(&gone, &said));
    assert_true(sqlock_is_held(alone) && sqlock_is_held(shared) && sqlock_is_held(slot));
    drop(gone);
    give(alone);
    give(shared);
    give(slot);
}

/* The time that an upgrade waits is a part of it. */
TEST(test_longest_hold_goes_on_over_an_upgrade, m, other)
{
    sqlock_acquire_opts opts = mode_opts(SQLOCK_SHARED, 0);
    sqlock_lock *reader = sit(other, "door", SQLOCK_SHARED), *lock;
    int64_t begun = now_us();

    opts.max_hold_ms = patience_ms(1600);
    opts.lease_ms = patience_ms(800);
    upgrader_start(take_with(m, "door", &opts));
    sleep_ms(patience_ms(1400));
    give(reader);
    lock = upgrader_join();
    await_lost(lock, SQLOCK_WHY_MAX_HOLD);
    assert_true(now_us() - begun < patience_ms(2700) * INT64_C(1000));
}

/* P7: a change is a new lease too. */
TEST(test_P7_lock_that_is_past_its_longest_hold_is_not_changed, m)
{
    sqlock_acquire_opts opts = mode_opts(SQLOCK_EXCLUSIVE, 0);
    sqlock_lock *lock;

    opts.lease_ms = 20000;
    opts.max_hold_ms = patience_ms(1000);
    lock = take_with(m, "door", &opts);
    ok(downgrade(&lock));
    sleep_ms(opts.max_hold_ms + 100);
    says(SQLOCK_ESTATE, upgrade(&lock, 1000));
    assert_true(sqlock_is_held(lock));
    give(lock);
    opts.mode = SQLOCK_EXCLUSIVE;
    lock = take_with(m, "door", &opts);
    sleep_ms(opts.max_hold_ms + 100);
    says(SQLOCK_ESTATE, downgrade(&lock));
    give(lock);
}

TEST(test_event_loops_change_modes_too, m, other)
{
    sqlock_lock *lock = take(m, "door"), *next;
    sqlock_op *op = NULL;
    int code;

    ok(sqlock_downgrade_start(lock, &op, &said));
    next = change_result(op, &code);
    ok(code);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_RELEASED);
    drop(lock);
    assert_int_equal(try_mode(other, "door", SQLOCK_SHARED), SQLOCK_OK);
    ok(sqlock_upgrade_start(next, 0, NULL, &op, &said));
    lock = change_result(op, &code);
    ok(code);
    assert_int_equal(sqlock_lock_state(next), SQLOCK_RELEASED);
    drop(next);
    assert_int_equal(try_mode(other, "door", SQLOCK_SHARED), SQLOCK_EBUSY);
    give(lock);
}

/* The callback is the new grant's, and hears of its loss once. */
TEST(test_callback_and_label_go_on, m, other)
{
    static struct told told;
    sqlock_acquire_opts opts = reported_opts(&told, 0, 0);
    sqlock_info info = {.size = sizeof info};
    sqlock_lock *lock;

    opts.label = "writer";
    lock = take_with(m, "door", &opts);
    lock = downgraded(lock);
    assert_int_equal(atomic_load(&told.lost), 0);
    lock = upgraded(lock, 0);
    ok(sqlock_find(other, "door", &info, &said));
    assert_non_null(strstr(info.holder.label, "writer"));
    ok(sqlock_break(other, "door", sqlock_lock_token(lock), &said));
    says(SQLOCK_ELOST, sqlock_renew(lock, &said));
    assert_soon(atomic_load(&told.lost) == 1, patience_ms(5000));
}

/* With an actor the owner of an upgrade says whose place it takes. It is another one for each try:
 * the first one's request to leave comes when the second one has the lock. */
TEST(test_P1_leave_of_a_refused_upgrade_does_not_end_the_grant_of_the_next_one, m, other)
{
    sqlock_acquire_opts o = wait_opts(0, 0, 0);
    sqlock_lock *lock = NULL, *reader;
    long left;

    o.mode = SQLOCK_SHARED;
    o.actor = "job";
    ok(sqlock_acquire(m, "door", &o, &lock, &said));
    keep(lock);
    reader = sit(other, "door", SQLOCK_SHARED);
    spy_hold_back(SQLOCK_STMT_LEAVE, INT32_MAX);
    assert_int_equal(try_upgrade(lock, 200), SQLOCK_EBUSY);
    give(reader);
    lock = upgraded(lock, patience_ms(5000));
    left = spy_runs(SQLOCK_STMT_LEAVE);
    spy_arrive(0);
    assert_soon(spy_runs(SQLOCK_STMT_LEAVE) > left, patience_ms(5000));
    sleep_ms(100);
    says(SQLOCK_EBUSY, try_once(other, "door"));
    assert_true(sqlock_is_held(lock));
    give(lock);
}
