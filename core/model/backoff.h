#ifndef SQLOCK_MODEL_BACKOFF_H
#define SQLOCK_MODEL_BACKOFF_H

#include <stdint.h>

#define BACKOFF_FIRST_US 10000
#define BACKOFF_LAST_US  500000

/* `first`, doubled n times, but at most `last`. Returns `first` if n is below 0. */
int64_t backoff_doubled(int64_t first, int64_t last, int n);
/* The sleep after refusal n (from 0) is drawn evenly from [span / 2, span). This is its span. */
int64_t backoff_span(int n);
/* When to try again: after `sleep`, but no later than the end of the holder's lease. left: the time
 * until that end; below 0: not known. Nor is it later than `last`, the last time at which a try
 * still fits before the deadline. */
int64_t backoff_next(int64_t now, int64_t sleep, int64_t left, int64_t last);

#endif
