/* A client does what it was asked to, writes it down, and ends when it shall. On SQLite, where a
 * server is not needed for that; the cells have the others. */
#ifdef TEST_HAVE_SQLITE
#include <sqlite3.h>
#endif

#include "tests/torture/client.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <fcntl.h>

#include "tests/lib/check.h"
#include "tests/torture/check.h"
#include "tests/torture/client_left.h"

#ifdef TEST_HAVE_SQLITE
#include <sqlock/sqlite.h>

enum { NAMES = 4, ARGS_MAX = 32 };

/* ---- a client to be started -------------------------------------------------------------------
 */

struct start {
    char folder[256], url[300];
    int in[2]; /* its descriptor 0 is the end of a pipe */
    const char *more[12];
};

static void database(struct start *s)
{
    sqlock_error err = {0};
    sqlite3 *db = NULL;

    *s = (struct start){.in = {-1, -1}};
    snprintf(s->folder, sizeof s->folder, "%s", temp_dir());
    snprintf(s->url, sizeof s->url, "sqlite:%s/db", s->folder);
    assert_ok(sqlock_migrate(sqlock_driver_sqlite(), s->url, NULL, NULL, &err), &err);
    assert_int_equal(sqlite3_open(s->url + strlen("sqlite:"), &db), SQLITE_OK);
    sqlite3_exec(db, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_true(client_tables(s->url, NAMES));
    assert_int_equal(pipe2(s->in, O_CLOEXEC), 0);
}

static int execute(void *arg)
{
    struct start *s = arg;
    char err[300];
    const char *argv[ARGS_MAX] = {"torture",   "client", "--folder", s->folder, "--url",  s->url,
                                  "--process", "1",      "--names",  "4",       "--seed", "7"};
    size_t n = 12;
    int fd;

    for (size_t i = 0; s->more[i] != NULL; i++)
        argv[n++] = s->more[i];
    snprintf(err, sizeof err, "%s/err", s->folder);
    fd = open(err, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(fd, STDERR_FILENO);
    close(fd);
    dup2(s->in[0], STDIN_FILENO);
    execv("/proc/self/exe", (char **)argv);
    return 98;
}

/* What it said on stderr. */
static const char *said(const struct start *s)
{
    static char text[1000];
    char path[300];
    FILE *f;
    size_t n;

    snprintf(path, sizeof path, "%s/err", s->folder);
    f = fopen(path, "r");
    n = f != NULL ? fread(text, 1, sizeof text - 1, f) : 0;
    text[n] = '\0';
    if (f != NULL)
        fclose(f);
    return text;
}

static void assert_ends(struct start *s, pid_t client, int code)
{
    int rc = child_wait(client, patience_ms(20000));

    if (rc != code)
        fail_msg("it ended with %d: %s", rc, said(s));
}

/* ---- its history ------------------------------------------------------------------------------
 */

struct counts {
    int64_t asked[V_COUNT], done[V_COUNT];
    int64_t grants[4]; /* by their way */
    int64_t open;      /* never answered */
};

static void count(const struct start *s, struct counts *c)
{
    struct event *events = NULL;
    int64_t n = history_read(s->folder, &events);

    *c = (struct counts){0};
    assert_true(n > 0);
    for (int64_t i = 0; i < n; i++) {
        const struct event *e = &events[i];

        assert_true(e->name < NAMES);
        c->asked[e->verb]++;
        c->open += e->return_us == HISTORY_NOT_RETURNED;
        if (e->outcome != 0)
            continue;
        c->done[e->verb]++;
        if (e->verb == V_ACQUIRE) {
            assert_true(e->token > 0);
            assert_between(0, e->value, 3);
            c->grants[e->value]++;
        }
    }
    free(events);
}

/* With what the tables hold in the end. */
static void assert_proved(const struct start *s, int32_t lease_ms)
{
    struct check_rules rules = {.folder = s->folder, .engine = "SQLite", .lease_ms = lease_ms};
    struct client_final finals[NAMES];
    struct check_row rows[NAMES];
    struct check_verdict verdict;
    struct event *events = NULL;
    int64_t n;
    int rc;

    assert_true(client_final(s->url, NAMES, finals));
    for (int i = 0; i < NAMES; i++)
        rows[i] = (struct check_row){finals[i].guarded, finals[i].token, finals[i].row,
                                     finals[i].version, finals[i].changes};
    rules.rows = rows;
    rules.n_rows = NAMES;
    n = history_read(s->folder, &events);
    rc = check_history(&rules, events, n, &verdict, stderr);
    free(events);
    assert_int_equal(rc, 0);
}

/* ---- tests ------------------------------------------------------------------------------------
 */

static void test_a_client_does_all_verbs_and_writes_them_down(void **state)
{
    static const char mix[] = "reap=5 break=50 give-back=500 stale=5 late=10 forget=20";
    struct start s;
    struct counts c;

    (void)state;
    database(&s);
    memcpy(s.more, (const char *[]){"--seconds", "3", "--lease", "100", "--mix", mix},
           6 * sizeof *s.more);
    assert_ends(&s, child_start(execute, &s), 0);
    count(&s, &c);
    assert_int_equal(c.open, 0);
    for (int way = 0; way < 3; way++)
        assert_true(c.grants[way] >= 10);
    for (int verb = V_RENEW; verb <= V_GUARDED; verb++)
        if (verb != V_SETTLE && verb != V_BREAK)
            assert_true(c.done[verb] >= 10);
    assert_true(c.done[V_BREAK] > 0);
    assert_true(c.done[V_ROW_LOCK] >= 10 && c.done[V_CAS] >= 10 && c.done[V_REAP] >= 3);
    assert_true(c.asked[V_GUARDED] > c.done[V_GUARDED]); /* those who slept too long */
    assert_proved(&s, 100);
}

static void test_a_client_of_the_command_beats_while_it_holds(void **state)
{
    struct start s;
    struct counts c;

    (void)state;
    database(&s);
    memcpy(s.more, (const char *[]){"--command", "--seconds", "3", "--threads", "2"},
           5 * sizeof *s.more);
    assert_ends(&s, child_start(execute, &s), 0);
    count(&s, &c);
    assert_int_equal(c.open, 0);
    assert_true(c.grants[3] > 0 && c.done[V_BEAT] >= c.grants[3]);
    assert_true(c.grants[0] > 0 && c.done[V_RELEASE] > 0);
    assert_proved(&s, 1000);
}

static void test_sigterm_ends_a_client_that_gives_back_what_it_holds(void **state)
{
    struct start s;
    struct counts c;
    pid_t client;

    (void)state;
    database(&s);
    memcpy(s.more, (const char *[]){"--seconds", "60", "--lease", "60000", "--mix", "forget=0"},
           6 * sizeof *s.more);
    client = child_start(execute, &s);
    sleep_ms(300);
    assert_int_equal(kill(client, SIGTERM), 0);
    assert_ends(&s, client, 0);
    count(&s, &c);
    assert_int_equal(c.open, 0);
    assert_int_equal(c.done[V_RELEASE] + c.done[V_BREAK],
                     c.done[V_ACQUIRE] + c.done[V_SETTLE]); /* all were given back, or broken */
}

static void test_a_client_ends_when_its_pipe_is_closed(void **state)
{
    struct start s;
    pid_t client;

    (void)state;
    database(&s);
    memcpy(s.more, (const char *[]){"--seconds", "60"}, 2 * sizeof *s.more);
    client = child_start(execute, &s);
    sleep_ms(300);
    assert_false(child_ended(client));
    close(s.in[1]);
    assert_ends(&s, client, 0);
}

static void test_an_answer_that_nothing_explains_ends_a_client(void **state)
{
    struct start s;
    sqlock_error err = {0};

    (void)state;
    database(&s);
    assert_ok(
        sqlock_migrate_to(sqlock_driver_sqlite(), s.url, NULL, 0, SQLOCK_MIGRATE_DOWN, NULL, &err),
        &err);
    assert_ends(&s, child_start(execute, &s), 1);
    assert_non_null(strstr(said(&s), "SQLOCK_ESCHEMA"));
    assert_non_null(strstr(said(&s), "seed 7"));
    memcpy(s.more, (const char *[]){"--allow", "SQLOCK_ESCHEMA"}, 2 * sizeof *s.more);
    assert_ends(&s, child_start(execute, &s), 0);
}

static void test_descriptors_that_are_left_behind_are_told(void **state)
{
    struct left before = left_now();
    char *text = NULL;
    size_t size = 0;
    FILE *say = open_memstream(&text, &size);
    int fd;

    (void)state;
    assert_true(left_nothing(&before, 16, say));
    assert_int_equal(size, 0);
    fd = dup(STDERR_FILENO);
    assert_false(left_nothing(&before, 16, say));
    close(fd);
    assert_true(left_nothing(&before, 16, say));
    fclose(say);
    assert_non_null(strstr(text, "1 descriptors"));
    free(text);
}

static void test_memory_that_is_left_behind_is_told(void **state)
{
    struct left before = left_now();
    char *text = NULL;
    size_t size = 0;
    FILE *say = open_memstream(&text, &size);
    void *volatile memory[200];

    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* it has a malloc() of its own */
#endif
    for (int i = 0; i < 200; i++)
        memory[i] = malloc(1000);
    assert_false(left_nothing(&before, 16, say));
    for (int i = 0; i < 200; i++)
        free(memory[i]);
    assert_true(left_nothing(&before, 16, say));
    fclose(say);
    assert_non_null(strstr(text, "bytes of memory"));
    free(text);
}

static void test_unknown_arguments_are_refused(void **state)
{
    static const char *const wrong[][2] = {{"--seconds", "0"},
                                           {"--threads", "65"},
                                           {"--mix", "tea=1"},
                                           {"--mix", "try=1001"},
                                           {"--colour", "1"}};
    struct start s;

    (void)state;
    database(&s);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        memcpy(s.more, wrong[i], sizeof *wrong);
        assert_ends(&s, child_start(execute, &s), 2);
        assert_non_null(strstr(said(&s), wrong[i][0]));
    }
}
#endif

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
#ifdef TEST_HAVE_SQLITE
        cmocka_unit_test(test_a_client_does_all_verbs_and_writes_them_down),
        cmocka_unit_test(test_a_client_of_the_command_beats_while_it_holds),
        cmocka_unit_test(test_sigterm_ends_a_client_that_gives_back_what_it_holds),
        cmocka_unit_test(test_a_client_ends_when_its_pipe_is_closed),
        cmocka_unit_test(test_an_answer_that_nothing_explains_ends_a_client),
        cmocka_unit_test(test_descriptors_that_are_left_behind_are_told),
        cmocka_unit_test(test_memory_that_is_left_behind_is_told),
        cmocka_unit_test(test_unknown_arguments_are_refused),
#endif
    };
    int rc = client_dispatch(argc, argv);

    return rc >= 0 ? rc : cmocka_run_group_tests(tests, NULL, NULL) == 0 ? 0 : 1;
}
