/* Waiting for a lock, and what is told when it is busy: what acquire and run have in common. */
#ifndef SQLOCK_CLI_GRANT_H
#define SQLOCK_CLI_GRANT_H

#include <sqlock/sqlock.h>
#include <stdbool.h>

struct cli;
struct signals;
struct options;

/* The options that both have. */
struct grant_opts {
    int32_t wait_ms;
    int32_t lease_ms;
    char label[SQLOCK_LABEL_MAX + 1]; /* -m KEY=VALUE..., one after the other */
};

/* Room in it: the rest is for "pid@host". */
enum { GRANT_LABEL = SQLOCK_LABEL_MAX - 126 };

/* Keys of those options in the commands' tables. */
enum { GRANT_TTL = 256, GRANT_GRACE, GRANT_SLOTS, GRANT_LAST };

#define GRANT_OPTIONS                                                                              \
    {'n', "nonblock", NULL, "do not wait if the lock is busy"},                                    \
        {'w', "wait", "DUR", "wait at most this long; default: for ever"},                         \
        {GRANT_TTL, "ttl", "DUR", "length of the lease; default: 30s"},                            \
        {GRANT_GRACE, "grace", "DUR", "no new grants up to DUR after a failover; default: 0"},     \
        {'m', NULL, "KEY=VALUE", "label shown to anyone who finds it busy (repeatable)"},          \
        {'x', NULL, NULL, "exclusive lock (the default)"}, {'s', NULL, NULL, NULL},                \
    {                                                                                              \
        GRANT_SLOTS, "slots", "N", NULL                                                            \
    }

#define GRANT_OPTS_INIT                                                                            \
    {                                                                                              \
        SQLOCK_WAIT_FOREVER, 0, ""                                                                 \
    }

/* Take one of them. False: key is none of them. What is wrong is told, and known to `o`. */
bool grant_option(struct options *o, int key, struct grant_opts *g);
/* The value as the length of a lease, the same way. */
void grant_ttl(struct options *o, int32_t *out_ms);

/* sqlock_acquire(), but who waits is told for whom, and a signal ends the wait, and so does
 * something to read on other_fd (-1: none). *out_signal: the one that did, else 0; then nothing is
 * held and the code is SQLOCK_ECANCELLED. A lost reply is settled, for 2 s at most beyond the wait.
 */
int grant_take(sqlock *m, const char *name, const sqlock_acquire_opts *opts,
               struct signals *signals, int other_fd, sqlock_lock **out_lock, int *out_signal,
               sqlock_error *err);

/* Before a wait: whether a `sqlock run` that this process is inside of holds this lock
 * (SQLOCK_OUTER tells their owners), for then the wait would never end. Returns EXIT_USAGE and has
 * told so, else 0; what the database says otherwise, the request will say as well. */
int grant_nested(sqlock *m, const char *name);

/* A grant, as acquire printed it. */
struct grant_id {
    const char *name;
    unsigned char owner[SQLOCK_OWNER_SIZE];
    int64_t token;
};

/* Three operands: NAME OWNER TOKEN. Here and below: returns 0, or what the process ends with, and
 * then has told why. */
int grant_read(const struct cli *cli, int n, char **operands, struct grant_id *out);
/* A handle for it. */
int grant_import(sqlock *m, const struct grant_id *id, int32_t lease_ms, sqlock_lock **out_lock);

/* What renewing or releasing it failed with. Returns what the process ends with. */
int grant_failed(const char *verb, const struct grant_id *id, sqlock_lock *lock, int rc,
                 const sqlock_error *err);

/* Tell in one line who has the lock, and how it can be taken away. err: the answer that refused it.
 */
void grant_tell_busy(const struct cli *cli, const char *name, const sqlock_holder *holder,
                     const sqlock_error *err);

#endif
