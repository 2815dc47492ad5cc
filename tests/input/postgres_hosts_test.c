/* URLs of PostgreSQL that name several hosts: how many there are, which one is taken, and what
 * becomes of those that are silent, refuse, or are no primary. */
#include <libpq-fe.h>
#include <signal.h>
#include <sqlock/driver.h>
#include <sqlock/postgres.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/lib/check.h"
#include "tests/lib/private.h"

static void need_postgres(void)
{
    if (!test_wants("postgres"))
        skip();
}

/* ---- what a URL names -------------------------------------------------------------------------
 */

static uint32_t count(const char *url, int64_t *out_each)
{
    sqlock_hosts hosts = {.size = sizeof hosts, .n = 1};
    sqlock_error err = {0};

    assert_ok(sqlock_driver_postgres()->hosts(url, &hosts, &err), &err);
    *out_each = hosts.each_us;
    return hosts.n;
}

static void test_hosts_are_counted_as_libpq_reads_them(void **state)
{
    static const struct {
        const char *url;
        uint32_t n;
        int64_t each_s;
    } urls[] = {
        {"postgresql:///db", 1, 0},
        {"postgresql://u:p,q@h1/db", 1, 0},
        {"postgresql://h1,h2,h3/db", 3, 0},
        {"postgresql://u:p@h1:1,h2,[::1]:3/db?connect_timeout=3", 3, 3},
        {"postgres://h1:1,h2/db?connect_timeout=1", 2, 2},
        {"postgresql://h1,h2/db?connect_timeout=0", 2, 0},
        {"postgresql:///db?host=/a,/b&port=1", 2, 0},
        {"postgresql:///db?host=a,b&port=1,2", 2, 0},
        {"postgresql:///db?hostaddr=127.0.0.1,127.0.0.2,127.0.0.3&port=1", 3, 0},
        {"postgresql://a,b/db?hostaddr=127.0.0.1,127.0.0.2", 2, 0},
        {"postgresql:///db?host=a,,b", 3, 0},
        /* libpq refuses them, and says why when it is asked to connect */
        {"postgresql:///db?host=a,b&port=1,2,3", 1, 0},
        {"postgresql://a,b/db?hostaddr=127.0.0.1", 1, 0},
        {"postgresql://[::1/db", 1, 0},
        /* only libpq can go over those without an address */
        {"postgresql://a,b/db?hostaddr=127.0.0.1,", 1, 0},
    };
    int64_t each;

    (void)state;
    need_postgres();
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        if (count(urls[i].url, &each) != urls[i].n || each != urls[i].each_s * 1000000)
            fail_msg("%s: %u hosts, %lld us for each", urls[i].url, count(urls[i].url, &each),
                     (long long)each);
    }
}

static void test_hosts_come_from_environment_and_service_too(void **state)
{
    char *dir = temp_dir(), path[300];
    int64_t each;
    FILE *f;

    (void)state;
    need_postgres();
    setenv("PGHOST", "a,b,c", 1);
    assert_int_equal(count("postgresql:///db", &each), 3);
    assert_int_equal(count("postgresql://h/db", &each), 1);
    unsetenv("PGHOST");
    snprintf(path, sizeof path, "%s/services", dir);
    f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "[two]\nhost=a,b\nport=1,2\nconnect_timeout=4\n");
    fclose(f);
    setenv("PGSERVICEFILE", path, 1);
    assert_int_equal(count("postgresql:///db?service=two", &each), 2);
    assert_int_equal(each, 4000000);
    assert_int_equal(count("postgresql:///db?service=three", &each), 1);
    unsetenv("PGSERVICEFILE");
}

/* What connecting to this host fails with: it tells where it was tried. */
static void assert_goes_to(const char *url, uint32_t host, const char *where)
{
    sqlock_conn_opts o = {.size = sizeof o, .url = url, .wake_fd = -1, .host = host};
    sqlock_error err = {0};
    void *conn = NULL;

    assert_code(SQLOCK_EUNREACH,
                sqlock_driver_postgres()->open(&o, sqlock_now_us() + 3000000, &conn, &err), &err);
    if (strstr(err.text, where) == NULL)
        fail_msg("host %u of %s: \"%s\" does not say \"%s\"", host, url, err.text, where);
    assert_null(strstr(err.text + 20, "connection to server"));
}

