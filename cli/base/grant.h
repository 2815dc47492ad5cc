/* What acquire and run share: waiting for a lock, and what is printed when it is busy. */
#ifndef SQLOCK_CLI_GRANT_H
#define SQLOCK_CLI_GRANT_H

#include <sqlock/sqlock.h>
#include <stdbool.h>

#include "cli/base/options.h"

struct cli;
struct signals;

/* The options of both. */
struct grant_opts {
    int32_t wait_ms;
    int32_t lease_ms;
    int64_t mode;                     /* as in sqlock_acquire_opts */
    bool has_mode;                    /* it was given */
    bool tries, waits;                /* -n, -w was given */
    const char *actor;                /* NULL: none */
    const char *nested;               /* by nested_look(): the name that cut wait_ms; NULL: none */
    char label[SQLOCK_LABEL_MAX + 1]; /* -m KEY=VALUE..., one after the other */
};

/* So many bytes of the label, with its NUL, are for -m: the rest is for "pid@host". */
enum { GRANT_LABEL = SQLOCK_LABEL_MAX - 126 };

/* Keys of those options in the commands' tables. */
enum { GRANT_TTL = OPTION_LONG, GRANT_GRACE, GRANT_SLOTS, GRANT_ACTOR, GRANT_LAST };

#define GRANT_LEASE                                                                                \
    {GRANT_TTL, "ttl", "DUR", "length of the lease; default: 30s"},                                \
        {GRANT_GRACE, "grace", "DUR", "no new grants up to DUR after a failover; default: 0"},     \
    {                                                                                              \
        'm', NULL, "KEY=VALUE", "label shown to anyone who finds it busy (repeatable)"             \
    }
#define GRANT_OPTIONS                                                                              \
    {'n', "nonblock", NULL, "do not wait if the lock is busy"},                                    \
        {'w', "wait", "DUR", "wait at most this long; default: for ever"}, GRANT_LEASE,            \
        {GRANT_ACTOR, "actor", "TEXT", "who does this: see Deadlocks in sqlock(1)"},               \
    {                                                                                              \
        'x', NULL, NULL, "exclusive lock (the default)"                                            \
    }
#define GRANT_KINDS                                                                                \
    {'s', NULL, NULL, "shared lock: keeps only exclusive ones out"},                               \
    {                                                                                              \
        GRANT_SLOTS, "slots", "N", "one of N slots; in run, SQLOCK_SLOT is its number"             \
    }
/* Of commands without them. */
#define GRANT_KINDS_LATER                                                                          \
    {'s', NULL, NULL, NULL},                                                                       \
    {                                                                                              \
        GRANT_SLOTS, "slots", "N", NULL                                                            \
    }

#define GRANT_OPTS_INIT                                                                            \
    {                                                                                              \
        .wait_ms = SQLOCK_WAIT_FOREVER, .mode = SQLOCK_EXCLUSIVE                                   \
    }

/* Take one of these options. False: key is none of them. A wrong value is reported, and sets
 * o->wrong. */
bool grant_option(struct options *o, int key, struct grant_opts *g);
/* Take the value as the length of a lease, in the same way. */
void grant_ttl(struct options *o, int32_t *out_ms);

/* Like sqlock_acquire(), but a long wait shows who holds the lock. A signal ends the wait, and so
 * does something to read on other_fd (-1: none); then nothing is held, the code is
 * SQLOCK_ECANCELLED, and *out_signal is the signal or 0. A lost reply is settled, for at most 2 s
 * beyond the wait. */
int grant_take(sqlock *m, const char *name, const sqlock_acquire_opts *opts,
               struct signals *signals, int other_fd, sqlock_lock **out_lock, int *out_signal,
               sqlock_error *err);

/* The line of a long wait, on a terminal: it comes when the look for a holder is done, or without
 * one if that takes long. */
struct grant_line {
    sqlock *m;
    const char *name; /* for people */
    const char *const *names;
    int n;
    sqlock_op *op; /* NULL: its place is not known */
    bool looks;
    int64_t due_us; /* to look, or to print at the latest; INT64_MAX: it was printed */
};

/* The others are set. */
void grant_line_begin(struct grant_line *l);
/* To poll, and for how long; -1: none, for ever. Then a step: looked says that the descriptor was
 * readable. */
int grant_line_fd(const struct grant_line *l);
int grant_line_limit_ms(const struct grant_line *l);
void grant_line_step(struct grant_line *l, bool looked);

/* A signal has ended the wait. */
void grant_say_given_up(const char *name, int signal, int64_t waited_ms);

/* A grant, as acquire printed it. */
struct grant_id {
    const char *name;
    unsigned char owner[SQLOCK_OWNER_SIZE];
    int64_t token;
    int64_t slot; /* as sqlock_lock_slot() */
};

/* The operands NAME OWNER TOKEN, and SLOT of a shared lock or a slot. Here and below: returns 0, or
 * the exit code after printing why. */
int grant_read(const struct cli *cli, int n, char **operands, struct grant_id *out);
/* Make a handle for it. */
int grant_import(sqlock *m, const struct grant_id *id, int32_t lease_ms, sqlock_lock **out_lock);

/* Report that renewing or releasing it failed: or that its slot is missing. Returns the exit code.
 */
int grant_failed(sqlock *m, const char *verb, const struct grant_id *id, sqlock_lock *lock, int rc,
                 const sqlock_error *err);

/* SQLite's file was locked for the whole wait. That is no holder: perhaps no one is at the work
 * that -E would skip. */
bool grant_file_was_locked(const sqlock_error *err);
/* Print in one line who holds the lock, and how to break it. err: the answer to the acquire. */
void grant_say_busy(const struct cli *cli, const char *name, const sqlock_holder *holder,
                    const sqlock_error *err);

#endif
