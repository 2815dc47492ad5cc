/* PostgreSQL servers that are not there, will not have us, or cannot keep a promise. */
#include <arpa/inet.h>
#include <libpq-fe.h>
#include <signal.h>
#include <sqlock/import.h>
#include <sqlock/postgres.h>
#include <sqlock/register.h>
#include <sqlock/transaction.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/check.h"
#include "tests/lib/pg.h"
#include "tests/lib/private.h"

enum { SHORT_MS = 2000 };

static int try_open(const char *url, const char *schema, unsigned flags, sqlock_error *err)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock *m = NULL;
    int rc;

    memset(err, 0, sizeof *err);
    o.schema = schema;
    o.flags = flags;
    o.request_ms = patience_ms(SHORT_MS);
    rc = sqlock_open(sqlock_driver_postgres(), url, &o, &m, err);
    sqlock_close(m);
    return rc;
}

static int try_migrate(const char *url, const char *schema, sqlock_error *err)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;

    memset(err, 0, sizeof *err);
    o.schema = schema;
    return sqlock_migrate(sqlock_driver_postgres(), url, &o, NULL, err);
}

/* Acquire, renew and release with a manager of its own; the token. */
static int64_t use(const char *url, const char *schema, unsigned flags, const char *name)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock_lock *lock = NULL;
    sqlock_error err;
    sqlock *m = NULL;
    int64_t token;

    o.schema = schema;
    o.flags = flags;
    assert_ok(sqlock_open(sqlock_driver_postgres(), url, &o, &m, &err), &err);
    assert_ok(sqlock_acquire(m, name, NULL, &lock, &err), &err);
    assert_ok(sqlock_renew(lock, &err), &err);
    token = sqlock_lock_token(lock);
    assert_ok(sqlock_release(lock, &err), &err);
    sqlock_lock_free(lock);
    sqlock_close(m);
    return token;
}

static char *new_migrated(void)
{
    char *schema = pg_schema_new();
    sqlock_error err;

    assert_ok(try_migrate(pg_url(), schema, &err), &err);
    return schema;
}

/* The private server's schema `name`, empty and migrated. */
static void private_migrated(const char *name)
{
    sqlock_error err;

    private_exec("DROP SCHEMA IF EXISTS %s CASCADE; CREATE SCHEMA %s", name, name);
    assert_ok(try_migrate(private_url(), name, &err), &err);
}

/* url, with more settings. */
static char *url_with(const char *url, const char *settings)
{
    char *out = NULL;

    assert_true(asprintf(&out, "%s%c%s", url, strchr(url, '?') ? '&' : '?', settings) > 0);
    return out;
}

static void assert_says(const sqlock_error *err, const char *words)
{
    if (!strstr(err->text, words))
        fail_msg("\"%s\" does not say \"%s\"", err->text, words);
}

static void assert_silent(const sqlock_error *err, const char *secret)
{
    if (strstr(err->text, secret))
        fail_msg("\"%s\" tells a secret", err->text);
}

/* ---- not to be reached -------------------------------------------------------------------------
 */

/* A port of 127.0.0.1 where nobody listens: it was free a moment ago. */
static int free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    close(fd);
    return ntohs(at.sin_port);
}

static void assert_unreachable(const char *url)
{
    sqlock_error err;
    int64_t begun = now_us();

    assert_code(SQLOCK_EUNREACH, try_open(url, NULL, 0, &err), &err);
    assert_true(err.flags & SQLOCK_RETRY);
    assert_false(err.flags & SQLOCK_MAYBE);
    assert_string_equal(err.sqlstate, "08001");
    assert_silent(&err, "hunter2");
    assert_true(strlen(err.text) > strlen("open: "));
    assert_null(strchr(err.text, '\n'));
    assert_code(SQLOCK_EUNREACH, try_migrate(url, NULL, &err), &err);
    assert_silent(&err, "hunter2");
    assert_between(0, now_us() - begun, 2 * 1000 * (int64_t)patience_ms(SHORT_MS) + 5000000);
}

static void test_a_socket_that_is_not_there_is_unreachable(void **state)
{
    char url[256];

    (void)state;
    snprintf(url, sizeof url, "postgresql://me:hunter2@/db?host=%s", temp_dir());
    assert_unreachable(url);
}

