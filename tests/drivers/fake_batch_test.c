/* Many callers' requests in one, on the fake driver: each gets its own answer, and one who leaves,
 * fails or is cancelled takes no other along. */
#include "tests/drivers/fake_network.h"

#include "core/engine/manager.h"

enum { MEMBERS = 8, TIME_MS = 20000 };

/* ---- a crowd in front of one connection ------------------------------------------------------ */

/* The driver. A shut gate keeps the connection busy with the first request that comes. */
static struct gate {
    atomic_int shut, entered;
    atomic_int fail_batches; /* with this code; 0: none */
    atomic_int fail_flags;
    atomic_int drop_rows;  /* every second member of a batch has no answer */
    atomic_int hang_ms;    /* of the next batch, before its answer */
    atomic_int hold, held; /* the answers of batches: they have come, but core does not know yet */
    atomic_int unsorted;   /* a batch was not in the order of names */
    char poison[8];        /* a request with this name fails, alone or with others */
} gate;

static bool is_poisoned(const sqlock_value *values, size_t n, size_t n_params)
{
    bool is = false;

    for (size_t i = 0; i < n; i++)
        is |= values[i * n_params + 1].len == strlen(gate.poison) &&
              memcmp(values[i * n_params + 1].data, gate.poison, strlen(gate.poison)) == 0;
    return is && gate.poison[0] != '\0';
}

static bool is_sorted(const sqlock_value *values, size_t n, size_t n_params)
{
    for (size_t i = 1; i < n; i++) {
        const sqlock_value *a = &values[(i - 1) * n_params + 1], *b = &values[i * n_params + 1];
        size_t len = a->len < b->len ? a->len : b->len;
        int order = memcmp(a->data, b->data, len);

        if (order > 0 || (order == 0 && a->len >= b->len))
            return false;
    }
    return true;
}

static int run_some(void *conn, const sqlock_call *call, sqlock_stmt stmt,
                    const sqlock_value *values, size_t n, int64_t deadline, sqlock_rows *rows,
                    sqlock_error *err)
{
    size_t n_params = spied_driver()->dialect->scripts[stmt].n_params;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < n; i += 2)
        rc = spied_driver()->run(conn, call, stmt, values + i * n_params, 1, deadline, rows, err);
    return rc; /* all have the number 0: only the first is answered */
}

static int hold_answer(size_t n, int rc)
{
    while (n > 1 && rc == 0 && atomic_load(&gate.hold)) {
        atomic_store(&gate.held, 1);
        sleep_ms(1);
    }
    return rc;
}

static int run_gated(void *conn, const sqlock_call *call, sqlock_stmt stmt,
                     const sqlock_value *values, size_t n, int64_t deadline, sqlock_rows *rows,
                     sqlock_error *err)
{
    int is_lock = stmt == SQLOCK_STMT_ACQUIRE || stmt == SQLOCK_STMT_RELEASE;

    atomic_fetch_add(&gate.entered, is_lock);
    while (is_lock && atomic_load(&gate.shut))
        sleep_ms(1);
    if (is_lock && !is_sorted(values, n, spied_driver()->dialect->scripts[stmt].n_params))
        atomic_store(&gate.unsorted, 1);
    if (is_lock && is_poisoned(values, n, spied_driver()->dialect->scripts[stmt].n_params))
        return sqlock_error_set(err, SQLOCK_EDB, 0, "poison");
    if (is_lock && n > 1 && atomic_load(&gate.fail_batches) != 0)
        return sqlock_error_set(err, atomic_exchange(&gate.fail_batches, 0),
                                (unsigned)atomic_load(&gate.fail_flags), "the batch failed");
    if (is_lock && n > 1 && atomic_load(&gate.drop_rows))
        return run_some(conn, call, stmt, values, n, deadline, rows, err);
    if (is_lock && n > 1 && atomic_load(&gate.hang_ms) > 0)
        sqlock_fake_fault(network.db, (int)stmt, SQLOCK_FAULT_SLOW, 0, 1,
                          atomic_exchange(&gate.hang_ms, 0));
    return hold_answer(n, spied_driver()->run(conn, call, stmt, values, n, deadline, rows, err));
}

struct caller {
    pthread_t thread;
    sqlock *m;
    char name[8];
    sqlock_acquire_opts opts;
    sqlock_lock *lock;
    sqlock_holder holder;
    sqlock_error err;
    int code;
    int64_t ended;
    bool joined;
};

