/* Nothing of the command is alive when the lease ends, whatever happens to sqlock: P4 for programs
 * that do not ask. A successor waits for the lock, and looks for survivors as soon as it has it. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/cli/shell.h"
#include "tests/lib/pg.h"
#include "tests/lib/private.h"
#include "tests/lib/proxy.h"

/* ---- the locker ------------------------------------------------------------------------------ */

TEST(test_command_of_a_killed_locker_is_signalled_before_it_is_killed, ON_SQLITE)
{
    pid_t run =
        start_until_ready("--ttl 20s nightly sh -c 'trap \"echo tidy >$D/tidy; exit\" TERM; "
                          "echo >$D/ready; while :; do sleep 0.02; done'");

    kill_locker(run);
    wait_for("tidy");
}

TEST(test_stopped_locker_loses_its_command_before_the_lease_ends, ON_SQLITE)
{
    pid_t run = start_tree("--ttl 2s -k 300ms --status-fd 3 3>$D/status", "stubborn");

    kill(run, SIGSTOP);
    assert_lost_while_stopped(run);
    assert_non_null(strstr(text_of("status"), "\"outcome\":\"lost\""));
}

/* A stop that is shorter than the lease costs nothing. */
TEST(test_locker_that_goes_on_in_time_keeps_its_command, ON_SQLITE)
{
    pid_t run = start_until_ready("--ttl 6s nightly sh -c 'echo >$D/ready; sleep 2; exit 5'");

    kill(run, SIGSTOP);
    sleep_ms(1500);
    kill(run, SIGCONT);
    assert_ends(run, 5);
}

TEST(test_locker_killed_while_it_waits_starts_nothing, ON_ALL)
{
    pid_t run, guardian;

    assert_sh("sqlock $G acquire -n nightly >$D/grant");
    run = sh_start("exec sqlock $G run --ttl 1s nightly touch $D/ran");
    guardian = guardian_of(run);
    sleep_ms(300);
    kill_locker(run);
    assert_soon(kill(guardian, 0) != 0, patience_ms(5000));
    assert_sh("sqlock $G release nightly $(cat $D/grant)");
    assert_sh("sqlock $G run -w 10s nightly test ! -e $D/ran");
}

TEST(test_locker_killed_while_the_command_is_being_stopped, ON_SQLITE)
{
    pid_t run = start_tree("--ttl 2s -k 30s --max-time 500ms", "stubborn");

    sleep_ms(1000); /* it was asked to end, and has 30 s for it */
    kill_locker(run);
    assert_successor_is_alone();
}

/* At every moment from before the first request to after the release. */
TEST(test_locker_killed_at_any_moment_leaves_no_one, ON_ALL)
{
    for (int i = 0; i < 12; i++) {
        pid_t run;

        assert_sh("rm -f $D/pids $D/ready $D/beats; : >$D/pids; echo 0 >$D/beats");
        run =
            sh_start("exec sqlock $G run --ttl 600ms -k 100ms nightly sh -c "
                     "'echo $$ >>$D/pids; (setsid sh -c \"echo \\$\\$ >>$D/pids; sleep 100\" &) ; "
                     "sleep 0.02'");
        usleep((useconds_t)i * 4000);
        kill(run, SIGKILL);
        child_wait(run, patience_ms(5000));
        assert_successor_is_alone();
    }
}

/* ---- the guardian ---------------------------------------------------------------------------- */

TEST(test_killed_guardian_is_replaced_by_the_locker, ON_SQLITE)
{
    pid_t run = start_tree("--ttl 10s -k 300ms", "stubborn");

    kill(guardian_of(run), SIGKILL);
    assert_int_equal(child_wait(run, patience_ms(10000)), 70);
    assert_non_null(strstr(text_of("err"), "guardian process was killed"));
    assert_no_survivors();
    assert_successor_is_alone();
}

TEST(test_stopped_guardian_is_woken, ON_SQLITE)
{
    pid_t run = start_tree("--ttl 3s -k 300ms --max-time 4s", "stubborn");

    kill(guardian_of(run), SIGSTOP);
    assert_ends(run, 124);
    assert_no_survivors();
}

/* Again and again, by somebody who insists. */
TEST(test_guardian_that_is_stopped_all_the_time_gets_its_work_done, ON_SQLITE)
{
    pid_t run = start_tree("--ttl 2s -k 300ms", "stubborn"), pest;

    pest = sh_start("while kill -STOP -%d; do sleep 0.02; done 2>/dev/null", (int)guardian_of(run));
    kill(run, SIGSTOP);
    assert_lost_while_stopped(run);
    assert_int_equal(child_wait(pest, patience_ms(10000)), 0);
}

/* What it needs it had before: nobody waits for it. */
TEST(test_killed_waker_costs_nothing, ON_SQLITE)
{
    pid_t run = start_tree("--ttl 2s -k 300ms --max-time 4s", "obedient");

    kill(waker_of(run), SIGKILL);
    assert_ends(run, 124);
    assert_no_survivors();
}

/* One that forks all the time, too. */
TEST(test_both_killed_at_once_end_what_forks_all_the_time, ON_SQLITE)
{
    pid_t run, guardian;

    run =
        sh_start("exec sqlock $G run --ttl 5s nightly sh -c 'tests/cli/runner.sh $D & sleep 100'");
    wait_for("steps");
    guardian = guardian_of(run);
    kill(run, SIGSTOP);
    kill(guardian, SIGKILL);
    kill_locker(run);
    assert_says(
        0, NULL, NULL,
        "sqlock $G run -w 30s nightly sh -c 'wc -c <$D/steps >$D/a; sleep 0.3; wc -c <$D/steps | "
        "cmp - $D/a'");
}

