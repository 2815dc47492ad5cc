/* sqlock once: a command that runs once per period, on one host. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cli/shell.h"

/* A period that does not end here, and a command that shows how often it ran. */
#define LONG "--every 9000d"
#define RAN  "sh -c 'echo . >>$D/ran'"

static int times_it_ran(void)
{
    return atoi(sh("cat $D/ran 2>/dev/null | wc -l")->out);
}

TEST(test_command_runs_once_per_period, ON_ALL)
{
    for (int i = 0; i < 3; i++)
        assert_says(0, "", "", "sqlock $G once " LONG " nightly -- " RAN);
    assert_int_equal(times_it_ran(), 1);
    assert_sh("sqlock $G once " LONG " --status-fd 3 nightly " RAN " 3>$D/status");
    assert_says(0, "\"outcome\":\"done\",\"exit\":0,", "", "cat $D/status");
    assert_says(0, "", "is done", "sqlock -v $G once " LONG " nightly " RAN);
    assert_sh("sqlock $G once " LONG " weekly " RAN); /* another name */
    assert_int_equal(times_it_ran(), 2);
    assert_says(0, "", "", "sqlock $G ls --held");
}

TEST(test_next_period_runs_it_again, ON_SQLITE)
{
    for (int i = 0; i < 3; i++)
        assert_sh("sqlock $G once --every 1s nightly " RAN " && sleep 1");
    assert_int_equal(times_it_ran(), 3);
}

TEST(test_command_that_failed_runs_again, ON_SQLITE)
{
    assert_says(3, "", "", "sqlock $G once " LONG " nightly sh -c 'echo . >>$D/ran; exit 3'");
    assert_says(124, "", NULL,
                "sqlock $G once " LONG
                " --max-time 300ms nightly sh -c 'echo . >>$D/ran; sleep 9'");
    assert_says(127, "", NULL, "sqlock $G once " LONG " nightly ./not-there");
    assert_sh("sqlock $G once " LONG " nightly " RAN);
    assert_sh("sqlock $G once " LONG " nightly " RAN);
    assert_int_equal(times_it_ran(), 3);
}

/* By hand; and what a clock that was years ahead has left. */
TEST(test_again_runs_it_again, ON_SQLITE)
{
    assert_sh("sqlock $G once " LONG " nightly " RAN);
    assert_sh("sqlock $G once " LONG " --again nightly " RAN);
    assert_int_equal(times_it_ran(), 2);
    assert_sh("sqlock $G once --every 1s --again nightly " RAN);
    assert_says(78, "", "a clock is wrong", "sqlock $G once " LONG " nightly " RAN);
    assert_int_equal(times_it_ran(), 3);
    assert_sh("sqlock $G once " LONG " --again nightly " RAN);
    assert_sh("sqlock $G once " LONG " nightly " RAN);
    assert_int_equal(times_it_ran(), 4);
}

TEST(test_of_many_at_once_one_runs, ON_ALL)
{
    assert_sh("for i in 1 2 3 4; do sqlock $G once " LONG
              " nightly sh -c 'echo . >>$D/ran; sleep 0.3' & all=\"$all $!\"; done; "
              "for i in $all; do wait $i || exit 1; done");
    assert_int_equal(times_it_ran(), 1);
}

TEST(test_run_that_was_killed_is_made_up_for, ON_SQLITE)
{
    pid_t run =
        sh_start("exec sqlock $G once " LONG " --ttl 1s nightly sh -c 'echo . >>$D/ran; sleep 60'");

    wait_for("ran");
    kill_locker(run);
    assert_sh("sqlock $G once " LONG " nightly " RAN);
    assert_int_equal(times_it_ran(), 2);
}

