/* Calls on leases: each is one line of the table at the end. */
#include <sqlock/mode.h>

#include "tests/counted/scene.h"

#include <poll.h>

/* ---- acquire --------------------------------------------------------------------------------- */

static int acquire_for(struct scene *s, int32_t wait_ms, sqlock_error *err)
{
    sqlock_acquire_opts o = take_opts(wait_ms);
    sqlock_holder holder = {.size = sizeof holder};

    o.holder = &holder;
    return sqlock_acquire(s->m, s->name, &o, &s->lock, err);
}

static int acquire_try(struct scene *s, sqlock_error *err)
{
    return acquire_for(s, 0, err);
}

/* The second time the reasons travel with it, where a driver can do that. */
static int acquire_try_again(struct scene *s, sqlock_error *err)
{
    int rc = acquire_try(s, err);

    return rc == SQLOCK_EBUSY ? acquire_try(s, err) : rc;
}

static int acquire_wait(struct scene *s, sqlock_error *err)
{
    return acquire_for(s, patience_ms(1500), err);
}

static void check_granted(struct scene *s, int rc)
{
    assert_true((s->lock != NULL) == (rc == 0 || rc == SQLOCK_EUNSURE));
    if (rc == 0)
        assert_int_equal(sqlock_lock_state(s->lock), SQLOCK_HELD);
    else if (rc == SQLOCK_EUNSURE)
        assert_int_equal(sqlock_lock_state(s->lock), SQLOCK_UNSURE);
    else if (!(s->err->flags & SQLOCK_MAYBE))
        assert_false(row_of(s->others, s->name).held);
    assert_true(rc != SQLOCK_EBUSY && rc != SQLOCK_EGUARDED && rc != SQLOCK_ELOST);
}

/* Theirs stays theirs. */
static void check_refused(struct scene *s, int rc)
{
    assert_true(rc < 0);
    assert_true((s->lock != NULL) == (rc == SQLOCK_EUNSURE));
    assert_true(sqlock_is_held(s->theirs));
    assert_true(is_ours(s, s->theirs));
}

static int finish(sqlock_op *op, sqlock_lock **out_lock, sqlock_error *err)
{
    struct pollfd p = {sqlock_op_fd(op), POLLIN, 0};
    int32_t limit_ms = patience_ms(20000);

    assert_true(p.fd >= 0 || p.fd == SQLOCK_ESYS);
    while (p.fd >= 0 && !sqlock_op_step(op))
        if (poll(&p, 1, limit_ms) != 1)
            fail_msg("a request of an event loop never ends");
    return sqlock_op_finish(op, out_lock, err);
}

static int acquire_loop(struct scene *s, sqlock_error *err)
{
    sqlock_acquire_opts o = take_opts(patience_ms(1500));
    sqlock_op *op = NULL;
    int rc = sqlock_acquire_start(s->m, s->name, &o, &op, err);

    assert_true((op != NULL) == (rc == 0));
    return rc == 0 ? finish(op, &s->lock, err) : rc;
}

static int acquire_cancelled(struct scene *s, sqlock_error *err)
{
    sqlock_acquire_opts o = take_opts(SQLOCK_WAIT_FOREVER);
    sqlock_op *op = NULL;
    int rc = sqlock_acquire_start(s->m, s->name, &o, &op, err);

    assert_true((op != NULL) == (rc == 0));
    if (rc != 0)
        return rc;
    sleep_ms(60); /* it has asked by then, also on a busy machine */
    sqlock_op_cancel(op);
    return finish(op, &s->lock, err);
}

static int acquire_for_a_dead_process(struct scene *s, sqlock_error *err)
{
    sqlock_acquire_opts o = take_opts(0);

    o.owner = sqlock_lock_owner(s->theirs);
    return sqlock_acquire(s->m, s->name, &o, &s->lock, err);
}

static void check_recovered(struct scene *s, int rc)
{
    assert_true((s->lock != NULL) == (rc == 0 || rc == SQLOCK_EUNSURE));
    if (rc == 0)
        assert_int_equal(sqlock_lock_token(s->lock), sqlock_lock_token(s->theirs));
    assert_true(is_ours(s, s->theirs));
}

/* ---- import, renew --------------------------------------------------------------------------- */

static int import(struct scene *s, sqlock_error *err)
{
    return sqlock_import(s->m, s->name, sqlock_lock_owner(s->theirs), sqlock_lock_token(s->theirs),
                         NULL, &s->lock, err);
}

