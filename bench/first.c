/* From nothing to the first grant: in C, beside what connecting alone takes; and by the command,
 * beside the database's own one. */
#include <fcntl.h>
#include <glob.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define TIMES_MAX 100

extern char **environ;

/* ---- in C ------------------------------------------------------------------------------------ */

static double grant_us(const struct bench_db *db)
{
    const int64_t begun = sqlock_now_us();
    sqlock_lock *lock = NULL;
    sqlock_error err;
    sqlock *m = NULL;
    double us;

    if (sqlock_open(db->driver, db->url, NULL, &m, &err) != 0 ||
        sqlock_acquire(m, "bench first", NULL, &lock, &err) != 0)
        bench_die("%s", err.text);
    us = (double)(sqlock_now_us() - begun);
    if (sqlock_lock_end(&lock, &err) != 0)
        bench_die("%s", err.text);
    sqlock_close(m);
    return us;
}

static double two_logins_us(const struct bench_db *db)
{
    const int64_t begun = sqlock_now_us();
    void *one = db->client->login(db->url), *two = db->client->login(db->url);
    double us = (double)(sqlock_now_us() - begun);

    db->client->logout(one);
    db->client->logout(two);
    return us;
}

static double lean_us(const struct bench_db *db)
{
    const int64_t begun = sqlock_now_us();
    void *conn = db->client->login(db->url);
    double us = (double)(bench_lean_first(db, conn) - begun);

    db->client->logout(conn);
    return us;
}

/* ---- by a command ---------------------------------------------------------------------------- */

/* What a distribution calls psql may be a script that looks for it. */
static const char *psql(void)
{
    static glob_t found;

    if (found.gl_pathc == 0 && glob("/usr/lib/postgresql/*/bin/psql", 0, NULL, &found) != 0)
        return "psql";
    return found.gl_pathv[found.gl_pathc - 1];
}

static double command_us(const char *const *argv)
{
    const int64_t begun = sqlock_now_us();
    posix_spawn_file_actions_t files;
    int status = 0;
    pid_t pid;

    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    if (posix_spawnp(&pid, argv[0], &files, NULL, (char *const *)argv, environ) != 0 ||
        waitpid(pid, &status, 0) != pid || status != 0)
        pid = 0;
    posix_spawn_file_actions_destroy(&files);
    return pid != 0 ? (double)(sqlock_now_us() - begun) : -1;
}

static const char *command; /* sqlock */

static double run_us(const struct bench_db *db)
{
    const char *const argv[] = {command, "-U", db->url, "run", "bench first", "true", NULL};
    const double us = command_us(argv);

    if (us < 0)
        bench_die("%s fails", command);
    return us;
}

static double select_us(const struct bench_db *db)
{
    const char *const ask_sqlite[] = {"sqlite3", db->url + strlen("sqlite:"), "select 1", NULL};
    const char *const ask_postgres[] = {psql(), db->url, "-c", "select 1", NULL};

    return command_us(bench_is_sqlite(db) ? ask_sqlite : ask_postgres);
}

static double lean_command_us(const struct bench_db *db)
{
    static char take[BENCH_LEAN_TEXT], give[BENCH_LEAN_TEXT];
    const char *const sqlite[] = {
        "sqlite3", db->url + strlen("sqlite:"), take, ".system true", give, NULL};
    const char *const postgres[] = {psql(),     db->url, "-c", take, "-c",
                                    "\\! true", "-c",    give, NULL};

    bench_lean_text(take, db->client->lean_take, 1);
    bench_lean_text(give, db->client->lean_give, 1);
    return command_us(bench_is_sqlite(db) ? sqlite : postgres);
}

/* ---- both ------------------------------------------------------------------------------------ */

static struct bench_first measure(const struct bench_db *db, int runs, int times,
                                  double (*ours)(const struct bench_db *),
                                  double (*other)(const struct bench_db *))
{
    double us[TIMES_MAX], other_us[TIMES_MAX], ratios[BENCH_RUNS_MAX];
    struct bench_first result = {0};

    bench_lean_prepare(db, 1);
    ours(db); /* programs and files come from the disk once */
    other(db);
    for (int k = 0; k < runs; k++) {
        for (int i = 0; i < times; i++) {
            us[i] = ours(db);
            other_us[i] = other(db);
        }
        result.us = bench_percentile(us, (size_t)times, 0.5); /* the last run's */
        result.other_us = bench_percentile(other_us, (size_t)times, 0.5);
        ratios[k] = result.us / result.other_us;
    }
    bench_lean_clean(db);
    result.ratio = bench_ratio_of(ratios, runs);
    return result;
}

struct bench_first bench_first_grant(const struct bench_db *db, int lean, int runs, int times)
{
    return measure(db, runs, times, lean ? lean_us : grant_us, two_logins_us);
}

struct bench_first bench_command(const struct bench_db *db, const char *program, int locks,
                                 int runs, int times)
{
    command = program;
    if (select_us(db) < 0) /* it is not there */
        return (struct bench_first){0};
    return measure(db, runs, times, run_us, locks ? lean_command_us : select_us);
}
