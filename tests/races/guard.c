/* The guard: one statement in the application's own transaction that proves a lease and keeps
 * everyone else from being granted the name until that transaction ends. It works only because
 * every grant asks for the lock that the guard holds, and no renewal or release does; so
 * both are proven here. */
#include "races.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Wrong: decides rightly between acquirers, but an UPDATE of columns outside the key passes by a
 * guard's FOR KEY SHARE. */
#define PLAIN_ACQUIRE                                                                              \
    "UPDATE {lock} l SET"                                                                          \
    " token = CASE WHEN l.owner = $3 AND l.exp > " PG_NOW " THEN l.token ELSE l.token + 1 END,"    \
    " owner = $3, exp = " PG_NOW " + $4"                                                           \
    " WHERE l.ns = $1 AND l.name = $2"                                                             \
    " AND (l.owner IS NULL OR l.owner = $3 OR l.exp <= " PG_NOW ") RETURNING 0, 1, l.token"

#define PG_RUN_OUT   "UPDATE {lock} SET exp = " PG_NOW " - 1"
#define LITE_RUN_OUT "UPDATE {lock} SET exp = " LITE_NOW " - 1"

/* A holds the lock, and app, A's transaction on another connection, guards it. */
static request guarded_lease(conn a, conn app)
{
    request r = request_of('A', 5000 * MS);
    script guard = ours(SQLOCK_STMT_GUARD);
    run(a, "DELETE FROM {lock}");
    r.token = acquire(a, r).token;
    run(app, "BEGIN");
    EXPECT(ask(app, &guard, &r), SQLOCK_OUT_DONE);
    return r;
}

static answer is_guarded(conn c, request r)
{
    script s = ours(SQLOCK_STMT_GUARDED);
    return ask(c, &s, &r);
}

static void test_guard_lets_renewals_pass_and_keeps_the_thief_out(void **state)
{
    conn a = pg_open(), app = pg_open(), thief = pg_open();
    request t = request_of('T', 5000 * MS), r = guarded_lease(a, app);
    script plain = written(SQLOCK_STMT_ACQUIRE, PLAIN_ACQUIRE);
    answer got;
    (void)state;
    for (int i = 0; i < 50; i++) /* each moves the row to a new version: the guard goes with it */
        EXPECT(renew(a, r), SQLOCK_OUT_DONE);
    EXPECT(acquire(thief, t), SQLOCK_OUT_HELD);
    run(a, PG_RUN_OUT);
    EXPECT(acquire(thief, t), SQLOCK_OUT_SKIPPED);
    EXPECT(is_guarded(thief, t), SQLOCK_OUT_GUARDED);
    run(app, "COMMIT");
    got = acquire(thief, t);
    EXPECT(got, SQLOCK_OUT_DONE);
    assert_int_equal(got.token, r.token + 1);

    /* Wrong. */
    guarded_lease(a, app);
    run(a, PG_RUN_OUT);
    EXPECT(ask(thief, &plain, &t), SQLOCK_OUT_DONE);
    assert_int_equal(PQtransactionStatus(app.pg), PQTRANS_INTRANS);
    run(app, "COMMIT");
}

static void test_guard_of_a_lease_that_ran_out_is_told_so(void **state)
{
    conn a = pg_open(), app = pg_open();
    request r = request_of('A', 5000 * MS);
    script guard = ours(SQLOCK_STMT_GUARD);
    (void)state;
    r.token = acquire(a, r).token;
    run(a, PG_RUN_OUT);
    run(app, "BEGIN");
    EXPECT(ask(app, &guard, &r), SQLOCK_OUT_EXPIRED);
    run(app, "ROLLBACK");
}

static void test_guard_outlives_an_early_release_and_a_break(void **state)
{
    conn a = pg_open(), app = pg_open(), thief = pg_open();
    request t = request_of('T', 5000 * MS), r;
    script plain = written(SQLOCK_STMT_ACQUIRE, PLAIN_ACQUIRE), end[2];
    (void)state;
    end[0] = ours(SQLOCK_STMT_RELEASE);
    end[1] = ours(SQLOCK_STMT_BREAK);
    for (size_t i = 0; i < COUNT(end); i++) {
        r = guarded_lease(a, app);
        EXPECT(ask(a, &end[i], &r), SQLOCK_OUT_DONE); /* at once, though it frees nothing yet */
        EXPECT(acquire(thief, t), SQLOCK_OUT_SKIPPED);
        EXPECT(is_guarded(thief, t), SQLOCK_OUT_GUARDED);
        run(app, "COMMIT");
        EXPECT(acquire(thief, t), SQLOCK_OUT_DONE);

        r = guarded_lease(a, app);
        EXPECT(ask(a, &end[i], &r), SQLOCK_OUT_DONE);
        EXPECT(ask(thief, &plain, &t), SQLOCK_OUT_DONE); /* wrong */
        run(app, "COMMIT");
    }
}

