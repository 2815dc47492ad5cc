/* P8, P9, P21, P23: who is next in line where a lock has several holders. */
#define SUITE_NEEDS QUEUES
#include "tests/drivers/suite_seats.h"
#include "tests/drivers/suite_stepped.h"

static int count_waiter(const sqlock_waiter *waiter, void *user)
{
    (void)waiter;
    ++*(int *)user;
    return 0;
}

int waiters_of(sqlock *m, const char *name)
{
    int n = 0;

    ok(sqlock_list_waiters(m, name, count_waiter, &n, &said));
    return n;
}

/* A try is refused by who is next. */
static bool sees_turn(sqlock *m, const char *name, int64_t mode, sqlock_holder *out)
{
    sqlock_acquire_opts opts = mode_opts(mode, 0);
    sqlock_lock *lock = NULL;
    int code;

    opts.holder = out;
    code = sqlock_acquire(m, name, &opts, &lock, &said);
    if (code == SQLOCK_OK)
        give(keep(lock));
    return code == SQLOCK_EBUSY && out->token == 0 && out->left_ms > 0 && out->left_ms <= 1000;
}

/* Who is next waits until the others have gone. It has no token yet, and is listed as no holder.
 * What it has is soon as short as an offer. */
void await_next(sqlock *m, const char *name, int64_t mode, sqlock_info *out)
{
    sqlock_holder holder = {.size = sizeof holder};

    *out = (sqlock_info){.size = sizeof *out};
    assert_soon(sees_turn(m, name, mode, &holder), patience_ms(3000));
    assert_non_null(strstr(said.text, "next is "));
    ok(sqlock_find(m, name, out, &said));
    assert_false(out->held);
    assert_string_equal(out->holder.label, "");
}

/* P9: and not the one that waits for it, and comes next. */
TEST_IF(QUEUES, test_P9_refusal_names_a_shared_holder_and_not_who_is_next, m, other)
{
    sqlock_holder holder = {.size = sizeof holder};
    sqlock_acquire_opts opts = mode_opts(SQLOCK_EXCLUSIVE, 0);
    sqlock_lock *shared = sit(m, "door", SQLOCK_SHARED), *none = NULL;
    struct waiter writer = {.m = other, .name = "door", .opts = wait_opts(10000, 0, 0)};
    sqlock_info info;

    wait_start(&writer);
    await_next(m, "door", SQLOCK_SHARED, &info);
    opts.holder = &holder;
    says(SQLOCK_EBUSY, sqlock_acquire(m, "door", &opts, &none, &said));
    assert_int_equal(holder.token, sqlock_lock_token(shared));
    give(shared);
    pthread_join(writer.thread, NULL);
    assert_ok(writer.code, &writer.err);
    give(keep(writer.lock));
}

/* Who breaks locks by their age must not break one that was just granted. */
TEST_IF(QUEUES, test_lock_is_held_since_its_grant_and_not_since_the_turn, m, other)
{
    sqlock_lock *shared = sit(m, "door", SQLOCK_SHARED);
    struct waiter writer = {.m = other, .name = "door", .opts = wait_opts(10000, 0, 0)};
    sqlock_info info;
    int64_t given;

    wait_start(&writer);
    await_next(m, "door", SQLOCK_SHARED, &info);
    sleep_ms(patience_ms(300));
    given = now_us();
    give(shared);
    pthread_join(writer.thread, NULL);
    assert_ok(writer.code, &writer.err);
    ok(sqlock_find(m, "door", &info, &said));
    assert_true(info.held);
    assert_true(info.holder.held_ms <= (now_us() - given) / 1000 + 2);
    give(keep(writer.lock));
}

/* P8, P23: whoever is next may lose its turn, by a break here. Then it queues again. */
TEST_IF(QUEUES, test_waiter_that_loses_its_turn_waits_on, m, other)
{
    static const int64_t held[] = {SQLOCK_SHARED, SQLOCK_SLOTS(1)},
                         wanted[] = {SQLOCK_EXCLUSIVE, SQLOCK_SLOTS(1)};

    for (size_t i = 0; i < sizeof held / sizeof *held; i++) {
        sqlock_lock *first = sit(m, "door", held[i]);
        struct waiter next = {.m = other, .name = "door", .opts = mode_opts(wanted[i], 10000)};
        sqlock_info info;

        wait_start(&next);
        for (int n = 0; n < 3; n++) {
            await_next(m, "door", held[i], &info);
            ok(sqlock_break(m, "door", info.holder.token, &said));
        }
        sleep_ms(patience_ms(200));
        assert_false(atomic_load(&next.ended));
        give(first);
        pthread_join(next.thread, NULL);
        assert_ok(next.code, &next.err);
        give(keep(next.lock));
        assert_true(is_free(m, "door"));
    }
}

