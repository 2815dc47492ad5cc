/* Replies that are lost (P5): the server did what was asked, and nobody heard. And links that are
 * reset after every possible byte of a reply. PostgreSQL behind the proxy. */
#include "tests/faults/faults.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#define NAME "nightly"

static struct place place;
static sqlock *m, *direct;
static int64_t last; /* token of the name's last grant */

static int teardown(void **state)
{
    (void)state;
    place_remove(&place);
    return 0;
}

static void give_back(sqlock_lock *lock)
{
    sqlock_error err;

    assert_ok(sqlock_release(lock, &err), &err);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_RELEASED);
    sqlock_lock_free(lock);
}

/* A connection that is open and knows its statements, so that the next request is the next message;
 * the name's row is there and free. */
static void warm(void)
{
    place_proxied(&place);
    m = place_open_cut(&place);
    direct = place_open(&place);
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

/* A try of which nothing more is heard: by what is cut, it was granted or it never came there. Then
 * the server can be reached again. */
static sqlock_lock *unsure_try(void (*cut)(struct proxy *, int), int granted)
{
    sqlock_lock *lock = NULL;
    sqlock_error err;

    warm();
    proxy_refuse(place.proxy, 1);
    cut(place.proxy, 0);
    assert_code(SQLOCK_EUNSURE, take(m, NAME, 5000, 0, NULL, &lock, &err), &err);
    assert_true(err.flags & SQLOCK_MAYBE);
    assert_non_null(lock);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_UNSURE);
    assert_int_equal(sqlock_is_held(lock), 0);
    assert_int_equal(sqlock_lock_token(lock), 0);
    assert_row(granted, last + granted);
    proxy_refuse(place.proxy, 0);
    return lock;
}

/* A release that was applied, and of which nothing more is heard: the server stays out of reach. */
static sqlock_lock *unsure_release(int32_t lease_ms)
{
    sqlock_lock *lock;
    sqlock_error err;

    warm();
    lock = held(m, NAME, lease_ms, NULL);
    proxy_refuse(place.proxy, 1);
    proxy_cut_reply(place.proxy, 0);
    assert_code(SQLOCK_EUNSURE, sqlock_release(lock, &err), &err);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_UNSURE);
    assert_row(0, last + 1);
    return lock;
}

/* ---- acquire -----------------------------------------------------------------------------------
 */

static void acquire_without_reply(int32_t wait_ms)
{
    sqlock_lock *lock = NULL;
    sqlock_error err;

    warm();
    proxy_cut_reply(place.proxy, 0);
    assert_ok(take(m, NAME, 5000, wait_ms, NULL, &lock, &err), &err);
    assert_int_equal(proxy_cuts(place.proxy), 1);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_HELD);
    assert_int_equal(sqlock_lock_token(lock), last + 1);
    assert_row(1, last + 1);
    give_back(lock);
    assert_row(0, last + 1);
}

static void test_acquire_settles_by_itself_when_its_reply_was_cut(void **state)
{
    (void)state;
    acquire_without_reply(2000);
}

static void test_try_settles_by_itself_when_its_reply_was_cut(void **state)
{
    (void)state;
    acquire_without_reply(0);
}

/* The very first grant of a name: its row is made by one statement and granted by the next. */
static void test_first_acquire_of_a_name_survives_a_cut_at_each_of_its_replies(void **state)
{
    static const char *const names[] = {"a", "b", "c"};
    (void)state;

    warm();
    give_back(held(m, "first", 5000, NULL));
    for (int i = 0; i < 3; i++) {
        sqlock_lock *lock;

        proxy_cut_reply(place.proxy, i);
        lock = held(m, names[i], 5000, NULL);
        assert_int_equal(proxy_cuts(place.proxy), i + 1);
        assert_int_equal(row_of(direct, names[i]).n, 1);
        assert_int_equal(row_of(direct, names[i]).held, 1);
        assert_int_equal(row_of(direct, names[i]).token, sqlock_lock_token(lock));
        assert_int_equal(sqlock_lock_token(lock), last - 1); /* the first of two that NAME had */
        give_back(lock);
        give_back(held(m, NAME, 5000, NULL)); /* the new connection learns its statements */
        give_back(held(m, i == 0 ? "x" : i == 1 ? "y" : "z", 5000, NULL));
    }
}

static void test_unsure_try_is_settled_with_the_token_of_the_row(void **state)
{
    sqlock_lock *lock = unsure_try(proxy_cut_reply, 1);
    sqlock_error err;
    (void)state;

    assert_ok(sqlock_settle(lock, 2000, &err), &err);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_HELD);
    assert_int_equal(sqlock_lock_token(lock), last + 1);
    assert_row(1, last + 1);
    give_back(lock);
}

