#ifndef SQLOCK_TESTS_UNIT_VERB_H
#define SQLOCK_TESTS_UNIT_VERB_H

/* A verb by values alone: which request is next, and what its answer means. There is no manager, no
 * connection and no clock. */
#include "core/engine/locks.h"
#include "core/engine/op.h"
#include "core/sql/requests.h"
#include "tests/lib/check.h"

#define NOW   INT64_C(1000000000)
#define TTL   INT64_C(30000000)
#define TOKEN 77

/* An op that begins at NOW. A test has one. */
extern struct verb_stage {
    sqlock m;
    sqlock_driver driver;
    sqlock_adopter adopter;
    sqlock_lock lock;
    sqlock_op op;
    struct attempt attempt;
} s;

/* wait_us 0: it does not wait. */
void begin(const struct verb *verb, int64_t wait_us);
/* The lock was granted at NOW. */
void begin_held(const struct verb *verb);
/* The verb sends this at that time. */
void assert_next(sqlock_stmt stmt, int64_t now);
/* It was answered at once, or at that time; or it failed. */
void answer(sqlock_outcome outcome, int64_t sent);
void answer_late(sqlock_outcome outcome, int64_t sent, int64_t now);
void answer_rows(sqlock_outcome outcome, int64_t sent, const sqlock_rows *rows);
void fail_request(int code, unsigned flags, int64_t now);
/* The op has ended with that. */
void assert_done(int code);

#endif
