/* Names (P1, P15): one row for each, whoever makes it, and each is its bytes. */
#include "races.h"

#include <pthread.h>

/* Both found no row. B's insert meets A's, which is not committed yet. */
static answer second_creator(const script *s, conn a, conn b, request ra, request rb)
{
    run(a, "DELETE FROM {lock}");
    pg_start(a, s, 0, &ra);
    assert_int_equal(pg_finish(a).rows, 0);
    pg_start(b, s, 0, &rb);
    assert_int_equal(pg_finish(b).rows, 0);
    run(a, "BEGIN");
    pg_start(a, s, 1, &ra);
    assert_string_equal(pg_finish(a).error, "");
    pg_start(b, s, 1, &rb);
    assert_int_equal(pg_waits(b), 1);
    run(a, "COMMIT");
    return pg_finish(b);
}

static void test_two_creators_make_one_row(void **state)
{
    conn a = pg_open(), b = pg_open();
    request ra = request_of('A', 5000 * MS), rb = request_of('B', 5000 * MS);
    script right = ours(SQLOCK_STMT_ACQUIRE);
    script wrong = changed(right, "ON CONFLICT (ns, name) DO NOTHING", "");
    (void)state;
    assert_string_equal(second_creator(&right, a, b, ra, rb).error, "");
    pg_start(b, &right, 2, &rb);
    EXPECT(pg_finish(b), SQLOCK_OUT_DONE);
    pg_start(a, &right, 2, &ra);
    EXPECT(pg_finish(a), SQLOCK_OUT_HELD);
    assert_int_equal(number(a, "SELECT count(*) FROM {lock}"), 1);
    /* Wrong: look, then insert. */
    assert_string_equal(second_creator(&wrong, a, b, ra, rb).error, "23505");
}

#define ROUNDS 40

struct creator {
    conn c;
    script acquire;
    pthread_barrier_t *barrier;
    char letter;
    int granted[ROUNDS], faults;
};

static void *creator_main(void *arg)
{
    struct creator *k = arg;
    for (int i = 0; i < ROUNDS; i++) {
        char name[16];
        request r = request_name(request_of(k->letter, 30000 * MS), name, 3);
        answer a;
        snprintf(name, sizeof name, "n%02d", i);
        pthread_barrier_wait(k->barrier);
        a = ask(k->c, &k->acquire, &r);
        k->granted[i] = a.outcome == SQLOCK_OUT_DONE;
        k->faults += a.rows != 1 || (a.outcome != SQLOCK_OUT_DONE && a.outcome != SQLOCK_OUT_HELD &&
                                     a.outcome != SQLOCK_OUT_SKIPPED);
    }
    return NULL;
}

static void test_four_creators_and_one_grant_each_time(void **state)
{
    static struct creator k[STRESS_CLIENTS];
    pthread_t threads[STRESS_CLIENTS];
    pthread_barrier_t barrier;
    (void)state;
    pthread_barrier_init(&barrier, NULL, STRESS_CLIENTS);
    for (int i = 0; i < STRESS_CLIENTS; i++)
        k[i] = (struct creator){
            pg_open(), ours(SQLOCK_STMT_ACQUIRE), &barrier, (char)('A' + i), {0}, 0};
    for (int i = 0; i < STRESS_CLIENTS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, creator_main, &k[i]), 0);
    for (int i = 0; i < STRESS_CLIENTS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
    for (int n = 0; n < ROUNDS; n++) {
        int granted = 0;
        for (int i = 0; i < STRESS_CLIENTS; i++)
            granted += k[i].granted[n];
        assert_int_equal(granted, 1);
    }
    for (int i = 0; i < STRESS_CLIENTS; i++)
        assert_int_equal(k[i].faults, 0);
    assert_int_equal(number(pg_open(), "SELECT count(*) FROM {lock}"), ROUNDS);
}

/* t: the row's alias. */
#define GLUED(t)  t ".ns || " t ".name = $1 || $2"
#define FOLDED(t) t ".ns = $1 AND lower(encode(" t ".name, 'escape')) = lower(encode($2, 'escape'))"
#define TRIMMED(t)                                                                                 \
    t ".ns = $1 AND rtrim(encode(" t ".name, 'escape')) = rtrim(encode($2, 'escape'))"

static script compared(const char *c, const char *h)
{
    script s = changed(ours(SQLOCK_STMT_ACQUIRE), "c.ns = $1 AND c.name = $2", c);
    return changed(s, "h.ns = $1 AND h.name = $2", h);
}

static void test_names_are_bytes(void **state)
{
    conn c = pg_open();
    mistaken wrong[] = {{.name = "c"}, {.name = "C"}, {.name = "c "}};
    (void)state;
    names_are_bytes(c, "23514");
    /* Wrong: one column's worth of comparison for two columns; a comparison that folds case, or
     * does not see blanks at the end. */
    wrong[0].how = compared(GLUED("c"), GLUED("h"));
    wrong[1].how = compared(FOLDED("c"), FOLDED("h"));
    wrong[2].how = compared(TRIMMED("c"), TRIMMED("h"));
    names_are_told_apart(c, wrong, COUNT(wrong));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_POSTGRES(test_two_creators_make_one_row),
        ON_POSTGRES(test_four_creators_and_one_grant_each_time),
        ON_POSTGRES(test_names_are_bytes),
    };
    int missing = pg_missing();
    if (missing)
        return missing - 1;
    return cmocka_run_group_tests_name("names on PostgreSQL", tests, NULL, NULL);
}