static void check_imported(struct scene *s, int rc)
{
    assert_true((s->lock != NULL) == (rc == 0));
    assert_true(is_ours(s, s->theirs));
}

static int settle_imported(struct scene *s, sqlock_error *err)
{
    int rc = import(s, err);

    return rc == 0 ? sqlock_settle(s->lock, 0, err) : rc;
}

static int release_imported(struct scene *s, sqlock_error *err)
{
    int rc = import(s, err);

    return rc == 0 ? sqlock_release(s->lock, err) : rc;
}

static int renew(struct scene *s, sqlock_error *err)
{
    return sqlock_renew(s->lock, err);
}

static int renew_loop(struct scene *s, sqlock_error *err)
{
    sqlock_op *op = NULL;
    int rc = sqlock_renew_start(s->lock, &op, err);

    assert_true((op != NULL) == (rc == 0));
    return rc == 0 ? finish(op, NULL, err) : rc;
}

/* Whatever became of the renewal, the lease is far from its end. */
static void check_still_held(struct scene *s, int rc)
{
    (void)rc;
    assert_int_equal(sqlock_lock_state(s->lock), SQLOCK_HELD);
}

/* ---- modes ------------------------------------------------------------------------------------
 */

static int down_and_up(struct scene *s, sqlock_error *err)
{
    int rc = sqlock_downgrade(&s->lock, err);

    return rc == 0 ? sqlock_upgrade(&s->lock, patience_ms(1500), NULL, err) : rc;
}

/* A change that was made has a new handle. */
static int finish_change(struct scene *s, sqlock_op *op, sqlock_error *err)
{
    sqlock_lock *next = NULL;
    int rc = finish(op, &next, err);

    assert_true((next != NULL) == (rc == 0 || rc == SQLOCK_EUNSURE));
    if (rc == 0)
        assert_int_equal(sqlock_lock_state(s->lock), SQLOCK_RELEASED);
    if (next != NULL) {
        sqlock_lock_free(s->lock);
        s->lock = next;
    }
    return rc;
}

static int down_and_up_loop(struct scene *s, sqlock_error *err)
{
    sqlock_op *op = NULL;
    int rc = sqlock_downgrade_start(s->lock, &op, err);

    assert_true((op != NULL) == (rc == 0));
    rc = rc == 0 ? finish_change(s, op, err) : rc;
    if (rc == 0)
        rc = sqlock_upgrade_start(s->lock, patience_ms(1500), NULL, &op, err);
    else
        return rc;
    assert_true((op != NULL) == (rc == 0));
    return rc == 0 ? finish_change(s, op, err) : rc;
}

/* No one else was there, so no one was in the way. */
static void check_changed(struct scene *s, int rc)
{
    assert_non_null(s->lock);
    assert_true(rc != SQLOCK_EBUSY && rc != SQLOCK_EGUARDED);
    if (rc == 0)
        assert_int_equal(sqlock_lock_state(s->lock), SQLOCK_HELD);
}

/* ---- release, settle ------------------------------------------------------------------------- */

static int release(struct scene *s, sqlock_error *err)
{
    return sqlock_release(s->lock, err);
}

static int release_loop(struct scene *s, sqlock_error *err)
{
    sqlock_op *op = NULL;
    int rc = sqlock_release_start(s->lock, &op, err);

    assert_true((op != NULL) == (rc == 0));
    return rc == 0 ? finish(op, NULL, err) : rc;
}

static int release_scope(struct scene *s, sqlock_error *err)
{
    (void)err;
    sqlock_scope_end(&s->lock);
    assert_null(s->lock);
    return 0;
}

/* It never comes back: released, or on its way there. */
static void check_released(struct scene *s, int rc)
{
    sqlock_state state = sqlock_lock_state(s->lock);

    assert_int_equal(state, rc == 0 ? SQLOCK_RELEASED : SQLOCK_UNSURE);
    assert_true(rc != SQLOCK_ELOST && rc != SQLOCK_EBUSY && rc != SQLOCK_EGUARDED);
}

static int settle(struct scene *s, sqlock_error *err)
{
    return sqlock_settle(s->lock, 0, err);
}

static void check_settled(struct scene *s, int rc)
{
    sqlock_state state = sqlock_lock_state(s->lock);

    assert_int_equal(state, rc == 0 ? SQLOCK_HELD : SQLOCK_UNSURE);
}

static void check_settled_import(struct scene *s, int rc)
{
    if (s->lock != NULL)
        check_settled(s, rc);
    assert_true(is_ours(s, s->theirs));
}

