/* A history is read as it was written, also that of a process that was killed. And a folder is
 * checked by the rules that were left in it. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/check.h"
#include "tests/torture/check.h"
#include "tests/torture/text.h"

static char *folder;

static int begin(void **state)
{
    (void)state;
    folder = temp_dir();
    return 0;
}

static int end(void **state)
{
    (void)state;
    temp_dir_remove(folder);
    return 0;
}

static void write_text(const char *name, const char *words)
{
    FILE *f = fopen(text("%s/%s", folder, name), "w");

    assert_non_null(f);
    fputs(words, f);
    assert_int_equal(fclose(f), 0);
}

/* ---- what is read ---------------------------------------------------------------------------- */

#define ASKED    "I 0 1 0 acquire 0 0 0 0 10 -1\n"
#define ANSWERED "R 0 1 0 acquire 0 1 99 0 10 40\n"

static void test_history_of_many_files_is_read_by_invocation(void **state)
{
    struct event *e = NULL;

    (void)state;
    write_text("1.history", "I 0 1 0 acquire 0 0 0 0 30 -1\nR 0 1 0 acquire 0 1 99 0 30 40\n");
    write_text("2.history", ASKED "I 1 1 0 reap 0 0 0 0 20 -1\n");
    /* One that was killed: its last line may be a part. */
    write_text("3.history", ASKED ANSWERED "I 0 2 0 release 0 1 0 0 50 -1\nR 0 2 0 rel");
    write_text("rules", "no history\n");
    assert_int_equal(history_read(folder, &e), 5);
    for (int i = 0; i < 5; i++) {
        static const int64_t is[][3] = {
            {2, 10, -1}, {3, 10, 40}, {2, 20, -1}, {1, 30, 40}, {3, 50, -1}};

        assert_int_equal(e[i].process, is[i][0]);
        assert_int_equal(e[i].invoke_us, is[i][1]);
        assert_int_equal(e[i].return_us, is[i][2]);
    }
    free(e);
}

static void test_history_is_read_as_it_was_written(void **state)
{
    struct event e = {.process = 12, .thread = 7, .name = 3, .verb = V_ACQUIRE}, *read = NULL;
    int fd = history_open(folder, 12);

    (void)state;
    assert_true(fd >= 0);
    history_invoke(fd, &e);
    e.token = INT64_C(9007199254740991);
    e.deadline_us = INT64_MAX;
    e.value = -5;
    e.outcome = SQLOCK_EUNSURE;
    history_return(fd, &e);
    close(fd);
    assert_int_equal(history_read(folder, &read), 1);
    assert_memory_equal(read, &e, sizeof e); /* it has no holes */
    assert_int_equal(read->op, 1);
    assert_true(read->invoke_us <= read->return_us);
    free(read);
}

/* ---- by which rules -------------------------------------------------------------------------- */

static void test_folder_is_checked_by_its_rules(void **state)
{
    static const char *const says[] = {"REFUTED, 3 violations",
                                       "1 x two held a lock at the same time",
                                       "1 x a row does not hold what was committed",
                                       "1 x too little was done to prove anything",
                                       "seed 18446744073709551615, an engine",
                                       "a fault of many words",
                                       "n1: the row-lock row holds 4"};
    const struct check_row rows[] = {{0, 0, 0, 0, 0}, {0, 0, 4, CHECK_NOT_READ, CHECK_NOT_READ}};
    const struct check_rules rules = {.folder = folder,
                                      .engine = "an engine",
                                      .fault = "a fault of many words",
                                      .seed = UINT64_MAX,
                                      .lease_ms = 1000,
                                      .slack_ms = 2000,
                                      .min_grants = 3,
                                      .min_rate = 1,
                                      .rows = rows,
                                      .n_rows = 2};
    char said[65536];
    FILE *f;

    (void)state;
    write_text("1.history",
               "I 0 1 0 acquire 0 0 0 0 1000 -1\nR 0 1 0 acquire 0 1 901000 0 1000 2000\n"
               "I 1 1 0 acquire 0 0 0 0 3000 -1\nR 1 1 0 acquire 0 2 903000 0 3000 4000\n");
    assert_int_equal(check_rules_save(&rules), 0);
    f = popen(text("%s check %s 2>&1", program_invocation_name, folder), "r");
    assert_non_null(f);
    said[fread(said, 1, sizeof said - 1, f)] = '\0';
    assert_int_equal(WEXITSTATUS(pclose(f)), 1);
    for (size_t i = 0; i < sizeof says / sizeof *says; i++)
        if (!strstr(said, says[i]))
            fail_msg("not told: %s\n%s", says[i], said);
}

#define T(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {T(test_history_of_many_files_is_read_by_invocation),
                                       T(test_history_is_read_as_it_was_written),
                                       T(test_folder_is_checked_by_its_rules)};

    if (argc > 1)
        return check_main(argc - 1, argv + 1);
    return cmocka_run_group_tests(tests, NULL, NULL) == 0 ? 0 : 1;
}
