/* Attempts, and what ends them. Those under a lock are in tests/drivers/suite_scope.c. */
#include <sqlock/retry.h>

#include <pthread.h>
#include <string.h>

#include "tests/lib/check.h"

/* What the attempts answer, one after the other; the last one again and again. */
struct plan {
    const int *answers;
    size_t n;
    int made;
    int pessimistic; /* the first attempt that was, or 0 */
    int64_t began[64];
};

static const int conflict[] = {SQLOCK_CONFLICT};

static int follow(const sqlock_attempt *attempt, void *user, sqlock_error *err)
{
    struct plan *p = user;

    assert_int_equal(attempt->size, sizeof *attempt);
    assert_int_equal(attempt->number, ++p->made);
    assert_null(attempt->lock);
    assert_int_equal(err->code, 0);
    if (attempt->pessimistic && p->pessimistic == 0)
        p->pessimistic = attempt->number;
    if (p->made < 64)
        p->began[p->made] = sqlock_now_us();
    err->code = p->answers[(size_t)p->made <= p->n ? (size_t)p->made - 1 : p->n - 1];
    return err->code;
}

static sqlock_retry_opts quick(int32_t attempts)
{
    sqlock_retry_opts o = SQLOCK_RETRY_OPTS_INIT;

    o.attempts = attempts;
    o.base_ms = 0;
    return o;
}

static int answer(const int *answers, size_t n, const sqlock_retry_opts *o, struct plan *p)
{
    *p = (struct plan){.answers = answers, .n = n};
    return sqlock_retry(NULL, follow, p, o, NULL);
}

TEST(test_attempts_go_on_while_nothing_was_committed)
{
    static const int answers[] = {SQLOCK_CONFLICT, SQLOCK_EBUSY,    SQLOCK_ETXRESTART,
                                  SQLOCK_ETXGONE,  SQLOCK_CONFLICT, 0};
    sqlock_retry_opts o = quick(10);
    struct plan p;

    assert_int_equal(answer(answers, 6, &o, &p), 0);
    assert_int_equal(p.made, 6);
    assert_int_equal(p.pessimistic, 0);
}

TEST(test_what_is_no_conflict_is_final)
{
    static const int finals[] = {SQLOCK_EUNSURE,
                                 SQLOCK_EDB,
                                 SQLOCK_ELOST,
                                 SQLOCK_ETIMEOUT,
                                 SQLOCK_ESTATE,
                                 SQLOCK_EINVAL,
                                 2,
                                 77};
    sqlock_retry_opts o = quick(10);
    struct plan p;

    for (size_t i = 0; i < sizeof finals / sizeof *finals; i++) {
        const int answers[] = {SQLOCK_CONFLICT, finals[i]};

        assert_int_equal(answer(answers, 2, &o, &p), finals[i]);
        assert_int_equal(p.made, 2);
    }
}

TEST(test_last_answer_is_reported_when_attempts_run_out)
{
    static const int answers[] = {SQLOCK_EBUSY, SQLOCK_CONFLICT};
    sqlock_retry_opts o = quick(7);
    struct plan p;

    assert_int_equal(answer(answers, 2, &o, &p), SQLOCK_CONFLICT);
    assert_int_equal(p.made, 7);
}

TEST(test_attempts_become_pessimistic_when_they_have_to)
{
    sqlock_retry_opts o = quick(5);
    struct plan p;

    o.optimistic = 3;
    answer(conflict, 1, &o, &p);
    assert_int_equal(p.pessimistic, 4);
    o.optimistic = 0;
    answer(conflict, 1, &o, &p);
    assert_int_equal(p.pessimistic, 1);
    o.optimistic = 5;
    answer(conflict, 1, &o, &p);
    assert_int_equal(p.pessimistic, 0);
}

