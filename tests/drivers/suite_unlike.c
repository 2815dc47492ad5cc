/* P24, P8: who wants a name in another way than those who wait for it. */
#define SUITE_NEEDS QUEUES
#include "tests/drivers/suite_seats.h"

enum { DEAD_MS = 3000 }; /* so long a dead waiter may count as one that lives */

/* Or, in so short a time, not answered: then there may be a handle, which withdraws the request. */
static bool is_busy(sqlock *m, const char *name, const sqlock_acquire_opts *opts)
{
    sqlock_lock *unsure = NULL;
    int code = sqlock_acquire(m, name, opts, &unsure, &said);
    sqlock_error ignored;

    if (code == SQLOCK_EUNSURE)
        return sqlock_lock_end(&unsure, &ignored) != SQLOCK_EINVAL;
    return code == SQLOCK_EBUSY || code == SQLOCK_ETIMEOUT || code == SQLOCK_EUNREACH;
}

/* It would wait, too, if the one that waits did not. least_ms: so long it may be one that is dead.
 * Returns false if that is not so; while a thread waits, no assertion may fail. */
static bool refused_beside(sqlock *m, int64_t mode, int least_ms, const char *waits_for,
                           const char *wants)
{
    sqlock_acquire_opts opts = mode_opts(mode, patience_ms(10000));
    sqlock_lock *none = NULL;
    int64_t begun = sqlock_now_us(), took;
    int code = sqlock_acquire(m, "port", &opts, &none, &said);

    took = (sqlock_now_us() - begun) / 1000;
    print_message("%d after %lld ms: %s\n", code, (long long)took, said.text);
    return code == SQLOCK_EREFUSED && none == NULL && took >= least_ms &&
           took < patience_ms(least_ms + 3000) && strstr(said.text, waits_for) != NULL &&
           strstr(said.text, wants) != NULL;
}

/* Behind an exclusive holder, who goes with neither. */
TEST_IF(QUEUES, test_P24_what_does_not_go_with_a_waiter_is_refused, m, other)
{
    sqlock_acquire_opts same = mode_opts(SQLOCK_SLOTS(2), 200);
    bool refused, busy = true;
    sqlock_lock *alone = take(m, "port");
    struct waiter slot = {.m = other, .name = "port", .opts = mode_opts(SQLOCK_SLOTS(2), 10000)};

    wait_start(&slot);
    assert_soon(waiters_of(m, "port") == 1, patience_ms(5000));
    refused = refused_beside(other, SQLOCK_SLOTS(3), DEAD_MS, "2 slots", "3 slots") &&
              refused_beside(m, SQLOCK_EXCLUSIVE, DEAD_MS, "2 slots", "exclusive");
    for (int i = 0; i < 2; i++)
        busy = busy && is_busy(i ? m : other, "port", &same);
    give(alone);
    pthread_join(slot.thread, NULL);
    assert_ok(slot.code, &slot.err);
    assert_true(refused);
    assert_true(busy);
    assert_int_equal(sqlock_lock_slot(slot.lock), 0);
    give(keep(slot.lock));
    assert_true(is_free(m, "port"));
}

/* P8: it may not have left yet, when the next one comes. */
TEST_IF(QUEUES, test_P24_who_has_given_up_refuses_no_one, m, other)
{
    static const int64_t modes[] = {SQLOCK_SLOTS(3), SQLOCK_EXCLUSIVE, SQLOCK_SHARED,
                                    SQLOCK_SLOTS(5)};
    sqlock_lock *alone = take(m, "port");

    for (int i = 0; i < 24; i++) {
        sqlock_acquire_opts opts = mode_opts(modes[i % 4], 60);

        assert_true(is_busy(i % 3 ? other : m, "port", &opts));
    }
    give(alone);
    assert_soon(is_free(m, "port"), patience_ms(3000));
}

/* It waited with the turn for the shared holder to go, and gives that back. Its own next call came
 * too early. */
TEST_IF(QUEUES, test_P8_try_is_not_refused_by_a_call_that_has_ended, m, other)
{
    sqlock_lock *shared = sit(other, "door", SQLOCK_SHARED);
    sqlock_acquire_opts alone = mode_opts(SQLOCK_EXCLUSIVE, 60);

    for (int i = 0; i < 10; i++) {
        assert_true(is_busy(m, "door", &alone));
        if (try_mode(m, "door", SQLOCK_SHARED) != SQLOCK_OK)
            fail_msg("%s", said.text);
    }
    give(shared);
}

/* Its row has the kind of those who were here before. They come all at once. */
TEST(test_P24_those_who_go_together_do_not_refuse_each_other)
{
    enum { AT_ONCE = 6, ROUNDS = 16 };
    struct waiter all[AT_ONCE];
    int refused = 0;

    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < AT_ONCE; i++) {
            all[i] = (struct waiter){.m = round == 0 ? open_manager(w, NULL) : all[i].m,
                                     .name = "port",
                                     .opts = mode_opts(SQLOCK_SLOTS(AT_ONCE + round), 10000)};
            wait_start(&all[i]);
        }
        for (int i = 0; i < AT_ONCE; i++) {
            pthread_join(all[i].thread, NULL);
            refused += all[i].code != 0;
        }
        for (int i = 0; i < AT_ONCE; i++)
            if (all[i].code == 0)
                give(keep(all[i].lock));
    }
    assert_int_equal(refused, 0);
}

/* The one that waits has left the queue. It has the turn, and all slots are taken. */
TEST_IF(QUEUES, test_P24_what_does_not_go_with_who_is_next_is_refused, m, other)
{
    sqlock_lock *holder = sit(m, "port", SQLOCK_SLOTS(1));
    struct waiter slot = {.m = other, .name = "port", .opts = mode_opts(SQLOCK_SLOTS(1), 10000)};
    sqlock_info info;
    bool refused = true;
    int tried;

    wait_start(&slot);
    await_next(m, "port", SQLOCK_SLOTS(1), &info);
    for (int i = 0; i < 2; i++) {
        sqlock *of = i ? m : other;

        refused = refused && refused_beside(of, SQLOCK_SLOTS(2), 0, "1 slot", "2 slots") &&
                  refused_beside(of, SQLOCK_SHARED, 0, "1 slot", "shared") &&
                  refused_beside(of, SQLOCK_EXCLUSIVE, 0, "1 slot", "exclusive");
    }
    tried = try_mode(other, "port", SQLOCK_SLOTS(2));
    give(holder);
    pthread_join(slot.thread, NULL);
    assert_ok(slot.code, &slot.err);
    give(keep(slot.lock));
    assert_true(refused);
    assert_int_equal(tried, SQLOCK_EREFUSED);
}