static void test_release_of_an_unsure_lock_gives_back_what_was_granted(void **state)
{
    (void)state;
    give_back(unsure_try(proxy_cut_reply, 1));
    assert_row(0, last + 1);
}

/* The request never came to the server. Only the caller cannot know. */
static void test_try_whose_request_was_cut_is_settled_as_held_once(void **state)
{
    sqlock_lock *lock = unsure_try(proxy_cut_request, 0);
    sqlock_error err;
    (void)state;

    assert_ok(sqlock_settle(lock, 2000, &err), &err);
    assert_int_equal(sqlock_lock_token(lock), last + 1);
    assert_row(1, last + 1);
    give_back(lock);
}

/* ---- release and renew -------------------------------------------------------------------------
 */

static void test_release_whose_reply_was_cut_says_released(void **state)
{
    sqlock_lock *lock;
    sqlock_error err;
    (void)state;

    warm();
    lock = held(m, NAME, 5000, NULL);
    proxy_cut_reply(place.proxy, 0);
    assert_ok(sqlock_release(lock, &err), &err);
    assert_int_equal(proxy_cuts(place.proxy), 1);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_RELEASED);
    assert_row(0, last + 1);
    give_back(lock); /* asked again */
    assert_row(0, last + 1);
}

static void test_unsure_release_asked_again_says_released(void **state)
{
    sqlock_lock *lock = unsure_release(5000);
    (void)state;

    proxy_refuse(place.proxy, 0);
    give_back(lock);
}

static void test_unsure_release_is_settled_as_released_though_a_rival_holds_now(void **state)
{
    sqlock_lock *lock = unsure_release(5000), *rival = held(direct, NAME, 5000, NULL);
    sqlock_error err;
    (void)state;

    proxy_refuse(place.proxy, 0);
    assert_ok(sqlock_settle(lock, 2000, &err), &err);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_RELEASED);
    assert_row(1, last + 2);
    assert_ok(sqlock_renew(rival, &err), &err);
    sqlock_lock_free(lock);
    give_back(rival);
}

/* The row no longer knows that release: but who else could have let the rivals in before the lease
 * ended? */
static void test_unsure_release_is_settled_as_released_after_several_rivals(void **state)
{
    sqlock_lock *lock = unsure_release(20000), *rival;
    (void)state;

    give_back(held(direct, NAME, 5000, NULL));
    rival = held(direct, NAME, 5000, NULL);
    proxy_refuse(place.proxy, 0);
    give_back(lock);
    assert_row(1, last + 3);
    give_back(rival);
}

static sqlock_lock *import(const unsigned char *owner, int64_t token)
{
    sqlock_lock *lock = NULL;
    sqlock_error err;

    assert_ok(sqlock_import(m, NAME, SQLOCK_LEN_STRING, owner, token, NULL, &lock, &err), &err);
    return lock;
}

/* As the command does it: an import is released, and the reply is lost. */
static sqlock_lock *unsure_release_of_an_import(const unsigned char *owner)
{
    sqlock_lock *lock = import(owner, last + 1);
    sqlock_error err;

    proxy_refuse(place.proxy, 1);
    proxy_cut_reply(place.proxy, 1); /* it looks how long the grant lasts before */
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

static void
test_unsure_release_of_an_import_is_settled_as_released_after_several_rivals(void **state)
{
    sqlock_lock *first, *lock;
    (void)state;

    warm_for_imports();
    first = held(direct, NAME, 20000, NULL);
    lock = unsure_release_of_an_import(sqlock_lock_owner(first));
    assert_row(0, last + 1);
    for (int i = 0; i < 2; i++)
        give_back(held(direct, NAME, 5000, NULL));
    proxy_refuse(place.proxy, 0);
    give_back(lock);
    assert_row(0, last + 3);
    sqlock_lock_free(first);
}

static void *let_in_soon(void *arg)
{
    sleep_ms(300);
    proxy_refuse(place.proxy, 0);
    return arg;
}

/* Nobody heard how long it lasts: it is asked for again, as a release would be, and then released.
 */
static void test_release_of_an_import_goes_on_when_the_look_before_it_was_cut(void **state)
{
    sqlock_lock *first;
    pthread_t thread;
    (void)state;

    warm_for_imports();
    first = held(direct, NAME, 20000, NULL);
    proxy_refuse(place.proxy, 1);
    proxy_cut_reply(place.proxy, 0);
    assert_int_equal(pthread_create(&thread, NULL, let_in_soon, NULL), 0);
    give_back(import(sqlock_lock_owner(first), last + 1));
    pthread_join(thread, NULL);
    assert_int_equal(proxy_cuts(place.proxy), 1);
    assert_row(0, last + 1);
    sqlock_lock_free(first);
}

/* By a wrong owner nothing was released, whoever came since. */
static void test_unsure_release_of_an_import_that_is_not_the_grant_is_settled_as_lost(void **state)
{
    unsigned char owner[SQLOCK_OWNER_SIZE] = {1};
    sqlock_lock *holder, *lock;
    sqlock_error err;
    (void)state;

    warm_for_imports();
    holder = held(direct, NAME, 20000, NULL);
    lock = unsure_release_of_an_import(owner);
    assert_row(1, last + 1);
    give_back(holder);
    give_back(held(direct, NAME, 5000, NULL));
    proxy_refuse(place.proxy, 0);
    assert_code(SQLOCK_ELOST, sqlock_settle(lock, 2000, &err), &err);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_LOST);
    sqlock_lock_free(lock);
}