static void test_a_port_where_nobody_listens_is_unreachable(void **state)
{
    char url[256];

    (void)state;
    snprintf(url, sizeof url, "postgresql://me:hunter2@127.0.0.1:%d/db", free_port());
    assert_unreachable(url);
}

static void test_a_name_that_does_not_resolve_is_unreachable(void **state)
{
    (void)state;
    assert_unreachable("postgresql://me:hunter2@sqlock-test.invalid/db");
}

static void test_a_malformed_url_is_told_without_its_password(void **state)
{
    static const char *const urls[] = {
        "postgresql://me:hunter2@host:port:5432:/db?x", "postgresql://me:hunter2@[::1/db",
        "postgresql://me@host/db?password=hunter2&nonsense=1", "postgresql://me:hunter2%zz@host/db",
        "postgresql:///db?password=hunter2&sslmode"};
    sqlock_error err;

    (void)state;
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        assert_code(SQLOCK_EINVAL, try_open(urls[i], NULL, 0, &err), &err);
        assert_silent(&err, "hunter2");
    }
}

/* ---- refused login -----------------------------------------------------------------------------
 */

static void test_a_setting_that_cannot_be_is_no_failure_of_the_server(void **state)
{
    static const char *const settings[] = {"sslmode=bogus", "port=99999", "target_session_attrs=x"};

    (void)state;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        char *url = url_with(pg_url(), settings[i]);
        sqlock_error err;

        assert_code(SQLOCK_EINVAL, try_open(url, NULL, 0, &err), &err);
        assert_false(err.flags & SQLOCK_RETRY);
        assert_says(&err, "the URL's settings: invalid ");
        free(url);
    }
}

/* libpq tells what it met at each address, and again without TLS. */
static void test_what_was_met_twice_is_told_once(void **state)
{
    int port = free_port();
    sqlock_error err;
    char url[200], *first;

    (void)state;
    snprintf(url, sizeof url, "postgresql:///db?host=127.0.0.1,127.0.0.1&port=%d,%d", port, port);
    assert_code(SQLOCK_EUNREACH, try_open(url, NULL, 0, &err), &err);
    first = strstr(err.text, "refused");
    assert_non_null(first);
    assert_null(strstr(first + 1, "refused"));
}

static void test_a_wrong_password_is_denied_and_never_told(void **state)
{
    const char *dir;
    char good[400], wrong[400], none[400], quoted[400];
    sqlock_error err;

    (void)state;
    private_migrated("scram");
    dir = private_dir();
    private_exec("DROP ROLE IF EXISTS secretive; SET password_encryption = 'scram-sha-256'; "
                 "CREATE ROLE secretive LOGIN SUPERUSER PASSWORD 'correct#horse'");
    private_hba("local all secretive scram-sha-256");
    snprintf(good, sizeof good, "postgresql://secretive:correct%%23horse@/postgres?host=%s", dir);
    snprintf(wrong, sizeof wrong, "postgresql://secretive:hunter2@/postgres?host=%s", dir);
    snprintf(quoted, sizeof quoted,
             "postgresql:///postgres?host=%s&user=secretive&password=hunter2", dir);
    snprintf(none, sizeof none, "postgresql:///postgres?host=%s&user=secretive", dir);
    assert_ok(try_open(good, "scram", 0, &err), &err);
    assert_code(SQLOCK_EDENIED, try_open(wrong, "scram", 0, &err), &err);
    assert_string_equal(err.sqlstate, "28P01");
    assert_false(err.flags & SQLOCK_RETRY);
    assert_silent(&err, "hunter2");
    assert_code(SQLOCK_EDENIED, try_migrate(wrong, "scram", &err), &err);
    assert_silent(&err, "hunter2");
    assert_code(SQLOCK_EDENIED, try_open(quoted, "scram", 0, &err), &err);
    assert_silent(&err, "hunter2");
    assert_code(SQLOCK_EDENIED, try_open(none, "scram", 0, &err), &err);
    /* With the right password other things can fail too. */
    assert_code(SQLOCK_ESCHEMA, try_open(good, "not there", 0, &err), &err);
    assert_silent(&err, "horse");
}

