/* P25: requests of many threads that go out together over one connection. Each gets its own answer,
 * and one that is in trouble takes no other along. */
#define SUITE_NEEDS (LEISURE | BATCHES)
#include <sqlock/admin.h>
#include <sqlock/transaction.h>

#include "tests/drivers/suite_in_transaction.h"

enum { CALLERS = 24, TIME_MS = 20000 };

/* The driver. A shut gate keeps the one connection busy, while others gather behind it. */
static struct gate {
    sqlock_stmt stmt; /* of this request */
    atomic_int shut, entered;
    atomic_int most;  /* requests in one call */
    atomic_int mixed; /* calls with more than one kind */
    atomic_int lazy;  /* calls that need not wait for the disk */
    atomic_int wrong; /* calls with more than releases that need not, or with releases that need */
    atomic_int lose;  /* so many batches are applied, and their replies lost */
    atomic_int lose_all; /* the same of all calls */
} gate;

/* Nothing but releases. */
static int only_releases(const sqlock_call *call, sqlock_stmt stmt)
{
    int only = stmt == SQLOCK_STMT_RELEASE;

    for (size_t i = 0; call != NULL && i < call->n_more; i++)
        only = only && call->more[i].stmt == SQLOCK_STMT_RELEASE;
    return only;
}

static int run_gated(void *conn, const sqlock_call *call, sqlock_stmt stmt,
                     const sqlock_value *values, size_t n, int64_t deadline, sqlock_rows *rows,
                     sqlock_error *err)
{
    size_t n_all = n;
    int lazy = call != NULL && (call->flags & SQLOCK_CALL_LAZY), rc;

    atomic_fetch_add(&gate.lazy, lazy);
    atomic_fetch_add(&gate.wrong, call != NULL && lazy != only_releases(call, stmt));
    for (size_t i = 0; call != NULL && i < call->n_more; i++)
        n_all += call->more[i].n;
    if (stmt != gate.stmt && n_all == n)
        return spied_driver()->run(conn, call, stmt, values, n, deadline, rows, err);
    atomic_fetch_add(&gate.mixed, n_all > n);
    atomic_fetch_add(&gate.entered, 1);
    while (atomic_load(&gate.shut))
        sleep_ms(1);
    if ((int)n_all > atomic_load(&gate.most))
        atomic_store(&gate.most, (int)n_all);
    rc = spied_driver()->run(conn, call, stmt, values, n, deadline, rows, err);
    if (rc == 0 &&
        (atomic_load(&gate.lose_all) || (n_all > 1 && atomic_fetch_sub(&gate.lose, 1) > 0)))
        rc = sqlock_error_set(err, SQLOCK_EUNREACH, SQLOCK_RECONNECT | SQLOCK_RETRY | SQLOCK_MAYBE,
                              "the reply was lost");
    return rc;
}

struct caller {
    sqlock *m;
    char name[16];
    int64_t token; /* to be broken; 0: the lock is released, or acquired if there is none */
    sqlock_lock *lock;
    sqlock_holder holder;
    sqlock_error err;
    int code;
    pthread_t thread;
};

static struct crowd {
    sqlock *m;
    struct caller first, callers[CALLERS];
    atomic_int begun;
} crowd;

static void *caller_main(void *arg)
{
    struct caller *c = arg;
    sqlock_acquire_opts o = wait_opts(0, 60000, SQLOCK_NO_RENEW);

    c->holder.size = sizeof c->holder;
    o.holder = &c->holder;
    atomic_fetch_add(&crowd.begun, 1);
    if (c->token != 0)
        c->code = sqlock_break(c->m, c->name, c->token, &c->err);
    else if (c->lock == NULL)
        c->code = sqlock_acquire(c->m, c->name, &o, &c->lock, &c->err);
    else
        c->code = sqlock_release(c->lock, &c->err);
    return NULL;
}

static void start_caller(struct caller *c)
{
    c->m = crowd.m;
    c->code = -1;
    assert_int_equal(pthread_create(&c->thread, NULL, caller_main, c), 0);
}

static void end_crowd(void)
{
    sqlock_lock_free(crowd.first.lock);
    for (int i = 0; i < CALLERS; i++)
        sqlock_lock_free(crowd.callers[i].lock);
}

