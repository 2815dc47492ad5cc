/* P17: in a forked child every handle is dead, and the parent's go on. */
#define SUITE_NEEDS FORKS
#include "tests/drivers/suite.h"

#include <sqlock/register.h>
#include <sqlock/transaction.h>
#include <unistd.h>

struct forked {
    sqlock *m;
    sqlock_lock *lock, *imported;
    sqlock_op *op;
    sqlock_cancel *cancel;
};

static int work_never(sqlock_lock *lock, void *user)
{
    (void)lock, (void)user;
    abort();
}

static int info_never(const sqlock_info *info, void *user)
{
    (void)info, (void)user;
    abort();
}

static int waiter_never(const sqlock_waiter *waiter, void *user)
{
    (void)waiter, (void)user;
    abort();
}

static int use_dead_handles(void *arg)
{
    const struct forked *f = arg;
    sqlock_lock *none = NULL;
    sqlock_op *op = NULL;

    assert_lost(f->lock, SQLOCK_WHY_FORK);
    assert_int_equal(sqlock_is_held(f->lock), 0);
    says(SQLOCK_EFORK, sqlock_lock_fd(f->lock, &said));
    says(SQLOCK_EFORK, sqlock_acquire(f->m, "other", NULL, &none, &said));
    assert_null(none);
    says(SQLOCK_EFORK, sqlock_acquire_start(f->m, "other", NULL, &op, &said));
    says(SQLOCK_EFORK,
         sqlock_import(f->m, "nightly", sqlock_lock_owner(f->lock), 1, NULL, &none, &said));
    assert_null(none);
    assert_int_equal(sqlock_lock_why(f->imported), SQLOCK_WHY_FORK);
    says(SQLOCK_EFORK, sqlock_settle(f->imported, 0, &said));
    says(SQLOCK_EFORK, sqlock_release(f->imported, &said));
    says(SQLOCK_EFORK, sqlock_renew(f->lock, &said));
    says(SQLOCK_EFORK, sqlock_renew_start(f->lock, &op, &said));
    says(SQLOCK_EFORK, sqlock_settle(f->lock, 0, &said));
    says(SQLOCK_EFORK, sqlock_release(f->lock, &said));
    says(SQLOCK_EFORK, sqlock_release_start(f->lock, &op, &said));
    says(SQLOCK_EFORK, sqlock_list(f->m, NULL, info_never, NULL, &said));
    says(SQLOCK_EFORK, sqlock_list_waiters(f->m, NULL, waiter_never, NULL, &said));
    assert_int_equal(sqlock_op_place(f->op), 0);
    assert_int_equal(sqlock_op_fd(f->op), SQLOCK_EFORK);
    says(SQLOCK_EFORK, sqlock_break(f->m, "nightly", 1, &said));
    says(SQLOCK_EFORK, sqlock_reap(f->m, NULL, NULL, &said));
    says(SQLOCK_EFORK, sqlock_ensure(f->m, "x", &said));
    says(SQLOCK_EFORK, sqlock_register_set(f->m, "x", "v", 1, 0, NULL, &said));
    says(SQLOCK_EFORK, sqlock_register_get(f->m, "x", NULL, 0, &(size_t){0}, &(int64_t){0}, &said));
    says(SQLOCK_EFORK, sqlock_with(f->m, "x", NULL, work_never, NULL, NULL, &said));
    assert_int_equal(said.code, SQLOCK_EFORK);
    sqlock_cancel_fire(f->cancel); /* which cuts nothing of the parent's */
    sqlock_op_cancel(f->op);
    says(SQLOCK_EFORK, sqlock_op_finish(f->op, &none, &said));
    assert_null(none);
    none = f->lock;
    sqlock_scope_end(&none);
    for (int i = 0; i < 2; i++) { /* nothing is done, so it can be done twice */
        drop(f->lock);
        drop(f->imported);
        close_here(f->m);
    }
    assert_state(SQLOCK_LOST, f->lock);
    return 0;
}

