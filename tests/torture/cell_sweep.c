/* What is left when all is over. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/lib/check.h"
#include "tests/torture/cell.h"

enum { SETTLE_MS = 3000 };

/* ---- locks ----------------------------------------------------------------------------------- */

/* The longest lease of a client that died may still run. And in the grace of a waiter that died
 * without a word nobody behind it is granted anything until its three seconds are over. */
static void take_each_name(struct cell *c, sqlock *m)
{
    sqlock_acquire_opts opts = SQLOCK_ACQUIRE_OPTS_INIT;

    opts.wait_ms = c->lease_ms + 4000;
    opts.lease_ms = 5000;
    opts.flags = SQLOCK_NO_RENEW;
    for (int i = 0; i < CELL_NAMES; i++) {
        sqlock_error err = {0};
        sqlock_lock *lock = NULL;
        int64_t end_us = now_us() + opts.wait_ms * INT64_C(1000);
        int rc;

        while ((rc = sqlock_acquire(m, text("n%d", i), &opts, &lock, &err)) == SQLOCK_EREFUSED &&
               now_us() < end_us)
            sleep_ms(20); /* a slot whose holder died is not waited for, but refused */
        if (rc == 0)
            rc = sqlock_release(lock, &err);
        if (rc != 0)
            cell_problem(c, "n%d cannot be had and released when all is over: %s", i, err.text);
        sqlock_lock_free(lock);
    }
}

/* A reaper that was killed keeps its successor out for its lease. */
static void reap(struct cell *c, sqlock *m)
{
    int64_t end_us = now_us() + SETTLE_MS * INT64_C(1000);
    sqlock_reap_opts opts = SQLOCK_REAP_OPTS_INIT;
    sqlock_reap_report report = {.size = sizeof report};
    sqlock_error err = {0};
    int rc;

    opts.grace_ms = 0;
    while ((rc = sqlock_reap(m, &opts, &report, &err)) == 0 && !report.ran && now_us() < end_us)
        sleep_ms(20);
    if (rc != 0 || !report.ran)
        cell_problem(c, "nothing can be reaped when all is over: %s", err.text);
}

static int note_held(const sqlock_info *info, void *user)
{
    struct cell *c = user;

    if (info->held)
        cell_problem(c, "%.*s is held when all is over, with token %" PRId64, (int)info->name_len,
                     info->name, info->holder.token);
    return 0;
}

static void sweep_locks(struct cell *c)
{
    sqlock_open_opts opts = SQLOCK_OPEN_OPTS_INIT;
    sqlock_error err = {0};
    sqlock *m = NULL;

    if (c->kind->unprepared)
        opts.flags = SQLOCK_OPEN_UNPREPARED;
    if (sqlock_open(engine_driver(&c->engine), c->engine.client_url, &opts, &m, &err) != 0) {
        cell_problem(c, "nobody can open the database when all is over: %s", err.text);
        return;
    }
    take_each_name(c, m);
    reap(c, m);
    if (sqlock_list(m, NULL, note_held, c, &err) != 0)
        cell_problem(c, "locks cannot be listed when all is over: %s", err.text);
    sqlock_close(m);
    if (sqlock_migration_verify(engine_driver(&c->engine), c->engine.client_url, NULL, &err) != 0)
        cell_problem(c, "the schema is not whole when all is over: %s", err.text);
}

/* ---- connections and files ------------------------------------------------------------------- */

static void sweep_sessions(struct cell *c)
{
    int64_t end_us = now_us() + SETTLE_MS * INT64_C(1000);
    int n;

    while ((n = c->kind->ops->sessions(&c->engine, false)) != 0 && now_us() < end_us)
        sleep_ms(20);
    if (n != 0)
        cell_problem(c, "%d sessions are left when all is over", n);
}

/* The last one out leaves no journal, or an empty one. */
static void sweep_files(struct cell *c)
{
    static const char *const ends[] = {"-wal", "-journal"};

    engine_forget(&c->engine);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct stat st;

        if (stat(text("%s%s", strchr(c->engine.url, ':') + 1, ends[i]), &st) == 0 && st.st_size > 0)
            cell_problem(c, "a file %s with %lld bytes is left when all is over", ends[i],
                         (long long)st.st_size);
    }
    if (engine_number(&c->engine, "SELECT integrity_check = 'ok' FROM pragma_integrity_check") !=
        1) {
        shell("cp '%s'* '%s'", strchr(c->engine.url, ':') + 1, c->folder);
        cell_problem(c, "the file is damaged, and kept beside the history");
    }
    engine_forget(&c->engine);
}

void cell_sweep(struct cell *c)
{
    sweep_locks(c);
    sweep_sessions(c);
    if (c->kind->family == FAMILY_SQLITE)
        sweep_files(c);
}