static void test_an_unknown_role_is_denied(void **state)
{
    char url[400];
    sqlock_error err;

    (void)state;
    snprintf(url, sizeof url, "postgresql:///postgres?host=%s&user=nobody_here", private_dir());
    assert_code(SQLOCK_EDENIED, try_open(url, NULL, 0, &err), &err);
    assert_string_equal(err.sqlstate, "28000");
    assert_says(&err, "nobody_here");
}

static void test_a_role_that_pg_hba_rejects_is_denied(void **state)
{
    char url[400];
    sqlock_error err;

    (void)state;
    private_exec("DROP ROLE IF EXISTS unwanted; CREATE ROLE unwanted LOGIN");
    private_hba("local all unwanted reject");
    snprintf(url, sizeof url, "postgresql:///postgres?host=%s&user=unwanted", private_dir());
    assert_code(SQLOCK_EDENIED, try_open(url, NULL, 0, &err), &err);
}

static void test_a_database_that_does_not_exist_is_unreachable_for_good(void **state)
{
    char url[400];
    sqlock_error err;

    (void)state;
    snprintf(url, sizeof url, "postgresql:///no_such_db?host=%s&user=postgres", private_dir());
    assert_code(SQLOCK_EUNREACH, try_open(url, NULL, 0, &err), &err);
    assert_string_equal(err.sqlstate, "3D000");
    assert_false(err.flags & SQLOCK_RETRY);
    assert_says(&err, "no_such_db");
}

static void test_a_server_without_free_connections_is_unreachable_for_now(void **state)
{
    char url[400];
    sqlock_error err;

    (void)state;
    private_migrated("crowded");
    private_exec("DROP ROLE IF EXISTS crowd; CREATE ROLE crowd LOGIN CONNECTION LIMIT 0");
    snprintf(url, sizeof url, "postgresql:///postgres?host=%s&user=crowd", private_dir());
    assert_code(SQLOCK_EUNREACH, try_open(url, "crowded", 0, &err), &err);
    assert_string_equal(err.sqlstate, "53300");
    assert_true(err.flags & SQLOCK_RETRY);
}

/* ---- read-only ---------------------------------------------------------------------------------
 */

static void test_a_replica_is_refused_at_open(void **state)
{
    sqlock_error err;
    int64_t before;

    (void)state;
    private_migrated("replicated");
    private_exec("DROP SCHEMA IF EXISTS unmigrated CASCADE; CREATE SCHEMA unmigrated");
    before = use(private_url(), "replicated", 0, "x");
    private_restart(1);
    assert_int_equal(private_number("SELECT pg_is_in_recovery()::int"), 1);
    assert_code(SQLOCK_EREADONLY, try_open(private_url(), "replicated", 0, &err), &err);
    assert_says(&err, "replica");
    assert_code(SQLOCK_EREADONLY,
                try_open(private_url(), "replicated", SQLOCK_OPEN_ACCEPT_WEAK, &err), &err);
    assert_code(SQLOCK_EREADONLY, try_open(private_url(), "unmigrated", 0, &err), &err);
    assert_code(SQLOCK_EREADONLY, try_migrate(private_url(), "unmigrated", &err), &err);
    private_restart(0);
    assert_true(use(private_url(), "replicated", 0, "x") > before);
}

/* A manager that was opened before must not go on when its server comes back as a replica. */
static void test_a_server_that_comes_back_as_a_replica_grants_nothing(void **state)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock_acquire_opts once = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL, *none = NULL;
    sqlock_error err;
    sqlock *m = NULL;

    (void)state;
    private_migrated("demoted");
    o.schema = "demoted";
    once.wait_ms = 0;
    assert_ok(sqlock_open(sqlock_driver_postgres(), private_url(), &o, &m, &err), &err);
    assert_ok(sqlock_acquire(m, "mine", NULL, &lock, &err), &err);
    private_restart(1);
    assert_code(SQLOCK_EREADONLY, sqlock_acquire(m, "x", &once, &none, &err), &err);
    assert_null(none);
    assert_int_not_equal(sqlock_release(lock, &err), 0);
    private_restart(0);
    assert_ok(sqlock_acquire(m, "x", &once, &none, &err), &err);
    assert_ok(sqlock_release(none, &err), &err);
    assert_ok(sqlock_release(lock, &err), &err);
    sqlock_lock_free(none);
    sqlock_lock_free(lock);
    sqlock_close(m);
}

