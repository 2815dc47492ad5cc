/* `sqlock run`: what the command is given, and what comes back. Little of it is the database's. */
#include <signal.h>
#include <string.h>

#include "tests/cli/shell.h"

/* ---- exit codes ------------------------------------------------------------------------------ */

TEST(test_exit_code_of_the_command_is_handed_on, ON_SQLITE)
{
    assert_says(0, "", "", "sqlock $G run nightly true");
    assert_says(3, "", "", "sqlock $G run nightly sh -c 'exit 3'");
    assert_says(255, "", "", "sqlock $G run nightly sh -c 'exit 255'");
    assert_says(128 + SIGKILL, "", "", "sqlock $G run nightly sh -c 'kill -9 $$'");
    assert_says(127, "", "No such file", "sqlock $G run nightly $D/absent");
    assert_says(126, "", "Permission denied", "sqlock $G run nightly /etc/passwd");
    assert_says(0, "free", NULL, "sqlock $G show nightly");
}

TEST(test_busy_is_75_or_what_was_requested, ON_SQLITE)
{
    assert_sh("sqlock $G acquire -n nightly");
    assert_says(75, "", "nightly is busy: held by host", "sqlock $G run -n nightly touch $D/ran");
    assert_says(7, "", "nightly is busy", "sqlock $G run -w 300ms -E 7 nightly touch $D/ran");
    assert_says(0, "", "", "sqlock $G -q run -n -E 0 nightly touch $D/ran");
    assert_string_equal("", sh("sqlock $G -q run -n -E 0 nightly touch $D/ran")->err);
    assert_says(1, NULL, NULL, "test -e $D/ran");
}

/* ---- what the command is given --------------------------------------------------------------- */

TEST(test_command_finds_its_lock_in_the_environment, ON_ALL)
{
    assert_says(0, "nightly 1\n1\n1\n", NULL,
                "sqlock $G run nightly sh -c 'echo $SQLOCK_NAME $SQLOCK_HELD; "
                "sqlock $G show nightly >$D/shown; grep -c $SQLOCK_OWNER $D/shown; "
                "grep -cw $SQLOCK_TOKEN $D/shown'");
}

TEST(test_lock_is_held_at_least_so_long, ON_SQLITE)
{
    pid_t run;

    assert_between(800, sh("sqlock $G run --ttl 500ms --at-least 800ms a sh -c 'exit 7'")->took_ms,
                   patience_ms(20000));
    assert_said(7, "", "");
    assert_between(0, sh("sqlock $G run --at-least 100ms a sleep 0.3")->took_ms, patience_ms(5000));
    run = sh_start("exec sqlock $G run --at-least 1h nightly touch $D/ran");
    assert_soon(sh("test -e $D/ran")->code == 0, patience_ms(10000));
    sleep_ms(500);
    assert_says(75, "", NULL, "sqlock $G acquire -n nightly");
    kill(run, SIGTERM);
    assert_int_equal(child_wait(run, patience_ms(10000)), 0);
    assert_sh("sqlock $G acquire -n nightly");
}

/* As flock -c: words behind the line would be $0 and $1 of it, not what they look like. */
TEST(test_c_runs_one_line_of_shell, ON_SQLITE)
{
    assert_says(5, "a b,c\n", NULL, "sqlock $G run -c nightly 'echo \"a b\",c; exit 5'");
    assert_says(64, "", "-c takes a single CMD, one line for sh: quote it",
                "sqlock $G run -c nightly echo a b");
}

TEST(test_options_behind_the_name_are_the_commands_own, ON_SQLITE)
{
    assert_says(0, "--json -q.", NULL, "sqlock $G run nightly echo -n --json -q; echo .");
}

TEST(test_stdin_reaches_the_command, ON_SQLITE)
{
    assert_says(0, "through the pipe\n", NULL, "echo through the pipe | sqlock $G run nightly cat");
}

TEST(test_closed_stdin_stays_closed, ON_SQLITE)
{
    assert_says(0, "closed\n", NULL,
                "sqlock $G run nightly sh -c 'test -e /proc/self/fd/0 || echo closed' <&-");
    assert_says(0, "there\n", NULL,
                "sqlock $G run nightly sh -c 'echo there >$D/there' <&- >&- 2>&- && cat $D/there");
}

