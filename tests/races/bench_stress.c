/* Four clients that fight for one lock, and whether their tokens rose. */
#include "bench.h"

#include <pthread.h>
#include <stdlib.h>

#define REAPERS   2
#define STRESS_MS 900

struct seen {
    int64_t token, since, sent, got;
};

/* Clients that acquire one lock, hold it for longer or shorter than its lease, and give it back or
 * not, while two reapers clear what ran out and prune what is free, at once. */
struct stress {
    script acquire, release, look, reap, prune;
    int64_t ttl;
    int grants, errors; /* errors: answers that were neither a grant nor a refusal */
    struct seen seen[20000];
};

struct client {
    struct stress *of;
    conn c;
    pthread_mutex_t *mutex;
    unsigned seed;
    int number;
    int64_t end;
};

static void note_error(struct client *k, const answer *a)
{
    pthread_mutex_lock(k->mutex);
    if (a->error[0] && strcmp(a->error, "BUSY") != 0)
        k->of->errors++;
    pthread_mutex_unlock(k->mutex);
}

static void note(struct client *k, const answer *a, int64_t sent)
{
    struct stress *s = k->of;
    note_error(k, a);
    pthread_mutex_lock(k->mutex);
    if (a->rows && a->outcome == SQLOCK_OUT_DONE && s->grants < (int)COUNT(s->seen))
        s->seen[s->grants++] = (struct seen){a->token, a->since, sent, clock_us()};
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

/* What it sees may be gone when it acts on it: the statements look again. */
static void *reaper_main(void *arg)
{
    struct client *k = arg;
    request r = request_of('-', 0);
    while (clock_us() < k->end) {
        answer a = ask(k->c, &k->of->look, &r), done;
        r.floor = a.token;
        done = ask(k->c, &k->of->reap, &r);
        note_error(k, &done);
        done = ask(k->c, &k->of->prune, &r);
        note_error(k, &done);
        pause_ms(1);
    }
    return NULL;
}

static void stress_run(struct stress *s, int64_t ttl, script prune)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_t threads[STRESS_CLIENTS + REAPERS];
    struct client k[STRESS_CLIENTS + REAPERS];
    int64_t end = 0;
    *s = (struct stress){.acquire = ours(SQLOCK_STMT_ACQUIRE),
                         .release = ours(SQLOCK_STMT_RELEASE),
                         .reap = ours(SQLOCK_STMT_REAP),
                         .prune = prune,
                         .ttl = ttl};
    s->look = written(SQLOCK_STMT_GUARDED,
                      "SELECT 0, {DONE}, token FROM {lock} WHERE ns = $1 AND name = $2");
    s->look.flags[0] = 0;
    end = clock_us() + STRESS_MS * MS;
    for (int i = 0; i < STRESS_CLIENTS + REAPERS; i++)
        k[i] = (struct client){s, open_conn(), &mutex, 7u + (unsigned)i, i, end};
    for (int i = 0; i < STRESS_CLIENTS + REAPERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL,
                                        i < STRESS_CLIENTS ? client_main : reaper_main, &k[i]),
                         0);
    for (int i = 0; i < STRESS_CLIENTS + REAPERS; i++)
        pthread_join(threads[i], NULL);
}

/* Grants are ordered by the server's clock as the statement read it under the row's lock, and by
 * the clients' clock where one had its answer before the other asked. */
static int stress_faults(const struct stress *s)
{
    int faults = 0;
    for (int i = 0; i < s->grants; i++)
        for (int j = 0; j < s->grants; j++) {
            const struct seen *a = &s->seen[i], *b = &s->seen[j];
            int before = a->since < b->since || a->got < b->sent;
            faults += (i < j && a->token == b->token) || (before && a->token > b->token);
        }
    return faults;
}

void tokens_rise(int64_t ttl, int at_least, script pruner)
{
    static struct stress s;
    stress_run(&s, ttl, pruner);
    assert_int_equal(s.errors, 0); /* no deadlock either */
    assert_true(s.grants > at_least);
    assert_int_equal(stress_faults(&s), 0);
    assert_true(number(open_conn(), "SELECT fence_floor FROM {meta}") > 0); /* rows did go */
}

void tokens_fall(int64_t ttl, script forgetful)
{
    static struct stress s;
    conn c = open_conn();
    for (int i = 0, faults = 0; !faults; i++) { /* a busy machine may need a second round */
        assert_true(i < 5);
        run(c, "DELETE FROM {lock}");
        run(c, "UPDATE {meta} SET fence_floor = 0");
        stress_run(&s, ttl, forgetful);
        faults = stress_faults(&s);
    }
}
