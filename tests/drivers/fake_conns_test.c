/* P7, P8, P16, P18, P19 on the fake driver: which connection a request takes, what becomes of it
 * when none can be made, and who is cut for whom. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "tests/drivers/fake_quirks.h"

enum { ALWAYS = 1000000 };

/* ---- a factory that fails -------------------------------------------------------------------- */

static struct {
    sqlock_fake *db;
    atomic_int allowed; /* so many connections more */
    atomic_int code;    /* what the factory answers then, without a word; 0: a whole error */
} factory;

static int make_connection(void *user, void **out_native, sqlock_error *err)
{
    (void)user;
    if (atomic_fetch_sub(&factory.allowed, 1) > 0)
        return sqlock_fake_connect(factory.db, out_native, err);
    if (atomic_load(&factory.code) != 0)
        return atomic_load(&factory.code);
    return sqlock_error_db(err, "53300", 0, 0, "too many connections");
}

/* A manager that gets so many connections. */
static sqlock *open_with(struct world *w, int allowed, const sqlock_open_opts *opts)
{
    const struct place before = w->place;
    sqlock *m;

    factory.db = fake_of(w);
    atomic_store(&factory.allowed, allowed);
    atomic_store(&factory.code, 0);
    w->place.connect = make_connection;
    w->place.connect_user = NULL;
    m = open_manager(w, opts);
    w->place = before;
    return m;
}

static int never_called(sqlock_lock *lock, void *user)
{
    (void)lock;
    *(int *)user += 1;
    return 0;
}

/* P18: neither a success nor somebody who holds the lock. */
static void test_factory_that_fails_without_a_word_grants_nothing(void **state)
{
    const int codes[] = {SQLOCK_EUNREACH, SQLOCK_EDENIED, -1, 1};
    const int told[] = {SQLOCK_EUNREACH, SQLOCK_EDENIED, SQLOCK_EUNREACH, SQLOCK_EUNREACH};
    struct world *w = world(state);
    sqlock_open_opts oo = SQLOCK_OPEN_OPTS_INIT;

    oo.request_ms = 200;
    for (int i = 0; i < 4; i++) {
        sqlock *m = open_with(w, 1, &oo);
        sqlock_acquire_opts o = wait_opts(0, 0, SQLOCK_NO_RENEW);
        sqlock_error err = {0};
        sqlock_lock *lock = NULL;
        int called = 0;

        sqlock_fake_down(fake_of(w), 1);
        sqlock_fake_down(fake_of(w), 0);
        atomic_store(&factory.code, codes[i]);
        sqlock_acquire(m, "nightly", &o, &lock, NULL); /* finds that its link was cut */
        sqlock_lock_free(lock);
        lock = NULL;
        assert_code(told[i], sqlock_acquire(m, "nightly", &o, &lock, &err), &err);
        assert_int_equal(err.code, told[i]);
        assert_null(lock);
        assert_code(told[i], sqlock_with(m, "nightly", &o, never_called, &called, NULL, &err),
                    &err);
        assert_int_equal(called, 0);
        close_manager(w, m);
    }
}

/* ---- the end of a wait ----------------------------------------------------------------------- */

/* P8: the room that is left for the last try is that of the answers as they are now. */
static void test_one_slow_answer_does_not_end_a_wait_early(void **state)
{
    struct world *w = world(state);
    sqlock *a = open_manager(w, NULL), *b = open_manager(w, NULL);
    sqlock_lock *lock = take(a, "nightly"), *none = NULL;
    sqlock_acquire_opts o = wait_opts(2000, 0, SQLOCK_NO_RENEW);
    sqlock_error err = {0};
    int64_t begun = now_us();

    sqlock_fake_fault(fake_of(w), SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_SLOW, 0, 1, 700);
    assert_code(SQLOCK_EBUSY, sqlock_acquire(b, "nightly", &o, &none, &err), &err);
    assert_between(1950000, now_us() - begun, INT64_MAX);
    give(lock);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_factory_that_fails_without_a_word_grants_nothing),
    cmocka_unit_test(test_one_slow_answer_does_not_end_a_wait_early),
};

int main(void)
{
    return suite_run_tests(&fake_quirks, "fake: connections", tests, sizeof tests / sizeof *tests);
}
