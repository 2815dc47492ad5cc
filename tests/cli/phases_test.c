/* `sqlock run` in each of its phases: what --status-fd is told, what --max-time, -k and --on-lost
 * do; without descriptors, in pipes. Nothing of it is the database's. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cli/shell.h"
#include "tests/cli/survivors.h"

/* The line in $D/status is one, and says this. */
static void assert_status(const char *outcome, int code)
{
    char words[100];
    const char *text = text_of("status");

    if (strchr(text, '\n') == NULL || strchr(text, '\n')[1] != '\0')
        fail_msg("no line, or more than one: %s", text);
    snprintf(words, sizeof words, "\"outcome\":\"%s\",\"exit\":%d,", outcome, code);
    if (strstr(text, words) == NULL)
        fail_msg("%s is not in %s", words, text);
}

/* ---- --status-fd ----------------------------------------------------------------------------- */

TEST(test_status_line_of_a_database_that_is_not_there, ON_SQLITE)
{
    assert_says(69, NULL, NULL,
                "sqlock -U sqlite:/nonexistent/x run --status-fd 3 nightly true 3>$D/status");
    assert_status("error", 69);
    assert_non_null(strstr(text_of("status"), "\"child_status\":null"));
    assert_non_null(strstr(text_of("status"), "\"token\":null"));
}

TEST(test_status_line_of_a_lock_that_is_skipped, ON_SQLITE)
{
    assert_sh("sqlock acquire -n nightly");
    assert_sh("sqlock -q run -n -E 0 --status-fd 3 nightly true 3>$D/status");
    assert_status("busy", 0);
}

TEST(test_status_line_of_a_wait_that_a_signal_ends, ON_SQLITE)
{
    pid_t run;

    assert_sh("sqlock acquire -n nightly");
    run = sh_start("exec sqlock -v run --status-fd 3 nightly true 3>$D/status");
    /* It waits when its guardian is there and its database is open. */
    guardian_of(run);
    sleep_ms(700);
    kill(run, SIGTERM);
    assert_int_equal(child_wait(run, patience_ms(10000)), 128 + SIGTERM);
    assert_status("signal", 128 + SIGTERM);
}

TEST(test_status_line_of_a_command_that_outlived_its_lock, ON_SQLITE)
{
    assert_says(
        76, NULL, NULL,
        "sqlock run --ttl 1h --status-fd 3 -c nightly 'sqlock break nightly --token $($D/token "
        "nightly); exit 3' "
        "3>$D/status");
    assert_status("lost", 76);
    assert_non_null(strstr(text_of("status"), "\"child_status\":3,"));
    assert_says(3, NULL, NULL,
                "sqlock run --ttl 1h --on-lost warn --status-fd 3 -c nightly "
                "'sqlock break nightly --token $($D/token nightly); exit 3' 3>$D/status");
    assert_status("lost", 3);
}

TEST(test_status_line_that_nobody_reads_changes_nothing, ON_SQLITE)
{
    assert_says(5, NULL, "--status-fd: Broken pipe",
                "mkfifo $D/p; : <$D/p & "
                "sqlock run --status-fd 3 -c nightly 'sleep 0.3; exit 5' 3>$D/p");
    assert_says(5, NULL, "--status-fd: No space left",
                "sqlock run --status-fd 3 -c nightly 'exit 5' 3>/dev/full");
    assert_string_equal(sh("sqlock show nightly | grep -c free")->out, "1\n");
}

/* ---- --max-time, -k, --on-lost --------------------------------------------------------------- */

/* It does not count while somebody else has the lock. */
TEST(test_max_time_begins_with_the_command, ON_SQLITE)
{
    assert_sh("sqlock acquire -n --ttl 1500ms nightly");
    assert_says(5, NULL, NULL, "sqlock run --max-time 1s -c nightly 'sleep 0.2; exit 5'");
}

TEST(test_max_time_ends_a_command_that_is_stopped, ON_SQLITE)
{
    assert_says(124, NULL, "--max-time",
                "sqlock run --max-time 700ms -k 200ms -c nightly 'kill -STOP $$; sleep 100'");
    /* TERM and CONT: it may tidy up. */
    assert_says(124, "tidy\n", "--max-time",
                "sqlock run --max-time 700ms -k 20s -c nightly "
                "'trap \"echo tidy; exit\" TERM; kill -STOP $$; sleep 100'");
}

TEST(test_max_time_ends_what_does_not_care_for_its_lock, ON_SQLITE)
{
    pid_t run = start_tree("--ttl 1s --on-lost warn --max-time 2s -k 200ms", "stubborn");

    assert_sh("sqlock break nightly --token $($D/token nightly)");
    assert_ends(run, 124);
    assert_no_survivors();
}

TEST(test_no_grace_is_no_grace, ON_SQLITE)
{
    const struct said *said;

    said = sh("sqlock run --max-time 300ms -k 0 nightly sh -c 'trap \"\" TERM; sleep 100'");
    assert_said(124, NULL, NULL);
    assert_between(300, said->took_ms, patience_ms(3000));
}

/* A grace that is longer than the lease ends with it. */
TEST(test_grace_ends_with_the_lease, ON_SQLITE)
{
    pid_t run = start_tree("--ttl 2s -k 1h", "stubborn");

    kill(run, SIGSTOP);
    assert_successor_is_alone();
    kill_locker(run);
}

TEST(test_locker_that_warns_only_leaves_its_command_when_it_is_killed, ON_SQLITE)
{
    pid_t run = start_until_ready("--ttl 1s --on-lost warn -c nightly "
                                  "'echo >$D/ready; sleep 1.5; echo >$D/done'");

    kill_locker(run);
    wait_for("done");
}

/* ---- descriptors ----------------------------------------------------------------------------- */

TEST(test_killed_locker_without_descriptors_takes_its_command_along, ON_SQLITE)
{
    pid_t run = start_tree("--ttl 2s -k 300ms", "stubborn <&- >&- 2>&-");

    kill_locker(run);
    assert_successor_is_alone();
}

TEST(test_stopped_locker_and_guardian_without_descriptors_lose_their_command, ON_SQLITE)
{
    pid_t run = start_tree("--ttl 2s -k 300ms", "stubborn <&- >&- 2>&-");

    kill(run, SIGSTOP);
    kill(guardian_of(run), SIGSTOP);
    assert_lost_while_stopped(run);
}

/* The pipe ends when the last process that can write to it is gone, whoever that is. */
TEST(test_pipe_of_a_killed_locker_ends_with_its_command, ON_SQLITE)
{
    pid_t run = sh_start("sh -c 'echo $$ >$D/locker; exec sqlock run --ttl 2s -k 300ms nightly "
                         "tests/cli/tree.sh $D stubborn' 2>&1 | cat >$D/piped; echo >$D/eof");

    wait_for("ready");
    assert_sh("kill -9 $(cat $D/locker)");
    assert_successor_is_alone();
    wait_for("eof");
    assert_int_equal(child_wait(run, patience_ms(5000)), 0);
}

/* What is inherited by mistake (a descriptor of the caller's) is the command's too, and not kept by
 * us: whoever waits for its end is not kept waiting by a guardian. */
TEST(test_descriptors_of_the_caller_end_with_the_command, ON_SQLITE)
{
    assert_sh("mkfifo $D/p; (cat $D/p; date +%%s%%N >$D/eof) & "
              "(exec 9>$D/p; exec sqlock run nightly sh -c 'exec 9>&-; sleep 1'); "
              "test $(($(date +%%s%%N) - $(cat $D/eof))) -gt 500000000");
}

TEST_MAIN_OF_COMMAND
