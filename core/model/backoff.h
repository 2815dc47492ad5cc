#ifndef SQLOCK_MODEL_BACKOFF_H
#define SQLOCK_MODEL_BACKOFF_H

#include <stdint.h>

#define BACKOFF_FIRST_US 10000
#define BACKOFF_LAST_US  500000

/* `first`, doubled n times, at most `last`; of an n below 0: `first`. */
int64_t backoff_doubled(int64_t first, int64_t last, int n);
/* The span that the sleep after the n-th refusal (from 0) is drawn from, evenly: [span / 2, span).
 */
int64_t backoff_span(int n);
/* When to try again: after `sleep`, but not later than the holder's lease ends (left; < 0: not
 * known) nor than `last`, the time of the last try that still fits before the deadline. */
int64_t backoff_next(int64_t now, int64_t sleep, int64_t left, int64_t last);

#endif
