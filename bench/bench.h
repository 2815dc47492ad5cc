/* What the benchmark measures with. A way is one means to acquire and release a lock: sqlock, or a
 * bare loop over the client library that sends the same statements. Both are run in turns, so that
 * a machine that drifts harms both alike; only their ratio means something. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stddef.h>
#include <stdint.h>

#include <sqlock/driver.h>

#define BENCH_THREADS_MAX 64
#define BENCH_PAIRS_MAX   31
#define BENCH_LEASE_MS    30000

/* A database to measure on, migrated and empty of locks. */
struct bench_db {
    const char *name; /* "postgres" */
    const char *url;
    const sqlock_driver *driver;
    const sqlock_script *scripts; /* rendered, for the bare loops */
    const struct bench_way *bare;
};

/* All of it ends the program with a message when the database fails: a benchmark that went on would
 * measure something else. */
struct bench_way {
    const char *name; /* of the client library, or "sqlock" */
    /* For bare loops: the database that this is the bare loop of. */
    const char *database;
    const sqlock_driver *(*driver)(void);
    /* Make the database itself as applications have it; NULL where it is there already. */
    void (*create)(const char *url);
    /* What all threads share; NULL where there is nothing. */
    void *(*open)(const struct bench_db *db, int threads);
    void (*close)(void *shared);
    /* One thread's own. */
    void *(*start)(const struct bench_db *db, void *shared, int thread);
    void (*end)(void *own);
    /* Acquire and release the thread's own lock once. */
    void (*pair)(void *own);
};

extern const struct bench_way bench_sqlock;
extern const struct bench_way bench_bare_sqlite;
extern const struct bench_way bench_bare_postgres;
extern const struct bench_way bench_bare_mysql;

/* One run of one way. */
struct bench_run {
    double pairs_per_s;
    double p50_us, p99_us; /* of a pair */
    double cpu_us;         /* of this process, all threads, for a pair */
};

struct bench_ratio {
    int threads;
    int runs;                            /* of each way */
    struct bench_run ours, bare;         /* the medians */
    double ratio, ratio_low, ratio_high; /* ours / bare, run by run: median, least, most */
};

/* Run both ways in turns: so many runs, in each of which either way works for ms milliseconds. */
struct bench_ratio bench_compare(const struct bench_db *db, int threads, int runs, int ms);

struct bench_handover {
    int times;
    double p50_us, p99_us; /* from the moment before release to the moment after acquire */
};
/* Two processes pass one lock to and fro. */
struct bench_handover bench_hand_over(const struct bench_db *db, int times);

struct bench_renewals {
    int leases;
    int rounds;              /* in which each lease was renewed once, about */
    int requests;            /* that the driver was asked for them */
    double batch_ms;         /* median time of one request */
    double leases_per_batch; /* mean */
    double cpu_ms_per_round; /* of this process */
};
/* A manager holds so many leases for some seconds and renews them by itself. */
struct bench_renewals bench_renew(const struct bench_db *db, int leases, int seconds);

double bench_cpu_us(void);                                   /* of this process, so far */
double bench_percentile(double *values, size_t n, double p); /* sorts values */
void bench_owner(unsigned char owner[SQLOCK_OWNER_SIZE]);
void bench_die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#endif