static void test_default_transaction_read_only_is_refused_at_open(void **state)
{
    char *schema = new_migrated(), *url;
    sqlock_error err;

    (void)state;
    pg_exec("UPDATE %s.sqlock_meta SET server = 'another'", schema);
    url = url_with(pg_url(), "options=-c%20default_transaction_read_only%3Don");
    assert_code(SQLOCK_EREADONLY, try_open(url, schema, 0, &err), &err);
    assert_says(&err, "default_transaction_read_only");
    assert_code(SQLOCK_EREADONLY, try_open(url, schema, SQLOCK_OPEN_UNPREPARED, &err), &err);
    /* Not even the server's name was written. */
    assert_int_equal(
        pg_number("SELECT count(*) FROM %s.sqlock_meta WHERE server = 'another'", schema), 1);
    pg_exec("DROP TABLE %s.sqlock_lock, %s.sqlock_meta, %s.sqlock_migration", schema, schema,
            schema);
    assert_code(SQLOCK_EREADONLY, try_migrate(url, schema, &err), &err);
    free(url);
    pg_schema_drop(schema);
}

/* A grant that is neither renewed nor given back. */
static void hold_one(const char *url, const char *schema, unsigned flags)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock_acquire_opts a = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL;
    sqlock_error err;
    sqlock *m = NULL;

    o.schema = schema;
    o.flags = flags;
    a.flags = SQLOCK_NO_RENEW;
    assert_ok(sqlock_open(sqlock_driver_postgres(), url, &o, &m, &err), &err);
    assert_ok(sqlock_acquire(m, "x", &a, &lock, &err), &err);
    sqlock_lock_free(lock);
    sqlock_close(m);
}

/* ---- durability --------------------------------------------------------------------------------
 */

static void test_fsync_off_is_refused_unless_accepted(void **state)
{
    sqlock_error err;
    int64_t before;

    (void)state;
    private_migrated("weak");
    before = use(private_url(), "weak", 0, "x");
    private_exec("ALTER SYSTEM SET fsync = off");
    private_exec("SELECT pg_reload_conf()");
    assert_soon(private_number("SELECT (current_setting('fsync') = 'off')::int") == 1, 5000);
    assert_code(SQLOCK_EREFUSED, try_open(private_url(), "weak", 0, &err), &err);
    assert_says(&err, "fsync is off");
    assert_says(&err, "SQLOCK_OPEN_ACCEPT_WEAK");
    assert_true(use(private_url(), "weak", SQLOCK_OPEN_ACCEPT_WEAK, "x") > before);
    private_exec("ALTER SYSTEM RESET fsync");
    private_exec("SELECT pg_reload_conf()");
    assert_soon(private_number("SELECT (current_setting('fsync') = 'on')::int") == 1, 5000);
}

