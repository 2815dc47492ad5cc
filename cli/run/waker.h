/* The waker: the guardian's parent, below the locker. It wakes the guardian whenever that is
 * stopped; when the guardian was killed, all that the command has started is the waker's, which
 * ends it before the lease ends. So any two of the three may be stopped or killed. */
#ifndef SQLOCK_CLI_RUN_WAKER_H
#define SQLOCK_CLI_RUN_WAKER_H

struct plan;

/* Start the guardian, and be there for it. It is the whole life of a forked process of one thread,
 * with every signal blocked. locker_fd is the guardian's. */
void waker_run(const struct plan *plan, int locker_fd) __attribute__((noreturn));

#endif
