#include "tests/torture/engine.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/check.h"
#include "tests/lib/undo.h"
#include "tests/torture/client_app.h"

/* UNSEEN_MS: nothing in a file shows that a manager was killed. It counts as alive for three
 * seconds after its last sign of life, or until it has let an offer run out, which takes one
 * second. So several that are killed at the same time keep others out for four seconds at most.
 * Judged by the slack of PostgreSQL, which sees the end of a session, one of five runs of
 * all-killed failed. */
enum { UP_MS = 60000, UNSEEN_MS = 4000 };

static const struct engine_kind kinds[] = {
#ifdef TEST_HAVE_SQLITE
    {"sqlite-wal", "sqlite", FAMILY_SQLITE, &engine_sqlite, .variant = "WAL",
     .unseen_ms = UNSEEN_MS},
    {"sqlite-journal", "sqlite", FAMILY_SQLITE, &engine_sqlite, .variant = "TRUNCATE",
     .unseen_ms = UNSEEN_MS},
#endif
#ifdef TEST_HAVE_POSTGRES
    {"postgres", "postgres", FAMILY_POSTGRES, &engine_postgres, .followed = true},
    {"pgbouncer", "postgres", FAMILY_POSTGRES, &engine_postgres, .variant = "pgbouncer",
     .unprepared = true, .followed = true, .unseen_ms = UNSEEN_MS}, /* no session says it */
    {"postgres-10", "postgres", FAMILY_POSTGRES, &engine_postgres, .variant = "10"},
    {"postgres-18", "postgres", FAMILY_POSTGRES, &engine_postgres, .variant = "18",
     .followed = true},
#endif
#ifdef TEST_HAVE_MYSQL
    {"mariadb", "mysql", FAMILY_MYSQL, &engine_mysql, .followed = true},
    {"mysql-5.6", "mysql", FAMILY_MYSQL, &engine_mysql, .variant = "5.6",
     .mix = "guarded=0 late=0 stale=0 row-lock=0", .spared = "disk-full"}, /* tables stay full */
    {"mysql-9", "mysql", FAMILY_MYSQL, &engine_mysql, .variant = "9",
     .spared = "disk-full"}, /* its binlog waits for a minute */
#endif
    {.name = NULL},
};

const struct engine_kind *engine_at(size_t i)
{
    return i < sizeof kinds / sizeof *kinds && kinds[i].name ? &kinds[i] : NULL;
}

const struct engine_kind *engine_kind_of(const char *name)
{
    for (size_t i = 0; engine_at(i); i++)
        if (strcmp(engine_at(i)->name, name) == 0)
            return engine_at(i);
    return NULL;
}

/* What it prints last tells why it failed. */
bool engine_script(struct engine *e, const char *command, char *out, size_t size)
{
    char last[512] = "";
    FILE *f = popen(text("%s 2>&1", command), "r");
    bool fine = f && fgets(out, (int)size, f);

    if (fine)
        snprintf(last, sizeof last, "%s", out);
    while (f && fgets(last, sizeof last, f))
        continue;
    fine = f && pclose(f) == 0 && fine;
    last[strcspn(last, "\n")] = '\0';
    if (fine)
        out[strcspn(out, "\n")] = '\0';
    else
        snprintf(e->why, sizeof e->why, "%s: %.200s", command, last);
    return fine;
}

/* ---- the cell's own session ------------------------------------------------------------------ */

const sqlock_driver *engine_driver(const struct engine *e)
{
    return app_of(e->url)->driver();
}

static void *session(struct engine *e)
{
    if (!e->session)
        e->session = app_of(e->url)->connect(e->url);
    return e->session;
}

__attribute__((format(printf, 2, 0))) static bool ask(struct engine *e, const char *format,
                                                      va_list args, int64_t *out)
{
    char sql[1024];
    int rc = SQLOCK_EUNREACH;

    vsnprintf(sql, sizeof sql, format, args);
    if (session(e))
        rc = app_of(e->url)->exec(e->session, sql, out);
    if (rc == SQLOCK_EUNREACH)
        engine_forget(e);
    return rc == 0;
}

bool engine_exec(struct engine *e, const char *format, ...)
{
    va_list args;
    bool fine;

    va_start(args, format);
    fine = ask(e, format, args, NULL);
    va_end(args);
    return fine;
}

int64_t engine_number(struct engine *e, const char *format, ...)
{
    va_list args;
    int64_t n = -1;
    bool fine;

    va_start(args, format);
    fine = ask(e, format, args, &n);
    va_end(args);
    return fine ? n : -1;
}

void engine_forget(struct engine *e)
{
    if (e->session)
        app_of(e->url)->close(e->session);
    e->session = NULL;
}

/* ---- the server's processes ------------------------------------------------------------------ */

/* A process that is stopped already reports no second stop. */
static void engine_freeze(struct engine *e)
{
    if (e->stopped)
        return;
    kill(e->server, SIGSTOP);
    waitpid(e->server, NULL, WUNTRACED);
    e->stopped = true;
}

