/* What every test program may use: assertions that tell the sqlock_error, and the machine's small
 * things (time, folders, child processes). Link order and flags are the Makefile's affair.
 *
 * Linked into every test program: SQLOCK_TEST_FILTER picks tests (the Makefile's T=), and output is
 * written line by line, so that a program that dies leaves its log complete.
 *
 * cmocka's assertions and these jump back to the test's start. So they may be used on the test's
 * own thread and, in a child, end the child; in another thread assert its result after the join. */
#ifndef SQLOCK_TESTS_LIB_CHECK_H
#define SQLOCK_TESTS_LIB_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>
#include <sqlock/admin.h>
#include <sqlock/async.h>
#include <sqlock/migrate.h>
#include <sqlock/sqlock.h>

/* ---- tests --------------------------------------------------------------------------------------
 * TEST(test_name) { ... } is a test, and needs no line in a list. Its fixtures' state is *state.
 * TEST(test_name, where) gives the program a number to choose tests by.
 *
 * At the end of the file stands TEST_MAIN_EACH(setup, teardown): fixtures of each test, or NULL.
 * TEST_MAIN(tests) is for an array, TEST_MAIN_WITH() for one with fixtures of the whole. */

struct test {
    const char *name;
    void (*body)(void **state);
    unsigned where;
    struct test *next;
};

#define TEST(...) TEST_WHERE(__VA_ARGS__, 0, 0)
#define TEST_WHERE(name, where, ...)                                                               \
    static void name(void **state);                                                                \
    __attribute__((constructor)) static void name##_is_a_test(void)                                \
    {                                                                                              \
        static struct test test = {#name, name, where, NULL};                                      \
                                                                                                   \
        test_add(&test);                                                                           \
    }                                                                                              \
    static void name(__attribute__((unused)) void **state)

void test_add(struct test *test);
struct test *test_first(void); /* the file's first one, and so on by its next */
int tests_run(int (*setup)(void **state), int (*teardown)(void **state));

#define TEST_MAIN_EACH(setup, teardown)                                                            \
    int main(void)                                                                                 \
    {                                                                                              \
        return tests_run(setup, teardown);                                                         \
    }
#define TEST_MAIN(tests) TEST_MAIN_WITH(tests, NULL, NULL)
#define TEST_MAIN_WITH(tests, setup, teardown)                                                     \
    int main(void)                                                                                 \
    {                                                                                              \
        return cmocka_run_group_tests(tests, setup, teardown) == 0 ? 0 : 1;                        \
    }

/* ---- assertions ------------------------------------------------------------------------------ */

/* call returned 0, or the code that was expected. On failure the code's name, the error's text,
 * SQLSTATE and flags are told with the caller's line. err may be NULL. */
#define assert_ok(call, err) check_code(SQLOCK_OK, (call), (err), #call, __FILE__, __LINE__)
#define assert_code(expected, call, err)                                                           \
    check_code((expected), (call), (err), #call, __FILE__, __LINE__)
/* low <= value <= high, for times and counts. */
#define assert_between(low, value, high)                                                           \
    check_between((low), (value), (high), #value, __FILE__, __LINE__)
/* Wait until the expression is true, looking every millisecond, at most so long; longer while the
 * machine is busy, as late_ms() says. */
#define assert_soon(expression, limit_ms)                                                          \
    do {                                                                                           \
        struct patience soon = patience_for(limit_ms);                                             \
        while (!(expression)) {                                                                    \
            if (patience_is_over(&soon))                                                           \
                check_late(#expression, (limit_ms), __FILE__, __LINE__);                           \
            sleep_ms(1);                                                                           \
        }                                                                                          \
    } while (0)

void check_code(int expected, int got, const sqlock_error *err, const char *call, const char *file,
                int line);
void check_between(int64_t low, int64_t value, int64_t high, const char *what, const char *file,
                   int line);
void check_late(const char *what, int64_t limit_ms, const char *file, int line);

/* ---- what this run is about ------------------------------------------------------------------ */

/* Whether a driver was built and not left out with SQLOCK_TEST_DRIVERS="fake sqlite". */
bool test_wants(const char *driver);
/* Whether a list of words with blanks between has this one. */
bool is_word(const char *list, const char *word);
/* STRICT=1: what would be skipped for want of a server fails. */
bool test_strict(void);
/* A server that a run may have: whose driver it is for, what it is called, what holds its URL. */
struct test_server {
    const char *driver, *name, *variable;
};
/* Its URL. Where there is none the test is skipped, loudly; with STRICT=1 it fails. */
const char *test_server_url(const struct test_server *server);
/* 1: it is wanted and not there, and that has been told; then *out_code is for main(). */
int test_server_is_missing(const struct test_server *server, int *out_code);
/* A duration that only bounds how long good things may take: longer under sanitizers (by the factor
 * SQLOCK_TEST_SLOW). Never for durations that prove nothing when they are too long. */
int32_t patience_ms(int32_t ms);
/* The same for a bound that should be narrow: as much longer as tasks of this machine have waited
 * for a processor since the test began, if its kernel says so. So a busy machine breaks no such
 * bound, and one at rest lets nothing be late. Take it when the time is judged. */
int32_t late_ms(int32_t ms);
void late_begin(void); /* a test begins */
/* From now on, so long; and for what the machine adds, up to ten times as long. */
struct patience {
    int64_t begun_us, waited_us, limit_us;
};
struct patience patience_for(int64_t limit_ms);
bool patience_is_over(const struct patience *p);

/* ---- time ------------------------------------------------------------------------------------ */

int64_t now_us(void); /* CLOCK_MONOTONIC */
void sleep_ms(int64_t ms);

/* ---- texts ----------------------------------------------------------------------------------- */

/* A text that lives to the program's end; kept(): one that was malloc()ed. */
char *textf(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *kept(char *text);
/* "test_" and 16 random digits, for a database or schema. */
char *random_name(void);

/* ---- folders --------------------------------------------------------------------------------- */

/* An empty folder, under TMPDIR; removed with all that is in it by temp_dir_remove(), or when the
 * process that made it ends. */
char *temp_dir(void);
void temp_dir_remove(char *dir);

/* The library that steps a program's clock, when it is preloaded; NULL: it is not installed. */
const char *faketime_path(void);

/* ---- child processes ------------------------------------------------------------------------- */

/* fork; the child runs fn(arg) and ends with its result (0 to 99) and without exit handlers. An
 * assertion that fails in it ends it by SIGABRT. It is killed if the parent dies. */
pid_t child_start(int (*fn)(void *arg), void *arg);
/* The child's result, or minus the signal that ended it. A late one is killed: the test fails. */
int child_wait(pid_t child, int limit_ms);
/* Whether it has ended by now; child_wait() then tells how. */
bool child_ended(pid_t child);
/* Kill those that were not waited for. A test that failed may leave one that has locked what the
 * next test wants. */
void child_end_all(void);
/* A signal for all children of any process: a server's are in process groups of their own. */
void child_signal_all_of(pid_t parent, int signal);

#endif
