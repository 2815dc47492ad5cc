/* The clients of one entry, in processes of their own, which work when it is their turn. */
#ifndef BENCH_CREW_H
#define BENCH_CREW_H

#include "bench.h"

struct crew;

/* Prepare the way, start the processes and their threads, and connect. */
struct crew *crew_begin(const struct bench_entry *entry);
/* Whom a turn's CPU time counts for: call it when the server has all its processes. */
void crew_watch_server(struct crew *c);
/* Returns when the turn is over: each client has ended the pair at which its time was up. */
void crew_turn(struct crew *c, int64_t us);
/* What has been measured so far: how many pairs, and all about them. */
double crew_pairs(const struct crew *c);
struct bench_run crew_result(const struct crew *c);
void crew_forget(struct crew *c);
/* End all of them at once: from here on a process may end without being missed. */
void crews_end(struct crew **crews, int n);

#endif
