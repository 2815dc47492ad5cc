/* The schema in PostgreSQL: what migrations make of an empty schema, and who may use it. */
#include "tests/schema/schema.h"

#include <libpq-fe.h>
#include <sqlock/postgres.h>
#include <sqlock/register.h>
#include <sqlock/transaction.h>
#include <stdio.h>

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
    {"CHECK (octet_length(value) <= 65536)", "CHECK (true)", false},
    {"owner bytea,", "owner bytea NOT NULL,", true},
    {"owner bytea,", "owner bytea CHECK (octet_length(owner) = 16),", true},
    {"next_ticket", "next_tickets", true},
    {"CREATE TABLE {lock}", "CREATE UNLOGGED TABLE {lock}", false},
    {"threshold = 1000);", "threshold = 1000); CREATE INDEX ON {lock} (exp);", true},
    {"threshold = 1000);", "threshold = 1000); CREATE INDEX ON {lock} (lower(label::text));", true},
    {"threshold = 1000);", "threshold = 1000); CREATE INDEX ON {lock} (name);", false},
    {"threshold = 1000);", "threshold = 1000); CREATE INDEX ON {lock} USING brin (exp);", false},
    {"rows of their own\n    PRIMARY KEY (ns, name)",
     "rows of their own\n    PRIMARY KEY (ns, name), UNIQUE (ns, name, token)", true},
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

/* ---- the catalogue --------------------------------------------------------------------------- */

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

/* ---- schemas --------------------------------------------------------------------------------- */

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

/* Also in written SQL, where parameters are looked for before the schema's name is put in. */
TEST(test_schemas_with_any_letters_are_different_locks)
{
    static const char *const names[] = {
        "Two Words", "two words",
        "TWO WORDS", " ",
        "select",    "\xc3\x84rger.\xe6\x97\xa5\xe6\x9c\xac",
        "$1",        "{lock}",
        "?2",        ":name",
        "%s",        "321098765432109876543210987654321098765432109876543210987654321"};
    enum { N = sizeof names / sizeof *names };
    struct place p[N];
    sqlock_lock *lock[N];
    sqlock *m[N];

    for (size_t i = 0; i < N; i++) {
        p[i] = place_called(names[i]);
        place_pipe_written(&p[i], 0, SQLOCK_SCHEMA_LATEST);
        assert_int_equal(place_migrate(&p[i]), 0);
        m[i] = place_open(&p[i]);
        lock[i] = lock_now(m[i], "x");
        assert_int_equal(pg_number("SELECT count(*) FROM \"%s\".sqlock_lock", names[i]), 1);
    }
    for (size_t i = 0; i < N; i++) {
        int64_t token = sqlock_lock_token(lock[i]);

        lock_give(lock[i]);
        sqlock_close(m[i]);
        place_pipe_written(&p[i], SQLOCK_SCHEMA_LATEST, 0);
        assert_int_equal(place_migrate(&p[i]), (int)p[i].dialect->n_migrations);
        assert_true(place_use(&p[i], "x") > token);
    }
}

TEST(test_a_schema_that_is_not_there_is_reported)
{
    struct place p = place_of("sqlock test: not there");

    assert_code(SQLOCK_ESCHEMA, open_code(&p, &err), &err);
    assert_code(SQLOCK_ESCHEMA, migrate_code(&p, &err), &err);
}

/* ---- privileges ------------------------------------------------------------------------------ */

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

/* Registers, named rows and breaks take rights of their own, at their first use. */
static int use_a_register(struct db db)
{
    static int used;
    const char *name = textf("register %d", used++);
    sqlock *m = db_open(db);
    int64_t version = 0;
    size_t len;
    int rc = sqlock_register_get(m, name, NULL, 0, &len, &version, &err);

    for (int i = 0; rc == 0 && i < 2; i++)
        rc = sqlock_register_set(m, name, "v", 1, version, &version, &err);
    sqlock_close(m);
    return rc;
}

static int use_a_row(struct db db)
{
    sqlock *m = db_open(db);
    int rc = sqlock_ensure(m, "x", &err);

    sqlock_close(m);
    return rc;
}

/* One that cannot be noted is none. */
static int break_a_lock(struct db db)
{
    sqlock *m = db_open(db);
    sqlock_lock *lock = lock_take(m, "x", 0, SQLOCK_NO_RENEW);
    sqlock_error second;
    int rc = sqlock_break(m, "x", sqlock_lock_token(lock), &err);

    if (rc != 0) {
        assert_says(&err, "sqlock_broken");
        assert_ok(sqlock_renew(lock, &second), &second);
        lock_give(lock);
    } else {
        sqlock_lock_free(lock);
    }
    sqlock_close(m);
    return rc;
}