/* A manager with one connection for calls, and one for renewals. */
static void begin_crowd_for(struct world *w, int32_t request_ms)
{
    memset(&gate, 0, sizeof gate);
    memset(&crowd, 0, sizeof crowd);
    w->driver.run = run_gated;
    crowd.m = open_changed(w, request_ms);
    open_reserved(crowd.m);
    for (int i = 0; i < CALLERS; i++) /* not by their keys */
        snprintf(crowd.callers[i].name, sizeof crowd.callers[i].name, "n%02d", i * 7 % CALLERS);
    snprintf(crowd.first.name, sizeof crowd.first.name, "first");
    at_end(w, end_crowd);
}

static void begin_crowd(struct world *w)
{
    begin_crowd_for(w, TIME_MS);
}

/* What they want goes out at once, behind another request of the kind. */
static void together(sqlock_stmt stmt)
{
    struct caller *c = crowd.callers;

    gate.stmt = stmt;
    atomic_store(&gate.most, 0);
    atomic_store(&gate.mixed, 0);
    atomic_store(&gate.entered, 0);
    atomic_store(&crowd.begun, 0);
    atomic_store(&gate.shut, 1);
    start_caller(&crowd.first);
    assert_soon(atomic_load(&gate.entered) > 0, patience_ms(5000));
    for (int i = 0; i < CALLERS; i++)
        start_caller(&c[i]);
    assert_soon(atomic_load(&crowd.begun) == 1 + CALLERS, patience_ms(5000));
    sleep_ms(400); /* until they wait */
    atomic_store(&gate.shut, 0);
    pthread_join(crowd.first.thread, NULL);
    for (int i = 0; i < CALLERS; i++)
        pthread_join(c[i].thread, NULL);
    assert_true(atomic_load(&gate.most) > 1);
    assert_int_equal(atomic_load(&gate.wrong), 0);
}

/* The names have rows, and are free. Their next tokens differ. */
static void make_rows(sqlock *m)
{
    give(take(m, crowd.first.name));
    for (int i = 0; i < CALLERS; i++)
        for (int n = 0; n <= i % 4; n++)
            give(take(m, crowd.callers[i].name));
}

static void assert_granted(sqlock *m, const struct caller *c)
{
    assert_code(SQLOCK_OK, c->code, &c->err);
    assert_string_equal(sqlock_lock_name(c->lock), c->name);
    assert_state(SQLOCK_HELD, c->lock);
    assert_int_equal(token_in_the_row(m, c->name), sqlock_lock_token(c->lock));
}

static void assert_all_granted(sqlock *m)
{
    for (int i = 0; i < CALLERS; i++)
        assert_granted(m, &crowd.callers[i]);
}

static void assert_released(sqlock *m, const struct caller *c)
{
    assert_code(SQLOCK_OK, c->code, &c->err);
    assert_state(SQLOCK_RELEASED, c->lock);
    assert_int_equal(token_in_the_row(m, c->name), 0);
}

static void drop_all(void)
{
    for (int i = 0; i < CALLERS; i++) {
        sqlock_lock_free(crowd.callers[i].lock);
        crowd.callers[i].lock = NULL;
    }
    sqlock_lock_free(crowd.first.lock);
    crowd.first.lock = NULL;
}

/* ---- each its own answer --------------------------------------------------------------------- */

/* At first the names have no rows. Tokens rise. */
TEST_AFTER(begin_crowd, test_P2_batches_of_acquires_and_releases_take_and_free_each_name, other)
{
    int64_t last[CALLERS] = {0};

    for (int round = 0; round < 3; round++) {
        together(SQLOCK_STMT_ACQUIRE);
        assert_all_granted(other);
        for (int i = 0; i < CALLERS; i++) {
            assert_true(sqlock_lock_token(crowd.callers[i].lock) > last[i]);
            last[i] = sqlock_lock_token(crowd.callers[i].lock);
        }
        together(SQLOCK_STMT_RELEASE);
        for (int i = 0; i < CALLERS; i++)
            assert_released(other, &crowd.callers[i]);
        assert_true(atomic_load(&gate.lazy) > 0);
        drop_all();
    }
}

TEST_AFTER(begin_crowd, test_P9_member_of_a_batch_that_is_refused_learns_of_its_own_holder, other)
{
    sqlock_lock *held[CALLERS] = {NULL};

    make_rows(other);
    for (int i = 0; i < CALLERS; i += 3)
        held[i] = take(other, crowd.callers[i].name);
    together(SQLOCK_STMT_ACQUIRE);
    for (int i = 0; i < CALLERS; i++) {
        const struct caller *c = &crowd.callers[i];

        if (held[i] == NULL) {
            assert_granted(other, c);
            continue;
        }
        assert_code(SQLOCK_EBUSY, c->code, &c->err);
        assert_int_equal(c->holder.token, sqlock_lock_token(held[i]));
        assert_between(1, c->holder.left_ms, SQLOCK_LEASE_DEFAULT_MS);
    }
}

