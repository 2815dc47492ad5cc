/* Once per period (recipes/once.h): of all that ask, one does the work. */
#define SUITE_NEEDS REGISTERS
#include <sqlock/register.h>

#include "recipes/once.h"
#include "tests/drivers/suite.h"

#define NAME "nightly"

struct work {
    sqlock *breaks; /* it breaks the lock meanwhile */
    bool loses;     /* the reply of the note will be lost */
    atomic_int calls;
    int result;
};

static int do_work(sqlock_lock *lock, void *user)
{
    struct work *k = user;

    k->calls++;
    if (k->breaks != NULL)
        ok(sqlock_break(k->breaks, NAME, sqlock_lock_token(lock), &said));
    if (k->loses)
        spy_lose_reply(SQLOCK_STMT_REGISTER_SET);
    return k->result;
}

static int once(sqlock *m, int64_t period, struct work *k, int *out_result)
{
    return once_run(m, NAME, period, NULL, do_work, k, out_result, &said);
}

TEST(test_work_is_done_once_per_period, m, other)
{
    struct work k = {0};
    int result = -1;

    assert_int_equal(once(m, 7, &k, &result), 0);
    assert_int_equal(result, 0);
    assert_int_equal(once(other, 7, &k, &result), ONCE_DONE);
    assert_int_equal(once(m, 7, &k, &result), ONCE_DONE);
    assert_int_equal(once(m, 6, &k, &result), ONCE_DONE); /* its clock is behind */
    assert_int_equal(k.calls, 1);
    assert_int_equal(once(other, 8, &k, &result), 0);
    assert_int_equal(k.calls, 2);
    assert_true(is_free(m, NAME));
}

/* A clock that is years ahead must not keep all others from working, unseen. */
TEST(test_ledger_of_a_clock_that_is_far_ahead_is_reported, m, other)
{
    struct work k = {0};
    int result = -1;
    struct once o;
    sqlock_lock *lock;

    assert_int_equal(once(m, 4000, &k, &result), 0);
    says(ONCE_AHEAD, once(other, 7, &k, &result));
    assert_non_null(strstr(said.text, "a clock is wrong"));
    assert_int_equal(once(other, 3999, &k, &result), ONCE_DONE);
    assert_int_equal(k.calls, 1);
    lock = take(other, NAME);
    says(ONCE_AHEAD, once_look(&o, other, NAME, 7, &said));
    ok(once_note(&o, lock, &said));
    give(lock);
    assert_int_equal(once(m, 7, &k, &result), ONCE_DONE);
    assert_int_equal(once(m, 8, &k, &result), 0);
}

TEST(test_work_that_failed_is_done_again, m, other)
{
    struct work k = {.result = 3};
    int result = -1;

    assert_int_equal(once(m, 7, &k, &result), 0);
    assert_int_equal(result, 3);
    k.result = 0;
    assert_int_equal(once(other, 7, &k, &result), 0);
    assert_int_equal(result, 0);
    assert_int_equal(k.calls, 2);
}

/* The next holder has written the ledger since, or nobody has. */
TEST(test_former_holder_does_not_write_the_ledger, m, other)
{
    struct work k = {0};
    int result = -1;
    struct once o;
    sqlock_lock *lock = take_for(m, NAME, 1000, SQLOCK_NO_RENEW);

    ok(once_look(&o, m, NAME, 7, &said));
    ok(sqlock_break(other, NAME, sqlock_lock_token(lock), &said));
    await_loss(lock);
    says(SQLOCK_ELOST, once_note(&o, lock, &said));
    assert_int_equal(once(other, 7, &k, &result), 0);
    assert_int_equal(k.calls, 1);
}

/* It does not know yet that it is no holder any more. */
TEST(test_ledger_that_changed_meanwhile_is_read_again, m, other)
{
    static const struct {
        const char *text;
        int code;
    } met[] = {{"once 8 123", 0}, {"once 7 123", 0}, {"once 6 123", SQLOCK_ELOST}};
    sqlock_lock *lock = take(m, NAME);

    for (size_t i = 0; i < sizeof met / sizeof *met; i++) {
        size_t len = 0;
        int64_t version = 0;
        struct once o = {.m = m, .name = NAME, .period = 7, .version = 0};

        ok(sqlock_register_get(other, NAME, NULL, 0, &len, &version, &said));
        o.version = version;
        ok(sqlock_register_set(other, NAME, met[i].text, strlen(met[i].text), version, NULL,
                               &said));
        says(met[i].code, once_note(&o, lock, &said));
    }
}

TEST(test_work_whose_lock_was_broken_is_reported_or_written_down, m, other)
{
    struct work k = {.breaks = other};
    int result = -1, rc = once(m, 7, &k, &result);

    assert_true(rc == 0 || rc == SQLOCK_ELOST); /* it may not know yet */
    k.breaks = NULL;
    assert_int_equal(once(other, 7, &k, &result), rc == 0 ? ONCE_DONE : 0);
}

TEST(test_lost_reply_of_the_ledger_is_settled, m)
{
    struct work k = {0};
    int result = -1;

    assert_int_equal(once(m, 6, &k, &result), 0);
    k.loses = true;
    assert_int_equal(once(m, 7, &k, &result), 0);
    assert_int_equal(once(m, 7, &k, &result), ONCE_DONE);
    assert_int_equal(k.calls, 2);
}

static atomic_int sets, refused_from, refused_to;