static struct crowd {
    sqlock *m;
    struct caller first, callers[MEMBERS];
} crowd;

static void *caller_main(void *arg)
{
    struct caller *c = arg;

    if (c->lock == NULL) {
        c->holder.size = sizeof c->holder;
        c->opts.holder = &c->holder;
        c->code = sqlock_acquire(c->m, c->name, &c->opts, &c->lock, &c->err);
    } else {
        c->code = sqlock_release(c->lock, &c->err);
    }
    c->ended = now_us();
    return NULL;
}

static size_t n_waiting(sqlock *m)
{
    size_t n = 0;

    mutex_lock(&m->mu);
    LIST_EACH(at, &m->waiting)
    {
        n++;
    }
    mutex_unlock(&m->mu);
    return n;
}

static void end_caller(struct caller *c)
{
    if (c->joined || c->m == NULL)
        return;
    pthread_join(c->thread, NULL);
    c->joined = true;
}

static void end_crowd(void)
{
    atomic_store(&gate.shut, 0);
    end_caller(&crowd.first);
    for (int i = 0; i < MEMBERS; i++)
        end_caller(&crowd.callers[i]);
    sqlock_lock_free(crowd.first.lock);
    for (int i = 0; i < MEMBERS; i++)
        sqlock_lock_free(crowd.callers[i].lock);
}

/* A manager with one connection for calls, and one for renewals. */
static void begin_crowd(struct world *w)
{
    memset(&gate, 0, sizeof gate);
    memset(&crowd, 0, sizeof crowd);
    network.db = fake_at(&w->place);
    w->driver.run = run_gated;
    crowd.m = open_changed(w, TIME_MS);
    open_reserved(crowd.m);
    for (int i = 0; i < MEMBERS; i++) {
        struct caller *c = &crowd.callers[i];

        snprintf(c->name, sizeof c->name, "%d", (i * 5 + 3) % MEMBERS); /* not by their keys */
        c->opts = wait_opts(0, TIME_MS, 0);
    }
    crowd.first.opts = wait_opts(0, TIME_MS, 0);
    snprintf(crowd.first.name, sizeof crowd.first.name, "first");
    at_end(w, end_crowd);
}

static void start_caller(struct caller *c)
{
    c->m = crowd.m;
    c->joined = false;
    assert_int_equal(pthread_create(&c->thread, NULL, caller_main, c), 0);
}

/* The first request is on its way, and all others wait behind it, in their order. */
static void gather(void)
{
    int entered = atomic_load(&gate.entered);

    atomic_store(&gate.shut, 1);
    start_caller(&crowd.first);
    assert_soon(atomic_load(&gate.entered) > entered, patience_ms(3000));
    for (size_t i = 0; i < MEMBERS; i++) {
        start_caller(&crowd.callers[i]);
        assert_soon(n_waiting(crowd.m) == i + 1, patience_ms(3000));
    }
}

static void let_through(void)
{
    int64_t begun = now_us();

    atomic_store(&gate.shut, 0);
    end_caller(&crowd.first);
    for (int i = 0; i < MEMBERS; i++)
        end_caller(&crowd.callers[i]);
    /* no one slept until its time was over */
    assert_between(0, now_us() - begun, TIME_MS / 4 * INT64_C(1000));
}

static void assert_granted(const struct caller *c)
{
    assert_code(SQLOCK_OK, c->code, &c->err);
    assert_string_equal(sqlock_lock_name(c->lock), c->name);
    assert_state(SQLOCK_HELD, c->lock);
}

static void check_others_granted(int but)
{
    for (int i = 0; i < MEMBERS; i++)
        if (i != but)
            assert_granted(&crowd.callers[i]);
}

/* Of this name: the token that the database has. */
struct found {
    const char *name;
    int64_t token;
};

static int note_token(const sqlock_info *info, void *user)
{
    struct found *f = user;

    if (strcmp(info->name, f->name) == 0)
        f->token = info->holder.token;
    return 0;
}

static void assert_token_is_the_rows(const struct caller *c)
{
    struct found f = {c->name, 0};

    ok(sqlock_list(crowd.m, NULL, note_token, &f, &said));
    assert_int_equal(f.token, sqlock_lock_token(c->lock));
}

/* ---- each its own answer --------------------------------------------------------------------- */

