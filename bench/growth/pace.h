/* Threads that acquire and release names of one table chosen at random, when it is its turn. */
#ifndef BENCH_GROWTH_PACE_H
#define BENCH_GROWTH_PACE_H

#include <sqlock/sqlock.h>

#define PACE_THREADS_MAX 64

/* The tables of one prefix, and who works on them. */
struct pace {
    const char *prefix;
    long long names; /* in the table, called by pace_name() */
    int threads;
    sqlock *m;
    unsigned long long seed;
    /* Since they were last forgotten. */
    double pairs, us;
};

/* All of it ends the program with a message when the database fails. connections 0: the default. */
void pace_open(struct pace *p, const sqlock_driver *driver, const char *url, int connections);
void pace_close(struct pace *p);

/* Work for so long. Each thread has its own part of the names, so nobody waits for a lock. */
void pace_turn(struct pace *p, long long us);

/* Pairs a second, so far; and begin to count anew. */
double pace_rate(struct pace *p);

void pace_die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#endif
