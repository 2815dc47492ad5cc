/* The guard: guard.races, and here applications that work under it, four at a time. */
#include "races.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define LEVELS 3
#define WANTED 30 /* transactions under a guard */

struct arena {
    script acquire, guard, release;
    const char *begins[LEVELS]; /* how transactions begin, from the weakest level upwards */
    int64_t end;
    int wanted;
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

/* Until its time is over, and so many have committed. */
static int goes_on(struct arena *s)
{
    int64_t now = clock_us();
    return now < s->end ||
           (atomic_load(&s->commits) < s->wanted && now < s->end + patience_ms(20000) * MS);
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    while (goes_on(w->of)) {
        request r = request_of('x', (2 + dice(w, 13)) * MS);
        int id = rand_r(&w->seed);
        answer a;
        memcpy(r.owner, &id, sizeof id);
        memcpy(r.owner + 8, &w, sizeof w);
        a = counted(w, w->lock, &w->of->acquire, &r);
        if (!a.rows || a.outcome != SQLOCK_OUT_DONE) {
            pause_ms(dice(w, 3));
            continue;
        }
        r.token = a.token;
        try_run(w->app, w->of->begins[dice(w, LEVELS)]);
        if (counted(w, w->app, &w->of->guard, &r).outcome == SQLOCK_OUT_DONE)
            guarded_work(w, &r);
        else
            try_run(w->app, "ROLLBACK");
        if (dice(w, 2))
            counted(w, w->lock, &w->of->release, &r);
    }
    return NULL;
}

static void run_arena(struct arena *s, script grant, script guard, int ms, int wanted)
{
    pthread_t threads[STRESS_CLIENTS];
    struct worker w[STRESS_CLIENTS];
    memset(s, 0, sizeof *s);
    s->acquire = grant;
    s->guard = guard;
    s->wanted = wanted;
    s->release = ours(SQLOCK_STMT_RELEASE);
    s->begins[0] = defined("committed");
    s->begins[1] = defined("repeatable");
    s->begins[2] = defined("serializable");
    for (int i = 0; i < STRESS_CLIENTS; i++)
        w[i] = (struct worker){s, open_conn(), open_conn(), 11u + (unsigned)i};
    EXPECT(acquire(w[0].lock, request_of('-', 1)), SQLOCK_OUT_DONE);
    s->end = clock_us() + ms * MS;
    for (int i = 0; i < STRESS_CLIENTS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, worker_main, &w[i]), 0);
    for (int i = 0; i < STRESS_CLIENTS; i++)
        pthread_join(threads[i], NULL);
}

static void are_alone(void)
{
    static struct arena s;
    run_arena(&s, ours(SQLOCK_STMT_ACQUIRE), ours(SQLOCK_STMT_GUARD), 2000, WANTED);
    assert_int_equal(atomic_load(&s.overlaps), 0);
    assert_int_equal(atomic_load(&s.inversions), 0);
    assert_int_equal(atomic_load(&s.deadlocks), 0);
    assert_true(atomic_load(&s.commits) >= WANTED);
}

static void overlap(script grant, script guard)
{
    static struct arena s;
    for (int i = 0; i == 0 || !atomic_load(&s.overlaps); i++) {
        assert_true(i < 3); /* a busy machine may need a second round */
        run(open_conn(), "DELETE FROM {lock}");
        run_arena(&s, grant, guard, 1000, 0);
    }
}

TEST(guarded_transactions_never_overlap, ON_POSTGRES | ON_MYSQL)
{
    if (!skips_locked())
        skip(); /* it is refused there; on MySQL 5.6 an overlap was seen */
    are_alone();
}

TEST(guarded_transactions_overlap_with_the_plain_grant, ON_POSTGRES)
{
    overlap(written(SQLOCK_STMT_ACQUIRE, defined("plain_acquire")), ours(SQLOCK_STMT_GUARD));
}

TEST(guarded_transactions_overlap_with_a_guard_that_reads, ON_MYSQL)
{
    if (!skips_locked())
        skip();
    overlap(ours(SQLOCK_STMT_ACQUIRE), written(SQLOCK_STMT_GUARD, defined("guard_that_reads")));
}

TEST_MAIN_OF_RACES("guard")
