#include "tests/lib/private.h"

#include "tests/lib/check.h"
#include "tests/lib/undo.h"

#ifdef TEST_HAVE_POSTGRES
#include <fcntl.h>
#include <grp.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char url[256], dir[256], bin[256];

static void stop_server(const char *what)
{
    char command[512];

    snprintf(command, sizeof command, "tests/tools/pg.sh stop '%s'", what);
    if (system(command) != 0)
        fprintf(stderr, "the private server was not stopped: %s\n", what);
}

static void start_server(void)
{
    FILE *f = popen("tests/tools/pg.sh start", "r");
    const char *host;

    if (!f || !fgets(url, sizeof url, f))
        url[0] = '\0';
    if (f && pclose(f) != 0)
        url[0] = '\0';
    url[strcspn(url, "\n")] = '\0';
    host = strstr(url, "host=");
    if (!host) {
        print_error("SKIP: no private PostgreSQL: tests/tools/pg.sh could not start one\n");
        if (test_strict())
            fail_msg("STRICT=1 asks for every test");
        skip();
    }
    snprintf(dir, sizeof dir, "%.*s", (int)strcspn(host + 5, "&"), host + 5);
    undo_later(stop_server, url);
}

const char *private_url(void)
{
    if (!test_wants("postgres"))
        skip();
    if (!url[0])
        start_server();
    return url;
}

/* Monotonic clocks stay true: no machine steps them. The file is replaced in one piece: a reader
 * that finds half of it would see the true time. */
void private_clock(int seconds)
{
    static char file[300], fresh[310];
    FILE *f;

    if (!file[0]) {
        char *folder = temp_dir();

        if (!faketime_path())
            skip();
        assert_int_equal(chmod(folder, 0755), 0);
        snprintf(file, sizeof file, "%s/clock", folder);
        snprintf(fresh, sizeof fresh, "%s.new", file);
    }
    f = fopen(fresh, "w");
    assert_true(f && fprintf(f, "%+d\n", seconds) > 0 && fclose(f) == 0);
    assert_true(chmod(fresh, 0644) == 0 && rename(fresh, file) == 0);
    if (url[0])
        return;
    setenv("SQLOCK_TEST_PRELOAD", faketime_path(), 1);
    setenv("FAKETIME_TIMESTAMP_FILE", file, 1);
    setenv("FAKETIME_NO_CACHE", "1", 1);
    setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1", 1);
    private_url();
    unsetenv("SQLOCK_TEST_PRELOAD");
}

const char *private_dir(void)
{
    private_url();
    return dir;
}

__attribute__((format(printf, 2, 0))) static PGresult *ask(PGconn *c, const char *format,
                                                           va_list args)
{
    char *sql = NULL;
    PGresult *res;

    assert_true(vasprintf(&sql, format, args) > 0);
    res = PQexec(c, sql);
    if (PQresultStatus(res) != PGRES_COMMAND_OK && PQresultStatus(res) != PGRES_TUPLES_OK)
        fail_msg("%s\n%s", sql, PQerrorMessage(c));
    free(sql);
    return res;
}

void private_exec(const char *format, ...)
{
    PGconn *c = PQconnectdb(private_url());
    va_list args;

    PQclear(PQexec(c, "SET client_min_messages = error"));
    va_start(args, format);
    PQclear(ask(c, format, args));
    va_end(args);
    PQfinish(c);
}

int64_t private_number(const char *format, ...)
{
    PGconn *c = PQconnectdb(private_url());
    PGresult *res;
    va_list args;
    int64_t number = -1;

    va_start(args, format);
    res = ask(c, format, args);
    va_end(args);
    if (PQntuples(res) > 0 && !PQgetisnull(res, 0, 0))
        number = strtoll(PQgetvalue(res, 0, 0), NULL, 10);
    PQclear(res);
    PQfinish(c);
    return number;
}

struct program {
    char *const *argv;
    struct stat owner;
};

static int become_and_run(void *arg)
{
    struct program *p = arg;
    int null = open("/dev/null", O_RDWR);

    dup2(null, 0);
    dup2(null, 1);
    if (!getenv("SQLOCK_TEST_VERBOSE"))
        dup2(null, 2);
    if (geteuid() == 0 &&
        (setgroups(0, NULL) != 0 || setgid(p->owner.st_gid) != 0 || setuid(p->owner.st_uid) != 0))
        return 99;
    if (chdir("/") == 0)
        execvp(p->argv[0], p->argv);
    _exit(127);
}

int run_as_owner(const char *path, char *const argv[], int wait_ms)
{
    struct program p = {.argv = argv};

    if (stat(path, &p.owner) != 0)
        fail_msg("%s is not there", path);
    return child_wait(child_start(become_and_run, &p), wait_ms);
}

void private_hba(const char *lines)
{
    char path[512], command[4096];

    snprintf(path, sizeof path, "%s/data/pg_hba.conf", private_dir());
    snprintf(command, sizeof command,
             "{ printf '%%s\\n' '%s'; cat '%s'; } >'%s.new' && cat '%s.new' >'%s'", lines, path,
             path, path, path);
    assert_int_equal(system(command), 0);
    private_exec("SELECT pg_reload_conf()");
}

static void find_bin(void)
{
    PGconn *c = PQconnectdb(private_url());
    PGresult *res = PQexec(c, "SELECT setting FROM pg_config() WHERE name = 'BINDIR'");

    assert_int_equal(PQntuples(res), 1);
    snprintf(bin, sizeof bin, "%s/pg_ctl", PQgetvalue(res, 0, 0));
    PQclear(res);
    PQfinish(c);
}

/* pg_ctl's command, by the server's user; its result. The server must have run before. */
static int control(char *command)
{
    char data[300], log[300];
    char *argv[] = {bin,  "-s", "-w", "-t", "20",    "-m", "fast",
                    "-D", data, "-l", log,  command, NULL};

    snprintf(data, sizeof data, "%s/data", private_dir());
    snprintf(log, sizeof log, "%s/log", private_dir());
    return run_as_owner(data, argv, 30000);
}

void private_restart(int as_replica)
{
    char signal_path[400];

    find_bin();
    snprintf(signal_path, sizeof signal_path, "%s/data/standby.signal", private_dir());
    if (as_replica)
        close(open(signal_path, O_CREAT | O_WRONLY, 0644));
    else
        unlink(signal_path);
    assert_int_equal(control("restart"), 0);
}

#else

const char *private_url(void)
{
    skip();
    return "";
}

#endif
