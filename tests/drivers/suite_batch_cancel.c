/* P25: a batch that waits in the database, and whose leader leaves. Where the driver can pause,
 * another member goes on with the very call. Where it cannot, the call ends, and each member
 * settles for itself. fake_batch_leave_test.c tries the rest. */
#define SUITE_NEEDS (ADOPTION | BATCHES)
#include <sqlock/admin.h>

#include "core/engine/manager.h"
#include "tests/drivers/suite_in_transaction.h"

enum { MEMBERS = 4, TIME_MS = 20000 };

static const char *const names[MEMBERS] = {"c", "a", "d", "b"}; /* not by their keys */

struct caller {
    pthread_t thread;
    sqlock *m;
    const char *name;
    sqlock_acquire_opts opts;
    int64_t token; /* to be broken */
    sqlock_lock *lock;
    sqlock_error err;
    int code;
    int64_t ended;
};

/* The first acquire waits before the driver until the others wait behind it. The first batch finds
 * the table locked by the application. */
static struct {
    sqlock *m;
    struct caller first, urgent, callers[MEMBERS];
    struct caller *leader;
    atomic_int shut, entered, urgently, size;
    pthread_t sender; /* of the batch */
} crowd;

static bool has_one_writer(void)
{
    return (g.driver->caps & SQLOCK_CAP_ONE_WRITER) != 0;
}

static bool is_mysql(void)
{
    return strcmp(g.driver->name, "mysql") == 0;
}

static void lock_the_table(void)
{
    char sql[200];

    snprintf(sql, sizeof sql,
             is_mysql() ? "LOCK TABLES %s.sqlock_lock WRITE"
                        : "LOCK TABLE %s.sqlock_lock IN ACCESS EXCLUSIVE MODE",
             g.w->place.schema);
    if (!is_mysql())
        app_exec(g.app, g.side->begins[0], "UPDATE app_row SET n = 11 WHERE id = 1");
    if (!has_one_writer())
        app_exec(g.app, sql);
}

static void unlock_the_table(void)
{
    app_exec(g.app, is_mysql() ? "UNLOCK TABLES" : "COMMIT");
}

static int run_crowded(void *conn, const sqlock_call *call, sqlock_stmt stmt,
                       const sqlock_value *values, size_t n, int64_t deadline, sqlock_rows *rows,
                       sqlock_error *err)
{
    size_t n_more = call != NULL ? call->n_more : 0, n_all = n;
    bool ours = stmt == SQLOCK_STMT_ACQUIRE || n_more > 0;

    for (size_t i = 0; i < n_more; i++)
        n_all += call->more[i].n;
    atomic_fetch_add(&crowd.entered, ours);
    while (ours && n_all == 1 && atomic_load(&crowd.shut))
        sleep_ms(1);
    atomic_fetch_add(&crowd.urgently, stmt == SQLOCK_STMT_BREAK_NOTED);
    while (stmt == SQLOCK_STMT_BREAK_NOTED && n_all == 1 && atomic_load(&crowd.size) == 0)
        sleep_ms(1);
    if (ours && n_all > 1 && atomic_load(&crowd.size) == 0) {
        lock_the_table();
        crowd.sender = pthread_self();
        atomic_store(&crowd.size, (int)n_all);
    }
    return spied_driver()->run(conn, call, stmt, values, n, deadline, rows, err);
}

static void *caller_main(void *arg)
{
    struct caller *c = arg;

    c->code = c->token != 0 ? sqlock_break(c->m, c->name, c->token, &c->err)
                            : sqlock_acquire(c->m, c->name, &c->opts, &c->lock, &c->err);
    c->ended = now_us();
    return NULL;
}

static void start_caller(struct caller *c, const char *name)
{
    *c = (struct caller){.m = crowd.m,
                         .name = name,
                         .token = c->token,
                         .opts = wait_opts(TIME_MS, 0, SQLOCK_NO_RENEW)};
    ok(sqlock_cancel_new(&c->opts.cancel, &said));
    assert_int_equal(pthread_create(&c->thread, NULL, caller_main, c), 0);
}

static void end_caller(struct caller *c)
{
    pthread_join(c->thread, NULL);
    sqlock_cancel_free(c->opts.cancel);
}

/* So many callers stand in the line for a connection. Managers that are stepped have none: there no
 * caller has a thread of its own. */
static bool line_has(int n)
{
    mutex_lock(&crowd.m->mu);
    LIST_EACH(at, &crowd.m->waiting)
    {
        n--;
    }
    mutex_unlock(&crowd.m->mu);
    return n == 0;
}

/* Who waits first for the connection leads. That is to be an acquire, because a break cannot be
 * cancelled. */
static void gather(void)
{
    atomic_store(&crowd.shut, 1);
    start_caller(&crowd.first, "first");
    assert_soon(atomic_load(&crowd.entered) == 1, patience_ms(3000));
    if (crowd.urgent.token != 0) { /* it takes the reserved connection */
        start_caller(&crowd.urgent, "urgent");
        assert_soon(atomic_load(&crowd.urgently) == 1, patience_ms(3000));
    }
    for (int i = 0; i < MEMBERS; i++) {
        start_caller(&crowd.callers[i], names[i]);
        if (suite_stepped)
            sleep_ms(patience_ms(50));
        else
            assert_soon(line_has(i + 1), patience_ms(3000));
    }
    atomic_store(&crowd.shut, 0);
    assert_soon(atomic_load(&crowd.size) != 0, patience_ms(3000));
    assert_int_equal(atomic_load(&crowd.size), MEMBERS);
    crowd.leader = &crowd.callers[0];
    for (int i = 0; !suite_stepped && i < MEMBERS; i++)
        if (pthread_equal(crowd.callers[i].thread, crowd.sender))
            crowd.leader = &crowd.callers[i];
    assert_true(suite_stepped || pthread_equal(crowd.leader->thread, crowd.sender));
    sleep_ms(patience_ms(100)); /* it waits in the database */
}

