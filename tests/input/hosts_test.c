/* URLs that name several hosts: how many there are, which one is taken, and what becomes of those
 * that are silent, refuse, or cannot grant. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/input/mysql_open.h"
#include "tests/lib/my_private.h"
#include "tests/lib/private.h"
#include "tests/lib/proxy.h"

static __attribute__((unused)) sqlock_error err;

/* What sets the databases apart. All of it is about the private server. */
struct hosts {
    const sqlock_driver *(*driver)(void);
    struct db (*migrated)(void);
    const char *(*socket)(void);
    char *(*url)(const char *user); /* by the two proxies */
    const char *user;               /* who may do everything */
    int32_t share_ms; /* the first of two hosts has at least so much of a request of 4 s */
    const struct server *(*server)(void);
    const char *empty, *tables; /* SQL that removes our tables, and that counts them */
    void (*weaken)(bool on);    /* it may forget commits */
};

static struct proxy *proxies[2]; /* two ways to that server */

static int teardown(__attribute__((unused)) void **state)
{
    for (int i = 0; i < 2; i++) {
        proxy_stop(proxies[i]);
        proxies[i] = NULL;
    }
    return 0;
}

/* ---- what sets the databases apart ----------------------------------------------------------- */

#ifdef TEST_HAVE_MYSQL
#include <sqlock/mysql.h>

static char *mysql_url(const char *user)
{
    return textf("mysql://%s@127.0.0.1:%d,127.0.0.1:%d/test", user, proxy_port(proxies[0]),
                 proxy_port(proxies[1]));
}

static void mysql_weaken(bool on)
{
    my_private_exec("SET GLOBAL innodb_flush_log_at_trx_commit = %d", on ? 2 : 1);
}

static const struct hosts mysql = {
    .driver = sqlock_driver_mysql,
    .migrated = mysql_migrated,
    .socket = my_private_socket,
    .url = mysql_url,
    .user = "root",
    .share_ms = 900,
    .server = my_private_server,
    .empty = "DROP DATABASE IF EXISTS test; CREATE DATABASE test",
    .tables = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'test'",
    .weaken = mysql_weaken,
};

#define ON_MYSQL(test)                                                                             \
    TEST(test_mysql_##test)                                                                        \
    {                                                                                              \
        test(&mysql);                                                                              \
    }
#else
#define ON_MYSQL(test)
#endif

#ifdef TEST_HAVE_POSTGRES
#include <sqlock/postgres.h>

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
    return textf("postgresql:///postgres?host=%s,%s&user=%s", proxy_dir(proxies[0]),
                 proxy_dir(proxies[1]), user);
}

static void postgres_weaken(bool on)
{
    private_set("fsync", on ? "off" : NULL);
}

static const struct hosts postgres = {
    .driver = sqlock_driver_postgres,
    .migrated = postgres_migrated,
    .socket = postgres_socket,
    .url = postgres_url,
    .user = "postgres",
    .share_ms = 1900,
    .server = private_server,
    .empty = "DROP SCHEMA IF EXISTS hosts CASCADE; CREATE SCHEMA hosts",
    .tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'hosts'",
    .weaken = postgres_weaken,
};

