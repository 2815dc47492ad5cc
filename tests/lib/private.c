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

static struct server server;
static char dir[256], bin[256];

const struct server *private_server(void)
{
    if (!server.url[0]) {
        server = server_postgres();
        server_folder(&server, dir);
    }
    return &server;
}

const char *private_url(void)
{
    return private_server()->url;
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
    if (server.url[0])
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

const struct server *private_server(void)
{
    skip();
    return NULL;
}

#endif
