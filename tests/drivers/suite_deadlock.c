/* P18: a request of ours that the server ends to end a deadlock. Somebody was in its way, and so it
 * is told; not that the database fails. On MariaDB and MySQL: others wait for one row. */
#define SUITE_NEEDS (GUARDS | DEADLOCKS)
#include "tests/drivers/suite_in_transaction.h"

static struct waiter v;

/* This look is made anew when nobody has looked for 100 ms. */
static void await_victim_waits(void)
{
    const char *waits = "SELECT count(*) FROM information_schema.innodb_trx "
                        "WHERE trx_state = 'LOCK WAIT' AND trx_query LIKE 'INSERT%' AND "
                        "LOCATE(DATABASE(), trx_query) > 0";
    int looks = 0;

    do {
        sleep_ms(110);
        assert_true(looks++ < 20);
    } while (app_number(g.app, waits) != 1);
}

/* Somebody loads a copy of the tables in one transaction: the lock's row, and then meta. Between
 * them comes the acquire, which keeps meta's floor as it is while it waits for the row: each waits
 * for the other. The server ends the one that has changed less: ours. */
static void meet(sqlock *m, int32_t wait_ms)
{
    app_exec(g.app, g.side->begins[0]);
    for (int i = 0; i < 20; i++)
        app_exec(g.app, "UPDATE app_row SET n = n + 1");
    app_exec(g.app, "INSERT INTO sqlock_lock (ns, name, token, idle_since) "
                    "VALUES ('', 'nightly', 1, 1)");
    v = (struct waiter){.m = m, .name = "nightly", .opts = wait_opts(wait_ms, 0, 0)};
    wait_start(&v);
    await_victim_waits();
    app_exec(g.app, "UPDATE sqlock_meta SET min_reader = min_reader + 1");
}

/* Its client stood still when that came, and its time is over when it goes on. */
TEST_AFTER(begin_app, test_victim_whose_time_is_over_learns_who_is_in_the_way)
{
    const int32_t wait_ms = 700;
    sqlock *m = open_manager(g.w, NULL);

    spy_stop_failures(SQLOCK_STMT_ACQUIRE, sqlock_now_us() + (wait_ms + 20) * INT64_C(1000));
    meet(m, wait_ms);
    pthread_join(v.thread, NULL);
    app_exec(g.app, "ROLLBACK");
    assert_string_equal(v.err.sqlstate, "40P01");
    assert_code(SQLOCK_EBUSY, v.code, &v.err); /* there is no guard */
    assert_true(is_free(m, "nightly"));
}

/* The twin, which has the time. */
TEST_AFTER(begin_app, test_victim_of_a_deadlock_tries_again)
{
    sqlock *m = open_manager(g.w, NULL);

    meet(m, patience_ms(10000));
    app_exec(g.app, "ROLLBACK");
    pthread_join(v.thread, NULL);
    assert_ok(v.code, &v.err);
    assert_int_equal(spy_runs(SQLOCK_STMT_ACQUIRE), 2);
    give(v.lock);
}
