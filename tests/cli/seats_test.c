/* sqlock run -s and --slots: commands that hold a lock beside each other. */
#include <signal.h>
#include <stdlib.h>

#include "tests/cli/shell.h"

TEST(test_shared_runs_go_on_beside_each_other, ON_ALL)
{
    pid_t first = sh_start("exec sqlock $G run -s door sh -c 'echo >$D/in; sleep 60'");

    wait_for("in");
    assert_says(0, "1\n", "", "sqlock $G run -n -s door sh -c 'echo $SQLOCK_SLOT'");
    assert_says(75, "", "door is busy", "sqlock $G run -n door true");
    assert_says(0, "\"slot\":0", "", "sqlock $G --json show door");
    assert_says(0, "slot 0", "", "sqlock $G ls");
    kill(first, SIGTERM);
    child_wait(first, patience_ms(20000));
    assert_sh("sqlock $G run -n door true");
}

TEST(test_exclusive_run_keeps_shared_ones_out, ON_SQLITE)
{
    pid_t first = sh_start("exec sqlock $G run -x door sh -c 'echo >$D/in; sleep 60'");

    wait_for("in");
    assert_says(75, "", "door is busy", "sqlock $G run -n -s door true");
    kill(first, SIGTERM);
    child_wait(first, patience_ms(20000));
    assert_sh("sqlock $G run -n -s door true");
}

TEST(test_run_gets_the_number_of_its_slot, ON_ALL)
{
    pid_t first = sh_start("exec sqlock $G run --slots 2 port sh -c 'echo >$D/in; sleep 60'");

    wait_for("in");
    assert_says(0, "1\n", "", "sqlock $G run --slots 2 port sh -c 'echo $SQLOCK_SLOT'");
    assert_says(75, "", "port is busy",
                "sqlock $G run --slots 2 port sqlock $G run -n --slots 2 port true");
    assert_says(78, "", "2 slots", "sqlock $G run -n --slots 3 port true");
    kill(first, SIGTERM);
    child_wait(first, patience_ms(20000));
    assert_sh("sqlock $G run -n --slots 3 port true");
}

TEST(test_exclusive_run_inside_a_shared_one_is_refused, ON_SQLITE)
{
    assert_says(64, "", "outer", "sqlock $G run -s door sqlock $G run door true");
    assert_sh("sqlock $G run -s door sqlock $G run -s door true");
}

TEST(test_numbers_of_slots_that_cannot_be_are_refused, ON_SQLITE)
{
    assert_says(64, "", "invalid number", "sqlock $G run --slots 0 port true");
    assert_says(64, "", "invalid number", "sqlock $G run --slots many port true");
    assert_says(64, "", "not available", "sqlock $G acquire -s door");
    assert_says(64, "", "only one of", "sqlock $G run -s --slots 2 port true");
    assert_says(64, "", "only one of", "sqlock $G run -s -x port true");
}

TEST_MAIN_OF_COMMAND
