/* PostgreSQL finds functions, operators and types by the session's search_path. Somebody has put
 * ones of his own into a schema that comes first in ours: for every function and every operator
 * that there is, and for what our statements name in other types as well, which would be the better
 * match. None of them may run, whatever is asked. And none of the tables of our names that are in
 * pg_temp may be met. */
#include <ctype.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlock/cas.h>
#include <sqlock/driver.h>
#include <sqlock/postgres.h>
#include <sqlock/register.h>
#include <sqlock/rows.h>

#include "tests/drivers/suite.h"
#include "tests/lib/db.h"
#include "tests/lib/postgres_quirks.h"
#include "tests/lib/pq.h"
#include "tests/lib/private.h"

#define STRIKES                                                                                    \
    " LANGUAGE plpgsql AS $f$ BEGIN PERFORM pg_catalog.nextval('public.ran');"                     \
    " RAISE EXCEPTION 'hostile'; END $f$"
/* What cannot be made is left out. */
#define TRY(format, ...)                                                                           \
    " BEGIN EXECUTE format('" format "', " __VA_ARGS__ ");"                                        \
    " EXCEPTION WHEN OTHERS THEN NULL; END;"
#define TYPES                                                                                      \
    "unnest('{text,name,bytea,varchar,int2,int4,int8,numeric,float8,oid,regclass,regtype,json,"    \
    "interval,timestamptz,\"\\\"char\\\"\"}'::text[])"

static const char same_functions[] =
    "DO $do$ DECLARE f record; BEGIN FOR f IN SELECT p.proname AS name,"
    " oidvectortypes(p.proargtypes) AS args, p.proretset, format_type(p.prorettype, NULL) AS ret"
    " FROM pg_proc p WHERE pronamespace = 'pg_catalog'::regnamespace AND proname !~ '_in$|_recv$'"
    " AND 2281 <> ALL (proargtypes::oid[]) AND prorettype <> 2281 LOOP" TRY(
        "CREATE FUNCTION public.%I(%s) RETURNS %s%s %s",
        "f.name, f.args,"
        " CASE WHEN f.proretset THEN 'SETOF ' ELSE '' END, f.ret, $s$" STRIKES
        "$s$") " END LOOP; END $do$";

/* Of the functions that we name. */
static const char other_functions[] =
    "DO $do$ DECLARE f record; BEGIN FOR f IN SELECT DISTINCT name, t.args"
    " FROM unnest(string_to_array(current_setting('our.functions'), ',')) name,"
    " (SELECT a AS args FROM " TYPES " a UNION ALL SELECT a || ',' || b FROM " TYPES " a, " TYPES
    " b WHERE b = ANY ('{text,name,varchar,int4,oid,regclass}')) t LOOP" TRY(
        "CREATE FUNCTION public.%I(%s) RETURNS int8 %s",
        "f.name, f.args, $s$" STRIKES "$s$") " END LOOP; END $do$";

static const char operators[] =
    "DO $do$ DECLARE o record; BEGIN FOR o IN SELECT a, b, op,"
    " CASE WHEN op ~ '^[-+*/|]' THEN a WHEN op = '->>' THEN 'text' ELSE 'bool' END AS ret"
    " FROM " TYPES " a, " TYPES
    " b, unnest('{=,<>,<,>,<=,>=,+,-,*,/,||,->>,~}'::text[]) op LOOP" TRY(
        "CREATE OR REPLACE FUNCTION public.strike_%s(%s, %s) RETURNS %s %s",
        "md5(o.ret), o.a, o.b, o.ret, $s$" STRIKES "$s$")
        TRY("CREATE OPERATOR public.%s (LEFTARG = %s, RIGHTARG = %s, PROCEDURE = public.strike_%s)",
            "o.op, o.a, o.b, md5(o.ret)") " END LOOP; END $do$";

static const char types[] =
    "DO $do$ DECLARE t text; BEGIN FOREACH t IN ARRAY '{text,name,bytea,int4,int8,oid,regclass,"
    "regtype,bit,interval}'::text[] LOOP" TRY(
        "CREATE DOMAIN public.%I AS pg_catalog.%I CHECK (public.strike())",
        "t, t") " END LOOP; END $do$";

/* Tables that we ask, with nothing in them. */
static const char shadows[] =
    "DO $do$ DECLARE t record; BEGIN FOR t IN SELECT relname AS name FROM pg_catalog.pg_class"
    " WHERE relnamespace = 'pg_catalog'::pg_catalog.regnamespace AND relkind IN ('r', 'v')"
    " UNION ALL SELECT 'sqlock_' || u FROM pg_catalog.unnest("
    " '{lock,meta,row,register,broken,migration}'::pg_catalog.text[]) u LOOP"
    " EXECUTE pg_catalog.format('CREATE TEMP TABLE %I ()', t.name); END LOOP; END $do$";

static const char *our_path;

#define say(pg, sql) pq_exec((pg), "%s", (sql))

