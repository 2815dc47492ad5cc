/* What is told of migrations, what is recorded of them, and what is written out. */
#include "tests/schema/schema.h"

#include <stdio.h>
#include <string.h>

static sqlock_error err;

/* ---- status ---------------------------------------------------------------------------------- */

#define PENDING_ALL                                                                                \
    "001_locks pending no record\n002_transactions pending no record\n003_breaks pending no "      \
    "record\n"
#define APPLIED_ALL "001_locks applied\n002_transactions applied\n003_breaks applied\n"

/* "001_locks applied\n..." of all migrations. */
static int put_state(const sqlock_migration_info *info, void *user)
{
    bool has_record = info->recorded != NULL;

    assert_int_equal(info->size, sizeof *info);
    assert_int_equal(has_record, info->applied_us > 0);
    if (has_record)
        assert_int_equal(strlen(info->recorded), 16);
    if (info->state == SQLOCK_MIGRATION_APPLIED)
        assert_string_equal(info->checksum, info->recorded);
    fprintf(user, "%03d_%s %s%s%s\n", info->version, info->name,
            sqlock_migration_state_name(info->state), info->checksum ? "" : " unknown here",
            has_record ? "" : " no record");
    return 0;
}

static char *states(const struct place *p)
{
    sqlock_open_opts o = place_opts(p);
    char *out = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&out, &size);

    assert_ok(sqlock_migration_status(p->driver, p->url, &o, put_state, f, &err), &err);
    fclose(f);
    return kept(out);
}

static void assert_states(const struct place *p, const char *expected)
{
    assert_string_equal(states(p), expected);
}

static int stop_at_once(const sqlock_migration_info *info, void *user)
{
    (void)info;
    ++*(int *)user;
    return 77;
}

TEST(test_status_says_what_became_of_every_migration)
{
    struct place p = place_new(), grown = place_grown(&p);
    sqlock_open_opts o = place_opts(&p);
    char *before = place_catalogue(&p);
    int told = 0;

    assert_states(&p, PENDING_ALL);
    assert_states(&grown, PENDING_ALL "004_more pending no record\n");
    assert_catalogue(&p, before);
    place_migrate(&p);
    assert_states(&grown, APPLIED_ALL "004_more pending no record\n");
    place_migrate(&grown);
    assert_states(&grown, APPLIED_ALL "004_more applied\n");
    assert_states(&p, APPLIED_ALL "004_more unknown unknown here\n");
    place_exec(&p, "UPDATE {migration} SET checksum = 'ffffffffffffffff' WHERE version = 1");
    place_exec(&p, "DELETE FROM {migration} WHERE version = 4");
    assert_states(&grown, "001_locks drifted\n002_transactions applied\n"
                          "003_breaks applied\n004_more unrecorded no record\n");
    assert_int_equal(sqlock_migration_status(p.driver, p.url, &o, stop_at_once, &told, &err), 77);
    assert_int_equal(told, 1);
}

/* ---- drift ----------------------------------------------------------------------------------- */

static int baseline(const struct place *p, int version, sqlock_error *out_err)
{
    sqlock_open_opts o = place_opts(p);

    return sqlock_migration_baseline(p->driver, p->url, &o, version, out_err);
}

/* Every record counts, also the latest one's, behind which there is nothing to do. */
static void refuse_drift(const struct place *p, const struct place *grown,
                         const sqlock_migration *drifted)
{
    static const char set[] = "UPDATE {migration} SET checksum = '%s' WHERE version = %d";
    sqlock_error errs[5];

    place_exec(p, textf(set, "ffffffffffffffff", drifted->version));
    assert_code(SQLOCK_ESCHEMA, migrate_to(grown, 4, 0, NULL, &errs[0]), &errs[0]);
    assert_code(SQLOCK_ESCHEMA, go_down(p, 0, 0, NULL, &errs[1]), &errs[1]);
    assert_code(SQLOCK_ESCHEMA, verify_code(p, &errs[2]), &errs[2]);
    assert_code(SQLOCK_ESCHEMA, baseline(p, 1, &errs[3]), &errs[3]);
    assert_code(SQLOCK_ESCHEMA, migrate_code(p, &errs[4]), &errs[4]);
    for (int i = 0; i < 5; i++) {
        assert_says(&errs[i], drifted->name);
        assert_says(&errs[i], "ffffffffffffffff");
        assert_says(&errs[i], drifted->checksum);
    }
    place_exec(p, textf(set, drifted->checksum, drifted->version));
}

