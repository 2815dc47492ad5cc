#include "tests/torture/fault.h"

#include <string.h>

#define ALL     (FAMILY_SQLITE | FAMILY_POSTGRES | FAMILY_MYSQL)
#define SERVERS (FAMILY_POSTGRES | FAMILY_MYSQL)
#define FILES   FAMILY_SQLITE

/* Where nobody is the primary for a moment, who answers can only be read. */
#define ALONE "SQLOCK_EREADONLY SQLOCK_EREFUSED 78"

static const struct fault_kind kinds[] = {
    {"holder-killed", "clients are killed while they hold locks", ALL, 0, false, 0, 600, "", "",
     strike_kill_holder, NULL, 0},
    {"waiter-killed", "clients are killed while they wait for locks", ALL, 0, false, 0, 600, "", "",
     strike_kill_waiter, NULL, 0},
    {"renewer-killed", "clients are killed in the middle of a renewal", ALL, 0, false, 0, 600, "",
     "renew=800", strike_kill_renewer, NULL, 0},
    {"all-killed", "all clients are killed at once", ALL, 0, false, 0, 700, "", "", strike_kill_all,
     NULL, 0},
    {"client-stopped", "clients are stopped past their leases and go on", ALL, 0, false, 0, 250, "",
     "guarded=1000", strike_stop_client, NULL, 0},
    {"clock-stepped", "the server's clock is stepped by 300 s", ALL, ENGINE_CLOCK, false, 2, 500,
     "", "forget=0", strike_clock, NULL, 0},
    {"disk-full", "the disk is full for a while", ALL, ENGINE_SMALL_DISK, false, 1, 300,
     "SQLOCK_EFULL SQLOCK_EDB", "", strike_disk_full, NULL, 0},
    {"housekeeping", "reapers and migrators work at the same time", ALL, 0, false, 0, 300, "",
     "reap=10", strike_housekeeping, NULL, 0},
    {"server-killed", "the server is killed and started again", SERVERS, 0, false, 1, 700, "", "",
     strike_kill_server, NULL, 0},
    {"server-stopped", "the server is stopped for one or two leases", SERVERS, 0, false, 1, 500, "",
     "", strike_stop_server, NULL, 0},
    {"session-ended", "an administrator ends all sessions", SERVERS, 0, false, 0, 400, "", "",
     strike_end_sessions, NULL, 0},
    {"deadlock", "others lock the same rows in the opposite order", SERVERS, 0, false, 0, 100, "",
     "guarded=800", strike_deadlock, NULL, 0},
    {"serializable", "all transactions become serializable", SERVERS, 0, false, 0, 300, "", "",
     strike_serializable, NULL, 0},
    {"rows-locked", "others keep the rows of all locks locked", SERVERS, 0, false, 0, 500, "", "",
     strike_lock_timeout, NULL, 0},
    {"link-reset", "links are reset at a random byte", SERVERS, 0, true, 0, 40, "", "",
     strike_reset, NULL, 0},
    {"reply-cut", "replies are cut after what they answer was done", SERVERS, 0, true, 0, 25, "",
     "", strike_cut_reply, NULL, 0},
    {"silent-up", "no request reaches the server", SERVERS, 0, true, 0, 400, "", "",
     strike_silence_up, NULL, 0},
    {"silent-down", "no reply leaves the server", SERVERS, 0, true, 0, 400, "", "",
     strike_silence_down, NULL, 0},
    {"delayed", "all that is sent comes late, at uneven times", SERVERS, 0, true, 0, 300, "", "",
     strike_delay, NULL, 0},
    {"dribbled", "all that is sent comes in pieces of a few bytes", SERVERS, 0, true, 0, 300, "",
     "", strike_dribble, NULL, 0},
    {"writer-killed", "clients are killed in the middle of a write", FILES, 0, false, 0, 300, "",
     "", strike_kill_writer, NULL, 0},
    {"foreign-writer", "others keep the file for writing", FILES, 0, false, 0, 400, "", "",
     strike_foreign_writer, NULL, 0},
    {"foreign-reader", "others read the file for long", FILES, 0, false, 0, 400, "", "",
     strike_foreign_reader, NULL, 0},
    {"exclusive", "others keep the file for themselves alone", FILES, 0, false, 0, 400, "", "",
     strike_exclusive, NULL, 0},
    {"checkpoint", "the write-ahead log is emptied again and again", FILES, 0, false, 0, 60, "", "",
     strike_checkpoint, "sqlite-wal", 0},
    {"vacuum", "the file is written anew", FILES, 0, false, 0, 200, "", "", strike_vacuum, NULL, 0},
    {"backup", "the file is copied while it is used", FILES, 0, false, 0, 200, "", "",
     strike_backup, NULL, 0},
    {"schema-change", "others make and drop tables", FILES, 0, false, 0, 100, "", "",
     strike_schema_change, NULL, 0},
    {"hot-journal", "others are killed in the middle of a large write", FILES, 0, false, 0, 300, "",
     "", strike_hot_journal, NULL, 0},
    {"failover-sync", "the server is killed, and its synchronous follower promoted", SERVERS, 0,
     false, 1, 500, ALONE, "", strike_fail_over, NULL, SERVERS_TWO | SERVERS_SYNC | SERVERS_POOLED},
    {"failover-async", "the same with a follower that lacks the last commits", SERVERS, 0, false, 3,
     500, ALONE, "", strike_fail_over, NULL, SERVERS_TWO},
    {"failover-grace", "the same, and clients ask for a grace", SERVERS, 0, false, 4, 500, ALONE,
     "", strike_fail_over, NULL, SERVERS_TWO | SERVERS_GRACE},
    {"promoted-twice", "then that one is killed, and a third promoted that never followed it",
     SERVERS, 0, false, 3, 500, ALONE, "", strike_promote_twice, NULL, SERVERS_THREE},
    {"failed-back", "then that one is killed, and the first started on its old data", SERVERS, 0,
     false, 3, 500, ALONE, "", strike_fail_back, NULL, SERVERS_TWO},
    {"split-brain", "a follower is promoted while the server lives on", SERVERS, 0, false, 3, 500,
     ALONE, "", strike_split, NULL, SERVERS_TWO | SERVERS_SIDES},
    {"server-frozen", "the server answers nothing, and its synchronous follower is promoted",
     SERVERS, 0, false, 1, 500, ALONE, "", strike_freeze, NULL, SERVERS_TWO | SERVERS_SYNC},
    {"failover-haproxy", "haproxy leads to whichever is the primary, and cuts idle links", SERVERS,
     0, false, 1, 500, ALONE, "", strike_fail_over, NULL,
     SERVERS_TWO | SERVERS_SYNC | SERVERS_HAPROXY},
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
