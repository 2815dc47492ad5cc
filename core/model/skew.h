#ifndef SQLOCK_MODEL_SKEW_H
#define SQLOCK_MODEL_SKEW_H

#include <stdint.h>

/* Bounds on (server's clock - our clock), learned from answers that carry the server's time. */
struct skew {
    int known;
    int64_t lo, hi;
    int64_t at;   /* when they were true: the last answer's request was sent then */
    int64_t seen; /* when that answer was received */
};

/* An answer to a request sent and received at these times said that the server's clock was
 * `server`. Returns by how much the server's clock certainly jumped forward since the last answer;
 * else 0. */
int64_t skew_learn(struct skew *s, int64_t sent, int64_t received, int64_t server);
/* The latest that the server's clock can show at our time `at`; INT64_MAX while nothing is known.
 */
int64_t skew_server_latest(const struct skew *s, int64_t at);

#endif