TEST(test_a_migration_from_another_file_is_named_and_nothing_is_done)
{
    struct place p = place_migrated(), grown = place_grown(&p);
    char *before = place_catalogue(&p);

    for (size_t i = 0; i < p.dialect->n_migrations; i++)
        refuse_drift(&p, &grown, &p.dialect->migrations[i]);
    assert_catalogue(&p, before);
    assert_int_equal(place_number(&p, "SELECT version FROM {meta}"), 3);
    assert_true(place_use(&p, "x") > 0); /* programs at work are not stopped by it */
}

/* ---- verify, baseline ------------------------------------------------------------------------ */

/* Each damage by itself, in tables that are otherwise in order; and whether the text names it.
 * Others, an index that hurts nobody among them, are tolerated. */
TEST(test_verify_says_what_the_tables_lack)
{
    struct place good = place_new();
    int noticed = 0;

    place_build(&good, NULL);
    assert_ok(baseline(&good, SQLOCK_SCHEMA_LATEST, &err), &err);
    assert_ok(verify_code(&good, &err), &err);
    for (const struct damage *d = place_damages; d->from; d++) {
        struct place bad = place_new();

        if (!damage_shows(d))
            continue;
        place_build(&bad, d);
        if (!d->verified) {
            assert_ok(baseline(&bad, SQLOCK_SCHEMA_LATEST, &err), &err);
            continue;
        }
        assert_code(SQLOCK_ESCHEMA, baseline(&bad, SQLOCK_SCHEMA_LATEST, &err), &err);
        place_exec(&bad, "UPDATE {meta} SET version = 3");
        assert_code(SQLOCK_ESCHEMA, verify_code(&bad, &err), &err);
        if (!strstr(err.text, "table"))
            fail_msg("\"%s\" names no table", err.text);
        noticed++;
    }
    assert_true(noticed >= 5);
    place_exec(&good, "DROP TABLE {lock}");
    assert_error(SQLOCK_ESCHEMA, "no table lock", verify_code(&good, &err), &err);
}

TEST(test_baseline_records_what_another_tool_has_run)
{
    struct place p = place_new(), grown = place_grown(&p);

    place_build(&p, NULL);
    assert_code(SQLOCK_ESCHEMA, verify_code(&p, &err), &err);
    assert_ok(baseline(&p, 3, &err), &err);
    assert_states(&p, APPLIED_ALL);
    assert_ok(verify_code(&p, &err), &err);
    assert_int_equal(place_migrate(&p), 0);
    assert_true(place_use(&p, "x") > 0);
    assert_ok(baseline(&p, 3, &err), &err);
    /* A record that got lost, below the newest one. */
    place_migrate(&grown);
    place_exec(&p, "DELETE FROM {migration} WHERE version = 1");
    assert_error(SQLOCK_ESCHEMA, "001_locks", verify_code(&grown, &err), &err);
    assert_ok(baseline(&grown, SQLOCK_SCHEMA_LATEST, &err), &err);
    assert_states(&grown, APPLIED_ALL "004_more applied\n");
    assert_ok(verify_code(&grown, &err), &err);
}