static void test_renewal_whose_reply_was_cut_keeps_the_lock(void **state)
{
    struct events events = {0};
    sqlock_lock *lock;
    int64_t end;
    (void)state;

    warm();
    lock = held(m, NAME, 900, &events);
    wait_renewed(lock);
    proxy_cut_reply(place.proxy, 0);
    for (end = sqlock_now_us() + 2 * 900 * MS; sqlock_now_us() < end; sleep_ms(1))
        assert_true(sqlock_is_held(lock));
    assert_int_equal(proxy_cuts(place.proxy), 1);
    assert_int_equal(atomic_load(&events.n_lost), 0);
    assert_int_equal(sqlock_lock_token(lock), last + 1);
    assert_row(1, last + 1);
    give_back(lock);
}

static void test_renew_by_hand_settles_by_itself_when_its_reply_was_cut(void **state)
{
    sqlock_lock *lock;
    sqlock_error err;
    int64_t before;
    (void)state;

    warm();
    lock = held(m, NAME, 5000, NULL);
    assert_ok(sqlock_renew(lock, &err), &err);
    before = sqlock_lock_deadline_us(lock);
    proxy_cut_reply(place.proxy, 0);
    assert_ok(sqlock_renew(lock, &err), &err);
    assert_int_equal(proxy_cuts(place.proxy), 1);
    assert_true(sqlock_lock_deadline_us(lock) > before);
    assert_row(1, last + 1);
    give_back(lock);
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

static void test_reset_at_any_byte_of_a_reply_reaches_no_caller(void **state)
{
    static struct worker workers[WORKERS];
    (void)state;

    place_proxied(&place);
    memset(&shop, 0, sizeof shop);
    memset(workers, 0, sizeof workers);
    for (int i = 0; i < WORKERS; i++)
        workers[i].m = place_open_cut(&place);
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    wait_cycles(workers);
    for (int bytes = 0; bytes <= BYTES && !one_failed(workers); bytes++) {
        int64_t end = now_us() + patience_ms(5000) * MS;
        int cuts = proxy_cuts(place.proxy);

        proxy_cut_after(place.proxy, bytes);
        while (proxy_cuts(place.proxy) == cuts && now_us() < end && !one_failed(workers))
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
    assert_int_equal(proxy_cuts(place.proxy), BYTES + 1);
    assert_int_equal(atomic_load(&shop.two), 0);
    assert_int_equal(atomic_load(&shop.fallen), 0);
}

#define T(name) cmocka_unit_test_teardown(test_##name, teardown)

static const struct CMUnitTest tests[] = {
    T(acquire_settles_by_itself_when_its_reply_was_cut),
    T(try_settles_by_itself_when_its_reply_was_cut),
    T(first_acquire_of_a_name_survives_a_cut_at_each_of_its_replies),
    T(unsure_try_is_settled_with_the_token_of_the_row),
    T(release_of_an_unsure_lock_gives_back_what_was_granted),
    T(try_whose_request_was_cut_is_settled_as_held_once),
    T(release_whose_reply_was_cut_says_released),
    T(unsure_release_asked_again_says_released),
    T(unsure_release_is_settled_as_released_though_a_rival_holds_now),
    T(unsure_release_is_settled_as_released_after_several_rivals),
    T(unsure_release_of_an_import_is_settled_as_released_after_several_rivals),
    T(release_of_an_import_goes_on_when_the_look_before_it_was_cut),
    T(unsure_release_of_an_import_that_is_not_the_grant_is_settled_as_lost),
    T(renewal_whose_reply_was_cut_keeps_the_lock),
    T(renew_by_hand_settles_by_itself_when_its_reply_was_cut),
    T(reset_at_any_byte_of_a_reply_reaches_no_caller),
};

TEST_MAIN(tests)
