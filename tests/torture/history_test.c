/* A history is read as it was written, also that of a process that was killed; a line that is not
 * one is named. And a folder is checked by the rules that were left in it. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/check.h"
#include "tests/torture/check.h"
#include "tests/torture/text.h"

static char *folder, said[65536];

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

/* What this program says when it is run with a word and a folder; its exit status. */
static int run(const char *word, const char *of)
{
    FILE *f = popen(text("%s %s %s 2>&1", program_invocation_name, word, of), "r");

    assert_non_null(f);
    said[fread(said, 1, sizeof said - 1, f)] = '\0';
    return WEXITSTATUS(pclose(f));
}

/* ---- folders and what is said of them -------------------------------------------------------- */

#define ASKED    "I 0 1 0 acquire 0 0 0 0 10 -1\n"
#define ANSWERED "R 0 1 0 acquire 0 1 99 0 10 40\n"
#define GRANTED  "I 0 1 0 acquire 0 0 0 0 1000 -1\nR 0 1 0 acquire 0 1 901000 0 1000 2000\n"
#define OVERLAPS "I 0 1 0 acquire 0 0 0 0 3000 -1\nR 0 1 0 acquire 0 2 903000 0 3000 4000\n"
#define NO_LINE  "not a line of a history: "

/* Files with their text; `read` or `check`; what it ends with, and says. */
static const struct folder_case {
    const char *test, *files[3][2], *word;
    int rc;
    const char *says[2];
} cases[] = {
    {"test_history_of_many_files_is_read_by_invocation",
     {{"1.history", "I 0 1 0 acquire 0 0 0 0 30 -1\nR 0 1 0 acquire 0 1 99 0 30 40\n"},
      {"2.history", ASKED "I 1 1 0 reap 0 0 0 0 20 -1\n"},
      {"rules", "no history\n"}},
     "read",
     0,
     {"3 events, 2.acquire 10 -1, 2.reap 20 -1, 1.acquire 30 40\n"}},
    {"test_folder_without_a_history_is_an_empty_one", {{0}}, "read", 0, {"0 events\n"}},
    {"test_last_line_of_a_killed_process_may_be_a_part",
     {{"1.history", ASKED ANSWERED "I 0 2 0 release 0 1 0 0 50 -1\nR 0 2 0 rel"}},
     "read",
     0,
     {"2 events, 1.acquire 10 40, 1.release 50 -1\n"}},
    /* A process whose number is used once more: its threads begin to count anew. */
    {"test_file_that_is_continued_is_one_history",
     {{"1.history", ASKED "I 0 1 0 reap 0 0 0 0 20 -1\nR 0 1 0 reap 0 0 0 0 20 30\n"}},
     "read",
     0,
     {"2 events, 1.acquire 10 -1, 1.reap 20 30\n"}},
    {"test_second_answer_to_one_question_is_named",
     {{"8.history", ASKED ANSWERED ANSWERED}},
     "read",
     1,
     {"/8.history:3: " NO_LINE}},
    {"test_check_by_hand_tells_what_it_found",
     {{"1.history", GRANTED}, {"2.history", OVERLAPS}},
     "check",
     1,
     {"VIOLATION: two held a lock at the same time",
      "REFUTED, 1 violations: 2 operations, 2 grants"}},
    {"test_check_by_hand_tells_what_is_proved",
     {{"1.history", GRANTED}},
     "check",
     0,
     {"proved: 1 operations, 1 grants"}},
    {"test_check_by_hand_wants_what_the_rules_want",
     {{"1.history", GRANTED}, {"rules", "lease_ms 1000\nmin_grants 9\n"}},
     "check",
     1,
     {"1 grants, and not 9"}},
    {"test_wrong_rule_is_named",
     {{"rules", "lease_ms 1000\nn1 0 0 0 0 0\n"}},
     "check",
     2,
     {"rules: not a rule: n1 0 0"}},
};

static void test_folder(void **state)
{
    const struct folder_case *c = *state;
    int rc;

    folder = temp_dir();
    for (int i = 0; i < 3 && c->files[i][0]; i++)
        write_text(c->files[i][0], c->files[i][1]);
    rc = run(c->word, folder);
    for (int i = 0; i < 2 && c->says[i]; i++)
        if (rc != c->rc || !strstr(said, c->says[i]))
            fail_msg("%d and \"%s\" were expected; it ended with %d, and said: %s", c->rc,
                     c->says[i], rc, said);
    temp_dir_remove(folder);
}

static int read_main(const char *of)
{
    struct event *e = NULL;
    int64_t n = history_read(of, &e);

    if (n < 0)
        return 1;
    printf("%" PRId64 " events", n);
    for (int64_t i = 0; i < n; i++)
        printf(", %" PRIu32 ".%s %" PRId64 " %" PRId64, e[i].process, history_verb_word(e[i].verb),
               e[i].invoke_us, e[i].return_us);
    puts("");
    free(e);
    return 0;
}