/* ---- what needs no database ------------------------------------------------------------------ */

static int cancel_new(struct scene *s, sqlock_error *err)
{
    int rc = sqlock_cancel_new(&s->cancel, err);

    assert_true((s->cancel != NULL) == (rc == 0));
    if (rc == 0)
        sqlock_cancel_fire(s->cancel);
    return rc;
}

static int lock_fd(struct scene *s, sqlock_error *err)
{
    int fd = sqlock_lock_fd(s->lock, err);

    return fd < 0 ? fd : 0;
}

static int free_and_close(struct scene *s, sqlock_error *err)
{
    (void)err;
    sqlock_lock_free(s->lock);
    sqlock_close(s->m);
    s->lock = NULL;
    s->m = NULL;
    return 0;
}

const struct call lease_calls[] = {
    {"acquire that tries once", "sqlock_acquire", 0, 1, 0, acquire_try, check_granted, NULL},
    {"acquire that may wait", "sqlock_acquire", OF_THE_CORE, 1, 0, acquire_wait, check_granted,
     NULL},
    {"acquire of what others hold", "sqlock_acquire", NEEDS_OTHERS, 1, SQLOCK_EBUSY, acquire_try,
     check_refused, NULL},
    {"second acquire of what others hold", "sqlock_acquire", NEEDS_OTHERS, 2, SQLOCK_EBUSY,
     acquire_try_again, check_refused, NULL},
    {"acquire for a process that died", "sqlock_acquire", NEEDS_OTHERS, 1, 0,
     acquire_for_a_dead_process, check_recovered, NULL},
    {"acquire in an event loop",
     "sqlock_acquire_start sqlock_op_fd sqlock_op_step sqlock_op_finish", OF_THE_CORE, 1, 0,
     acquire_loop, check_granted, NULL},
    {"acquire in an event loop that is cancelled", "sqlock_op_cancel", OF_THE_CORE | NEEDS_OTHERS,
     1, SQLOCK_ECANCELLED, acquire_cancelled, check_refused, NULL},
    {"import", "sqlock_import", OF_THE_CORE | NEEDS_OTHERS, 0, 0, import, check_imported, NULL},
    {"settling what was imported", "sqlock_settle", OF_THE_CORE | NEEDS_OTHERS, 1, 0,
     settle_imported, check_settled_import, NULL},
    {"release of what was imported", "sqlock_release", NEEDS_OTHERS, 1, 0, release_imported, NULL,
     NULL},
    {"renew", "sqlock_renew", NEEDS_LOCK, 1, 0, renew, check_still_held, NULL},
    {"renew in an event loop", "sqlock_renew_start", OF_THE_CORE | NEEDS_LOCK, 1, 0, renew_loop,
     check_still_held, NULL},
    {"release", "sqlock_release", NEEDS_LOCK, 1, 0, release, check_released, NULL},
    {"downgrade and upgrade", "sqlock_downgrade sqlock_upgrade", NEEDS_LOCK | NEEDS_QUEUE, 1, 0,
     down_and_up, check_changed, NULL},
    {"both changes of mode in an event loop", "sqlock_downgrade_start sqlock_upgrade_start",
     OF_THE_CORE | NEEDS_LOCK | NEEDS_QUEUE, 1, 0, down_and_up_loop, check_changed, NULL},
    {"release in an event loop", "sqlock_release_start", OF_THE_CORE | NEEDS_LOCK, 1, 0,
     release_loop, check_released, NULL},
    {"the end of a scope", "sqlock_scope_end sqlock_lock_end", OF_THE_CORE | NEEDS_LOCK, 1, 0,
     release_scope, NULL, NULL},
    {"settling an acquire whose reply was lost", "sqlock_settle", NEEDS_UNSURE, 1, 0, settle,
     check_settled, NULL},
    {"release of an acquire whose reply was lost", "sqlock_release", NEEDS_UNSURE, 1, 0, release,
     check_released, NULL},
    {"a cancel object", "sqlock_cancel_new sqlock_cancel_fire sqlock_cancel_free", OF_THE_CORE, 0,
     0, cancel_new, NULL, NULL},
    {"a lock's descriptor", "sqlock_lock_fd", OF_THE_CORE | NEEDS_LOCK, 0, 0, lock_fd,
     check_still_held, NULL},
    {"freeing and closing", "sqlock_lock_free sqlock_close", OF_THE_CORE | NEEDS_LOCK, 0, 0,
     free_and_close, NULL, NULL},
    {0},
};
