/* Calls on a manager: each is one line of the table at the end. */
#include "tests/counted/scene.h"

#include <poll.h>
#include <sqlock/async.h>
#include <string.h>

/* ---- open ------------------------------------------------------------------------------------ */

static int open_it(struct scene *s, sqlock_error *err)
{
    return sqlock_open(s->driver, s->place.url, &s->opts, &s->m, err);
}

static void check_opened(struct scene *s, int rc)
{
    assert_true((s->m != NULL) == (rc == 0));
    if (rc != 0)
        assert_int_equal(faulty_open(), 0);
}

/* ---- in steps -------------------------------------------------------------------------------- */

/* What an event loop does, until op ends. */
static int step_to_the_end(struct scene *s, sqlock_op *op, sqlock_lock **out_lock,
                           sqlock_error *err)
{
    struct pollfd p = {sqlock_loop_fd(s->m), POLLIN, 0};
    int64_t end = sqlock_now_us() + patience_ms(20000) * INT64_C(1000);

    while (!sqlock_op_step(op)) {
        if (sqlock_now_us() > end)
            fail_msg("a request of an event loop never ends");
        if (poll(&p, 1, 100) == 1)
            assert_int_equal(sqlock_loop_step(s->m), 0);
        assert_true(sqlock_loop_due_us(s->m) > 0 || poll(&p, 1, 0) == 1);
    }
    return sqlock_op_finish(op, out_lock, err);
}

static int open_in_steps(struct scene *s, sqlock_error *err)
{
    sqlock_op *op = NULL;
    int rc = sqlock_open_start(s->driver, s->place.url, &s->opts, &s->m, &op, err);

    assert_true((op != NULL) == (rc == 0) && (s->m != NULL) == (rc == 0));
    if (rc != 0)
        return rc;
    if ((rc = step_to_the_end(s, op, NULL, err)) != 0) {
        sqlock_close(s->m); /* it could go on */
        s->m = NULL;
    }
    return rc;
}

static int acquire_in_steps(struct scene *s, sqlock_error *err)
{
    sqlock_op *op = NULL;
    int rc = open_in_steps(s, err);

    if (rc == 0 && (rc = sqlock_acquire_start(s->m, s->name, NULL, &op, err)) == 0)
        rc = step_to_the_end(s, op, &s->lock, err);
    return rc;
}

/* ---- seeing and breaking --------------------------------------------------------------------- */

static int count(const sqlock_info *info, void *user)
{
    struct scene *s = user;

    s->number += strcmp(info->name, s->name) == 0;
    return 0;
}

static int list(struct scene *s, sqlock_error *err)
{
    sqlock_list_opts o = SQLOCK_LIST_OPTS_INIT;

    o.prefix = s->name;
    return sqlock_list(s->m, &o, count, s, err);
}

/* Each is told once, whatever was asked twice. */
static void check_listed(struct scene *s, int rc)
{
    assert_in_range(s->number, rc == 0, 1);
}

static int count_waiter(const sqlock_waiter *waiter, void *user)
{
    (void)waiter;
    ((struct scene *)user)->number++;
    return 0;
}

static int list_waiters(struct scene *s, sqlock_error *err)
{
    return sqlock_list_waiters(s->m, s->name, count_waiter, s, err);
}

static void check_none_waits(struct scene *s, int rc)
{
    (void)rc;
    assert_int_equal(s->number, 0);
}

static int find(struct scene *s, sqlock_error *err)
{
    sqlock_info info = {.size = sizeof info};
    int rc = sqlock_find(s->m, s->name, &info, err);

    s->number = rc == 0 && info.holder.token == sqlock_lock_token(s->theirs);
    return rc;
}

static void check_found(struct scene *s, int rc)
{
    assert_int_equal(s->number, rc == 0);
}

static int break_it(struct scene *s, sqlock_error *err)
{
    return sqlock_break(s->m, s->name, sqlock_lock_token(s->theirs), err);
}

