/* The schema in PostgreSQL: what migrations make of an empty schema, and who may use it. */
#include "tests/schema/tap.h"

#include <libpq-fe.h>
#include <sqlock/postgres.h>
#include <sqlock/register.h>
#include <sqlock/transaction.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/pg.h"
#include "tests/lib/pq.h"
#include "tests/lib/undo.h"

static sqlock_error err;

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
    return pipe_to("psql", textf("psql -X -q -v ON_ERROR_STOP=1 '%s' >/dev/null", p->url), sql);
}

/* ---- the catalogue -----------------------------------------------------------------------------
 */

static void put_rows(FILE *f, PGconn *c, const struct place *p, const char *text)
{
    PGresult *res = PQexec(c, place_fill(p, text));

    if (PQresultStatus(res) != PGRES_TUPLES_OK)
        fail_msg("%s\n%s", text, PQerrorMessage(c));
    for (int row = 0; row < PQntuples(res); row++) {
        for (int i = 0; i < PQnfields(res); i++)
            fprintf(f, "%s=%s ", PQfname(res, i),
                    PQgetisnull(res, row, i) ? "NULL" : PQgetvalue(res, row, i));
        fputc('\n', f);
    }
    PQclear(res);
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
    PGconn *c = pq_open(p->url);
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
    return text_replace(kept(out), p->schema, "SCHEMA");
}

/* ---- schemas -----------------------------------------------------------------------------------
 */

static void drop_quoted(const char *schema)
{
    pg_exec("DROP SCHEMA IF EXISTS \"%s\" CASCADE", schema);
}

static struct place place_called(const char *schema)
{
    drop_quoted(schema);
    pg_exec("CREATE SCHEMA \"%s\"", schema);
    return place_of(undo_later(drop_quoted, schema));
}

TEST(test_schemas_with_any_letters_are_different_locks)
{
    static const char *const names[] = {
        "Two Words", "two words",
        "TWO WORDS", " ",
        "select",    "\xc3\x84rger.\xe6\x97\xa5\xe6\x9c\xac",
        "$1",        "{lock}",
        "%s",        "321098765432109876543210987654321098765432109876543210987654321"};
    size_t n = sizeof names / sizeof *names;
    sqlock_lock *lock[16] = {NULL};
    sqlock *m[16];

    for (size_t i = 0; i < n; i++) {
        struct place p = place_called(names[i]);

        assert_int_equal(place_migrate(&p), (int)p.dialect->n_migrations);
        assert_int_equal(place_migrate(&p), 0);
        m[i] = place_open(&p);
        lock[i] = lock_now(m[i], "x");
        assert_int_equal(pg_number("SELECT count(*) FROM \"%s\".sqlock_lock", names[i]), 1);
    }
    for (size_t i = 0; i < n; i++) {
        lock_give(lock[i]);
        sqlock_close(m[i]);
    }
}

TEST(test_a_schema_that_is_not_there_is_told)
{
    struct place p = place_of("sqlock test: not there");

    assert_code(SQLOCK_ESCHEMA, open_code(&p, &err), &err);
    assert_code(SQLOCK_ESCHEMA, migrate_code(&p, &err), &err);
}

/* ---- privileges --------------------------------------------------------------------------------
 */

static const char *role; /* of the test */

static void drop_role(const char *name)
{
    pg_exec("DROP OWNED BY %s; DROP ROLE %s", name, name);
}

static void grant(const struct place *p, const char *rights, const char *table)
{
    place_exec(p, textf("GRANT %s ON %s TO %s", rights, table, role));
}

/* The place as a new role sees it, with the right to look into the schema, and to do there what is
 * granted to it. */
static struct db as_role(const struct place *p)
{
    static struct pq_login login;
    struct db db = place_db(p);

    if (pg_number("SELECT rolsuper::int FROM pg_roles WHERE rolname = current_user") != 1)
        skip_loudly("privileges: the tests' own role may not create roles");
    role = textf("%s_role", p->schema);
    pg_exec("CREATE ROLE %s; GRANT USAGE ON SCHEMA %s TO %s", role, p->schema, role);
    role = undo_later(drop_role, role);
    login = (struct pq_login){p->url, role};
    db.url = NULL;
    db.connect = pq_connect_as;
    db.connect_user = &login;
    return db;
}

/* In a schema that was migrated, with the rights that leases take. */
static struct db as_user_of_leases(const struct place *p)
{
    struct db db = as_role(p);

    place_migrate(p);
    grant(p, "SELECT, INSERT, UPDATE", "{lock}");
    grant(p, "SELECT, UPDATE", "{meta}");
    return db;
}

/* The first code that is not 0 of all that a program does with locks. Taking over someone else's
 * row, and a name that was never locked, are different requests to the database. */
