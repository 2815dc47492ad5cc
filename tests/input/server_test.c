/* PostgreSQL servers that are not there, will not have us, or cannot keep a promise. */
#include <libpq-fe.h>
#include <sqlock/postgres.h>
#include <sqlock/register.h>
#include <string.h>

#include "tests/lib/pg.h"
#include "tests/lib/private.h"
#include "tests/lib/proxy.h"
#include "tests/lib/words.h"

static sqlock_error err;

/* A new schema of the tests' server, migrated. */
static struct db new_migrated(void)
{
    struct db db = {.driver = sqlock_driver_postgres(), .url = pg_url(), .schema = pg_schema_new()};

    db_migrate(db);
    return db;
}

/* The same one, whose sessions have this setting by default. */
static struct db set_by_url(struct db db, const char *setting)
{
    char *options = textf("%s", "");

    for (; *setting; setting++) /* each byte may be written as %XX */
        options = textf("%s%%%02X", options, (unsigned char)*setting);
    return db_by(db,
                 textf("%s%coptions=-c%%20%s", db.url, strchr(db.url, '?') ? '&' : '?', options));
}

/* ---- not to be reached ----------------------------------------------------------------------- */

TEST(test_what_is_not_there_is_unreachable)
{
    const char *const urls[] = {
        textf("postgresql://me:hunter2@/db?host=%s", temp_dir()),
        textf("postgresql://me:hunter2@127.0.0.1:%d/db", port_without_server("127.0.0.1", NULL)),
        "postgresql://me:hunter2@sqlock-test.invalid/db"};
    struct db db = {.driver = sqlock_driver_postgres(), .request_ms = patience_ms(2000)};

    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        int64_t begun = now_us();

        db.url = urls[i];
        assert_code(SQLOCK_EUNREACH, db_try(db, &err), &err);
        assert_true(err.flags & SQLOCK_RETRY);
        assert_false(err.flags & SQLOCK_MAYBE);
        assert_string_equal(err.sqlstate, "08001");
        assert_silent(&err, "hunter2");
        assert_true(strlen(err.text) > strlen("open: "));
        assert_null(strchr(err.text, '\n'));
        assert_code(SQLOCK_EUNREACH, db_try_migrate(db, &err), &err);
        assert_silent(&err, "hunter2");
        assert_between(0, now_us() - begun, 2 * 1000 * (int64_t)db.request_ms + 5000000);
    }
}

static int try_url(const char *url)
{
    return db_try((struct db){.driver = sqlock_driver_postgres(), .url = url}, &err);
}

TEST(test_a_malformed_url_is_reported_without_its_password)
{
    static const char *const urls[] = {"postgresql://me:hunter2@host:port:5432:/db?x",
                                       "postgresql://me:hunter2@[::1/db",
                                       "postgresql://me@host/db?password=hunter2&nonsense=1",
                                       "postgresql://me:hunter2%zz@host/db",
                                       "postgresql:///db?password=hunter2&sslmode",
                                       "postgresql://me:x@hunter2/word@127.0.0.1/db",
                                       "postgresql://me:x/hunter2@127.0.0.1/db",
                                       "postgresql://me:hunter2/x@127.0.0.1/db",
                                       "postgresql://me:x@hunter2@127.0.0.1/db",
                                       "postgresql://me:hunter2?x=y@127.0.0.1/db",
                                       "postgres://hunter2/x@127.0.0.1/db"};

    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        assert_code(SQLOCK_EINVAL, try_url(urls[i]), &err);
        assert_silent(&err, "hunter2");
    }
}

TEST(test_a_setting_that_cannot_be_is_no_failure_of_the_server)
{
    static const char *const settings[] = {"sslmode=bogus", "port=99999", "target_session_attrs=x"};

    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const char *url = textf("%s%c%s", pg_url(), strchr(pg_url(), '?') ? '&' : '?', settings[i]);

        assert_error(SQLOCK_EINVAL, "the URL's settings: invalid ", try_url(url), &err);
        assert_false(err.flags & SQLOCK_RETRY);
    }
}

/* ---- refused login --------------------------------------------------------------------------- */

