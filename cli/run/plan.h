/* What `sqlock run` was asked to do: read once, then the same for locker and guardian. */
#ifndef SQLOCK_CLI_RUN_PLAN_H
#define SQLOCK_CLI_RUN_PLAN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli/base/grant.h"
#include "cli/base/signals.h"

enum on_lost { ON_LOST_TERM, ON_LOST_KILL, ON_LOST_WARN };

/* In memory that all three see. */
struct shared {
    _Atomic int64_t
        last_us; /* the guardian kills what is left then, at the latest; INT64_MAX: never */
    _Atomic pid_t guardian;
};

struct plan {
    struct cli *cli;
    char *name;
    char **command; /* ends with NULL */
    struct grant_opts grant;
    int busy_exit;
    int32_t grace_ms; /* between TERM and KILL */
    int32_t max_ms;   /* 0: none */
    int32_t least_ms; /* the lock is held so long at least */
    enum on_lost on_lost;
    bool keep_url;       /* the command finds SQLOCK_URL, with a password too */
    int status_fd;       /* ours, or -1 */
    int status_fd_given; /* the number that the command must not inherit, or -1 */
    struct signals signals;
    pid_t locker;
    pid_t group; /* of locker and command */
    struct shared *shared;
};

/* The locker: takes the lock, renews it, releases it. Returns what the process ends with. */
int locker_run(struct plan *plan, int guardian_fd, pid_t waker);
/* The guardian: starts the command, and sees to it that nothing of it is alive when the lease ends.
 * It is the whole life of a forked process of one thread, with every signal blocked. */
void guardian_run(const struct plan *plan, int locker_fd) __attribute__((noreturn));
/* Fork and exec. *out_error_fd: an errno can be read from it if that fails, else its end. Returns
 * the process, or minus errno. */
struct order;
pid_t command_start(const struct plan *plan, const struct order *order, int *out_error_fd);

/* What this process is called in the list of processes, in place of what the locker was started
 * with: `pkill sqlock` shall not kill all three. */
void plan_show_as(const struct plan *plan, const char *what);

/* The time that TERM may take before KILL must come, when the lease ends: a longer -k is cut, so
 * that renewals have most of a lease to succeed. And the time that KILL itself may take. */
int64_t plan_grace_us(const struct plan *plan);
int64_t plan_slack_us(const struct plan *plan);
/* Until the next look at what does not die at once; and at what does not die (it waits for a disk,
 * it runs as another user). since_us: since the first KILL. */
int64_t plan_again_us(int64_t since_us);

#endif
