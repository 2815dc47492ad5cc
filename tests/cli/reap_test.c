/* reap, on each database. */
#include <signal.h>
#include <string.h>

#include "tests/cli/shell.h"

TEST(test_reap_clears_what_ran_out_and_nothing_else, ON_ALL)
{
    assert_sh("sqlock $G acquire -n --ttl 100ms old; sqlock $G acquire -n --ttl 1h new; sleep 0.3");
    assert_says(0, "cleared 0, pruned 0", NULL, "sqlock $G reap");
    assert_says(0, "would clear 1", NULL, "sqlock $G reap --dry-run --grace 0");
    assert_says(0, "expired", NULL, "sqlock $G show old");
    assert_says(0, "\"cleared\":1", NULL, "sqlock $G --json reap --grace 0");
    assert_says(0, "free", NULL, "sqlock $G show old");
    assert_says(0, "held", NULL, "sqlock $G show new");
}

TEST(test_quiet_reaper_says_nothing_but_what_was_requested, ON_SQLITE)
{
    sh("sqlock $G -q reap");
    assert_string_equal(sh("sqlock $G -q reap 2>&1")->out, "");
    assert_said(0, NULL, NULL);
    assert_says(0, "\"cleared\":0", NULL, "sqlock $G -q --json reap");
    assert_says(64, "", "invalid number \"0\"", "sqlock $G -q reap --batch 0");
}

TEST(test_limit_ends_it_early, ON_ALL)
{
    database_leave(3);
    assert_says(0, "cleared 2, pruned 0", NULL, "sqlock $G reap --grace 0 --limit 2");
    assert_said(0, "there may be more", NULL);
    assert_says(0, "cleared 1, pruned 0", NULL, "sqlock $G reap --grace 0");
}

TEST(test_second_reaper_does_nothing_and_ends_with_0, ON_SQLITE)
{
    pid_t first;

    database_leave(40);
    first = sh_start("exec sqlock $G reap --grace 0 --batch 1");
    assert_soon(strstr(sh("sqlock $G --json show dead/00000001")->out, "\"free\"") != NULL,
                patience_ms(10000)); /* it has begun */
    assert_false(child_ended(first));
    assert_says(0, "\"ran\":false", NULL, "sqlock $G --json reap --grace 0 --metrics-file $D/prom");
    assert_sh("grep -q 'outcome=\"busy\"} 1' $D/prom && grep -q 'exit_code.* 0$' $D/prom && "
              "! grep rows_seen $D/prom");
    assert_int_equal(child_wait(first, patience_ms(20000)), 0);
    assert_non_null(strstr(text_of("out"), "cleared 40"));
}

TEST(test_loop_goes_on_until_a_signal_and_leaves_no_lease, ON_SQLITE)
{
    pid_t reaper;

    assert_sh("sqlock $G acquire -n --ttl 100ms one; sleep 0.2");
    reaper = sh_start("exec sqlock $G reap --grace 0 --loop 100ms");
    assert_soon(strstr(text_of("out"), "cleared 1,") != NULL, patience_ms(10000));
    assert_sh("sqlock $G acquire -n --ttl 100ms two");
    assert_soon(strstr(sh("sqlock $G show two")->out, "free") != NULL, patience_ms(10000));
    kill(reaper, SIGTERM);
    assert_int_equal(child_wait(reaper, patience_ms(10000)), 128 + SIGTERM);
    assert_says(0, "\"ran\":true", NULL, "sqlock $G --json reap");
}

TEST(test_signal_cuts_a_long_run, ON_SQLITE)
{
    pid_t reaper;

    database_leave(40);
    reaper = sh_start("exec sqlock $G --json reap --grace 0 --batch 1 --metrics-file $D/prom");
    assert_sh(UNTIL_IT_REAPS);
    assert_false(child_ended(reaper));
    kill(reaper, SIGINT);
    assert_int_equal(child_wait(reaper, patience_ms(10000)), 128 + SIGINT);
    assert_null(strstr(text_of("out"), "\"cleared\":40,"));
    assert_sh("grep -q 'outcome=\"signal\"} 1' $D/prom && grep -q 'exit_code.* 130$' $D/prom && "
              "grep -q 'last_success_timestamp_seconds.* 0$' $D/prom");
    assert_says(0, "\"ran\":true", NULL, "sqlock $G --json reap");
}

/* Somebody tidied up too much: the reaper finds out with its next renewal, and stops. */
TEST(test_reaper_without_its_lease_stops_with_76, ON_POSTGRES)
{
    pid_t reaper;

    database_leave(1500);
    reaper = sh_start("exec sqlock $G reap --grace 0 --batch 1 --metrics-file $D/prom");
    sleep_ms(1000);
    assert_false(child_ended(reaper));
    database_exec("DELETE FROM @lock WHERE octet_length(ns) > 0");
    assert_int_equal(child_wait(reaper, patience_ms(30000)), 76);
    assert_non_null(strstr(text_of("err"), "the reaper's own lease was lost"));
    assert_sh("grep -q 'outcome=\"failed\"} 1' $D/prom && grep -q 'exit_code.* 76' $D/prom");
}

TEST_MAIN_OF_COMMAND
