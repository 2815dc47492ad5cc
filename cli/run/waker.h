/* The waker: the guardian's parent, and the locker's child. It wakes the guardian whenever that is
 * stopped. If the guardian is killed, the waker adopts what the command has started, and ends it
 * before the lease ends. So any two of the three may be stopped or killed. */
#ifndef SQLOCK_CLI_RUN_WAKER_H
#define SQLOCK_CLI_RUN_WAKER_H

struct plan;

/* Start the guardian, and watch over it. Runs in a forked process with one thread and every signal
 * blocked, and never returns. locker_fd is for the guardian. */
void waker_run(const struct plan *plan, int locker_fd) __attribute__((noreturn));

#endif
