#include "tests/torture/short.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/check.h"
#include "tests/torture/engine.h"
#include "tests/torture/totals.h"

/* What the sums of a whole run are to reach; `make torture` has a higher bar. */
enum {
    BAR_OPERATIONS = 50000, /* on each database */
    BAR_KINDS = 8,
    BAR_EVENTS = 10,
    BAR_GRANTS = 500,
    BAR_SETTLED = 100,
    BAR_FROZEN = 60,
    BAR_STEPS = 10,
    SECONDS = 18,
    SECONDS_STOPPED = 36, /* few of the stopped hold anything */
    LANES = 3,
    LATEST_MS = 840000
};

/* Three cells and whatever else is tested divide two processors, and slow ones at that. */
#define SHARE "10"

#define SHORT_CELLS(X)                                                                             \
    X(sqlite, "sqlite-wal", "holder-killed", sqlite_wal_keeps_its_word_when_holders_are_killed)    \
    X(sqlite, "sqlite-wal", "client-stopped", sqlite_wal_lets_no_frozen_holder_write_late)         \
    X(sqlite, "sqlite-wal", "clock-stepped", sqlite_wal_keeps_its_word_when_the_clock_is_stepped)  \
    X(sqlite, "sqlite-wal", "housekeeping", sqlite_wal_keeps_its_word_beside_reaper_and_migrator)  \
    X(sqlite, "sqlite-wal", "checkpoint", sqlite_wal_keeps_its_word_while_the_log_is_emptied)      \
    X(sqlite, "sqlite-journal", "writer-killed", sqlite_keeps_its_word_when_writers_are_killed)    \
    X(sqlite, "sqlite-journal", "foreign-writer", sqlite_keeps_its_word_while_others_write)        \
    X(sqlite, "sqlite-journal", "hot-journal", sqlite_keeps_its_word_over_hot_journals)            \
    X(postgres, "postgres", "holder-killed", postgres_keeps_its_word_when_holders_are_killed)      \
    X(postgres, "postgres", "client-stopped", postgres_lets_no_frozen_holder_write_late)           \
    X(postgres, "postgres", "clock-stepped", postgres_keeps_its_word_when_its_clock_is_stepped)    \
    X(postgres, "postgres", "server-killed", postgres_keeps_its_word_when_it_is_killed)            \
    X(postgres, "postgres", "reply-cut", postgres_settles_every_lost_reply)                        \
    X(postgres, "postgres", "silent-down", postgres_keeps_its_word_while_no_reply_comes)           \
    X(postgres, "postgres", "session-ended", postgres_keeps_its_word_when_sessions_are_ended)      \
    X(postgres, "postgres", "deadlock", postgres_keeps_its_word_in_deadlocks)                      \
    X(postgres, "postgres", "failover-sync", postgres_keeps_its_word_when_its_follower_takes_over) \
    X(mysql, "mariadb", "waiter-killed", mariadb_keeps_its_word_when_waiters_are_killed)           \
    X(mysql, "mariadb", "client-stopped", mariadb_lets_no_frozen_holder_write_late)                \
    X(mysql, "mariadb", "clock-stepped", mariadb_keeps_its_word_when_its_clock_is_stepped)         \
    X(mysql, "mariadb", "server-stopped", mariadb_keeps_its_word_when_it_is_stopped)               \
    X(mysql, "mariadb", "reply-cut", mariadb_settles_every_lost_reply)                             \
    X(mysql, "mariadb", "link-reset", mariadb_keeps_its_word_when_links_are_reset)                 \
    X(mysql, "mariadb", "silent-up", mariadb_keeps_its_word_while_no_request_arrives)              \
    X(mysql, "mariadb", "rows-locked", mariadb_keeps_its_word_while_rows_are_locked)

struct short_cell {
    const char *driver, *engine, *fault, *test;
};

