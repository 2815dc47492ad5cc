#include "tests/torture/engine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/check.h"
#include "tests/lib/undo.h"

enum { DISK_MB = 240, UP_MS = 60000 };

static const struct engine_kind kinds[] = {
#ifdef TEST_HAVE_SQLITE
    {"sqlite-wal", "sqlite", "SQLite, WAL", FAMILY_SQLITE, &engine_sqlite, "WAL", false, false,
     NULL, NULL, false},
    {"sqlite-journal", "sqlite", "SQLite, rollback journal", FAMILY_SQLITE, &engine_sqlite,
     "TRUNCATE", false, false, NULL, NULL, false},
#endif
#ifdef TEST_HAVE_POSTGRES
    {"postgres", "postgres", "PostgreSQL", FAMILY_POSTGRES, &engine_postgres, NULL, false, false,
     NULL, NULL, true},
    {"pgbouncer", "postgres", "PostgreSQL behind pgbouncer", FAMILY_POSTGRES, &engine_postgres,
     "pgbouncer", true, true, NULL, NULL, true},
    {"postgres-10", "postgres", "PostgreSQL 10", FAMILY_POSTGRES, &engine_postgres, "10", false,
     true, NULL, NULL, false},
    {"postgres-18", "postgres", "PostgreSQL 18", FAMILY_POSTGRES, &engine_postgres, "18", false,
     true, NULL, NULL, true},
#endif
#ifdef TEST_HAVE_MYSQL
    {"mariadb", "mysql", "MariaDB", FAMILY_MYSQL, &engine_mysql, NULL, false, false, NULL, NULL,
     true},
    {"mysql-5.6", "mysql", "MySQL 5.6", FAMILY_MYSQL, &engine_mysql, "5.6", false, true,
     "guarded=0 late=0 stale=0 row-lock=0", "disk-full", false}, /* its tables stay full */
    {"mysql-9", "mysql", "MySQL 9", FAMILY_MYSQL, &engine_mysql, "9", false, true, NULL, NULL,
     false},
#endif
    {NULL, NULL, NULL, FAMILY_SQLITE, NULL, NULL, false, true, NULL, NULL, false},
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

bool engine_script(struct engine *e, const char *script, const char *words, char *out, size_t size)
{
    char command[1400], last[512] = "";
    FILE *f;
    bool fine;

    snprintf(command, sizeof command, "%s %s 2>&1", script, words);
    f = popen(command, "r");
    fine = f && fgets(out, (int)size, f);
    if (fine)
        snprintf(last, sizeof last, "%s", out);
    while (f && fgets(last, sizeof last, f))
        continue;
    fine = f && pclose(f) == 0 && fine;
    last[strcspn(last, "\n")] = '\0';
    if (fine)
        out[strcspn(out, "\n")] = '\0';
    else /* the last line tells why */
        snprintf(e->why, sizeof e->why, "%s %s: %.200s", script, words, last);
    return fine;
}

/* ---- the small disk and the clock --------------------------------------------------------------
 */

static void unmount(const char *top)
{
    if (umount2(top, MNT_DETACH) != 0)
        fprintf(stderr, "%s was not unmounted: %s\n", top, strerror(errno));
}

/* Scripts make their folders in TMPDIR: so the small disk becomes it, for as long as they do. */
static bool mount_small_disk(struct engine *e)
{
    char options[32];

    snprintf(e->top, sizeof e->top, "%s", temp_dir());
    snprintf(options, sizeof options, "size=%dm,mode=1777", DISK_MB);
    if (mount("tmpfs", e->top, "tmpfs", 0, options) == 0) {
        undo_later(unmount, e->top);
        return true;
    }
    snprintf(e->why, sizeof e->why, "a small disk cannot be mounted: %s", strerror(errno));
    return false;
}

static bool make_clock(struct engine *e)
{
    char *dir = temp_dir();

    if (e->kind->ops->script && !faketime_path()) {
        snprintf(e->why, sizeof e->why, "no libfaketime is installed (package faketime)");
        return false;
    }
    chmod(dir, 0755);
    snprintf(e->clock, sizeof e->clock, "%s/clock", dir);
    engine_clock(e, 0);
    return true;
}

/* SQLite's clients look into the file without reading it: it stays the same file. */
static bool put_number(const char *path, int64_t ms)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    bool fine = fd >= 0 && write(fd, &ms, sizeof ms) == sizeof ms;

    if (fd >= 0)
        close(fd);
    return fine;
}

