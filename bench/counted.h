/* A driver with a look at its renewals. */
#ifndef BENCH_COUNTED_H
#define BENCH_COUNTED_H

#include <stddef.h>

#include <sqlock/driver.h>

#define COUNTED_MAX 100000

struct counted {
    size_t requests, leases;
    double cpu_us;          /* of the threads that made them, inside of the driver */
    double ms[COUNTED_MAX]; /* of each request */
    int n[COUNTED_MAX];     /* leases in it */
};

/* The same driver, which counts; of one driver at a time. */
sqlock_driver counted_driver(const sqlock_driver *inner);
void counted_begin(void);
const struct counted *counted_end(void);

#endif