/* Each grant looks, not only who opens (P16). */
static void test_P2_what_makes_a_server_forget_is_noticed_while_open(void **state)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock_lock *lock = NULL;
    sqlock *m = NULL, *weak = NULL;
    sqlock_error err = {0};
    int64_t version = 0;
    int rc, rc_weak;

    (void)state;
    private_migrated("weak");
    o.schema = "weak";
    assert_ok(sqlock_open(sqlock_driver_postgres(), private_url(), &o, &m, &err), &err);
    o.flags = SQLOCK_OPEN_ACCEPT_WEAK;
    assert_ok(sqlock_open(sqlock_driver_postgres(), private_url(), &o, &weak, &err), &err);
    for (int i = 0; i < 3; i++) {
        static const char *const tables[] = {"lock", "meta", "register"};

        private_exec("ALTER TABLE weak.sqlock_%s SET UNLOGGED", tables[i]);
        rc = i < 2 ? sqlock_acquire(m, "x", NULL, &lock, &err)
                   : sqlock_register_set(m, "x", "1", 1, 0, &version, &err);
        private_exec("ALTER TABLE weak.sqlock_%s SET LOGGED", tables[i]);
        assert_code(SQLOCK_EREFUSED, rc, &err);
        assert_says(&err, "UNLOGGED");
    }
    private_exec("ALTER SYSTEM SET fsync = off");
    private_exec("SELECT pg_reload_conf()");
    assert_soon(private_number("SELECT (current_setting('fsync') = 'off')::int") == 1, 5000);
    rc = sqlock_acquire(m, "x", NULL, &lock, &err);
    rc_weak = sqlock_acquire(weak, "x", NULL, &lock, NULL);
    private_exec("ALTER SYSTEM RESET fsync");
    private_exec("SELECT pg_reload_conf()");
    assert_soon(private_number("SELECT (current_setting('fsync') = 'on')::int") == 1, 5000);
    assert_code(SQLOCK_EREFUSED, rc, &err);
    assert_says(&err, "fsync is off");
    assert_int_equal(rc_weak, 0);
    /* It was met anew, for it may forget from then on. */
    assert_true(private_number("SELECT (lost_at > 0)::int FROM weak.sqlock_meta"));
    assert_true(sqlock_lock_token(lock) > private_number("SELECT lost_at FROM weak.sqlock_meta"));
    sqlock_lock_free(lock);
    sqlock_close(m);
    sqlock_close(weak);
}

/* What was granted since it was taken is not in it. */
static void test_P2_tokens_rise_over_a_restored_dump(void **state)
{
    char *schema = new_migrated();
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock_lock *lock = NULL;
    sqlock *m = NULL;
    sqlock_error err = {0};
    int64_t last = 0;

    (void)state;
    o.schema = schema;
    assert_ok(sqlock_open(sqlock_driver_postgres(), pg_url(), &o, &m, &err), &err);
    for (int i = 0; i < 3; i++) { /* a manager that was open before, and one that comes later */
        assert_ok(sqlock_acquire(m, "x", NULL, &lock, &err), &err);
        assert_true(sqlock_lock_token(lock) > last + 1); /* what it forgot lies between */
        last = sqlock_lock_token(lock);
        assert_ok(sqlock_release(lock, &err), &err);
        sqlock_lock_free(lock);
        if (i == 1)
            sqlock_close(m);
        for (int t = 0; t < 2; t++) {
            const char *table = t ? "meta" : "lock";

            pg_exec("ALTER TABLE %s.sqlock_%s RENAME TO old", schema, table);
            pg_exec("CREATE TABLE %s.sqlock_%s (LIKE %s.old INCLUDING ALL)", schema, table, schema);
            pg_exec("INSERT INTO %s.sqlock_%s SELECT * FROM %s.old", schema, table, schema);
            pg_exec("DROP TABLE %s.old", schema);
        }
        if (i == 1)
            assert_ok(sqlock_open(sqlock_driver_postgres(), pg_url(), &o, &m, &err), &err);
    }
    sqlock_close(m);
    pg_schema_drop(schema);
}

static void test_an_unlogged_table_is_refused(void **state)
{
    static const char *const tables[] = {"lock", "row", "register", "broken"};
    char *schema = new_migrated();
    sqlock_error err;

    (void)state;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        pg_exec("ALTER TABLE %s.sqlock_%s SET UNLOGGED", schema, tables[i]);
        assert_code(SQLOCK_EREFUSED, try_open(pg_url(), schema, 0, &err), &err);
        assert_says(&err, "UNLOGGED");
        assert_code(SQLOCK_EREFUSED, try_open(pg_url(), schema, SQLOCK_OPEN_ACCEPT_WEAK, &err),
                    &err);
        pg_exec("ALTER TABLE %s.sqlock_%s SET LOGGED", schema, tables[i]);
        assert_true(use(pg_url(), schema, 0, "x") > 0);
    }
    pg_schema_drop(schema);
}

