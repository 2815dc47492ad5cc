/* The schema in PostgreSQL: what migrations make of an empty schema, and who may use it. */
#include "tests/schema/tap.h"

#include <libpq-fe.h>
#include <sqlock/postgres.h>
#include <sqlock/register.h>
#include <sqlock/transaction.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/pg.h"
#include "tests/lib/undo.h"

extern const sqlock_dialect sqlock_postgres_dialect;

const struct damage place_damages[] = {
    {"noted ON {broken} (noted)", "noted ON {broken} (token)", false},
    {"min_reader integer NOT NULL", "min_reader integer", true},
    {"fence_floor bigint", "fence_floor numeric", true},
    {"longest bigint NOT NULL", "longest bigint", true},
    {"ttl bigint NOT NULL DEFAULT 0", "ttl bigint NOT NULL DEFAULT 1", false},
    {"octet_length(ns) <= 63", "octet_length(ns) <= 64", false},
    {"kind smallint NOT NULL DEFAULT 0", "kind smallint NOT NULL DEFAULT 1", false},
    {"kind smallint NOT NULL DEFAULT 0", "kind smallint NOT NULL", false},
    {"PRIMARY KEY (ns, name)", "PRIMARY KEY (name, ns)", true},
    {"PRIMARY KEY (ns, name)", "UNIQUE (ns, name)", true},
    {"fillfactor = 50", "fillfactor = 60", false},
    {", autovacuum_vacuum_threshold = 1000", "", false},
    {"CHECK ((owner IS NULL) = (exp IS NULL))", "CHECK (true)", false},
    {",\n    CHECK ((owner IS NULL) = (exp IS NULL))", "", true},
    {"owner bytea CHECK", "owner bytea NOT NULL CHECK", true},
    {"next_ticket", "next_tickets", true},
    {"CREATE TABLE {lock}", "CREATE UNLOGGED TABLE {lock}", false},
    {"threshold = 1000);", "threshold = 1000); CREATE INDEX ON {lock} (exp);", true},
    {"threshold = 1000);", "threshold = 1000); CREATE INDEX ON {lock} (lower(label::text));", true},
    {"threshold = 1000);", "threshold = 1000); CREATE INDEX ON {lock} (name);", false},
    {"threshold = 1000);", "threshold = 1000); CREATE INDEX ON {lock} USING brin (exp);", false},
    {"PRIMARY KEY (ns, name),", "PRIMARY KEY (ns, name), UNIQUE (ns, name, token),", true},
    {"threshold = 1000);", "threshold = 1000); CREATE SEQUENCE \"{schema}\".more;", false},
    {"threshold = 1000);", "threshold = 1000); ALTER TABLE {lock} ENABLE ROW LEVEL SECURITY;",
     false},
    {"octet_length(value) <= 65536", "octet_length(value) <= 65535", false},
    {"value bytea NOT NULL", "value bytea", true},
    {"version bigint NOT NULL CHECK (version > 0)", "version bigint NOT NULL", true},
    {"CREATE TABLE {row}", "CREATE UNLOGGED TABLE {row}", false},
    {"VALUES (1, 0, 4, 0, '', 0, 0, 0)", "VALUES (1, 0, 4, 0, '', 7, 0, 0)", false},
    {NULL, NULL, false}};

static struct place place_of(const char *schema)
{
    struct place p = {.driver = sqlock_driver_postgres(),
                      .dialect = &sqlock_postgres_dialect,
                      .schema = schema,
                      .prefix = "sqlock_"};

    snprintf(p.url, sizeof p.url, "%s", pg_url());
    return p;
}

struct place place_new(void)
{
    return place_of(pg_schema_new());
}

bool place_keeps_checks(void)
{
    return true;
}

void place_exec_text(const struct place *p, const char *sql)
{
    (void)p;
    pg_exec("%s", sql);
}

int64_t place_number_text(const struct place *p, const char *sql)
{
    (void)p;
    return pg_number("%s", sql);
}

const char *const place_end_lease = NULL;

bool place_has_locks(const struct place *p)
{
    return place_number(p, "SELECT (to_regclass('{lock}') IS NOT NULL)::int") == 1;
}

bool place_pipe(const struct place *p, const char *sql)
{
    char command[700];

    snprintf(command, sizeof command, "psql -X -q -v ON_ERROR_STOP=1 '%s' >/dev/null", p->url);
    return pipe_to("psql", command, sql);
}

