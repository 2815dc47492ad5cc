/* `sqlock run` in each of its phases: what --status-fd is told, what --max-time, -k and --on-lost
 * do; without descriptors, in pipes. Nothing of it is the database's. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cli/shell.h"

/* The line in $D/status is one, and says this; of `child`, as JSON, its code and its signal. */
static void assert_status(const char *outcome, int code, const char *child)
{
    const char *text = text_of("status"), *words;

    if (strchr(text, '\n') == NULL || strchr(text, '\n')[1] != '\0')
        fail_msg("no line, or more than one: %s", text);
    words = textf("\"outcome\":\"%s\",\"exit\":%d,\"child_status\":%s,\"child_signal\":", outcome,
                  code, child);
    if (strstr(text, words) == NULL)
        fail_msg("%s is not in %s", words, text);
}

/* ---- --status-fd ----------------------------------------------------------------------------- */

TEST(test_status_line_says_how_it_ended, ON_SQLITE)
{
#define BROKEN "'sqlock break nightly --token $($D/token nightly); exit 3'"
    static const struct {
        const char *words, *outcome, *child, *says;
        int code;
    } lines[] = {
        {"run --status-fd 3 -c nightly 'exit 75'", "ended", "75", "", 75},
        {"run --status-fd 3 -c nightly 'kill -TERM $$'", "ended", "143", "", 143},
        {"run --status-fd 3 --max-time 100ms nightly sleep 10", "max-time", "143", "", 124},
        {"run --status-fd 3 nightly /etc/passwd", "not-started", "null", "Permission denied", 126},
        {"run --status-fd 3 --ttl 1h -c nightly " BROKEN, "lost", "3",
         "lost before the command ended", 76},
        {"run --status-fd 3 --ttl 1h --on-lost warn -c nightly " BROKEN, "lost", "3", "", 3},
        {"-U sqlite:/nonexistent/x run --status-fd 3 nightly true", "error", "null", "", 69},
        {"acquire -n nightly; sqlock run -n --status-fd 3 nightly true", "busy", "null",
         "nightly is busy", 75},
        {"-q run -n -E 0 --status-fd 3 nightly true", "busy", "null", "", 0},
    };

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        assert_says(lines[i].code, NULL, lines[i].says, "exec 3>$D/status; sqlock %s",
                    lines[i].words);
        assert_status(lines[i].outcome, lines[i].code, lines[i].child);
    }
}

TEST(test_status_line_says_times_and_token, ON_SQLITE)
{
    long waited, held, token;

    assert_sh("sqlock acquire -n --ttl 1s nightly;"
              "sqlock run --status-fd 3 nightly sleep 0.3 3>$D/status");
    assert_int_equal(sscanf(strstr(text_of("status"), "\"waited_ms\""),
                            "\"waited_ms\":%ld,\"held_ms\":%ld,\"token\":%ld", &waited, &held,
                            &token),
                     3);
    assert_between(400, waited, patience_ms(9000));
    assert_between(300, held, patience_ms(9000));
    assert_int_equal(token, atol(sh("$D/token nightly")->out));
}

TEST(test_signal_ends_a_wait_and_starts_nothing, ON_SQLITE)
{
    pid_t run;

    assert_sh("sqlock acquire -n nightly >$D/grant");
    run = sh_start("exec sqlock -v run --status-fd 3 nightly touch $D/ran 3>$D/status");
    /* It waits when its guardian is there and its database is open. */
    guardian_of(run);
    sleep_ms(700);
    kill(run, SIGTERM);
    assert_int_equal(child_wait(run, patience_ms(10000)), 128 + SIGTERM);
    assert_status("signal", 128 + SIGTERM, "null");
    assert_sh("sqlock release nightly $(cat $D/grant); sleep 0.2; test ! -e $D/ran");
    assert_says(0, "free", NULL, "sqlock show nightly");
}

TEST(test_status_line_that_no_one_reads_changes_nothing, ON_SQLITE)
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
    assert_non_null(strstr(text_of("err"), "goes on without it"));
    assert_no_survivors();
}

TEST(test_no_grace_is_no_grace, ON_SQLITE)
{
    const struct said *said =
        sh("sqlock run --max-time 300ms -k 0 nightly sh -c 'trap \"\" TERM; sleep 100'");

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
