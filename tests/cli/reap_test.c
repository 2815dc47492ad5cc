/* reap, on each database. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cli/shell.h"

static void test_reap_clears_what_ran_out_and_nothing_else(void **state)
{
    (void)state;
    database_new();
    assert_sh("sqlock $G acquire -n --ttl 100ms old; sqlock $G acquire -n --ttl 1h new; sleep 0.3");
    sh("sqlock $G reap");
    assert_said(0, "cleared 0, pruned 0", NULL);
    sh("sqlock $G reap --dry-run --grace 0");
    assert_said(0, "would clear 1", NULL);
    sh("sqlock $G show old");
    assert_said(0, "expired", NULL);
    sh("sqlock $G --json reap --grace 0");
    assert_said(0, "\"cleared\":1", NULL);
    sh("sqlock $G show old");
    assert_said(0, "free", NULL);
    sh("sqlock $G show new");
    assert_said(0, "held", NULL);
}

static void test_quiet_reaper_says_nothing_but_what_was_asked_for(void **state)
{
    (void)state;
    database_new();
    sh("sqlock $G -q reap");
    assert_string_equal(sh("sqlock $G -q reap 2>&1")->out, "");
    assert_said(0, NULL, NULL);
    sh("sqlock $G -q --json reap");
    assert_said(0, "\"cleared\":0", NULL);
    sh("sqlock $G -q reap --batch 0");
    assert_said(64, "", "invalid number \"0\"");
}

static void test_limit_ends_it_early(void **state)
{
    (void)state;
    database_new();
    assert_sh("for i in 1 2 3; do sqlock $G acquire -n --ttl 100ms old.$i; done; sleep 0.3");
    sh("sqlock $G reap --grace 0 --limit 2");
    assert_said(0, "cleared 2, pruned 0", NULL);
    assert_said(0, "there may be more", NULL);
    sh("sqlock $G reap --grace 0");
    assert_said(0, "cleared 1, pruned 0", NULL);
}

static void test_second_reaper_does_nothing_and_ends_with_0(void **state)
{
    pid_t first;

    (void)state;
    database_new();
    assert_sh("for i in $(seq 40); do sqlock $G acquire -n --ttl 100ms old.$i; done; sleep 0.3");
    first = sh_start("exec sqlock $G reap --grace 0 --batch 1");
    assert_soon(strstr(sh("sqlock $G --json show old.1")->out, "\"free\"") != NULL,
                patience_ms(10000)); /* it has begun */
    assert_false(child_ended(first));
    sh("sqlock $G --json reap --grace 0");
    assert_said(0, "\"ran\":false", NULL);
    assert_int_equal(child_wait(first, patience_ms(20000)), 0);
    assert_non_null(strstr(text_of("out"), "cleared 40"));
}

static void test_loop_goes_on_until_a_signal_and_leaves_no_lease(void **state)
{
    pid_t reaper;

    (void)state;
    database_new();
    assert_sh("sqlock $G acquire -n --ttl 100ms one; sleep 0.2");
    reaper = sh_start("exec sqlock $G reap --grace 0 --loop 100ms");
    assert_soon(strstr(text_of("out"), "cleared 1,") != NULL, patience_ms(10000));
    assert_sh("sqlock $G acquire -n --ttl 100ms two");
    assert_soon(strstr(sh("sqlock $G show two")->out, "free") != NULL, patience_ms(10000));
    kill(reaper, SIGTERM);
    assert_int_equal(child_wait(reaper, patience_ms(10000)), 128 + SIGTERM);
    sh("sqlock $G --json reap");
    assert_said(0, "\"ran\":true", NULL);
}

static void test_signal_cuts_a_long_run(void **state)
{
    pid_t reaper;

    (void)state;
    database_new();
    assert_sh("for i in $(seq 40); do sqlock $G acquire -n --ttl 100ms old.$i; done; sleep 0.3");
    reaper = sh_start("exec sqlock $G --json reap --grace 0 --batch 1");
    assert_sh(UNTIL_IT_REAPS);
    assert_false(child_ended(reaper));
    kill(reaper, SIGINT);
    assert_int_equal(child_wait(reaper, patience_ms(10000)), 128 + SIGINT);
    assert_null(strstr(text_of("out"), "\"cleared\":40,"));
    sh("sqlock $G --json reap");
    assert_said(0, "\"ran\":true", NULL);
}

/* Somebody tidied up too much: the reaper finds out with its next renewal, and stops. */
static void test_reaper_without_its_lease_stops_with_76(void **state)
{
    pid_t reaper;

    (void)state;
    database_new();
    assert_sh("sqlock $G acquire -n --ttl 100ms old; sleep 0.3");
    database_exec("INSERT INTO @lock (ns, name, owner, token, exp, since, label) "
                  "SELECT l.ns, convert_to('old.' || i, 'UTF8'), l.owner, l.token, l.exp, l.since, "
                  "l.label FROM @lock l, generate_series(1, 1500) i");
    reaper = sh_start("exec sqlock $G reap --grace 0 --batch 1 --metrics-file $D/prom");
    sleep_ms(1000);
    assert_false(child_ended(reaper));
    database_exec("DELETE FROM @lock WHERE octet_length(ns) > 0");
    assert_int_equal(child_wait(reaper, patience_ms(30000)), 76);
    assert_non_null(strstr(text_of("err"), "the reaper's own lease was lost"));
    assert_sh("grep -q 'outcome=\"failed\"} 1' $D/prom && grep -q 'exit_code.* 76' $D/prom");
}

int main(void)
{
    static const struct CMUnitTest one[] = {
        cmocka_unit_test(test_reaper_without_its_lease_stops_with_76),
    };
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reap_clears_what_ran_out_and_nothing_else),
        cmocka_unit_test(test_quiet_reaper_says_nothing_but_what_was_asked_for),
        cmocka_unit_test(test_limit_ends_it_early),
        cmocka_unit_test(test_second_reaper_does_nothing_and_ends_with_0),
        cmocka_unit_test(test_loop_goes_on_until_a_signal_and_leaves_no_lease),
        cmocka_unit_test(test_signal_cuts_a_long_run),
    };

    return RUN_ON_DATABASES(tests) | RUN_ON("postgres", one);
}
