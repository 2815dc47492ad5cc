/* Replies to a release that are lost (P5) while others come and go: the server did what was asked,
 * and nobody heard. And links that are reset after every possible byte of a reply. PostgreSQL
 * behind the proxy. Each call with each of its packets lost: tests/counted. */
#include "tests/faults/faults.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

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

/* A connection that is open and knows its statements, so that the next request is the next message;
 * the name's row is there and free. */
static void warm(void)
{
    stage_proxied(&stage);
    m = stage_open_cut(&stage);
    direct = stage_open(&stage);
    for (int i = 0; i < 2; i++)
        give_back(held(m, NAME, 5000, NULL));
    last = row_of(direct, NAME).token;
    assert_int_equal(row_of(direct, NAME).held, 0);
}

static void assert_row(int expect_held, int64_t token)
{
    struct row row = row_of(direct, NAME);

    assert_int_equal(row.n, 1);
    assert_int_equal(row.held, expect_held);
    assert_int_equal(row.token, token);
}

/* A release that was applied, and of which nothing more is heard: the server stays out of reach. */
static sqlock_lock *unsure_release(int32_t lease_ms)
{
    sqlock_lock *lock;

    warm();
    lock = held(m, NAME, lease_ms, NULL);
    proxy_refuse(stage.proxy, 1);
    proxy_cut_reply(stage.proxy, 0);
    assert_code(SQLOCK_EUNSURE, sqlock_release(lock, &err), &err);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_UNSURE);
    assert_row(0, last + 1);
    return lock;
}

/* ---- release -------------------------------------------------------------------------
 */

TEST(test_unsure_release_is_settled_as_released_though_a_rival_holds_now)
{
    sqlock_lock *lock = unsure_release(5000), *rival = held(direct, NAME, 5000, NULL);

    proxy_refuse(stage.proxy, 0);
    assert_ok(sqlock_settle(lock, 2000, &err), &err);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_RELEASED);
    assert_row(1, last + 2);
    assert_ok(sqlock_renew(rival, &err), &err);
    sqlock_lock_free(lock);
    give_back(rival);
}

/* The row no longer knows that release: but who else could have let the rivals in before the lease
 * ended? */
