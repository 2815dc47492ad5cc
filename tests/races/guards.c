/* Races of a guard that locks a piece of its row, so that grants are kept out while renewals and
 * releases pass: they read the same on PostgreSQL and MySQL. */
#include "races.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* A holds the lock, and app, A's transaction on another connection, guards it. */
static request guarded_lease(const guarding *g, conn a, conn app, int level)
{
    request r = request_of('A', 5000 * MS);
    run(a, "DELETE FROM {lock}");
    r.token = acquire(a, r).token;
    run(app, g->begins[level]);
    EXPECT(ask(app, &g->guard, &r), SQLOCK_OUT_DONE);
    return r;
}

static answer grant(const guarding *g, conn c, request r)
{
    return ask(c, &g->acquire, &r);
}

static answer is_guarded(conn c, request r)
{
    script s = ours(SQLOCK_STMT_GUARDED);
    return ask(c, &s, &r);
}

static answer probe(conn c, request r)
{
    script s = ours(SQLOCK_STMT_PROBE);
    return ask(c, &s, &r);
}

void guard_keeps_the_thief_out(const guarding *right, const guarding *wrong)
{
    conn a = right->open(), app = right->open(), thief = right->open();
    request t = request_of('T', 5000 * MS), r;
    answer got;
    for (int level = 0; level < GUARD_LEVELS; level++) {
        r = guarded_lease(right, a, app, level);
        /* On PostgreSQL each moves the row to a new version: the guard goes with it. */
        for (int i = 0; i < 50; i++)
            EXPECT(renew(a, r), SQLOCK_OUT_DONE);
        EXPECT(grant(right, thief, t), SQLOCK_OUT_HELD);
        let_it_run_out(a);
        EXPECT(grant(right, thief, t), SQLOCK_OUT_SKIPPED);
        if (right->told)
            EXPECT(is_guarded(thief, t), SQLOCK_OUT_GUARDED);
        run(app, "COMMIT");
        got = grant(right, thief, t);
        EXPECT(got, SQLOCK_OUT_DONE);
        assert_int_equal(got.token, r.token + 1);
    }
    /* Wrong: granted, and the application is not told either. */
    guarded_lease(wrong, a, app, 0);
    let_it_run_out(a);
    EXPECT(grant(wrong, thief, t), SQLOCK_OUT_DONE);
    if (app.pg)
        assert_int_equal(PQtransactionStatus(app.pg), PQTRANS_INTRANS);
    run(app, "COMMIT");
}

void guard_outlives_an_early_end(const guarding *right, const guarding *wrong)
{
    conn a = right->open(), app = right->open(), thief = right->open();
    request t = request_of('T', 5000 * MS), r;
    script end[3];
    end[0] = ours(SQLOCK_STMT_RELEASE);
    end[1] = ours(SQLOCK_STMT_BREAK);
    end[2] = ours(SQLOCK_STMT_BREAK_NOTED);
    for (int i = 0; i < 3; i++) {
        r = guarded_lease(right, a, app, i > 0);
        EXPECT(ask(a, &end[i], &r), SQLOCK_OUT_DONE); /* at once, though it frees nothing yet */
        EXPECT(grant(right, thief, t), SQLOCK_OUT_SKIPPED);
        if (right->told)
            EXPECT(is_guarded(thief, t), SQLOCK_OUT_GUARDED);
        run(app, "COMMIT");
        EXPECT(grant(right, thief, t), SQLOCK_OUT_DONE);

        r = guarded_lease(wrong, a, app, i > 0);
        EXPECT(ask(a, &end[i], &r), SQLOCK_OUT_DONE);
        EXPECT(grant(wrong, thief, t), SQLOCK_OUT_DONE); /* wrong */
        run(app, "COMMIT");
    }
}

void probe_tells_a_guard(const guarding *g)
{
    conn a = g->open(), app = g->open(), other = g->open();
    request r = guarded_lease(g, a, app, 0);
    EXPECT(release(a, r), SQLOCK_OUT_DONE);
    if (g->told)
        EXPECT(probe(a, r), SQLOCK_OUT_GUARDED);
    run(app, "COMMIT");
    EXPECT(probe(a, r), SQLOCK_OUT_DONE);
    run(other, "BEGIN");
    EXPECT(acquire(other, request_of('B', 5000 * MS)), SQLOCK_OUT_DONE);
    if (g->told)
        EXPECT(probe(a, r), SQLOCK_OUT_DONE);
    run(other, "COMMIT");
}

