/* Long histories of a simulation: true ones are proved, and quickly; where one thing is made wrong
 * in them, that is found. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/lib/check.h"
#include "tests/lib/dice.h"
#include "tests/torture/sim_wrong.h"

/* ---- true -------------------------------------------------------------------------------------
 */

static int64_t cpu_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

static void assert_proved(struct sim *s, struct check_verdict *v)
{
    if (check_history(&s->rules, s->events, s->n, v, stderr) != 0)
        fail_msg("a history that is true was refuted: seed %" PRIu64, s->seed);
}

static void test_history_of_200000_operations_is_proved_in_two_seconds(void **state)
{
    struct sim s = {.seed = 1, .names = 8, .threads = 24, .events_wanted = 280000};
    struct check_verdict v;
    int64_t begun;

    (void)state;
    sim_run(&s);
    begun = cpu_ms();
    assert_proved(&s, &v);
    assert_between(0, cpu_ms() - begun, patience_ms(2000));
    assert_between(200000, v.operations, 280000);
    assert_between(20000, v.grants, 280000);
    assert_between(10, v.faults, 1000);
    assert_between(1000, v.unsure, 280000);
    assert_between(1000, v.settled, v.unsure);
    assert_between(1000, v.guarded, 280000);
    assert_between(10, v.late_refused, 280000);
    assert_int_equal(v.judged, s.names);
    free(s.events);
}

static void test_true_histories_are_proved(void **state)
{
    struct dice dice = dice_new("true histories");

    (void)state;
    for (int i = 0; i < 600; i++) {
        struct sim s = {.seed = dice_below(&dice, UINT64_MAX),
                        .together = i % 2 == 1,
                        .names = (uint32_t)dice_between(&dice, 1, 4),
                        .threads = (uint32_t)dice_between(&dice, 2, 12),
                        .events_wanted = dice_between(&dice, 10, 2000)};
        struct check_verdict v;

        sim_run(&s);
        assert_proved(&s, &v);
        free(s.events);
    }
}

/* ---- one thing wrong --------------------------------------------------------------------------
 */

static void assert_found(bool (*make_wrong)(struct wrong *), const char *what, bool together)
{
    struct dice dice = dice_new(what);
    int made = 0;

    for (int tries = 0; made < 60 && tries < 3000; tries++) {
        struct wrong w = {.sim = {.seed = dice_below(&dice, UINT64_MAX),
                                  .together = together,
                                  .names = (uint32_t)dice_between(&dice, 1, 3),
                                  .threads = (uint32_t)dice_between(&dice, 2, 8),
                                  .events_wanted = dice_between(&dice, 100, 500)},
                          .dice = dice};
        struct check_verdict v = {0};

        sim_run(&w.sim);
        if (make_wrong(&w)) {
            made++;
            w.sim.rules.rows = w.sim.rows;
            assert_int_not_equal(check_history(&w.sim.rules, w.sim.events, w.sim.n, &v, NULL), -1);
            if (v.found[w.found_by[0]] == 0 && (w.found_by[1] == 0 || v.found[w.found_by[1]] == 0))
                fail_msg("%s was not found by its rule: seed %" PRIu64 ", %" PRId64
                         " other violations",
                         what, w.sim.seed, v.violations);
        }
        free(w.sim.events);
    }
    assert_int_equal(made, 60);
}

#define FOUND(wrong)                                                                               \
    static void test_##wrong##_is_found(void **state)                                              \
    {                                                                                              \
        (void)state;                                                                               \
        assert_found(wrong_##wrong, #wrong, false);                                                \
    }
SIM_WRONGS(FOUND)

#define FOUND_TOGETHER(wrong)                                                                      \
    static void test_##wrong##_is_found(void **state)                                              \
    {                                                                                              \
        (void)state;                                                                               \
        assert_found(wrong_##wrong, #wrong, true);                                                 \
    }
SIM_WRONGS_TOGETHER(FOUND_TOGETHER)

#define TEST(wrong) cmocka_unit_test(test_##wrong##_is_found),
static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_history_of_200000_operations_is_proved_in_two_seconds),
    cmocka_unit_test(test_true_histories_are_proved), SIM_WRONGS(TEST) SIM_WRONGS_TOGETHER(TEST)};

TEST_MAIN(tests)