/* The same descriptors, blocked and ignored signals, limits as without us. */
TEST(test_command_inherits_what_it_would_without_sqlock, ON_SQLITE)
{
    static const char look[] =
        "ls /proc/self/fd; grep -E \"^Sig(Blk|Ign|Cgt)|^NoNew\" /proc/self/status";
    static const char given[] =
        "env --ignore-signal=USR2 --ignore-signal=PIPE --ignore-signal=CHLD "
        "--block-signal=ALRM --block-signal=TERM";

    assert_sh("exec 7</etc/passwd; "
              "%s perl -e 'exec @ARGV' sh -c '%s' >$D/without; "
              "%s sqlock $G run --status-fd 8 nightly perl -e 'exec @ARGV' sh -c '%s' >$D/with "
              "8>$D/status; cat $D/with; cmp $D/with $D/without",
              given, look, given, look);
    assert_said(0, "SigIgn", NULL);
}

TEST(test_pipe_ends_when_the_command_closes_it, ON_SQLITE)
{
    /* The reader comes to the end a second before sqlock does. */
    assert_says(
        0, "word\n", NULL,
        "sqlock $G run nightly sh -c 'echo word; exec >&- 2>&-; sleep 1' | "
        "(cat; date +%%s%%N >$D/eof); test $(($(date +%%s%%N) - $(cat $D/eof))) -gt 500000000");
}

/* It would wait for itself, whatever is between the two. */
TEST(test_run_inside_a_run_of_the_same_lock_is_refused, ON_SQLITE)
{
    assert_says(64, "", "t is held by an outer", "sqlock $G run t sqlock $G run t touch $D/ran");
    assert_says(64, "", "t is held by",
                "sqlock $G run t sqlock $G run u sh -c 'sqlock $G run -w 1h t touch $D/ran'");
    assert_says(64, "", "t is held by", "sqlock $G run t sqlock $G acquire t");
    assert_says(75, "", "t is busy", "sqlock $G run t sqlock $G run -n t touch $D/ran");
    assert_sh("test ! -e $D/ran");
    /* Others are none of it: another name or namespace, one that others hold, one that was lost. */
    assert_sh("sqlock $G run t sqlock $G run u true");
    assert_sh("sqlock $G run t sqlock $G --namespace x run t true");
    assert_sh("sqlock $G acquire -n --ttl 1s v");
    assert_sh("SQLOCK_OUTER=$SQLOCK_OWNER sqlock $G run t sqlock $G run -w 20s v true");
}

/* Or sqlock inside would look for the lock elsewhere, and say that it is free. */
TEST(test_command_finds_the_database_that_was_used, ON_ALL)
{
    assert_sh("echo \"$SQLOCK_URL\" >$D/url");
    assert_sh("SQLOCK_URL=sqlite:$D/x sqlock -U \"$SQLOCK_URL\" $G run nightly env >$D/env && "
              "grep -qxF \"SQLOCK_URL=$SQLOCK_URL\" $D/env");
    assert_sh("DATABASE_URL=sqlite:$D/x && export DATABASE_URL && unset SQLOCK_URL && "
              "sqlock --url-file $D/url $G run t sqlock $G show t");
    assert_says(64, "", NULL,
                "SQLOCK_URL=sqlite:$D/x sqlock --url-file $D/url $G run t sqlock $G run t true");
    assert_sh("DATABASE_URL=$SQLOCK_URL && export DATABASE_URL && SQLOCK_URL= && "
              "sqlock $G run t sh -c 'test -z \"${SQLOCK_URL+set}\" && sqlock '\"$G\"' show t'");
}

/* From another folder, too. */
TEST(test_command_finds_the_file_of_a_relative_path, ON_SQLITE)
{
    assert_sh("mkdir $D/sub && cp $D/locks.db $D/sub");
    assert_says(64, "", "t is held by an outer",
                "cd $D && SQLOCK_URL=sqlite:locks.db sqlock run t sh -c "
                "'cd sub && sqlock run t touch ran'");
    assert_says(75, "", "t is busy",
                "cd $D && unset SQLOCK_URL && export DATABASE_URL=sqlite:locks.db && sqlock run t "
                "sh -c 'cd sub && sqlock run -n t touch ran'");
    assert_sh("test ! -e $D/sub/ran");
}

/* What the command prints or reports of its environment holds no password; and it does not go
 * elsewhere by DATABASE_URL either. The URL of the application is the application's. */