static answer probe(conn c, request r)
{
    script s = ours(SQLOCK_STMT_PROBE);
    return ask(c, &s, &r);
}

static void test_probe_tells_a_guard_from_a_writer_and_from_nobody(void **state)
{
    conn a = pg_open(), app = pg_open(), other = pg_open();
    request r = guarded_lease(a, app);
    (void)state;
    EXPECT(release(a, r), SQLOCK_OUT_DONE);
    EXPECT(probe(a, r), SQLOCK_OUT_GUARDED);
    run(app, "COMMIT");
    EXPECT(probe(a, r), SQLOCK_OUT_DONE);
    run(other, "BEGIN");
    EXPECT(acquire(other, request_of('B', 5000 * MS)), SQLOCK_OUT_DONE);
    EXPECT(probe(a, r), SQLOCK_OUT_DONE);
    run(other, "COMMIT");
}

/* Others were granted the lock between the release and its probe, and guard it in their turn. */
static void test_guard_of_the_next_grant_is_not_taken_for_the_last_ones(void **state)
{
    conn a = pg_open(), app = pg_open(), other = pg_open(), theirs = pg_open();
    script wrong = changed(ours(SQLOCK_STMT_PROBE), "l.token = $3", "l.token >= $3");
    script guard = ours(SQLOCK_STMT_GUARD);
    request r = guarded_lease(a, app), t = request_of('T', 5000 * MS);
    (void)state;
    EXPECT(release(a, r), SQLOCK_OUT_DONE);
    run(app, "COMMIT");
    t.token = acquire(other, t).token;
    run(theirs, "BEGIN");
    EXPECT(ask(theirs, &guard, &t), SQLOCK_OUT_DONE);
    EXPECT(probe(a, r), SQLOCK_OUT_DONE);
    EXPECT(ask(a, &wrong, &r), SQLOCK_OUT_GUARDED); /* wrong */
    run(theirs, "COMMIT");
}

static void test_row_being_written_is_not_taken_for_a_guard(void **state)
{
    conn a = pg_open(), other = pg_open();
    request r = request_of('A', 5000 * MS);
    script wrong = changed(ours(SQLOCK_STMT_GUARDED), "FOR NO KEY UPDATE SKIP LOCKED", "");
    (void)state;
    r.token = acquire(a, r).token;
    run(a, PG_RUN_OUT);
    run(other, "BEGIN");
    EXPECT(acquire(other, request_of('B', 5000 * MS)), SQLOCK_OUT_DONE);
    EXPECT(acquire(a, r), SQLOCK_OUT_SKIPPED);
    assert_int_equal(is_guarded(a, r).rows, 0);
    EXPECT(ask(a, &wrong, &r), SQLOCK_OUT_GUARDED); /* wrong: a lock is not yet a guard */
    run(other, "COMMIT");
    EXPECT(acquire(a, r), SQLOCK_OUT_HELD);
}

/* Wrong: a stronger lock keeps the holder's own renewals out as well, and the lease is lost. */
static void test_stronger_guard_would_block_renewals(void **state)
{
    conn a = pg_open(), app = pg_open();
    request r = guarded_lease(a, app);
    script strong = changed(ours(SQLOCK_STMT_GUARD), "FOR KEY SHARE", "FOR SHARE");
    (void)state;
    EXPECT(renew(a, r), SQLOCK_OUT_DONE);
    EXPECT(ask(app, &strong, &r), SQLOCK_OUT_DONE);
    EXPECT(renew(a, r), SQLOCK_OUT_SKIPPED);
    run(app, "COMMIT");
    EXPECT(renew(a, r), SQLOCK_OUT_DONE);
}

/* The application's snapshot shows A's lease; since then `thief` was granted the lock after A's
 * release. What does A's guard say? */