static void test_each_host_is_taken_alone_with_its_port(void **state)
{
    (void)state;
    need_postgres();
    assert_goes_to("postgresql:///db?host=/na,/nb,/nc&port=1", 1, "\"/na/.s.PGSQL.1\"");
    assert_goes_to("postgresql:///db?host=/na,/nb,/nc&port=1", 3, "\"/nc/.s.PGSQL.1\"");
    assert_goes_to("postgresql:///db?host=/na,/nb&port=7,8", 2, "\"/nb/.s.PGSQL.8\"");
    assert_goes_to("postgresql:///db?host=/na,/nb&port=7,", 2, "\"/nb/.s.PGSQL.5432\"");
    assert_goes_to("postgresql://127.0.0.1:1,127.0.0.2:2/db", 2, "\"127.0.0.2\", port 2");
    assert_goes_to("postgresql://[::1]:1,127.0.0.3:3/db", 2, "\"127.0.0.3\", port 3");
    assert_goes_to("postgresql://a.invalid,b.invalid/db?hostaddr=127.0.0.1,127.0.0.2&port=1,2", 2,
                   "\"127.0.0.2\", port 2");
    assert_goes_to("postgresql:///db?hostaddr=127.0.0.1,127.0.0.2&port=1,2", 2,
                   "\"127.0.0.2\", port 2");
    /* nothing stands for what it always does; a port that is not there keeps it from being met */
    assert_goes_to("postgresql:///db?host=/na,&port=7,9", 2, ".s.PGSQL.9\"");
}

/* ---- connecting -------------------------------------------------------------------------------
 */

static int try_open(const char *url, int32_t request_ms, sqlock_error *err)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock *m = NULL;
    int rc;

    memset(err, 0, sizeof *err);
    o.schema = "hosts";
    o.request_ms = request_ms;
    rc = sqlock_open(sqlock_driver_postgres(), url, &o, &m, err);
    sqlock_close(m);
    return rc;
}

static void migrated(void)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock_error err = {0};

    private_exec("DROP SCHEMA IF EXISTS hosts CASCADE; CREATE SCHEMA hosts");
    o.schema = "hosts";
    assert_ok(sqlock_migrate(sqlock_driver_postgres(), private_url(), &o, NULL, &err), &err);
}

static char *url_of(const char *first, const char *more)
{
    char *url = NULL;

    assert_true(asprintf(&url, "postgresql:///postgres?host=%s,%s&user=postgres%s", first,
                         private_dir(), more) > 0);
    return url;
}

/* A folder whose socket takes connections, and never answers. */
static char *silent_dir(int *out_fd)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char *dir = temp_dir();

    snprintf(at.sun_path, sizeof at.sun_path, "%s/.s.PGSQL.5432", dir);
    *out_fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(*out_fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(*out_fd, 8), 0);
    return dir;
}

static void test_P8_a_silent_first_host_takes_its_share_alone(void **state)
{
    sqlock_error err;
    int64_t begun;
    char *url;
    int fd;

    (void)state;
    need_postgres();
    migrated();
    url = url_of(silent_dir(&fd), "");
    begun = now_us();
    assert_ok(try_open(url, 3000, &err), &err);
    assert_between(1400000, now_us() - begun, 2900000);
    free(url);
    close(fd);
}

static void test_P8_connect_timeout_is_the_time_of_each(void **state)
{
    sqlock_error err;
    int64_t begun;
    char *url;
    int fd;

    (void)state;
    need_postgres();
    migrated();
    url = url_of(silent_dir(&fd), "&connect_timeout=2");
    begun = now_us();
    assert_ok(try_open(url, 20000, &err), &err);
    assert_between(1900000, now_us() - begun, 2000000 + patience_ms(3000) * INT64_C(1000));
    free(url);
    close(fd);
}

static pid_t postmaster(void)
{
    char path[300];
    long pid = 0;
    FILE *f;

    snprintf(path, sizeof path, "%s/data/postmaster.pid", private_dir());
    f = fopen(path, "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%ld", &pid), 1);
    fclose(f);
    return (pid_t)pid;
}

/* Its other name is what comes first: the same server, once frozen and once not. */
static void test_P8_a_stopped_postmaster_is_as_silent(void **state)
{
    sqlock_error err;
    int64_t begun;
    char *url;
    int rc;

    (void)state;
    need_postgres();
    migrated();
    url = url_of(private_dir(), "");
    begun = now_us();
    assert_int_equal(kill(postmaster(), SIGSTOP), 0);
    rc = try_open(url, 1500, &err);
    kill(postmaster(), SIGCONT);
    assert_code(SQLOCK_EUNREACH, rc, &err);
    assert_between(1400000, now_us() - begun, 1500000 + patience_ms(1000) * INT64_C(1000));
    assert_non_null(strstr(err.text, "host 1: no connection before the deadline"));
    assert_ok(try_open(url, 3000, &err), &err);
    free(url);
}

static void test_a_refused_first_host_costs_nothing(void **state)
{
    sqlock_error err;
    int64_t begun;
    char *url;

    (void)state;
    need_postgres();
    migrated();
    url = url_of(temp_dir(), "");
    begun = now_us();
    assert_ok(try_open(url, 5000, &err), &err);
    assert_between(0, now_us() - begun, patience_ms(1500) * INT64_C(1000));
    free(url);
}

