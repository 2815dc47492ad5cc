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
    bool (*strike)(struct cell *c); /* once, and heal it. False: the moment did not come */
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

/* ---- fault_client.c, fault_server.c, fault_network.c, fault_file.c, fault_work.c, fault_servers.c
 * -----------------------------------------------------------------------------------------------
 */

bool strike_kill_holder(struct cell *c);
bool strike_kill_asker(struct cell *c);
bool strike_kill_writer(struct cell *c);
bool strike_kill_all(struct cell *c);
bool strike_stop_client(struct cell *c);

bool strike_kill_server(struct cell *c);
bool strike_stop_server(struct cell *c);
bool strike_clock(struct cell *c);
bool strike_end_sessions(struct cell *c);
bool strike_disk_full(struct cell *c);

bool strike_reset(struct cell *c);
bool strike_cut_reply(struct cell *c);
bool strike_silence(struct cell *c);
bool strike_delay(struct cell *c);
bool strike_dribble(struct cell *c);

bool strike_deadlock(struct cell *c);
bool strike_serializable(struct cell *c);
bool strike_lock_timeout(struct cell *c);
bool strike_housekeeping(struct cell *c);

bool strike_fail_over(struct cell *c);
bool strike_promote_twice(struct cell *c);
bool strike_fail_back(struct cell *c);
bool strike_split(struct cell *c);
bool strike_freeze(struct cell *c);

bool strike_keep(struct cell *c);
bool strike_once(struct cell *c);
bool strike_backup(struct cell *c);
bool strike_schema_change(struct cell *c);
bool strike_hot_journal(struct cell *c);
/* `writer PATH`: a big transaction that never ends; for the last one, which kills it. */
int fault_writer_main(const char *path);

#endif
