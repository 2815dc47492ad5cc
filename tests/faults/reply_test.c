/* Replies to the release of an import that are lost (P5) while others come and go: the server did
 * what was asked, and nobody heard. PostgreSQL behind the proxy. Other releases:
 * drivers/suite_ended.c; each call with each of its packets lost: counted. */
#include "tests/faults/faults.h"

static sqlock_error err;

#define NAME "nightly"

static sqlock *m, *direct;
static int64_t last; /* token of the name's last grant */

static void give_back(sqlock_lock *lock)
{
    assert_ok(sqlock_release(lock, &err), &err);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_RELEASED);
    sqlock_lock_free(lock);
}

static void assert_row(int expect_held, int64_t token)
{
    struct row row = row_of(direct, NAME);

    assert_int_equal(row.n, 1);
    assert_int_equal(row.held, expect_held);
    assert_int_equal(row.token, token);
}

static sqlock_lock *import(const unsigned char *owner, int64_t token)
{
    sqlock_lock *lock = NULL;

    assert_ok(sqlock_import(m, NAME, owner, token, NULL, &lock, &err), &err);
    return lock;
}

/* As the command does it: an import is released, and the reply is lost. */
static sqlock_lock *unsure_release_of_an_import(const unsigned char *owner)
{
    sqlock_lock *lock = import(owner, last + 1);

    proxy_refuse(stage.proxy, 1);
    proxy_cut_reply(stage.proxy, 1); /* it looks how long the grant lasts before */
    assert_code(SQLOCK_EUNSURE, sqlock_release(lock, &err), &err);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_UNSURE);
    return lock;
}

/* A connection that is open and has prepared the statements of an import's release, at their second
 * use, so that the next request is the next message; the name's row is there and free. */
static void warm(void)
{
    sqlock_lock *lock;

    stage_proxied();
    m = stage_open_cut();
    direct = stage_open();
    for (int i = 0; i < 2; i++) {
        lock = held(direct, NAME, 20000, NULL);
        last = sqlock_lock_token(lock);
        give_back(import(sqlock_lock_owner(lock), last));
        sqlock_lock_free(lock);
    }
}

TEST(test_unsure_release_of_an_import_is_settled_as_released_after_several_rivals)
{
    sqlock_lock *first, *lock;

    warm();
    first = held(direct, NAME, 20000, NULL);
    lock = unsure_release_of_an_import(sqlock_lock_owner(first));
    assert_row(0, last + 1);
    for (int i = 0; i < 2; i++)
        give_back(held(direct, NAME, 5000, NULL));
    proxy_refuse(stage.proxy, 0);
    give_back(lock);
    assert_row(0, last + 3);
    sqlock_lock_free(first);
}

/* By a wrong owner nothing was released, whoever came since. */
TEST(test_unsure_release_of_an_import_that_is_not_the_grant_is_settled_as_lost)
{
    unsigned char owner[SQLOCK_OWNER_SIZE] = {1};
    sqlock_lock *holder, *lock;

    warm();
    holder = held(direct, NAME, 20000, NULL);
    lock = unsure_release_of_an_import(owner);
    assert_row(1, last + 1);
    give_back(holder);
    give_back(held(direct, NAME, 5000, NULL));
    proxy_refuse(stage.proxy, 0);
    assert_code(SQLOCK_ELOST, sqlock_settle(lock, 2000, &err), &err);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_LOST);
    sqlock_lock_free(lock);
}

TEST_MAIN_EACH(NULL, stage_teardown)
