/* The signals that `run` hands on and that end a wait: blocked, and read from a descriptor, so that
 * nothing is done in a handler. What the process was started with is kept for the command. */
#ifndef SQLOCK_CLI_SIGNALS_H
#define SQLOCK_CLI_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

struct signals {
    int fd;
    sigset_t before;               /* the mask that the process was started with */
    struct sigaction child_before; /* and what it did with SIGCHLD */
};

/* Block them, SIGPIPE too, and open the descriptor. Before any thread is started. One that the
 * process was started to ignore (nohup) is left alone. False: no descriptor was to be had. */
bool signals_take(struct signals *s);
/* For who runs others: with SIGCHLD ignored, as Python and Perl may start us, no child could be
 * waited for. */
void signals_hear_children(struct signals *s);
/* In the child, before exec: what the process was started with. */
void signals_restore(const struct signals *s);
/* The next signal, or 0. *out_by_terminal: the kernel sent it to the whole process group. */
int signals_next(struct signals *s, bool *out_by_terminal);

#endif
