#include "tests/torture/fault.h"

#include <string.h>

#define ALL     (FAMILY_SQLITE | FAMILY_POSTGRES | FAMILY_MYSQL)
#define SERVERS (FAMILY_POSTGRES | FAMILY_MYSQL)
#define FILES   FAMILY_SQLITE

/* Where nobody is the primary for a moment, who answers can only be read. */
#define ALONE "SQLOCK_EREADONLY SQLOCK_EREFUSED 78"

static const struct fault_kind kinds[] = {
    {"holder-killed", "clients are killed while they hold locks", ALL, 600,
     .strike = strike_kill_holder},
    {"waiter-killed", "clients are killed while they wait for locks", ALL, 600,
     .strike = strike_kill_asker, .verb = V_ACQUIRE},
    {"renewer-killed", "clients are killed in the middle of a renewal", ALL, 600,
     .strike = strike_kill_asker, .verb = V_RENEW, .mix = "renew=800"},
    {"all-killed", "all clients are killed at once", ALL, 700, .strike = strike_kill_all},
    {"client-stopped", "clients are stopped past their leases and go on", ALL, 250,
     .strike = strike_stop_client, .mix = "guarded=1000"},
    {"clock-stepped", "the server's clock is stepped by 300 s", ALL, 500, .strike = strike_clock,
     .wants = ENGINE_CLOCK, .harm = 2, .mix = "forget=0"},
    {"disk-full", "the disk is full for a while", ALL, 300, .strike = strike_disk_full,
     .wants = ENGINE_SMALL_DISK, .harm = 1, .allow = "SQLOCK_EFULL SQLOCK_EDB"},
    {"housekeeping", "reapers and migrators work at the same time", ALL, 300,
     .strike = strike_housekeeping, .mix = "reap=10"},
    {"server-killed", "the server is killed and started again", SERVERS, 700,
     .strike = strike_kill_server, .harm = 1},
    {"server-stopped", "the server is stopped for one or two leases", SERVERS, 500,
     .strike = strike_stop_server, .harm = 1},
    {"session-ended", "an administrator ends all sessions", SERVERS, 400,
     .strike = strike_end_sessions},
    {"deadlock", "others lock the same rows in the opposite order", SERVERS, 100,
     .strike = strike_deadlock, .mix = "guarded=800"},
    {"serializable", "all transactions become serializable", SERVERS, 300,
     .strike = strike_serializable},
    {"rows-locked", "others keep the rows of all locks locked", SERVERS, 500,
     .strike = strike_lock_timeout},
    {"link-reset", "links are reset at a random byte", SERVERS, 40, .strike = strike_reset,
     .proxied = true},
    {"reply-cut", "replies are cut after what they answer was done", SERVERS, 25,
     .strike = strike_cut_reply, .proxied = true},
    {"silent-up", "no request reaches the server", SERVERS, 400, .strike = strike_silence,
     .mode = PROXY_HOLD_UP, .proxied = true},
    {"silent-down", "no reply leaves the server", SERVERS, 400, .strike = strike_silence,
     .mode = PROXY_HOLD_DOWN, .proxied = true},
    {"delayed", "all that is sent comes late, at uneven times", SERVERS, 300,
     .strike = strike_delay, .proxied = true},
    {"dribbled", "all that is sent comes in pieces of a few bytes", SERVERS, 300,
     .strike = strike_dribble, .proxied = true},
    {"writer-killed", "clients are killed in the middle of a write", FILES, 300,
     .strike = strike_kill_writer},
    {"foreign-writer", "others keep the file for writing", FILES, 400, .strike = strike_keep,
     .sql = "BEGIN IMMEDIATE"},
    {"foreign-reader", "others read the file for long", FILES, 400, .strike = strike_keep,
     .sql = "BEGIN", .look = "SELECT count(*) FROM sqlock_lock"},
    {"exclusive", "others keep the file for themselves alone", FILES, 400, .strike = strike_keep,
     .sql = "BEGIN EXCLUSIVE"},
    {"checkpoint", "the write-ahead log is emptied again and again", FILES, 60,
     .strike = strike_once, .sql = "PRAGMA wal_checkpoint(TRUNCATE)", .only = "sqlite-wal"},
    {"vacuum", "the file is written anew", FILES, 200, .strike = strike_once, .sql = "VACUUM"},
    {"backup", "the file is copied while it is used", FILES, 200, .strike = strike_backup},
    {"schema-change", "others make and drop tables", FILES, 100, .strike = strike_schema_change},
    {"hot-journal", "others are killed in the middle of a large write", FILES, 300,
     .strike = strike_hot_journal},
    {"failover-sync", "the server is killed, and its synchronous follower promoted", SERVERS, 500,
     .strike = strike_fail_over, .harm = 1, .allow = ALONE,
     .servers = SERVERS_TWO | SERVERS_SYNC | SERVERS_POOLED},
    {"failover-async", "the same with a follower that lacks the last commits", SERVERS, 500,
     .strike = strike_fail_over, .harm = 3, .allow = ALONE, .servers = SERVERS_TWO},
    {"failover-grace", "the same, and clients set a grace", SERVERS, 500,
     .strike = strike_fail_over, .harm = 4, .allow = ALONE, .servers = SERVERS_TWO | SERVERS_GRACE},
    {"promoted-twice", "then that one is killed, and a third promoted that never followed it",
     SERVERS, 500, .strike = strike_promote_twice, .harm = 3, .allow = ALONE,
     .servers = SERVERS_THREE},
    {"failed-back", "then that one is killed, and the first started on its old data", SERVERS, 500,
     .strike = strike_fail_back, .harm = 3, .allow = ALONE, .servers = SERVERS_TWO},
    {"split-brain", "a follower is promoted while the server lives on", SERVERS, 500,
     .strike = strike_split, .harm = 3, .allow = ALONE, .servers = SERVERS_TWO | SERVERS_SIDES},
    {"server-frozen", "the server answers nothing, and its synchronous follower is promoted",
     SERVERS, 500, .strike = strike_freeze, .harm = 1, .allow = ALONE,
     .servers = SERVERS_TWO | SERVERS_SYNC},
    {"failover-haproxy", "haproxy leads to whichever is the primary, and cuts idle links", SERVERS,
     500, .strike = strike_fail_over, .harm = 1, .allow = ALONE,
     .servers = SERVERS_TWO | SERVERS_SYNC | SERVERS_HAPROXY},
};

const struct fault_kind *fault_at(size_t i)
{
    return i < sizeof kinds / sizeof *kinds ? &kinds[i] : NULL;
}

const struct fault_kind *fault_kind_of(const char *word)
{
    for (size_t i = 0; fault_at(i); i++)
        if (strcmp(fault_at(i)->word, word) == 0)
            return fault_at(i);
    return NULL;
}

bool fault_exists(const struct fault_kind *fault, const struct engine_kind *engine)
{
    return (fault->families & engine->family) != 0 &&
           (!fault->only || strcmp(fault->only, engine->name) == 0) &&
           (!fault->servers || (engine->followed &&
                                (!engine->unprepared || (fault->servers & SERVERS_POOLED) != 0))) &&
           (!engine->spared || strcmp(engine->spared, fault->word) != 0);
}

uint32_t fault_number(const struct fault_kind *fault)
{
    return (uint32_t)(fault - kinds);
}