static const struct short_cell cells[] = {
#define SHORT_CELL(driver, engine, fault, name) {#driver, engine, fault, "test_" #name},
    SHORT_CELLS(SHORT_CELL)
#undef SHORT_CELL
};

enum { CELLS = sizeof cells / sizeof *cells };

static const char *const lanes[LANES] = {"sqlite", "postgres", "mysql"};

static void path_of(const char *folder, const struct short_cell *c, const char *end, char out[400])
{
    snprintf(out, 400, "%s/%s-%s.%s", folder, c->engine, c->fault, end);
}

/* ---- a lane -----------------------------------------------------------------------------------
 */

static bool is_wanted(const struct short_cell *c)
{
    const char *filter = getenv("SQLOCK_TEST_FILTER");

    return !filter || !*filter || fnmatch(filter, c->test, 0) == 0;
}

static int run_cell(const struct short_cell *c, const char *folder, uint64_t seed)
{
    char log[400], totals[400], number[32], seconds[16];
    pid_t parent = getpid(), child;
    int status = 0, fd;

    path_of(folder, c, "log", log);
    snprintf(totals, sizeof totals, "%s/totals.tsv", folder);
    snprintf(number, sizeof number, "%" PRIu64, seed);
    snprintf(seconds, sizeof seconds, "%d",
             strcmp(c->fault, "client-stopped") == 0 ? SECONDS_STOPPED : SECONDS);
    child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        fd = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        if (getppid() != parent || fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
            _exit(99);
        execl("/proc/self/exe", "torture", "cell", c->engine, c->fault, "--seconds", seconds,
              "--seed", number, "--totals", totals, "--share", SHARE, (char *)NULL);
        _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 99;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Under another name first: who waits for it finds all of it. */
static void leave_result(const struct short_cell *c, const char *folder, int rc)
{
    char fresh[400], path[400];
    FILE *f;

    path_of(folder, c, "new", fresh);
    path_of(folder, c, "rc", path);
    f = fopen(fresh, "w");
    if (!f || fprintf(f, "%d\n", rc) < 0 || fclose(f) != 0 || rename(fresh, path) != 0)
        perror(path);
}

int short_lane(const char *driver, const char *folder)
{
    uint64_t seed = strtoull(getenv("SQLOCK_TEST_SEED"), NULL, 10);

    for (size_t i = 0; i < CELLS; i++)
        if (strcmp(cells[i].driver, driver) == 0 && is_wanted(&cells[i]))
            leave_result(&cells[i], folder, run_cell(&cells[i], folder, seed + i));
    return 0;
}

/* ---- the tests --------------------------------------------------------------------------------
 */

static struct {
    char *folder;
    pid_t lanes[LANES];
    pid_t watch;
} t;

/* Servers run as other users. */
static char *folder_new(void)
{
    char *folder = temp_dir();

    chmod(folder, 0755);
    setenv("TMPDIR", folder, 1);
    return folder;
}

/* Memory, where the folder often lies, is dear: also when this program is killed with its group.
 * All that it started was told to end by then, but servers take their time. */
static void remove_later(const char *folder)
{
    char command[500], byte;
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    t.watch = fork();
    if (t.watch != 0) {
        close(ends[0]);
        return;
    }
    setsid();
    close(ends[1]);
    signal(SIGTERM, SIG_IGN);
    while (read(ends[0], &byte, 1) < 0)
        ;
    snprintf(command, sizeof command, "rm -rf '%s' 2>/dev/null", folder);
    for (int i = 0; i < 30; i++) {
        sleep_ms(1000);
        if (system(command) == 0 && i > 10)
            break;
    }
    _exit(0);
}

static int start_lanes(void **state)
{
    char seed[32];

    (void)state;
    snprintf(seed, sizeof seed, "%lld", (long long)time(NULL) % 1000000000);
    setenv("SQLOCK_TEST_SEED", seed, 0);
    print_message("seed of the cells: SQLOCK_TEST_SEED=%s\n", getenv("SQLOCK_TEST_SEED"));
    t.folder = folder_new();
    remove_later(t.folder);
    for (int i = 0; i < LANES; i++) {
        pid_t parent = getpid();

        if (!test_wants(lanes[i]))
            continue;
        t.lanes[i] = fork();
        if (t.lanes[i] != 0)
            continue;
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() == parent)
            execl("/proc/self/exe", "torture", "lane", lanes[i], t.folder, (char *)NULL);
        _exit(127);
    }
    return 0;
}

static int end_lanes(void **state)
{
    (void)state;
    for (int i = 0; i < LANES; i++)
        if (t.lanes[i] > 0) {
            kill(t.lanes[i], SIGTERM);
            waitpid(t.lanes[i], NULL, 0);
        }
    temp_dir_remove(t.folder);
    kill(t.watch, SIGKILL);
    waitpid(t.watch, NULL, 0);
    return 0;
}

static bool result_is_there(const struct short_cell *c, int *out)
{
    char path[400];
    FILE *f;
    bool there;

    path_of(t.folder, c, "rc", path);
    f = fopen(path, "r");
    there = f && fscanf(f, "%d", out) == 1;
    if (f)
        fclose(f);
    return there;
}

static void put_log(const struct short_cell *c)
{
    char path[400], line[1024];
    FILE *f;

    path_of(t.folder, c, "log", path);
    f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        fputs(line, stdout);
    if (f)
        fclose(f);
}

static void prove(const struct short_cell *c)
{
    int rc = -1;

    if (!test_wants(c->driver))
        skip();
    assert_soon(result_is_there(c, &rc), LATEST_MS);
    put_log(c);
    if (rc == 77 && !test_strict())
        skip();
    assert_int_equal(rc, 0);
}

#define SHORT_TEST(driver, engine, fault, name)                                                    \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        prove(&(const struct short_cell){#driver, engine, fault, NULL});                           \
    }
