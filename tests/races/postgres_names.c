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

#define FOLDED(name)  "lower(encode(" name ", 'escape')) = lower(encode($2, 'escape'))"
#define TRIMMED(name) "rtrim(encode(" name ", 'escape')) = rtrim(encode($2, 'escape'))"

static void test_names_are_bytes(void **state)
{
    char longest[256], other[256];
    conn c = pg_open();
    request r = request_of('A', 5000 * MS), pair = request_of('B', 5000 * MS);
    script right = ours(SQLOCK_STMT_ACQUIRE), folded, glued;
    const struct {
        const char *name;
        size_t len;
    } names[] = {{"job", 3},         {"Job", 3},  {"job ", 4},    {"job\0", 4}, {"job\xff", 4},
                 {"job\xff\xfe", 5}, {" job", 4}, {longest, 255}, {other, 255}, {longest, 254}};
    const struct {
        const char *name, *c, *h;
    } alike[] = {{"C", FOLDED("c.name"), FOLDED("h.name")},
                 {"c ", TRIMMED("c.name"), TRIMMED("h.name")}};
    (void)state;
    memset(longest, 'x', sizeof longest);
    memset(other, 'x', sizeof other);
    other[254] = 'y';
    for (size_t i = 0; i < COUNT(names); i++) {
        answer got = acquire(c, request_name(r, names[i].name, names[i].len));
        EXPECT(got, SQLOCK_OUT_DONE);
        assert_int_equal(got.token, 1);
    }
    assert_int_equal(number(c, "SELECT count(*) FROM {lock}"), COUNT(names));
    assert_string_equal(acquire(c, request_name(r, longest, 256)).error, "23514");

    run(c, "DELETE FROM {lock}");
    r.ns = "a", r.ns_len = 1, r.name = "bc", r.name_len = 2;
    pair.ns = "ab", pair.ns_len = 2, pair.name = "c", pair.name_len = 1;
    EXPECT(acquire(c, r), SQLOCK_OUT_DONE);
    /* Wrong: one column's worth of comparison for two columns; a comparison that
     * folds case, or does not see blanks at the end. */
    glued = changed(right, "c.ns = $1 AND c.name = $2", "c.ns || c.name = $1 || $2");
    glued = changed(glued, "h.ns = $1 AND h.name = $2", "h.ns || h.name = $1 || $2");
    EXPECT(ask(c, &glued, &pair), SQLOCK_OUT_HELD);
    EXPECT(acquire(c, pair), SQLOCK_OUT_DONE);
    for (size_t i = 0; i < COUNT(alike); i++) {
        folded = changed(right, "c.name = $2", alike[i].c);
        folded = changed(folded, "h.name = $2", alike[i].h);
        pair = request_name(pair, alike[i].name, strlen(alike[i].name));
        memset(pair.owner, 'C' + (int)i, sizeof pair.owner);
        EXPECT(ask(c, &folded, &pair), SQLOCK_OUT_HELD);
        EXPECT(acquire(c, pair), SQLOCK_OUT_DONE);
    }
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
