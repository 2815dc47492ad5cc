/* Totals add up, in C for the bar of the short form and in awk for the report, and what cannot be
 * read is refused. */
#include "tests/torture/totals.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/check.h"
#include "tests/torture/fault.h"

/* A line of before there were overlaps, two cells, some that could not be had. */
static const char lines[] =
    "d\tmariadb\tv\treply-cut\t1\t2\t3\t4\t5\t6\t7\t8\t0\t10\t11\t1\n"
    "d\tmariadb\tv 2\treply-cut\t1\t2\t30\t1100\t50\t60\t70\t80\t0\t0\t0\t0\t0\n"
    "skip\tmariadb\treply-cut\tno root then\n"
    "skip\tpostgres\tfailed-back\tno root\n"
    "d\tmariadb\tv 2\tfailed-back\t1\t2\t0\t13\t17\t0\t0\t0\t0\t0\t0\t0\t9\n";

static const char *const told[] = {
    "| operations in checked histories | 33 | 5000000 |",
    "| violations | 1 | 0 |",
    "| mariadb | v 2 | 3 | 1 | 33 | 1117 | 72 | 66, 77 | 88, 0 | 11 | 1 |",
    "| postgres | never run |",
    "| failed-back | mariadb | 17 | 40 | 13 | 9 | 0 |",
    "| failed-back | postgres | not run | 40 | | | |",
    "| reply-cut: replies are cut after what they answer was done | 55 / 1104 / 1 | - |",
    "| failed-back: the first is started again | 17 / 13 / 0 | not run |",
    "- postgres, failed-back: no root"};

static char path[300], said[8192];

static void put(const char *all)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fputs(all, f);
    assert_int_equal(fclose(f), 0);
}

static int setup(void **state)
{
    *state = temp_dir();
    snprintf(path, sizeof path, "%s/totals.tsv", (char *)*state);
    return 0;
}

static int teardown(void **state)
{
    temp_dir_remove(*state);
    return 0;
}

/* What the report says of two engines and two kinds of faults; its exit status. */
static int report(void)
{
    FILE *f =
        popen(text("printf 'engine\\tmariadb\\nengine\\tpostgres\\n"
                   "fault\\treply-cut\\treplies are cut after what they answer was done\\t0\\n"
                   "fault\\tfailed-back\\tthe first is started again\\t1\\n"
                   "cell\\tmariadb\\treply-cut\\ncell\\tmariadb\\tfailed-back\\n"
                   "cell\\tpostgres\\tfailed-back\\n'"
                   " | awk -f tests/torture/totals.awk - '%s' 2>&1",
                   path),
              "r");

    assert_non_null(f);
    said[fread(said, 1, sizeof said - 1, f)] = '\0';
    return pclose(f);
}

static void test_the_report_adds_up_and_tells_what_was_skipped(void **state)
{
    (void)state;
    put(lines);
    assert_int_equal(report(), 0);
    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        if (!strstr(said, told[i]))
            fail_msg("the report does not say: %s\n%s", told[i], said);
    assert_null(strstr(said, "no root then"));
}

static void test_a_line_that_is_cut_is_refused(void **state)
{
    struct total sum;

    (void)state;
    put("2026-11-21T00:00:00Z\tmariadb\tv\treply-cut\t1\t2\n");
    assert_int_not_equal(report(), 0);
    assert_non_null(strstr(said, "totals.tsv:1: not a line of totals"));
    assert_false(totals_sum(path, NULL, NULL, &sum));
}

static void test_sums_are_those_of_the_engine_and_the_fault(void **state)
{
    const struct total one = {.date = "d",
                              .engine = "mariadb",
                              .version = "a version with blanks",
                              .fault = "reply-cut",
                              .events = 5,
                              .overlaps = 3},
                       two = {.engine = "postgres", .fault = "reply-cut", .events = 7};
    struct total sum;

    (void)state;
    assert_true(totals_sum(path, NULL, NULL, &sum));
    assert_int_equal(sum.cells, 0);
    assert_true(totals_append(path, &one));
    assert_true(totals_append(path, &one));
    assert_true(totals_append_skip(path, "mariadb", "disk-full", "no root"));
    assert_true(totals_append(path, &two));
    assert_true(totals_sum(path, "mariadb", "reply-cut", &sum));
    assert_int_equal(sum.cells, 2);
    assert_int_equal(sum.events, 10);
    assert_int_equal(sum.overlaps, 6);
    assert_true(totals_sum(path, NULL, NULL, &sum));
    assert_int_equal(sum.events, 17);
    assert_true(totals_sum(path, "sqlite-wal", NULL, &sum));
    assert_int_equal(sum.cells, 0);
}

static void test_every_engine_has_kinds_enough(void **state)
{
    (void)state;
    for (size_t i = 0; engine_at(i); i++) {
        int n = 0;

        for (size_t k = 0; fault_at(k); k++)
            n += fault_exists(fault_at(k), engine_at(i));
        assert_between(16, n, 64);
    }
}

#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
static const struct CMUnitTest tests[] = {T(test_the_report_adds_up_and_tells_what_was_skipped),
                                          T(test_a_line_that_is_cut_is_refused),
                                          T(test_sums_are_those_of_the_engine_and_the_fault),
                                          cmocka_unit_test(test_every_engine_has_kinds_enough)};

TEST_MAIN(tests)
