/* A history is read as it was written, also that of a process that was killed; a line that is not
 * one is named. And a folder is checked by the rules that were left in it. */
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/check.h"
#include "tests/torture/check.h"

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

static void write_text(const char *name, const char *text)
{
    char path[4096];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

/* What a call says on stderr, or stdout: *out is to be freed. */
static int said_by(int fd, int (*call)(void *arg), void *arg, char **out)
{
    int kept = dup(fd), file = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    int rc;
    ssize_t n;

    assert_true(kept >= 0 && file >= 0);
    fflush(NULL);
    dup2(file, fd);
    rc = call(arg);
    fflush(NULL);
    dup2(kept, fd);
    close(kept);
    *out = calloc(1, 65536);
    assert_non_null(*out);
    n = pread(file, *out, 65535, 0);
    assert_true(n >= 0);
    close(file);
    return rc;
}

/* ---- reading ----------------------------------------------------------------------------------
 */

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

static void test_history_of_many_files_is_read_by_invocation(void **state)
{
    struct event *read = NULL;

    (void)state;
    write_text("1.history", "I 0 1 0 acquire 0 0 0 0 30 -1\nR 0 1 0 acquire 0 1 99 0 30 40\n");
    write_text("2.history", "I 0 1 0 acquire 0 0 0 0 10 -1\nI 1 1 0 reap 0 0 0 0 20 -1\n");
    write_text("rules", "no history\n");
    assert_int_equal(history_read(folder, &read), 3);
    assert_int_equal(read[0].invoke_us, 10);
    assert_int_equal(read[0].return_us, HISTORY_NOT_RETURNED);
    assert_int_equal(read[1].verb, V_REAP);
    assert_int_equal(read[2].process, 1);
    assert_int_equal(read[2].return_us, 40);
    free(read);
}

static void test_folder_without_a_history_is_an_empty_one(void **state)
{
    struct event *read = NULL;

    (void)state;
    assert_int_equal(history_read(folder, &read), 0);
    free(read);
}

static void test_last_line_of_a_killed_process_may_be_a_part(void **state)
{
    struct event *read = NULL;

    (void)state;
    write_text("1.history", "I 0 1 0 acquire 0 0 0 0 10 -1\nR 0 1 0 acquire 0 1 99 0 10 40\n"
                            "I 0 2 0 release 0 1 0 0 50 -1\nR 0 2 0 rel");
    assert_int_equal(history_read(folder, &read), 2);
    assert_int_equal(read[0].return_us, 40);
    assert_int_equal(read[1].verb, V_RELEASE);
    assert_int_equal(read[1].return_us, HISTORY_NOT_RETURNED);
    free(read);
}

struct writers {
    int fd;
};

static void *write_on(void *arg)
{
    struct writers *w = arg;
    static _Atomic uint32_t threads;
    struct event e = {.thread = threads++, .verb = V_BEAT};

    for (;;) {
        history_invoke(w->fd, &e);
        history_return(w->fd, &e);
    }
    return NULL;
}

static int write_until_killed(void *arg)
{
    struct writers w = {.fd = history_open(folder, 5)};
    pthread_t thread;

    (void)arg;
    for (int i = 0; i < 3; i++)
        if (pthread_create(&thread, NULL, write_on, &w) != 0)
            return 1;
    write_on(&w);
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

/* A process whose number is used once more: its threads begin to count anew. */
static void test_file_that_is_continued_is_one_history(void **state)
{
    struct event *read = NULL;

    (void)state;
    write_text("1.history", "I 0 1 0 acquire 0 0 0 0 10 -1\nI 0 1 0 reap 0 0 0 0 20 -1\n"
                            "R 0 1 0 reap 0 0 0 0 20 30\n");
    assert_int_equal(history_read(folder, &read), 2);
    assert_int_equal(read[0].return_us, HISTORY_NOT_RETURNED);
    assert_int_equal(read[1].return_us, 30);
    free(read);
}

/* ---- what is no line --------------------------------------------------------------------------
 */

static int read_it(void *arg)
{
    struct event *events = NULL;
    int64_t n = history_read(arg, &events);

    free(events);
    return (int)n;
}

/* A call ends so, and says these words on stderr, or stdout. */
static void assert_says(int fd, int (*call)(void *arg), const char *arg, int rc, const char *words)
{
    char *said = NULL;
    int got = said_by(fd, call, (void *)(uintptr_t)arg, &said);

    if (got != rc || !strstr(said, words))
        fail_msg("%d and \"%s\" were expected; it ended with %d, and said: %s", rc, words, got,
                 said);
    free(said);
}

#define ASKED "I 0 1 0 acquire 0 0 0 0 10 -1\n"

static void test_wrong_line_is_named(void **state)
{
    static const char *const wrong[] = {
        ":1: not a line of a history: X 0 1 0 acquire 0 0 0 0 10 -1\n",
        ":1: not a line of a history: I 0 1 0 borrow 0 0 0 0 10 -1\n",
        ":1: not a line of a history: I 0 1 0 acquire 0 0 0 0 10\n",
        ":1: not a line of a history: I 0 1 0 acquire 0 0 0 0 10 -1 7\n",
        ":1: not a line of a history: I 0 1 0 acquire 0 0 0 0 10 -1I 0 2 0 reap 0 0 0 0 11 -1\n",
        ":1: not a line of a history: R 0 1 0 acquire 0 0 0 0 10 20\n",
        ":2: not a line of a history: R 0 2 0 acquire 0 0 0 0 10 20\n",
        ":2: not a line of a history: R 1 1 0 acquire 0 0 0 0 10 20\n",
        ":2: not a line of a history: \n"};
    char text[512], named[300];

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(text, sizeof text, "%s%sI 5 1 0 reap 0 0 0 0 60 -1\n",
                 wrong[i][1] == '1' ? "" : ASKED, strstr(wrong[i], "history: ") + 9);
        snprintf(named, sizeof named, "/8.history%s", wrong[i]);
        write_text("8.history", text);
        assert_says(STDERR_FILENO, read_it, folder, -1, named);
    }
}

static void test_second_answer_to_one_question_is_named(void **state)
{
    (void)state;
    write_text("8.history", ASKED "R 0 1 0 acquire 0 0 0 0 10 20\nR 0 1 0 acquire 0 0 0 0 10 20\n");
    assert_says(STDERR_FILENO, read_it, folder, -1, "/8.history:3: ");
}

static void test_folder_that_is_not_there_is_named(void **state)
{
    (void)state;
    assert_says(STDERR_FILENO, read_it, "/no/folder", -1, "/no/folder");
}

/* ---- a folder that is checked again -----------------------------------------------------------
 */

static void write_overlap(void)
{
    write_text("1.history",
               "I 0 1 0 acquire 0 0 0 0 1000 -1\nR 0 1 0 acquire 0 1 901000 0 1000 2000\n");
    write_text("2.history",
               "I 0 1 0 acquire 0 0 0 0 3000 -1\nR 0 1 0 acquire 0 2 903000 0 3000 4000\n");
}

static int check_it(void *arg)
{
    return check_main(2, (char *[]){(char *)(uintptr_t) "check", arg, NULL});
}

static void save_rules(struct check_rules *rules, const struct check_row *rows, uint32_t n)
{
    rules->folder = folder;
    rules->engine = "an engine";
    rules->fault = "a fault of many words";
    rules->seed = UINT64_MAX;
    rules->slack_ms = 2000;
    rules->rows = rows;
    rules->n_rows = n;
    assert_int_equal(check_rules_save(rules), 0);
}

static void test_folder_is_checked_by_its_rules(void **state)
{
    struct check_rules rules = {.lease_ms = 1000, .min_grants = 3, .min_rate = 1};
    const struct check_row rows[] = {{0, 0, 0, 0, 0}, {0, 0, 4, CHECK_NOT_READ, CHECK_NOT_READ}};
    struct check_verdict v;
    char *said = NULL;
    size_t len = 0;
    FILE *say = open_memstream(&said, &len);

    (void)state;
    write_overlap();
    save_rules(&rules, rows, 2);
    assert_int_equal(check_folder(folder, &v, say), 1);
    fclose(say);
    assert_int_equal(v.found[RULE_OVERLAP], 1);
    assert_int_equal(v.found[RULE_SUM], 1);
    assert_int_equal(v.found[RULE_LOAD], 1);
    assert_int_equal(v.violations, 3);
    assert_non_null(strstr(said, "seed 18446744073709551615, an engine"));
    assert_non_null(strstr(said, "a fault of many words"));
    assert_non_null(strstr(said, "n1: the row-lock row holds 4"));
    free(said);
}

static void test_check_by_hand_tells_what_it_found(void **state)
{
    (void)state;
    write_overlap();
    assert_says(STDOUT_FILENO, check_it, folder, 1, "VIOLATION: two held a lock at the same time");
    assert_says(STDOUT_FILENO, check_it, folder, 1,
                "REFUTED, 1 violations: 2 operations, 2 grants");
    write_text("2.history", "");
    assert_says(STDOUT_FILENO, check_it, folder, 0, "proved: 1 operations, 1 grants");
}

static int check_for_more(void *arg)
{
    char words[][9] = {"check", "--grants", "9"};

    return check_main(4, (char *[]){words[0], arg, words[1], words[2], NULL});
}

static void test_check_by_hand_may_ask_for_more(void **state)
{
    struct check_rules rules = {.lease_ms = 1000};

    (void)state;
    write_text("1.history", "I 0 1 0 reap 0 0 0 0 1000 -1\n");
    save_rules(&rules, NULL, 0);
    assert_says(STDOUT_FILENO, check_for_more, folder, 1, "0 grants, and not 9");
}

static void test_wrong_rule_is_named(void **state)
{
    (void)state;
    write_text("rules", "lease_ms 1000\nn1 0 0 0 0 0\n");
    assert_says(STDERR_FILENO, check_it, folder, 2, "rules: not a rule: n1 0 0");
}

static void test_check_without_a_folder_tells_how_it_is_called(void **state)
{
    (void)state;
    assert_says(STDERR_FILENO, check_it, "--grants", 2, "usage: check FOLDER");
}

#define T(test) cmocka_unit_test_setup_teardown(test, begin, end)
static const struct CMUnitTest tests[] = {
    T(test_history_is_read_as_it_was_written),
    T(test_every_verb_has_a_word_of_its_own),
    T(test_history_of_many_files_is_read_by_invocation),
    T(test_folder_without_a_history_is_an_empty_one),
    T(test_last_line_of_a_killed_process_may_be_a_part),
    T(test_killed_process_leaves_all_that_it_had_begun),
    T(test_file_that_is_continued_is_one_history),
    T(test_wrong_line_is_named),
    T(test_second_answer_to_one_question_is_named),
    T(test_folder_that_is_not_there_is_named),
    T(test_folder_is_checked_by_its_rules),
    T(test_check_by_hand_tells_what_it_found),
    T(test_check_by_hand_may_ask_for_more),
    T(test_wrong_rule_is_named),
    T(test_check_without_a_folder_tells_how_it_is_called),
};

TEST_MAIN(tests)
