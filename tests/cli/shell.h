/* The command as its users meet it: from a shell, with a database of the test's own. */
#ifndef SQLOCK_TESTS_CLI_SHELL_H
#define SQLOCK_TESTS_CLI_SHELL_H

#include "tests/lib/check.h"

/* The databases that a group of tests runs on, one after the other; main() of a program. */
int run_on_databases(const struct CMUnitTest *tests, size_t n);
#define RUN_ON_DATABASES(tests) run_on_databases(tests, sizeof(tests) / sizeof *(tests))
/* On this one only, if it is built and wanted. */
#define RUN_ON(database, tests) run_on(database, tests, sizeof(tests) / sizeof *(tests))
int run_on(const char *database, const struct CMUnitTest *tests, size_t n);
/* "sqlite", "postgres", "mysql": what the group that runs is about. */
const char *database_name(void);

/* An empty database: SQLOCK_URL leads to it, and $G, to be given to each command, holds options
 * that do. First in a test: it may skip. */
void database_empty(void);
/* The same, and migrated. */
void database_new(void);

/* Run a statement past the library; in it @lock, @meta ... are the tables. */
void database_exec(const char *sql);

/* The schema or database of the test, on a server. */
const char *database_schema(void);
/* A server's database by way of a proxy; and back, while the proxy lives on. */
struct proxy *database_by_proxy(void);
void database_directly(void);

/* What a command said. The texts live until the next call of sh(). */
struct said {
    int code; /* what it ended with; minus the signal that ended the shell */
    char *out, *err;
    int64_t took_ms;
};

/* Run a line with sh; "sqlock" is the command. Its descriptor 0 is /dev/null. */
const struct said *sh(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Start one in the background, as a shell of its own process group; its messages go to `err` of the
 * test's folder. For child_wait(). It is ended with the test program. */
pid_t sh_start(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* For sh(): waits until a reaper has begun to clear the 40 rows that ran out. */
#define UNTIL_IT_REAPS                                                                             \
    "while sqlock $G --json reap --grace 0 --dry-run | grep -q '\"cleared\":40,'; do sleep 0.02; " \
    "done"

/* What the next shell does first, once: a function that no assertion may leave. */
void sh_before(void (*fn)(void));

/* The folder of the test: $D. Removed with the test program. */
const char *folder(void);
/* A file in it: its text (until the next call), "" if it is not there. Waiting for it to hold text.
 */
const char *text_of(const char *file);
void wait_for(const char *file);

/* The last sh() ended with this, and said these words (NULL: anything). */
#define assert_said(expected_code, out_words, err_words)                                           \
    check_said((expected_code), (out_words), (err_words), __FILE__, __LINE__)
void check_said(int code, const char *out_words, const char *err_words, const char *file, int line);
/* sh() with 0, or the test fails. */
#define assert_sh(...)                                                                             \
    do {                                                                                           \
        sh(__VA_ARGS__);                                                                           \
        assert_said(0, NULL, NULL);                                                                \
    } while (0)

#endif