static answer stale_guard(const char *begin, const script *thief)
{
    conn a = pg_open(), app = pg_open(), t = pg_open();
    request r = request_of('A', 5000 * MS), rt = request_of('T', 5000 * MS);
    script guard = ours(SQLOCK_STMT_GUARD);
    answer got;
    run(a, "DELETE FROM {lock}");
    r.token = acquire(a, r).token;
    run(app, begin);
    assert_int_equal(number(app, "SELECT count(*) FROM {lock}"), 1);
    EXPECT(renew(a, r), SQLOCK_OUT_DONE);
    if (thief) {
        EXPECT(release(a, r), SQLOCK_OUT_DONE);
        EXPECT(ask(t, thief, &rt), SQLOCK_OUT_DONE);
    }
    got = ask(app, &guard, &r);
    run(app, "ROLLBACK");
    return got;
}

static void test_guard_with_an_old_snapshot_is_told_to_restart(void **state)
{
    script right = ours(SQLOCK_STMT_ACQUIRE), plain;
    const char *begins[] = {"BEGIN ISOLATION LEVEL REPEATABLE READ",
                            "BEGIN ISOLATION LEVEL SERIALIZABLE"};
    (void)state;
    plain = written(SQLOCK_STMT_ACQUIRE, PLAIN_ACQUIRE);
    for (size_t i = 0; i < COUNT(begins); i++) {
        assert_string_equal(stale_guard(begins[i], &right).error, "40001");
        EXPECT(stale_guard(begins[i], NULL), SQLOCK_OUT_DONE); /* only renewed since */
        /* Wrong: nothing tells the stale guard that the key's lock was taken: it passes. */
        EXPECT(stale_guard(begins[i], &plain), SQLOCK_OUT_DONE);
    }
    EXPECT(stale_guard("BEGIN", &right), SQLOCK_OUT_RELEASED);
}

/* A guard ends with the savepoint it was taken after: guard again. */
static void test_guard_is_undone_by_rollback_to_a_savepoint_before_it(void **state)
{
    conn a = pg_open(), app = pg_open(), thief = pg_open();
    request r = request_of('A', 5000 * MS), t = request_of('T', 5000 * MS);
    script guard = ours(SQLOCK_STMT_GUARD);
    (void)state;
    r.token = acquire(a, r).token;
    run(app, "BEGIN; SAVEPOINT s");
    EXPECT(ask(app, &guard, &r), SQLOCK_OUT_DONE);
    run(app, "RELEASE s; SAVEPOINT s; ROLLBACK TO s");
    run(a, PG_RUN_OUT);
    EXPECT(acquire(thief, t), SQLOCK_OUT_SKIPPED); /* taken before s: still there */
    run(app, "COMMIT");

    run(a, "DELETE FROM {lock}");
    r.token = acquire(a, r).token;
    run(app, "BEGIN; SAVEPOINT s");
    EXPECT(ask(app, &guard, &r), SQLOCK_OUT_DONE);
    run(app, "ROLLBACK TO s");
    run(a, PG_RUN_OUT);
    EXPECT(acquire(thief, t), SQLOCK_OUT_DONE);     /* wrong use: the guard is gone */
    EXPECT(ask(app, &guard, &r), SQLOCK_OUT_TAKEN); /* and a second look tells */
    run(app, "ROLLBACK");
}

/* ---- four applications -------------------------------------------------------------------------
 */