TEST(test_pauses_double_at_random_up_to_the_cap)
{
    sqlock_retry_opts o = quick(30);
    struct plan p;
    int64_t before = sqlock_now_us(), took;
    int brief = 0;

    o.base_ms = 1;
    o.cap_ms = 8;
    answer(conflict, 1, &o, &p);
    took = sqlock_now_us() - before;
    assert_int_equal(p.made, 30);
    /* 29 pauses of 0 to 1, 2, 4, 8, 8 ... ms: 104 ms on average; less than 30 in no run at all */
    assert_true(took > 30000);
    for (int i = 11; i <= 30; i++)
        brief += p.began[i] - p.began[i - 1] < 4000;
    assert_in_range(brief, 1, 19); /* some are short, some are long: all one way is 1 in 500,000 */
}

TEST(test_no_attempt_begins_when_time_is_up)
{
    sqlock_retry_opts o = quick(INT32_MAX);
    int64_t before = sqlock_now_us();
    struct plan p;

    o.base_ms = o.cap_ms = 20;
    o.total_ms = 100;
    assert_int_equal(answer(conflict, 1, &o, &p), SQLOCK_CONFLICT);
    assert_true(sqlock_now_us() - before < 100000 + late_ms(500) * 1000);
    assert_in_range(p.made, 2, 60);
    for (int i = 1; i <= p.made; i++)
        assert_true(p.began[i] - before <= 100000 + late_ms(50) * 1000);
    o.total_ms = 0;
    assert_int_equal(answer(conflict, 1, &o, &p), SQLOCK_CONFLICT);
    assert_int_equal(p.made, 1); /* the first one always */
}

static void *fire_soon(void *cancel)
{
    sleep_ms(50);
    sqlock_cancel_fire(cancel);
    return NULL;
}

TEST(test_cancel_cuts_a_pause)
{
    sqlock_retry_opts o = quick(3);
    struct plan p = {.answers = conflict, .n = 1};
    int64_t before = sqlock_now_us();
    sqlock_error err;
    pthread_t t;

    o.base_ms = o.cap_ms = 3600000; /* a thousandth of it would be too long */
    o.total_ms = SQLOCK_WAIT_FOREVER;
    assert_ok(sqlock_cancel_new(&o.cancel, &err), &err);
    assert_int_equal(pthread_create(&t, NULL, fire_soon, o.cancel), 0);
    assert_code(SQLOCK_ECANCELLED, sqlock_retry(NULL, follow, &p, &o, &err), &err);
    pthread_join(t, NULL);
    assert_true(sqlock_now_us() - before < patience_ms(3000) * 1000);
    assert_int_equal(p.made, 1);
    p.made = 0;
    assert_code(SQLOCK_ECANCELLED, sqlock_retry(NULL, follow, &p, &o, &err), &err);
    assert_int_equal(p.made, 1); /* fired before: no second one */
    sqlock_cancel_free(o.cancel);
}

TEST(test_arguments_are_judged_before_any_attempt)
{
    static const int answers[] = {0};
    struct plan p = {.answers = answers, .n = 1};
    sqlock_retry_opts bad[8];
    sqlock_error err;

    for (size_t i = 0; i < 8; i++)
        bad[i] = quick(3);
    bad[0].attempts = 0;
    bad[1].optimistic = -1;
    bad[2].base_ms = -1;
    bad[3].cap_ms = 3600001;
    bad[4].total_ms = -7;
    bad[5].lease_ms = 1;
    bad[6].lock_name = "a"; /* and no manager */
    bad[7].size = 0;
    for (size_t i = 0; i < 8; i++)
        assert_code(SQLOCK_EINVAL, sqlock_retry(NULL, follow, &p, &bad[i], &err), &err);
    assert_code(SQLOCK_EINVAL, sqlock_retry(NULL, NULL, &p, NULL, &err), &err);
    assert_int_equal(p.made, 0);
    assert_ok(sqlock_retry(NULL, follow, &p, NULL, &err), &err);
    assert_int_equal(p.made, 1);
}

TEST_MAIN_EACH(NULL, NULL)