static int use_everything(struct db db)
{
    sqlock_lock *lock = NULL;
    sqlock *m = NULL;
    int rc = db_open_to(db, &m, &err);

    if (rc == 0)
        rc = lock_try(m, "left behind", 0, &lock, &err);
    if (rc == 0)
        rc = sqlock_renew(lock, &err);
    if (rc == 0)
        assert_int_equal(list_count(m, 0), 1);
    if (rc == 0)
        rc = sqlock_release(lock, &err);
    sqlock_lock_free(lock);
    lock = NULL;
    if (rc == 0)
        rc = lock_try(m, "new", 0, &lock, &err);
    if (rc == 0)
        rc = sqlock_break(m, "new", sqlock_lock_token(lock), &err);
    sqlock_lock_free(lock);
    sqlock_close(m);
    return rc;
}

static void leave_a_row(const struct place *p)
{
    place_exec(p, "DELETE FROM {lock}");
    place_exec(p, "INSERT INTO {lock} (ns, name, owner, token, exp, since) SELECT '', "
                  "'left behind', decode(repeat('ab', 16), 'hex'), 1, 1, 1");
}

TEST(test_a_role_with_the_documented_grants_can_do_everything)
{
    struct place p = place_new();
    struct db db = as_user_of_leases(&p);

    grant(&p, "SELECT, INSERT, UPDATE, DELETE", "{broken}");
    /* Who meets another server writes its name to meta: as the role, too. */
    place_exec(&p, "UPDATE {meta} SET server = 'another'");
    for (int i = 0; i < 2; i++) {
        leave_a_row(&p);
        assert_ok(use_everything(db), &err);
    }
}

/* So that the list in migrations/README.md has no grant too many. */
TEST(test_each_documented_grant_is_needed)
{
    static const struct {
        const char *lock, *meta;
    } lacking[] = {{"INSERT, UPDATE", "SELECT, UPDATE"},
                   {"SELECT, UPDATE", "SELECT, UPDATE"},
                   {"SELECT, INSERT", "SELECT, UPDATE"},
                   {"SELECT, INSERT, UPDATE", "UPDATE"},
                   {"SELECT, INSERT, UPDATE", "SELECT"}};
    struct place p = place_new();
    struct db db = as_user_of_leases(&p);

    sqlock_close(place_open(&p)); /* the server's name is in meta: no write is needed for it */
    for (size_t i = 0; i < sizeof lacking / sizeof *lacking; i++) {
        place_exec(&p, "REVOKE ALL ON {lock}, {meta} FROM PUBLIC");
        pg_exec("REVOKE ALL ON ALL TABLES IN SCHEMA %s FROM %s", p.schema, role);
        grant(&p, lacking[i].lock, "{lock}");
        grant(&p, lacking[i].meta, "{meta}");
        leave_a_row(&p);
        assert_code(SQLOCK_EDENIED, use_everything(db), &err);
        assert_string_equal(err.sqlstate, "42501");
    }
}

/* Clearing takes what every lock takes; pruning takes DELETE, and no right to make or change more.
 */
TEST(test_pruning_takes_the_right_to_delete)
{
    struct place p = place_new();
    sqlock_reap_report r = {.size = sizeof r};
    sqlock *m = db_open(as_user_of_leases(&p));

    leave_a_row(&p);
    assert_ok(sqlock_reap(m, NULL, &r, &err), &err);
    assert_int_equal(r.cleared, 1);
    place_exec(&p, "UPDATE {lock} SET idle_since = 1");
    assert_code(SQLOCK_EDENIED, sqlock_reap(m, NULL, &r, &err), &err);
    assert_string_equal(err.sqlstate, "42501");
    grant(&p, "DELETE", "{lock}");
    assert_ok(sqlock_reap(m, NULL, &r, &err), &err);
    assert_int_equal(r.pruned, 1);
    sqlock_close(m);
}

/* The first code that is not 0 of what a program does with registers and named rows. */
static int use_registers(sqlock *m, const char *name)
{
    int64_t version = 0;
    size_t len;
    int rc = sqlock_register_get(m, name, NULL, 0, &len, &version, &err);

    for (int i = 0; rc == 0 && i < 2; i++)
        rc = sqlock_register_set(m, name, "v", 1, version, &version, &err);
    return rc;
}

/* Leases need no right on the tables of registers and rows, which in turn are asked for at their
 * first use; and the list in migrations/README.md has no grant too many. */