TEST_AFTER(begin_crowd, test_requests_that_wait_for_a_connection_go_together)
{
    long runs = spy_runs(SQLOCK_STMT_ACQUIRE);

    gather();
    let_through();
    check_others_granted(-1);
    for (int i = 0; i < MEMBERS; i++)
        assert_token_is_the_rows(&crowd.callers[i]);
    assert_int_equal(spy_runs(SQLOCK_STMT_ACQUIRE) - runs, 2);
    runs = spy_runs(SQLOCK_STMT_RELEASE);
    gather();
    let_through();
    for (int i = 0; i < MEMBERS; i++)
        assert_code(SQLOCK_OK, crowd.callers[i].code, &crowd.callers[i].err);
    assert_int_equal(spy_runs(SQLOCK_STMT_RELEASE) - runs, 2);
}

TEST_AFTER(begin_crowd, test_P1_each_member_of_a_batch_has_its_own_outcome, other)
{
    sqlock_lock *held[MEMBERS] = {NULL};

    for (int i = 0; i < MEMBERS; i += 3)
        held[i] = take(other, crowd.callers[i].name);
    gather();
    let_through();
    for (int i = 0; i < MEMBERS; i++) {
        struct caller *c = &crowd.callers[i];

        if (held[i] == NULL) {
            assert_granted(c);
            assert_token_is_the_rows(c);
            continue;
        }
        assert_code(SQLOCK_EBUSY, c->code, &c->err);
        assert_int_equal(c->holder.token, sqlock_lock_token(held[i]));
    }
}

TEST_AFTER(begin_crowd, test_P1_one_name_twice_in_front_of_a_connection_is_granted_once)
{
    struct caller *a = &crowd.callers[2], *b = &crowd.callers[5];
    long runs = spy_runs(SQLOCK_STMT_ACQUIRE);

    memcpy(b->name, a->name, sizeof b->name);
    gather();
    let_through();
    for (int i = 0; i < MEMBERS; i++)
        if (i != 2 && i != 5)
            assert_granted(&crowd.callers[i]);
    assert_granted(a); /* it came first */
    assert_code(SQLOCK_EBUSY, b->code, &b->err);
    assert_int_equal(b->holder.token, sqlock_lock_token(a->lock));
    assert_int_equal(spy_runs(SQLOCK_STMT_ACQUIRE) - runs, 3); /* the second went behind */
}

/* Two batches lock their rows in the same order. */
TEST_AFTER(begin_crowd, test_requests_of_a_batch_are_sorted_by_name)
{
    gather();
    let_through();
    check_others_granted(-1);
    gather(); /* releases */
    let_through();
    assert_int_equal(atomic_load(&gate.unsorted), 0);
}

TEST_AFTER(begin_crowd, test_member_without_an_answer_goes_alone)
{
    long runs = spy_runs(SQLOCK_STMT_ACQUIRE);

    atomic_store(&gate.drop_rows, 1);
    gather();
    let_through();
    check_others_granted(-1);
    /* those of the batch that were answered, and each other alone */
    assert_int_equal(spy_runs(SQLOCK_STMT_ACQUIRE) - runs, 1 + MEMBERS / 2 + MEMBERS - 1);
}

/* ---- failures -------------------------------------------------------------------------------- */

TEST_AFTER(begin_crowd, test_poisoned_member_fails_alone)
{
    memcpy(gate.poison, crowd.callers[3].name, sizeof gate.poison);
    gather();
    let_through();
    check_others_granted(3);
    assert_code(SQLOCK_EDB, crowd.callers[3].code, &crowd.callers[3].err);
}

/* P5: each settles for itself, with its own owner. */
TEST_AFTER(begin_crowd, test_lost_reply_of_a_batch_is_settled_by_each_member)
{
    fault(w, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_NONE, 1, 0); /* of the first */
    fault(w, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_LOSE_REPLY, 1, 0);
    gather();
    let_through();
    check_others_granted(-1);
    for (int i = 0; i < MEMBERS; i++)
        assert_token_is_the_rows(&crowd.callers[i]);
}

TEST_AFTER(begin_crowd, test_lost_batch_of_releases_is_settled_by_each_member)
{
    gather();
    let_through();
    check_others_granted(-1);
    fault(w, SQLOCK_STMT_RELEASE, SQLOCK_FAULT_NONE, 1, 0);
    fault(w, SQLOCK_STMT_RELEASE, SQLOCK_FAULT_LOSE_REPLY, 1, 0);
    gather();
    let_through();
    for (int i = 0; i < MEMBERS; i++) {
        assert_code(SQLOCK_OK, crowd.callers[i].code, &crowd.callers[i].err);
        assert_true(is_free(crowd.m, crowd.callers[i].name));
    }
}