/* Others were granted the lock between the release and its probe, and guard it in their turn. */
void probe_is_for_the_exact_grant(const guarding *g, const script *wrong)
{
    conn a = g->open(), app = g->open(), other = g->open(), theirs = g->open();
    request r = guarded_lease(g, a, app, 0), t = request_of('T', 5000 * MS);
    EXPECT(release(a, r), SQLOCK_OUT_DONE);
    run(app, "COMMIT");
    t.token = acquire(other, t).token;
    run(theirs, g->begins[0]);
    EXPECT(ask(theirs, &g->guard, &t), SQLOCK_OUT_DONE);
    EXPECT(probe(a, r), SQLOCK_OUT_DONE);
    if (g->told)
        EXPECT(ask(a, wrong, &r), SQLOCK_OUT_GUARDED); /* wrong */
    run(theirs, "COMMIT");
}

void writer_is_not_taken_for_a_guard(const guarding *g, const script *wrong)
{
    conn a = g->open(), other = g->open();
    request r = request_of('A', 5000 * MS);
    r.token = acquire(a, r).token;
    let_it_run_out(a);
    run(other, "BEGIN");
    EXPECT(acquire(other, request_of('B', 5000 * MS)), SQLOCK_OUT_DONE);
    EXPECT(acquire(a, r), SQLOCK_OUT_SKIPPED);
    assert_int_equal(is_guarded(a, r).rows, 0);
    EXPECT(ask(a, wrong, &r), SQLOCK_OUT_GUARDED); /* wrong: a lock is not yet a guard */
    run(other, "COMMIT");
    EXPECT(acquire(a, r), SQLOCK_OUT_HELD);
}

/* The row was locked when T asked, and is not any more when T looks by whom. */
static answer look_behind_a_writer(const guarding *g, const script *look, request writer,
                                   const char *end)
{
    conn a = g->open(), other = g->open(), thief = g->open();
    request t = request_of('T', 5000 * MS);
    run(a, "DELETE FROM {lock}");
    EXPECT(acquire(a, request_of('A', 5000 * MS)), SQLOCK_OUT_DONE);
    let_it_run_out(a);
    run(other, "BEGIN");
    EXPECT(grant(g, other, writer), SQLOCK_OUT_DONE);
    EXPECT(grant(g, thief, t), SQLOCK_OUT_SKIPPED);
    run(other, end);
    return ask(thief, look, &t);
}

void writer_that_has_ended_is_not_taken_for_a_guard(const guarding *g, const script *wrong)
{
    request b = request_of('B', 5000 * MS), t = request_of('T', 5000 * MS);
    script right = ours(SQLOCK_STMT_GUARDED);
    answer got = look_behind_a_writer(g, &right, b, "COMMIT");
    EXPECT(got, SQLOCK_OUT_HELD); /* P9: it tells by whom */
    assert_int_equal(got.token, 2);
    assert_true(got.left > 0);
    EXPECT(look_behind_a_writer(g, &right, b, "ROLLBACK"), SQLOCK_OUT_SKIPPED);
    /* P5: T's own request, whose answer was lost, was still committing. */
    EXPECT(look_behind_a_writer(g, &right, t, "COMMIT"), SQLOCK_OUT_SKIPPED);

    EXPECT(look_behind_a_writer(g, wrong, b, "COMMIT"), SQLOCK_OUT_GUARDED);
    EXPECT(look_behind_a_writer(g, wrong, b, "ROLLBACK"), SQLOCK_OUT_GUARDED);
    EXPECT(look_behind_a_writer(g, wrong, t, "COMMIT"), SQLOCK_OUT_GUARDED);
}

void looker_is_not_taken_for_a_guard(const guarding *g, const char *looking,
                                     const script *wrong_look, const script *wrong_probe)
{
    conn a = g->open(), other = g->open();
    request r = request_of('A', 5000 * MS);
    r.token = acquire(a, r).token;
    EXPECT(release(a, r), SQLOCK_OUT_DONE);
    run(other, looking);
    assert_int_equal(is_guarded(a, r).rows, 0);
    EXPECT(probe(a, r), SQLOCK_OUT_DONE);
    EXPECT(ask(a, wrong_look, &r), SQLOCK_OUT_GUARDED);
    EXPECT(ask(a, wrong_probe, &r), SQLOCK_OUT_GUARDED);
    run(other, "COMMIT");
}

