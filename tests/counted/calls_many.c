/* Calls for several locks at once: each is one line of the table at the end. */
#include "tests/counted/scene.h"

#include <sqlock/many.h>
#include <stdio.h>
#include <string.h>

/* The scene's name and another one. What is got of the other one runs out. */
struct two {
    char other[72];
    const char *names[2];
    sqlock_lock *locks[2];
};

static void two_begin(struct two *t, const struct scene *s)
{
    memset(t, 0, sizeof *t);
    snprintf(t->other, sizeof t->other, "%s too", s->name);
    t->names[0] = s->name;
    t->names[1] = t->other;
}

static int two_end(struct two *t, struct scene *s, int rc)
{
    s->lock = t->locks[0];
    sqlock_lock_free(t->locks[1]);
    return rc;
}

static int acquire_each(struct scene *s, sqlock_error *err)
{
    sqlock_acquire_opts o = take_opts(0);
    struct two t;

    two_begin(&t, s);
    return two_end(&t, s, sqlock_acquire_each(s->m, t.names, 2, &o, t.locks, NULL, err));
}

static int acquire_all(struct scene *s, sqlock_error *err)
{
    sqlock_acquire_opts o = take_opts(patience_ms(1500));
    struct two t;

    two_begin(&t, s);
    return two_end(&t, s, sqlock_acquire_all(s->m, t.names, 2, &o, t.locks, err));
}

/* rc is of the first name that failed. */
static void check_each(struct scene *s, int rc)
{
    if (rc == 0)
        assert_non_null(s->lock);
    if (s->lock != NULL && sqlock_lock_state(s->lock) != SQLOCK_UNSURE)
        assert_int_equal(sqlock_lock_state(s->lock), SQLOCK_HELD);
}

static void check_all(struct scene *s, int rc)
{
    assert_int_equal(s->lock != NULL, rc == 0);
    if (rc == 0)
        assert_int_equal(sqlock_lock_state(s->lock), SQLOCK_HELD);
    else if (!(s->err->flags & SQLOCK_MAYBE))
        assert_false(row_of(s->others, s->name).held);
}

static int end_each(struct scene *s, sqlock_error *err)
{
    sqlock_lock *locks[] = {NULL, s->lock};
    int rc = sqlock_end_each(locks, 2, NULL, err);

    s->lock = locks[1];
    return rc;
}

static void check_ended(struct scene *s, int rc)
{
    assert_null(s->lock);
    if (rc == 0)
        assert_false(row_of(s->others, s->name).held);
}

static int swap(struct scene *s, sqlock_error *err)
{
    sqlock_acquire_opts o = take_opts(patience_ms(1500));
    int released = 0, rc;
    struct two t;

    two_begin(&t, s);
    t.locks[1] = s->lock;
    rc = sqlock_swap(s->m, &t.locks[1], t.other, &o, &released, err);
    if (t.locks[1] == s->lock) { /* nothing was sent */
        t.locks[0] = s->lock;
        t.locks[1] = NULL;
    } else {
        s->number = released;
        assert_true((t.locks[1] != NULL) == (rc == 0 || rc == SQLOCK_EUNSURE));
    }
    return two_end(&t, s, rc);
}

static void check_swapped(struct scene *s, int rc)
{
    if (s->lock != NULL)
        assert_true(is_ours(s, s->lock) && rc != 0);
    else if (s->number == 0)
        assert_false(row_of(s->others, s->name).held);
}

const struct call many_calls[] = {
    {"acquire of each of two names", "sqlock_acquire_each", 0, 1, 0, acquire_each, check_each,
     NULL},
    {"acquire of all of two names or none", "sqlock_acquire_all", 0, 1, 0, acquire_all, check_all,
     NULL},
    {"the end of several locks", "sqlock_end_each", NEEDS_LOCK, 1, 0, end_each, check_ended, NULL},
    {"a swap", "sqlock_swap", NEEDS_LOCK, 1, 0, swap, check_swapped, NULL},
    {0},
};
