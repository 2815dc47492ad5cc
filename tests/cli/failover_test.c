/* `sqlock run` over a failover: the URL names two servers, and the first one's end is not the
 * command's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cli/shell.h"
#include "tests/lib/pair.h"

static struct pair *pair;

static int teardown(void **state)
{
    (void)state;
    pair_stop(pair);
    pair = NULL;
    return 0;
}

static void outlives(enum pair_kind kind, void (*end)(struct pair *))
{
    pid_t run;

    database_empty();
    pair = pair_start(kind);
    setenv("SQLOCK_URL", pair_url(pair), 1);
    setenv("G", "", 1);
    assert_sh("sqlock migrate up");
    run = sh_start("sqlock run --ttl 12s nightly sh -c 'touch $D/runs; echo on >$D/begun; sleep 9; "
                   "rm $D/runs; echo well >$D/ended'");
    wait_for("begun");
    pair_await(pair);
    end(pair);
    pair_promote(pair);
    assert_int_equal(child_wait(run, patience_ms(30000)), 0);
    assert_string_equal(text_of("ended"), "well\n");
    assert_sh("sqlock run -w 5s nightly true");
}

static void test_P7_run_outlives_a_failover_postgres(void **state)
{
    (void)state;
    outlives(PAIR_POSTGRES, pair_kill);
}

static void test_P7_run_outlives_a_frozen_primary_postgres(void **state)
{
    (void)state;
    outlives(PAIR_POSTGRES, pair_freeze);
}

static void test_P7_run_outlives_a_failover_mariadb(void **state)
{
    (void)state;
    outlives(PAIR_MARIADB, pair_kill);
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)

static const struct CMUnitTest on_postgres[] = {
    TEST(test_P7_run_outlives_a_failover_postgres),
    TEST(test_P7_run_outlives_a_frozen_primary_postgres),
};

static const struct CMUnitTest on_mariadb[] = {
    TEST(test_P7_run_outlives_a_failover_mariadb),
};

int main(void)
{
    int failed = RUN_ON("postgres", on_postgres);

    return RUN_ON("mysql", on_mariadb) + failed == 0 ? 0 : 1;
}
