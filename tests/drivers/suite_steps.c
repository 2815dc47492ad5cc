/* Small steps that most tests take. */
#include "tests/drivers/suite.h"

#include <poll.h>

enum { RUN_THREADS = 16 };

/* ---- locks ----------------------------------------------------------------------------------- */

sqlock_acquire_opts wait_opts(int32_t wait_ms, int32_t lease_ms, unsigned flags)
{
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;

    o.wait_ms = wait_ms;
    o.lease_ms = lease_ms;
    o.flags = flags;
    return o;
}

sqlock_lock *take_with(sqlock *m, const char *name, const sqlock_acquire_opts *opts)
{
    sqlock_error err = {0};
    sqlock_lock *lock = NULL;

    assert_ok(sqlock_acquire(m, name, opts, &lock, &err), &err);
    assert_non_null(lock);
    return keep(lock);
}

sqlock_lock *take_for(sqlock *m, const char *name, int32_t lease_ms, unsigned flags)
{
    sqlock_acquire_opts o = wait_opts(patience_ms(10000), lease_ms, flags);

    return take_with(m, name, &o);
}

sqlock_lock *take(sqlock *m, const char *name)
{
    return take_for(m, name, 0, 0);
}

void give(sqlock_lock *lock)
{
    sqlock_error err = {0};

    assert_ok(sqlock_release(lock, &err), &err);
    drop(lock);
}

int try_once(sqlock *m, const char *name)
{
    sqlock_acquire_opts o = wait_opts(0, 0, 0);
    sqlock_lock *lock = NULL;
    int rc = sqlock_acquire(m, name, &o, &lock, NULL);

    sqlock_scope_end(&lock);
    return rc;
}

bool is_free(sqlock *m, const char *name)
{
    return try_once(m, name) == SQLOCK_OK;
}

int64_t token_in_the_row(sqlock *m, const char *name)
{
    sqlock_info info = {.size = sizeof info};

    ok(sqlock_find(m, name, &info, &said));
    return info.held ? info.holder.token : 0;
}

void await_loss(sqlock_lock *lock)
{
    assert_soon(sqlock_lock_state(lock) == SQLOCK_LOST, patience_ms(5000));
}

int64_t margin_us(int32_t lease_ms)
{
    return lease_ms * INT64_C(100);
}

void stays_held(sqlock_lock *lock, int64_t ms)
{
    for (int64_t end = now_us() + ms * 1000; now_us() < end; sleep_ms(2))
        assert_true(sqlock_is_held(lock));
}

void check_state(sqlock_state expected, sqlock_lock *lock, const char *what, const char *file,
                 int line)
{
    sqlock_state state = sqlock_lock_state(lock);

    if (state == expected)
        return;
    print_error("%s is %s (%s), not %s\n", what, sqlock_state_name(state),
                sqlock_why_name(sqlock_lock_why(lock)), sqlock_state_name(expected));
    _fail(file, line);
}

void check_lost(sqlock_lock *lock, sqlock_why why, const char *what, const char *file, int line)
{
    check_state(SQLOCK_LOST, lock, what, file, line);
    if (sqlock_lock_why(lock) == why)
        return;
    print_error("%s is lost: %s, not: %s\n", what, sqlock_why_name(sqlock_lock_why(lock)),
                sqlock_why_name(why));
    _fail(file, line);
}

void open_reserved(sqlock *m)
{
    long opens = spy_opens();
    sqlock_lock *lock = take_for(m, "open", patience_ms(400), 0);

    assert_soon(spy_opens() > opens, patience_ms(5000));
    give(lock);
}

/* ---- threads, callbacks, descriptors --------------------------------------------------------- */

void run_threads(size_t n, void *array, size_t size, void *(*main)(void *element))
{
    pthread_t threads[RUN_THREADS];

    assert_in_range(n, 1, RUN_THREADS);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, main, (char *)array + i * size), 0);
    for (size_t i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

static void note_event(sqlock_lock *lock, sqlock_state state, void *user)
{
    struct told *t = user;

    atomic_store(&t->in_callback, 1);
    if (state == SQLOCK_LOST)
        atomic_store(&t->lost_us, sqlock_now_us());
    atomic_store(&t->why, (int)sqlock_lock_why(lock));
    atomic_store(&t->is_held, sqlock_is_held(lock));
    atomic_store(&t->deadline, sqlock_lock_deadline_us(lock));
    atomic_store(&t->token, sqlock_lock_token(lock));
    atomic_store(&t->fd, sqlock_lock_fd(lock, NULL));
    sleep_ms(atomic_load(&t->hold_up_ms));
    while (atomic_load(&t->stay))
        sleep_ms(1);
    atomic_store(&t->in_callback, 0);
    atomic_fetch_add(state == SQLOCK_LOST      ? &t->lost
                     : state == SQLOCK_AT_RISK ? &t->at_risk
                                               : &t->held,
                     1);
}

sqlock_acquire_opts reported_opts(struct told *t, int32_t lease_ms, unsigned flags)
{
    sqlock_acquire_opts o = wait_opts(0, lease_ms, flags);

    memset(t, 0, sizeof *t);
    o.on_event = note_event;
    o.user = t;
    return o;
}

static void *wait_main(void *arg)
{
    struct waiter *t = arg;

    t->code = sqlock_acquire(t->m, t->name, &t->opts, &t->lock, &t->err);
    t->ended_us = now_us();
    atomic_store(&t->ended, 1);
    if (t->code != 0 || !t->gives_back)
        return NULL;
    t->code = sqlock_release(t->lock, &t->err);
    drop(t->lock);
    return NULL;
}

void wait_start(struct waiter *t)
{
    assert_int_equal(pthread_create(&t->thread, NULL, wait_main, t), 0);
}

bool readable_within(int fd, int32_t ms)
{
    struct pollfd p = {fd, POLLIN, 0};

    return poll(&p, 1, ms) == 1 && (p.revents & POLLIN) != 0;
}
