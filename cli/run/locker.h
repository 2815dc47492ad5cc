/* What the locker knows, and how a grant ends: for locker.c and ending.c. */
#ifndef SQLOCK_CLI_RUN_LOCKER_H
#define SQLOCK_CLI_RUN_LOCKER_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli/run/held.h"
#include "cli/run/lead.h"
#include "cli/run/plan.h"
#include "cli/run/status.h"
#include "cli/run/turn.h"
#include "cli/run/wire.h"

struct locker {
    struct plan *plan;
    int guardian_fd;
    pid_t waker; /* the guardian's parent; 0: it is dead, and the guardian our child */
    sqlock *m;
    struct held held;
    int64_t known_us;   /* the deadline that the guardian knows */
    int64_t begun_us;   /* of the wait */
    int64_t held_us;    /* of the grant */
    sqlock_state state; /* as last reported to the user */
    bool has_terminal;
    bool must_end;                  /* by a signal */
    bool started;                   /* the command */
    bool hung_up;                   /* SIGHUP came: it ends a command, or is a request to it */
    bool suspended;                 /* Ctrl-Z, and since then no renewal */
    int start_error;                /* errno of the command that could not be started */
    bool guardian_died, waker_done; /* done: it ended by itself, when no process was left */
    bool start_due, stop_due, resign_due; /* orders that must still be sent */
    struct resigning resigning;           /* lead */
    sigset_t signals_due;
    struct report end; /* of kind REPORT_ENDED when all is over */
    struct once once;
    struct outcome *outcome;
};

/* Nothing of the command is alive. The exit code, if nothing was wrong with the lock. */
int ending_of_command(struct locker *l);
/* --at-least: hosts with slow clocks still find the lock held. A signal ends this. The command's
 * exit code stands, whatever happens to the lock now. False: the lock is lost. */
bool ending_waits(struct locker *l);
/* Release the locks. Returns the exit code, which is code if the lock was held all the time. */
int ending_release(struct locker *l, int code);
/* lead: whether it stands for election again, after all this. */
bool ending_again(const struct locker *l);

#endif