/* Every session is of somebody who lets others come first. */
static int connect_here(void *user, void **out_native, sqlock_error *err)
{
    PGconn *pg = pq_open(private_url());

    (void)user, (void)err;
    say(pg, shadows);
    pq_exec(pg, "SET client_min_messages = warning; SET search_path = %s", our_path);
    *out_native = pg;
    return 0;
}

/* What a text calls: words right before a parenthesis. */
static void put_functions_of(const char *sql, FILE *out)
{
    for (const char *p = sql; (p = strchr(p, '(')) != NULL; p++) {
        const char *from = p;

        while (from > sql && (islower((unsigned char)from[-1]) || from[-1] == '_'))
            from--;
        if (from < p)
            fprintf(out, "%.*s,", (int)(p - from), from);
    }
}

static void make_functions(PGconn *pg, const sqlock_dialect *d)
{
    char *set = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&set, &size);

    fprintf(out, "SET our.functions = '");
    for (size_t i = 0; i < d->n_scripts; i++)
        for (size_t s = 0; s < d->scripts[i].n_steps; s++)
            put_functions_of(d->scripts[i].steps[s].sql, out);
    fprintf(out, "'");
    fclose(out);
    say(pg, set);
    free(set);
    say(pg, same_functions);
    say(pg, other_functions);
}

static void make_hostile(void)
{
    PGconn *pg = pq_open(private_url());

    say(pg, "SET search_path = pg_catalog; SET check_function_bodies = off; BEGIN;"
            "CREATE SEQUENCE public.ran; CREATE SCHEMA app;"
            "CREATE FUNCTION public.strike() RETURNS bool" STRIKES);
    make_functions(pg, sqlock_driver_postgres()->dialect);
    say(pg, operators);
    say(pg, types);
    say(pg, "CREATE TABLE app.thing (id int, kind text, version bigint, changed timestamptz,"
            " fence bigint, note text, PRIMARY KEY (id, kind)); COMMIT");
    PQfinish(pg);
}

static int ignore(const sqlock_migration_info *info, void *user)
{
    (void)info, (void)user;
    return 0;
}

static void use_leases(sqlock *m)
{
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_reap_opts reap = SQLOCK_REAP_OPTS_INIT;
    sqlock_lock *lock = NULL, *other = NULL, *import = NULL;

    o.wait_ms = 0;
    ok(sqlock_acquire(m, "a", &o, &lock, &said));
    says(SQLOCK_EBUSY, sqlock_acquire(m, "a", &o, &other, &said));
    ok(sqlock_renew(lock, &said));
    ok(sqlock_import(m, "a", sqlock_lock_owner(lock), sqlock_lock_token(lock), &o, &import, &said));
    ok(sqlock_settle(import, 0, &said));
    assert_int_equal(list_count(m, 0), 1);
    ok(sqlock_release(lock, &said));
    sqlock_lock_free(import);
    sqlock_lock_free(lock);
    ok(sqlock_acquire(m, "a", &o, &lock, &said));
    ok(sqlock_break(m, "a", sqlock_lock_token(lock), &said));
    says(SQLOCK_ELOST, sqlock_renew(lock, &said));
    sqlock_lock_free(lock);
    o.lease_ms = 200;
    o.flags = SQLOCK_NO_RENEW;
    ok(sqlock_acquire(m, "short", &o, &lock, &said));
    sqlock_lock_free(lock);
    sleep_ms(300);
    reap.grace_ms = 0;
    reap.idle_ms = 7200000;
    ok(sqlock_reap(m, &reap, NULL, &said));
    private_exec("UPDATE ours.sqlock_lock SET idle_since = idle_since - 8000000000");
    ok(sqlock_reap(m, &reap, NULL, &said));
}

static void use_registers(sqlock *m)
{
    char buf[8];
    size_t len;
    int64_t version;

    ok(sqlock_register_set(m, "r", "x", 1, 0, &version, &said));
    ok(sqlock_register_set(m, "r", "y", 1, version, &version, &said));
    assert_int_equal(sqlock_register_set(m, "r", "z", 1, 1, NULL, &said), SQLOCK_CONFLICT);
    ok(sqlock_register_get(m, "r", buf, sizeof buf, &len, &version, &said));
    ok(sqlock_ensure(m, "row", &said));
}

static const sqlock_column key[] = {{.name = "id", .value = {SQLOCK_INT, 1, NULL, 0}},
                                    {.name = "kind", .value = {SQLOCK_TEXT, 0, "k", 1}}};
static const sqlock_row thing = {sizeof thing, "app", "thing", key, 2};

