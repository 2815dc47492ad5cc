/* P8, P9: tries, waits and cancels end when they must; who was refused is told by whom. */
#include "tests/drivers/suite.h"

#include <inttypes.h>
#include <signal.h>
#include <unistd.h>

static void wait_for(struct waiter *t, sqlock *m, int32_t wait_ms, sqlock_cancel *cancel)
{
    *t = (struct waiter){
        .m = m, .name = "nightly", .opts = wait_opts(wait_ms, 0, 0), .gives_back = true};
    t->opts.cancel = cancel;
    wait_start(t);
}

/* Until it has been refused once and so is waiting; requests: of acquires before it began. */
static void wait_refused(long requests)
{
    assert_soon(spy_runs(SQLOCK_STMT_ACQUIRE) > requests, patience_ms(5000));
    sleep_ms(30);
}

static sqlock_cancel *new_cancel(void)
{
    sqlock_cancel *cancel = NULL;

    ok(sqlock_cancel_new(&cancel, &said));
    return cancel;
}

/* A wait whose last answer did not come in time cannot say more than that: settling does. */
static int wait_once(sqlock *m, int32_t wait_ms, sqlock_holder *holder)
{
    sqlock_acquire_opts o = wait_opts(wait_ms, 0, 0);
    sqlock_lock *lock = NULL;
    int64_t begun = now_us();
    int rc;

    o.holder = holder;
    rc = sqlock_acquire(m, "nightly", &o, &lock, &said);
    assert_between((wait_ms - 10) * INT64_C(1000), now_us() - begun,
                   (wait_ms + late_ms(100)) * INT64_C(1000));
    assert_true((lock != NULL) == (rc == SQLOCK_EUNSURE));
    if (rc == SQLOCK_EUNSURE)
        says(SQLOCK_EBUSY, sqlock_settle(lock, patience_ms(5000), &said));
    drop(lock);
    return rc;
}

/* Not early but for the last round trip, and not late. */
CORE_TEST(test_timed_wait_ends_on_time, a, b)
{
    const int32_t waits[] = {40, 400};
    sqlock_lock *lock = take(a, "nightly");

    assert_int_equal(try_once(b, "nightly"), SQLOCK_EBUSY); /* it is connected */
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        sqlock_holder h = {.size = sizeof h};
        int rc = wait_once(b, waits[i], &h);

        if (rc == SQLOCK_EUNSURE)
            rc = wait_once(b, waits[i], &h);
        says(SQLOCK_EBUSY, rc);
        assert_int_equal(said.code, SQLOCK_EBUSY);
        assert_int_equal(h.token, sqlock_lock_token(lock));
        assert_non_null(strstr(said.text, h.label));
    }
    give(lock);
}

/* A millisecond may be too short for any answer; it is kept all the same. */
CORE_TEST(test_shortest_wait_ends_on_time, a, b)
{
    sqlock_acquire_opts o = wait_opts(1, 0, 0);
    sqlock_lock *lock = take(a, "nightly"), *unsure = NULL;
    int64_t begun = now_us();
    int rc = sqlock_acquire(b, "nightly", &o, &unsure, &said);

    assert_between(0, now_us() - begun, (1 + late_ms(100)) * INT64_C(1000));
    if (rc != SQLOCK_ETIMEOUT && rc != SQLOCK_EUNSURE && rc != SQLOCK_EUNREACH)
        says(SQLOCK_EBUSY, rc);
    assert_int_equal(rc == SQLOCK_EUNSURE, unsure != NULL);
    drop(unsure);
    give(lock);
}

CORE_TEST(test_endless_wait_is_granted_after_release, a, b)
{
    sqlock_lock *lock = take(a, "nightly");
    long seen = spy_runs(SQLOCK_STMT_ACQUIRE);
    struct waiter t;
    int64_t released;

    wait_for(&t, b, SQLOCK_WAIT_FOREVER, NULL);
    wait_refused(seen);
    sleep_ms(150);
    assert_int_equal(atomic_load(&t.ended), 0);
    released = now_us(); /* it may have the lock before the release has its answer */
    give(lock);
    pthread_join(t.thread, NULL);
    assert_ok(t.code, &t.err);
    assert_between(0, t.ended_us - released, patience_ms(1500) * INT64_C(1000));
}

