/* sqlock run -s and --slots: commands that hold a lock beside each other. */
#include <signal.h>
#include <stdlib.h>

#include "tests/cli/shell.h"

static pid_t hold(const char *words)
{
    pid_t run = sh_start("exec sqlock $G run %s sh -c 'echo >$D/in; sleep 60'", words);

    wait_for("in");
    return run;
}

static void end(pid_t run)
{
    kill(run, SIGTERM);
    child_wait(run, patience_ms(20000));
}

TEST(test_shared_runs_go_on_beside_each_other, ON_ALL)
{
    pid_t first = hold("-s door");

    assert_says(0, "1\n", "", "sqlock $G run -n -s door sh -c 'echo $SQLOCK_SLOT'");
    assert_says(75, "", "door is busy", "sqlock $G run -n door true");
    assert_says(0, "\"slot\":0", "", "sqlock $G --json show door");
    assert_says(0, " shared ", "", "sqlock $G ls");
    assert_says(0, "\"mode\":\"shared\"", "", "sqlock $G --json ls");
    end(first);
    assert_sh("sqlock $G run -n door true");
}

TEST(test_exclusive_run_keeps_shared_ones_out, ON_SQLITE)
{
    pid_t first = hold("-x door");

    assert_says(75, "", "door is busy", "sqlock $G run -n -s door true");
    end(first);
    assert_sh("sqlock $G run -n -s door true");
}

TEST(test_run_gets_the_number_of_its_slot, ON_ALL)
{
    pid_t first = hold("--slots 2 port");

    assert_says(0, "1\n", "", "sqlock $G run --slots 2 port sh -c 'echo $SQLOCK_SLOT'");
    assert_says(75, "", "port is busy",
                "sqlock $G run --slots 2 port sqlock $G run -n --slots 2 port true");
    assert_says(0, " slot 0/2 ", "", "sqlock $G ls");
    assert_says(0, "\"slots\":2", "", "sqlock $G --json show port");
    assert_says(0, "\nslot 0/2 ", "", "sqlock $G show port");
    assert_says(78, "", "2 slots", "sqlock $G run -n --slots 3 port true");
    end(first);
    assert_sh("sqlock $G run -n --slots 3 port true");
}

/* And not only when the one that waits holds a slot. */
TEST(test_slots_that_do_not_go_with_a_waiter_are_refused, ON_ALL)
{
    pid_t first = hold("-x port"), waits = sh_start("exec sqlock $G run --slots 2 port true");

    assert_sh("for i in $(seq 100); do sqlock $G ls --waiting | grep -q 'slot of 2 ' && exit 0; "
              "sleep 0.1; done; exit 1");
    assert_says(0, "\"mode\":\"slots\",\"slots\":2", "", "sqlock $G --json ls --waiting");
    assert_says(0, ", slot of 2, since ", "", "sqlock $G show port");
    assert_says(78, "", "others wait for the lock as 2 slots, not as 3 slots",
                "sqlock $G run -w 60s --slots 3 port true");
    end(first);
    assert_int_equal(child_wait(waits, patience_ms(20000)), 0);
}

TEST(test_exclusive_run_inside_a_shared_one_is_refused, ON_SQLITE)
{
    assert_says(64, "", "outer", "sqlock $G run -s door sqlock $G run door true");
    assert_sh("sqlock $G run -s door sqlock $G run -s door true");
}

/* It would wait for itself. One that gets a slot goes on, whoever has the others. */
TEST(test_run_inside_runs_that_hold_all_slots_is_refused, ON_ALL)
{
    assert_says(64, "", "outer",
                "timeout 20 sqlock $G run --slots 1 n sqlock $G run --slots 1 n touch $D/ran");
    assert_says(64, "", "outer",
                "timeout 20 sqlock $G run --slots 2 n sqlock $G run --slots 2 n "
                "sqlock $G run --slots 2 n touch $D/ran");
    assert_says(64, "", "outer",
                "timeout 20 sqlock $G run --slots 1 n sqlock $G acquire --slots 1 n");
    assert_says(64, "", "outer",
                "timeout 20 sqlock $G run --slots 1 n "
                "sqlock $G run -l other --slots 1 -l n touch $D/ran");
    assert_sh("test ! -e $D/ran");
    assert_says(75, "", "n is busy",
                "sqlock $G run --slots 1 n sqlock $G run -n --slots 1 n touch $D/ran");
    assert_says(0, "1\n", "",
                "sqlock $G run --slots 2 n sqlock $G run --slots 2 n sh -c 'echo $SQLOCK_SLOT'");
}

/* A shared run, and inside it another one, while an exclusive run of others waits for so long. */
static void inside_a_shared_one(const char *waits, const char *inner)
{
    sh("rm -f $D/over; sqlock $G run -s door sh -c '"
       "{ env -u SQLOCK_OUTER sqlock $G run -w %s door true; echo >$D/over; } & "
       "while test ! -e $D/over && sqlock $G run -n -s door true; do sleep 0.02; done; "
       "timeout 20 sqlock $G %s'",
       waits, inner);
}

