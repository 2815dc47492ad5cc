#ifndef SQLOCK_MODEL_SKEW_H
#define SQLOCK_MODEL_SKEW_H

#include <stdint.h>

/* Bounds of (server's clock - our clock), learned from answers that carry the server's time. */
struct skew {
    int known;
    int64_t lo, hi;
    int64_t at;   /* the bounds were true then: when the last answer's request was sent */
    int64_t seen; /* when that answer was received */
};

/* Learn from an answer: it was sent and received at these times, and showed `server` as the
 * server's clock. Returns by how much that clock has certainly jumped forward since the last
 * answer, or 0. */
int64_t skew_learn(struct skew *s, int64_t sent, int64_t received, int64_t server);
/* The latest time that the server's clock can show at our time `at`. INT64_MAX while nothing is
 * known. */
int64_t skew_server_latest(const struct skew *s, int64_t at);

#endif
