/* What --status-fd is told: one line of JSON, because the command itself may end with any code. */
#ifndef SQLOCK_CLI_RUN_STATUS_H
#define SQLOCK_CLI_RUN_STATUS_H

#include <stdbool.h>
#include <stdint.h>

struct plan;

struct outcome {
    const char *word; /* "ended", "lost", "max-time", "not-started", "busy", "signal", "error" */
    int exit;
    bool has_child; /* the command was started, and this is its status, as of waitpid() */
    int child_status;
    int64_t waited_us, held_us;
    int64_t token; /* 0: none */
};

/* What a shell calls the status: its code, or 128 and the signal. */
int status_code(int wait_status);
/* Write the line, if it was asked for. */
void status_write(const struct plan *plan, const struct outcome *outcome);

#endif