/* ---- the catalogue -----------------------------------------------------------------------------
 */

static void put_rows(FILE *f, PGconn *c, const struct place *p, const char *text)
{
    char *sql = place_fill(p, text);
    PGresult *res = PQexec(c, sql);

    if (PQresultStatus(res) != PGRES_TUPLES_OK)
        fail_msg("%s\n%s", sql, PQerrorMessage(c));
    for (int row = 0; row < PQntuples(res); row++) {
        for (int i = 0; i < PQnfields(res); i++)
            fprintf(f, "%s=%s ", PQfname(res, i),
                    PQgetisnull(res, row, i) ? "NULL" : PQgetvalue(res, row, i));
        fputc('\n', f);
    }
    PQclear(res);
    free(sql);
}

/* What the migrations make, by name: servers and their packagers put things of their own into other
 * columns of the catalogue. */
#define HERE " WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = '{schema}') "

/* Once the server is known the floor is the clock. */
#define META_AS_MIGRATED                                                                           \
    "SELECT id, min_reader, CASE WHEN fence_floor < 1000000000 THEN fence_floor ELSE 0 END, "      \
    "lost_at, longest FROM {meta}"

char *place_catalogue(const struct place *p)
{
    PGconn *c = PQconnectdb(p->url);
    char *out = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&out, &size);

    assert_non_null(f);
    put_rows(f, c, p,
             "SELECT c.relname, c.relkind, c.relpersistence, c.reloptions, c.relrowsecurity "
             "FROM pg_class c" HERE "ORDER BY c.relname");
    put_rows(f, c, p,
             "SELECT c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), "
             "a.attnotnull, pg_get_expr(d.adbin, d.adrelid), a.attisdropped "
             "FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 "
             "LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum" HERE
             "ORDER BY c.relname, a.attnum");
    put_rows(f, c, p,
             "SELECT c.relname, k.conname, k.contype, pg_get_constraintdef(k.oid), k.convalidated "
             "FROM pg_class c JOIN pg_constraint k ON k.conrelid = c.oid AND k.contype <> 'n'" HERE
             "ORDER BY c.relname, k.conname");
    put_rows(f, c, p,
             "SELECT c.relname, pg_get_indexdef(i.indexrelid), i.indisprimary, i.indisvalid "
             "FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid" HERE "ORDER BY c.relname");
    put_rows(f, c, p,
             "SELECT c.typname FROM pg_type c"
             " WHERE c.typnamespace = (SELECT oid FROM "
             "pg_namespace WHERE nspname = '{schema}') ORDER BY c.typname");
    if (place_number(p, "SELECT (to_regclass('{meta}') IS NOT NULL)::int") == 1)
        put_rows(f, c, p, META_AS_MIGRATED);
    fclose(f);
    PQfinish(c);
    return text_replace(out, p->schema, "SCHEMA");
}

/* ---- schemas -----------------------------------------------------------------------------------
 */

static void drop_quoted(const char *schema)
{
    pg_exec("DROP SCHEMA IF EXISTS \"%s\" CASCADE", schema);
}

static void test_schemas_with_any_letters_are_different_locks(void **state)
{
    static const char *const names[] = {
        "Two Words", "two words",
        "TWO WORDS", " ",
        "select",    "\xc3\x84rger.\xe6\x97\xa5\xe6\x9c\xac",
        "$1",        "{lock}",
        "%s",        "321098765432109876543210987654321098765432109876543210987654321"};
    size_t n = sizeof names / sizeof *names;
    struct place p = place_of(NULL);
    sqlock_lock *lock[16] = {NULL};
    sqlock *m[16];
    sqlock_error err;

    (void)state;
    for (size_t i = 0; i < n; i++) {
        pg_exec("DROP SCHEMA IF EXISTS \"%s\" CASCADE; CREATE SCHEMA \"%s\"", names[i], names[i]);
        p.schema = undo_later(drop_quoted, names[i]);
        assert_int_equal(place_migrate(&p), (int)p.dialect->n_migrations);
        assert_int_equal(place_migrate(&p), 0);
        m[i] = place_open(&p);
        assert_ok(sqlock_acquire(m[i], "x", NULL, &lock[i], &err), &err);
        assert_int_equal(pg_number("SELECT count(*) FROM \"%s\".sqlock_lock", names[i]), 1);
    }
    for (size_t i = 0; i < n; i++) {
        assert_ok(sqlock_release(lock[i], &err), &err);
        sqlock_lock_free(lock[i]);
        sqlock_close(m[i]);
    }
}