/* P21: or a lock that is read all the time is never written. */
TEST_IF(QUEUES, test_P21_shared_ones_come_after_an_exclusive_waiter, m, other)
{
    sqlock_lock *shared = sit(m, "door", SQLOCK_SHARED);
    struct waiter writer = {.m = other, .name = "door", .opts = wait_opts(10000, 0, 0)};
    struct waiter reader = {.m = m, .name = "door", .opts = mode_opts(SQLOCK_SHARED, 10000)};
    long queued = spy_runs(SQLOCK_STMT_QUEUE);

    wait_start(&writer);
    assert_soon(spy_runs(SQLOCK_STMT_QUEUE) > queued, patience_ms(3000));
    sleep_ms(patience_ms(200));
    assert_int_equal(try_mode(m, "door", SQLOCK_SHARED), SQLOCK_EBUSY);
    wait_start(&reader);
    sleep_ms(patience_ms(200));
    assert_false(atomic_load(&writer.ended));
    assert_false(atomic_load(&reader.ended));
    give(shared);
    pthread_join(writer.thread, NULL);
    assert_ok(writer.code, &writer.err);
    assert_false(atomic_load(&reader.ended));
    give(keep(writer.lock));
    pthread_join(reader.thread, NULL);
    assert_ok(reader.code, &reader.err);
    assert_true(sqlock_lock_slot(reader.lock) >= 0);
    give(keep(reader.lock));
}

/* P8, P23: what it has of the lock meanwhile it gives back. */
TEST(test_exclusive_waiter_that_gives_up_keeps_no_one_out, m, other)
{
    sqlock_acquire_opts opts = mode_opts(SQLOCK_EXCLUSIVE, 400);
    sqlock_lock *shared = sit(m, "door", SQLOCK_SHARED), *none = NULL, *second;

    assert_takes(390, patience_ms(1500),
                 says(SQLOCK_EBUSY, sqlock_acquire(other, "door", &opts, &none, &said)));
    assert_takes(0, patience_ms(1500), second = sit(other, "door", SQLOCK_SHARED));
    give(shared);
    give(second);
}

static int run_with_late_queue(void *conn, const sqlock_call *call, sqlock_stmt stmt,
                               const sqlock_value *values, size_t n, int64_t deadline,
                               sqlock_rows *rows, sqlock_error *err)
{
    int rc = spied_driver()->run(conn, call, stmt, values, n, deadline, rows, err);

    if (stmt == SQLOCK_STMT_QUEUE)
        sleep_ms(2500);
    return rc;
}

/* Who is granted the turn learns of it late, or never. Its lease has 30 s. */
TEST_IF(QUEUES, test_P23_turn_is_as_short_as_an_offer_from_its_grant_on, m)
{
    sqlock_holder holder = {.size = sizeof holder};
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock_lock *shared = sit(m, "door", SQLOCK_SHARED);
    static struct waiter writer; /* it may outlive a test that fails */

    writer = (struct waiter){.name = "door", .opts = wait_opts(6000, 30000, 0)};
    w->driver.run = run_with_late_queue;
    place_opts(w, &o);
    ok(open_by(&w->driver, w->place.url, &o, &writer.m, &said));
    w->managers[w->n_managers++] = writer.m;
    wait_start(&writer);
    assert_soon(sees_turn(m, "door", SQLOCK_SHARED, &holder), 2000);
    assert_soon(try_mode(m, "door", SQLOCK_SHARED) == SQLOCK_OK, patience_ms(1500));
    give(shared);
    pthread_join(writer.thread, NULL);
    sqlock_scope_end(&writer.lock);
}

/* One whose extensions are late would be overtaken. */
TEST_IF(QUEUES, test_P21_turn_of_a_short_lease_does_not_lapse, m, other)
{
    sqlock_lock *shared = sit(m, "door", SQLOCK_SHARED);
    struct waiter writer = {
        .m = other, .name = "door", .opts = wait_opts(patience_ms(20000), patience_ms(200), 0)};
    sqlock_info info;
    int overtakes = 0;

    wait_start(&writer);
    await_next(m, "door", SQLOCK_SHARED, &info);
    for (int i = 0; i < 350; i++, sleep_ms(10))
        overtakes += try_mode(m, "door", SQLOCK_SHARED) == SQLOCK_OK;
    give(shared);
    pthread_join(writer.thread, NULL);
    assert_ok(writer.code, &writer.err);
    give(keep(writer.lock));
    assert_between(0, overtakes, 5);
}

/* P23: a waiter that dies while it has the turn. Here its manager says nothing any more. */
TEST_IF(QUEUES, test_P23_turn_of_a_dead_waiter_is_as_short_as_an_offer, m, other)
{
    sqlock_acquire_opts opts = mode_opts(SQLOCK_EXCLUSIVE, patience_ms(1500));
    sqlock_lock *shared = sit(m, "door", SQLOCK_SHARED);
    struct waiter writer = {.m = other, .name = "door", .opts = opts};
    sqlock_info info;

    wait_start(&writer);
    await_next(m, "door", SQLOCK_SHARED, &info);
    pthread_join(writer.thread, NULL);
    assert_int_equal(writer.code, SQLOCK_EBUSY);
    give(shared);
}

