/* The server's clock against ours. The bounds of single answers are intersected, as in NTP's clock
 * filter (Mills, RFC 5905): a quick answer tells more than a slow one. */
#include "core/model/skew.h"

/* The bounds widen by a thousandth of the time that passes. A clock that is slewed (by 8 %, chrony)
 * leaves them: forward that is a jump, by which leases are shortened until their next renewal, and
 * a request that was taken for late is sent again. Bounds for that would say nothing after an idle
 * hour, and let what was stuck for minutes be granted to nobody. */
#define DRIFT 1000
#define GRAIN INT64_C(2000) /* SQLite tells milliseconds */

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Answers of two connections may arrive in another order than the server gave them. One that was
 * sent before the last was received and shows an earlier clock comes from before a jump that has
 * been told: it says nothing about now. */
int64_t skew_learn(struct skew *s, int64_t sent, int64_t received, int64_t server)
{
    int64_t lo = server - received, hi = server - sent, slack, jumped = 0;

    if (s->known) {
        slack = GRAIN + max64(0, received - s->at) / DRIFT;
        if (hi < s->lo - slack && sent < s->seen)
            return 0;
        if (lo > s->hi + slack)
            jumped = lo - s->hi;
        else if (hi >= s->lo - slack) { /* no jump backward either: the old bounds still hold */
            lo = max64(lo, s->lo - slack);
            hi = max64(lo, min64(hi, s->hi + slack));
        }
    }
    *s = (struct skew){1, lo, hi, sent, max64(received, s->seen)};
    return jumped;
}

int64_t skew_server_latest(const struct skew *s, int64_t at)
{
    if (!s->known || at == INT64_MAX)
        return INT64_MAX;
    return at + s->hi + GRAIN + max64(0, at - s->at) / DRIFT;
}
