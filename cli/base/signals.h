/* The signals that `run` passes on, and that end a wait. They are blocked and read from a
 * descriptor, so there are no handlers. The original state is kept for the command. */
#ifndef SQLOCK_CLI_SIGNALS_H
#define SQLOCK_CLI_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

struct signals {
    int fd;
    sigset_t before;               /* the mask that the process was started with */
    struct sigaction child_before; /* and its action for SIGCHLD */
};

/* Block these signals and SIGPIPE, and open the descriptor. Call it before any thread starts. A
 * signal that was ignored at the start (nohup) is left alone. False: no descriptor available. */
bool signals_take(struct signals *s);
/* For commands that have children: Python and Perl may start us with SIGCHLD ignored, and then we
 * could not wait for a child. */
void signals_hear_children(struct signals *s);
/* In the child, before exec: restore the original state. */
void signals_restore(const struct signals *s);
/* The next signal, or 0. *out_by_terminal: the kernel sent it to the whole process group. */
int signals_next(struct signals *s, bool *out_by_terminal);

#endif