/* As after a crash, if meta was made UNLOGGED: the floor of all tokens is gone with its row. */
static void test_a_meta_table_that_lost_its_row_grants_nothing(void **state)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock_acquire_opts once = SQLOCK_ACQUIRE_OPTS_INIT;
    char *schema = new_migrated();
    sqlock_lock *lock = NULL;
    sqlock_error err;
    sqlock *m = NULL;

    (void)state;
    o.schema = schema;
    o.request_ms = 500;
    once.wait_ms = 0;
    assert_true(use(pg_url(), schema, 0, "old") > 0);
    assert_ok(sqlock_open(sqlock_driver_postgres(), pg_url(), &o, &m, &err), &err);
    pg_exec("DELETE FROM %s.sqlock_meta", schema);
    for (int i = 0; i < 2; i++) {
        /* It may also end in the middle of a request: then it is unsure, and not granted either. */
        assert_int_not_equal(sqlock_acquire(m, i ? "new" : "old", &once, &lock, &err), SQLOCK_OK);
        assert_false(lock && sqlock_is_held(lock));
        sqlock_lock_free(lock);
    }
    assert_int_equal(
        pg_number("SELECT count(*) FROM %s.sqlock_lock WHERE owner IS NOT NULL", schema), 0);
    sqlock_close(m);
    assert_code(SQLOCK_ECORRUPT, try_open(pg_url(), schema, 0, &err), &err);
    assert_code(SQLOCK_ECORRUPT, try_migrate(pg_url(), schema, &err), &err);
    pg_schema_drop(schema);
}

static void test_synchronous_commit_off_by_default_is_switched_on_or_refused(void **state)
{
    char *schema = new_migrated(), *url;
    sqlock_error err;

    (void)state;
    url = url_with(pg_url(), "options=-c%20synchronous_commit%3Doff");
    assert_true(use(url, schema, 0, "x") > 0);
    assert_code(SQLOCK_EREFUSED, try_open(url, schema, SQLOCK_OPEN_UNPREPARED, &err), &err);
    assert_says(&err, "synchronous_commit");
    free(url);
    pg_schema_drop(schema);
}

/* A commit that the synchronous standby need not have is not what the server was told to wait for.
 */
static void test_commits_that_pass_the_standby_by_are_refused_without_settings(void **state)
{
    static const char *const levels[] = {"local", "remote_write"};
    sqlock_error err;
    char url[400];

    (void)state;
    private_migrated("bypass");
    for (int wanted = 0; wanted < 2; wanted++) {
        private_exec("ALTER SYSTEM SET synchronous_standby_names = '%s'", wanted ? "nobody" : "");
        private_exec("SELECT pg_reload_conf()");
        assert_soon(private_number("SELECT (current_setting('synchronous_standby_names') "
                                   "<> '')::int") == wanted,
                    patience_ms(5000));
        for (int i = 0; i < 2; i++) {
            snprintf(url, sizeof url, "%s&options=-c%%20synchronous_commit%%3D%s", private_url(),
                     levels[i]);
            if (wanted) {
                assert_code(SQLOCK_EREFUSED, try_open(url, "bypass", SQLOCK_OPEN_UNPREPARED, &err),
                            &err);
                assert_says(&err, levels[i]);
            } else {
                assert_true(use(url, "bypass", SQLOCK_OPEN_UNPREPARED, "x") > 0);
            }
        }
    }
    private_exec("ALTER SYSTEM RESET synchronous_standby_names");
    private_exec("SELECT pg_reload_conf()");
    assert_soon(private_number("SELECT (current_setting('synchronous_standby_names') = '')::int") ==
                    1,
                patience_ms(5000));
}

/* The warning that a commit's wait for the standby was cut would not come. */
static void test_a_session_without_warnings_is_refused_without_settings(void **state)
{
    char *schema = new_migrated(),
         *url = url_with(pg_url(), "options=-c%20client_min_messages%3Derror");
    sqlock_error err;

    (void)state;
    assert_true(use(url, schema, 0, "x") > 0);
    assert_code(SQLOCK_EREFUSED,
                try_open(url, schema, SQLOCK_OPEN_UNPREPARED | SQLOCK_OPEN_ACCEPT_WEAK, &err),
                &err);
    assert_says(&err, "client_min_messages");
    free(url);
    pg_schema_drop(schema);
}

/* A forgotten token would be granted again. So the grant is on the disk, though the session and
 * whoever opened it think otherwise. */
