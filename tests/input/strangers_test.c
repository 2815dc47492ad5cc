/* Who may create in the schema makes a table of ours before we do (PostgreSQL). What hangs on it
 * would run with the rights of whoever migrates, and of programs later. */
#include <string.h>

#include <sqlock/driver.h>
#include <sqlock/postgres.h>

#include "tests/lib/pq.h"
#include "tests/lib/private.h"
#include "tests/lib/words.h"

static sqlock_error err;

/* A trap leaves a mark that no rollback wipes out, if it runs with more rights than theirs. */
static void set_stage(void)
{
    private_exec(
        "SET client_min_messages = warning; DROP SCHEMA IF EXISTS ours CASCADE;"
        "DO $$ BEGIN CREATE ROLE stranger; EXCEPTION WHEN duplicate_object THEN NULL; END $$;"
        "DO $$ BEGIN CREATE ROLE deploy; EXCEPTION WHEN duplicate_object THEN NULL; END $$;"
        "CREATE SCHEMA ours; CREATE SEQUENCE ours.ran;"
        "GRANT CREATE, USAGE ON SCHEMA ours TO stranger, deploy;"
        "GRANT USAGE ON SEQUENCE ours.ran TO deploy;"
        "SET ROLE stranger; SET search_path = ours;"
        "CREATE FUNCTION trap() RETURNS int LANGUAGE plpgsql AS 'BEGIN PERFORM"
        " nextval(''ours.ran''); RETURN 1; EXCEPTION WHEN insufficient_privilege THEN RETURN 1;"
        " END';"
        "CREATE FUNCTION traps() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN PERFORM ours.trap(); RETURN NEW; END'");
}

static void assert_nothing_ran(void)
{
    assert_int_equal(private_number("SELECT is_called::int FROM ours.ran"), 0);
}

/* Without waiting long, and whatever comes of it. */
static void stranger_makes(const char *sql)
{
    private_exec("SET ROLE stranger; SET search_path = ours; SET lock_timeout = 50;"
                 "DO $do$ BEGIN %s; EXCEPTION WHEN OTHERS THEN NULL; END $do$",
                 sql);
}

#define META                                                                                       \
    "CREATE TABLE sqlock_meta (id smallint PRIMARY KEY, version int, min_reader int, inc int,"     \
    " server text, fence_floor bigint, lost_at bigint, longest bigint"
#define ROW       "; INSERT INTO sqlock_meta VALUES (1, 0, 4, 0, '', 0, 0, 0)"
#define MIGRATION "CREATE TABLE sqlock_migration (version int PRIMARY KEY, name text,"

static const struct {
    const char *sql, *says;
} squats[] = {
    {META ")" ROW "; CREATE TRIGGER t BEFORE INSERT OR UPDATE ON sqlock_meta FOR EACH ROW"
          " EXECUTE PROCEDURE traps()",
     "sqlock_meta belongs to stranger"},
    {META ")" ROW "; ALTER TABLE sqlock_meta ADD CHECK (trap() = 1)",
     "sqlock_meta belongs to stranger"},
    {META "); CREATE RULE r AS ON INSERT TO sqlock_meta DO ALSO SELECT trap()",
     "sqlock_meta belongs to stranger"},
    {"CREATE VIEW sqlock_meta AS SELECT 1 AS id, trap() AS version, 1 AS min_reader",
     "sqlock_meta of stranger is no plain table"},
    {"CREATE VIEW sqlock_migration AS SELECT trap() AS version, ''::text AS name,"
     " ''::text AS checksum, 1::bigint AS applied",
     "sqlock_migration of stranger is no plain table"},
    {MIGRATION " checksum text, applied bigint CHECK (trap() = 1))",
     "sqlock_migration belongs to stranger"},
    {"CREATE TABLE sqlock_broken (ns bytea)", "sqlock_broken belongs to stranger"},
};
enum { SQUATS = sizeof squats / sizeof *squats };

/* ---- migrating ------------------------------------------------------------------------------- */

/* As a role sees it; NULL: the superuser. */
static struct db ours(const char *role)
{
    static struct pq_login login;
    struct db db = private_db("ours");