static void check_broken(struct scene *s, int rc)
{
    int ours = is_ours(s, s->theirs);

    assert_true(rc != SQLOCK_EBUSY && rc != SQLOCK_EGUARDED);
    if (rc == 0 || rc == SQLOCK_ELOST)
        assert_false(ours);
    else if (!(s->err->flags & SQLOCK_MAYBE))
        assert_true(ours);
}

/* ---- reaping --------------------------------------------------------------------------------- */

static sqlock_reap_report report;

static int reap(struct scene *s, sqlock_error *err)
{
    sqlock_reap_opts o = SQLOCK_REAP_OPTS_INIT;

    o.idle_ms = SQLOCK_REAP_IDLE_MIN_MS;
    memset(&report, 0, sizeof report);
    report.size = sizeof report;
    return sqlock_reap(s->m, &o, &report, err);
}

static void check_dead(struct scene *s, int tidy)
{
    struct row row = row_of(s->others, textf("%s/0", s->name));

    assert_int_equal(row.n, 1);
    if (tidy)
        assert_false(row.held);
    if (tidy)
        assert_int_equal(row_of(s->others, textf("%s/1", s->name)).n, 0);
}

static void check_reaped(struct scene *s, int rc)
{
    check_dead(s, rc == 0 && report.ran && !report.more);
    if (rc == 0)
        assert_true(report.ran);
}

/* What a dead reaper left is no hindrance for longer than its lease. */
static void heal_reaped(struct scene *s)
{
    sqlock_reap_opts o = SQLOCK_REAP_OPTS_INIT;
    sqlock_error err;

    s->q->age(&s->place, LEASE_MS + 1);
    o.idle_ms = SQLOCK_REAP_IDLE_MIN_MS;
    report.size = sizeof report;
    assert_ok(sqlock_reap(s->others, &o, &report, &err), &err);
    assert_true(report.ran);
    check_dead(s, 1);
}

/* ---- registers and rows ---------------------------------------------------------------------- */

#define NEW "after all"

static int get(struct scene *s, sqlock *m, char buf[64], int64_t *version, sqlock_error *err)
{
    size_t len = 0;
    int rc = sqlock_register_get(m, s->name, buf, 63, &len, version, err);

    buf[rc == 0 ? len : 0] = '\0';
    return rc;
}

static int register_get(struct scene *s, sqlock_error *err)
{
    char buf[64];
    int64_t version = -1;
    int rc = get(s, s->m, buf, &version, err);

    if (rc == 0)
        assert_int_equal(version, 0);
    else
        assert_int_equal(version, -1);
    return rc;
}

static int register_set(struct scene *s, sqlock_error *err)
{
    s->number = -1;
    return sqlock_register_set(s->m, s->name, NEW, strlen(NEW), 0, &s->number, err);
}

static void check_set(struct scene *s, int rc)
{
    sqlock_error second;
    char buf[64];
    int64_t version;

    assert_ok(get(s, s->others, buf, &version, &second), &second);
    assert_true(rc != SQLOCK_CONFLICT);
    assert_true((version > 0) == (strcmp(buf, NEW) == 0));
    if (rc == 0)
        assert_int_equal(version, s->number);
    else
        assert_int_equal(s->number, -1);
    if (rc == 0 || !(s->err->flags & SQLOCK_MAYBE))
        assert_true((version > 0) == (rc == 0));
}

static int register_change(struct scene *s, sqlock_error *err)
{
    return sqlock_register_set(s->m, s->name, NEW, strlen(NEW), s->number, NULL, err);
}

static void check_changed(struct scene *s, int rc)
{
    sqlock_error second;
    char buf[64];
    int64_t version;
    int is_new;

    assert_ok(get(s, s->others, buf, &version, &second), &second);
    is_new = strcmp(buf, NEW) == 0;
    assert_true(rc != SQLOCK_CONFLICT);
    assert_true(is_new || strcmp(buf, OLD_VALUE) == 0);
    assert_true((version > s->number) == is_new);
    if (rc == 0 || !(s->err->flags & SQLOCK_MAYBE))
        assert_true(is_new == (rc == 0));
}