static void test_a_schema_that_is_not_there_is_told(void **state)
{
    struct place p = place_new();
    sqlock_open_opts o = place_opts(&p);
    sqlock_error err;
    sqlock *m = NULL;

    (void)state;
    o.schema = "sqlock test: not there";
    assert_code(SQLOCK_ESCHEMA, sqlock_open(p.driver, p.url, &o, &m, &err), &err);
    assert_code(SQLOCK_ESCHEMA, sqlock_migrate(p.driver, p.url, &o, NULL, &err), &err);
    assert_null(m);
}

/* ---- privileges --------------------------------------------------------------------------------
 */

struct login {
    const char *url, *role;
};

/* The role's own rights count from here on, and its name needs no way to log in. */
static int connect_as(void *user, void **out_native, sqlock_error *err)
{
    const struct login *login = user;
    PGconn *c = PQconnectdb(login->url);
    char sql[128];

    snprintf(sql, sizeof sql, "SET SESSION AUTHORIZATION %s", login->role);
    PQclear(PQexec(c, sql));
    if (PQstatus(c) != CONNECTION_OK) {
        snprintf(err->text, sizeof err->text, "%s", PQerrorMessage(c));
        PQfinish(c);
        return err->code = SQLOCK_EUNREACH;
    }
    *out_native = c;
    return 0;
}

static void drop_role(const char *role)
{
    pg_exec("DROP OWNED BY %s; DROP ROLE %s", role, role);
}

/* A role with the right to look into the schema, and to do there what is granted by it. */
static const char *role_new(const struct place *p)
{
    char role[80];

    if (pg_number("SELECT rolsuper::int FROM pg_roles WHERE rolname = current_user") != 1) {
        print_error("SKIP: privileges: the tests' own role may not create roles\n");
        if (test_strict())
            fail_msg("STRICT=1 asks for every test");
        skip();
    }
    snprintf(role, sizeof role, "%s_role", p->schema);
    pg_exec("CREATE ROLE %s; GRANT USAGE ON SCHEMA %s TO %s", role, p->schema, role);
    return undo_later(drop_role, role);
}

static void grant(const struct place *p, const char *role, const char *rights, const char *table)
{
    char sql[256];

    snprintf(sql, sizeof sql, "GRANT %s ON %s TO %s", rights, table, role);
    place_exec(p, sql);
}

static int count_names(const sqlock_info *info, void *user)
{
    (void)info;
    ++*(int *)user;
    return 0;
}

/* The first code that is not 0 of all that a program does with locks. Taking over someone else's
 * row, and a name that was never locked, are different requests to the database. */
static int use_everything(const struct place *p, const char *role, sqlock_error *err)
{
    struct login login = {p->url, role};
    sqlock_open_opts o = place_opts(p);
    sqlock_acquire_opts once = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL;
    sqlock *m = NULL;
    int names = 0, rc;

    o.connect = connect_as;
    o.connect_user = &login;
    once.wait_ms = 0;
    rc = sqlock_open(p->driver, NULL, &o, &m, err);
    if (rc == 0)
        rc = sqlock_acquire(m, "left behind", &once, &lock, err);
    if (rc == 0)
        rc = sqlock_renew(lock, err);
    if (rc == 0)
        rc = sqlock_list(m, NULL, count_names, &names, err);
    if (rc == 0)
        rc = sqlock_release(lock, err);
    sqlock_lock_free(lock);
    lock = NULL;
    if (rc == 0)
        rc = sqlock_acquire(m, "new", &once, &lock, err);
    if (rc == 0)
        rc = sqlock_break(m, "new", sqlock_lock_token(lock), err);
    sqlock_lock_free(lock);
    sqlock_close(m);
    if (rc == 0)
        assert_int_equal(names, 1);
    return rc;
}

static void leave_a_row(const struct place *p)
{
    place_exec(p, "DELETE FROM {lock}");
    place_exec(p, "INSERT INTO {lock} (ns, name, owner, token, exp, since) SELECT '', "
                  "'left behind', decode(repeat('ab', 16), 'hex'), 1, 1, 1");
}