CORE_TEST(test_timed_wait_is_granted_when_the_lease_ends, a, b)
{
    sqlock_lock *lock = take_for(a, "nightly", 400, SQLOCK_NO_RENEW);
    int64_t end_us = sqlock_lock_deadline_us(lock) + margin_us(400);
    sqlock_lock *next = take(b, "nightly");

    /* The wait is not longer than the lease, whatever the sleep between two tries would be. */
    assert_between(sqlock_lock_deadline_us(lock), sqlock_now_us(),
                   end_us + late_ms(150) * INT64_C(1000));
    give(next);
}

/* Between two tries nothing is under way. One that was cut in the middle may have been applied
 * (P5); settling tells that it was not, for somebody else has the lock. */
static void assert_cut(const struct waiter *t)
{
    if (t->code == SQLOCK_EUNSURE)
        says(SQLOCK_EBUSY,
             sqlock_settle(t->lock, patience_ms(10000), &said)); /* after request_ms */
    else
        assert_code(SQLOCK_ECANCELLED, t->code, &t->err);
    drop(t->lock);
}

CORE_TEST(test_cancel_cuts_every_wait_that_uses_it)
{
    sqlock_cancel *cancel = new_cancel();
    struct waiter t[3];
    int64_t fired;
    sqlock *m = open_with(w, with.connections = 4);

    sqlock_lock *lock = take(m, "nightly");
    for (int i = 0; i < 3; i++)
        wait_for(&t[i], m, SQLOCK_WAIT_FOREVER, cancel);
    sleep_ms(300); /* deep in a long sleep */
    fired = now_us();
    sqlock_cancel_fire(cancel);
    for (int i = 0; i < 3; i++) {
        pthread_join(t[i].thread, NULL);
        assert_cut(&t[i]);
        assert_between(0, t[i].ended_us - fired, late_ms(200) * INT64_C(1000));
    }
    sqlock_cancel_free(cancel);
    give(lock);
    assert_soon(is_free(m, "nightly"), patience_ms(1000)); /* they leave nothing behind */
}

CORE_TEST(test_cancel_cuts_what_begins_later_and_nothing_that_has_ended, m)
{
    sqlock_cancel *cancel = new_cancel();
    sqlock_acquire_opts o = wait_opts(SQLOCK_WAIT_FOREVER, 0, 0);
    sqlock_lock *lock, *none = NULL;

    o.cancel = cancel;
    lock = take_with(m, "nightly", &o);
    sqlock_cancel_fire(cancel); /* the call has ended: the lock stays */
    for (int i = 0; i < 2; i++) {
        says(SQLOCK_ECANCELLED, sqlock_acquire(m, "other", &o, &none, &said));
        assert_null(none);
    }
    assert_true(sqlock_is_held(lock));
    assert_true(is_free(m, "other"));
    sqlock_cancel_free(cancel);
    sqlock_cancel_free(NULL);
    give(lock);
}

/* P8: everybody's turn comes. */
CORE_TEST(test_all_of_a_crowd_get_their_turn)
{
    struct waiter t[6];
    sqlock *m = open_with(w, with.connections = 4);

    sqlock_lock *lock = take(m, "nightly");
    for (int i = 0; i < 6; i++)
        wait_for(&t[i], m, patience_ms(15000), NULL);
    sleep_ms(50);
    give(lock);
    for (int i = 0; i < 6; i++)
        pthread_join(t[i].thread, NULL);
    for (int i = 0; i < 6; i++)
        assert_ok(t[i].code, &t[i].err);
}

/* They all have their last try at the same time, and one connection for it. */
CORE_TEST(test_many_who_wait_together_end_as_busy, a, b)
{
    sqlock_lock *lock = take(a, "nightly");
    struct waiter t[16];

    assert_int_equal(try_once(b, "nightly"), SQLOCK_EBUSY); /* it is connected */
    for (int i = 0; i < 16; i++)
        wait_for(&t[i], b, 600, NULL);
    for (int i = 0; i < 16; i++)
        pthread_join(t[i].thread, NULL);
    for (int i = 0; i < 16; i++)
        assert_code(SQLOCK_EBUSY, t[i].code, &t[i].err);
    give(lock);
}

/* ---- P9 -------------------------------------------------------------------------------------- */

