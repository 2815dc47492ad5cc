/* The helpers of tests/lib themselves: a helper that lets everything pass would make every test
 * pass. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/check.h"
#include "tests/lib/dice.h"
#include "tests/lib/pg.h"

/* Each is to fail, in a child, where a failed assertion is SIGABRT. */
static int fail_on_code(void *arg)
{
    sqlock_error err = {.code = SQLOCK_EBUSY, .text = "a test of the test"};
    (void)arg;
    assert_ok(SQLOCK_EBUSY, &err);
    return 0;
}

static int fail_on_other_code(void *arg)
{
    (void)arg;
    assert_code(SQLOCK_ELOST, SQLOCK_EBUSY, NULL);
    return 0;
}

static int fail_on_success(void *arg)
{
    (void)arg;
    assert_code(SQLOCK_ELOST, SQLOCK_OK, NULL);
    return 0;
}

static int fail_below(void *arg)
{
    (void)arg;
    assert_between(5, 4, 6);
    return 0;
}

static int fail_above(void *arg)
{
    (void)arg;
    assert_between(5, 7, 6);
    return 0;
}

static int fail_late(void *arg)
{
    (void)arg;
    assert_soon(false, 20);
    return 0;
}

static int fail_plain(void *arg)
{
    (void)arg;
    assert_int_equal(1, 2);
    return 0;
}

TEST(test_assertions_fail_when_they_must)
{
    int (*const failing[])(void *) = {fail_on_code, fail_on_other_code, fail_on_success, fail_below,
                                      fail_above,   fail_late,          fail_plain};

    for (size_t i = 0; i < sizeof failing / sizeof *failing; i++)
        assert_int_equal(child_wait(child_start(failing[i], NULL), 10000), -SIGABRT);
}

TEST(test_assertions_pass_when_they_may)
{
    int64_t begun_us = now_us();

    assert_ok(0, NULL);
    assert_code(SQLOCK_EBUSY, SQLOCK_EBUSY, NULL);
    assert_between(5, 5, 5);
    assert_soon(now_us() - begun_us >= 20000, 5000);
    assert_between(20000, now_us() - begun_us, 5000000);
}

static int end_with(void *arg)
{
    return *(int *)arg;
}

static int end_by_segv(void *arg)
{
    (void)arg;
    raise(SIGSEGV);
    return 0;
}

static int sleep_long(void *arg)
{
    (void)arg;
    sleep_ms(60000);
    return 0;
}

TEST(test_child_tells_its_result)
{
    int seven = 7;

    assert_int_equal(child_wait(child_start(end_with, &seven), 10000), 7);
}

TEST(test_child_that_crashes_tells_the_signal)
{
    int got = child_wait(child_start(end_by_segv, NULL), 10000);

    /* A sanitizer turns it into an exit of its own. */
    if (getenv("SAN") && *getenv("SAN"))
        assert_int_not_equal(got, 0);
    else
        assert_int_equal(got, -SIGSEGV);
}

TEST(test_child_may_be_stopped_and_killed)
{
    pid_t child = child_start(sleep_long, NULL);

    assert_false(child_ended(child));
    kill(child, SIGSTOP);
    kill(child, SIGKILL);
    assert_soon(child_ended(child), 5000);
    assert_int_equal(child_wait(child, 1000), -SIGKILL);
}

TEST(test_temp_dir_goes_with_its_content)
{
    char *dir = temp_dir();
    char path[4200];
    struct stat st;
    FILE *f;

    snprintf(path, sizeof path, "%s/sub", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/sub/file", dir);
    f = fopen(path, "w");
    assert_non_null(f);
    fclose(f);
    snprintf(path, sizeof path, "%s", dir);
    temp_dir_remove(dir);
    assert_int_equal(stat(path, &st), -1);
    assert_int_equal(errno, ENOENT);
}

static int make_dir_and_exit(void *arg)
{
    int fd = *(int *)arg;
    char *dir = temp_dir();
    ssize_t n = write(fd, dir, strlen(dir) + 1);
    /* With exit handlers, as a test program ends. */
    exit(n > 0 ? 0 : 1);
}

TEST(test_temp_dir_goes_with_its_process_and_not_with_a_child)
{
    char *mine = temp_dir();
    char theirs[4096] = "";
    struct stat st;
    int ends[2];
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = child_start(make_dir_and_exit, &ends[1]);
    assert_int_equal(child_wait(child, 10000), 0);
    assert_true(read(ends[0], theirs, sizeof theirs - 1) > 0);
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(stat(theirs, &st), -1);
    assert_int_equal(stat(mine, &st), 0);
    temp_dir_remove(mine);
}

TEST(test_dice_of_a_seed_fall_the_same_way_and_of_another_differently)
{
    struct dice one = dice_of(1), again = dice_of(1), other = dice_of(2);
    int same = 0;

    for (int i = 0; i < 100; i++) {
        uint64_t n = dice_below(&one, 6);

        assert_true(n < 6);
        assert_int_equal(n, dice_below(&again, 6));
        same += n == dice_below(&other, 6);
    }
    assert_between(5, same, 35);
}

#ifdef TEST_HAVE_FAKE
static const bool fake_is_built = true;
#else
static const bool fake_is_built = false;
#endif

TEST(test_fake_driver_is_there_if_it_was_built_and_unknown_ones_never)
{
    assert_int_equal(test_wants("fake"), fake_is_built);
    assert_false(test_wants("fak"));
    assert_false(test_wants("oracle"));
}

TEST(test_server_is_there_if_its_variable_says_so)
{
    const struct test_server ours = {"fake", "server", "SQLOCK_TEST_SELF_URL"};
    const struct test_server other = {"oracle", "server", "SQLOCK_TEST_NONE_URL"};
    int code = -1;

    setenv("SQLOCK_TEST_SELF_URL", "fake://self", 1);
    assert_int_equal(test_server_is_missing(&ours, &code), 0);
    assert_string_equal(test_server_url(&ours), "fake://self");
    assert_int_equal(test_server_is_missing(&other, &code), 0); /* nobody asks for it */
    assert_int_equal(code, -1);
    unsetenv("SQLOCK_TEST_SELF_URL");
}

TEST(test_schema_is_fresh_and_dropped)
{
    char *schema = pg_schema_new();
    char *other = pg_schema_new();
    char name[64];

    snprintf(name, sizeof name, "%s", schema);
    assert_string_not_equal(schema, other);
    pg_exec("CREATE TABLE %s.t AS SELECT 42 AS n", name);
    assert_int_equal(pg_number("SELECT n FROM %s.t", name), 42);
    assert_int_equal(pg_number("SELECT n FROM %s.t WHERE n = 0", name), -1);
    pg_schema_drop(schema);
    pg_schema_drop(other);
    assert_int_equal(pg_number("SELECT count(*) FROM pg_namespace WHERE nspname = '%s'", name), 0);
}

/* What the library's open will ask for. */
TEST(test_server_keeps_its_commits)
{
    assert_int_equal(pg_number("SELECT (current_setting('fsync') = 'on')::int"), 1);
    assert_int_equal(pg_number("SELECT (current_setting('synchronous_commit') = 'on')::int"), 1);
}

TEST_MAIN_EACH(NULL, NULL)
