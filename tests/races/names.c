/* Names: names.races, and here what four creators do at once. */
#include "races.h"

#include <pthread.h>

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
        request r = request_of(k->letter, 30000 * MS);
        answer a;
        snprintf(name, sizeof name, "n%02d", i);
        r.name = name;
        pthread_barrier_wait(k->barrier);
        a = ask(k->c, &k->acquire, &r);
        k->granted[i] = a.outcome == SQLOCK_OUT_DONE;
        k->faults += a.rows != 1 || (a.outcome != SQLOCK_OUT_DONE && a.outcome != SQLOCK_OUT_HELD &&
                                     a.outcome != SQLOCK_OUT_SKIPPED);
    }
    return NULL;
}

TEST(four_creators_and_one_grant_each_time, ON_POSTGRES)
{
    static struct creator k[STRESS_CLIENTS];
    pthread_t threads[STRESS_CLIENTS];
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, STRESS_CLIENTS);
    for (int i = 0; i < STRESS_CLIENTS; i++)
        k[i] = (struct creator){
            open_conn(), ours(SQLOCK_STMT_ACQUIRE), &barrier, (char)('A' + i), {0}, 0};
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
    assert_int_equal(number(open_conn(), "SELECT count(*) FROM {lock}"), ROUNDS);
}

TEST_MAIN_OF_RACES("names")