TEST(test_refusal_says_who_holds_the_lock)
{
    sqlock_holder h = {.size = sizeof h};
    sqlock_acquire_opts o = wait_opts(0, 0, 0);
    sqlock_lock *none = NULL;
    char who[64], token[32];
    sqlock *a, *b = open_manager(w, NULL);

    a = open_with(w, with.label = "billing run 7");
    sqlock_lock *lock = take_for(a, "nightly", 20000, SQLOCK_NO_RENEW);
    sleep_ms(120);
    o.holder = &h;
    says(SQLOCK_EBUSY, sqlock_acquire(b, "nightly", &o, &none, &said));
    snprintf(who, sizeof who, "%ld@", (long)getpid());
    snprintf(token, sizeof token, "%" PRId64, sqlock_lock_token(lock));
    assert_int_equal(strncmp(h.label, who, strlen(who)), 0);
    assert_string_equal(h.label + strlen(h.label) - strlen(" billing run 7"), " billing run 7");
    assert_int_equal(h.token, sqlock_lock_token(lock));
    assert_between(120 - GRAIN_MS, h.held_ms, 120 + patience_ms(3000));
    assert_between(20000 - 120 - patience_ms(3000), h.left_ms, 20000 - 120 + GRAIN_MS);
    assert_between(19000, h.left_ms + h.held_ms, 20000 + GRAIN_MS);
    assert_non_null(strstr(said.text, "acquire \"nightly\""));
    assert_non_null(strstr(said.text, h.label));
    assert_non_null(strstr(said.text, token));
    give(lock);
}

static void label_is(sqlock *m, const char *label, const char *end)
{
    sqlock_acquire_opts o = wait_opts(0, 20000, SQLOCK_NO_RENEW);
    sqlock_info info = {.size = sizeof info};
    sqlock_lock *lock = NULL;

    o.label = label;
    ok(sqlock_acquire(m, "nightly", &o, &lock, &said));
    ok(sqlock_find(m, "nightly", &info, &said));
    assert_non_null(strchr(info.holder.label, '@'));
    assert_string_equal(info.holder.label + strlen(info.holder.label) - strlen(end), end);
    give(lock);
}

TEST(test_each_grant_may_have_a_label_of_its_own)
{
    sqlock_acquire_opts o = wait_opts(0, 20000, SQLOCK_NO_RENEW);
    sqlock_lock *none = NULL;
    char longest[SQLOCK_LABEL_MAX + 1] = "";
    sqlock *m = open_with(w, with.label = "billing");

    label_is(m, NULL, " billing");
    label_is(m, "run 7", " run 7");
    label_is(m, NULL, " billing");
    memset(longest, 'x', 128);
    label_is(m, longest, longest);
    longest[128] = 'x';
    o.label = longest;
    says(SQLOCK_EINVAL, sqlock_acquire(m, "nightly", &o, &none, &said));
    o.label = "\xFF";
    says(SQLOCK_EINVAL, sqlock_acquire(m, "nightly", &o, &none, &said));
    assert_true(is_free(m, "nightly"));
}

/* An older program's struct ends earlier: what lies behind it is not the library's. */
CORE_TEST(test_holder_is_reported_in_as_much_room_as_its_size_says, m)
{
    sqlock_lock *lock = take_for(m, "nightly", 20000, SQLOCK_NO_RENEW), *none = NULL;
    sqlock_acquire_opts o = wait_opts(0, 0, 0);
    sqlock_holder h;
    const unsigned char *bytes = (const unsigned char *)&h;

    o.holder = &h;
    for (uint32_t size = sizeof h.size; size <= sizeof h; size++) {
        memset(&h, 0xAA, sizeof h);
        h.size = size;
        says(SQLOCK_EBUSY, sqlock_acquire(m, "nightly", &o, &none, &said));
        assert_int_equal(h.size, size);
        for (size_t i = size; i < sizeof h; i++)
            assert_int_equal(bytes[i], 0xAA);
        if (size >= offsetof(sqlock_holder, left_ms))
            assert_int_equal(h.token, sqlock_lock_token(lock));
    }
    h.size = 0;
    says(SQLOCK_EINVAL, sqlock_acquire(m, "nightly", &o, &none, &said));
    assert_non_null(strstr(said.text, "holder"));
    give(lock);
}