struct arena {
    script acquire, release, guard;
    int64_t end;
    atomic_int inside, overlaps, inversions, commits;
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
static void guarded_work(struct worker *w, request *r, int64_t token)
{
    struct arena *s = w->of;
    if (atomic_fetch_add(&s->inside, 1) > 0)
        atomic_fetch_add(&s->overlaps, 1);
    if (atomic_exchange(&s->last, (long long)token) > token)
        atomic_fetch_add(&s->inversions, 1);
    pause_ms(dice(w, 3));
    if (dice(w, 10) < 4)
        ask(w->lock, &s->release, r); /* the classical mistake: before the commit */
    pause_ms(dice(w, 12));
    atomic_fetch_sub(&s->inside, 1);
    if (try_run(w->app, "COMMIT") == 0)
        atomic_fetch_add(&s->commits, 1);
}

static void *worker_main(void *arg)
{
    static const char *const begins[] = {"BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ",
                                         "BEGIN ISOLATION LEVEL SERIALIZABLE"};
    struct worker *w = arg;
    while (clock_us() < w->of->end) {
        request r = request_of('x', (2 + dice(w, 13)) * MS);
        int id = rand_r(&w->seed);
        answer a;
        memcpy(r.owner, &id, sizeof id);
        memcpy(r.owner + 8, &w, sizeof w);
        a = ask(w->lock, &w->of->acquire, &r);
        if (!a.rows || a.outcome != SQLOCK_OUT_DONE) {
            pause_ms(dice(w, 3));
            continue;
        }
        r.token = a.token;
        try_run(w->app, begins[dice(w, 3)]);
        if (ask(w->app, &w->of->guard, &r).outcome == SQLOCK_OUT_DONE)
            guarded_work(w, &r, r.token);
        else
            try_run(w->app, "ROLLBACK");
        if (dice(w, 2))
            ask(w->lock, &w->of->release, &r);
    }
    return NULL;
}

static void run_arena(struct arena *s, script how, int ms)
{
    pthread_t threads[STRESS_CLIENTS];
    struct worker w[STRESS_CLIENTS];
    memset(s, 0, sizeof *s);
    s->acquire = how;
    s->release = ours(SQLOCK_STMT_RELEASE);
    s->guard = ours(SQLOCK_STMT_GUARD);
    for (int i = 0; i < STRESS_CLIENTS; i++)
        w[i] = (struct worker){s, pg_open(), pg_open(), 11u + (unsigned)i};
    EXPECT(acquire(w[0].lock, request_of('-', 1)), SQLOCK_OUT_DONE);
    s->end = clock_us() + ms * MS;
    for (int i = 0; i < STRESS_CLIENTS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, worker_main, &w[i]), 0);
    for (int i = 0; i < STRESS_CLIENTS; i++)
        pthread_join(threads[i], NULL);
}

static void test_guarded_transactions_never_overlap(void **state)
{
    static struct arena s;
    (void)state;
    run_arena(&s, ours(SQLOCK_STMT_ACQUIRE), 2000);
    assert_int_equal(atomic_load(&s.overlaps), 0);
    assert_int_equal(atomic_load(&s.inversions), 0);
    assert_true(atomic_load(&s.commits) > 30);
}

static void test_guarded_transactions_overlap_with_the_plain_grant(void **state)
{
    static struct arena s;
    (void)state;
    for (int i = 0; i == 0 || !atomic_load(&s.overlaps); i++) {
        assert_true(i < 3); /* a busy machine may need a second round */
        run(pg_open(), "DELETE FROM {lock}");
        run_arena(&s, written(SQLOCK_STMT_ACQUIRE, PLAIN_ACQUIRE), 1000);
    }
}

/* ---- SQLite -----------------------------------------------------------------------------------
 */

/* The application's write transaction is the guard. It extends the lease, because the holder's own
 * renewals are kept out with everyone else. */

/* The lease runs out in the middle of the guarded transaction. What is the thief told after it? */
static answer thief_after_a_long_transaction(const script *guard)
{
    conn a = lite_open(), app = lite_open(), thief = lite_open();
    request r = request_of('A', 150 * MS), t = request_of('T', 150 * MS);
    run(a, "DELETE FROM {lock}");
    r.token = acquire(a, r).token;
    pause_ms(100);
    run(app, "BEGIN IMMEDIATE");
    EXPECT(ask(app, guard, &r), SQLOCK_OUT_DONE);
    EXPECT(acquire(thief, t), SQLOCK_OUT_HELD);
    pause_ms(80);
    assert_string_equal(acquire(thief, t).error, "BUSY");
    assert_string_equal(renew(a, r).error, "BUSY");
    assert_string_equal(release(a, r).error, "BUSY");
    run(app, "COMMIT");
    return acquire(thief, t);
}

static void test_write_guard_keeps_the_thief_out_and_extends(void **state)
{
    script right = ours(SQLOCK_STMT_GUARD), wrong;
    conn thief = lite_open();
    (void)state;
    EXPECT(thief_after_a_long_transaction(&right), SQLOCK_OUT_HELD);
    pause_ms(150);
    EXPECT(acquire(thief, request_of('T', 150 * MS)), SQLOCK_OUT_DONE);
    /* Wrong: a guard that only proves: no renewal got through, and the lease is lost. */
    wrong = changed(right, "max(exp, " LITE_NOW " + ?5 / 1000)", "exp");
    EXPECT(thief_after_a_long_transaction(&wrong), SQLOCK_OUT_DONE);
}