/* The sets with these numbers find the database away. */
static int run_without_sets(void *conn, const sqlock_call *call, sqlock_stmt stmt,
                            const sqlock_value *values, size_t n, int64_t deadline,
                            sqlock_rows *rows, sqlock_error *err)
{
    if (stmt == SQLOCK_STMT_REGISTER_SET) {
        const int set = atomic_fetch_add(&sets, 1);

        if (set >= refused_from && set < refused_to)
            return sqlock_error_set(err, SQLOCK_EDENIED, set == 0 ? 0 : SQLOCK_RETRY, "away");
    }
    return spied_driver()->run(conn, call, stmt, values, n, deadline, rows, err);
}

static sqlock *open_without_sets(struct world *w, int from, int to)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock *m = NULL;

    sets = 0;
    refused_from = from;
    refused_to = to;
    w->driver.run = run_without_sets;
    place_opts(w, &o);
    ok(open_by(&w->driver, w->place.url, &o, &m, &said));
    w->managers[w->n_managers++] = m;
    return m;
}

/* The database is away behind the work: it was done, and the lock is held. */
TEST(test_note_is_tried_again_while_the_lock_is_held)
{
    struct work k = {0};
    sqlock *m = open_without_sets(w, 1, 4);
    int result = -1;

    assert_int_equal(once(m, 7, &k, &result), 0);
    assert_int_equal(result, 0);
    assert_int_equal(k.calls, 1);
    assert_int_equal(sets, 5);
    assert_int_equal(once(m, 7, &k, &result), ONCE_DONE);
}

/* It would be done again and again. */
TEST(test_work_is_not_done_where_the_ledger_must_not_be_written)
{
    struct work k = {0};
    sqlock *m = open_without_sets(w, 0, 1);
    int result = -1;

    says(SQLOCK_EDENIED, once(m, 7, &k, &result));
    assert_int_equal(k.calls, 0);
    assert_true(is_free(m, NAME));
}

/* A register that others use is no ledger. Nothing is done, and it is left as it is. */
TEST(test_register_of_others_is_refused, m)
{
    static const char *const texts[] = {
        "7",          "once 7",     "once seven 8",
        "once 7 8 9", "once 7 8\n", "once 7 8 and a text that is longer than any ledger, by far"};
    struct work k = {0};
    int64_t version = 0, now = 0;
    int result = -1;

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        size_t len = 0;

        ok(sqlock_register_set(m, NAME, texts[i], strlen(texts[i]), version, &version, &said));
        assert_int_equal(once(m, 8, &k, &result), SQLOCK_ECORRUPT);
        assert_non_null(strstr(said.text, "no ledger"));
        ok(sqlock_register_get(m, NAME, NULL, 0, &len, &now, &said));
        assert_int_equal(now, version);
    }
    assert_int_equal(k.calls, 0);
    ok(sqlock_register_set(m, NAME, "", 0, version, &version, &said));
    assert_int_equal(once(m, 8, &k, &result), 0);
}

TEST(test_lock_that_is_held_is_reported_and_nothing_is_done, m, other)
{
    sqlock_acquire_opts opts = wait_opts(0, 0, 0);
    struct work k = {0};
    int result = -1;
    sqlock_lock *lock = take(other, NAME);

    says(SQLOCK_EBUSY, once_run(m, NAME, 7, &opts, do_work, &k, &result, &said));
    assert_int_equal(k.calls, 0);
    give(lock);
}

/* Several would do it at once, or it would be done each time. */
CORE_TEST(test_shared_lock_and_no_period_are_refused, m)
{
    sqlock_acquire_opts opts = wait_opts(0, 0, 0);
    struct work k = {0};
    int result = -1;

    says(SQLOCK_EINVAL, once(m, 0, &k, &result));
    opts.mode = SQLOCK_SHARED;
    says(SQLOCK_EINVAL, once_run(m, NAME, 7, &opts, do_work, &k, &result, &said));
    assert_int_equal(result, 0);
    assert_int_equal(k.calls, 0);
    assert_int_equal(spy_requests(SQLOCK_STMT_ACQUIRE), 0);
}

/* ---- many at once ---------------------------------------------------------------------------- */

struct asker {
    pthread_t thread;
    sqlock *m;
    struct work *k;
    int code, result;
};

static void *ask(void *arg)
{
    struct asker *a = arg;

    a->code = once(a->m, 7, a->k, &a->result);
    return NULL;
}

TEST(test_of_many_that_ask_at_once_one_does_the_work, m, other)
{
    struct work k = {0};
    struct asker askers[6];
    int did = 0;

    for (int i = 0; i < 6; i++) {
        askers[i] = (struct asker){.m = i % 2 ? m : other, .k = &k};
        assert_int_equal(pthread_create(&askers[i].thread, NULL, ask, &askers[i]), 0);
    }
    for (int i = 0; i < 6; i++) {
        pthread_join(askers[i].thread, NULL);
        assert_true(askers[i].code == 0 || askers[i].code == ONCE_DONE);
        did += askers[i].code == 0;
    }
    assert_int_equal(did, 1);
    assert_int_equal(k.calls, 1);
}

CORE_TEST(test_periods_follow_each_other)
{
    int64_t hour = once_period(3600000), now = once_period(1);

    assert_between(now / 3600000, hour, once_period(3600000));
    assert_between(now, once_period(1), now + 60000);
}