static void heal_register(struct scene *s)
{
    sqlock_error err;
    char buf[64];
    int64_t version, last;

    assert_ok(get(s, s->others, buf, &version, &err), &err);
    assert_true(strcmp(buf, version == 0 ? "" : NEW) == 0 || strcmp(buf, OLD_VALUE) == 0);
    assert_ok(sqlock_register_set(s->others, s->name, "", 0, version, &last, &err), &err);
    assert_true(last > version);
}

static int ensure(struct scene *s, sqlock_error *err)
{
    return sqlock_ensure(s->m, s->name, err);
}

/* ---- scoped use, retries --------------------------------------------------------------------- */

static int work(sqlock_lock *lock, void *user)
{
    struct scene *s = user;

    assert_true(sqlock_is_held(lock));
    s->number++;
    return 42;
}

static int with(struct scene *s, sqlock_error *err)
{
    sqlock_acquire_opts o = take_opts(patience_ms(1500));
    int result = 0, rc = sqlock_with(s->m, s->name, &o, work, s, &result, err);

    assert_int_equal(result, s->number == 1 ? 42 : 0);
    return rc;
}

static void check_worked(struct scene *s, int rc)
{
    assert_in_range(s->number, rc == 0, 1);
    if (rc == 0)
        assert_false(row_of(s->others, s->name).held);
}

/* The first is spoilt by others. */
static int attempt(const sqlock_attempt *attempt, void *user, sqlock_error *err)
{
    struct scene *s = user;
    (void)err;

    assert_true((attempt->lock != NULL) == (attempt->pessimistic != 0));
    if (attempt->lock != NULL)
        assert_true(sqlock_is_held(attempt->lock));
    return s->number++ == 0 ? SQLOCK_CONFLICT : 0;
}

static int retry(struct scene *s, sqlock_error *err)
{
    sqlock_retry_opts o = SQLOCK_RETRY_OPTS_INIT;

    o.optimistic = 1;
    o.base_ms = 1;
    o.total_ms = patience_ms(2000);
    o.lock_name = s->name;
    return sqlock_retry(s->m, attempt, s, &o, err);
}

/* The work is done, also where the release of the lock fails: that runs out. */
static void check_retried(struct scene *s, int rc)
{
    assert_in_range(s->number, rc == 0 ? 2 : 1, 2);
}

const struct call manager_calls[] = {
    {"open", "sqlock_open", NEEDS_NOTHING, 2, 0, open_it, check_opened, NULL},
    {"open in steps", "sqlock_open_start sqlock_loop_fd sqlock_loop_step sqlock_loop_due_us",
     NEEDS_NOTHING, 2, 0, open_in_steps, check_opened, NULL},
    {"acquire in steps", "sqlock_open_start sqlock_loop_step", NEEDS_NOTHING, 4, 0,
     acquire_in_steps, NULL, NULL},
    {"list", "sqlock_list", NEEDS_OTHERS, 1, 0, list, check_listed, NULL},
    {"list of waiters", "sqlock_list_waiters", NEEDS_OTHERS | NEEDS_QUEUE, 1, 0, list_waiters,
     check_none_waits, NULL},
    {"find", "sqlock_find", NEEDS_OTHERS, 1, 0, find, check_found, NULL},
    {"break", "sqlock_break", NEEDS_OTHERS, 1, 0, break_it, check_broken, NULL},
    {"reap", "sqlock_reap", NEEDS_DEAD | NEEDS_PLACE, 4, 0, reap, check_reaped, heal_reaped},
    {"reading a register", "sqlock_register_get", 0, 1, 0, register_get, NULL, NULL},
    {"setting a new register", "sqlock_register_set", 0, 1, 0, register_set, check_set,
     heal_register},
    {"setting a register again", "sqlock_register_set", NEEDS_REGISTER, 1, 0, register_change,
     check_changed, heal_register},
    {"ensure", "sqlock_ensure", 0, 1, 0, ensure, NULL, NULL},
    {"scoped use", "sqlock_with", OF_THE_CORE, 2, 0, with, check_worked, NULL},
    {"retry", "sqlock_retry", OF_THE_CORE, 2, 0, retry, check_retried, NULL},
    {0},
};
