/* What tests of reaping share: old rows, and a reaper that works for long. */
#ifndef SQLOCK_TESTS_DRIVERS_SUITE_REAP_H
#define SQLOCK_TESTS_DRIVERS_SUITE_REAP_H

#include <pthread.h>

#include "tests/drivers/suite.h"

#define HOUR_MS INT64_C(3600000)

/* Without waiting for anything that ran out, or for the clock to pass. */
sqlock_reap_opts reap_at_once(void);
sqlock_reap_report reap(sqlock *m, const sqlock_reap_opts *o);
/* At once, with these options: reap_with(m, with.batch = 1). */
#define reap_with(m, ...)                                                                          \
    ({                                                                                             \
        sqlock_reap_opts with = reap_at_once();                                                    \
        (void)(__VA_ARGS__);                                                                       \
        reap((m), &with);                                                                          \
    })
#define reap_now(m)  reap_with(m, 0)
#define reap_idle(m) reap_with(m, with.idle_ms = SQLOCK_REAP_IDLE_MIN_MS)
void age(struct world *w, int64_t ms);
/* A holder that died: its handle is freed, its row stays held to its lease's end. Its token. */
int64_t abandon(sqlock *m, const char *name);
void abandon_jobs(sqlock *m, int n); /* so many of them */
int64_t token_of(sqlock *m, const char *name);

struct count {
    int rows, held;
};
struct count count_rows(sqlock *m);

struct reaper {
    sqlock *m;
    sqlock_reap_opts o;
    sqlock_reap_report r;
    sqlock_error err;
    pthread_t thread;
    int code;
};
/* One that works for long: row by row, with pauses. It has begun when this returns. */
void reaper_start(struct reaper *r, struct world *w, int rows);
void *reaper_main(void *reaper);

#endif
