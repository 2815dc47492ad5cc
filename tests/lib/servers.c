#include "tests/lib/servers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/check.h"
#include "tests/lib/undo.h"
#include "tests/lib/words.h"

#define POSTGRES "tests/tools/pg.sh"
#define MYSQL    "tests/tools/my.sh"

static void stop(const char *command)
{
    if (system(command) != 0)
        print_error("a private server was not stopped: %s\n", command);
}

/* Whatever the script prints is the URL of a server that has to go. */
static int make(struct server *s, const char *before, const char *words, const char *of)
{
    FILE *f = popen(textf("%s %s %s '%s'", before, s->tool, words, of), "r");

    if (f == NULL || fgets(s->url, sizeof s->url, f) == NULL)
        s->url[0] = '\0';
    s->url[strcspn(s->url, "\n")] = '\0';
    if (f == NULL || pclose(f) != 0 || s->url[0] == '\0')
        return -1;
    s->end = undo_later(stop, textf("%s stop '%s'", s->tool, s->url));
    return 0;
}

static struct server first(const char *kind, const char *tool, const char *before)
{
    struct server s = {.tool = tool};

    need_driver(kind);
    if (make(&s, before, "start", "") == 0)
        return s;
    skip_loudly("no private server: %s could not start one", tool);
    return s;
}

struct server server_postgres(void)
{
    return first("postgres", POSTGRES, "");
}

/* In /dev/shm MariaDB maps its log into memory, and forgets nothing when it is killed. */
struct server server_mysql(void)
{
    return first("mysql", MYSQL, "TMPDIR=/tmp");
}

struct server server_mysql_with(const char *args)
{
    return first("mysql", MYSQL, textf("SQLOCK_TEST_MYSQL_ARGS='%s'", args));
}

void server_stop(struct server *s)
{
    undo_now(s->end);
}

static bool is_mysql(const struct server *s)
{
    return strcmp(s->tool, MYSQL) == 0;
}

void server_folder(const struct server *s, char out[256])
{
    const char *key = is_mysql(s) ? "socket=" : "host=";
    const char *at = strstr(s->url, key) + strlen(key);

    snprintf(out, 256, "%.*s", (int)strcspn(at, "&"), at);
    if (is_mysql(s))
        *strrchr(out, '/') = '\0';
}

struct server server_copy(const struct server *of)
{
    struct server s = {.tool = of->tool};

    if (make(&s, is_mysql(of) ? "TMPDIR=/tmp" : "", is_mysql(of) ? "copy" : "follow", of->url) != 0)
        fail_msg("%s could not make a copy", of->tool);
    return s;
}

static void tell(const struct server *s, const char *word)
{
    const char *command = textf("%s %s '%s'", s->tool, word, s->url);

    if (system(command) != 0)
        fail_msg("%s", command);
}

void server_promote(const struct server *standby)
{
    tell(standby, "promote");
}

void server_kill(const struct server *s)
{
    tell(s, "kill");
}

void server_again(const struct server *s)
{
    tell(s, "again");
}

#ifdef TEST_HAVE_POSTGRES
#include "tests/lib/pq.h"
#endif
#ifdef TEST_HAVE_MYSQL
#include "tests/lib/my.h"
#endif

static int64_t number_of(const struct server *s, const char *sql)
{
#ifdef TEST_HAVE_MYSQL
    if (is_mysql(s))
        return my_number_at(strstr(s->url, "socket=") + strlen("socket="), sql);
#endif
#ifdef TEST_HAVE_POSTGRES
    int64_t number = -1;

    if (!pq_fetch(s->url, sql, &number))
        fail_msg("a statement of the test failed");
    return number;
#else
    (void)s, (void)sql;
    return -1;
#endif
}

int64_t server_number(const struct server *s, const char *format, ...)
{
    char *sql = NULL;
    int64_t number;
    va_list args;

    va_start(args, format);
    assert_true(vasprintf(&sql, format, args) >= 0);
    va_end(args);
    number = number_of(s, sql);
    free(sql);
    return number;
}

static int64_t loaded_at(const struct server *s)
{
    return server_number(s, "SELECT (extract(epoch FROM pg_conf_load_time()) * 1000000)::bigint");
}

void server_set(const struct server *s, const char *name, const char *value)
{
    int64_t before = loaded_at(s);

    if (value != NULL)
        server_exec(s, "ALTER SYSTEM SET %s = '%s'", name, value);
    else
        server_exec(s, "ALTER SYSTEM RESET %s", name);
    server_exec(s, "SELECT pg_reload_conf()");
    assert_soon(loaded_at(s) > before, patience_ms(5000));
}

/* ---- by SQL ---------------------------------------------------------------------------------- */

void server_cut(const struct server *standby)
{
    server_set(standby, "primary_conninfo", "");
    assert_soon(server_number(standby, "SELECT count(*) FROM pg_stat_wal_receiver") == 0,
                patience_ms(10000));
}

struct server server_branch(const struct server *of)
{
    struct server s;
    int64_t written;

    if (is_mysql(of)) {
        server_kill(of);
        s = server_copy(of);
        server_again(of);
        return s;
    }
    s = server_copy(of);
    written = server_number(of, "SELECT (pg_current_wal_lsn() - '0/0')::bigint");
    assert_soon(server_number(&s, "SELECT (pg_last_wal_replay_lsn() - '0/0')::bigint") >= written,
                patience_ms(10000));
    server_cut(&s);
    return s;
}

void server_take_over(const struct server *copy)
{
    if (is_mysql(copy))
        server_again(copy);
    else
        server_promote(copy);
}
