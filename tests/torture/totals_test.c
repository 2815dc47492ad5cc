/* Totals add up over runs, and nothing is added that cannot be read. */
#include "tests/torture/totals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/check.h"
#include "tests/torture/fault.h"

static struct {
    char *dir;
    char path[300];
} t;

static int setup(void **state)
{
    (void)state;
    t.dir = temp_dir();
    snprintf(t.path, sizeof t.path, "%s/totals.tsv", t.dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    temp_dir_remove(t.dir);
    return 0;
}

static void add(const char *engine, const char *fault, int64_t events, int64_t grants,
                int64_t violations)
{
    struct total line = {.events = events, .grants = grants, .violations = violations};

    snprintf(line.date, sizeof line.date, "2026-11-21T00:00:00Z");
    snprintf(line.engine, sizeof line.engine, "%s", engine);
    snprintf(line.version, sizeof line.version, "a version with blanks");
    snprintf(line.fault, sizeof line.fault, "%s", fault);
    assert_true(totals_append(t.path, &line));
}

/* The report as one string. */
static char *report(void)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);

    assert_non_null(f);
    assert_true(totals_report(t.path, f));
    fclose(f);
    return text;
}

static void test_sums_are_those_of_the_engine_and_the_fault(void **state)
{
    struct totals all;
    struct total sum;

    (void)state;
    add("mariadb", "reply-cut", 5, 600, 0);
    add("mariadb", "reply-cut", 7, 500, 1);
    add("mariadb", "silent-up", 11, 13, 0);
    add("postgres", "reply-cut", 17, 19, 0);
    assert_true(totals_read(t.path, &all));
    assert_int_equal(all.n, 4);
    sum = totals_sum(&all, "mariadb", "reply-cut");
    assert_int_equal(sum.cells, 2);
    assert_int_equal(sum.events, 12);
    assert_int_equal(sum.grants, 1100);
    assert_int_equal(sum.violations, 1);
    assert_string_equal(sum.version, "a version with blanks");
    assert_int_equal(totals_sum(&all, NULL, NULL).events, 40);
    assert_int_equal(totals_sum(&all, "sqlite-wal", NULL).cells, 0);
    totals_free(&all);
}

static void test_a_file_that_is_not_there_has_no_cells(void **state)
{
    struct totals all;

    (void)state;
    assert_true(totals_read(t.path, &all));
    assert_int_equal(all.n, 0);
    totals_free(&all);
}

static void test_a_line_that_is_cut_is_refused(void **state)
{
    struct totals all;
    FILE *f;

    (void)state;
    add("mariadb", "reply-cut", 5, 600, 0);
    assert_non_null(f = fopen(t.path, "a"));
    fputs("2026-11-21T00:00:00Z\tmariadb\tv\treply-cut\t1\t2\n", f);
    fclose(f);
    assert_false(totals_read(t.path, &all));
    totals_free(&all);
}

/* Lines of before there was such a column. */
static void test_a_line_without_the_columns_that_came_later_is_read(void **state)
{
    struct total line = {.grants = 7, .overlaps = 3};
    struct totals all;
    struct total sum;
    FILE *f;

    (void)state;
    assert_non_null(f = fopen(t.path, "a"));
    fputs("2026-11-21T00:00:00Z\tmariadb\tv\treply-cut\t1\t2\t3\t4\t5\t6\t7\t8\t9\t10\t11\t12\n",
          f);
    fclose(f);
    snprintf(line.engine, sizeof line.engine, "mariadb");
    snprintf(line.fault, sizeof line.fault, "failed-back");
    snprintf(line.date, sizeof line.date, "2026-11-22T00:00:00Z");
    snprintf(line.version, sizeof line.version, "v");
    assert_true(totals_append(t.path, &line));
    assert_true(totals_read(t.path, &all));
    assert_int_equal(all.n, 2);
    assert_int_equal(all.lines[0].violations, 12);
    assert_int_equal(all.lines[0].overlaps, 0);
    sum = totals_sum(&all, "mariadb", NULL);
    assert_int_equal(sum.grants, 11);
    assert_int_equal(sum.overlaps, 3);
    totals_free(&all);
}

static void test_the_report_tells_of_failovers(void **state)
{
    char *text;

    (void)state;
    if (!engine_kind_of("mariadb") || !engine_kind_of("postgres"))
        skip();
    add("mariadb", "failover-sync", 17, 1900, 0);
    text = report();
    assert_non_null(strstr(text, "| failover-sync | mariadb | 17 | 40 | 1900 | 0 | 0 |\n"));
    assert_non_null(strstr(text, "| promoted-twice | postgres | not run | 40 |"));
    assert_null(strstr(text, "| promoted-twice | postgres-10"));
    free(text);
}

static void test_the_report_tells_what_was_skipped_and_why(void **state)
{
    char *text;

    (void)state;
    if (!engine_kind_of("mariadb") || !engine_kind_of("postgres"))
        skip();
    add("mariadb", "disk-full", 12, 1100, 0);
    assert_true(totals_append_skip(t.path, "mariadb", "disk-full", "no root then"));
    assert_true(totals_append_skip(t.path, "postgres", "disk-full", "no root"));
    text = report();
    assert_non_null(strstr(text, "12 / 1100 / 0"));
    assert_non_null(strstr(text, "- postgres, disk-full: no root\n"));
    assert_null(strstr(text, "no root then"));
    assert_non_null(strstr(text, "| postgres | never run |"));
    free(text);
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

#define TOTALS_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

static const struct CMUnitTest tests[] = {
    TOTALS_TEST(test_sums_are_those_of_the_engine_and_the_fault),
    TOTALS_TEST(test_a_file_that_is_not_there_has_no_cells),
    TOTALS_TEST(test_a_line_that_is_cut_is_refused),
    TOTALS_TEST(test_a_line_without_the_columns_that_came_later_is_read),
    TOTALS_TEST(test_the_report_tells_of_failovers),
    TOTALS_TEST(test_the_report_tells_what_was_skipped_and_why),
    cmocka_unit_test(test_every_engine_has_kinds_enough),
};

TEST_MAIN(tests)
