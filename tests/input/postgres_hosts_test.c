/* URLs of PostgreSQL that name several hosts: how many there are, which one is taken, and what
 * becomes of those that are silent, refuse, or are no primary. */
#include <sqlock/postgres.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/input/hosts.h"
#include "tests/lib/private.h"

static sqlock_error err;

static struct db postgres_migrated(void)
{
    return private_new("hosts");
}

static const char *postgres_socket(void)
{
    return textf("%s/.s.PGSQL.5432", private_dir());
}

static char *postgres_url(const char *user)
{
    return textf("postgresql:///postgres?host=%s,%s&user=%s", proxy_dir(hosts_proxies[0]),
                 proxy_dir(hosts_proxies[1]), user);
}

static void postgres_empty(void)
{
    private_exec("DROP SCHEMA IF EXISTS hosts CASCADE; CREATE SCHEMA hosts");
}

static void postgres_weaken(bool on)
{
    private_set("fsync", on ? "off" : NULL);
}

static int64_t postgres_tables(void)
{
    return private_number("SELECT count(*) FROM pg_tables WHERE schemaname = 'hosts'");
}

static const struct hosts postgres = {
    .driver = sqlock_driver_postgres,
    .migrated = postgres_migrated,
    .socket = postgres_socket,
    .url = postgres_url,
    .user = "postgres",
    .share_ms = 1900,
    .empty = postgres_empty,
    .weaken = postgres_weaken,
    .tables = postgres_tables,
};
HOSTS_TESTS(&postgres)

/* ---- what a URL names -------------------------------------------------------------------------
 */

TEST(test_hosts_are_counted_as_libpq_reads_them)
{
    static const struct named urls[] = {
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
        /* libpq refuses them, and says why when it is to connect */
        {"postgresql:///db?host=a,b&port=1,2,3", 1, 0},
        {"postgresql://a,b/db?hostaddr=127.0.0.1", 1, 0},
        {"postgresql://[::1/db", 1, 0},
        /* only libpq can go over those without an address */
        {"postgresql://a,b/db?hostaddr=127.0.0.1,", 1, 0},
        {0}};

    need_driver("postgres");
    assert_counted(&postgres, urls);
}

TEST(test_hosts_come_from_environment_and_service_too)
{
    char *path = textf("%s/services", temp_dir());
    int64_t each;
    FILE *f;

    need_driver("postgres");
    setenv("PGHOST", "a,b,c", 1);
    assert_int_equal(count_hosts(&postgres, "postgresql:///db", &each), 3);
    assert_int_equal(count_hosts(&postgres, "postgresql://h/db", &each), 1);
    unsetenv("PGHOST");
    assert_non_null(f = fopen(path, "w"));
    fprintf(f, "[two]\nhost=a,b\nport=1,2\nconnect_timeout=4\n");
    fclose(f);
    setenv("PGSERVICEFILE", path, 1);
    assert_int_equal(count_hosts(&postgres, "postgresql:///db?service=two", &each), 2);
    assert_int_equal(each, 4000000);
    assert_int_equal(count_hosts(&postgres, "postgresql:///db?service=three", &each), 1);
    unsetenv("PGSERVICEFILE");
}

/* What connecting to this host fails with: it tells where it was tried. */
static void assert_goes_to(const char *url, uint32_t host, const char *where)
{
    sqlock_conn_opts o = {.size = sizeof o, .url = url, .wake_fd = -1, .host = host};
    void *conn = NULL;

    assert_code(SQLOCK_EUNREACH,
                sqlock_driver_postgres()->open(&o, sqlock_now_us() + 3000000, &conn, &err), &err);
    if (strstr(err.text, where) == NULL)
        fail_msg("host %u of %s: \"%s\" does not say \"%s\"", host, url, err.text, where);
    assert_null(strstr(err.text + 20, "connection to server"));
}

TEST(test_each_host_is_taken_alone_with_its_port)
{
    need_driver("postgres");
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

TEST(test_P8_connect_timeout_is_the_time_of_each)
{
    struct db db;

    db = hosts_two_ways(&postgres, "postgres", 20000);
    db.url = textf("%s&connect_timeout=2", db.url);
    proxy_mode_set(hosts_proxies[0], PROXY_HOLD);
    assert_between(1900000, opened_in(db), 2000000 + patience_ms(3000) * INT64_C(1000));
}

TEST(test_P18_what_every_host_would_say_is_said_at_once)
{
    struct db db;

    db = private_db("hosts");
    db.url = textf("postgresql:///no_such_db?host=%s,/nowhere&user=postgres", private_dir());
    assert_told(SQLOCK_EUNREACH, "host 1: ", db_try(db, &err), &err);
    assert_string_equal(err.sqlstate, "3D000");
}

/* What is wrong with tables that are there already. */
static void refuses_to_migrate(const char *damage, const char *repair)
{
    private_exec("%s", damage);
    assert_int_not_equal(db_try(private_db("hosts"), &err), 0);
    assert_migrating_says_what_opening_says(private_db("hosts"), err.code);
    assert_int_equal(private_number("SELECT version FROM hosts.sqlock_meta"), 2);
    private_exec("%s", repair);
}

TEST(test_P16_tables_that_opening_refuses_are_not_migrated)
{
    postgres_empty();
    assert_ok(db_migrate_to(private_db("hosts"), 2, 0, NULL, &err), &err);
    refuses_to_migrate("ALTER TABLE hosts.sqlock_lock SET UNLOGGED",
                       "ALTER TABLE hosts.sqlock_lock SET LOGGED");
    refuses_to_migrate("CREATE RULE r AS ON UPDATE TO hosts.sqlock_lock DO INSTEAD NOTHING",
                       "DROP RULE r ON hosts.sqlock_lock");
    refuses_to_migrate("UPDATE hosts.sqlock_meta SET min_reader = min_reader + 1",
                       "UPDATE hosts.sqlock_meta SET min_reader = min_reader - 1");
    refuses_to_migrate("UPDATE hosts.sqlock_meta SET min_reader = min_reader - 1",
                       "UPDATE hosts.sqlock_meta SET min_reader = min_reader + 1");
    db_migrate(private_db("hosts"));
}
TEST_MAIN_EACH(NULL, hosts_teardown)
