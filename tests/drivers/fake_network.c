#ifdef TEST_HAVE_FAKE
#include "tests/drivers/fake_network.h"

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

int ignore_info(const sqlock_info *info, void *user)
{
    (void)info, (void)user;
    return 0;
}

struct network network;

static int connect_through(void *user, void **out_native, sqlock_error *err)
{
    (void)user;
    if (atomic_fetch_sub(&network.allowed, 1) > 0)
        return sqlock_fake_connect(network.db, out_native, err);
    if (atomic_load(&network.code) != 0)
        return atomic_load(&network.code);
    return sqlock_error_db(err, "08001", 0, 0, "the network is cut");
}

sqlock *open_allowed(struct world *w, int allowed, const sqlock_open_opts *opts)
{
    const struct place before = w->place;
    sqlock *m;

    network.db = fake_at(&w->place);
    atomic_store(&network.allowed, allowed);
    atomic_store(&network.code, 0);
    w->place.connect = connect_through;
    w->place.connect_user = NULL;
    m = open_manager(w, opts);
    w->place = before;
    return m;
}

sqlock *open_fragile(struct world *w, int32_t grace_ms)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock *m;

    o.request_ms = REQUEST_MS;
    o.grace_ms = grace_ms;
    m = open_allowed(w, ALWAYS, &o);
    give(take(m, "to open connections"));
    return m;
}

sqlock *fragile;

void begin_fragile(struct world *w)
{
    fragile = open_fragile(w, 0);
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
