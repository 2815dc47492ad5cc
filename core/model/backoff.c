/* Sleeping between tries: exponential with jitter, so that waiters that were refused together do
 * not come back together (Brooker, "Exponential Backoff And Jitter", 2015: equal jitter). */
#include "core/model/backoff.h"

/* The lease's end is told in the server's clock; a try a moment before it would be in vain. */
#define PAST_END_US 1000

int64_t backoff_span(int n)
{
    int64_t span = BACKOFF_FIRST_US;

    while (n-- > 0 && span < BACKOFF_LAST_US)
        span *= 2;
    return span < BACKOFF_LAST_US ? span : BACKOFF_LAST_US;
}

int64_t backoff_next(int64_t now, int64_t sleep, int64_t left, int64_t last)
{
    if (left >= 0 && left + PAST_END_US < sleep)
        sleep = left + PAST_END_US;
    if (last > now && now + sleep > last)
        return last;
    return now + sleep;
}