static void test_a_weak_sessions_grant_is_flushed(void **state)
{
    char url[400];
    int64_t before;

    (void)state;
    private_migrated("flushed");
    private_exec("ALTER SYSTEM SET wal_writer_delay = '10s'");
    private_exec("SELECT pg_reload_conf()");
    snprintf(url, sizeof url, "%s&options=-c%%20synchronous_commit%%3Doff", private_url());
    use(url, "flushed", SQLOCK_OPEN_UNPREPARED | SQLOCK_OPEN_ACCEPT_WEAK, "x");
    before = private_number("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint");
    hold_one(url, "flushed", SQLOCK_OPEN_UNPREPARED | SQLOCK_OPEN_ACCEPT_WEAK);
    assert_true(private_number("SELECT (pg_current_wal_flush_lsn() - '0/0')::bigint") > before);
    private_exec("ALTER SYSTEM RESET wal_writer_delay");
    private_exec("SELECT pg_reload_conf()");
}

/* ---- copies ------------------------------------------------------------------------------------
 */

static void put(PGconn *c, const char *sql)
{
    PGresult *r = PQexec(c, sql);

    if (PQresultStatus(r) != PGRES_COMMAND_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(c));
    PQclear(r);
}

/* What a guard says on url, where a copy of the lease's row is put first if `copied`. */
static int guard_at(const char *url, sqlock *m, sqlock_lock *lock, int copied, sqlock_error *err)
{
    const unsigned char *owner = sqlock_lock_owner(lock);
    PGconn *c = PQconnectdb(url);
    sqlock_conn *conn = NULL;
    char sql[400], hex[2 * SQLOCK_OWNER_SIZE + 1];
    int rc;

    for (int i = 0; i < SQLOCK_OWNER_SIZE; i++)
        snprintf(hex + 2 * i, 3, "%02x", owner[i]);
    snprintf(sql, sizeof sql,
             "INSERT INTO copied.sqlock_lock (ns, name, token, owner, exp, since) "
             "VALUES ('', 'sale', %lld, '\\x%s', 4000000000000000, 1)",
             (long long)sqlock_lock_token(lock), hex);
    if (copied)
        put(c, sql);
    assert_ok(sqlock_adopt_postgres(m, c, &conn, err), err);
    put(c, "BEGIN");
    rc = sqlock_guard(lock, conn, err);
    put(c, "ROLLBACK");
    sqlock_conn_free(conn);
    PQfinish(c);
    return rc;
}

static void test_P11_a_guard_on_a_copy_of_the_tables_is_refused(void **state)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock_lock *lock = NULL;
    sqlock *m = NULL;
    char url[2][400];
    sqlock_error err;

    (void)state;
    private_migrated("copied");
    private_exec("CREATE DATABASE elsewhere"); /* on the same server */
    snprintf(url[0], sizeof url[0], "%s&dbname=elsewhere", private_url());
    snprintf(url[1], sizeof url[1], "%s", pg_url());
    o.schema = "copied";
    assert_ok(sqlock_open(sqlock_driver_postgres(), private_url(), &o, &m, &err), &err);
    assert_ok(sqlock_acquire(m, "sale", NULL, &lock, &err), &err);
    assert_ok(guard_at(private_url(), m, lock, 0, &err), &err);
    for (int i = 0; i < 2; i++) {
        PGconn *c = PQconnectdb(url[i]);

        put(c, "CREATE SCHEMA copied");
        PQfinish(c);
        assert_ok(try_migrate(url[i], "copied", &err), &err);
        assert_code(SQLOCK_EREFUSED, guard_at(url[i], m, lock, 1, &err), &err);
        assert_says(&err, "another server");
    }
    pg_exec("DROP SCHEMA copied CASCADE");
    assert_true(sqlock_is_held(lock));
    /* A restart is no other server, also before our own connections have met it. */
    private_restart(0);
    assert_ok(guard_at(private_url(), m, lock, 0, &err), &err);
    assert_ok(sqlock_release(lock, &err), &err);
    sqlock_lock_free(lock);
    sqlock_close(m);
    private_exec("DROP DATABASE elsewhere");
}

/* ---- defaults of a role ------------------------------------------------------------------------
 */