/* The lease ran out, then others have it. A guard of the first kind would revive the lease, whose
 * loss may have been told. */
static void test_guard_of_a_lost_lease_is_told_so(void **state)
{
    conn a = lite_open(), app = lite_open(), thief = lite_open();
    request r = request_of('A', 5000 * MS);
    script guard = ours(SQLOCK_STMT_GUARD), wrong;
    (void)state;
    r.token = acquire(a, r).token;
    run(a, LITE_RUN_OUT);
    run(app, "BEGIN IMMEDIATE");
    EXPECT(ask(app, &guard, &r), SQLOCK_OUT_EXPIRED);
    wrong = changed(guard, "AND token = ?4 AND exp > " LITE_NOW, "AND token = ?4");
    EXPECT(ask(app, &wrong, &r), SQLOCK_OUT_DONE);
    run(app, "ROLLBACK");
    EXPECT(acquire(thief, request_of('T', 5000 * MS)), SQLOCK_OUT_DONE);
    run(app, "BEGIN IMMEDIATE");
    EXPECT(ask(app, &guard, &r), SQLOCK_OUT_TAKEN);
    run(app, "ROLLBACK");
}

/* Wrong: a read is no guard. The transaction is open, and somebody else is granted the lock. */
static void test_reading_guard_lets_the_thief_in(void **state)
{
    conn a = lite_open(), app = lite_open(), thief = lite_open();
    request r = request_of('A', 5000 * MS);
    script guard = ours(SQLOCK_STMT_GUARD);
    (void)state;
    r.token = acquire(a, r).token;
    run(app, "BEGIN");
    assert_int_equal(number(app, "SELECT count(*) FROM {lock} WHERE token = 1 AND exp > " LITE_NOW),
                     1);
    run(a, LITE_RUN_OUT);
    EXPECT(acquire(thief, request_of('T', 5000 * MS)), SQLOCK_OUT_DONE);
    /* What it read still says that the lock is A's. */
    assert_int_equal(number(app, "SELECT count(*) FROM {lock} WHERE token = 1 AND exp > " LITE_NOW),
                     1);
    /* The guard, asked for so late, says that the transaction must be restarted. */
    assert_string_equal(ask(app, &guard, &r).error, "BUSY_SNAPSHOT");
    run(app, "ROLLBACK");
}

int main(void)
{
    const struct CMUnitTest postgres[] = {
        ON_POSTGRES(test_guard_lets_renewals_pass_and_keeps_the_thief_out),
        ON_POSTGRES(test_guard_of_a_lease_that_ran_out_is_told_so),
        ON_POSTGRES(test_guard_outlives_an_early_release_and_a_break),
        ON_POSTGRES(test_probe_tells_a_guard_from_a_writer_and_from_nobody),
        ON_POSTGRES(test_guard_of_the_next_grant_is_not_taken_for_the_last_ones),
        ON_POSTGRES(test_row_being_written_is_not_taken_for_a_guard),
        ON_POSTGRES(test_stronger_guard_would_block_renewals),
        ON_POSTGRES(test_guard_with_an_old_snapshot_is_told_to_restart),
        ON_POSTGRES(test_guard_is_undone_by_rollback_to_a_savepoint_before_it),
        ON_POSTGRES(test_guarded_transactions_never_overlap),
        ON_POSTGRES(test_guarded_transactions_overlap_with_the_plain_grant),
    };
    const struct CMUnitTest sqlite[] = {
        ON_WAL(test_write_guard_keeps_the_thief_out_and_extends),
        ON_ROLLBACK(test_write_guard_keeps_the_thief_out_and_extends),
        ON_WAL(test_guard_of_a_lost_lease_is_told_so),
        ON_ROLLBACK(test_guard_of_a_lost_lease_is_told_so),
        ON_WAL(test_reading_guard_lets_the_thief_in),
    };
    int missing = pg_missing();
    int failed = cmocka_run_group_tests_name("the guard on SQLite", sqlite, NULL, NULL);
    if (missing)
        return failed + missing - 1;
    return failed + cmocka_run_group_tests_name("the guard on PostgreSQL", postgres, NULL, NULL);
}