static void test_a_role_with_the_documented_grants_can_do_everything(void **state)
{
    struct place p = place_new();
    const char *role;
    sqlock_error err;

    (void)state;
    role = role_new(&p);
    place_migrate(&p);
    grant(&p, role, "SELECT, INSERT, UPDATE", "{lock}");
    grant(&p, role, "SELECT, UPDATE", "{meta}");
    grant(&p, role, "SELECT, INSERT, UPDATE, DELETE", "{broken}");
    /* Who meets another server writes its name to meta: as the role, too. */
    place_exec(&p, "UPDATE {meta} SET server = 'another'");
    leave_a_row(&p);
    assert_ok(use_everything(&p, role, &err), &err);
    leave_a_row(&p);
    assert_ok(use_everything(&p, role, &err), &err);
}

/* So that the list in migrations/README.md has no grant too many. */
static void test_each_documented_grant_is_needed(void **state)
{
    static const struct {
        const char *lock, *meta;
    } lacking[] = {{"INSERT, UPDATE", "SELECT, UPDATE"},
                   {"SELECT, UPDATE", "SELECT, UPDATE"},
                   {"SELECT, INSERT", "SELECT, UPDATE"},
                   {"SELECT, INSERT, UPDATE", "UPDATE"},
                   {"SELECT, INSERT, UPDATE", "SELECT"}};
    struct place p = place_new();
    const char *role;
    sqlock_error err;

    (void)state;
    role = role_new(&p);
    place_migrate(&p);
    sqlock_close(place_open(&p)); /* the server's name is in meta: no write is needed for it */
    for (size_t i = 0; i < sizeof lacking / sizeof *lacking; i++) {
        place_exec(&p, "REVOKE ALL ON {lock}, {meta} FROM PUBLIC");
        pg_exec("REVOKE ALL ON ALL TABLES IN SCHEMA %s FROM %s", p.schema, role);
        grant(&p, role, lacking[i].lock, "{lock}");
        grant(&p, role, lacking[i].meta, "{meta}");
        leave_a_row(&p);
        assert_code(SQLOCK_EDENIED, use_everything(&p, role, &err), &err);
        assert_string_equal(err.sqlstate, "42501");
    }
}

static int reap_as(const struct place *p, const char *role, sqlock_reap_report *r,
                   sqlock_error *err)
{
    struct login login = {p->url, role};
    sqlock_open_opts o = place_opts(p);
    sqlock *m = NULL;
    int rc;

    o.connect = connect_as;
    o.connect_user = &login;
    rc = sqlock_open(p->driver, NULL, &o, &m, err);
    if (rc == 0)
        rc = sqlock_reap(m, NULL, r, err);
    sqlock_close(m);
    return rc;
}

/* Clearing takes what every lock takes; pruning takes DELETE, and no right to make or change more.
 */
static void test_pruning_takes_the_right_to_delete(void **state)
{
    struct place p = place_new();
    sqlock_reap_report r = {.size = sizeof r};
    const char *role;
    sqlock_error err;

    (void)state;
    role = role_new(&p);
    place_migrate(&p);
    grant(&p, role, "SELECT, INSERT, UPDATE", "{lock}");
    grant(&p, role, "SELECT, UPDATE", "{meta}");
    leave_a_row(&p);
    assert_ok(reap_as(&p, role, &r, &err), &err);
    assert_int_equal(r.cleared, 1);
    place_exec(&p, "UPDATE {lock} SET idle_since = 1");
    assert_code(SQLOCK_EDENIED, reap_as(&p, role, &r, &err), &err);
    assert_string_equal(err.sqlstate, "42501");
    grant(&p, role, "DELETE", "{lock}");
    assert_ok(reap_as(&p, role, &r, &err), &err);
    assert_int_equal(r.pruned, 1);
}

/* The first code that is not 0 of what a program does with registers and named rows. */
static int use_registers(sqlock *m, const char *name, sqlock_error *err)
{
    int64_t version = 0;
    size_t len;
    int rc = sqlock_register_get(m, name, NULL, 0, &len, &version, err);

    for (int i = 0; rc == 0 && i < 2; i++)
        rc = sqlock_register_set(m, name, "v", 1, version, &version, err);
    return rc;
}

/* Leases need no right on the tables of registers and rows, which in turn are asked for at their
 * first use; and the list in migrations/README.md has no grant too many. */
