#include "tests/drivers/suite_stepped.h"

#include <poll.h>

sqlock *loop;

void loop_close(void)
{
    sqlock_close(loop);
}

void loop_turn(int32_t ms)
{
    struct pollfd p = {sqlock_loop_fd(loop), POLLIN, 0};

    assert_between(0, p.fd, INT32_MAX);
    if (poll(&p, 1, ms) == 1)
        assert_int_equal(sqlock_loop_step(loop), 0);
}

void loop_turn_for(int32_t ms)
{
    for (int64_t end = sqlock_now_us() + ms * INT64_C(1000), left;
         (left = end - sqlock_now_us()) > 0;)
        loop_turn((int32_t)(left / 1000) + 1);
}

int loop_finish(sqlock_op *op, sqlock_lock **out_lock)
{
    for (int64_t end = sqlock_now_us() + patience_ms(10000) * INT64_C(1000);
         !sqlock_op_step(op) && sqlock_now_us() < end;)
        loop_turn(100);
    assert_int_equal(sqlock_op_step(op), 1);
    assert_true(readable_within(sqlock_op_fd(op), 0));
    return sqlock_op_finish(op, out_lock, &said);
}

sqlock_op *loop_open(struct world *w, const sqlock_open_opts *opts)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock_op *op = NULL;

    if (opts)
        o = *opts;
    place_opts(w, &o);
    ok(sqlock_open_start(spied_driver(), w->place.url, &o, &loop, &op, &said));
    at_end(w, loop_close);
    return op;
}

sqlock *loop_opened(struct world *w)
{
    sqlock_op *op = loop_open(w, NULL);

    ok(loop_finish(op, NULL));
    return loop;
}

sqlock_op *loop_start(const char *name, int32_t wait_ms, int32_t lease_ms, unsigned flags)
{
    sqlock_acquire_opts o = wait_opts(wait_ms, lease_ms, flags);
    sqlock_op *op = NULL;

    ok(sqlock_acquire_start(loop, name, &o, &op, &said));
    return op;
}

sqlock_lock *loop_grant(const char *name, int32_t lease_ms, unsigned flags)
{
    sqlock_lock *lock = NULL;

    ok(loop_finish(loop_start(name, 0, lease_ms, flags), &lock));
    return keep(lock);
}
