/* Small things that all of the benchmark needs. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "bench.h"

void bench_die(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("bench: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

int bench_is_sqlite(const struct bench_db *db)
{
    return strcmp(db->name, "sqlite") == 0;
}

int bench_is_look(const struct bench_settings *s)
{
    return s->ms < BENCH_LOOK_MS;
}

double bench_cpu_us(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double bench_percentile(double *values, size_t n, double p)
{
    if (n == 0)
        return 0;
    qsort(values, n, sizeof *values, by_value);
    return values[(size_t)(p * (double)(n - 1) + 0.5)];
}

struct bench_ratio bench_ratio_of(double *values, int n)
{
    const double median = bench_percentile(values, (size_t)n, 0.5);

    return (struct bench_ratio){.median = median, .least = values[0], .most = values[n - 1]};
}

struct bench_ratio bench_single(double value)
{
    return (struct bench_ratio){value, value, value};
}

/* As cheap as it gets: the bare loops are not to be slowed by it. */
void bench_owner(unsigned char owner[SQLOCK_OWNER_SIZE])
{
    static _Thread_local uint64_t count;

    count += UINT64_C(0x9e3779b97f4a7c15);
    for (int i = 0; i < SQLOCK_OWNER_SIZE; i++)
        owner[i] = (unsigned char)((count + (uintptr_t)&count) >> (i % 8 * 8));
}