TEST(test_a_wrong_password_is_denied_and_never_shown)
{
    struct db good = private_new("scram"), wrong = good, quoted = good, none = good, other;

    private_exec("DROP ROLE IF EXISTS secretive; SET password_encryption = 'scram-sha-256'; "
                 "CREATE ROLE secretive LOGIN SUPERUSER PASSWORD 'correct#horse'");
    private_hba("local all secretive scram-sha-256");
    good.url = textf("postgresql://secretive:correct%%23horse@/postgres?host=%s", private_dir());
    wrong.url = textf("postgresql://secretive:hunter2@/postgres?host=%s", private_dir());
    none.url = private_login("secretive");
    quoted.url = textf("%s&password=hunter2", none.url);
    assert_ok(db_try(good, &err), &err);
    assert_code(SQLOCK_EDENIED, db_try(wrong, &err), &err);
    assert_string_equal(err.sqlstate, "28P01");
    assert_false(err.flags & SQLOCK_RETRY);
    assert_silent(&err, "hunter2");
    assert_code(SQLOCK_EDENIED, db_try_migrate(wrong, &err), &err);
    assert_silent(&err, "hunter2");
    assert_code(SQLOCK_EDENIED, db_try(quoted, &err), &err);
    assert_silent(&err, "hunter2");
    assert_code(SQLOCK_EDENIED, db_try(none, &err), &err);
    /* With the right password other things can fail too. */
    other = good;
    other.schema = "not there";
    assert_code(SQLOCK_ESCHEMA, db_try(other, &err), &err);
    assert_silent(&err, "horse");
}

TEST(test_a_login_that_fails_says_whether_to_try_again)
{
    const struct {
        const char *url, *words, *sqlstate;
        int code;
        bool again;
    } logins[] = {{private_login("no_one_here"), "no_one_here", "28000", SQLOCK_EDENIED, false},
                  {private_login("unwanted"), "unwanted", "28000", SQLOCK_EDENIED, false},
                  {textf("postgresql:///no_such_db?host=%s&user=postgres", private_dir()),
                   "no_such_db", "3D000", SQLOCK_EUNREACH, false},
                  {private_login("crowd"), "crowd", "53300", SQLOCK_EUNREACH, true}};
    struct db db = private_new("crowded");

    private_exec("DROP ROLE IF EXISTS unwanted, crowd; CREATE ROLE unwanted LOGIN; "
                 "CREATE ROLE crowd LOGIN CONNECTION LIMIT 0");
    private_hba("local all unwanted reject");
    db.request_ms = patience_ms(2000);
    for (size_t i = 0; i < sizeof logins / sizeof *logins; i++) {
        assert_error(logins[i].code, logins[i].words, db_try(db_by(db, logins[i].url), &err), &err);
        assert_string_equal(err.sqlstate, logins[i].sqlstate);
        assert_int_equal((err.flags & SQLOCK_RETRY) != 0, logins[i].again);
    }
}

/* ---- read-only ------------------------------------------------------------------------------- */

TEST(test_a_replica_is_refused_at_open)
{
    struct db db = private_new("replicated"), unmigrated = private_db("unmigrated");
    int64_t before = db_use(db, "x");

    private_exec("DROP SCHEMA IF EXISTS unmigrated CASCADE; CREATE SCHEMA unmigrated");
    private_restart(1);
    assert_int_equal(private_number("SELECT pg_is_in_recovery()::int"), 1);
    assert_error(SQLOCK_EREADONLY, "replica", db_try(db, &err), &err);
    assert_code(SQLOCK_EREADONLY, db_try(db_with(db, SQLOCK_OPEN_ACCEPT_WEAK), &err), &err);
    assert_code(SQLOCK_EREADONLY, db_try(unmigrated, &err), &err);
    assert_code(SQLOCK_EREADONLY, db_try_migrate(unmigrated, &err), &err);
    private_restart(0);
    assert_true(db_use(db, "x") > before);
}

/* A manager that was opened before must not go on when its server comes back as a replica. */
TEST(test_a_server_that_comes_back_as_a_replica_grants_nothing)
{
    sqlock *m = db_open(private_new("demoted"));
    sqlock_lock *lock = lock_take(m, "mine", 0, 0), *none = NULL;

    private_restart(1);
    assert_code(SQLOCK_EREADONLY, lock_try(m, "x", 0, &none, &err), &err);
    assert_null(none);
    assert_int_not_equal(sqlock_release(lock, &err), 0);
    private_restart(0);
    none = lock_now(m, "x");
    lock_give(none);
    lock_give(lock);
    sqlock_close(m);
}

TEST(test_default_transaction_read_only_is_refused_at_open)
{
    struct db db = set_by_url(new_migrated(), "default_transaction_read_only=on");
    const char *s = db.schema;

    pg_exec("UPDATE %s.sqlock_meta SET server = 'another'", s);
    assert_error(SQLOCK_EREADONLY, "default_transaction_read_only", db_try(db, &err), &err);
    assert_code(SQLOCK_EREADONLY, db_try(db_with(db, SQLOCK_OPEN_UNPREPARED), &err), &err);
    /* Not even the server's name was written. */
    assert_int_equal(pg_number("SELECT count(*) FROM %s.sqlock_meta WHERE server = 'another'", s),
                     1);
    pg_exec("DROP TABLE %s.sqlock_lock, %s.sqlock_meta, %s.sqlock_migration", s, s, s);
    assert_code(SQLOCK_EREADONLY, db_try_migrate(db, &err), &err);
}

