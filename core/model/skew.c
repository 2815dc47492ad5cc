/* The server's clock compared with ours. The bounds of single answers are intersected, as in NTP's
 * clock filter (Mills, RFC 5905). A quick answer gives narrower bounds than a slow one. */
#include <assert.h>

#include "core/model/skew.h"

/* The bounds widen by a thousandth of the time that passes. A slewed clock (chrony: 8 %) leaves
 * them. Forward, that counts as a jump: leases become shorter until their next renewal, and a
 * request that seemed late is sent again.
 *
 * Wider bounds would be useless after an idle hour: a request that was stuck for minutes could be
 * granted, and no one would believe that grant. */
#define DRIFT 1000
#define GRAIN INT64_C(2000) /* SQLite's clock shows milliseconds */

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Answers of two connections may arrive in another order than the server gave them. Such an answer
 * was sent before the last one was received, and shows an earlier clock. It comes from before a
 * jump that was already reported, and says nothing about now. */
int64_t skew_learn(struct skew *s, int64_t sent, int64_t received, int64_t server)
{
    int64_t lo = server - received, hi = server - sent, slack, jumped = 0;

    assert(sent <= received);
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
    assert(lo <= hi && jumped >= 0);
    *s = (struct skew){1, lo, hi, sent, max64(received, s->seen)};
    return jumped;
}

int64_t skew_server_latest(const struct skew *s, int64_t at)
{
    if (!s->known || at == INT64_MAX)
        return INT64_MAX;
    return at + s->hi + GRAIN + max64(0, at - s->at) / DRIFT;
}