/* What a tool has built is of an older release: tables of later ones are no matter. */
TEST(test_baseline_of_an_older_version_requires_its_own_tables_only)
{
    struct place p = place_new(), older = place_older(&p);

    place_migrate(&older);
    place_exec(&p, "DELETE FROM {migration}");
    assert_error(SQLOCK_ESCHEMA, "broken", baseline(&p, 3, &err), &err);
    assert_ok(baseline(&p, 2, &err), &err);
    assert_states(&p,
                  "001_locks applied\n002_transactions applied\n003_breaks pending no record\n");
    assert_int_equal(place_migrate(&p), 1);
    assert_ok(verify_code(&p, &err), &err);
    place_exec(&p, "DELETE FROM {migration}");
    place_exec(&p, "DROP TABLE {register}");
    assert_error(SQLOCK_ESCHEMA, "no table register", baseline(&p, 2, &err), &err);
}

TEST(test_baseline_refuses_what_is_not_there)
{
    struct place p = place_new(), grown = place_grown(&p);
    char *before = place_catalogue(&p);

    assert_code(SQLOCK_ESCHEMA, baseline(&p, SQLOCK_SCHEMA_LATEST, &err), &err);
    assert_code(SQLOCK_ESCHEMA, baseline(&grown, 1, &err), &err); /* an older version, too */
    assert_catalogue(&p, before);
    assert_code(SQLOCK_EINVAL, baseline(&p, 0, &err), &err);
    assert_code(SQLOCK_EINVAL, baseline(&p, 4, &err), &err);
    place_migrate(&grown);
    assert_error(SQLOCK_ESCHEMA, "version 4", baseline(&grown, 1, &err), &err);
    assert_code(SQLOCK_ESCHEMA, baseline(&p, 1, &err), &err); /* newer than the library */
}

/* ---- dry runs, arguments, leftovers ---------------------------------------------------------- */

static void expect_dry_run(const struct place *p, int version, unsigned flags, int count)
{
    char *before = place_catalogue(p), *told = states(p);
    int applied = -1;

    assert_ok(migrate_to(p, version, flags | SQLOCK_MIGRATE_DRY_RUN, &applied, &err), &err);
    assert_int_equal(applied, count);
    assert_catalogue(p, before);
    assert_states(p, told);
}

TEST(test_a_dry_run_changes_nothing)
{
    struct place p = place_new(), grown = place_grown(&p);

    expect_dry_run(&grown, SQLOCK_SCHEMA_LATEST, 0, 4);
    expect_dry_run(&grown, 1, 0, 1);
    place_migrate(&p);
    expect_dry_run(&grown, SQLOCK_SCHEMA_LATEST, 0, 1);
    expect_dry_run(&p, SQLOCK_SCHEMA_LATEST, 0, 0);
    expect_dry_run(&p, 0, SQLOCK_MIGRATE_DOWN, 3);
    place_migrate(&grown);
    expect_dry_run(&grown, 0, SQLOCK_MIGRATE_DOWN, 4);
    expect_dry_run(&grown, 1, SQLOCK_MIGRATE_DOWN, 3);
}

TEST(test_bad_versions_flags_and_directions_are_refused)
{
    struct place p = place_new(), grown = place_grown(&p);
    int applied = 7;

    assert_code(SQLOCK_EINVAL, migrate_to(&p, 4, 0, &applied, &err), &err);
    assert_code(SQLOCK_EINVAL, migrate_to(&p, -2, 0, &applied, &err), &err);
    assert_code(SQLOCK_EINVAL, migrate_to(&p, 1, 0x80, &applied, &err), &err);
    assert_int_equal(applied, 7);
    assert_code(SQLOCK_EINVAL, migrate_to(&grown, 2, SQLOCK_MIGRATE_DOWN, NULL, &err), &err);
    assert_ok(migrate_to(&grown, 1, 0, &applied, &err), &err);
    assert_int_equal(applied, 1);
    assert_error(SQLOCK_EINVAL, "SQLOCK_MIGRATE_DOWN", migrate_to(&grown, 0, 0, NULL, &err), &err);
    assert_code(SQLOCK_EINVAL, migrate_to(&grown, 2, SQLOCK_MIGRATE_DOWN, NULL, &err), &err);
    assert_ok(migrate_to(&grown, 1, SQLOCK_MIGRATE_DOWN, &applied, &err), &err);
    assert_int_equal(applied, 0);
    assert_states(&grown, "001_locks applied\n002_transactions pending no record\n"
                          "003_breaks pending no record\n004_more pending no record\n");
}