/* ---- durability ------------------------------------------------------------------------------ */

TEST(test_fsync_off_is_refused_unless_accepted)
{
    struct db db = private_new("weak");
    int64_t before = db_use(db, "x");

    private_set("fsync", "off");
    assert_error(SQLOCK_EREFUSED, "fsync is off", db_try(db, &err), &err);
    assert_says(&err, "SQLOCK_OPEN_ACCEPT_WEAK");
    assert_true(db_use(db_with(db, SQLOCK_OPEN_ACCEPT_WEAK), "x") > before);
    private_set("fsync", NULL);
}

/* Each grant looks, not only who opens (P16). */
TEST(test_P2_what_makes_a_server_forget_is_noticed_while_open)
{
    static const char *const tables[] = {"lock", "meta", "register"};
    struct db db = private_new("weak");
    sqlock *m = db_open(db), *weak = db_open(db_with(db, SQLOCK_OPEN_ACCEPT_WEAK));
    sqlock_lock *lock = NULL;
    int64_t version = 0;
    int rc, rc_weak;

    for (int i = 0; i < 3; i++) {
        private_exec("ALTER TABLE weak.sqlock_%s SET UNLOGGED", tables[i]);
        rc = i < 2 ? sqlock_acquire(m, "x", NULL, &lock, &err)
                   : sqlock_register_set(m, "x", "1", 1, 0, &version, &err);
        private_exec("ALTER TABLE weak.sqlock_%s SET LOGGED", tables[i]);
        assert_error(SQLOCK_EREFUSED, "UNLOGGED", rc, &err);
    }
    private_set("fsync", "off");
    rc = sqlock_acquire(m, "x", NULL, &lock, &err);
    rc_weak = sqlock_acquire(weak, "x", NULL, &lock, NULL);
    private_set("fsync", NULL);
    assert_error(SQLOCK_EREFUSED, "fsync is off", rc, &err);
    assert_int_equal(rc_weak, 0);
    /* It was met anew, for it may forget from then on. */
    assert_true(private_number("SELECT (lost_at > 0)::int FROM weak.sqlock_meta"));
    assert_true(sqlock_lock_token(lock) > private_number("SELECT lost_at FROM weak.sqlock_meta"));
    sqlock_lock_free(lock);
    sqlock_close(m);
    sqlock_close(weak);
}

static void restore(const char *schema, const char *table)
{
    pg_exec("ALTER TABLE %s.sqlock_%s RENAME TO old", schema, table);
    pg_exec("CREATE TABLE %s.sqlock_%s (LIKE %s.old INCLUDING ALL)", schema, table, schema);
    pg_exec("INSERT INTO %s.sqlock_%s SELECT * FROM %s.old", schema, table, schema);
    pg_exec("DROP TABLE %s.old", schema);
}

/* What was granted since it was taken is not in it. */
TEST(test_P2_tokens_rise_over_a_restored_dump)
{
    struct db db = new_migrated();
    sqlock *m = db_open(db);
    int64_t last = 0, token;

    for (int i = 0; i < 3; i++) { /* a manager that was open before, and one that comes later */
        token = lock_draw(m, "x");
        assert_true(token > last + 1); /* what it forgot lies between */
        last = token;
        if (i == 1)
            sqlock_close(m);
        restore(db.schema, "lock");
        restore(db.schema, "meta");
        if (i == 1)
            m = db_open(db);
    }
    sqlock_close(m);
}

TEST(test_an_unlogged_table_is_refused)
{
    static const char *const tables[] = {"lock", "row", "register", "broken"};
    struct db db = new_migrated();

    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        pg_exec("ALTER TABLE %s.sqlock_%s SET UNLOGGED", db.schema, tables[i]);
        assert_error(SQLOCK_EREFUSED, "UNLOGGED", db_try(db, &err), &err);
        assert_code(SQLOCK_EREFUSED, db_try(db_with(db, SQLOCK_OPEN_ACCEPT_WEAK), &err), &err);
        pg_exec("ALTER TABLE %s.sqlock_%s SET LOGGED", db.schema, tables[i]);
        assert_true(db_use(db, "x") > 0);
    }
}

/* As after a crash, if meta was made UNLOGGED: the floor of all tokens is gone with its row. What a
 * manager says that is open by then: drivers/suite_schema.c. */
TEST(test_a_meta_table_that_lost_its_row_grants_nothing)
{
    struct db db = new_migrated();

    assert_true(db_use(db, "old") > 0);
    pg_exec("DELETE FROM %s.sqlock_meta", db.schema);
    assert_code(SQLOCK_ECORRUPT, db_try(db, &err), &err);
    assert_code(SQLOCK_ECORRUPT, db_try_migrate(db, &err), &err);
}

