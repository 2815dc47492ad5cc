/* migrate up, down, status, verify, baseline, sql, on each database. */
#include <string.h>

#include "tests/cli/shell.h"

TEST(test_up_and_down_are_counted_and_repeatable, ON_ALL | EMPTY)
{
    assert_says(0, " would be applied\n", NULL, "sqlock $G migrate up --dry-run");
    assert_says(78, "", NULL, "sqlock $G ls");
    assert_says(0, " applied\n", NULL, "sqlock $G migrate up");
    assert_says(0, "0 migrations applied\n", NULL, "sqlock $G migrate up");
    assert_says(75, "", NULL,
                "sqlock $G acquire -n nightly >$D/grant; sqlock $G migrate down --to 0 --yes");
    assert_sh("sqlock $G release nightly $(cat $D/grant); sqlock $G migrate down --to 0 --dry-run");
    assert_says(0, " undone\n", NULL, "sqlock $G migrate down --to 0 --yes");
    assert_says(78, "", "migrate up", "sqlock $G ls");
    /* Tokens go on. */
    assert_says(0, NULL, NULL, "sqlock $G migrate up && sqlock $G acquire -n nightly");
    assert_sh("test $($D/token nightly) -gt $(cut -d' ' -f2 $D/grant)");
}

TEST(test_down_wants_to_be_meant, ON_ALL)
{
    assert_says(64, "", "--yes", "sqlock $G migrate down");
    assert_says(64, "", "--to", "sqlock $G migrate down --yes");
    assert_says(64, "", "--yes", "sqlock $G migrate down --to 0");
    assert_says(64, "", NULL, "sqlock $G migrate up --to 9999");
    /* In a shell's words. */
    assert_says(64, "", "the schema is version 3; see 'sqlock migrate down'",
                "sqlock $G migrate up --to 1");
    assert_says(75, NULL, "for example \"nightly\"; release or break them first",
                "sqlock $G acquire -n nightly; sqlock $G migrate down --to 0 --yes");
    assert_sh("sqlock $G ls");
}

TEST(test_status_says_pending_steps_by_its_code, ON_ALL | EMPTY)
{
    assert_says(1, "pending", NULL, "sqlock $G migrate status --exit-code");
    assert_says(0, "locks ", NULL, "sqlock $G migrate status");
    assert_sh("sqlock $G migrate up");
    assert_says(0, "applied", NULL, "sqlock $G migrate status --exit-code");
    assert_says(0, "[{\"version\":1,\"name\":\"locks\",\"state\":\"applied\",\"applied_us\":", NULL,
                "sqlock $G --json migrate status");
}

TEST(test_quiet_migration_says_nothing, ON_ALL | EMPTY)
{
    assert_string_equal(sh("(sqlock $G -q migrate up; sqlock $G -q migrate verify) 2>&1")->out, "");
    assert_said(0, NULL, NULL);
}

TEST(test_verify_finds_what_is_missing, ON_ALL | EMPTY)
{
    assert_says(78, "", NULL, "sqlock $G migrate verify");
    assert_sh("sqlock $G migrate up && sqlock $G migrate verify");
    assert_said(0, "schema OK (version 3)\n", "");
    assert_says(78, "", NULL, "sqlock $G --prefix other_ migrate verify");
}

/* Nothing is to be applied, so up cannot mend it: not even quietly. */
TEST(test_up_says_that_a_table_is_gone, ON_ALL)
{
    database_exec("DROP TABLE @waiter");
    assert_says(78, "", "there is no table waiter", "sqlock $G migrate up");
    assert_says(78, "", "there is no table waiter", "sqlock -q $G migrate up --dry-run");
    assert_says(78, "", "there is no table waiter", "sqlock $G migrate verify");
}

TEST(test_baseline_refuses_tables_that_are_not_there, ON_ALL | EMPTY)
{
    assert_says(78, "", NULL, "sqlock $G migrate baseline 1");
    assert_says(64, "", "version", "sqlock $G migrate baseline one");
    assert_sh("sqlock $G migrate up");
    assert_says(0, "recorded as applied: all migrations up to version 3\n", "",
                "sqlock $G migrate baseline 3");
}

TEST(test_sql_needs_no_database, ON_ALL | EMPTY)
{
    assert_says(0, "CREATE TABLE", "", "unset SQLOCK_URL; sqlock migrate sql --driver %s",
                database_name());
    assert_non_null(strstr(
        sh("unset SQLOCK_URL; sqlock --prefix other_ migrate sql --driver %s", database_name())
            ->out,
        "other_lock"));
    assert_says(0, "DROP TABLE", "", "sqlock migrate sql --driver %s --from 1 --to 0",
                database_name());
    assert_says(64, "", "--driver", "sqlock migrate sql");
    assert_says(64, "", "unknown driver \"db2\"", "sqlock migrate sql --driver db2");
    assert_says(64, "", "not available in this version yet",
                "sqlock migrate sql --driver %s --format flyway", database_name());
    assert_says(64, "", "not available in this version yet", "sqlock migrate sql -o $D --driver %s",
                database_name());
}

/* An option that a step does not know would else be ignored. */
TEST(test_each_step_takes_its_own_options, ON_SQLITE)
{
    static const char *const lines[] = {"up --yes",           "status --dry-run", "verify --to 1",
                                        "baseline",           "baseline 1 2",     "up 3",
                                        "verify --exit-code", "grants --role x"};

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_says(64, "", NULL, "sqlock $G migrate %s", lines[i]);
}

TEST_MAIN_OF_COMMAND
