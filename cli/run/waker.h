/* The waker: the last one to look. It wakes the guardian when that was stopped and is overdue; and
 * when guardian and locker were both killed, it ends what the command had started. So it takes
 * three processes that are stopped or killed at once to let something of a command live on. */
#ifndef SQLOCK_CLI_RUN_WAKER_H
#define SQLOCK_CLI_RUN_WAKER_H

#include <stdint.h>
#include <sys/types.h>

struct plan;

struct waker {
    pid_t pid;               /* 0: there is none */
    _Atomic int64_t *due_us; /* in memory that both see: when the guardian has something to do */
};

/* Start it, as the guardian's child. owner: by this word in its environment (SQLOCK_OWNER) a
 * process is known to be the command's; NULL: the command may live without its lock. Without memory
 * or processes there is no waker. */
void waker_start(struct waker *w, const struct plan *plan, const char *owner);
/* The guardian acts at this time at the latest; INT64_MAX: never by itself. */
void waker_tell(const struct waker *w, int64_t due_us);
/* End it, and wait for that. */
void waker_end(struct waker *w);

#endif