/* ---- written out ----------------------------------------------------------------------------- */

static int put_text(const char *text, size_t len, void *user)
{
    return fwrite(text, 1, len, user) == len ? 0 : 1;
}

static char *written(const struct place *p, int from, int to, unsigned flags)
{
    sqlock_open_opts o = place_opts(p);
    char *out = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&out, &size);

    assert_ok(sqlock_migration_sql(p->driver, &o, from, to, flags, put_text, f, &err), &err);
    fclose(f);
    return kept(out);
}

void place_pipe_written(const struct place *p, int from, int to)
{
    assert_true(place_pipe(p, written(p, from, to, 0)));
}

static void assert_same(const struct place *one, const struct place *other)
{
    assert_tables(one, place_tables(other));
}

TEST(test_written_sql_does_what_the_library_does)
{
    struct place p = place_new(), other = place_new(), by_hand = place_new();
    struct place grown = place_grown(&p), library = place_grown(&other);
    int64_t token;

    place_pipe_written(&p, 0, SQLOCK_SCHEMA_LATEST);
    place_build(&by_hand, NULL);
    assert_same(&p, &by_hand);
    assert_states(&p, APPLIED_ALL);
    assert_ok(verify_code(&p, &err), &err);
    token = place_use(&p, "x");
    place_pipe_written(&grown, 3, 4);
    place_migrate(&library);
    assert_states(&grown, APPLIED_ALL "004_more applied\n");
    assert_int_equal(place_migrate(&grown), 0);
    assert_true(place_use(&grown, "x") > token);
    (void)place_use(&library, "x"); /* so that both know their server */
    assert_same(&p, &other);
    token = place_use(&grown, "x");
    place_pipe_written(&grown, 4, 0);
    assert_states(&grown, PENDING_ALL "004_more pending no record\n");
    assert_int_equal(place_migrate(&grown), 4);
    assert_true(place_use(&grown, "x") > token);
}

static int stop_after_some(const char *text, size_t len, void *user)
{
    (void)text, (void)len;
    return ++*(int *)user == 3 ? 77 : 0;
}

TEST(test_written_sql_stops_when_ordered)
{
    struct place p = place_new();
    sqlock_open_opts o = place_opts(&p);
    int calls = 0;
    char *bare, *around, *nothing;

    assert_int_equal(sqlock_migration_sql(p.driver, &o, 0, 1, 0, stop_after_some, &calls, &err),
                     77);
    assert_int_equal(calls, 3);
    assert_code(SQLOCK_EINVAL,
                sqlock_migration_sql(p.driver, &o, 0, 4, 0, stop_after_some, &calls, &err), &err);
    assert_code(SQLOCK_EINVAL,
                sqlock_migration_sql(p.driver, &o, 0, 1, 8, stop_after_some, &calls, &err), &err);
    assert_code(SQLOCK_EINVAL,
                sqlock_migration_sql(NULL, &o, 0, 1, 0, stop_after_some, &calls, &err), &err);
    assert_int_equal(calls, 3);
    bare = written(&p, 0, 3, SQLOCK_SQL_BARE);
    around = written(&p, 0, 3, 0);
    nothing = written(&p, 1, 1, 0);
    assert_string_equal(nothing, "");
    assert_non_null(strstr(around, bare));
    if (p.driver->caps & SQLOCK_CAP_TX_DDL)
        assert_true(strstr(bare, "COMMIT") == NULL && strstr(around, "COMMIT") != NULL);
}
