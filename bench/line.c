#include "bench/line.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

int line_least_ms, line_most_ms;

/* In memory that all processes see. But for the first, the holder alone changes it. */
static struct line {
    atomic_int waiting;
    int last;        /* the client that held before; below 0: there was none */
    int64_t left_us; /* when it went; below 0: nobody waited then */
} * line;

void line_begin(void)
{
    line = mmap(NULL, sizeof *line, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (line == MAP_FAILED)
        bench_die("no shared memory");
    line->last = -1;
}

void line_end(void)
{
    munmap(line, sizeof *line);
}

void line_wait(void)
{
    line->waiting++;
}

double line_hold(int client)
{
    const int spread_us = (line_most_ms - line_least_ms) * 1000;
    const int64_t now = sqlock_now_us();
    double handed_us = -1;

    line->waiting--;
    if (line->last >= 0 && line->last != client && line->left_us >= 0)
        handed_us = (double)(now - line->left_us);
    line->last = client;
    sqlock_sleep_us(line_least_ms * INT64_C(1000) + (spread_us > 0 ? random() % spread_us : 0));
    return handed_us;
}

void line_leave(void)
{
    line->left_us = line->waiting > 0 ? sqlock_now_us() : -1;
}