TEST_AFTER(begin_crowd, test_failure_that_may_pass_is_tried_again_by_each_member)
{
    atomic_store(&gate.fail_flags, SQLOCK_RETRY);
    atomic_store(&gate.fail_batches, SQLOCK_EDB);
    gather();
    let_through();
    check_others_granted(-1);
}

/* ---- who leaves ------------------------------------------------------------------------------ */

TEST_AFTER(begin_crowd, test_P8_follower_whose_time_ends_leaves_its_batch_in_doubt)
{
    struct caller *c = &crowd.callers[4];
    long opens = spy_opens();

    c->opts.wait_ms = 400;
    atomic_store(&gate.hang_ms, 1500);
    gather();
    let_through();
    check_others_granted(4);
    assert_code(SQLOCK_EUNSURE, c->code, &c->err);
    assert_true(c->ended < crowd.callers[5].ended);
    assert_int_equal(spy_opens(), opens);
}

static sqlock_cancel *cancel_for(struct caller *c)
{
    sqlock_cancel *cancel = NULL;

    ok(sqlock_cancel_new(&cancel, &said));
    c->opts.cancel = cancel;
    return cancel;
}

/* The batch hangs in the database, after so many runs of acquires. */
static void await_batch(long runs)
{
    atomic_store(&gate.shut, 0);
    assert_soon(spy_runs(SQLOCK_STMT_ACQUIRE) == runs, patience_ms(3000));
}

/* It learns at once that no one knows, and may free its handle while the batch is under way. */
static void cancel_caller(struct caller *c)
{
    int64_t fired = now_us();

    sqlock_cancel_fire(c->opts.cancel);
    end_caller(c);
    sqlock_cancel_free(c->opts.cancel);
    assert_between(0, c->ended - fired, late_ms(50) * INT64_C(1000));
    assert_code(SQLOCK_EUNSURE, c->code, &c->err);
    drop(c->lock);
    c->lock = NULL;
}

/* P8: the others get their answers over the same connection. */
TEST_AFTER(begin_crowd, test_P8_cancelled_follower_leaves_its_batch_in_doubt)
{
    struct caller *c = &crowd.callers[4];
    long opens = spy_opens(), runs = spy_runs(SQLOCK_STMT_ACQUIRE);

    cancel_for(c);
    atomic_store(&gate.hang_ms, 1000);
    gather();
    await_batch(runs + 2);
    cancel_caller(c);
    let_through();
    check_others_granted(4);
    assert_int_equal(spy_opens(), opens);
    assert_int_equal(spy_runs(SQLOCK_STMT_ACQUIRE) - runs, 2);
}

/* P8, P25: another thread goes on to wait for the answer. */
TEST_AFTER(begin_crowd, test_P25_cancelled_leader_ends_soon_and_the_others_get_their_answers)
{
    struct caller *c = &crowd.callers[0];
    long opens = spy_opens(), runs = spy_runs(SQLOCK_STMT_ACQUIRE);

    cancel_for(c);
    atomic_store(&gate.hang_ms, 1000);
    gather();
    await_batch(runs + 2);
    cancel_caller(c);
    let_through();
    check_others_granted(0);
    for (int i = 1; i < MEMBERS; i++)
        assert_token_is_the_rows(&crowd.callers[i]);
    assert_int_equal(spy_runs(SQLOCK_STMT_ACQUIRE) - runs, 3); /* no one had to settle */
    assert_int_equal(spy_opens(), opens);
}

TEST_AFTER(begin_crowd, test_P25_who_leads_after_the_leader_may_leave_too)
{
    struct caller *last = &crowd.callers[MEMBERS - 1]; /* it can wait longest */
    long opens = spy_opens(), runs = spy_runs(SQLOCK_STMT_ACQUIRE);

    cancel_for(&crowd.callers[0]);
    cancel_for(last);
    atomic_store(&gate.hang_ms, 1500);
    gather();
    await_batch(runs + 2);
    cancel_caller(&crowd.callers[0]);
    await_batch(runs + 3);
    cancel_caller(last);
    await_batch(runs + 4);
    let_through();
    for (int i = 1; i < MEMBERS - 1; i++)
        assert_granted(&crowd.callers[i]);
    assert_int_equal(spy_runs(SQLOCK_STMT_ACQUIRE) - runs, 4);
    assert_int_equal(spy_opens(), opens);
}

