/* The helpers of tests/lib themselves: one that lets everything pass would pass every test. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/check.h"
#include "tests/lib/dice.h"
#include "tests/lib/pg.h"
#include "tests/lib/undo.h"
#include "tests/lib/words.h"

/* Each is to fail, in a child, where a failed assertion is SIGABRT. */
static int fail_in_child(void *arg)
{
    sqlock_error err = {.code = SQLOCK_EBUSY, .text = "a test of the test"};

    switch (*(int *)arg) {
    case 0:
        assert_ok(SQLOCK_EBUSY, &err);
        break;
    case 1:
        assert_code(SQLOCK_ELOST, SQLOCK_EBUSY, NULL);
        break;
    case 2:
        assert_code(SQLOCK_ELOST, SQLOCK_OK, NULL);
        break;
    case 3:
        assert_between(5, 4, 6);
        break;
    case 4:
        assert_between(5, 7, 6);
        break;
    case 5:
        assert_soon(false, 20);
        break;
    case 6:
        assert_int_equal(1, 2);
        break;
    }
    return 0;
}

TEST(test_assertions_fail_when_they_must)
{
    for (int i = 0; i < 7; i++)
        assert_int_equal(child_wait(child_start(fail_in_child, &i), 10000), -SIGABRT);
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

TEST(test_child_that_crashes_shows_the_signal)
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

static int make_dir_and_exit(void *arg)
{
    int fd = *(int *)arg;
    char *dir = temp_dir();
    ssize_t n = write(fd, dir, strlen(dir) + 1);

    assert_int_equal(mkdir(textf("%s/sub", dir), 0700), 0);
    assert_int_equal(mkdir(textf("%s/sub/sub", dir), 0700), 0);
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

TEST(test_drivers_that_are_not_built_are_not_wanted)
{
    assert_false(test_wants("fak"));
    assert_false(test_wants("oracle"));
}

TEST(test_schema_is_dropped)
{
    char *schema = pg_schema_new();
    char name[64];

    snprintf(name, sizeof name, "%s", schema);
    assert_true(undo_now(schema));
    assert_int_equal(pg_number("SELECT count(*) FROM pg_namespace WHERE nspname = '%s'", name), 0);
}

TEST_MAIN_EACH(NULL, NULL)
