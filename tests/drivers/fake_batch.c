#ifdef TEST_HAVE_FAKE
#include "tests/drivers/fake_batch.h"

#include "core/engine/manager.h"

struct gate gate;
struct crowd crowd;

/* ---- the driver ------------------------------------------------------------------------------ */

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

/* ---- the callers ----------------------------------------------------------------------------- */

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

size_t n_waiting(sqlock *m)
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

void end_caller(struct caller *c)
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

void begin_crowd(struct world *w)
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

void start_caller(struct caller *c)
{
    c->m = crowd.m;
    c->joined = false;
    assert_int_equal(pthread_create(&c->thread, NULL, caller_main, c), 0);
}

void gather(void)
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

void let_through(void)
{
    int64_t begun = now_us();

    atomic_store(&gate.shut, 0);
    end_caller(&crowd.first);
    for (int i = 0; i < MEMBERS; i++)
        end_caller(&crowd.callers[i]);
    /* no one slept until its time was over */
    assert_between(0, now_us() - begun, TIME_MS / 4 * INT64_C(1000));
}

void check_granted(const struct caller *c, const char *file, int line)
{
    check_code(SQLOCK_OK, c->code, &c->err, c->name, file, line);
    _assert_string_equal(sqlock_lock_name(c->lock), c->name, file, line);
    check_state(SQLOCK_HELD, c->lock, c->name, file, line);
}

void check_others_granted(int but)
{
    for (int i = 0; i < MEMBERS; i++)
        if (i != but)
            assert_granted(&crowd.callers[i]);
}

void assert_token_is_the_rows(const struct caller *c)
{
    assert_int_equal(token_in_the_row(crowd.m, c->name), sqlock_lock_token(c->lock));
}

#endif