static int count_info(const sqlock_info *info, void *user)
{
    (void)info;
    ++*(int *)user;
    return 0;
}

/* The table has no CHECKs: a stranger with the right to write can write any name. */
TEST(test_list_reports_a_row_whose_name_is_too_long)
{
    struct db db = new_migrated();
    sqlock *m = db_open(db);
    int n = 0;

    sqlock_lock_free(lock_take(m, "a", 0, SQLOCK_NO_RENEW));
    pg_exec("INSERT INTO %s.sqlock_lock (ns, name, token, owner, exp, since) SELECT ns, "
            "decode(repeat('62', 2000), 'hex'), token, owner, exp, since FROM %s.sqlock_lock",
            db.schema, db.schema);
    assert_error(SQLOCK_ECORRUPT, "list: a row has a name of 2000 bytes",
                 sqlock_list(m, NULL, count_info, &n, &err), &err);
    assert_int_equal(n, 1);
    sqlock_close(m);
}

/* A commit that the synchronous standby need not have is not what the server is to wait for. */
TEST(test_commits_that_pass_the_standby_by_are_refused_without_settings)
{
    static const char *const levels[] = {"local", "remote_write"};
    struct db db = db_with(private_new("bypass"), SQLOCK_OPEN_UNPREPARED), at_level;

    for (int wanted = 0; wanted < 2; wanted++) {
        private_set("synchronous_standby_names", wanted ? "nobody" : "");
        for (int i = 0; i < 2; i++) {
            at_level = set_by_url(db, textf("synchronous_commit=%s", levels[i]));
            if (wanted) {
                assert_code(SQLOCK_EREFUSED, db_try(at_level, &err), &err);
                assert_says(&err, levels[i]);
            } else {
                assert_true(db_use(at_level, "x") > 0);
            }
        }
    }
    private_set("synchronous_standby_names", NULL);
}

/* A forgotten token would be granted again. So the grant is on the disk, though the session and
 * whoever opened it think otherwise. */
TEST(test_a_weak_sessions_grant_is_flushed)
{
    struct db db = set_by_url(private_new("flushed"), "synchronous_commit=off");
    int64_t before;
    sqlock *m;

    private_set("wal_writer_delay", "10s");
    m = db_open(db_with(db, SQLOCK_OPEN_UNPREPARED | SQLOCK_OPEN_ACCEPT_WEAK));
    lock_draw(m, "x");
    before = private_number("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint");
    sqlock_lock_free(lock_take(m, "x", 0, SQLOCK_NO_RENEW)); /* and not given back */
    assert_true(private_number("SELECT (pg_current_wal_flush_lsn() - '0/0')::bigint") > before);
    sqlock_close(m);
    private_set("wal_writer_delay", NULL);
}

/* ---- defaults of a session ------------------------------------------------------------------- */

/* Our sessions set what they need. No setting survives a transaction pooler: so there some must be
 * refused. Without warnings it would not be told that a commit's wait for the standby was cut. */
TEST(test_hostile_defaults_change_nothing_or_are_refused_without_settings)
{
    static const struct {
        const char *setting, *refused;
        unsigned flags;
    } defaults[] = {
        {"synchronous_commit=off", "synchronous_commit", SQLOCK_OPEN_UNPREPARED},
        {"client_min_messages=error", "client_min_messages",
         SQLOCK_OPEN_UNPREPARED | SQLOCK_OPEN_ACCEPT_WEAK},
        {"default_transaction_isolation=serializable", "READ COMMITTED", SQLOCK_OPEN_UNPREPARED},
        {"default_transaction_deferrable=on", NULL, 0},
        {"standard_conforming_strings=off", NULL, 0},
        {"statement_timeout=500", NULL, 0},
        {"lock_timeout=1", NULL, 0},
        {"bytea_output=escape", NULL, 0},
        {"search_path=nowhere", NULL, 0},
        {"DateStyle=German,DMY", NULL, 0},
        {"TimeZone=Asia/Kathmandu", NULL, 0},
        {"extra_float_digits=-15", NULL, 0},
        {"client_encoding=latin1", NULL, 0},
        {"row_security=off", NULL, 0},
        {"enable_indexscan=off", NULL, 0}};
    struct db db = new_migrated();

    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++) {
        struct db hostile = set_by_url(db, defaults[i].setting);

        assert_true(db_use(hostile, defaults[i].setting) > 0);
        if (defaults[i].refused != NULL)
            assert_error(SQLOCK_EREFUSED, defaults[i].refused,
                         db_try(db_with(hostile, defaults[i].flags), &err), &err);
    }
}

TEST_MAIN_EACH(NULL, NULL)