/* In one piece: a reader that finds half of it would see the true time. */
void engine_clock(struct engine *e, int seconds)
{
    char fresh[340];
    FILE *f;

    if (!e->kind->ops->script) {
        if (!put_number(e->clock, seconds * INT64_C(1000)))
            fail_msg("%s: %s", e->clock, strerror(errno));
        return;
    }
    snprintf(fresh, sizeof fresh, "%s.new", e->clock);
    f = fopen(fresh, "w");
    if (!f || fprintf(f, "%+d\n", seconds) < 0 || fclose(f) != 0 || rename(fresh, e->clock) != 0)
        fail_msg("%s: %s", fresh, strerror(errno));
}

/* Monotonic clocks stay true: no machine steps them. */
static void clock_env(const struct engine *e)
{
    if (!(e->wants & ENGINE_CLOCK))
        return;
    setenv("SQLOCK_TEST_PRELOAD", faketime_path(), 1);
    setenv("FAKETIME_TIMESTAMP_FILE", e->clock, 1);
    setenv("FAKETIME_NO_CACHE", "1", 1);
    setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1", 1);
}

/* A server's clock is its own. */
void engine_env(const struct engine *e)
{
    if (!e->kind->ops->script && (e->wants & ENGINE_CLOCK))
        setenv("TORTURE_CLOCK", e->clock, 1);
}

/* What libfaketime keeps for a process is left behind when that is killed. */
static void remove_clock_litter(void)
{
    DIR *dir = opendir("/dev/shm");

    for (struct dirent *entry; dir && (entry = readdir(dir)) != NULL;) {
        const char *number = strrchr(entry->d_name, '_');
        char path[300];

        if (!strstr(entry->d_name, "faketime_s") || !number)
            continue;
        if (kill((pid_t)strtol(number + 1, NULL, 10), 0) == 0 || errno != ESRCH)
            continue;
        snprintf(path, sizeof path, "/dev/shm/%s", entry->d_name);
        unlink(path);
    }
    if (dir)
        closedir(dir);
}

/* ---- the server's processes -------------------------------------------------------------------
 */

static pid_t parent_of(pid_t pid)
{
    char path[64], line[512] = "";
    const char *end;
    int parent = 0;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    f = fopen(path, "r");
    if (f && fgets(line, sizeof line, f) && (end = strrchr(line, ')')) != NULL)
        sscanf(end + 1, " %*c %d", &parent);
    if (f)
        fclose(f);
    return parent;
}

static void signal_children(pid_t parent, int signal)
{
    DIR *dir = opendir("/proc");

    for (struct dirent *entry; dir && (entry = readdir(dir)) != NULL;) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

        if (pid > 0 && parent_of(pid) == parent)
            kill(pid, signal);
    }
    if (dir)
        closedir(dir);
}

void engine_kill(struct engine *e)
{
    if (!e->server)
        return;
    /* So that it has no child behind our back: one that lives on, and waits for what another held
     * when that was killed, keeps every new server out for ever. */
    kill(e->server, SIGSTOP);
    waitpid(e->server, NULL, WUNTRACED);
    signal_children(e->server, SIGKILL);
    kill(e->server, SIGKILL);
    waitpid(e->server, NULL, 0);
    e->server = 0;
    for (int i = 0; i < ENGINE_SESSIONS; i++)
        engine_forget(e, i);
}

void engine_pause(struct engine *e, bool stopped)
{
    if (stopped) {
        kill(e->server, SIGSTOP);
        waitpid(e->server, NULL, WUNTRACED);
    }
    signal_children(e->server, stopped ? SIGSTOP : SIGCONT);
    if (!stopped)
        kill(e->server, SIGCONT);
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
        clock_env(e);
        if (e->args[0])
            setenv("SQLOCK_TEST_MYSQL_ARGS", e->args, 1);
        execl(e->kind->ops->script, e->kind->ops->script, "run", e->url, (char *)NULL);
        _exit(127);
    }
    if (child < 0)
        fail_msg("fork: %s", strerror(errno));
    e->server = child;
}

/* The end of what the server says of itself: its log lies beside its socket. */
static void put_server_log(const struct engine *e)
{
    const char *folder = strchr(strchr(e->url, '?'), '/');
    int length = (int)strcspn(folder, "&");
    char command[400];

    if (length > 2 && strncmp(folder + length - 2, "/s", 2) == 0)
        length -= 2;
    snprintf(command, sizeof command, "tail -n 20 '%.*s/log' >&2", length, folder);
    if (system(command) != 0)
        fputs("and has no log\n", stderr);
}

/* A server that was killed may have left processes that end by themselves, but not at once, and
 * keep a new one out until then. So it is tried again. */