    if (role == NULL)
        return db;
    login = (struct pq_login){private_url(), role};
    db.url = NULL;
    db.connect = pq_connect_as;
    db.connect_user = &login;
    return db;
}

static int migrate_as(const char *role, int version, unsigned flags)
{
    return db_migrate_to(ours(role), version, flags, NULL, &err);
}

TEST(test_a_table_that_a_stranger_made_is_refused_and_nothing_of_it_runs)
{
    static const char *const roles[] = {NULL, "deploy"};

    for (size_t i = 0; i < SQUATS; i++) {
        set_stage();
        stranger_makes(squats[i].sql);
        for (int way = 0; way < 4; way++) {
            int rc = migrate_as(roles[way % 2], SQLOCK_SCHEMA_LATEST,
                                way < 2 ? 0 : SQLOCK_MIGRATE_DRY_RUN);

            assert_nothing_ran();
            assert_code(SQLOCK_EREFUSED, rc, &err);
            assert_says(&err, squats[i].says);
        }
        assert_int_equal(private_number("SELECT count(*) FROM pg_class WHERE relkind IN ('r', 'v')"
                                        " AND relnamespace = 'ours'::regnamespace"),
                         1);
    }
}

static int see(const sqlock_migration_info *info, void *user)
{
    (void)info, (void)user;
    return 0;
}

/* Whoever looks need not be one who migrates. */
TEST(test_status_reads_tables_of_anybodys_but_no_view)
{
    sqlock_open_opts o = db_opts(ours("deploy"));

    for (size_t i = 0; i < SQUATS; i++) {
        int is_view = strstr(squats[i].says, "plain") != NULL, rc;

        set_stage();
        stranger_makes(squats[i].sql);
        rc = sqlock_migration_status(sqlock_driver_postgres(), NULL, &o, see, NULL, &err);
        assert_nothing_ran();
        if (is_view)
            assert_code(SQLOCK_EREFUSED, rc, &err);
    }
    set_stage();
    db_migrate(ours("stranger"));
    o = db_opts(ours("deploy"));
    private_exec("GRANT SELECT ON ours.sqlock_meta, ours.sqlock_migration TO deploy");
    assert_ok(sqlock_migration_status(sqlock_driver_postgres(), NULL, &o, see, NULL, &err), &err);
    assert_ok(sqlock_migration_verify(sqlock_driver_postgres(), NULL, &o, &err), &err);
}

/* Between any two requests. */
static struct squat {
    const char *sql;
    int at, calls;
} squat;

static void call(void)
{
    if (squat.calls++ == squat.at)
        stranger_makes(squat.sql);
}

static int squatted_run(void *conn, const sqlock_call *number, sqlock_stmt stmt,
                        const sqlock_value *values, size_t n, int64_t deadline, sqlock_rows *rows,
                        sqlock_error *out_err)
{
    call();
    return sqlock_driver_postgres()->run(conn, number, stmt, values, n, deadline, rows, out_err);
}

static int squatted_exec(void *conn, const char *sql, int64_t deadline, sqlock_error *out_err)
{
    call();
    return sqlock_driver_postgres()->exec(conn, sql, deadline, out_err);
}

TEST(test_a_table_that_a_stranger_makes_meanwhile_is_refused_too)
{
    sqlock_driver driver = *sqlock_driver_postgres();
    struct db db = ours(NULL);
    int refused = 0;

    driver.run = squatted_run;
    driver.exec = squatted_exec;
    db.driver = &driver;
    for (size_t i = 0; i < SQUATS; i++) {
        for (int at = 0; at < 8; at++) {
            set_stage();
            squat = (struct squat){squats[i].sql, at, 0};
            refused += db_try_migrate(db, &err) != 0;
            assert_true(squat.calls > at);
            assert_nothing_ran();
        }
    }
    assert_between(SQUATS * 3, refused, SQUATS * 8);
}