TEST_AFTER(begin_crowd, test_P1_callers_of_few_names_have_one_holder_for_each, other)
{
    enum { NAMES = 6 };
    int holders[NAMES] = {0};

    make_rows(other);
    for (int i = 0; i < CALLERS; i++)
        snprintf(crowd.callers[i].name, sizeof crowd.callers[i].name, "n%02d", i % NAMES);
    together(SQLOCK_STMT_ACQUIRE);
    for (int i = 0; i < CALLERS; i++) {
        const struct caller *c = &crowd.callers[i];

        if (c->code == SQLOCK_OK) {
            assert_granted(other, c);
            holders[i % NAMES]++;
        } else {
            assert_code(SQLOCK_EBUSY, c->code, &c->err);
            assert_int_equal(c->holder.token, token_in_the_row(other, c->name));
        }
    }
    for (int i = 0; i < NAMES; i++)
        assert_int_equal(holders[i], 1);
}

/* One of them ended before, and another one is held by someone else. */
TEST_AFTER(begin_crowd, test_P3_batch_of_releases_and_breaks_ends_exact_grants, other)
{
    sqlock_lock *theirs;

    together(SQLOCK_STMT_ACQUIRE);
    ok(sqlock_break(other, crowd.callers[4].name, sqlock_lock_token(crowd.callers[4].lock), &said));
    theirs = take(other, crowd.callers[4].name);
    together(SQLOCK_STMT_RELEASE);
    for (int i = 0; i < CALLERS; i++)
        if (i != 4)
            assert_released(other, &crowd.callers[i]);
    assert_code(SQLOCK_ELOST, crowd.callers[4].code, &crowd.callers[4].err);
    ok(sqlock_renew(theirs, &said));
    give(theirs);
    drop_all();
    together(SQLOCK_STMT_ACQUIRE);
    assert_all_granted(other);
    for (int i = 0; i < CALLERS; i++)
        crowd.callers[i].token = sqlock_lock_token(crowd.callers[i].lock) + (i == 4);
    crowd.first.token = sqlock_lock_token(crowd.first.lock);
    together(SQLOCK_STMT_BREAK_NOTED);
    for (int i = 0; i < CALLERS; i++) {
        struct caller *c = &crowd.callers[i];

        assert_code(i == 4 ? SQLOCK_ELOST : SQLOCK_OK, c->code, &c->err);
        assert_int_equal(token_in_the_row(other, c->name) != 0, i == 4);
        if (i != 4)
            says(SQLOCK_ELOST, sqlock_renew(c->lock, &said));
        if (i != 4)
            assert_lost(c->lock, SQLOCK_WHY_BROKEN);
    }
}

/* Every second one has a lock to release, every sixth one wants a lock that another one holds. */
static void begin_mixed(sqlock *other, sqlock_lock *held[CALLERS])
{
    sqlock_acquire_opts o = wait_opts(0, 60000, SQLOCK_NO_RENEW);

    make_rows(other);
    for (int i = 0; i < CALLERS; i++) {
        struct caller *c = &crowd.callers[i];

        if (i % 2 == 0)
            ok(sqlock_acquire(crowd.m, c->name, &o, &c->lock, &said));
        else if (i % 6 == 1)
            held[i] = take(other, c->name);
    }
}

static void assert_mixed(sqlock *other, sqlock_lock *held[CALLERS])
{
    for (int i = 0; i < CALLERS; i++) {
        const struct caller *c = &crowd.callers[i];

        if (i % 2 == 0) {
            assert_released(other, c);
        } else if (held[i] == NULL) {
            assert_granted(other, c);
        } else {
            assert_code(SQLOCK_EBUSY, c->code, &c->err);
            assert_int_equal(c->holder.token, sqlock_lock_token(held[i]));
        }
    }
    assert_int_equal(atomic_load(&gate.mixed) > 0, (spied_driver()->caps & SQLOCK_CAP_GROUPS) != 0);
}

TEST_AFTER(begin_crowd, test_P1_releases_and_acquires_that_go_together_have_each_its_own_outcome,
           other)
{
    sqlock_lock *held[CALLERS] = {NULL};

    begin_mixed(other, held);
    together(SQLOCK_STMT_ACQUIRE);
    assert_mixed(other, held);
    if (spied_driver()->caps & SQLOCK_CAP_GROUPS) /* few had to go alone */
        assert_true(atomic_load(&gate.entered) < CALLERS / 4);
}