static void test_serializable_as_the_roles_default_works_or_is_refused(void **state)
{
    char url[400];
    sqlock_error err;

    (void)state;
    private_migrated("strict");
    private_exec("DROP ROLE IF EXISTS careful; CREATE ROLE careful LOGIN SUPERUSER; "
                 "ALTER ROLE careful SET default_transaction_isolation = 'serializable'");
    snprintf(url, sizeof url, "postgresql:///postgres?host=%s&user=careful", private_dir());
    assert_true(use(url, "strict", 0, "x") > 0);
    /* No setting survives a transaction pooler: so there it must be refused. */
    assert_code(SQLOCK_EREFUSED, try_open(url, "strict", SQLOCK_OPEN_UNPREPARED, &err), &err);
    assert_says(&err, "READ COMMITTED");
}

/* As `-c name=value` in a URL, where each byte may be written as %XX. */
static char *url_with_setting(const char *url, const char *setting)
{
    char options[512] = "options=-c%20";
    char *end = options + strlen(options);

    for (; *setting; setting++)
        end += snprintf(end, 8, "%%%02X", (unsigned char)*setting);
    return url_with(url, options);
}

static void test_hostile_defaults_of_a_role_change_nothing(void **state)
{
    static const char *const settings[] = {"default_transaction_deferrable=on",
                                           "standard_conforming_strings=off",
                                           "statement_timeout=500",
                                           "lock_timeout=1",
                                           "bytea_output=escape",
                                           "search_path=nowhere",
                                           "DateStyle=German,DMY",
                                           "TimeZone=Asia/Kathmandu",
                                           "extra_float_digits=-15",
                                           "client_encoding=latin1",
                                           "row_security=off",
                                           "enable_indexscan=off"};
    char *schema = new_migrated();

    (void)state;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        char *url = url_with_setting(pg_url(), settings[i]);

        assert_true(use(url, schema, 0, settings[i]) > 0);
        free(url);
    }
    pg_schema_drop(schema);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_socket_that_is_not_there_is_unreachable),
    cmocka_unit_test(test_a_port_where_nobody_listens_is_unreachable),
    cmocka_unit_test(test_a_name_that_does_not_resolve_is_unreachable),
    cmocka_unit_test(test_a_malformed_url_is_told_without_its_password),
    cmocka_unit_test(test_a_setting_that_cannot_be_is_no_failure_of_the_server),
    cmocka_unit_test(test_what_was_met_twice_is_told_once),
    cmocka_unit_test(test_a_wrong_password_is_denied_and_never_told),
    cmocka_unit_test(test_an_unknown_role_is_denied),
    cmocka_unit_test(test_a_role_that_pg_hba_rejects_is_denied),
    cmocka_unit_test(test_a_database_that_does_not_exist_is_unreachable_for_good),
    cmocka_unit_test(test_a_server_without_free_connections_is_unreachable_for_now),
    cmocka_unit_test(test_a_replica_is_refused_at_open),
    cmocka_unit_test(test_a_server_that_comes_back_as_a_replica_grants_nothing),
    cmocka_unit_test(test_default_transaction_read_only_is_refused_at_open),
    cmocka_unit_test(test_fsync_off_is_refused_unless_accepted),
    cmocka_unit_test(test_P2_what_makes_a_server_forget_is_noticed_while_open),
    cmocka_unit_test(test_P11_a_guard_on_a_copy_of_the_tables_is_refused),
    cmocka_unit_test(test_P2_tokens_rise_over_a_restored_dump),
    cmocka_unit_test(test_an_unlogged_table_is_refused),
    cmocka_unit_test(test_a_meta_table_that_lost_its_row_grants_nothing),
    cmocka_unit_test(test_synchronous_commit_off_by_default_is_switched_on_or_refused),
    cmocka_unit_test(test_commits_that_pass_the_standby_by_are_refused_without_settings),
    cmocka_unit_test(test_a_session_without_warnings_is_refused_without_settings),
    cmocka_unit_test(test_a_weak_sessions_grant_is_flushed),
    cmocka_unit_test(test_serializable_as_the_roles_default_works_or_is_refused),
    cmocka_unit_test(test_hostile_defaults_of_a_role_change_nothing),
};

TEST_MAIN(tests)