/* Until the lease that is in the way ends, and then the lock is passed on. */
static int wait_for_a_lock(struct db db)
{
    static int used;
    const char *name = textf("wait %d", used++);
    sqlock_acquire_opts o;
    sqlock *m = db_open(db);
    sqlock_lock *first = lock_take(m, name, 1000, SQLOCK_NO_RENEW), *lock = NULL;
    int rc;

    sqlock_acquire_opts_init(&o);
    rc = sqlock_acquire(m, name, &o, &lock, &err);
    if (rc == 0)
        rc = sqlock_release(lock, &err);
    sqlock_lock_free(lock);
    sqlock_lock_free(first);
    sqlock_close(m);
    return rc;
}

/* So that the list in migrations/README.md has no grant too many, and none is missing. */
TEST(test_all_documented_grants_are_enough_and_each_is_needed)
{
    static const struct {
        const char *table, *rights[5];
        int (*use)(struct db db);
    } grants[] = {{"{broken}", {"SELECT", "INSERT", "UPDATE", "DELETE"}, break_a_lock},
                  {"{lock}", {"SELECT", "INSERT", "UPDATE"}, use_everything},
                  {"{meta}", {"SELECT", "UPDATE"}, use_everything},
                  {"{register}", {"SELECT", "INSERT", "UPDATE"}, use_a_register},
                  {"{row}", {"SELECT", "INSERT"}, use_a_row},
                  {"{waiter}", {"SELECT", "INSERT", "DELETE"}, wait_for_a_lock},
                  {"{client}", {"SELECT", "INSERT", "UPDATE", "DELETE"}, wait_for_a_lock}};
    struct place p = place_new();
    struct db db = as_user_of_leases(&p);

    grant(&p, "SELECT, INSERT, UPDATE, DELETE",
          "{client}"); /* it is tried after {waiter}, and needed there */
    for (size_t i = 0; i < sizeof grants / sizeof *grants; i++) {
        const char *const *rights = grants[i].rights, *table = grants[i].table;

        for (int r = 0; rights[r] != NULL; r++)
            grant(&p, rights[r], table);
        for (int r = 0; rights[r] != NULL; r++) {
            place_exec(&p, textf("REVOKE %s ON %s FROM %s", rights[r], table, role));
            leave_a_row(&p);
            if (grants[i].use(db) != SQLOCK_EDENIED)
                fail_msg("%s on %s is not needed: %s", rights[r], table, err.text);
            assert_string_equal(err.sqlstate, "42501");
            /* When it is opened, and not at the first acquire: then the program is under way. */
            if (grants[i].use == use_everything)
                assert_error(SQLOCK_EDENIED, textf("%s on", rights[r]), db_try(db, &err), &err);
            grant(&p, rights[r], table);
        }
        /* Who meets another server writes its name to meta: as the role, too. */
        place_exec(&p, "UPDATE {meta} SET server = 'another'");
        leave_a_row(&p);
        assert_ok(grants[i].use(db), &err);
    }
}

/* Clearing takes what every lock takes; pruning takes DELETE, and no right to make more. */
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

static int count_waiter(const sqlock_waiter *waiter, void *user)
{
    (void)waiter, (void)user;
    return 0;
}

TEST(test_seeing_who_waits_takes_the_right_to_read_waiters_and_clients)
{
    static const char *const tables[] = {"{waiter}", "{client}"};
    struct place p = place_new();
    sqlock *m = db_open(as_user_of_leases(&p));

    for (int i = 0; i < 2; i++) {
        assert_code(SQLOCK_EDENIED, sqlock_list_waiters(m, NULL, count_waiter, NULL, &err), &err);
        assert_string_equal(err.sqlstate, "42501");
        grant(&p, "SELECT", tables[i]);
    }
    assert_ok(sqlock_list_waiters(m, NULL, count_waiter, NULL, &err), &err);
    sqlock_close(m);
}

TEST(test_rights_on_columns_will_do)
{
    struct place p = place_migrated();
    struct db db = as_role(&p);

    grant(&p, "SELECT, INSERT", "{lock}");
    grant(&p,
          "UPDATE (owner, token, exp, ttl, since, label, ended_owner, ended_token, "
          "ended_why, withdrawn, idle_since, client, offered)",
          "{lock}");
    grant(&p, "SELECT, UPDATE", "{meta}");
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

TEST_MAIN_EACH(NULL, NULL)
