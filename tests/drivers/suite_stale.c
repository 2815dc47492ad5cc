/* P11 between processes: a holder that stood still past its lease, and writes what it read before.
 * The unguarded twin shows what is lost; it asserts that it is, or the test would prove nothing. */
#include <signal.h>
#include <sqlock/transaction.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/drivers/suite_guest.h"

enum { LEASE_MS = 700, LOST_IT = 7 };

struct sale {
    bool guarded;
    bool stop_inside; /* of the transaction, behind the guard; else before it begins */
    int pipe[2];
};

static void stand_still(const struct sale *sale)
{
    assert_int_equal(write(sale->pipe[1], "", 1), 1);
    raise(SIGSTOP);
}

/* Where it is to go wrong nothing but the lock shall stand in the way: MariaDB with
 * innodb_snapshot_isolation, from REPEATABLE READ on, refuses the write by itself. */
static void begin_sale(void *app, const struct sale *sale)
{
    const struct way *way = g.side->ways;

    while (way->name && strcmp(way->name, "read committed") != 0)
        way++;
    if (!sale->guarded && way->name)
        go_in(app, way);
    else
        app_exec(app, g.side->begins[0]);
}

/* Sell one unit, in a process of its own: read the stock, and write it less one from memory. */
static int sell(void *arg)
{
    const struct sale *sale = arg;
    sqlock *m = NULL;
    void *app = app_connect();
    sqlock_conn *conn;
    sqlock_lock *lock;
    char update[96];
    int64_t stock = 0;

    ok(open_here(g.w, NULL, &m, &said));
    conn = adopted(m, app);
    lock = take_for(m, "sale", LEASE_MS, 0);
    if (!sale->stop_inside) {
        stock = seen_by(app);
        stand_still(sale);
    }
    begin_sale(app, sale);
    if (sale->guarded && sqlock_guard(lock, conn, &said) != 0) {
        app_exec(app, "ROLLBACK");
        return said.code == SQLOCK_ELOST ? LOST_IT : 1;
    }
    if (sale->stop_inside) {
        stock = seen_by(app);
        stand_still(sale);
    }
    snprintf(update, sizeof update, "UPDATE app_row SET n = %lld WHERE id = 1",
             (long long)(stock - 1));
    app_exec(app, update, "COMMIT");
    return 0;
}

/* The seller's process stands still; the parent may open managers from now on. */
static pid_t start_seller(struct world *w, struct sale *sale)
{
    pid_t child;
    int status = 0;
    char byte;

    begin_app(w);
    g.side->close(g.w->apps[--g.w->n_apps]); /* a child must not know it */
    assert_int_equal(pipe(sale->pipe), 0);
    child = child_start(sell, sale);
    close(sale->pipe[1]);
    assert_int_equal(read(sale->pipe[0], &byte, 1), 1);
    close(sale->pipe[0]);
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
    return child;
}

static int64_t stock_now(void)
{
    return seen_by(app_connect());
}

/* Somebody else is granted the name and sells five units. */
static void sell_five(sqlock *m)
{
    sqlock_lock *lock = take(m, "sale");

    app_exec(app_connect(), "UPDATE app_row SET n = 5 WHERE id = 1");
    give(lock);
}

TEST(test_stale_holder_overwrites_what_its_successor_wrote)
{
    struct sale sale = {.guarded = false};
    pid_t child = start_seller(w, &sale);

    sell_five(open_manager(g.w, NULL));
    kill(child, SIGCONT);
    assert_int_equal(child_wait(child, patience_ms(5000)), 0);
    assert_int_equal(stock_now(), 9); /* wrong: five units are sold twice */
}

TEST(test_stale_holder_that_guards_cannot_commit)
{
    struct sale sale = {.guarded = true};
    pid_t child = start_seller(w, &sale);

    sell_five(open_manager(g.w, NULL));
    kill(child, SIGCONT);
    assert_int_equal(child_wait(child, patience_ms(5000)), LOST_IT);
    assert_int_equal(stock_now(), 5);
}

/* Behind its guard it may stand still for as long as it likes: nobody comes in between. */
TEST(test_holder_that_stops_behind_its_guard_keeps_everybody_out)
{
    struct sale sale = {.guarded = true, .stop_inside = true};
    pid_t child = start_seller(w, &sale);
    sqlock *m = open_with(g.w, with.request_ms = 1000);

    sleep_ms(2 * LEASE_MS);
    assert_int_equal(try_once(m, "sale"), SQLOCK_EGUARDED);
    kill(child, SIGCONT);
    assert_int_equal(child_wait(child, patience_ms(5000)), 0);
    assert_int_equal(stock_now(), 9);
    sell_five(m);
    assert_int_equal(stock_now(), 5);
}

/* Wrong: the lease alone lets the next one in, in the middle of the stopped one's transaction,
 * where the database's own locks do not keep it out. */
TEST_IF(MANY_WRITERS, test_holder_that_stops_without_a_guard_lets_the_next_one_in)
{
    struct sale sale = {.stop_inside = true};
    pid_t child = start_seller(w, &sale);

    sell_five(open_manager(g.w, NULL));
    kill(child, SIGCONT);
    assert_int_equal(child_wait(child, patience_ms(5000)), 0);
    assert_int_equal(stock_now(), 9);
}
