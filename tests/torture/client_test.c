/* A client does what it was asked to, writes it down, and ends when it shall. On SQLite, where a
 * server is not needed for that; the cells have the others. */
#ifdef TEST_HAVE_SQLITE
#include <sqlite3.h>
#endif

#include "tests/torture/client.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/check.h"
#include "tests/torture/text.h"

#ifdef TEST_HAVE_SQLITE
#include <sqlock/sqlite.h>

enum { NAMES = 5 }; /* one of them is shared at times, and the last one has slots */

/* ---- a client to be started ------------------------------------------------------------------ */

static char *folder, url[300], said[4096];

static void database(void)
{
    sqlock_error err = {0};
    sqlite3 *db = NULL;

    folder = temp_dir();
    snprintf(url, sizeof url, "sqlite:%s/db", folder);
    assert_ok(sqlock_migrate(sqlock_driver_sqlite(), url, NULL, NULL, &err), &err);
    assert_int_equal(sqlite3_open(url + strlen("sqlite:"), &db), SQLITE_OK);
    sqlite3_exec(db, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_true(client_tables(url, NAMES));
}

static int execute(void *more)
{
    execl("/bin/sh", "sh", "-c",
          text("exec %s client --folder %s --url %s --process 1 --names %d --seed 7 %s 2>%s/err",
               program_invocation_name, folder, url, NAMES, (char *)more, folder),
          (char *)NULL);
    return 98;
}

static pid_t start(const char *more)
{
    return child_start(execute, (void *)(uintptr_t)more);
}

static void assert_ends(pid_t client, int code)
{
    int rc = child_wait(client, patience_ms(20000));
    FILE *f = fopen(text("%s/err", folder), "r");

    assert_non_null(f);
    said[fread(said, 1, sizeof said - 1, f)] = '\0';
    fclose(f);
    if (rc != code)
        fail_msg("it ended with %d: %s", rc, said);
}

/* ---- its history ----------------------------------------------------------------------------- */

struct counts {
    int64_t asked[V_COUNT], done[V_COUNT];
    int64_t grants[4]; /* by their way */
    int64_t open;      /* never answered */
};

static void count(struct counts *c)
{
    struct event *events = NULL;
    int64_t n = history_read(folder, &events);

    *c = (struct counts){0};
    assert_true(n > 0);
    for (int64_t i = 0; i < n; i++) {
        const struct event *e = &events[i];

        assert_true(e->name < NAMES);
        c->asked[e->verb]++;
        c->open += e->return_us == HISTORY_NOT_RETURNED;
        if (e->outcome != 0 || (e->verb == V_SETTLE && e->value == SQLOCK_WHY_RELEASED))
            continue; /* the settle of a release grants nothing */
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
static void assert_proved(int32_t lease_ms)
{
    struct check_rules rules = {.folder = folder, .engine = "SQLite", .lease_ms = lease_ms};
    struct check_row rows[NAMES];
    struct check_verdict verdict;
    struct event *events = NULL;
    int64_t n;
    int rc;

    assert_true(client_final(url, NAMES, rows));
    rules.rows = rows;
    rules.n_rows = NAMES;
    n = history_read(folder, &events);
    rc = check_history(&rules, events, n, &verdict, stderr);
    free(events);
    assert_int_equal(rc, 0);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void test_a_client_does_all_verbs_and_writes_them_down(void **state)
{
    struct counts c;

    (void)state;
    database();
    assert_ends(start("--seconds 3 --lease 100 --mix "
                      "'reap=5 break=50 give-back=500 stale=5 late=10 forget=20'"),
                0);
    count(&c);
    assert_int_equal(c.open, 0);
    for (int way = 0; way < 3; way++)
        assert_true(c.grants[way] >= 10);
    assert_true(c.done[V_SHARE] >= 10 && c.done[V_SLOTS] == 1);
    for (int verb = V_RENEW; verb <= V_GUARDED; verb++)
        if (verb != V_SETTLE && verb != V_BREAK)
            assert_true(c.done[verb] >= 10);
    assert_true(c.done[V_BREAK] > 0);
    assert_true(c.done[V_ROW_LOCK] >= 10 && c.done[V_CAS] >= 10 && c.done[V_REAP] >= 3);
    assert_true(c.asked[V_GUARDED] > c.done[V_GUARDED]); /* those who slept too long */
    assert_proved(100);
}

static void test_a_client_of_the_command_beats_while_it_holds(void **state)
{
    struct counts c;

    (void)state;
    database();
    assert_ends(start("--command --seconds 3 --threads 2"), 0);
    count(&c);
    assert_int_equal(c.open, 0);
    assert_true(c.grants[3] > 0 && c.done[V_BEAT] >= c.grants[3]);
    assert_true(c.grants[0] > 0 && c.done[V_RELEASE] > 0);
    assert_proved(1000);
}

static void test_sigterm_ends_a_client_that_gives_back_what_it_holds(void **state)
{
    struct counts c;
    pid_t client;

    (void)state;
    database();
    client = start("--seconds 60 --lease 60000 --mix forget=0");
    sleep_ms(300);
    assert_int_equal(kill(client, SIGTERM), 0);
    assert_ends(client, 0);
    count(&c);
    assert_int_equal(c.open, 0);
    assert_int_equal(c.done[V_RELEASE] + c.done[V_BREAK],
                     c.done[V_ACQUIRE] + c.done[V_SHARE] + c.done[V_SETTLE]); /* all of them */
}

static void test_an_answer_that_nothing_explains_ends_a_client(void **state)
{
    sqlock_error err = {0};

    (void)state;
    database();
    assert_ok(
        sqlock_migrate_to(sqlock_driver_sqlite(), url, NULL, 0, SQLOCK_MIGRATE_DOWN, NULL, &err),
        &err);
    assert_ends(start(""), 1);
    assert_non_null(strstr(said, "SQLOCK_ESCHEMA"));
    assert_non_null(strstr(said, "seed 7"));
    assert_ends(start("--allow SQLOCK_ESCHEMA"), 0);
}

#endif

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
#ifdef TEST_HAVE_SQLITE
        cmocka_unit_test(test_a_client_does_all_verbs_and_writes_them_down),
        cmocka_unit_test(test_a_client_of_the_command_beats_while_it_holds),
        cmocka_unit_test(test_sigterm_ends_a_client_that_gives_back_what_it_holds),
        cmocka_unit_test(test_an_answer_that_nothing_explains_ends_a_client),
#endif
    };
    int rc = client_dispatch(argc, argv);

    return rc >= 0 ? rc : cmocka_run_group_tests(tests, NULL, NULL) == 0 ? 0 : 1;
}
