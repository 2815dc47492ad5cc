/* The clock that all deadlines use, and sleeping. */
#include <errno.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/coroutine.h"

/* BOOTTIME goes on while the machine sleeps, as a lease does (P4). */
#ifdef CLOCK_BOOTTIME
#define DEADLINE_CLOCK CLOCK_BOOTTIME
#else
#define DEADLINE_CLOCK CLOCK_MONOTONIC
#endif

int64_t sqlock_now_us(void)
{
    struct timespec t;

    clock_gettime(DEADLINE_CLOCK, &t);
    return (int64_t)t.tv_sec * 1000000 + (uint32_t)t.tv_nsec / 1000;
}

void sqlock_sleep_us(int64_t us)
{
    struct timespec t = {us / 1000000, (us % 1000000) * 1000};
    struct coroutine *me = coroutine_running();

    if (us <= 0)
        return;
    if (me != NULL) {
        coroutine_wait(me, -1, 0, -1, sqlock_now_us() + us);
        return;
    }
    while (nanosleep(&t, &t) != 0 && errno == EINTR)
        continue;
}
