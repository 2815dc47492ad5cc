/* Calls on several locks at once: each is one line of the table at the end. */
#include <pthread.h>

#include <sqlock/many.h>

#include "tests/counted/scene.h"

/* A code that no call has: it was not filled in. */
enum { UNSAID = 12345 };

static struct {
    int each[2]; /* of the call's locks */
    int released;
} codes;

static const char *second_name(const struct scene *s)
{
    return textf("%s/and", s->name);
}

static bool is_held(struct scene *s, const char *name)
{
    return row_of(s->others, name).held;
}

/* What was not granted, or was given back, is free, if the call knows it. */
static bool is_sure(const struct scene *s, int rc)
{
    return rc != SQLOCK_EUNSURE && !(s->err->flags & SQLOCK_MAYBE);
}

/* ---- acquire --------------------------------------------------------------------------------- */

static int acquire_each(struct scene *s, sqlock_error *err)
{
    const char *names[] = {s->name, second_name(s)};
    sqlock_acquire_opts o = take_opts(0);
    sqlock_lock *locks[2];
    int rc;

    codes.each[0] = codes.each[1] = UNSAID;
    rc = sqlock_acquire_each(s->m, names, 2, &o, locks, codes.each, err);
    s->lock = locks[0];
    s->second = locks[1];
    return rc;
}

static void check_each_granted(struct scene *s, int rc)
{
    sqlock_lock *locks[] = {s->lock, s->second};

    assert_true(rc != SQLOCK_EBUSY && rc != SQLOCK_EGUARDED && rc != SQLOCK_ELOST);
    for (int i = 0; i < 2; i++) {
        int code = codes.each[i];

        assert_true((locks[i] != NULL) == (code == 0 || code == SQLOCK_EUNSURE));
        if (locks[i] != NULL)
            assert_int_equal(sqlock_lock_state(locks[i]), code == 0 ? SQLOCK_HELD : SQLOCK_UNSURE);
        assert_true(rc != 0 || code == 0);
    }
}

static int acquire_all(struct scene *s, sqlock_error *err)
{
    const char *names[] = {second_name(s), s->name};
    sqlock_acquire_opts o = take_opts(0);
    sqlock_lock *locks[2];
    int rc = sqlock_acquire_all(s->m, names, 2, &o, locks, err);

    s->second = locks[0];
    s->lock = locks[1];
    return rc;
}

static void check_all_or_none(struct scene *s, int rc)
{
    assert_true((s->lock != NULL) == (rc == 0) && (s->second != NULL) == (rc == 0));
    if (rc != 0 && is_sure(s, rc))
        assert_false(is_held(s, s->name) || is_held(s, second_name(s)));
}

/* Theirs stays theirs, and the other one is given back. */
static void check_none(struct scene *s, int rc)
{
    assert_true(rc < 0 && s->lock == NULL && s->second == NULL);
    assert_true(sqlock_is_held(s->theirs));
    assert_true(is_ours(s, s->theirs));
    if (is_sure(s, rc))
        assert_false(is_held(s, second_name(s)));
}

/* The release may have a fault, too. Then their lease stands. */
static void *give_soon(void *arg)
{
    struct scene *s = arg;
    sqlock_error err;

    sleep_ms(40);
    return sqlock_release(s->theirs, &err) == 0 ? arg : NULL;
}

static int acquire_all_later(struct scene *s, sqlock_error *err)
{
    const char *names[] = {second_name(s), s->name};
    sqlock_acquire_opts o = take_opts(patience_ms(400));
    sqlock_lock *locks[2];
    pthread_t thread;
    bool runs = pthread_create(&thread, NULL, give_soon, s) == 0;
    int rc = sqlock_acquire_all(s->m, names, 2, &o, locks, err);

    s->second = locks[0];
    s->lock = locks[1];
    if (runs)
        pthread_join(thread, NULL);
    return rc;
}

