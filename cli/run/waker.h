/* The waker: it does nothing but wake the guardian when that is overdue. So it takes three stopped
 * processes, not two, to let a command live on after its lease. */
#ifndef SQLOCK_CLI_RUN_WAKER_H
#define SQLOCK_CLI_RUN_WAKER_H

#include <stdint.h>
#include <sys/types.h>

struct waker {
    pid_t pid;               /* 0: there is none */
    _Atomic int64_t *due_us; /* in memory that both see: when the guardian has something to do */
};

/* Start it, as the guardian's child. Without memory or processes there is none. */
void waker_start(struct waker *w);
/* The guardian acts at this time at the latest; INT64_MAX: never by itself. */
void waker_tell(const struct waker *w, int64_t due_us);
/* End it, and wait for that. */
void waker_end(struct waker *w);

#endif