/* Its holder keeps the turn until it is passed on, and the lock's row has its token until then. */
TEST_IF(QUEUES, test_break_ends_a_grant_that_has_not_passed_on_the_turn, m, other)
{
    sqlock_lock *alone = sit(m, "door", SQLOCK_EXCLUSIVE);
    struct waiter reader = {.m = other, .name = "door", .opts = mode_opts(SQLOCK_SHARED, 10000)};
    struct waiter writer = {.m = m, .name = "door", .opts = wait_opts(10000, 0, 0)};
    int broken, renewed;

    wait_start(&reader);
    assert_soon(waiters_of(m, "door") == 1, patience_ms(3000));
    wait_start(&writer);
    assert_soon(waiters_of(m, "door") == 2, patience_ms(3000));
    spy_hold_back(SQLOCK_STMT_PASS, INT32_MAX);
    ok(sqlock_break(m, "door", sqlock_lock_token(alone), &said));
    pthread_join(reader.thread, NULL);
    assert_ok(reader.code, &reader.err);
    assert_soon(spy_held_back() > 0, patience_ms(3000));
    broken = sqlock_break(m, "door", sqlock_lock_token(reader.lock), &said);
    spy_arrive(0);
    renewed = sqlock_renew(keep(reader.lock), NULL);
    pthread_join(writer.thread, NULL); /* before anything may fail */
    assert_int_equal(broken, SQLOCK_OK);
    assert_int_equal(renewed, SQLOCK_ELOST);
    assert_lost(reader.lock, SQLOCK_WHY_BROKEN);
    assert_ok(writer.code, &writer.err);
    give(keep(writer.lock));
    says(SQLOCK_ELOST, sqlock_release(alone, &said));
}

TEST(test_waiter_gets_the_slot_that_comes_free, m, other)
{
    sqlock_lock *first = sit(m, "port", SQLOCK_SLOTS(2)), *second = sit(other, "port", 2);
    struct waiter waiter = {.m = other, .name = "port", .opts = mode_opts(2, 10000)};

    wait_start(&waiter);
    sleep_ms(patience_ms(300));
    assert_false(atomic_load(&waiter.ended));
    give(second);
    pthread_join(waiter.thread, NULL);
    assert_ok(waiter.code, &waiter.err);
    assert_int_equal(sqlock_lock_slot(waiter.lock), 1);
    give(keep(waiter.lock));
    give(first);
}

enum { AT_ONCE = 3, ROUNDS_MOST = 15, HELD_MS = 1600, QUICK_US = 40000, STEPS_US = 5000 };

/* Without a call it would look up to 200 ms later. */
TEST_IF(CALLS, test_P22_who_leaves_a_seat_calls_the_waiter_of_another_program, m, other)
{
    int quick = 0;

    for (int i = 0; i < ROUNDS_MOST && quick < AT_ONCE; i++) {
        sqlock_lock *shared = sit(m, "door", SQLOCK_SHARED);
        struct waiter writer = {.m = other, .name = "door", .opts = wait_opts(10000, 0, 0)};
        int64_t left;

        wait_start(&writer);
        sleep_ms(HELD_MS);
        left = now_us();
        give(shared);
        pthread_join(writer.thread, NULL);
        assert_ok(writer.code, &writer.err);
        quick = writer.ended_us - left < patience_ms(1) * QUICK_US ? quick + 1 : 0;
        give(keep(writer.lock));
    }
    assert_int_equal(quick, AT_ONCE);
}

/* The request of one who was called goes out in the next step. Without a call it would be up to
 * 50 ms later. */
TEST_IF(QUEUES, test_P22_who_leaves_a_seat_calls_the_waiter_of_its_own_program)
{
    int quick = 0;

    loop_opened(w);
    for (int i = 0; i < ROUNDS_MOST && quick < AT_ONCE; i++) {
        sqlock_lock *shared = sit(loop, "door", SQLOCK_SHARED), *lock = NULL;
        sqlock_op *writes = loop_start("door", 10000, 0, 0), *leaves;
        long looks;
        int64_t left;

        loop_turn_for(HELD_MS / 2);
        looks = spy_runs(SQLOCK_STMT_DRAIN);
        ok(sqlock_release_start(shared, &leaves, &said));
        ok(loop_finish(leaves, NULL));
        left = now_us();
        while (spy_runs(SQLOCK_STMT_DRAIN) == looks && now_us() < left + 1000000)
            loop_turn(1);
        quick = now_us() - left < STEPS_US ? quick + 1 : 0;
        ok(loop_finish(writes, &lock));
        give(keep(lock));
    }
    assert_int_equal(quick, AT_ONCE);
}

/* Each 2 ms it would be 1500 times. */
TEST_IF(CALLS, test_P22_waiter_that_is_called_looks_seldom_by_itself, m, other)
{
    sqlock_lock *shared = sit(m, "door", SQLOCK_SHARED);
    struct waiter writer = {.m = other, .name = "door", .opts = wait_opts(20000, 0, 0)};
    long looks = spy_runs(SQLOCK_STMT_DRAIN);

    wait_start(&writer);
    sleep_ms(3000);
    assert_between(2, spy_runs(SQLOCK_STMT_DRAIN) - looks, 70);
    give(shared);
    pthread_join(writer.thread, NULL);
    give(keep(writer.lock));
}