static sqlock_cancel *parents_cancel;

/* It could not be fired there. */
static int use_parents_cancel(void *arg)
{
    struct world *w = arg;
    sqlock_acquire_opts o = wait_opts(SQLOCK_WAIT_FOREVER, 0, 0);
    sqlock_lock *none = NULL;
    sqlock *m = NULL;

    o.cancel = parents_cancel;
    ok(open_here(w, NULL, &m, &said));
    says(SQLOCK_EFORK, sqlock_acquire(m, "nightly", &o, &none, &said));
    return 0;
}

TEST(test_P17_cancel_of_the_parent_is_refused_in_a_child)
{
    ok(sqlock_cancel_new(&parents_cancel, &said));
    assert_int_equal(child_wait(child_start(use_parents_cancel, w), patience_ms(10000)), 0);
    sqlock_cancel_free(parents_cancel);
}

TEST(test_handles_are_dead_in_a_child_and_live_in_the_parent, m)
{
    struct forked f = {.m = m};
    sqlock_acquire_opts o = wait_opts(0, 10000, 0), waits = wait_opts(SQLOCK_WAIT_FOREVER, 0, 0);
    sqlock_lock *next = NULL;
    long renewals;

    o.renew_ms = 100;
    f.lock = take_with(m, "nightly", &o);
    ok(sqlock_import(m, "nightly", sqlock_lock_owner(f.lock), sqlock_lock_token(f.lock), NULL,
                     &f.imported, &said));
    ok(sqlock_cancel_new(&f.cancel, &said));
    waits.cancel = f.cancel;
    ok(sqlock_acquire_start(m, "nightly", &waits, &f.op, &said));
    for (int i = 0; i < 3; i++)
        assert_int_equal(child_wait(child_start(use_dead_handles, &f), patience_ms(10000)), 0);
    renewals = spy_runs(SQLOCK_STMT_RENEW);
    assert_soon(spy_runs(SQLOCK_STMT_RENEW) >= renewals + 5, patience_ms(5000));
    ok(sqlock_renew(f.lock, &said));
    assert_int_equal(try_once(m, "nightly"), SQLOCK_EBUSY);
    assert_state(SQLOCK_UNSURE, f.imported);
    ok(sqlock_settle(f.imported, 0, &said));
    drop(f.imported);
    assert_int_equal(sqlock_op_step(f.op), 0);
    give(f.lock);
    ok(sqlock_op_finish(f.op, &next, &said));
    give(next);
    sqlock_cancel_free(f.cancel);
}

/* ---- what a program that the holder executes inherits ---------------------------------------- */

static int exec_count(void *arg)
{
    (void)arg;
    execl("/bin/sh", "sh", "-c", "ls -l /proc/self/fd >&2; exit $(ls /proc/self/fd | wc -l)",
          (char *)NULL);
    return 91;
}

/* How many descriptors an executed program has; the log tells which. */
static int inherited(void)
{
    return child_wait(child_start(exec_count, NULL), patience_ms(10000));
}

TEST(test_no_descriptor_is_inherited_by_an_executed_program, m)
{
    sqlock_acquire_opts o = wait_opts(SQLOCK_WAIT_FOREVER, 0, 0);
    int n = inherited();
    sqlock_lock *lock = take_for(m, "nightly", patience_ms(600), 0), *next = NULL;
    sqlock_op *op = NULL;

    assert_between(3, n, 50);
    assert_between(0, sqlock_lock_fd(lock, &said), INT32_MAX);
    ok(sqlock_acquire_start(m, "nightly", &o, &op, &said));
    assert_soon(spy_opens() >= 3, patience_ms(3000)); /* migrate, calls, renewals */
    /* libmariadb makes a socket first, and then one that is not inherited. */
    assert_soon(inherited() == n, patience_ms(3000));
    give(lock);
    ok(sqlock_op_finish(op, &next, &said));
    give(next);
}
