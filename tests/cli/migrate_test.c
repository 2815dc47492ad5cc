/* migrate up, down, status, verify, baseline, sql, on each database. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cli/shell.h"

static void test_up_and_down_are_counted_and_repeatable(void **state)
{
    (void)state;
    database_empty();
    sh("sqlock $G migrate up --dry-run");
    assert_said(0, " to do\n", NULL);
    sh("sqlock $G ls");
    assert_said(78, "", NULL);
    sh("sqlock $G migrate up");
    assert_said(0, " applied\n", NULL);
    sh("sqlock $G migrate up");
    assert_said(0, "0 migrations applied\n", NULL);
    sh("sqlock $G acquire -n nightly >$D/grant; sqlock $G migrate down --to 0 --yes");
    assert_said(75, "", NULL);
    assert_sh("sqlock $G release nightly $(cat $D/grant); sqlock $G migrate down --to 0 --dry-run");
    sh("sqlock $G migrate down --to 0 --yes");
    assert_said(0, " taken back\n", NULL);
    sh("sqlock $G ls");
    assert_said(78, "", "migrate up");
    /* Tokens go on. */
    sh("sqlock $G migrate up && sqlock $G acquire -n nightly");
    assert_said(0, NULL, NULL);
    assert_sh("test $($D/token nightly) -gt $(cut -d' ' -f2 $D/grant)");
}

static void test_down_wants_to_be_meant(void **state)
{
    (void)state;
    database_new();
    sh("sqlock $G migrate down");
    assert_said(64, "", "--yes");
    sh("sqlock $G migrate down --yes");
    assert_said(64, "", "--to");
    sh("sqlock $G migrate down --to 0");
    assert_said(64, "", "--yes");
    sh("sqlock $G migrate up --to 9999");
    assert_said(64, "", NULL);
    /* In a shell's words. */
    sh("sqlock $G migrate up --to 1");
    assert_said(64, "", "leads down: see `sqlock migrate down`");
    sh("sqlock $G acquire -n nightly; sqlock $G migrate down --to 0 --yes");
    assert_said(75, NULL, "among them \"nightly\"; release or break them first");
    assert_sh("sqlock $G ls");
}

static void test_status_tells_pending_steps_by_its_code(void **state)
{
    (void)state;
    database_empty();
    sh("sqlock $G migrate status --exit-code");
    assert_said(1, "pending", NULL);
    sh("sqlock $G migrate status");
    assert_said(0, "locks ", NULL);
    assert_sh("sqlock $G migrate up");
    sh("sqlock $G migrate status --exit-code");
    assert_said(0, "applied", NULL);
    sh("sqlock $G --json migrate status");
    assert_said(0,
                "[{\"version\":1,\"name\":\"locks\",\"state\":\"applied\",\"applied_us\":", NULL);
}

static void test_quiet_migration_says_nothing(void **state)
{
    (void)state;
    database_empty();
    assert_string_equal(sh("(sqlock $G -q migrate up; sqlock $G -q migrate verify) 2>&1")->out, "");
    assert_said(0, NULL, NULL);
}

static void test_verify_finds_what_is_missing(void **state)
{
    (void)state;
    database_empty();
    sh("sqlock $G migrate verify");
    assert_said(78, "", NULL);
    assert_sh("sqlock $G migrate up && sqlock $G migrate verify");
    assert_said(0, "schema OK (version 3)\n", "");
    sh("sqlock $G --prefix other_ migrate verify");
    assert_said(78, "", NULL);
}

static void test_baseline_refuses_tables_that_are_not_there(void **state)
{
    (void)state;
    database_empty();
    sh("sqlock $G migrate baseline 1");
    assert_said(78, "", NULL);
    sh("sqlock $G migrate baseline one");
    assert_said(64, "", "version");
    assert_sh("sqlock $G migrate up");
    sh("sqlock $G migrate baseline 3");
    assert_said(0, "recorded as applied: migrations up to version 3\n", "");
}

static void test_sql_needs_no_database(void **state)
{
    (void)state;
    database_empty();
    sh("unset SQLOCK_URL; sqlock migrate sql --driver %s", database_name());
    assert_said(0, "CREATE TABLE", "");
    assert_non_null(strstr(
        sh("unset SQLOCK_URL; sqlock --prefix other_ migrate sql --driver %s", database_name())
            ->out,
        "other_lock"));
    sh("sqlock migrate sql --driver %s --from 1 --to 0", database_name());
    assert_said(0, "DROP TABLE", "");
    sh("sqlock migrate sql");
    assert_said(64, "", "--driver");
    sh("sqlock migrate sql --driver db2");
    assert_said(64, "", "no driver \"db2\"");
    sh("sqlock migrate sql --driver %s --format flyway", database_name());
    assert_said(64, "", "this version does not have it yet");
    sh("sqlock migrate sql -o $D --driver %s", database_name());
    assert_said(64, "", "this version does not have it yet");
}

/* An option that a step does not know would else be ignored. */
static void test_each_step_takes_its_own_options(void **state)
{
    static const char *const lines[] = {"up --yes",           "status --dry-run", "verify --to 1",
                                        "baseline",           "baseline 1 2",     "up 3",
                                        "verify --exit-code", "grants --role x"};

    (void)state;
    database_new();
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        sh("sqlock $G migrate %s", lines[i]);
        assert_said(64, "", NULL);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_up_and_down_are_counted_and_repeatable),
        cmocka_unit_test(test_down_wants_to_be_meant),
        cmocka_unit_test(test_status_tells_pending_steps_by_its_code),
        cmocka_unit_test(test_quiet_migration_says_nothing),
        cmocka_unit_test(test_verify_finds_what_is_missing),
        cmocka_unit_test(test_baseline_refuses_tables_that_are_not_there),
        cmocka_unit_test(test_sql_needs_no_database),
        cmocka_unit_test(test_each_step_takes_its_own_options),
    };

    return RUN_ON_DATABASES(tests);
}