TEST_AFTER(begin_crowd, test_P25_leader_whose_time_ends_leaves_the_others_their_time)
{
    struct caller *c = &crowd.callers[0];
    long opens = spy_opens(), runs = spy_runs(SQLOCK_STMT_ACQUIRE);

    for (int i = 0; i < MEMBERS; i++)
        crowd.callers[i].opts.wait_ms = i == 0 ? 2000 : 3500; /* so the first one leads */
    atomic_store(&gate.hang_ms, 2500);
    gather();
    await_batch(runs + 2);
    end_caller(c);
    assert_code(SQLOCK_EUNSURE, c->code, &c->err);
    assert_int_equal(atomic_load(&gate.held), 0);
    let_through();
    check_others_granted(0);
    assert_true(c->ended < crowd.callers[5].ended);
    assert_int_equal(spy_runs(SQLOCK_STMT_ACQUIRE) - runs, 3);
    assert_int_equal(spy_opens(), opens);
}

/* The last one ends the call. */
TEST_AFTER(begin_crowd, test_P8_batch_that_no_one_waits_for_is_cancelled)
{
    struct caller *c = crowd.callers;
    long opens = spy_opens(), runs = spy_runs(SQLOCK_STMT_ACQUIRE);
    int64_t begun;

    for (int i = 0; i < MEMBERS; i++)
        cancel_for(&c[i]);
    atomic_store(&gate.hang_ms, 15000);
    gather();
    await_batch(runs + 2);
    begun = now_us();
    for (int i = 1; i < MEMBERS; i++)
        cancel_caller(&c[i]);
    cancel_caller(&c[0]);
    let_through();
    give(take(crowd.m, "later"));
    assert_between(0, now_us() - begun, 10 * INT64_C(1000000));
    assert_int_equal(spy_opens(), opens + 1); /* that one was given up */
}

/* Whoever was cancelled has left, even if the answer came before its thread noticed. */
TEST_AFTER(begin_crowd, test_P25_cancelled_member_never_learns_of_success)
{
    struct caller *c = &crowd.callers[0];
    long opens = spy_opens();

    cancel_for(c);
    atomic_store(&gate.hold, 1);
    gather();
    atomic_store(&gate.shut, 0);
    assert_soon(atomic_load(&gate.held), patience_ms(3000));
    sqlock_cancel_fire(c->opts.cancel);
    atomic_store(&gate.hold, 0);
    let_through();
    check_others_granted(0);
    assert_code(SQLOCK_EUNSURE, c->code, &c->err);
    ok(sqlock_settle(c->lock, patience_ms(5000), &said)); /* it was granted */
    assert_int_equal(spy_opens(), opens);
    sqlock_cancel_free(c->opts.cancel);
}

/* Where the driver cannot pause, a leader's end would cut off the others: the one with the most
 * time leads. */
TEST_AFTER(begin_crowd, test_P8_who_has_little_time_does_not_lead_a_batch)
{
    struct caller *c = &crowd.callers[0];
    long opens = spy_opens(), runs = spy_runs(SQLOCK_STMT_ACQUIRE);

    w->driver.caps &= ~SQLOCK_CAP_PAUSES;
    c->opts.wait_ms = 500;
    atomic_store(&gate.hang_ms, 1500);
    gather();
    let_through();
    check_others_granted(0);
    if (c->code != SQLOCK_ETIMEOUT) /* it gave the connection away, and may miss the batch */
        assert_code(SQLOCK_EUNSURE, c->code, &c->err);
    assert_true(c->ended < crowd.callers[5].ended);
    assert_int_equal(spy_opens(), opens); /* nothing was cut, and no one had to settle */
    assert_int_equal(spy_runs(SQLOCK_STMT_ACQUIRE) - runs, 2);
}

TEST_AFTER(begin_crowd, test_callers_who_have_a_connection_each_send_alone)
{
    for (int i = 0; i < 20; i++)
        give(take(crowd.m, "nightly"));
    assert_int_equal(spy_requests(SQLOCK_STMT_ACQUIRE), spy_runs(SQLOCK_STMT_ACQUIRE));
    assert_int_equal(spy_requests(SQLOCK_STMT_RELEASE), spy_runs(SQLOCK_STMT_RELEASE));
}

TEST_MAIN_ON(fake)
