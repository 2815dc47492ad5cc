/* Reentrant locks (recipes/reentrant.h): whoever holds a lock may take it again. */
#include "recipes/reentrant.h"
#include "tests/drivers/suite.h"

#define NAME "nightly"

static struct reentrant *locks;

static void end_locks(void)
{
    reentrant_free(locks);
    locks = NULL;
}

static void begin(struct world *w, sqlock *m)
{
    locks = reentrant_new(m);
    assert_non_null(locks);
    at_end(w, end_locks);
}

static int acquire_now(const void *actor, sqlock_lock **out_lock)
{
    sqlock_acquire_opts opts = wait_opts(0, 0, 0);

    return reentrant_acquire(locks, actor, NAME, &opts, out_lock, &said);
}

TEST(test_holder_takes_its_lock_again_and_the_last_release_frees_it, m, other)
{
    sqlock_lock *first, *again;

    begin(w, m);
    ok(acquire_now(NULL, &first));
    for (int i = 0; i < 3; i++) {
        ok(acquire_now(NULL, &again));
        assert_ptr_equal(again, first);
    }
    for (int i = 0; i < 3; i++) {
        ok(reentrant_release(locks, NULL, NAME, &said));
        assert_int_equal(try_once(other, NAME), SQLOCK_EBUSY);
    }
    ok(reentrant_release(locks, NULL, NAME, &said));
    assert_true(is_free(other, NAME));
    says(SQLOCK_ESTATE, reentrant_release(locks, NULL, NAME, &said));
}

TEST(test_other_names_are_other_locks, m, other)
{
    sqlock_lock *one = NULL, *two = NULL;

    begin(w, m);
    ok(acquire_now(NULL, &one));
    ok(reentrant_acquire(locks, NULL, "other", NULL, &two, &said));
    assert_ptr_not_equal(one, two);
    ok(reentrant_release(locks, NULL, "other", &said));
    assert_true(is_free(other, "other"));
    assert_int_equal(try_once(other, NAME), SQLOCK_EBUSY);
    assert_int_equal(sqlock_is_held(one), 1);
}

static void *take_in_another_thread(void *arg)
{
    *(int *)arg = acquire_now(NULL, NULL);
    return NULL;
}

/* A thread is an actor, and so is what the application says is one. */
TEST(test_others_of_the_program_are_refused, m)
{
    int job = 0, another_job = 0, code = 0;
    pthread_t thread;

    begin(w, m);
    ok(acquire_now(&job, NULL));
    ok(acquire_now(&job, NULL));
    says(SQLOCK_EBUSY, acquire_now(&another_job, NULL));
    says(SQLOCK_EBUSY, acquire_now(NULL, NULL));
    ok(reentrant_release(locks, &job, NAME, &said));
    ok(reentrant_release(locks, &job, NAME, &said));
    ok(acquire_now(NULL, NULL));
    assert_int_equal(pthread_create(&thread, NULL, take_in_another_thread, &code), 0);
    pthread_join(thread, NULL);
    assert_int_equal(code, SQLOCK_EBUSY);
}

TEST(test_P6_lock_that_was_lost_is_not_taken_again, m, other)
{
    sqlock_lock *lock = NULL;

    begin(w, m);
    ok(acquire_now(NULL, &lock));
    ok(acquire_now(NULL, NULL));
    ok(sqlock_break(other, NAME, sqlock_lock_token(lock), &said));
    says(SQLOCK_ELOST, sqlock_renew(lock, &said));
    says(SQLOCK_ELOST, acquire_now(NULL, NULL));
    says(SQLOCK_ELOST, reentrant_release(locks, NULL, NAME, &said));
    says(SQLOCK_ELOST, reentrant_release(locks, NULL, NAME, &said));
    ok(acquire_now(NULL, &lock)); /* a new one */
    assert_int_equal(sqlock_is_held(lock), 1);
}

/* One that is refused is not counted. */
TEST(test_refused_acquire_leaves_nothing, m, other)
{
    sqlock_lock *lock = take(other, NAME);

    begin(w, m);
    says(SQLOCK_EBUSY, acquire_now(NULL, NULL));
    says(SQLOCK_EINVAL, reentrant_acquire(locks, NULL, "", NULL, NULL, &said));
    says(SQLOCK_EINVAL, reentrant_acquire(locks, NULL, NULL, NULL, NULL, &said));
    give(lock);
    says(SQLOCK_ESTATE, reentrant_release(locks, NULL, NAME, &said));
    says(SQLOCK_ESTATE, reentrant_release(locks, NULL, NULL, &said));
    ok(acquire_now(NULL, NULL));
}

/* An exclusive lock serves for any mode, a shared one does not. */
TEST_IF(QUEUES, test_lock_is_taken_again_in_a_mode_that_it_serves_for, m)
{
    sqlock_acquire_opts shared = wait_opts(0, 0, 0);

    begin(w, m);
    shared.mode = SQLOCK_SHARED;
    ok(acquire_now(NULL, NULL));
    ok(reentrant_acquire(locks, NULL, NAME, &shared, NULL, &said));
    for (int i = 0; i < 2; i++)
        ok(reentrant_release(locks, NULL, NAME, &said));
    ok(reentrant_acquire(locks, NULL, NAME, &shared, NULL, &said));
    ok(reentrant_acquire(locks, NULL, NAME, &shared, NULL, &said));
    says(SQLOCK_EREFUSED, acquire_now(NULL, NULL));
    says(SQLOCK_EREFUSED, reentrant_acquire(locks, NULL, NAME, NULL, NULL, &said));
    for (int i = 0; i < 2; i++)
        ok(reentrant_release(locks, NULL, NAME, &said));
    assert_true(is_free(m, NAME));
}