TEST(test_url_with_a_password_is_not_the_commands, ON_POSTGRES)
{
    assert_sh(
        "export DATABASE_URL=\"sqlite:$D/elsewhere?password=app\" && "
        "echo \"$SQLOCK_URL&password=s3cret\" >$D/url && G=\"--url-file $D/url $G\" && "
        "sqlock $G run nightly env >$D/env && sqlock $G run --keep-url nightly env >$D/kept && "
        "{ sqlock $G run nightly sqlock ls >$D/ls 2>&1; test $? = 78; }");
    assert_null(strstr(text_of("env"), "s3cret"));
    assert_non_null(strstr(text_of("env"), "password=app"));
    assert_non_null(strstr(text_of("kept"), "s3cret"));
    assert_non_null(strstr(text_of("ls"), "--keep-url"));
}

/* ---- signals --------------------------------------------------------------------------------- */

TEST(test_signals_are_handed_on, ON_SQLITE)
{
    static const int signals[] = {SIGUSR1, SIGUSR2, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    pid_t run;

    run = sh_start(
        "exec sqlock $G run -c nightly 'for s in USR1 USR2 HUP INT QUIT; do "
        "trap \"echo $s >>$D/heard\" $s; done; trap \"echo TERM >>$D/heard; exit 6\" TERM; "
        "echo >$D/ready; while :; do sleep 0.02; done'");
    wait_for("ready");
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        size_t before = strlen(text_of("heard"));

        kill(run, signals[i]);
        assert_soon(strlen(text_of("heard")) > before, patience_ms(5000));
    }
    assert_int_equal(child_wait(run, patience_ms(10000)), 6);
    assert_string_equal(text_of("heard"), "USR1\nUSR2\nHUP\nINT\nQUIT\nTERM\n");
}

/* The guardian ends with orders that it has not read: its last report is heard all the same. */
TEST(test_signals_at_the_end_do_not_hide_it, ON_SQLITE)
{
    for (int i = 0; i < 100; i++) {
        pid_t run = sh_start("exec sqlock $G run -c nightly "
                             "'trap \"\" USR1; echo >$D/ready; read word <$D/ready; exit 5'");

        wait_for("ready");
        while (!child_ended(run))
            kill(run, SIGUSR1);
        assert_int_equal(child_wait(run, patience_ms(10000)), 5);
        assert_sh("rm $D/ready");
    }
}

/* nohup sqlock run ... */
TEST(test_ignored_signal_stays_ignored, ON_SQLITE)
{
    pid_t run =
        sh_start("trap '' HUP; exec sqlock $G run -c nightly 'echo >$D/ready; sleep 0.5; echo on'");

    wait_for("ready");
    kill(run, SIGHUP);
    assert_int_equal(child_wait(run, patience_ms(10000)), 0);
    assert_string_equal(text_of("out"), "on\n");
}

/* As Python and Perl start programs: then the kernel waits for children, and tells nobody. */
TEST(test_ignored_sigchld_does_not_hide_the_end, ON_SQLITE)
{
    assert_says(3, "", "", "env --ignore-signal=CHLD sqlock $G run nightly sh -c 'exit 3'");
    assert_says(
        124, "", NULL,
        "env --ignore-signal=CHLD --block-signal=CHLD sqlock $G run --max-time 300ms -k 0 nightly "
        "sleep 100");
}

/* ---- the lock -------------------------------------------------------------------------------- */

TEST(test_lease_is_renewed_as_long_as_the_command_runs, ON_SQLITE)
{
    pid_t run = sh_start(
        "exec sqlock $G run --ttl 1s nightly sh -c 'echo $SQLOCK_TOKEN >$D/ready; sleep 2'");

    wait_for("ready");
    assert_says(75, NULL, NULL, "sqlock $G acquire -w 1500ms nightly");
    assert_sh("test $($D/token nightly) = $(cat $D/ready)");
    assert_int_equal(child_wait(run, patience_ms(10000)), 0);
    assert_sh("sqlock $G acquire -n nightly && test $($D/token nightly) -gt $(cat $D/ready)");
}

TEST(test_what_is_left_behind_is_ended_before_the_release, ON_SQLITE)
{
    assert_says(4, NULL, "leftover process",
                "sqlock $G run -k 200ms nightly sh -c 'tests/cli/tree.sh $D stubborn & "
                "while [ ! -e $D/ready ]; do sleep 0.02; done; exit 4'");
    assert_sh("test $(wc -l <$D/pids) = 4; for p in $(cat $D/pids); do "
              "test ! -e /proc/$p || exit 1; done; sqlock $G run -n nightly true");
}

TEST_MAIN_OF_COMMAND
