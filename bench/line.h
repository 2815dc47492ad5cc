/* What the clients of a line share: all want one lock, and hold it for a while. A hand-over is the
 * time from just before a release until another client, which waited then, has the lock. */
#ifndef BENCH_LINE_H
#define BENCH_LINE_H

#include "bench.h"

extern int line_least_ms,
    line_most_ms; /* a hold is as long, or in between; set before a crew begins */

/* Before the crew's processes begin, which share it, and after their end. */
void line_begin(void);
void line_end(void);

/* The way of a client through the line, in this order. */
void line_wait(void);
double line_hold(int client); /* holds; returns the hand-over in us, below 0 if there was none */
void line_leave(void);        /* just before the release */

#endif
