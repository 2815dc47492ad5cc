#include "tests/torture/fault.h"

#include <string.h>

#define ALL     (FAMILY_SQLITE | FAMILY_POSTGRES | FAMILY_MYSQL)
#define SERVERS (FAMILY_POSTGRES | FAMILY_MYSQL)
#define FILES   FAMILY_SQLITE

static const struct fault_kind kinds[] = {
    {"holder-killed", "clients are killed while they hold locks", ALL, 0, false, 0, 600, "", "",
     strike_kill_holder, NULL},
    {"waiter-killed", "clients are killed while they wait for locks", ALL, 0, false, 0, 600, "", "",
     strike_kill_waiter, NULL},
    {"renewer-killed", "clients are killed in the middle of a renewal", ALL, 0, false, 0, 600, "",
     "renew=800", strike_kill_renewer, NULL},
    {"all-killed", "all clients are killed at once", ALL, 0, false, 0, 700, "", "", strike_kill_all,
     NULL},
    {"client-stopped", "clients are stopped past their leases and go on", ALL, 0, false, 0, 250, "",
     "guarded=1000", strike_stop_client, NULL},
    {"clock-stepped", "the server's clock is stepped by 300 s", ALL, ENGINE_CLOCK, false, 2, 500,
     "", "forget=0", strike_clock, NULL},
    {"disk-full", "the disk is full for a while", ALL, ENGINE_SMALL_DISK, false, 1, 300,
     "SQLOCK_EFULL SQLOCK_EDB", "", strike_disk_full, NULL},
    {"housekeeping", "reapers and migrators work at the same time", ALL, 0, false, 0, 300, "",
     "reap=10", strike_housekeeping, NULL},
    {"server-killed", "the server is killed and started again", SERVERS, 0, false, 1, 700, "", "",
     strike_kill_server, NULL},
    {"server-stopped", "the server is stopped for one or two leases", SERVERS, 0, false, 1, 500, "",
     "", strike_stop_server, NULL},
    {"session-ended", "an administrator ends all sessions", SERVERS, 0, false, 0, 400, "", "",
     strike_end_sessions, NULL},
    {"deadlock", "others lock the same rows in the opposite order", SERVERS, 0, false, 0, 100, "",
     "guarded=800", strike_deadlock, NULL},
    {"serializable", "all transactions become serializable", SERVERS, 0, false, 0, 300, "", "",
     strike_serializable, NULL},
    {"rows-locked", "others keep the rows of all locks locked", SERVERS, 0, false, 0, 500, "", "",
     strike_lock_timeout, NULL},
    {"link-reset", "links are reset at a random byte", SERVERS, 0, true, 0, 40, "", "",
     strike_reset, NULL},
    {"reply-cut", "replies are cut after what they answer was done", SERVERS, 0, true, 0, 25, "",
     "", strike_cut_reply, NULL},
    {"silent-up", "no request reaches the server", SERVERS, 0, true, 0, 400, "", "",
     strike_silence_up, NULL},
    {"silent-down", "no reply leaves the server", SERVERS, 0, true, 0, 400, "", "",
     strike_silence_down, NULL},
    {"delayed", "all that is sent comes late, at uneven times", SERVERS, 0, true, 0, 300, "", "",
     strike_delay, NULL},
    {"dribbled", "all that is sent comes in pieces of a few bytes", SERVERS, 0, true, 0, 300, "",
     "", strike_dribble, NULL},
    {"writer-killed", "clients are killed in the middle of a write", FILES, 0, false, 0, 300, "",
     "", strike_kill_writer, NULL},
    {"foreign-writer", "others keep the file for writing", FILES, 0, false, 0, 400, "", "",
     strike_foreign_writer, NULL},
    {"foreign-reader", "others read the file for long", FILES, 0, false, 0, 400, "", "",
     strike_foreign_reader, NULL},
    {"exclusive", "others keep the file for themselves alone", FILES, 0, false, 0, 400, "", "",
     strike_exclusive, NULL},
    {"checkpoint", "the write-ahead log is emptied again and again", FILES, 0, false, 0, 60, "", "",
     strike_checkpoint, "sqlite-wal"},
    {"vacuum", "the file is written anew", FILES, 0, false, 0, 200, "", "", strike_vacuum, NULL},
    {"backup", "the file is copied while it is used", FILES, 0, false, 0, 200, "", "",
     strike_backup, NULL},
    {"schema-change", "others make and drop tables", FILES, 0, false, 0, 100, "", "",
     strike_schema_change, NULL},
    {"hot-journal", "others are killed in the middle of a large write", FILES, 0, false, 0, 300, "",
     "", strike_hot_journal, NULL},
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
           (!engine->spared || strcmp(engine->spared, fault->word) != 0);
}

uint32_t fault_number(const struct fault_kind *fault)
{
    return (uint32_t)(fault - kinds);
}
