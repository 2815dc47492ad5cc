/* sqlock run -l A -l B: a command that holds several locks, or none. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cli/shell.h"

static pid_t start_with_both(void)
{
    pid_t run = sh_start("exec sqlock $G run -l door -l gate -- sh -c 'echo >$D/in; sleep 60'");

    wait_for("in");
    return run;
}

static void end(pid_t run)
{
    kill(run, SIGTERM);
    child_wait(run, patience_ms(20000));
}

TEST(test_all_names_are_held_while_the_command_runs, ON_ALL)
{
    pid_t run = start_with_both();

    assert_says(75, "", "door is busy", "sqlock $G run -n door true");
    assert_says(75, "", "gate is busy", "sqlock $G run -n gate true");
    end(run);
    assert_sh("sqlock $G run -n door sqlock $G run -n gate true");
}

/* P8 */
TEST(test_none_is_held_if_one_is_busy, ON_ALL)
{
    pid_t run = sh_start("exec sqlock $G run gate sh -c 'echo >$D/in; sleep 60'");

    wait_for("in");
    assert_says(75, "", "\"gate\": held by ", "sqlock $G run -n -l door -l gate touch $D/never");
    assert_says(75, "", "\"gate\": held by ", "sqlock $G run -w 300ms -l door -l gate true");
    assert_sh("sqlock $G run -n door test ! -e $D/never");
    end(run);
}

TEST(test_it_waits_for_all_of_them, ON_ALL)
{
    pid_t first = sh_start("exec sqlock $G run gate sh -c 'echo >$D/in; sleep 60'"), both;

    wait_for("in");
    both = sh_start("exec sqlock $G run -l door -l gate sh -c 'echo >$D/both'");
    sleep_ms(patience_ms(300));
    assert_false(child_ended(both));
    end(first);
    assert_int_equal(child_wait(both, patience_ms(20000)), 0);
    assert_sh("test -e $D/both");
}

TEST(test_signal_ends_the_wait_for_several_names, ON_ALL)
{
    pid_t first = sh_start("exec sqlock $G run gate sh -c 'echo >$D/in; sleep 60'"), both;

    wait_for("in");
    both = sh_start("exec sqlock $G -v run -l door -l gate touch $D/never 2>$D/err");
    assert_soon(strstr(text_of("err"), "waiting for \"door, gate\"") != NULL, patience_ms(20000));
    kill(both, SIGINT);
    assert_int_equal(child_wait(both, patience_ms(20000)), 130);
    assert_non_null(strstr(text_of("err"), "gave up waiting for \"door, gate\" after "));
    assert_sh("sqlock $G run -n door test ! -e $D/never");
    end(first);
}

TEST(test_command_is_stopped_if_one_of_its_locks_is_lost, ON_ALL)
{
    pid_t run = start_with_both();

    assert_sh("sqlock $G break gate --token $($D/token gate)");
    assert_int_equal(child_wait(run, patience_ms(40000)), 76);
    assert_sh("sqlock $G run -n -l door -l gate true");
}

/* P5 */
TEST(test_others_are_given_back_if_one_is_lost_in_at_least, ON_SQLITE)
{
    pid_t run =
        sh_start("exec sqlock $G run --ttl 6s --at-least 60s -l door -l gate sh -c 'echo >$D/ran'");

    wait_for("ran");
    assert_sh("sqlock $G break gate --token $($D/token gate)");
    assert_int_equal(child_wait(run, patience_ms(60000)), 0);
    assert_sh("sqlock $G run -n -l door -l gate true");
}

TEST(test_a_mode_is_of_the_names_behind_it, ON_ALL)
{
    pid_t run = sh_start(
        "exec sqlock $G run -s -l door -l yard -x -l gate -- sh -c 'echo >$D/in; sleep 60'");

    wait_for("in");
    assert_sh("sqlock $G run -n -s -l door -l yard true");
    assert_says(75, "", "door", "sqlock $G run -n door true");
    assert_says(75, "", "yard", "sqlock $G run -n yard true");
    assert_says(75, "", "gate", "sqlock $G run -n -s gate true");
    end(run);
}

TEST(test_command_finds_all_tokens, ON_ALL)
{
    assert_says(0, "door 2\n", "",
                "sqlock $G run -l door -l gate -- sh -c 'set -- $SQLOCK_TOKENS; "
                "test $1 = $SQLOCK_TOKEN && echo $SQLOCK_NAME $#'");
    assert_says(0, "\"tokens\":{\"door\":", "",
                "sqlock $G run --status-fd 3 -l door -l gate true 3>&1");
    assert_says(0, "1\n", "",
                "sqlock $G run -l a -l b sqlock $G run c sh -c 'set -- $SQLOCK_TOKENS; echo $#'");
}

TEST(test_command_finds_all_slots, ON_ALL)
{
    assert_says(0, "- 0 0 unset\n", "",
                "sqlock $G run -l door --slots 2 -l gpu -s -l yard -- "
                "sh -c 'echo $SQLOCK_SLOTS ${SQLOCK_SLOT-unset}'");
    assert_says(0, "0 0\n", "",
                "sqlock $G run --slots 2 gpu sh -c 'echo $SQLOCK_SLOTS $SQLOCK_SLOT'");
    assert_says(0, "\"slot\":0}", "", "sqlock $G run --status-fd 3 --slots 2 gpu true 3>&1");
    assert_says(0, "\"slots\":{\"door\":null,\"gpu\":0}", "",
                "sqlock $G run --status-fd 3 -l door --slots 2 -l gpu true 3>&1");
    assert_says(64, "", "two numbers", "sqlock $G run --slots 2 --slots 3 gpu true");
}

TEST(test_names_of_a_run_around_it_are_refused, ON_SQLITE)
{
    assert_says(64, "", "outer", "sqlock $G run -l a -l b sqlock $G run -l c -l b true");
}

TEST(test_wrong_lists_of_names_are_refused, ON_SQLITE)
{
    assert_says(64, "", "twice", "sqlock $G run -l door -l door true");
    assert_says(64, "", "too many", "sqlock $G run $(seq -f '-l %%g' 17) true");
    assert_says(64, "", "needs a CMD", "sqlock $G run -l door -l gate");
    assert_says(64, "", "before the -l", "sqlock $G run -l door -s true");
    assert_says(64, "", "one NAME", "sqlock $G run door -l gate true");
    assert_says(64, "", "not available", "sqlock $G once --every 1d -l door true");
    assert_sh("sqlock $G run $(seq -f '-l %%g' 16) true");
}

TEST_MAIN_OF_COMMAND
