/* The short form of the cells, as tests: eight kinds of faults on each of three databases, which
 * work at the same time, and the bar that their sums are to reach. */
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/lib/check.h"
#include "tests/torture/cell.h"

/* What the sums of a whole run are to reach; `make torture` has a higher bar. */
enum {
    BAR_OPERATIONS = 20000, /* on each database */
    BAR_KINDS = 8,
    BAR_EVENTS = 10,
    BAR_GRANTS = 500,
    BAR_SETTLED = 100,
    BAR_FROZEN = 60,
    BAR_STEPS = 10,
    SECONDS = 18,
    SECONDS_STOPPED = 36, /* few of the stopped hold anything */
    SHARE =
        10, /* three cells and all else that is tested divide two processors, slow ones at that */
    LATEST_MS = 840000
};

static const struct short_cell {
    const char *engine, *fault, *test;
} cells[] = {
    {"sqlite-wal", "holder-killed", "test_sqlite_wal_keeps_its_word_when_holders_are_killed"},
    {"sqlite-wal", "client-stopped", "test_sqlite_wal_lets_no_frozen_holder_write_late"},
    {"sqlite-wal", "clock-stepped", "test_sqlite_wal_keeps_its_word_when_the_clock_is_stepped"},
    {"sqlite-wal", "housekeeping", "test_sqlite_wal_keeps_its_word_beside_reaper_and_migrator"},
    {"sqlite-wal", "checkpoint", "test_sqlite_wal_keeps_its_word_while_the_log_is_emptied"},
    {"sqlite-journal", "writer-killed", "test_sqlite_keeps_its_word_when_writers_are_killed"},
    {"sqlite-journal", "foreign-writer", "test_sqlite_keeps_its_word_while_others_write"},
    {"sqlite-journal", "hot-journal", "test_sqlite_keeps_its_word_over_hot_journals"},
    {"postgres", "holder-killed", "test_postgres_keeps_its_word_when_holders_are_killed"},
    {"postgres", "client-stopped", "test_postgres_lets_no_frozen_holder_write_late"},
    {"postgres", "clock-stepped", "test_postgres_keeps_its_word_when_its_clock_is_stepped"},
    {"postgres", "server-killed", "test_postgres_keeps_its_word_when_it_is_killed"},
    {"postgres", "reply-cut", "test_postgres_settles_every_lost_reply"},
    {"postgres", "silent-down", "test_postgres_keeps_its_word_while_no_reply_comes"},
    {"postgres", "session-ended", "test_postgres_keeps_its_word_when_sessions_are_ended"},
    {"postgres", "deadlock", "test_postgres_keeps_its_word_in_deadlocks"},
    {"postgres", "failover-sync", "test_postgres_keeps_its_word_when_its_follower_takes_over"},
    {"mariadb", "waiter-killed", "test_mariadb_keeps_its_word_when_waiters_are_killed"},
    {"mariadb", "client-stopped", "test_mariadb_lets_no_frozen_holder_write_late"},
    {"mariadb", "clock-stepped", "test_mariadb_keeps_its_word_when_its_clock_is_stepped"},
    {"mariadb", "server-stopped", "test_mariadb_keeps_its_word_when_it_is_stopped"},
    {"mariadb", "reply-cut", "test_mariadb_settles_every_lost_reply"},
    {"mariadb", "link-reset", "test_mariadb_keeps_its_word_when_links_are_reset"},
    {"mariadb", "silent-up", "test_mariadb_keeps_its_word_while_no_request_arrives"},
    {"mariadb", "rows-locked", "test_mariadb_keeps_its_word_while_rows_are_locked"},
};
enum { CELLS = sizeof cells / sizeof *cells, LANES = 3 };

static const char *const lanes[LANES] = {"sqlite", "postgres", "mysql"};

static struct {
    char *folder;
    atomic_int ended[CELLS]; /* how, behind 1; 0: not yet */
} t;

static const char *log_of(const struct short_cell *c)
{
    return text("%s/%s-%s.log", t.folder, c->engine, c->fault);
}

/* ---- a lane ---------------------------------------------------------------------------------- */

static bool is_in(const struct short_cell *c, const char *lane)
{
    const struct engine_kind *kind = engine_kind_of(c->engine);

    return kind && strcmp(kind->driver, lane) == 0;
}

static bool is_wanted(const struct short_cell *c)
{
    const char *filter = getenv("SQLOCK_TEST_FILTER");

    return !filter || !*filter || fnmatch(filter, c->test, 0) == 0;
}

/* The cells of one database, one after the other, each by a process of its own, which leaves
 * ENGINE-FAULT.log and its line in totals.tsv. */