static void test_P18_what_every_host_would_say_is_said_at_once(void **state)
{
    char url[600];
    sqlock_error err;

    (void)state;
    need_postgres();
    snprintf(url, sizeof url, "postgresql:///no_such_db?host=%s,/nowhere&user=postgres",
             private_dir());
    assert_code(SQLOCK_EUNREACH, try_open(url, 5000, &err), &err);
    assert_string_equal(err.sqlstate, "3D000");
    assert_non_null(strstr(err.text, "host 1: "));
    snprintf(url, sizeof url, "postgresql:///postgres?host=%s,/nowhere&user=nobody_here",
             private_dir());
    assert_code(SQLOCK_EDENIED, try_open(url, 5000, &err), &err);
    assert_non_null(strstr(err.text, "host 1: "));
}

static void test_P16_migrations_are_refused_where_opening_is(void **state)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock_error opened, migrated_err = {0};

    (void)state;
    need_postgres();
    migrated();
    private_exec("DROP SCHEMA hosts CASCADE; CREATE SCHEMA hosts");
    private_exec("ALTER SYSTEM SET fsync = off; ");
    private_exec("SELECT pg_reload_conf()");
    assert_soon(private_number("SELECT (current_setting('fsync') = 'off')::int") == 1,
                patience_ms(5000));
    o.schema = "hosts";
    assert_code(SQLOCK_EREFUSED, try_open(private_url(), 3000, &opened), &opened);
    assert_code(SQLOCK_EREFUSED,
                sqlock_migrate(sqlock_driver_postgres(), private_url(), &o, NULL, &migrated_err),
                &migrated_err);
    assert_string_equal(migrated_err.text + strlen("migrate"), opened.text + strlen("open"));
    assert_int_equal(private_number("SELECT count(*) FROM pg_class c, pg_namespace n WHERE n.oid = "
                                    "c.relnamespace AND n.nspname = 'hosts'"),
                     0);
    o.flags = SQLOCK_OPEN_ACCEPT_WEAK;
    memset(&migrated_err, 0, sizeof migrated_err);
    assert_ok(sqlock_migrate(sqlock_driver_postgres(), private_url(), &o, NULL, &migrated_err),
              &migrated_err);
    private_exec("ALTER SYSTEM RESET fsync");
    private_exec("SELECT pg_reload_conf()");
}

/* What is wrong with tables that are there already. */
static void refuses_to_migrate(const char *damage, const char *repair)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock_error opened, err = {0};

    o.schema = "hosts";
    private_exec("%s", damage);
    assert_int_not_equal(try_open(private_url(), 3000, &opened), 0);
    assert_code(opened.code,
                sqlock_migrate(sqlock_driver_postgres(), private_url(), &o, NULL, &err), &err);
    assert_string_equal(err.text + strlen("migrate"), opened.text + strlen("open"));
    assert_int_equal(private_number("SELECT version FROM hosts.sqlock_meta"), 2);
    private_exec("%s", repair);
}

static void test_P16_tables_that_opening_refuses_are_not_migrated(void **state)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock_error err = {0};

    (void)state;
    need_postgres();
    o.schema = "hosts";
    private_exec("DROP SCHEMA IF EXISTS hosts CASCADE; CREATE SCHEMA hosts");
    assert_ok(sqlock_migrate_to(sqlock_driver_postgres(), private_url(), &o, 2, 0, NULL, &err),
              &err);
    refuses_to_migrate("ALTER TABLE hosts.sqlock_lock SET UNLOGGED",
                       "ALTER TABLE hosts.sqlock_lock SET LOGGED");
    refuses_to_migrate("CREATE RULE r AS ON UPDATE TO hosts.sqlock_lock DO INSTEAD NOTHING",
                       "DROP RULE r ON hosts.sqlock_lock");
    refuses_to_migrate("UPDATE hosts.sqlock_meta SET min_reader = min_reader + 1",
                       "UPDATE hosts.sqlock_meta SET min_reader = min_reader - 1");
    refuses_to_migrate("UPDATE hosts.sqlock_meta SET min_reader = min_reader - 1",
                       "UPDATE hosts.sqlock_meta SET min_reader = min_reader + 1");
    assert_ok(sqlock_migrate(sqlock_driver_postgres(), private_url(), &o, NULL, &err), &err);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_hosts_are_counted_as_libpq_reads_them),
    cmocka_unit_test(test_hosts_come_from_environment_and_service_too),
    cmocka_unit_test(test_each_host_is_taken_alone_with_its_port),
    cmocka_unit_test(test_P8_a_silent_first_host_takes_its_share_alone),
    cmocka_unit_test(test_P8_connect_timeout_is_the_time_of_each),
    cmocka_unit_test(test_P8_a_stopped_postmaster_is_as_silent),
    cmocka_unit_test(test_a_refused_first_host_costs_nothing),
    cmocka_unit_test(test_P18_what_every_host_would_say_is_said_at_once),
    cmocka_unit_test(test_P16_migrations_are_refused_where_opening_is),
    cmocka_unit_test(test_P16_tables_that_opening_refuses_are_not_migrated),
};

TEST_MAIN(tests)