TEST(test_unsure_release_is_settled_as_released_after_several_rivals)
{
    sqlock_lock *lock = unsure_release(20000), *rival;

    give_back(held(direct, NAME, 5000, NULL));
    rival = held(direct, NAME, 5000, NULL);
    proxy_refuse(stage.proxy, 0);
    give_back(lock);
    assert_row(1, last + 3);
    give_back(rival);
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

static void warm_for_imports(void)
{
    sqlock_lock *lock;

    warm();
    lock = held(direct, NAME, 20000, NULL);
    give_back(import(sqlock_lock_owner(lock), ++last));
    sqlock_lock_free(lock);
}

TEST(test_unsure_release_of_an_import_is_settled_as_released_after_several_rivals)
{
    sqlock_lock *first, *lock;

    warm_for_imports();
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

static void *let_in_soon(void *arg)
{
    sleep_ms(300);
    proxy_refuse(stage.proxy, 0);
    return arg;
}

/* Nobody heard how long it lasts: it is asked for again, as a release would be, and then released.
 */
TEST(test_release_of_an_import_goes_on_when_the_look_before_it_was_cut)
{
    sqlock_lock *first;
    pthread_t thread;

    warm_for_imports();
    first = held(direct, NAME, 20000, NULL);
    proxy_refuse(stage.proxy, 1);
    proxy_cut_reply(stage.proxy, 0);
    assert_int_equal(pthread_create(&thread, NULL, let_in_soon, NULL), 0);
    give_back(import(sqlock_lock_owner(first), last + 1));
    pthread_join(thread, NULL);
    assert_int_equal(proxy_cuts(stage.proxy), 1);
    assert_row(0, last + 1);
    sqlock_lock_free(first);
}

/* By a wrong owner nothing was released, whoever came since. */
TEST(test_unsure_release_of_an_import_that_is_not_the_grant_is_settled_as_lost)
{
    unsigned char owner[SQLOCK_OWNER_SIZE] = {1};
    sqlock_lock *holder, *lock;

    warm_for_imports();
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

/* ---- a reset at every byte ---------------------------------------------------------------------
 */

enum { WORKERS = 2, BYTES = 60 };

/* What only the lock protects; atomics, so that a fault of the lock is a count and not a crash. */
static struct {
    atomic_int stop, inside, two, fallen;
    atomic_llong token;
} shop;

struct worker {
    pthread_t thread;
    sqlock *m;
    atomic_int cycles;
    atomic_int acquire_rc, release_rc; /* the first that was not 0 */
    sqlock_error err;
};

static void cycle(struct worker *w)
{
    sqlock_lock *lock = NULL;
    int64_t token;
    int rc = take(w->m, NAME, 10000, 10000, NULL, &lock, &w->err);

    if (rc != 0) {
        w->acquire_rc = rc;
        sqlock_lock_free(lock);
        return;
    }
    token = sqlock_lock_token(lock);
    if (atomic_fetch_add(&shop.inside, 1) != 0)
        atomic_fetch_add(&shop.two, 1);
    if (token <= atomic_load(&shop.token))
        atomic_fetch_add(&shop.fallen, 1);
    sched_yield();
    atomic_store(&shop.token, token);
    atomic_fetch_sub(&shop.inside, 1);
    rc = sqlock_release(lock, &w->err);
    if (rc != 0)
        w->release_rc = rc;
    sqlock_lock_free(lock);
    atomic_fetch_add(&w->cycles, 1);
}

static void *work(void *arg)
{
    struct worker *w = arg;

    while (!atomic_load(&shop.stop) && w->acquire_rc == 0 && w->release_rc == 0) {
        cycle(w);
        sleep_ms(2); /* let the other one in */
    }
    return NULL;
}

static int cycles(struct worker *w)
{
    int sum = 0;

    for (int i = 0; i < WORKERS; i++)
        sum += atomic_load(&w[i].cycles);
    return sum;
}

static int one_failed(const struct worker *w)
{
    int n = 0;

    for (int i = 0; i < WORKERS; i++)
        n += w[i].acquire_rc != 0 || w[i].release_rc != 0;
    return n > 0;
}

/* A few more acquires and releases of whoever gets the lock; less if a worker failed. */
static void wait_cycles(struct worker *w)
{
    int64_t end = now_us() + patience_ms(5000) * MS;
    int enough = cycles(w) + 2 * WORKERS;

    while (cycles(w) < enough && now_us() < end && !one_failed(w))
        sleep_ms(1);
}

TEST(test_reset_at_any_byte_of_a_reply_reaches_no_caller)
{
    static struct worker workers[WORKERS];

    stage_proxied(&stage);
    memset(&shop, 0, sizeof shop);
    memset(workers, 0, sizeof workers);
    for (int i = 0; i < WORKERS; i++)
        workers[i].m = stage_open_cut(&stage);
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    wait_cycles(workers);
    for (int bytes = 0; bytes <= BYTES && !one_failed(workers); bytes++) {
        int64_t end = now_us() + patience_ms(5000) * MS;
        int cuts = proxy_cuts(stage.proxy);

        proxy_cut_after(stage.proxy, bytes);
        while (proxy_cuts(stage.proxy) == cuts && now_us() < end && !one_failed(workers))
            sleep_ms(1);
        wait_cycles(workers);
    }
    atomic_store(&shop.stop, 1);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < WORKERS; i++) {
        assert_ok(workers[i].acquire_rc, &workers[i].err);
        assert_ok(workers[i].release_rc, &workers[i].err);
        assert_true(atomic_load(&workers[i].cycles) > 0);
    }
    assert_true(cycles(workers) > 2 * WORKERS * BYTES);
    assert_int_equal(proxy_cuts(stage.proxy), BYTES + 1);
    assert_int_equal(atomic_load(&shop.two), 0);
    assert_int_equal(atomic_load(&shop.fallen), 0);
}

TEST_MAIN_EACH(NULL, stage_teardown)