static void test_wrong_line_is_named(void **state)
{
    static const char *const first[] = {"X 0 1 0 acquire 0 0 0 0 10 -1\n",
                                        "I 0 1 0 borrow 0 0 0 0 10 -1\n",
                                        "I 0 1 0 acquire 0 0 0 0 10\n",
                                        "I 0 1 0 acquire 0 0 0 0 10 -1 7\n",
                                        "I 0 1 0 acquire 0 0 0 0 10 -1I 0 2 0 reap 0 0 0 0 11 -1\n",
                                        "R 0 1 0 acquire 0 0 0 0 10 20\n",
                                        NULL};
    static const char *const second[] = {"R 0 2 0 acquire 0 0 0 0 10 20\n",
                                         "R 1 1 0 acquire 0 0 0 0 10 20\n", "\n", NULL};

    (void)state;
    for (int line = 1; line <= 2; line++)
        for (const char *const *wrong = line == 1 ? first : second; *wrong; wrong++) {
            write_text("8.history",
                       text("%s%sI 5 1 0 reap 0 0 0 0 60 -1\n", line == 1 ? "" : ASKED, *wrong));
            assert_int_equal(run("read", folder), 1);
            if (!strstr(said, text("/8.history:%d: " NO_LINE "%s", line, *wrong)))
                fail_msg("line %d, %s is not named: %s", line, *wrong, said);
        }
}

static void test_folder_that_is_not_there_is_named(void **state)
{
    (void)state;
    assert_int_equal(run("read", "/no/folder"), 1);
    assert_non_null(strstr(said, "/no/folder"));
    assert_int_equal(run("check", ""), 2);
    assert_non_null(strstr(said, "usage: check FOLDER"));
}

/* ---- what is written ------------------------------------------------------------------------- */

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

static void test_every_verb_has_a_word_of_its_own(void **state)
{
    (void)state;
    for (int verb = 0; verb < V_COUNT; verb++)
        for (int other = 0; other < verb; other++)
            assert_string_not_equal(history_verb_word(verb), history_verb_word(other));
    assert_string_equal(history_verb_word(V_COUNT), "?");
}

static void *write_on(void *arg)
{
    static _Atomic uint32_t threads;
    struct event e = {.thread = threads++, .verb = V_BEAT};

    for (;;) {
        history_invoke(*(int *)arg, &e);
        history_return(*(int *)arg, &e);
    }
    return NULL;
}

static int write_until_killed(void *arg)
{
    int fd = history_open(folder, 5);
    pthread_t thread;

    (void)arg;
    for (int i = 0; i < 3; i++)
        if (pthread_create(&thread, NULL, write_on, &fd) != 0)
            return 1;
    write_on(&fd);
    return 0;
}

/* What each thread had been answered is there, and of what it asks at most the last is open. */
static void test_killed_process_leaves_all_that_it_had_begun(void **state)
{
    pid_t child = child_start(write_until_killed, NULL);
    struct event *read = NULL;
    uint32_t last_op[4] = {0};
    int64_t n;

    (void)state;
    sleep_ms(100);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(child_wait(child, 5000), -SIGKILL);
    n = history_read(folder, &read);
    assert_true(n > 4);
    for (int64_t i = 0; i < n; i++) {
        assert_true(read[i].thread < 4);
        assert_int_equal(read[i].op, last_op[read[i].thread] + 1);
        last_op[read[i].thread] = read[i].op;
    }
    for (int64_t i = 0; i < n; i++)
        if (read[i].return_us == HISTORY_NOT_RETURNED)
            assert_int_equal(read[i].op, last_op[read[i].thread]);
    free(read);
}

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

    (void)state;
    write_text("1.history", GRANTED);
    write_text("2.history", OVERLAPS);
    assert_int_equal(check_rules_save(&rules), 0);
    assert_int_equal(run("check", folder), 1);
    for (size_t i = 0; i < sizeof says / sizeof *says; i++)
        if (!strstr(said, says[i]))
            fail_msg("not told: %s\n%s", says[i], said);
}

#define T(test) cmocka_unit_test_setup_teardown(test, begin, end)
enum { CASES = sizeof cases / sizeof *cases, OTHERS = 6 };

int main(int argc, char **argv)
{
    struct CMUnitTest tests[CASES + OTHERS] = {T(test_wrong_line_is_named),
                                               T(test_folder_that_is_not_there_is_named),
                                               T(test_history_is_read_as_it_was_written),
                                               T(test_every_verb_has_a_word_of_its_own),
                                               T(test_killed_process_leaves_all_that_it_had_begun),
                                               T(test_folder_is_checked_by_its_rules)};

    if (argc > 1)
        return strcmp(argv[1], "read") == 0 ? read_main(argv[2]) : check_main(argc - 1, argv + 1);
    for (size_t i = 0; i < CASES; i++)
        tests[OTHERS + i] = (struct CMUnitTest){cases[i].test, test_folder, NULL, NULL,
                                                (void *)(uintptr_t)&cases[i]};
    return cmocka_run_group_tests(tests, NULL, NULL) == 0 ? 0 : 1;
}
