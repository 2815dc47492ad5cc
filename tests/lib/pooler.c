#include "tests/lib/pooler.h"

#include "tests/lib/check.h"

#ifdef TEST_HAVE_POSTGRES
#include <libpq-fe.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/private.h"
#include "tests/lib/words.h"

enum { SESSIONS = 2 }; /* so that all clients get each other's */

static char pooled_url[512];
static pid_t pooler;

struct pooler_start {
    const char *ini;
    uid_t uid;
};

static int run_pooler(void *arg)
{
    struct pooler_start *start = arg;

    if (geteuid() == 0 && (setgid(start->uid) != 0 || setuid(start->uid) != 0))
        return 99;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* becoming another user takes it away */
    signal(SIGQUIT, SIG_DFL);         /* a shell's background jobs ignore it, and it ends by that */
    execlp("pgbouncer", "pgbouncer", "-q", start->ini, (char *)NULL);
    execl("/usr/sbin/pgbouncer", "pgbouncer", "-q", start->ini, (char *)NULL);
    return 98;
}

static void write_config(const char *dir, const char *ini, const char *server_dir, int sessions)
{
    const char *users = textf("%s/users", dir);
    FILE *f;

    assert_non_null(f = fopen(users, "w"));
    fprintf(f, "\"postgres\" \"\"\n");
    fclose(f);
    assert_non_null(f = fopen(ini, "w"));
    fprintf(f,
            "[databases]\npostgres = host=%s port=5432 dbname=postgres user=postgres\n"
            "[pgbouncer]\nlisten_port = 6432\nlisten_addr =\nunix_socket_dir = %s\n"
            "auth_type = trust\nauth_file = %s\npool_mode = transaction\n"
            "default_pool_size = %d\nmax_client_conn = 200\nlogfile = %s/log\n"
            "server_login_retry = 0.2\n", /* else 15 s after the server's start */
            server_dir, dir, users, sessions, dir);
    fclose(f);
}

static bool answers(const char *url)
{
    return PQping(url) == PQPING_OK;
}

const char *pooler_start(const char *server_dir, int sessions)
{
    const char *dir;
    struct passwd *nobody = getpwnam("nobody");
    struct pooler_start start = {NULL, nobody ? nobody->pw_uid : 65534};

    if (access("/usr/sbin/pgbouncer", X_OK) != 0 &&
        system("command -v pgbouncer >/dev/null 2>&1") != 0)
        return NULL;
    dir = temp_dir();
    if (geteuid() == 0 && chown(dir, start.uid, (gid_t)-1) != 0)
        fail_msg("chown failed");
    start.ini = textf("%s/ini", dir);
    write_config(dir, start.ini, server_dir, sessions);
    chmod(dir, 0755);
    pooler = child_start(run_pooler, &start);
    snprintf(pooled_url, sizeof pooled_url,
             "postgresql:///postgres?host=%s&port=6432&user=postgres", dir);
    assert_soon(answers(pooled_url), patience_ms(5000));
    assert_false(child_ended(pooler));
    return pooled_url;
}

const char *pooler_url(void)
{
    private_url();
    if (pooled_url[0] || pooler_start(private_dir(), SESSIONS))
        return pooled_url;
    skip_loudly("no pgbouncer is installed: transaction pooling is not tested");
    return NULL;
}

int pooler_stop(void **state)
{
    (void)state;
    if (pooler > 0) {
        kill(pooler, SIGQUIT); /* from 1.23 on it waits for its clients at SIGTERM */
        child_wait(pooler, 5000);
        pooler = 0;
        pooled_url[0] = '\0';
    }
    return 0;
}

#else
#pragma GCC diagnostic ignored "-Wunused-parameter"

const char *pooler_start(const char *server_dir, int sessions)
{
    return NULL;
}

const char *pooler_url(void)
{
    skip();
    return NULL;
}

int pooler_stop(void **state)
{
    return 0;
}

#endif