bool engine_launch(struct engine *e)
{
    int64_t end_us = now_us() + UP_MS * INT64_C(1000);

    while (now_us() < end_us) {
        if (!engine_runs(e)) {
            spawn(e);
            sleep_ms(20);
        }
        if (e->kind->ops->answers(e))
            return true;
        sleep_ms(20);
    }
    fprintf(stderr, "the server of %s did not answer for %d ms\n", e->url, UP_MS);
    put_server_log(e);
    return false;
}

/* ---- start and stop ---------------------------------------------------------------------------
 */

static bool create(struct engine *e)
{
    const char *before = getenv("TMPDIR");
    char *kept = before ? strdup(before) : NULL;
    bool fine;

    if (e->top[0])
        setenv("TMPDIR", e->top, 1);
    fine = e->kind->ops->create(e);
    if (kept)
        setenv("TMPDIR", kept, 1);
    else
        unsetenv("TMPDIR");
    free(kept);
    return fine;
}

bool engine_create(struct engine *e, const struct engine_kind *kind, unsigned wants, int number)
{
    *e = (struct engine){.kind = kind, .wants = wants, .number = number};
    return create(e);
}

void engine_folder(const struct engine *e, char out[256])
{
    const char *word = e->kind->family == FAMILY_MYSQL ? "socket=" : "host=";
    const char *at = strstr(e->url, word) + strlen(word);
    size_t len = strcspn(at, "&");

    snprintf(out, 256, "%.*s", (int)(e->kind->family == FAMILY_MYSQL ? len - 2 : len), at);
}

/* In one piece: at each moment it leads somewhere. */
bool engine_front(struct engine *e)
{
    char dir[256], fresh[270];

    if (!e->front[0]) {
        char *top = temp_dir();

        chmod(top, 0755);
        snprintf(e->front, sizeof e->front, "%s/primary", top);
    }
    engine_folder(e, dir);
    snprintf(fresh, sizeof fresh, "%s.new", e->front);
    unlink(fresh);
    if (symlink(dir, fresh) == 0 && rename(fresh, e->front) == 0)
        return true;
    snprintf(e->why, sizeof e->why, "%s: %s", e->front, strerror(errno));
    return false;
}

bool engine_start(struct engine *e, const struct engine_kind *kind, unsigned wants)
{
    const struct engine_ops *ops = kind->ops;

    *e = (struct engine){.kind = kind, .wants = wants, .number = 1};
    if ((wants & ENGINE_SMALL_DISK) && !mount_small_disk(e))
        return false;
    if ((wants & ENGINE_CLOCK) && !make_clock(e))
        return false;
    if (!create(e))
        return false;
    snprintf(e->client_url, sizeof e->client_url, "%s", e->url);
    return (!ops->script || engine_launch(e)) && ops->prepare(e);
}

void engine_stop(struct engine *e)
{
    for (int i = 0; i < ENGINE_SESSIONS; i++)
        engine_forget(e, i);
    if (e->kind && e->dir[0])
        e->kind->ops->remove(e);
    e->dir[0] = '\0';
    if (e->server)
        waitpid(e->server, NULL, 0);
    e->server = 0;
    if (e->wants & ENGINE_CLOCK)
        remove_clock_litter();
}

/* ---- sessions ---------------------------------------------------------------------------------
 */

bool engine_exec(struct engine *e, int session, const char *sql)
{
    return e->kind->ops->exec(e, session, sql);
}

int64_t engine_number(struct engine *e, const char *sql)
{
    return e->kind->ops->number(e, sql);
}

void engine_forget(struct engine *e, int session)
{
    if (e->session[session])
        e->kind->ops->forget(e, session);
    e->session[session] = NULL;
}

int engine_end_sessions(struct engine *e)
{
    return e->kind->ops->sessions(e, true);
}

int engine_sessions(struct engine *e)
{
    return e->kind->ops->sessions(e, false);
}

/* ---- a full disk ------------------------------------------------------------------------------
 */

static void ballast_path(const struct engine *e, char out[300])
{
    snprintf(out, 300, "%s/ballast", e->top);
}

void engine_fill(struct engine *e)
{
    static const char block[65536];
    size_t size = sizeof block;
    char path[300];
    int fd;

    ballast_path(e, path);
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    while (size >= 512)
        if (write(fd, block, size) != (ssize_t)size)
            size /= 2;
    close(fd);
}

void engine_free(struct engine *e)
{
    char path[300];

    ballast_path(e, path);
    unlink(path);
}