void engine_kill(struct engine *e)
{
    if (!e->server)
        return;
    /* So that it has no child behind our back: one that lives on, and waits for what another held
     * when that was killed, keeps every new server out for ever. */
    engine_freeze(e);
    child_signal_all_of(e->server, SIGKILL);
    kill(e->server, SIGKILL);
    waitpid(e->server, NULL, 0);
    e->server = 0;
    e->stopped = false;
    engine_forget(e);
}

/* A signal to process 0 would be one to this test. */
void engine_pause(struct engine *e, bool stopped)
{
    if (!e->server)
        return;
    if (stopped)
        engine_freeze(e);
    child_signal_all_of(e->server, stopped ? SIGSTOP : SIGCONT);
    if (stopped)
        return;
    kill(e->server, SIGCONT);
    e->stopped = false;
}

bool engine_runs(struct engine *e)
{
    if (e->server && waitpid(e->server, NULL, WNOHANG) == e->server)
        e->server = 0;
    return e->server != 0;
}

static void spawn(struct engine *e)
{
    pid_t child = fork();

    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        setpgid(0, 0);
        engine_clock_env(e);
        if (e->args[0])
            setenv("SQLOCK_TEST_MYSQL_ARGS", e->args, 1);
        execl(e->kind->ops->script, e->kind->ops->script, "run", e->url, (char *)NULL);
        _exit(127);
    }
    if (child < 0)
        fail_msg("fork: %s", strerror(errno));
    e->server = child;
}

/* A server that was killed may have left processes that end by themselves, but not at once, and
 * keep a new one out until then. So it is tried again. */
bool engine_launch(struct engine *e)
{
    int64_t end_us = now_us() + UP_MS * INT64_C(1000);

    while (now_us() < end_us) {
        if (!engine_runs(e)) {
            engine_forget(e);
            spawn(e);
            sleep_ms(20);
        }
        if (session(e))
            return true;
        sleep_ms(20);
    }
    fprintf(stderr, "the server of %s did not answer for %d ms\n", e->url, UP_MS);
    shell("tail -n 20 '%s/log' >&2", engine_folder(e)); /* it lies beside the socket */
    return false;
}

/* ---- start and stop -------------------------------------------------------------------------- */

static void stop_server(const char *url)
{
    if (!shell("tests/tools/%s.sh stop '%s'", strncmp(url, "mysql", 5) == 0 ? "my" : "pg", url))
        fprintf(stderr, "the server was not stopped: %s\n", url);
}

/* Scripts make their folders in TMPDIR: so the small disk becomes it, for as long as they do. */
static bool create_server(struct engine *e)
{
    const char *before = getenv("TMPDIR"), *script = e->kind->ops->script;
    char *kept = before ? strdup(before) : NULL;
    bool fine;

    if (e->top[0])
        setenv("TMPDIR", e->top, 1);
    fine = engine_script(e, text("%s %s", script, e->number > 1 ? "folder" : "create"), e->url,
                         sizeof e->url);
    if (fine)
        snprintf(e->dir, sizeof e->dir, "%s", undo_later(stop_server, e->url));
    if (kept)
        setenv("TMPDIR", kept, 1);
    else
        unsetenv("TMPDIR");
    free(kept);
    return fine;
}

static bool create(struct engine *e)
{
    return e->kind->ops->create(e) && (!e->kind->ops->script || create_server(e));
}

bool engine_create(struct engine *e, const struct engine_kind *kind, unsigned wants, int number)
{
    *e = (struct engine){.kind = kind, .wants = wants, .number = number};
    return create(e);
}

const char *engine_folder(const struct engine *e)
{
    const bool mysql = e->kind->family == FAMILY_MYSQL;
    const char *word = mysql ? "socket=" : "host=", *at = strstr(e->url, word) + strlen(word);

    return text("%.*s", (int)strcspn(at, "&") - (mysql ? 2 : 0), at); /* without its "/s" */
}

/* In one piece: at each moment it leads somewhere. */
bool engine_front(struct engine *e)
{
    const char *fresh;

    if (!e->front[0]) {
        char *top = temp_dir();

        chmod(top, 0755);
        snprintf(e->front, sizeof e->front, "%s/primary", top);
    }
    fresh = text("%s.new", e->front);
    unlink(fresh);
    if (symlink(engine_folder(e), fresh) == 0 && rename(fresh, e->front) == 0)
        return true;
    snprintf(e->why, sizeof e->why, "%s: %s", e->front, strerror(errno));
    return false;
}

bool engine_start(struct engine *e, const struct engine_kind *kind, unsigned wants)
{
    const struct engine_ops *ops = kind->ops;

    *e = (struct engine){.kind = kind, .wants = wants, .number = 1};
    app_patience = (struct app_patience){.connect_s = 10, .answer_s = 60, .busy_ms = 5000};
    if (!engine_machine(e) || !create(e))
        return false;
    snprintf(e->client_url, sizeof e->client_url, "%s", e->url);
    return (!ops->script || engine_launch(e)) && ops->prepare(e);
}

void engine_stop(struct engine *e)
{
    engine_forget(e);
    if (e->kind && e->kind->ops->end)
        e->kind->ops->end();
    if (e->kind && e->kind->ops->script && e->dir[0])
        stop_server(e->url);
    e->dir[0] = '\0';
    if (e->server)
        waitpid(e->server, NULL, 0);
    e->server = 0;
    engine_machine_end(e);
}
