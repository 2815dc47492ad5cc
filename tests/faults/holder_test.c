/* Holders that end or stop without a word (P2, P3, P4, P6, P10): killed with -9, and stopped for
 * longer than their lease while somebody else takes over. The holder is another process. */
#include "tests/faults/faults.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NAME "nightly"

/* What holder and test tell each other; memory that both see. */
struct shared {
    atomic_llong token, deadline_us;
    atomic_int look;   /* the test: say what you see now */
    atomic_int looked; /* the holder: I did, and this is it */
    atomic_int state, why, calls;
    atomic_llong look_us; /* how long the first look took */
    atomic_int late;      /* times that it believed at or after its deadline */
    atomic_int renew_rc, release_rc;
    struct events events;
};

static struct place place;
static struct shared *shared;
static pid_t holder;

static int setup(void **state)
{
    (void)state;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED;
}

static int teardown(void **state)
{
    (void)state;
    if (holder > 0) {
        kill(holder, SIGKILL);
        child_wait(holder, 5000);
        holder = 0;
    }
    place_remove(&place);
    munmap(shared, sizeof *shared);
    return 0;
}

/* ---- the holder's process ----------------------------------------------------------------------
 */

static sqlock_lock *hold(int32_t lease_ms)
{
    sqlock *m = place_open_child(&place);
    sqlock_lock *lock = NULL;

    if (m == NULL || take(m, NAME, lease_ms, 5000, &shared->events, &lock, NULL) != 0)
        return NULL;
    atomic_store(&shared->deadline_us, sqlock_lock_deadline_us(lock));
    atomic_store(&shared->token, sqlock_lock_token(lock));
    return lock;
}

/* Ask all the time, as a program would before each of its steps. A stop may come anywhere in here;
 * so the time is taken before the question: belief at a time after the deadline is a fault. */
static void work(sqlock_lock *lock)
{
    int64_t now = sqlock_now_us();
    int believed = sqlock_is_held(lock);
    int64_t deadline = sqlock_lock_deadline_us(lock);

    if (believed && now >= deadline)
        atomic_fetch_add(&shared->late, 1);
    atomic_store(&shared->deadline_us, deadline);
}

static int holder_for_ever(void *arg)
{
    sqlock_lock *lock = hold(*(int32_t *)arg);

    if (lock == NULL)
        return 1;
    for (;;) {
        work(lock);
        usleep(200);
    }
}

static int holder_until_told(void *arg)
{
    sqlock_lock *lock = hold(*(int32_t *)arg);
    int64_t begun, end;
    int calls;

    if (lock == NULL)
        return 1;
    while (!atomic_load(&shared->look)) {
        work(lock);
        usleep(200);
    }
    calls = driver_calls_here();
    begun = sqlock_now_us();
    atomic_store(&shared->state, (int)sqlock_lock_state(lock));
    atomic_store(&shared->look_us, sqlock_now_us() - begun);
    atomic_store(&shared->why, (int)sqlock_lock_why(lock));
    atomic_store(&shared->calls, driver_calls_here() - calls);
    for (end = now_us() + 2000 * MS; !atomic_load(&shared->events.n_lost) && now_us() < end;)
        usleep(1000);
    atomic_store(&shared->renew_rc, sqlock_renew(lock, NULL));
    atomic_store(&shared->release_rc, sqlock_release(lock, NULL));
    atomic_store(&shared->looked, 1);
    sqlock_lock_free(lock);
    return 0;
}

/* Wait until the holder's process holds and has just renewed: then its lease is as long as it can
 * be, and on SQLite it does not stop or die within a write. */
static void wait_for_renewal(void)
{
    int64_t before;

    assert_soon(atomic_load(&shared->token) > 0, patience_ms(5000));
    before = atomic_load(&shared->deadline_us);
    assert_soon(atomic_load(&shared->deadline_us) > before, patience_ms(5000));
}

/* ---- killed ------------------------------------------------------------------------------------
 */

