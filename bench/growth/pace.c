#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pace.h"

struct worker {
    struct pace *pace;
    pthread_t thread;
    int number;
    int64_t until;
    unsigned long long seed, pairs;
};

void pace_die(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("growth: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

void pace_open(struct pace *p, const sqlock_driver *driver, const char *url, int connections)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock_error err;

    o.prefix = p->prefix;
    if (connections > 0)
        o.connections = connections + 1; /* one is kept for renewals */
    p->seed = (unsigned long long)sqlock_now_us();
    if (sqlock_open(driver, url, &o, &p->m, &err) != 0)
        pace_die("%s", err.text);
}

void pace_close(struct pace *p)
{
    sqlock_close(p->m);
}

/* splitmix64 */
static unsigned long long worker_draw(struct worker *w)
{
    unsigned long long z = w->seed += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* growth.sh fills the tables with the same names. */
static void worker_pair(struct worker *w)
{
    const unsigned long long threads = (unsigned long long)w->pace->threads;
    const unsigned long long own = (unsigned long long)w->pace->names / threads;
    sqlock_lock *lock = NULL;
    sqlock_error err;
    char name[32];

    snprintf(name, sizeof name, "name %09llu",
             worker_draw(w) % own * threads + (unsigned long long)w->number);
    if (sqlock_acquire(w->pace->m, name, NULL, &lock, &err) != 0 || sqlock_release(lock, &err) != 0)
        pace_die("%s: %s", name, err.text);
    sqlock_lock_free(lock);
    w->pairs++;
}

static void *work(void *arg)
{
    struct worker *w = arg;

    do
        worker_pair(w);
    while (sqlock_now_us() < w->until);
    return NULL;
}

void pace_turn(struct pace *p, long long us)
{
    const int64_t begun = sqlock_now_us();
    struct worker workers[PACE_THREADS_MAX];

    for (int i = 0; i < p->threads; i++) {
        workers[i] = (struct worker){.pace = p, .number = i, .until = begun + us, .seed = p->seed};
        p->seed = worker_draw(&workers[i]);
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            pace_die("no thread");
    }
    for (int i = 0; i < p->threads; i++) {
        pthread_join(workers[i].thread, NULL);
        p->pairs += (double)workers[i].pairs;
    }
    p->us += (double)(sqlock_now_us() - begun);
}

double pace_rate(struct pace *p)
{
    const double rate = p->us > 0 ? p->pairs * 1e6 / p->us : 0;

    p->pairs = p->us = 0;
    return rate;
}
