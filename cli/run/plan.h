/* What `sqlock run` has to do: read once, then the same for locker and guardian. */
#ifndef SQLOCK_CLI_RUN_PLAN_H
#define SQLOCK_CLI_RUN_PLAN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli/base/grant.h"
#include "cli/base/signals.h"

enum { PLAN_NAMES = 16 };

/* Keys of the options, beside those of grant.h. */
enum {
    RUN_MAX_TIME = GRANT_LAST,
    RUN_ON_LOST,
    RUN_STATUS_FD,
    RUN_AT_LEAST,
    RUN_KEEP_URL,
    RUN_EVERY,
    RUN_AGAIN,
    RUN_RESIGN
};

enum on_lost { ON_LOST_TERM, ON_LOST_KILL, ON_LOST_WARN };

/* In memory that all three processes share. */
struct shared {
    _Atomic int64_t
        last_us; /* the guardian kills what is left then, at the latest; INT64_MAX: never */
    _Atomic pid_t guardian;
    _Atomic bool killed; /* by the waker, because the guardian was late */
};

struct plan {
    struct cli *cli;
    struct plan_name {
        char *text;
        int64_t mode; /* as in sqlock_acquire_opts */
    } names[PLAN_NAMES];
    int n_names;
    char *name;     /* all of them, for people */
    char **command; /* ends with NULL */
    struct grant_opts grant;
    int busy_exit;
    int32_t kill_after_ms; /* -k: between TERM and KILL */
    int32_t max_ms;        /* 0: none */
    int32_t least_ms;      /* the lock is held at least this long */
    int64_t every_ms;      /* once: the length of a period; 0: run */
    bool again;   /* once: even if this period's run is done; lead: also after the command's end */
    bool lead;    /* stand for election, again and again */
    bool resign;  /* lead: only request the leader of now to resign */
    bool failing; /* lead: it is said that the database does not answer */
    enum on_lost on_lost;
    bool keep_url;       /* the command gets SQLOCK_URL, even with a password */
    int status_fd;       /* ours, or -1 */
    int status_fd_given; /* the number that the command must not inherit, or -1 */
    struct signals signals;
    pid_t locker;
    pid_t group; /* of locker and command */
    struct shared *shared;
};

struct order;
struct outcome;

/* Read the words of the command, whose table is plan->cli->command. Returns 0, or the exit code
 * after printing what is wrong. End it with plan_free(), also then. */
int plan_read(struct plan *plan, int argc, char **argv);
void plan_free(struct plan *plan);

/* Start the helpers, and be the locker. No thread may run, and no database be open: the helpers
 * inherit neither. Returns the exit code. */
int plan_run(struct plan *plan, struct outcome *outcome);
/* The locker: takes the lock, renews it, releases it. Returns the exit code. */
int locker_run(struct plan *plan, int guardian_fd, pid_t waker, struct outcome *outcome);
/* The guardian: starts the command, and makes sure that nothing of it is alive when the lease ends.
 * Runs in a forked process with one thread and every signal blocked, and never returns. */
void guardian_run(const struct plan *plan, int locker_fd) __attribute__((noreturn));
/* Fork and exec. If exec fails, its errno can be read from *out_error_fd; otherwise that is at its
 * end. Returns the process, or minus errno. */
pid_t command_start(const struct plan *plan, const struct order *order, int *out_error_fd);

/* Rename this process in the list of processes, so that `pkill sqlock` does not kill all three. */
void plan_show_as(const struct plan *plan, const char *what);

/* The time between TERM and KILL at the end of a lease: a longer -k is cut, so that renewals have
 * most of the lease to succeed. */
int64_t plan_kill_after_us(const struct plan *plan);
/* The time that KILL itself may take: it comes so long before the end of the lease. */
int64_t plan_slack_us(const struct plan *plan);
/* How long to wait before looking again at processes that do not die at once, or not at all (they
 * wait for a disk, or belong to another user). since_us: since the first KILL. */
int64_t plan_again_us(int64_t since_us);

#endif
