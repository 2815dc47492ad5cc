/* The command as its users meet it: from a shell, with a database of the test's own. */
#ifndef SQLOCK_TESTS_CLI_SHELL_H
#define SQLOCK_TESTS_CLI_SHELL_H

#include "tests/lib/check.h"

/* ---- tests --------------------------------------------------------------------------------------
 * TEST(test_name, ON_SQLITE) { ... } is a test with a database of its own, which is new and
 * migrated. TEST_MAIN_OF_COMMAND stands at the end of the file. */

enum {
    ON_SQLITE = 1,
    ON_POSTGRES = 2,
    ON_MYSQL = 4,
    ON_SERVERS = ON_POSTGRES | ON_MYSQL,
    ON_ALL = ON_SQLITE | ON_SERVERS,
    EMPTY = 8 /* its database is not migrated */
};

#define TEST_MAIN_OF_COMMAND                                                                       \
    int main(void)                                                                                 \
    {                                                                                              \
        return command_tests_run();                                                                \
    }

int command_tests_run(void);

/* ---- databases ------------------------------------------------------------------------------- */

/* "sqlite", "postgres", "mysql": what the test runs on. */
const char *database_name(void);

/* Another database for this test: SQLOCK_URL leads to it, and $G holds options for each command. */
void database_new(void);
/* Back to that of another folder(), on SQLite. */
void database_again(const char *its_folder);

/* Run a statement past the library; in it @lock, @meta ... are the tables. */
void database_exec(const char *sql);
/* n rows whose holders died: dead/00000001 and so on. */
void database_leave(int n);

/* The schema or database of the test, on a server. */
const char *database_schema(void);
/* PostgreSQL's database by way of a proxy; and back, while the proxy lives on. */
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
/* A file's text (until the next call), "" if it is not there. Waiting until it holds text. */
const char *text_of(const char *file);
void wait_for(const char *file);

/* The last sh() ended with this, and said these words (NULL: anything). */
#define assert_said(expected_code, out_words, err_words)                                           \
    check_said((expected_code), (out_words), (err_words), __FILE__, __LINE__)
void check_said(int code, const char *out_words, const char *err_words, const char *file, int line);
/* sh() of a line, which ends with this and says these words. */
#define assert_says(expected_code, out_words, err_words, ...)                                      \
    do {                                                                                           \
        sh(__VA_ARGS__);                                                                           \
        assert_said(expected_code, out_words, err_words);                                          \
    } while (0)
/* sh() with 0, or the test fails. */
#define assert_sh(...) assert_says(0, NULL, NULL, __VA_ARGS__)

/* ---- survivors
 * ----------------------------------------------------------------------------------- A command
 * that starts everything that can be hard to find, and whether anything of it is alive. */

/* For sh(): processes that tree.sh noted and that are alive; no zombies. */
#define SURVIVORS "tests/cli/survivors.sh $D"

/* `sqlock run OPTIONS nightly tests/cli/tree.sh $D HOW`: the lock is held, all of it is there. How:
 * "stubborn" or "obedient", and redirections. */
pid_t start_tree(const char *options, const char *how);
/* `sqlock run WORDS`, of which the command makes $D/ready. */
pid_t start_until_ready(const char *words);
/* Of a locker: its guardian, its waker, which are there soon after its start. */
pid_t guardian_of(pid_t run);
pid_t waker_of(pid_t run);
/* Anybody below a process, by the name that ps shows. 0: none. */
pid_t below(pid_t pid, const char *name);
/* By SIGKILL; it ends so. */
void kill_locker(pid_t run);

/* What the locker ends with, by itself. */
#define assert_ends(run, code) assert_int_equal(child_wait((run), patience_ms(20000)), (code))
#define assert_no_survivors()  assert_string_equal(sh(SURVIVORS)->out, "")
/* Whoever gets the lock next finds nobody, and the last sign of life is older than its grant. */
void assert_successor_is_alone(void);
/* The same while this locker is stopped; that it has lost the lock it says when it goes on. */
void assert_lost_while_stopped(pid_t run);

#endif