static void killed_holder(void)
{
    int32_t lease_ms = 1200;
    sqlock_acquire_opts try = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_holder who = {.size = sizeof who};
    sqlock_lock *lock = NULL;
    sqlock_error err;
    struct row row;
    sqlock *m;
    int64_t before, after, got;

    holder = child_start(holder_for_ever, &lease_ms);
    wait_for_renewal();
    kill(holder, SIGKILL);
    assert_int_equal(child_wait(holder, 5000), -SIGKILL);
    holder = 0;

    m = place_open(&place);
    try.wait_ms = 0;
    try.holder = &who;
    assert_code(SQLOCK_EBUSY, sqlock_acquire(m, NAME, &try, &lock, &err), &err);
    assert_null(lock);
    assert_int_equal(who.token, atomic_load(&shared->token));
    sleep_ms(50); /* what it had sent before it died is applied by now */
    before = sqlock_now_us();
    row = row_of(m, NAME);
    after = sqlock_now_us();
    assert_int_equal(row.held, 1);
    assert_between(500, row.left_ms, lease_ms);

    lock = held(m, NAME, 5000, NULL);
    got = sqlock_now_us();
    /* By the database's clock, told in whole milliseconds. */
    assert_true(got >= before + row.left_ms * MS);
    assert_true(got >= atomic_load(&shared->deadline_us));
    assert_between(before - after, got - after - row.left_ms * MS, patience_ms(300) * MS);
    assert_true(sqlock_lock_token(lock) > atomic_load(&shared->token));
    assert_int_equal(atomic_load(&shared->late), 0);
    assert_ok(sqlock_release(lock, &err), &err);
    sqlock_lock_free(lock);
}

static void test_killed_holder_is_succeeded_at_its_leases_end_on_postgres(void **state)
{
    (void)state;
    place_postgres(&place);
    killed_holder();
}

static void test_killed_holder_is_succeeded_at_its_leases_end_on_sqlite(void **state)
{
    (void)state;
    place_sqlite(&place);
    killed_holder();
}

/* ---- stopped -----------------------------------------------------------------------------------
 */

/* The successor's lock is as it was: in its own eyes, by its renewal, and in the row. */
static void still_holds(sqlock *m, sqlock_lock *lock, int64_t token)
{
    sqlock_error err;
    struct row row;

    assert_ok(sqlock_renew(lock, &err), &err);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_HELD);
    assert_int_equal(sqlock_lock_token(lock), token);
    row = row_of(m, NAME);
    assert_int_equal(row.n, 1);
    assert_int_equal(row.held, 1);
    assert_int_equal(row.token, token);
}

static void stopped_holder(void)
{
    int32_t lease_ms = 600;
    sqlock_lock *lock = NULL;
    sqlock_error err;
    int64_t token;
    sqlock *m;

    holder = child_start(holder_until_told, &lease_ms);
    wait_for_renewal();
    kill(holder, SIGSTOP);
    m = place_open(&place);
    lock = held(m, NAME, 3000, NULL);
    assert_true(sqlock_now_us() >= atomic_load(&shared->deadline_us));
    token = sqlock_lock_token(lock);
    assert_true(token > atomic_load(&shared->token));

    atomic_store(&shared->look, 1);
    kill(holder, SIGCONT);
    assert_soon(atomic_load(&shared->looked), patience_ms(8000));
    assert_int_equal(child_wait(holder, patience_ms(5000)), 0);
    holder = 0;
    assert_int_equal(atomic_load(&shared->state), SQLOCK_LOST);
    assert_int_equal(atomic_load(&shared->why), SQLOCK_WHY_EXPIRED);
    assert_int_equal(atomic_load(&shared->calls), 0);
    assert_between(0, atomic_load(&shared->look_us), patience_ms(100) * MS);
    assert_int_equal(atomic_load(&shared->late), 0);
    assert_int_equal(atomic_load(&shared->events.n_lost), 1);
    assert_int_equal(atomic_load(&shared->events.state), SQLOCK_LOST);
    assert_int_equal(atomic_load(&shared->renew_rc), SQLOCK_ELOST);
    assert_int_equal(atomic_load(&shared->release_rc), SQLOCK_ELOST);

    still_holds(m, lock, token);
    assert_ok(sqlock_release(lock, &err), &err);
    sqlock_lock_free(lock);
}

static void test_stopped_holder_wakes_up_lost_and_harms_nobody_on_postgres(void **state)
{
    (void)state;
    place_postgres(&place);
    stopped_holder();
}

static void test_stopped_holder_wakes_up_lost_and_harms_nobody_on_sqlite(void **state)
{
    (void)state;
    place_sqlite(&place);
    stopped_holder();
}

#define T(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)

static const struct CMUnitTest tests[] = {
    T(killed_holder_is_succeeded_at_its_leases_end_on_postgres),
    T(killed_holder_is_succeeded_at_its_leases_end_on_sqlite),
    T(stopped_holder_wakes_up_lost_and_harms_nobody_on_postgres),
    T(stopped_holder_wakes_up_lost_and_harms_nobody_on_sqlite),
};

TEST_MAIN(tests)