static void test_registers_and_rows_take_rights_of_their_own(void **state)
{
    static const char *const lacking[] = {"INSERT, UPDATE", "SELECT, UPDATE", "SELECT, INSERT"};
    struct place p = place_new();
    struct login login = {p.url, NULL};
    sqlock_open_opts o = place_opts(&p);
    sqlock_error err;
    sqlock *m = NULL;
    char name[16];

    (void)state;
    login.role = role_new(&p);
    o.connect = connect_as;
    o.connect_user = &login;
    place_migrate(&p);
    grant(&p, login.role, "SELECT, INSERT, UPDATE", "{lock}");
    grant(&p, login.role, "SELECT, UPDATE", "{meta}");
    assert_ok(sqlock_open(p.driver, NULL, &o, &m, &err), &err);
    assert_code(SQLOCK_EDENIED, use_registers(m, "x", &err), &err);
    assert_code(SQLOCK_EDENIED, sqlock_ensure(m, "x", &err), &err);
    assert_string_equal(err.sqlstate, "42501");
    for (size_t i = 0; i < sizeof lacking / sizeof *lacking; i++) {
        pg_exec("REVOKE ALL ON %s.sqlock_register FROM %s", p.schema, login.role);
        grant(&p, login.role, lacking[i], "{register}");
        snprintf(name, sizeof name, "lacking %zu", i);
        assert_code(SQLOCK_EDENIED, use_registers(m, name, &err), &err);
    }
    grant(&p, login.role, "SELECT, INSERT, UPDATE", "{register}");
    assert_ok(use_registers(m, "x", &err), &err);
    grant(&p, login.role, "SELECT", "{row}");
    assert_code(SQLOCK_EDENIED, sqlock_ensure(m, "x", &err), &err);
    grant(&p, login.role, "INSERT", "{row}");
    assert_ok(sqlock_ensure(m, "x", &err), &err);
    sqlock_close(m);
}

/* A break that cannot be noted is none. */
static void test_breaking_takes_the_rights_on_its_notes(void **state)
{
    static const char *const lacking[] = {"SELECT, INSERT, UPDATE", "SELECT, INSERT, DELETE",
                                          "SELECT, UPDATE, DELETE", "INSERT, UPDATE, DELETE"};
    struct place p = place_new();
    struct login login = {p.url, NULL};
    sqlock_open_opts o = place_opts(&p);
    sqlock_acquire_opts forever = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL;
    sqlock_error err;
    sqlock *m = NULL;

    (void)state;
    login.role = role_new(&p);
    o.connect = connect_as;
    o.connect_user = &login;
    forever.flags = SQLOCK_NO_RENEW;
    place_migrate(&p);
    grant(&p, login.role, "SELECT, INSERT, UPDATE", "{lock}");
    grant(&p, login.role, "SELECT, UPDATE", "{meta}");
    assert_ok(sqlock_open(p.driver, NULL, &o, &m, &err), &err);
    assert_ok(sqlock_acquire(m, "x", &forever, &lock, &err), &err);
    for (size_t i = 0; i < sizeof lacking / sizeof *lacking; i++) {
        pg_exec("REVOKE ALL ON %s.sqlock_broken FROM %s", p.schema, login.role);
        grant(&p, login.role, lacking[i], "{broken}");
        assert_code(SQLOCK_EDENIED, sqlock_break(m, "x", sqlock_lock_token(lock), &err), &err);
        assert_non_null(strstr(err.text, "sqlock_broken"));
        assert_ok(sqlock_renew(lock, &err), &err);
    }
    grant(&p, login.role, "SELECT, INSERT, UPDATE, DELETE", "{broken}");
    assert_ok(sqlock_break(m, "x", sqlock_lock_token(lock), &err), &err);
    sqlock_lock_free(lock);
    sqlock_close(m);
}

/* Not at the first acquire: then the program is under way. */
static void test_opening_tells_which_right_is_missing(void **state)
{
    struct place p = place_new();
    struct login login = {p.url, NULL};
    sqlock_open_opts o = place_opts(&p);
    sqlock_error err;
    sqlock *m = NULL;

    (void)state;
    login.role = role_new(&p);
    o.connect = connect_as;
    o.connect_user = &login;
    place_migrate(&p);
    grant(&p, login.role, "SELECT, INSERT", "{lock}");
    grant(&p, login.role, "SELECT, UPDATE", "{meta}");
    assert_code(SQLOCK_EDENIED, sqlock_open(p.driver, NULL, &o, &m, &err), &err);
    assert_string_equal(err.sqlstate, "42501");
    assert_non_null(strstr(err.text, "UPDATE on"));
    assert_non_null(strstr(err.text, "sqlock_lock"));
    /* Rights on columns will do. */
    grant(&p, login.role,
          "UPDATE (owner, token, exp, ttl, since, label, ended_owner, ended_token, "
          "ended_why, withdrawn, idle_since)",
          "{lock}");
    assert_ok(sqlock_open(p.driver, NULL, &o, &m, &err), &err);
    sqlock_close(m);
}