/* They could do the same to us anyway, or were given to us by who may. */
TEST(test_tables_of_other_roles_that_deploy_are_accepted)
{
    static const char *const ways[][2] = {
        {"GRANT deploy TO stranger", "REVOKE deploy FROM stranger"},
        {"GRANT stranger TO deploy", "REVOKE stranger FROM deploy"},
        {"ALTER SCHEMA ours OWNER TO stranger", "RESET ROLE"},
        {"ALTER ROLE stranger SUPERUSER", "ALTER ROLE stranger NOSUPERUSER"},
    };

    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        set_stage();
        assert_ok(migrate_as("stranger", 1, 0), &err);
        private_exec("GRANT ALL ON ALL TABLES IN SCHEMA ours TO deploy");
        assert_code(SQLOCK_EREFUSED, migrate_as("deploy", SQLOCK_SCHEMA_LATEST, 0), &err);
        private_exec("%s", ways[i][0]);
        db_migrate(ours("deploy"));
        private_exec("%s", ways[i][1]);
    }
}

/* Before PostgreSQL 15 any role may give itself to others; later who may hand it on. */
TEST(test_a_stranger_who_gives_us_his_role_is_still_one)
{
    set_stage();
    stranger_makes(squats[0].sql);
    private_exec("DROP ROLE IF EXISTS accomplice; CREATE ROLE accomplice;"
                 "GRANT stranger TO accomplice WITH ADMIN OPTION;"
                 "SET ROLE accomplice; GRANT stranger TO deploy");
    assert_code(SQLOCK_EREFUSED, migrate_as("deploy", SQLOCK_SCHEMA_LATEST, 0), &err);
    assert_nothing_ran();
    private_exec("SET ROLE accomplice; REVOKE stranger FROM deploy; RESET ROLE;"
                 "DROP ROLE accomplice");
}

/* ---- opening --------------------------------------------------------------------------------- */

TEST(test_what_is_no_plain_table_is_refused_when_it_is_opened)
{
    static const char *const fakes[] = {
        "ALTER TABLE sqlock_meta RENAME TO m;"
        "CREATE VIEW sqlock_meta AS SELECT * FROM m WHERE trap() = 1",
        "ALTER TABLE sqlock_lock RENAME TO l;"
        "CREATE VIEW sqlock_lock AS SELECT * FROM l WHERE trap() = 1",
        "CREATE RULE r AS ON UPDATE TO sqlock_meta DO ALSO SELECT trap()",
        "CREATE RULE r AS ON INSERT TO sqlock_register DO ALSO SELECT trap()",
    };

    for (size_t i = 0; i < sizeof fakes / sizeof *fakes; i++) {
        set_stage();
        db_migrate(ours("stranger"));
        stranger_makes(fakes[i]);
        assert_code(SQLOCK_EREFUSED, db_try(ours(NULL), &err), &err);
        assert_says(&err, i < 2 ? "no plain table" : "has a rule");
        assert_nothing_ran();
    }
}

/* Rows that a policy hides would look like a lock that is held. */
TEST(test_a_table_whose_rows_may_be_hidden_from_us_is_refused)
{
    static const char *const tables[] = {"lock", "waiter"};

    set_stage();
    db_migrate(ours("stranger"));
    private_exec("GRANT ALL ON ALL TABLES IN SCHEMA ours TO deploy");
    assert_ok(db_try(ours("deploy"), &err), &err);
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        private_exec("ALTER TABLE ours.sqlock_%s ENABLE ROW LEVEL SECURITY", tables[i]);
        assert_code(SQLOCK_EREFUSED, db_try(ours("deploy"), &err), &err);
        assert_says(&err, "row level security");
        private_exec("ALTER TABLE ours.sqlock_%s DISABLE ROW LEVEL SECURITY", tables[i]);
    }
}

/* For an audit, say. */
TEST(test_triggers_of_who_has_the_tables_are_accepted)
{
    set_stage();
    db_migrate(ours("stranger"));
    stranger_makes("CREATE TRIGGER t AFTER UPDATE ON sqlock_lock FOR EACH ROW"
                   " EXECUTE PROCEDURE traps()");
    assert_ok(db_try(ours(NULL), &err), &err);
}

TEST_MAIN_EACH(NULL, NULL)
