/* Four clients that fight for one lock, and whether their tokens rose. */
#include "bench.h"

#include <pthread.h>
#include <stdlib.h>

struct client {
    stress *of;
    conn c;
    pthread_mutex_t *mutex;
    unsigned seed;
    int number;
    int64_t end;
};

static void note(struct client *k, const answer *a, int64_t sent)
{
    stress *s = k->of;
    pthread_mutex_lock(k->mutex);
    if (a->error[0] && strcmp(a->error, "BUSY") != 0)
        s->errors++;
    if (a->rows && a->outcome == SQLOCK_OUT_DONE && s->grants < (int)COUNT(s->seen))
        s->seen[s->grants++] = (seen){a->token, a->since, sent, clock_us()};
    pthread_mutex_unlock(k->mutex);
}

static void *client_main(void *arg)
{
    struct client *k = arg;
    for (int64_t i = 0; clock_us() < k->end; i++) {
        request r = request_of((char)('a' + k->number), k->of->ttl);
        int64_t sent = clock_us();
        answer a;
        memcpy(r.owner, &i, sizeof i); /* a new owner for each acquisition */
        a = ask(k->c, &k->of->acquire, &r);
        note(k, &a, sent);
        if (!a.rows || a.outcome != SQLOCK_OUT_DONE) {
            pause_ms(rand_r(&k->seed) % 2);
            continue;
        }
        pause_ms((int)((int64_t)rand_r(&k->seed) % (2 * k->of->ttl / MS)));
        r.token = a.token;
        for (int try = rand_r(&k->seed) % 4 ? 50 : 0; try > 0; try--) {
            a = ask(k->c, &k->of->release, &r);
            if (a.rows)
                break;
            pause_ms(1);
        }
        pause_ms(rand_r(&k->seed) % 8); /* so that the row is idle at times */
    }
    return NULL;
}

static void *pruner_main(void *arg)
{
    struct client *k = arg;
    while (k->of->prune[0] && clock_us() < k->end) {
        int failed = 0;
        for (int i = 0; k->of->prune[i] && !failed; i++)
            failed = try_run(k->c, k->of->prune[i]);
        if (failed)
            try_run(k->c, "ROLLBACK");
        pause_ms(1);
    }
    return NULL;
}

void stress_run(stress *s, const char *const *prune, int n)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_t threads[STRESS_CLIENTS + 1];
    struct client k[STRESS_CLIENTS + 1];
    int64_t end = 0;
    s->acquire = ours(SQLOCK_STMT_ACQUIRE);
    s->release = ours(SQLOCK_STMT_RELEASE);
    for (int i = 0; i < n; i++)
        s->prune[i] = fill(prune[i]);
    end = clock_us() + s->ms * MS;
    for (int i = 0; i <= STRESS_CLIENTS; i++)
        k[i] = (struct client){s, s->open(), &mutex, 7u + (unsigned)i, i, end};
    for (int i = 0; i <= STRESS_CLIENTS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL,
                                        i < STRESS_CLIENTS ? client_main : pruner_main, &k[i]),
                         0);
    for (int i = 0; i <= STRESS_CLIENTS; i++)
        pthread_join(threads[i], NULL);
}

/* Grants are ordered by the server's clock as the statement read it under the row's lock, and by
 * the clients' clock where one had its answer before the other asked. */
int stress_faults(const stress *s)
{
    int faults = 0;
    for (int i = 0; i < s->grants; i++)
        for (int j = 0; j < s->grants; j++) {
            const seen *a = &s->seen[i], *b = &s->seen[j];
            int before = a->since < b->since || a->got < b->sent;
            faults += (i < j && a->token == b->token) || (before && a->token > b->token);
        }
    return faults;
}
