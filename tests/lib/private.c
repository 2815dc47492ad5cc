#include "tests/lib/private.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/my_private.h"
#include "tests/lib/words.h"

#ifdef TEST_HAVE_POSTGRES
#include <fcntl.h>
#include <sqlock/postgres.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static struct server server;
static char dir[256];

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
    static char *file, *fresh;
    FILE *f;

    if (file == NULL) {
        char *folder = temp_dir();

        if (!faketime_path())
            skip();
        assert_int_equal(chmod(folder, 0755), 0);
        file = textf("%s/clock", folder);
        fresh = textf("%s.new", file);
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

void private_hba(const char *lines)
{
    const char *path = textf("%s/data/pg_hba.conf", private_dir());

    if (system(textf("{ printf '%%s\\n' '%s'; cat '%s'; } >'%s.new' && cat '%s.new' >'%s'", lines,
                     path, path, path, path)) != 0)
        fail_msg("%s could not be written", path);
    private_exec("SELECT pg_reload_conf()");
}

void private_restart(int as_replica)
{
    const char *replica = textf("%s/data/standby.signal", private_dir());

    server_kill(&server);
    if (as_replica)
        close(open(replica, O_CREAT | O_WRONLY, 0644));
    else
        unlink(replica);
    server_again(&server);
}

struct db private_db(const char *schema)
{
    return (struct db){.driver = sqlock_driver_postgres(), .url = private_url(), .schema = schema};
}

struct db private_new(const char *schema)
{
    struct db db = private_db(schema);

    private_exec("DROP SCHEMA IF EXISTS %s CASCADE; CREATE SCHEMA %s", schema, schema);
    db_migrate(db);
    return db;
}

char *private_login(const char *role)
{
    return textf("postgresql:///postgres?host=%s&user=%s", private_dir(), role);
}

#else

void private_clock(__attribute__((unused)) int seconds)
{
    skip();
}

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

/* ---- MariaDB, MySQL -------------------------------------------------------------------------- */

const struct server *my_private_server(void)
{
    static struct server mysql;

    if (!mysql.url[0])
        mysql = server_mysql();
    return &mysql;
}

const char *my_private_url(void)
{
    return my_private_server()->url;
}

const char *my_private_socket(void)
{
    return strstr(my_private_url(), "socket=") + strlen("socket=");
}

void my_private_restart(const char *args)
{
    const char *command =
        textf("SQLOCK_TEST_MYSQL_ARGS='%s' tests/tools/my.sh crash '%s'", args, my_private_url());

    if (system(command) != 0)
        fail_msg("%s", command);
}
