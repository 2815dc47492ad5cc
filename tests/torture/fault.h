/* What is done to a cell, over and over: a table of kinds. */
#ifndef SQLOCK_TESTS_TORTURE_FAULT_H
#define SQLOCK_TESTS_TORTURE_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/torture/cell.h"

/* What a kind wants of several servers. */
enum {
    SERVERS_TWO = 1,
    SERVERS_THREE = 2,
    SERVERS_SYNC = 4,    /* a commit is answered when the follower has it */
    SERVERS_GRACE = 8,   /* clients ask for a grace */
    SERVERS_SIDES = 16,  /* each client reaches one server only */
    SERVERS_POOLED = 32, /* also behind pgbouncer */
    SERVERS_HAPROXY = 64 /* behind haproxy */
};

struct fault_kind {
    const char *word;
    const char *sentence;           /* "clients are killed while they hold locks" */
    unsigned families;              /* FAMILY_...: where it exists */
    int32_t gap_ms;                 /* about so much peace between two of them */
    void (*strike)(struct cell *c); /* once, and heal it */
    unsigned wants;                 /* ENGINE_... */
    bool proxied;                   /* clients reach the server by way of the proxy */
    int64_t harm;                   /* value of its V_FAULT */
    const char *allow;              /* answers that it explains, for clients; NULL */
    const char *mix;                /* what clients do more, or less, often; NULL */
    const char *only;               /* the one engine that has it; NULL: all of the families */
    unsigned servers;               /* SERVERS_...; 0: one */
    const char *sql, *look;         /* what others do in the file; then a look into it, or NULL */
    int verb;                       /* clients are killed in the middle of such a question */
    proxy_mode mode;                /* of the silent network */
};

/* NULL: no kind is called so. fault_at(): all of them, NULL behind the last. */
const struct fault_kind *fault_kind_of(const char *word);
const struct fault_kind *fault_at(size_t i);
/* Whether it can be done to this engine. */
bool fault_exists(const struct fault_kind *fault, const struct engine_kind *engine);
/* Its number in the table, for the history. */
uint32_t fault_number(const struct fault_kind *fault);

/* fault_client.c, fault_server.c, fault_network.c, fault_servers.c, fault_file.c: the kinds. */
typedef void strike_fn(struct cell *c);
strike_fn strike_kill_holder, strike_kill_asker, strike_kill_writer, strike_kill_all,
    strike_stop_client;
strike_fn strike_kill_server, strike_stop_server, strike_clock, strike_end_sessions,
    strike_disk_full;
strike_fn strike_reset, strike_cut_reply, strike_silence, strike_delay, strike_dribble;
strike_fn strike_deadlock, strike_serializable, strike_lock_timeout, strike_housekeeping;
strike_fn strike_fail_over, strike_promote_twice, strike_fail_back, strike_split, strike_freeze;
strike_fn strike_keep, strike_once, strike_backup, strike_schema_change, strike_hot_journal;

/* `writer PATH`: a big transaction that never ends; for the last one, which kills it. */
int fault_writer_main(const char *path);

#endif