static void test_migrating_without_the_right_to_create_is_denied(void **state)
{
    struct place p = place_new();
    struct login login = {p.url, NULL};
    sqlock_open_opts o = place_opts(&p);
    sqlock_error err;
    char *before = place_catalogue(&p), *after;

    (void)state;
    login.role = role_new(&p);
    o.connect = connect_as;
    o.connect_user = &login;
    assert_code(SQLOCK_EDENIED, sqlock_migrate(p.driver, NULL, &o, NULL, &err), &err);
    after = place_catalogue(&p);
    assert_string_equal(before, after);
    free(before);
    free(after);
    pg_exec("GRANT CREATE ON SCHEMA %s TO %s", p.schema, login.role);
    assert_ok(sqlock_migrate(p.driver, NULL, &o, NULL, &err), &err);
}

/* ---- down --------------------------------------------------------------------------------------
 */

/* The twin takes the floor down as the real one does, but leaves the table open meanwhile: what is
 * granted between the look at the tokens and the end of the table is not in the floor. */
static void test_P2_without_the_lock_on_the_table_a_token_repeats(void **state)
{
    static const sqlock_step nothing[] = {{"SELECT 0, 1 WHERE false", NULL, 0, 0}};
    static sqlock_script scripts[SQLOCK_STMT_COUNT];
    static sqlock_migration only;
    struct place p = place_new();
    sqlock_dialect dialect = *p.dialect;

    (void)state;
    memcpy(scripts, dialect.scripts, sizeof scripts);
    scripts[SQLOCK_STMT_MIGRATE_CLOSE].steps = nothing;
    dialect.scripts = scripts;
    only = dialect.migrations[0];
    assert_non_null(strstr(only.down[0], "LOCK TABLE"));
    only.down++;
    only.n_down--;
    dialect.migrations = &only;
    dialect.n_migrations = 1;
    assert_true(tokens_repeat_over_down(place_with(&p, &dialect)));
}

/* A parameter's place is looked for before the schema's name is put in. */
static void test_written_sql_is_for_a_schema_with_any_letters(void **state)
{
    static const char *const names[] = {"$1", "?2", "Two Words", ":name", "%s"};
    struct place p = place_of(NULL);

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int64_t token;

        pg_exec("DROP SCHEMA IF EXISTS \"%s\" CASCADE; CREATE SCHEMA \"%s\"", names[i], names[i]);
        p.schema = undo_later(drop_quoted, names[i]);
        place_pipe_written(&p, 0, 3);
        assert_int_equal(place_migrate(&p), 0);
        token = place_use(&p, "x");
        place_pipe_written(&p, 3, 0);
        assert_int_equal(place_migrate(&p), 3);
        assert_true(place_use(&p, "x") > token);
    }
}

static const struct CMUnitTest tests[] = {
    SCHEMA_TESTS,
    cmocka_unit_test(test_schemas_with_any_letters_are_different_locks),
    cmocka_unit_test(test_a_schema_that_is_not_there_is_told),
    cmocka_unit_test(test_a_role_with_the_documented_grants_can_do_everything),
    cmocka_unit_test(test_each_documented_grant_is_needed),
    cmocka_unit_test(test_pruning_takes_the_right_to_delete),
    cmocka_unit_test(test_registers_and_rows_take_rights_of_their_own),
    cmocka_unit_test(test_breaking_takes_the_rights_on_its_notes),
    cmocka_unit_test(test_opening_tells_which_right_is_missing),
    cmocka_unit_test(test_migrating_without_the_right_to_create_is_denied),
    cmocka_unit_test(test_P2_without_the_lock_on_the_table_a_token_repeats),
    cmocka_unit_test(test_written_sql_is_for_a_schema_with_any_letters),
};

TEST_MAIN(tests)