TEST(test_pkill_by_name_meets_the_locker_only, ON_SQLITE)
{
    pid_t run = start_tree("--ttl 3s -k 300ms", "obedient");

    assert_sh("grep -a -q ^lock-guardian /proc/%d/cmdline && grep -x lock-guardian /proc/%d/comm",
              (int)guardian_of(run), (int)guardian_of(run));
    /* The waker too, whether pkill looks at the name or, with -f, at the arguments. */
    assert_sh("grep -a -q ^lock-waker /proc/%d/cmdline && grep -x lock-waker /proc/%d/comm",
              (int)waker_of(run), (int)waker_of(run));
    kill(run, SIGTERM);
    assert_ends(run, 128 + SIGTERM);
}

/* ---- the lock -------------------------------------------------------------------------------- */

TEST(test_command_whose_lock_was_broken_is_stopped, ON_SQLITE)
{
    pid_t run = start_tree("--ttl 2s -k 300ms --status-fd 3 3>$D/status", "obedient");

    assert_sh("sqlock $G break nightly --token $($D/token nightly)");
    assert_ends(run, 76);
    assert_non_null(strstr(text_of("err"), "broken"));
    assert_non_null(strstr(text_of("status"), "\"outcome\":\"lost\""));
    assert_no_survivors();
}

TEST(test_on_lost_kill_gives_no_warning, ON_SQLITE)
{
    pid_t run = start_until_ready(
        "--ttl 1s -k 20s --on-lost kill -c nightly "
        "'trap \"echo tidy\" TERM; echo >$D/ready; while :; do sleep 0.02; done'");

    assert_sh("sqlock $G break nightly --token $($D/token nightly)");
    assert_ends(run, 76);
    assert_string_equal(text_of("out"), "");
}

/* ---- the database ---------------------------------------------------------------------------- */

TEST(test_file_that_is_gone_ends_the_command_in_time, ON_SQLITE)
{
    pid_t run = start_tree("--ttl 2s -k 300ms", "stubborn");

    assert_sh("mkdir $D/away; mv $D/locks.db* $D/away");
    assert_ends(run, 76);
    assert_no_survivors();
    assert_sh("rm -f $D/locks.db*; mv $D/away/* $D");
    assert_successor_is_alone();
}

/* The link stays open and looks idle: no reply, no error. */
TEST(test_silent_network_ends_the_command_in_time, ON_POSTGRES)
{
    struct proxy *proxy = database_by_proxy();
    pid_t run = start_tree("--ttl 2s -k 300ms", "stubborn");

    proxy_mode_set(proxy, PROXY_HOLD);
    database_directly();
    assert_successor_is_alone();
    assert_ends(run, 76);
    proxy_stop(proxy);
}

/* On a server whose clock can be stepped. */
static void clock_of_our_own(void)
{
    private_clock(0);
    setenv("SQLOCK_URL", private_url(), 1);
    private_exec("CREATE SCHEMA %s", database_schema());
    assert_sh("sqlock $G migrate up");
}

/* A renewal finds its row locked, and the clock five seconds further: the lease of 12 ends in
 * five seconds less than the guardian was told with the grant. Nobody can tell it twice. */
TEST(test_stopped_locker_whose_lease_was_cut_by_the_clock_loses_its_command, ON_POSTGRES)
{
    pid_t run, session;

    clock_of_our_own();
    assert_sh("mkfifo $D/go"); /* psql is there before the lease begins: it has to be quick then */
    session = sh_start("(echo '\\! echo >$D/connected'; cat $D/go; "
                       "echo 'BEGIN; SELECT 1 FROM %s.sqlock_lock FOR UPDATE;'; "
                       "echo '\\! echo >$D/locked'; sleep 100) | exec psql -Xq $SQLOCK_URL",
                       database_schema());
    wait_for("connected");
    run = start_tree("--ttl 12s -k 300ms", "stubborn");
    assert_sh("echo >$D/go");
    wait_for("locked");
    private_clock(5);
    assert_soon(strstr(text_of("err"), "cannot renew the lease, which ends") != NULL,
                patience_ms(30000));
    sleep_ms(100);
    kill(run, SIGSTOP);
    assert_soon(*sh(SURVIVORS)->out == '\0', patience_ms(20000));
    assert_says(0, NULL, NULL,
                "test $(($(tail -n 1 $D/beats) - $(head -n 1 $D/beats))) -lt 7000000000");
    kill(-session, SIGKILL);
    child_wait(session, patience_ms(5000));
    kill(run, SIGCONT);
    assert_ends(run, 76);
}

/* ---- what does not want to die --------------------------------------------------------------- */

/* It forks and ends, its child does the same: whoever reads its number is late. */
TEST(test_process_that_forks_all_the_time_is_caught, ON_SQLITE)
{
    for (int i = 0; i < 3; i++) {
        assert_says(0, NULL, "leftover process",
                    "sqlock $G run --ttl 10s -k 200ms nightly tests/cli/runner.sh $D");

        assert_sh(
            "test -s $D/steps; wc -c <$D/steps >$D/a; sleep 0.2; wc -c <$D/steps | cmp - $D/a");
    }
}

TEST_MAIN_OF_COMMAND