static void begin_crowd_with(struct world *w, uint32_t caps)
{
    begin_app(w);
    memset(&crowd, 0, sizeof crowd);
    w->driver.run = run_crowded;
    w->driver.caps &= caps;
    crowd.m = open_changed(w, TIME_MS);
    give(take_for(crowd.m, "first", 0, SQLOCK_NO_RENEW));
    for (int i = 0; i < MEMBERS; i++) /* a batch answers for rows that are there */
        give(take_for(crowd.m, names[i], 0, SQLOCK_NO_RENEW));
    atomic_store(&crowd.entered, 0);
}

static void begin_crowd(struct world *w)
{
    begin_crowd_with(w, UINT32_MAX);
}

static void begin_crowd_that_cannot_pause(struct world *w)
{
    begin_crowd_with(w, ~SQLOCK_CAP_PAUSES);
}

static bool batches(void)
{
    return (g.driver->caps & SQLOCK_CAP_BATCH) ||
           g.driver->dialect->scripts[SQLOCK_STMT_ACQUIRE].n_array_steps > 0;
}

static bool pauses(void)
{
    return (g.driver->caps & SQLOCK_CAP_PAUSES) != 0;
}

/* P8: it learns at once that no one knows. */
static void cancel_leader(void)
{
    struct caller *c = crowd.leader;
    int64_t fired = now_us();

    assert_int_equal(c->token, 0);
    sqlock_cancel_fire(c->opts.cancel);
    end_caller(c);
    assert_between(0, c->ended - fired, late_ms(100) * INT64_C(1000));
    assert_code(SQLOCK_EUNSURE, c->code, &c->err);
    sqlock_lock_free(c->lock); /* while the batch may be under way */
}

/* It holds what the row says. */
static void give_granted(struct caller *c, sqlock *other)
{
    assert_code(SQLOCK_OK, c->code, &c->err);
    assert_int_equal(token_in_the_row(other, c->name), sqlock_lock_token(c->lock));
    ok(sqlock_release(c->lock, &said));
    sqlock_lock_free(c->lock);
}

static void end_others(void)
{
    sleep_ms(100);
    unlock_the_table();
    end_caller(&crowd.first);
    for (int i = 1; i < MEMBERS; i++)
        end_caller(&crowd.callers[i]);
}

static void give_others(sqlock *other)
{
    give_granted(&crowd.first, other);
    for (int i = 1; i < MEMBERS; i++)
        give_granted(&crowd.callers[i], other);
}

TEST_AFTER(begin_crowd, test_P25_batch_that_waits_goes_on_when_its_leader_is_cancelled, other)
{
    long opens, runs;

    if (!batches() || !pauses())
        return;
    opens = spy_opens();
    runs = spy_runs(SQLOCK_STMT_ACQUIRE);
    gather();
    cancel_leader();
    end_others();
    assert_int_equal(spy_opens(), opens); /* nothing was cut */
    /* The first one, the batch, and the batch that went on: no one had to settle. */
    assert_int_equal(spy_runs(SQLOCK_STMT_ACQUIRE) - runs, 3);
    give_others(other);
}

TEST_AFTER(begin_crowd, test_P25_breaks_and_acquires_go_on_when_their_leader_is_cancelled, other)
{
    long opens;

    if (suite_stepped || !(g.driver->caps & SQLOCK_CAP_GROUPS) || !pauses())
        return;
    crowd.urgent.token = sqlock_lock_token(take_for(other, "urgent", 60000, SQLOCK_NO_RENEW));
    for (int i = 1; i < MEMBERS; i += 2)
        crowd.callers[i].token =
            sqlock_lock_token(take_for(other, names[i], 60000, SQLOCK_NO_RENEW));
    gather();
    opens = spy_opens();
    cancel_leader();
    end_others();
    assert_int_equal(spy_opens(), opens); /* nothing was cut */
    end_caller(&crowd.urgent);
    assert_code(SQLOCK_OK, crowd.urgent.code, &crowd.urgent.err);
    give_granted(&crowd.first, other);
    for (int i = 1; i < MEMBERS; i++) {
        struct caller *c = &crowd.callers[i];

        if (i % 2 == 0) {
            give_granted(c, other);
            continue;
        }
        assert_code(SQLOCK_OK, c->code, &c->err);
        assert_true(is_free(other, c->name));
    }
}

/* Nothing of the call is left: its connection is closed, and the others are granted what they wait
 * for, by single requests. PostgreSQL would wait before that: it prepares the batch first. */
TEST_AFTER(begin_crowd_that_cannot_pause,
           test_P25_batch_of_a_driver_that_cannot_pause_ends_with_its_leader, other)
{
    long opens;

    if (!batches() || !is_mysql())
        return;
    opens = spy_opens();
    gather();
    cancel_leader();
    end_others();
    assert_true(spy_opens() > opens);
    give_others(other);
}