/* It would stand behind one that waits for the outer one to end. */
TEST(test_run_inside_a_shared_one_does_not_wait_behind_an_exclusive_one, ON_ALL)
{
    static const char *const inner[] = {"run -s door touch $D/ran",
                                        "run -l other -s -l door touch $D/ran", "acquire -s door"};

    for (size_t i = 0; i < sizeof inner / sizeof *inner; i++) {
        inside_a_shared_one("60s", inner[i]);
        assert_said(64, "", "door is held by an outer");
    }
    assert_sh("test ! -e $D/ran");
    inside_a_shared_one("60s", "run -n -s door true");
    assert_said(75, "", "door is busy");
    inside_a_shared_one("60s", "run -w 300ms -s door true"); /* its own limit is shorter */
    assert_said(75, "", "door is busy");
}

/* One that gives up soon does not fail it. */
TEST(test_run_inside_a_shared_one_outlasts_a_short_waiter, ON_ALL)
{
    inside_a_shared_one("300ms", "run -s door true");
    assert_said(0, "", "busy");
}

TEST(test_what_has_run_out_is_expired_wherever_it_is_shown, ON_ALL)
{
    assert_sh("sqlock $G acquire -s --ttl 100ms door && "
              "until sqlock $G ls --expired | grep -q ^door; do sleep 0.02; done");
    assert_says(0, "\nstate       expired\n", "", "sqlock $G show door");
    assert_says(0, ",\"state\":\"expired\",", "", "sqlock $G --json show door | tr -d ' '");
    assert_says(0, " expired ", "", "sqlock $G ls door");
    assert_sh("sqlock $G acquire -s door");
    assert_says(0, "\nstate       held\n", "", "sqlock $G show door");
    assert_says(0, "\"name\":\"door\",\"state\":\"held\",", "",
                "sqlock $G --json show door | tr -d ' '");
    assert_sh("sqlock $G acquire --ttl 100ms -n gate && "
              "until sqlock $G ls --expired | grep -q ^gate; do sleep 0.02; done");
    assert_says(0, "\nstate       expired\n", "", "sqlock $G show gate");
    assert_says(0, "\"name\":\"gate\",\"state\":\"expired\",", "",
                "sqlock $G --json show gate | tr -d ' '");
}

TEST(test_numbers_of_slots_that_cannot_be_are_refused, ON_SQLITE)
{
    assert_says(64, "", "--slots: invalid number \"0\"", "sqlock $G run --slots 0 port true");
    assert_says(64, "", "invalid number", "sqlock $G run --slots many port true");
    assert_says(64, "", "only one of", "sqlock $G run -s --slots 2 port true");
    assert_says(64, "", "only one of", "sqlock $G run -s -x port true");
}

TEST(test_script_holds_a_shared_lock, ON_ALL)
{
    assert_sh("sqlock $G acquire -s door >$D/one; sqlock $G acquire -s door >$D/two");
    assert_sh("test $(wc -w <$D/one) = 3");
    assert_says(75, "", "door", "sqlock $G run -n door true");
    assert_sh("sqlock $G renew door $(cat $D/one) && sqlock $G release door $(cat $D/one)");
    assert_says(1, "", "no longer exists, or is not in slot 0 (",
                "sqlock $G renew door $(cat $D/one)");
    assert_says(75, "", "door", "sqlock $G run -n door true");
    assert_sh("sqlock $G renew door $(cat $D/two) && sqlock $G release door $(cat $D/two)");
    assert_sh("sqlock $G run -n door true");
}

/* Without the number of the seat it looks as if the grant were lost. */
TEST(test_seat_without_its_number_is_not_taken_for_lost, ON_ALL)
{
    assert_sh("sqlock $G acquire -s door >$D/one; sqlock $G acquire --slots 2 port >$D/two");
    assert_says(64, "", "SLOT is needed", "sqlock $G renew door $(cut -d' ' -f1,2 $D/one)");
    assert_says(64, "", "SLOT is needed", "sqlock $G release port $(cut -d' ' -f1,2 $D/two)");
    assert_sh("sqlock $G release door $(cat $D/one) && sqlock $G release port $(cat $D/two)");
    assert_says(1, "", "no longer exists", "sqlock $G renew door $(cut -d' ' -f1,2 $D/one)");
}

TEST(test_script_holds_a_slot, ON_SQLITE)
{
    assert_sh("sqlock $G acquire --slots 2 port >$D/one");
    assert_says(0, "\"slot\":1", "", "sqlock $G --json acquire --slots 2 port");
    assert_says(75, "", "port", "sqlock $G acquire -n --slots 2 port");
    assert_sh("sqlock $G release port $(cat $D/one)");
    assert_sh("sqlock $G acquire -n --slots 2 port");
    assert_says(0, "\"slot\":null", "", "sqlock $G --json acquire door");
}

TEST(test_grants_of_slots_that_cannot_be_are_refused, ON_SQLITE)
{
    const char *owner = "00112233445566778899aabbccddeeff";

    assert_says(64, "", "exclusive", "sqlock $G acquire -s --owner %s door", owner);
    assert_says(64, "", "invalid SLOT", "sqlock $G release door %s 1 x", owner);
    assert_says(64, "", "are needed", "sqlock $G release door %s 1 2 3", owner);
}

TEST_MAIN_OF_COMMAND