SHORT_CELLS(SHORT_TEST)
#undef SHORT_TEST

/* ---- the bar ----------------------------------------------------------------------------------
 */

/* What a lane's cells have done together, and how many kinds of faults reached what a kind must. */
static struct total sum_of(const char *totals, const char *driver, int *kinds)
{
    struct total sum = {0}, one;

    *kinds = 0;
    for (size_t i = 0; i < CELLS; i++) {
        if (strcmp(cells[i].driver, driver) != 0)
            continue;
        assert_true(totals_sum(totals, cells[i].engine, cells[i].fault, &one));
        *kinds += one.events >= BAR_EVENTS && one.grants >= BAR_GRANTS;
        sum.operations += one.operations;
    }
    print_message("%s: %d kinds of faults, %" PRId64 " operations\n", driver, *kinds,
                  sum.operations);
    return sum;
}

/* Only of a whole run: of some cells, or where some cannot be had, there is nothing to be said. A
 * sanitizer makes all of it slower. */
static void test_all_cells_together_reach_the_bar(void **state)
{
    const int64_t slow = patience_ms(1);
    struct total sum;
    char path[400];
    int kinds;

    (void)state;
    snprintf(path, sizeof path, "%s/totals.tsv", t.folder);
    assert_true(totals_sum(path, NULL, NULL, &sum));
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
    for (int i = 0; i < LANES; i++) {
        sum = sum_of(path, lanes[i], &kinds);
        assert_between(BAR_OPERATIONS / slow, sum.operations, INT64_MAX);
        assert_between(BAR_KINDS, kinds, INT64_MAX);
    }
}

int short_main(void)
{
#define SHORT_UNIT(driver, engine, fault, name) cmocka_unit_test(test_##name),
    const struct CMUnitTest tests[] = {SHORT_CELLS(SHORT_UNIT)
                                           cmocka_unit_test(test_all_cells_together_reach_the_bar)};

    return cmocka_run_group_tests(tests, start_lanes, end_lanes) == 0 ? 0 : 1;
}