/* A second time by each, alone. */
TEST_AFTER(begin_crowd, test_P5_lost_reply_to_releases_and_acquires_is_settled_by_each, other)
{
    sqlock_lock *held[CALLERS] = {NULL};

    begin_mixed(other, held);
    atomic_store(&gate.lose, 1);
    together(SQLOCK_STMT_ACQUIRE);
    assert_mixed(other, held);
}

/* ---- lost replies ---------------------------------------------------------------------------- */

/* P5: each settles for itself by the single request, which finds what the batch has done. */
TEST_AFTER(begin_crowd, test_P5_lost_reply_of_a_batch_is_settled_by_each_member, other)
{
    make_rows(other);
    atomic_store(&gate.lose, 1);
    together(SQLOCK_STMT_ACQUIRE);
    assert_all_granted(other);
    for (int i = 0; i < CALLERS; i++) /* one grant, not a second one */
        assert_int_equal(sqlock_lock_token(crowd.callers[i].lock),
                         token_in_the_row(other, crowd.callers[i].name));
    atomic_store(&gate.lose, 1);
    together(SQLOCK_STMT_RELEASE);
    for (int i = 0; i < CALLERS; i++)
        assert_released(other, &crowd.callers[i]);
    drop_all();
    together(SQLOCK_STMT_ACQUIRE);
    for (int i = 0; i < CALLERS; i++)
        crowd.callers[i].token = sqlock_lock_token(crowd.callers[i].lock);
    crowd.first.token = sqlock_lock_token(crowd.first.lock);
    atomic_store(&gate.lose, 1);
    together(SQLOCK_STMT_BREAK_NOTED);
    for (int i = 0; i < CALLERS; i++) {
        assert_code(SQLOCK_OK, crowd.callers[i].code, &crowd.callers[i].err);
        assert_int_equal(token_in_the_row(other, crowd.callers[i].name), 0);
    }
}

/* What was granted unknown to its owner is given back, and is granted to it no more. */
TEST(test_P5_batch_of_withdrawals_gives_back_what_was_granted, other)
{
    begin_crowd_for(w, patience_ms(1000));
    make_rows(other);
    atomic_store(&gate.lose_all, 1);
    together(SQLOCK_STMT_ACQUIRE);
    atomic_store(&gate.lose_all, 0);
    for (int i = 0; i < CALLERS; i++) {
        assert_code(SQLOCK_EUNSURE, crowd.callers[i].code, &crowd.callers[i].err);
        assert_state(SQLOCK_UNSURE, crowd.callers[i].lock);
    }
    assert_int_not_equal(token_in_the_row(other, crowd.callers[0].name), 0);
    together(SQLOCK_STMT_WITHDRAW);
    for (int i = 0; i < CALLERS; i++)
        assert_released(other, &crowd.callers[i]);
}

/* ---- a guard --------------------------------------------------------------------------------- */

/* In READ COMMITTED: at higher levels InnoDB may lock the gap before the guarded entry as well,
 * while the name's old entries are not purged. Then the next grant of the name before it waits. */
static void begin_read_committed(void)
{
    const struct way *way = g.side->ways;

    while (strcmp(way->name, "read committed") != 0)
        way++;
    if (way->before != NULL)
        app_exec(g.app, way->before);
    app_exec(g.app, way->begin);
}

/* P11: it keeps out a batch like a single request, and delays no neighbour. */
TEST_IF(ADOPTION | GUARDS | MANY_WRITERS,
        test_P11_guarded_name_in_a_batch_is_granted_to_no_one_and_hinders_no_other, other)
{
    struct caller *c;
    sqlock_lock *lock;

    begin_app(w);
    begin_crowd(w);
    c = &crowd.callers[5];
    make_rows(other);
    lock = take_for(other, c->name, 60000, SQLOCK_NO_RENEW);
    begin_read_committed();
    ok(sqlock_guard(lock, adopted(other, g.app), &said));
    says(SQLOCK_EGUARDED, sqlock_release(lock, &said));
    together(SQLOCK_STMT_ACQUIRE);
    for (int i = 0; i < CALLERS; i++)
        if (i != 5)
            assert_granted(other, &crowd.callers[i]);
    assert_code(SQLOCK_EGUARDED, c->code, &c->err);
    app_exec(g.app, "COMMIT");
    assert_true(is_free(other, c->name));
}