TEST(test_registers_and_rows_take_rights_of_their_own)
{
    static const char *const lacking[] = {"INSERT, UPDATE", "SELECT, UPDATE", "SELECT, INSERT"};
    struct place p = place_new();
    sqlock *m = db_open(as_user_of_leases(&p));

    assert_code(SQLOCK_EDENIED, use_registers(m, "x"), &err);
    assert_code(SQLOCK_EDENIED, sqlock_ensure(m, "x", &err), &err);
    assert_string_equal(err.sqlstate, "42501");
    for (size_t i = 0; i < sizeof lacking / sizeof *lacking; i++) {
        pg_exec("REVOKE ALL ON %s.sqlock_register FROM %s", p.schema, role);
        grant(&p, lacking[i], "{register}");
        assert_code(SQLOCK_EDENIED, use_registers(m, textf("lacking %zu", i)), &err);
    }
    grant(&p, "SELECT, INSERT, UPDATE", "{register}");
    assert_ok(use_registers(m, "x"), &err);
    grant(&p, "SELECT", "{row}");
    assert_code(SQLOCK_EDENIED, sqlock_ensure(m, "x", &err), &err);
    grant(&p, "INSERT", "{row}");
    assert_ok(sqlock_ensure(m, "x", &err), &err);
    sqlock_close(m);
}

/* A break that cannot be noted is none. */
TEST(test_breaking_takes_the_rights_on_its_notes)
{
    static const char *const lacking[] = {"SELECT, INSERT, UPDATE", "SELECT, INSERT, DELETE",
                                          "SELECT, UPDATE, DELETE", "INSERT, UPDATE, DELETE"};
    struct place p = place_new();
    sqlock *m = db_open(as_user_of_leases(&p));
    sqlock_lock *lock = lock_take(m, "x", 0, SQLOCK_NO_RENEW);

    for (size_t i = 0; i < sizeof lacking / sizeof *lacking; i++) {
        pg_exec("REVOKE ALL ON %s.sqlock_broken FROM %s", p.schema, role);
        grant(&p, lacking[i], "{broken}");
        assert_told(SQLOCK_EDENIED, "sqlock_broken",
                    sqlock_break(m, "x", sqlock_lock_token(lock), &err), &err);
        assert_ok(sqlock_renew(lock, &err), &err);
    }
    grant(&p, "SELECT, INSERT, UPDATE, DELETE", "{broken}");
    assert_ok(sqlock_break(m, "x", sqlock_lock_token(lock), &err), &err);
    sqlock_lock_free(lock);
    sqlock_close(m);
}

/* Not at the first acquire: then the program is under way. */
TEST(test_opening_tells_which_right_is_missing)
{
    struct place p = place_new();
    struct db db = as_role(&p);

    place_migrate(&p);
    grant(&p, "SELECT, INSERT", "{lock}");
    grant(&p, "SELECT, UPDATE", "{meta}");
    assert_told(SQLOCK_EDENIED, "UPDATE on", db_try(db, &err), &err);
    assert_string_equal(err.sqlstate, "42501");
    assert_says(&err, "sqlock_lock");
    /* Rights on columns will do. */
    grant(&p,
          "UPDATE (owner, token, exp, ttl, since, label, ended_owner, ended_token, "
          "ended_why, withdrawn, idle_since)",
          "{lock}");
    assert_ok(db_try(db, &err), &err);
}

TEST(test_migrating_without_the_right_to_create_is_denied)
{
    struct place p = place_new();
    struct db db = as_role(&p);
    char *before = place_catalogue(&p);

    assert_code(SQLOCK_EDENIED, db_try_migrate(db, &err), &err);
    assert_catalogue(&p, before);
    pg_exec("GRANT CREATE ON SCHEMA %s TO %s", p.schema, role);
    db_migrate(db);
}

/* ---- down --------------------------------------------------------------------------------------
 */

/* The twin takes the floor down as the real one does, but leaves the table open meanwhile: what is
 * granted between the look at the tokens and the end of the table is not in the floor. */
TEST(test_P2_without_the_lock_on_the_table_a_token_repeats)
{
    static const sqlock_step nothing[] = {{"SELECT 0, 1 WHERE false", NULL, 0, 0}};
    static sqlock_script scripts[SQLOCK_STMT_COUNT];
    static sqlock_migration only;
    struct place p = place_new();
    sqlock_dialect dialect = *p.dialect;

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
TEST(test_written_sql_is_for_a_schema_with_any_letters)
{
    static const char *const names[] = {"$1", "?2", "Two Words", ":name", "%s"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct place p = place_called(names[i]);
        int64_t token;

        place_pipe_written(&p, 0, 3);
        assert_int_equal(place_migrate(&p), 0);
        token = place_use(&p, "x");
        place_pipe_written(&p, 3, 0);
        assert_int_equal(place_migrate(&p), 3);
        assert_true(place_use(&p, "x") > token);
    }
}

TEST_MAIN_EACH(NULL, NULL)