#define ON_POSTGRES(test)                                                                          \
    TEST(test_postgres_##test)                                                                     \
    {                                                                                              \
        test(&postgres);                                                                           \
    }
#else
#define ON_POSTGRES(test)
#endif

#define ON_BOTH(test) ON_MYSQL(test) ON_POSTGRES(test)

#if defined TEST_HAVE_MYSQL || defined TEST_HAVE_POSTGRES
/* ---- what both do ---------------------------------------------------------------------------- */

/* The server, migrated, by the proxies. */
static struct db hosts_two_ways(const struct hosts *h, const char *user, int32_t request_ms)
{
    struct db db = h->migrated();

    for (int i = 0; i < 2; i++)
        proxies[i] = proxy_start_unix(h->socket());
    db.url = h->url(user);
    db.request_ms = request_ms;
    return db;
}

/* How many hosts a URL names, and how long each may take. */
static uint32_t count_hosts(const struct hosts *h, const char *url, int64_t *out_each_us)
{
    sqlock_hosts hosts = {.size = sizeof hosts, .n = 1};

    assert_ok(h->driver()->hosts(url, &hosts, &err), &err);
    *out_each_us = hosts.each_us;
    return hosts.n;
}

/* The last line ends with NULL. */
struct named {
    const char *url;
    uint32_t n;
    int64_t each_s;
};

static void assert_counted(const struct hosts *h, const struct named *urls)
{
    for (; urls->url != NULL; urls++) {
        int64_t each;
        uint32_t n = count_hosts(h, urls->url, &each);

        if (n != urls->n || each != urls->each_s * 1000000)
            fail_msg("%s: %u hosts, %lld us for each", urls->url, n, (long long)each);
    }
}

/* How long a good opening takes, in microseconds; else the test fails. */
static int64_t opened_in(struct db db)
{
    int64_t begun = now_us();

    assert_ok(db_try(db, &err), &err);
    return now_us() - begun;
}

static void P8_a_silent_first_host_takes_its_share_alone(const struct hosts *h)
{
    struct db db = hosts_two_ways(h, h->user, 4000);

    proxy_mode_set(proxies[0], PROXY_HOLD);
    assert_between(h->share_ms * INT64_C(1000), opened_in(db), 3900000);
}
ON_BOTH(P8_a_silent_first_host_takes_its_share_alone)

static void a_refused_first_host_costs_nothing(const struct hosts *h)
{
    struct db db = hosts_two_ways(h, h->user, 5000);

    proxy_refuse(proxies[0], 1);
    assert_between(0, opened_in(db), patience_ms(2000) * INT64_C(1000));
}
ON_BOTH(a_refused_first_host_costs_nothing)

static void P18_a_wrong_user_is_said_at_once(const struct hosts *h)
{
    struct db db = hosts_two_ways(h, "no_one_here", 60000);
    int64_t begun = now_us();

    assert_error(SQLOCK_EDENIED, "host 1: ", db_try(db, &err), &err);
    assert_int_equal(err.flags & SQLOCK_RETRY, 0);
    assert_between(0, now_us() - begun, patience_ms(5000) * INT64_C(1000));
}
ON_BOTH(P18_a_wrong_user_is_said_at_once)

static void P16_migrations_are_refused_where_opening_is(const struct hosts *h)
{
    struct db db = h->migrated();

    server_exec(h->server(), "%s", h->empty);
    h->weaken(true);
    assert_migrating_says_what_opening_says(db, SQLOCK_EREFUSED);
    assert_int_equal(server_number(h->server(), "%s", h->tables), 0);
    db_migrate(db_with(db, SQLOCK_OPEN_ACCEPT_WEAK));
    h->weaken(false);
}
ON_BOTH(P16_migrations_are_refused_where_opening_is)

#ifdef TEST_HAVE_MYSQL
TEST(test_hosts_of_a_list_are_counted)
{
    static const struct named urls[] = {
        {"mysql:///d", 1, 0},
        {"mysql://h/d", 1, 0},
        {"mysql://a,b:p,q@h/d", 1, 0},
        {"mysql://u:secret@h1,h2:3307,[::1]:3308/d?connect-timeout=4", 3, 4},
        {"mariadb://h1:1,h2", 2, 0},
        {"mysql://h/d?connect-timeout=7", 1, 7},
        {0}};

    need_driver("mysql");
    assert_counted(&mysql, urls);
}

/* It was the primary until somebody made it a replica: its links stay, and say so. */
TEST(test_a_server_that_has_become_read_only_is_left)
{
    sqlock_lock *lock = NULL;
    sqlock *m;

    my_private_exec("DROP USER IF EXISTS app@localhost; CREATE USER app@localhost; "
                    "GRANT ALL ON test.* TO app@localhost");
    m = db_open(hosts_two_ways(&mysql, "app", 0));
    my_private_exec("SET GLOBAL read_only = 1");
    assert_code(SQLOCK_EREADONLY, lock_try(m, "nightly", 0, &lock, &err), &err);
    assert_true(err.flags & SQLOCK_RETRY);
    assert_true(proxy_accepted(proxies[1]) > 0);
    my_private_exec("SET GLOBAL read_only = 0");
    lock_draw(m, "nightly");
    sqlock_close(m);
}
#endif

#ifdef TEST_HAVE_POSTGRES
/* ---- what a URL names ------------------------------------------------------------------------ */

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
/* ---- connecting ------------------------------------------------------------------------------ */

TEST(test_P8_connect_timeout_is_the_time_of_each)
{
    struct db db = hosts_two_ways(&postgres, "postgres", 20000);

    db.url = textf("%s&connect_timeout=2", db.url);
    proxy_mode_set(proxies[0], PROXY_HOLD);
    assert_between(1900000, opened_in(db), 2000000 + patience_ms(3000) * INT64_C(1000));
}

TEST(test_P18_what_every_host_would_say_is_said_at_once)
{
    struct db db = private_db("hosts");

    db.url = textf("postgresql:///no_such_db?host=%s,/nowhere&user=postgres", private_dir());
    assert_error(SQLOCK_EUNREACH, "host 1: ", db_try(db, &err), &err);
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
    private_exec("%s", postgres.empty);
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
#endif

#else
TEST(test_hosts)
{
    skip(); /* of servers there are no drivers */
}
#endif

TEST_MAIN_EACH(NULL, teardown)
