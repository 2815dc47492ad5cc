#ifdef TEST_HAVE_FAKE
#include "tests/drivers/fake_network.h"

#include <stdatomic.h>

void fault(struct world *w, int stmt, sqlock_fault what, int times, int32_t delay_ms)
{
    sqlock_fake_fault(fake_at(&w->place), stmt, what, 0, times, delay_ms);
}

void stall(struct world *w, int stmt, int times, int32_t ms)
{
    fault(w, stmt, SQLOCK_FAULT_STALL, times, ms);
}

long seen(struct world *w, int stmt)
{
    return sqlock_fake_seen(fake_at(&w->place), stmt);
}

void cut_links(struct world *w)
{
    sqlock_fake_down(fake_at(&w->place), 1);
    sqlock_fake_down(fake_at(&w->place), 0);
}

void stays_held(sqlock_lock *lock, int64_t ms)
{
    for (int64_t end = now_us() + ms * 1000; now_us() < end; sleep_ms(2))
        assert_true(sqlock_is_held(lock));
}

static void *wait_main(void *arg)
{
    struct waiter *t = arg;
    sqlock_acquire_opts o = wait_opts(t->wait_ms, 0, t->flags);

    o.cancel = t->cancel;
    t->code = sqlock_acquire(t->m, t->name, &o, &t->lock, &t->err);
    t->ended_us = now_us();
    return NULL;
}

void wait_start(struct waiter *t)
{
    assert_int_equal(pthread_create(&t->thread, NULL, wait_main, t), 0);
}

int ignore_info(const sqlock_info *info, void *user)
{
    (void)info;
    (void)user;
    return 0;
}

/* A network that lets only so many connections through. */
struct network {
    sqlock_fake *db;
    atomic_int allowed;
};

static struct network network;

static int connect_through(void *user, void **out_native, sqlock_error *err)
{
    struct network *n = user;

    if (atomic_fetch_sub(&n->allowed, 1) <= 0)
        return sqlock_error_db(err, "08001", 0, 0, "the network is cut");
    return sqlock_fake_connect(n->db, out_native, err);
}

sqlock_open_opts short_requests(void)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;

    o.request_ms = REQUEST_MS;
    return o;
}

/* A manager on that network, with all of its connections open. Those of open_manager() before this
 * call are not on it. */
sqlock *open_fragile(struct world *w)
{
    sqlock_open_opts o = short_requests();

    return open_fragile_with(w, &o);
}

sqlock *fragile;

void begin_fragile(struct world *w)
{
    fragile = open_fragile(w);
}

sqlock *open_fragile_with(struct world *w, const sqlock_open_opts *o)
{
    const struct place before = w->place;
    sqlock *m;

    network.db = fake_at(&w->place);
    atomic_store(&network.allowed, ALWAYS);
    w->place.connect = connect_through;
    w->place.connect_user = &network;
    m = open_manager(w, o);
    w->place = before;
    give(take(m, "to open connections"));
    return m;
}

/* The next request of this kind has that fault, and no connection comes after it. */
void fail_and_cut(struct world *w, int stmt, sqlock_fault what, int32_t delay_ms)
{
    fault(w, stmt, what, 1, delay_ms);
    atomic_store(&network.allowed, 0);
}

void mend(void)
{
    atomic_store(&network.allowed, ALWAYS);
}

/* An acquire that is told nothing, after this fault. */
sqlock_lock *take_unsure(struct world *w, sqlock *m, sqlock_fault what, int32_t lease_ms)
{
    sqlock_acquire_opts o = wait_opts(0, lease_ms, 0);
    sqlock_lock *lock = NULL;
    int64_t begun = now_us();

    fail_and_cut(w, SQLOCK_STMT_ACQUIRE, what, 0);
    says(SQLOCK_EUNSURE, sqlock_acquire(m, "nightly", &o, &lock, &said));
    assert_between(0, now_us() - begun, (REQUEST_MS + late_ms(100)) * INT64_C(1000));
    assert_int_equal(said.code, SQLOCK_EUNSURE);
    assert_true(said.flags & SQLOCK_MAYBE);
    assert_non_null(lock);
    assert_state(SQLOCK_UNSURE, lock);
    assert_false(sqlock_is_held(lock));
    assert_int_equal(sqlock_lock_token(lock), 0);
    return keep(lock);
}

/* A release that is told nothing, after this fault. */
sqlock_lock *release_unsure(struct world *w, sqlock *m, sqlock_fault what, int32_t delay_ms,
                            int32_t lease_ms)
{
    sqlock_lock *lock = take_for(m, "nightly", lease_ms, 0);

    fail_and_cut(w, SQLOCK_STMT_RELEASE, what, delay_ms);
    says(SQLOCK_EUNSURE, sqlock_release(lock, &said));
    assert_state(SQLOCK_UNSURE, lock);
    assert_false(sqlock_is_held(lock));
    return lock;
}
#endif