void strong_guard_blocks_renewals(const guarding *g, const script *strong)
{
    conn a = g->open(), app = g->open();
    request r = guarded_lease(g, a, app, 0);
    EXPECT(renew(a, r), SQLOCK_OUT_DONE);
    EXPECT(ask(app, strong, &r), SQLOCK_OUT_DONE);
    EXPECT(renew(a, r), SQLOCK_OUT_SKIPPED);
    run(app, "COMMIT");
    EXPECT(renew(a, r), SQLOCK_OUT_DONE);
}

/* ---- four applications -------------------------------------------------------------------------
 */

struct arena {
    const guarding *how;
    script release;
    int64_t end;
    atomic_int inside, overlaps, inversions, commits, deadlocks;
    atomic_llong last;
};

struct worker {
    struct arena *of;
    conn lock, app;
    unsigned seed;
};

static int dice(struct worker *w, int sides)
{
    return rand_r(&w->seed) % sides;
}

/* From here to the end of the transaction this worker must be alone. */
static void guarded_work(struct worker *w, request *r)
{
    struct arena *s = w->of;
    if (atomic_fetch_add(&s->inside, 1) > 0)
        atomic_fetch_add(&s->overlaps, 1);
    if (atomic_exchange(&s->last, (long long)r->token) > r->token)
        atomic_fetch_add(&s->inversions, 1);
    pause_ms(dice(w, 3));
    if (dice(w, 10) < 4)
        ask(w->lock, &s->release, r); /* the classical mistake: before the commit */
    pause_ms(dice(w, 12));
    atomic_fetch_sub(&s->inside, 1);
    if (try_run(w->app, "COMMIT") == 0)
        atomic_fetch_add(&s->commits, 1);
}

static answer counted(struct worker *w, conn c, const script *s, const request *r)
{
    answer a = ask(c, s, r);
    if (strcmp(a.error, c.my ? "1213" : "40P01") == 0)
        atomic_fetch_add(&w->of->deadlocks, 1);
    return a;
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    const guarding *how = w->of->how;
    while (clock_us() < w->of->end) {
        request r = request_of('x', (2 + dice(w, 13)) * MS);
        int id = rand_r(&w->seed);
        answer a;
        memcpy(r.owner, &id, sizeof id);
        memcpy(r.owner + 8, &w, sizeof w);
        a = counted(w, w->lock, &how->acquire, &r);
        if (!a.rows || a.outcome != SQLOCK_OUT_DONE) {
            pause_ms(dice(w, 3));
            continue;
        }
        r.token = a.token;
        try_run(w->app, how->begins[dice(w, GUARD_LEVELS)]);
        if (counted(w, w->app, &how->guard, &r).outcome == SQLOCK_OUT_DONE)
            guarded_work(w, &r);
        else
            try_run(w->app, "ROLLBACK");
        if (dice(w, 2))
            counted(w, w->lock, &w->of->release, &r);
    }
    return NULL;
}

static void run_arena(struct arena *s, const guarding *how, int ms)
{
    pthread_t threads[STRESS_CLIENTS];
    struct worker w[STRESS_CLIENTS];
    memset(s, 0, sizeof *s);
    s->how = how;
    s->release = ours(SQLOCK_STMT_RELEASE);
    for (int i = 0; i < STRESS_CLIENTS; i++)
        w[i] = (struct worker){s, how->open(), how->open(), 11u + (unsigned)i};
    EXPECT(acquire(w[0].lock, request_of('-', 1)), SQLOCK_OUT_DONE);
    s->end = clock_us() + ms * MS;
    for (int i = 0; i < STRESS_CLIENTS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, worker_main, &w[i]), 0);
    for (int i = 0; i < STRESS_CLIENTS; i++)
        pthread_join(threads[i], NULL);
}

void guarded_transactions_are_alone(const guarding *right)
{
    static struct arena s;
    run_arena(&s, right, 2000);
    assert_int_equal(atomic_load(&s.overlaps), 0);
    assert_int_equal(atomic_load(&s.inversions), 0);
    assert_int_equal(atomic_load(&s.deadlocks), 0);
    assert_true(atomic_load(&s.commits) > 30);
}

void guarded_transactions_overlap(const guarding *wrong)
{
    static struct arena s;
    for (int i = 0; i == 0 || !atomic_load(&s.overlaps); i++) {
        assert_true(i < 3); /* a busy machine may need a second round */
        run(wrong->open(), "DELETE FROM {lock}");
        run_arena(&s, wrong, 1000);
    }
}