/* It may answer a signal with 0 in the middle of its work. */
TEST(test_run_that_a_signal_ended_is_made_up_for, ON_SQLITE)
{
    pid_t run = sh_start("exec sqlock $G once " LONG " nightly sh -c 'trap \"exit 0\" TERM; "
                         "echo . >>$D/ran; while :; do sleep 0.05; done'");

    wait_for("ran");
    kill(run, SIGTERM);
    assert_int_equal(child_wait(run, patience_ms(20000)), 0);
    assert_sh("sqlock $G once " LONG " nightly " RAN);
    assert_int_equal(times_it_ran(), 2);
}

/* A command may take it as a request to read its settings again. */
TEST(test_run_that_went_on_after_hup_is_done, ON_SQLITE)
{
    pid_t run =
        sh_start("exec sqlock $G once " LONG " nightly sh -c 'trap : HUP; echo . >$D/in; n=0; "
                 "while [ $n -lt 20 ]; do sleep 0.05; n=$((n+1)); done'");

    wait_for("in");
    assert_int_equal(kill(run, SIGHUP), 0);
    assert_int_equal(child_wait(run, patience_ms(20000)), 0);
    assert_says(0, "", NULL, "sqlock $G once " LONG " nightly echo again");
}

/* The lock is held, and the register is waited for: there is no command yet. */
TEST(test_signal_before_the_start_reaches_the_command, ON_POSTGRES)
{
    pid_t session, run;

    assert_sh("mkfifo $D/go");
    session = sh_start("(echo 'BEGIN; LOCK TABLE %s.sqlock_register;'; "
                       "echo '\\! echo >$D/locked'; cat $D/go; echo 'COMMIT;') | "
                       "exec psql -Xq $SQLOCK_URL",
                       database_schema());
    wait_for("locked");
    run = sh_start("exec sqlock $G once " LONG " nightly sleep 60");
    assert_soon(strstr(sh("sqlock $G show nightly")->out, "held since") != NULL, patience_ms(5000));
    kill(run, SIGTERM);
    sleep_ms(100);
    assert_sh("echo >$D/go");
    assert_ends(run, 128 + SIGTERM);
    assert_ends(session, 0);
}

/* Another one may run it by then, and may fail: who holds the lock writes it down. */
TEST(test_run_that_lost_its_lock_is_made_up_for, ON_SQLITE)
{
    pid_t run = sh_start("exec sqlock $G once " LONG
                         " --ttl 1s --on-lost warn nightly sh -c 'echo . >>$D/ran; "
                         "until grep -q \"lock lost\" $D/err; do sleep 0.02; done'");

    wait_for("ran");
    assert_sh("sqlock $G break nightly --token $(sqlock $G --json ls nightly | "
              "sed 's/.*\"token\":\\([0-9]*\\).*/\\1/')");
    assert_int_equal(child_wait(run, patience_ms(20000)), 0);
    assert_non_null(strstr(text_of("err"), "nightly: the lock was lost, so this run is not written "
                                           "down"));
    assert_sh("sqlock $G once " LONG " nightly " RAN);
    assert_int_equal(times_it_ran(), 2);
}

TEST(test_busy_is_reported_as_by_run, ON_SQLITE)
{
    assert_sh("sqlock $G acquire -n nightly >$D/grant");
    assert_says(75, "", "nightly", "sqlock $G once " LONG " -n nightly " RAN);
    assert_says(0, "", NULL, "sqlock $G once " LONG " -n -E 0 nightly " RAN);
    assert_int_equal(times_it_ran(), 0);
}

TEST(test_period_is_needed, ON_SQLITE)
{
    assert_says(64, "", "once needs --every", "sqlock $G once nightly " RAN);
    assert_says(64, "", "--every", "sqlock $G once --every 0 nightly " RAN);
    assert_says(64, "", "\"soon\"", "sqlock $G once --every soon nightly " RAN);
    assert_says(64, "", "--every", "sqlock $G run --every 1d nightly " RAN);
    assert_says(64, "", "once needs a NAME and a CMD", "sqlock $G once --every 1d nightly");
    assert_int_equal(times_it_ran(), 0);
}

TEST_MAIN_OF_COMMAND
