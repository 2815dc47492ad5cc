/* What --status-fd gets: one line of JSON, because the command itself may end with any code. */
#ifndef SQLOCK_CLI_RUN_STATUS_H
#define SQLOCK_CLI_RUN_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/run/plan.h"

struct outcome {
    const char *word; /* "ended", "lost", "max-time", "not-started", "busy", "done" (once),
                         "deadlock", "resigned" (lead), "signal", "error" */
    int exit;
    bool has_child; /* the command was started, and child_status is that of waitpid() */
    int child_status;
    int64_t waited_us, held_us;
    int n_tokens; /* 0: it was not held */
    int64_t tokens[PLAN_NAMES];
    int64_t slots[PLAN_NAMES]; /* -1: it has none */
    bool again;                /* lead: it stands for election again */
};

/* The status as a shell shows it: the exit code, or 128 plus the signal. */
int status_code(int wait_status);
/* Write the line, if the user wants it. */
void status_write(const struct plan *plan, const struct outcome *outcome);

#endif