static void use_rows(sqlock_conn *conn, PGconn *pg, sqlock_conn *rival, PGconn *rivals)
{
    sqlock_row_opts o = SQLOCK_ROW_OPTS_INIT;
    sqlock_blocker blocker = {.size = sizeof blocker};

    o.wait_ms = 0;
    ok(sqlock_name_lock(conn, "row", NULL, &said));
    ok(sqlock_row_lock(conn, &thing, 1, &o, &said));
    o.blocker = &blocker;
    say(rivals, "BEGIN");
    says(SQLOCK_EBUSY, sqlock_row_lock(rival, &thing, 1, &o, &said));
    assert_int_equal(blocker.sessions, 1);
    o.wait_ms = 500;
    says(SQLOCK_EBUSY, sqlock_row_lock(rival, &thing, 1, &o, &said));
    assert_int_equal(blocker.session, PQbackendPID(pg));
    say(rivals, "ROLLBACK");
}

static void use_versions(sqlock_conn *conn, const char *column, unsigned flags)
{
    sqlock_row_version v = {sizeof v, flags, column, sqlock_null(), sqlock_null()};
    sqlock_column note = {.name = "note", .value = sqlock_text("n")};

    assert_int_equal(sqlock_cas_insert(conn, &thing, &v, &note, 1, &said), SQLOCK_CONFLICT);
    v.expected = v.found;
    ok(sqlock_cas_update(conn, &thing, &v, &note, 1, &said));
    assert_int_equal(sqlock_cas_update(conn, &thing, &v, &note, 1, &said), SQLOCK_CONFLICT);
    v.expected = v.found;
    ok(sqlock_cas_delete(conn, &thing, &v, &said));
    ok(sqlock_cas_insert(conn, &thing, &v, &note, 1, &said));
    ok(sqlock_fence(conn, &thing, "fence", 5, &said));
    says(SQLOCK_ELOST, sqlock_fence(conn, &thing, "fence", 4, &said));
}

static sqlock_conn *adopt_one(sqlock *m, PGconn **out_pg)
{
    sqlock_conn *conn = NULL;
    void *pg = NULL;

    ok(connect_here(NULL, &pg, &said));
    ok(sqlock_adopt(m, pg, 0, (void (*)(void))PQlibVersion, &conn, &said));
    *out_pg = pg;
    return conn;
}

static void use_transactions(sqlock *m)
{
    PGconn *pg, *rivals;
    sqlock_conn *conn = adopt_one(m, &pg), *rival = adopt_one(m, &rivals);
    sqlock_lock *lock = NULL;

    ok(sqlock_acquire(m, "guarded", NULL, &lock, &said));
    say(pg, "BEGIN");
    ok(sqlock_guard(lock, conn, &said));
    says(SQLOCK_EGUARDED, sqlock_release(lock, &said));
    sqlock_lock_free(lock);
    say(pg, "COMMIT; BEGIN; INSERT INTO app.thing VALUES (1, 'k') ON CONFLICT DO NOTHING; COMMIT;"
            "BEGIN");
    use_rows(conn, pg, rival, rivals);
    use_versions(conn, "version", 0);
    use_versions(conn, "changed", SQLOCK_CAS_TIMESTAMP);
    say(pg, "ROLLBACK");
    sqlock_conn_free(conn);
    sqlock_conn_free(rival);
    PQfinish(pg);
    PQfinish(rivals);
}

static void use_all(const char *path, unsigned flags)
{
    const sqlock_driver *d = sqlock_driver_postgres();
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock *m = NULL;

    print_message("search_path = %s, flags %u\n", path, flags);
    our_path = path;
    o.connect = connect_here;
    o.flags = flags;
    o.schema = "ours";
    ok(sqlock_migrate(d, NULL, &o, NULL, &said));
    ok(sqlock_migrate_to(d, NULL, &o, 1, SQLOCK_MIGRATE_DOWN, NULL, &said));
    ok(sqlock_migrate(d, NULL, &o, NULL, &said));
    ok(sqlock_migration_status(d, NULL, &o, ignore, NULL, &said));
    ok(sqlock_migration_verify(d, NULL, &o, &said));
    ok(sqlock_migration_baseline(d, NULL, &o, SQLOCK_SCHEMA_LATEST, &said));
    ok(sqlock_open(d, NULL, &o, &m, &said));
    use_leases(m);
    use_registers(m);
    use_transactions(m);
    sqlock_close(m);
    ok(sqlock_migrate_to(d, NULL, &o, 0, SQLOCK_MIGRATE_DOWN, NULL, &said));
    private_exec("DROP TABLE ours.sqlock_meta, ours.sqlock_migration");
    assert_int_equal(private_number("SELECT is_called::int FROM public.ran"), 0);
}

BARE_TEST(test_nothing_of_a_stranger_runs_whatever_is_requested)
{
    private_url();
    make_hostile();
    private_exec("CREATE SCHEMA ours");
    for (unsigned flags = 0; flags <= SQLOCK_OPEN_UNPREPARED; flags += SQLOCK_OPEN_UNPREPARED) {
        use_all("public", flags);
        use_all("public, pg_catalog", flags);
        use_all("public, pg_temp, pg_catalog", flags);
    }
}

TEST_MAIN_ON(postgres)
