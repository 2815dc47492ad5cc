#ifndef SQLOCK_BASE_CLOCK_H
#define SQLOCK_BASE_CLOCK_H

#include <sqlock/driver.h>

#define TIME_NEVER INT64_MAX

static inline int64_t time_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t time_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

#endif
