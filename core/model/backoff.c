/* Sleep times between two tries. They grow exponentially and have jitter, so that waiters that were
 * refused together do not return together (Brooker, "Exponential Backoff And Jitter", 2015: equal
 * jitter). */
#include "core/model/backoff.h"

/* The lease ends by the server's clock. A try a moment before that end would be in vain. */
#define PAST_END_US 1000

int64_t backoff_doubled(int64_t first, int64_t last, int n)
{
    for (; n > 0 && first > 0 && first < last; n--)
        first = first > last / 2 ? last : first * 2;
    return first < last ? first : last;
}

int64_t backoff_span(int n)
{
    return backoff_doubled(BACKOFF_FIRST_US, BACKOFF_LAST_US, n);
}

int64_t backoff_next(int64_t now, int64_t sleep, int64_t left, int64_t last)
{
    if (left >= 0 && left + PAST_END_US < sleep)
        sleep = left + PAST_END_US;
    if (last > now && now + sleep > last)
        return last;
    return now + sleep;
}
