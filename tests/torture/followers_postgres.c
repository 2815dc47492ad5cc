#include "tests/torture/followers.h"

#ifdef TEST_HAVE_POSTGRES
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define SENDERS "FROM pg_stat_replication"

static bool prepare(struct engine *primary)
{
    (void)primary; /* who may connect may follow */
    return true;
}

/* The last word about a setting counts. Of the same owner as the others: the server removes it. */
static bool adapt(struct engine *e, const struct engine *primary)
{
    char from[256], to[256], command[1600];

    engine_folder(primary, from);
    engine_folder(e, to);
    snprintf(command, sizeof command,
             "cd '%s/data' && rm -f postmaster.pid && cp -a PG_VERSION standby.signal && "
             "{ echo \"unix_socket_directories = '%s'\"; "
             "echo \"primary_conninfo = 'host=%s port=5432 user=postgres'\"; } >>postgresql.conf",
             to, to, from);
    return system(command) == 0;
}

static bool follow(struct engine *e, const struct engine *primary)
{
    (void)e;
    (void)primary;
    return true;
}

static int followers(struct engine *primary)
{
    return (int)engine_number(primary, "SELECT count(*) " SENDERS " WHERE state = 'streaming'");
}

/* Of a copy this setting is the primary's when it was copied, and nobody followed it then. */
static bool ask_synchronous(struct engine *primary)
{
    return engine_exec(primary, "ALTER SYSTEM SET synchronous_standby_names = '*'") &&
           engine_exec(primary, "SELECT pg_reload_conf()");
}

static bool is_synchronous(struct engine *primary)
{
    return engine_number(primary, "SELECT count(*) " SENDERS " WHERE sync_state = 'sync'") > 0;
}

/* Those who send it sleep until they die with the server. */
static void stall(struct engine *primary, struct engine *e)
{
    char sql[128];
    int64_t pid;

    (void)e;
    for (int i = 0;; i++) {
        snprintf(sql, sizeof sql, "SELECT pid " SENDERS " ORDER BY pid LIMIT 1 OFFSET %d", i);
        if ((pid = engine_number(primary, sql)) <= 0)
            return;
        kill((pid_t)pid, SIGSTOP);
    }
}

static bool promote(struct engine *e)
{
    return engine_number(e, "SELECT pg_promote(true, 30)::int") == 1;
}

static void url(const struct engine *const all[], int n, char *out, size_t size)
{
    int used = snprintf(out, size, "postgresql:///postgres?user=postgres&host=");

    for (int i = 0; i < n; i++) {
        char dir[256];

        engine_folder(all[i], dir);
        used += snprintf(out + used, size - (size_t)used, "%s%s", i ? "," : "", dir);
    }
}

const struct follow_ops follow_postgres = {.prepare = prepare,
                                           .adapt = adapt,
                                           .follow = follow,
                                           .followers = followers,
                                           .ask_synchronous = ask_synchronous,
                                           .is_synchronous = is_synchronous,
                                           .stall = stall,
                                           .promote = promote,
                                           .url = url};
#endif