static void *lane_main(void *lane)
{
    uint64_t seed = strtoull(getenv("SQLOCK_TEST_SEED"), NULL, 10);

    for (size_t i = 0; i < CELLS; i++) {
        const struct short_cell *c = &cells[i];
        int status, stopped = strcmp(c->fault, "client-stopped") == 0;

        if (!is_in(c, lane) || !is_wanted(c))
            continue;
        status =
            system(text("exec %s cell %s %s --seconds %d --seed %" PRIu64
                        " --totals %s/totals.tsv --share %d >%s 2>&1",
                        program_invocation_name, c->engine, c->fault,
                        stopped ? SECONDS_STOPPED : SECONDS, seed + i, t.folder, SHARE, log_of(c)));
        t.ended[i] = 1 + (WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    }
    return NULL;
}

/* ---- the tests ------------------------------------------------------------------------------- */

static int start_lanes(void **state)
{
    pthread_t thread;

    (void)state;
    setenv("SQLOCK_TEST_SEED", text("%lld", (long long)time(NULL) % 1000000000), 0);
    print_message("seed of the cells: SQLOCK_TEST_SEED=%s\n", getenv("SQLOCK_TEST_SEED"));
    t.folder = temp_dir();
    chmod(t.folder, 0755); /* servers run as other users */
    setenv("TMPDIR", t.folder, 1);
    for (int i = 0; i < LANES; i++)
        if (test_wants(lanes[i]) &&
            pthread_create(&thread, NULL, lane_main, (void *)(uintptr_t)lanes[i]) != 0)
            return 1;
    return 0;
}

/* Cells that a failed test has left behind end with this process. */
static int end_lanes(void **state)
{
    (void)state;
    temp_dir_remove(t.folder);
    return 0;
}

static void test_cell(void **state)
{
    const struct short_cell *c = *state;
    const struct engine_kind *kind = engine_kind_of(c->engine);
    int rc;

    if (!kind || !test_wants(kind->driver))
        skip();
    assert_soon(t.ended[c - cells] != 0, LATEST_MS);
    rc = t.ended[c - cells] - 1;
    fflush(stdout);
    shell("cat '%s'", log_of(c));
    if (rc == 77 && !test_strict())
        skip();
    assert_int_equal(rc, 0);
}

/* What a lane's cells have done together, and how many kinds of faults reached what a kind must. */
static void judge_lane(const char *totals, const char *lane)
{
    int64_t operations = 0, kinds = 0;
    struct total one;

    for (size_t i = 0; i < CELLS; i++) {
        if (!is_in(&cells[i], lane))
            continue;
        assert_true(totals_sum(totals, cells[i].engine, cells[i].fault, &one));
        kinds += one.events >= BAR_EVENTS && one.grants >= BAR_GRANTS;
        operations += one.operations;
    }
    print_message("%s: %" PRId64 " kinds of faults, %" PRId64 " operations\n", lane, kinds,
                  operations);
    assert_between(BAR_OPERATIONS / patience_ms(1), operations, INT64_MAX);
    assert_between(BAR_KINDS, kinds, INT64_MAX);
}

/* Only of a whole run: of some cells, or where some cannot be had, there is nothing to be said. A
 * sanitizer makes all of it slower. */
static void test_all_cells_together_reach_the_bar(void **state)
{
    const char *totals = text("%s/totals.tsv", t.folder);
    struct total sum;

    (void)state;
    assert_true(totals_sum(totals, NULL, NULL, &sum));
    if (sum.cells < CELLS) {
        print_message("SKIP: %" PRId64 " of %d cells were run: the bar is for all of them\n",
                      sum.cells, CELLS);
        skip();
    }
    print_message("%" PRId64 " grants, %" PRId64 " faults, %" PRId64 " lost replies, %" PRId64
                  " settled, %" PRId64 " frozen holders, %" PRId64 " late writes accepted, %" PRId64
                  " clock steps, %" PRId64 " violations\n",
                  sum.grants, sum.events, sum.unsure, sum.settled, sum.frozen, sum.late,
                  sum.clock_steps, sum.violations);
    assert_int_equal(sum.violations, 0);
    assert_int_equal(sum.late, 0);
    assert_between(BAR_SETTLED, sum.settled, INT64_MAX);
    assert_between(BAR_FROZEN, sum.frozen, INT64_MAX);
    assert_between(BAR_STEPS, sum.clock_steps, INT64_MAX);
    for (int i = 0; i < LANES; i++)
        judge_lane(text("%s", totals), lanes[i]);
}

int short_main(void)
{
    struct CMUnitTest tests[CELLS + 1] = {
        [CELLS] = cmocka_unit_test(test_all_cells_together_reach_the_bar)};

    for (size_t i = 0; i < CELLS; i++)
        tests[i] =
            (struct CMUnitTest){cells[i].test, test_cell, NULL, NULL, (void *)(uintptr_t)&cells[i]};
    return cmocka_run_group_tests(tests, start_lanes, end_lanes) == 0 ? 0 : 1;
}