/* What it was offered when it gave up stands for one offer at most (P23). */
static bool is_free_soon(struct scene *s, const char *name)
{
    for (int i = 0; i < 200 && is_held(s, name); i++)
        sleep_ms(10);
    return !is_held(s, name);
}

static void check_all_later(struct scene *s, int rc)
{
    assert_true((s->lock != NULL) == (rc == 0) && (s->second != NULL) == (rc == 0));
    if (rc != 0 && is_sure(s, rc))
        assert_false(is_held(s, second_name(s)));
    if (rc != 0 && is_sure(s, rc) && sqlock_lock_state(s->theirs) == SQLOCK_RELEASED)
        assert_true(is_free_soon(s, s->name));
}

/* ---- release, swap --------------------------------------------------------------------------- */

static int end_each(struct scene *s, sqlock_error *err)
{
    sqlock_lock *locks[] = {s->lock, NULL, s->second};
    int each[3] = {UNSAID, UNSAID, UNSAID}, rc = sqlock_end_each(locks, 3, each, err);

    s->lock = locks[0];
    s->second = locks[2];
    codes.each[0] = each[0];
    codes.each[1] = each[2];
    return rc;
}

/* A handle that stays was not sent; it is held, as all that are left. */
static void check_each_ended(struct scene *s, int rc)
{
    assert_true((s->lock == NULL) == (codes.each[0] != UNSAID));
    assert_true((s->second == NULL) == (codes.each[1] != UNSAID));
    assert_true(rc != 0 || (codes.each[0] == 0 && codes.each[1] == 0));
    assert_false(codes.each[0] == 0 && is_held(s, s->name));
    assert_false(codes.each[1] == 0 && is_held(s, second_name(s)));
}

static int swap(struct scene *s, sqlock_error *err)
{
    sqlock_acquire_opts o = take_opts(0);

    codes.released = UNSAID;
    return sqlock_swap(s->m, &s->lock, second_name(s), &o, &codes.released, err);
}

static void check_swapped(struct scene *s, int rc)
{
    assert_true(rc != SQLOCK_EBUSY && rc != SQLOCK_EGUARDED && rc != SQLOCK_ELOST);
    if (codes.released == UNSAID) { /* nothing was sent */
        assert_true(rc < 0);
        assert_string_equal(sqlock_lock_name(s->lock), s->name);
        assert_int_equal(sqlock_lock_state(s->lock), SQLOCK_HELD);
        return;
    }
    assert_true((s->lock != NULL) == (rc == 0 || rc == SQLOCK_EUNSURE));
    if (s->lock != NULL) {
        assert_string_equal(sqlock_lock_name(s->lock), second_name(s));
        assert_int_equal(sqlock_lock_state(s->lock), rc == 0 ? SQLOCK_HELD : SQLOCK_UNSURE);
    }
    assert_false(codes.released == 0 && is_held(s, s->name));
}

const struct call many_calls[] = {
    {"acquire of as many as possible", "sqlock_acquire_each", 0, 1, 0, acquire_each,
     check_each_granted, NULL},
    {"acquire of all or none", "sqlock_acquire_all", OF_THE_CORE, 1, 0, acquire_all,
     check_all_or_none, NULL},
    {"acquire of all where others hold one", "sqlock_acquire_all", OF_THE_CORE | NEEDS_OTHERS, 1,
     SQLOCK_EBUSY, acquire_all, check_none, NULL},
    {"acquire of all that waits for one", "sqlock_acquire_all",
     OF_THE_CORE | NEEDS_OTHERS | NEEDS_QUEUE, 1, 0, acquire_all_later, check_all_later, NULL},
    {"the end of several", "sqlock_end_each", NEEDS_LOCK | NEEDS_SECOND, 1, 0, end_each,
     check_each_ended, NULL},
    {"swap", "sqlock_swap", NEEDS_LOCK, 1, 0, swap, check_swapped, NULL},
    {0},
};
