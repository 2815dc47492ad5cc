#include "tests/schema/schema.h"

#include <sqlock/register.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sqlock_error err;

/* ---- texts ----------------------------------------------------------------------------------- */

char *text_replace(const char *text, const char *from, const char *to)
{
    char *out = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&out, &size);
    const char *at = text, *next;

    assert_non_null(f);
    while ((next = strstr(at, from)) != NULL) {
        fwrite(at, 1, (size_t)(next - at), f);
        fputs(to, f);
        at = next + strlen(from);
    }
    fputs(at, f);
    fclose(f);
    return kept(out);
}

static const char *schema_of(const struct place *p)
{
    return p->schema ? p->schema : p->dialect->default_schema;
}

char *place_fill(const struct place *p, const char *text)
{
    static const char *const tables[] = {"lock",     "meta",   "migration", "row",
                                         "register", "broken", "waiter",    "client"};
    char q = p->dialect->quote;

    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        text =
            text_replace(text, textf("{%s}", tables[i]),
                         textf("%c%s%c.%c%s%s%c", q, schema_of(p), q, q, p->prefix, tables[i], q));
    return text_replace(text_replace(text, "{schema}", schema_of(p)), "{prefix}", p->prefix);
}

void place_exec(const struct place *p, const char *text)
{
    place_exec_text(p, place_fill(p, text));
}

int64_t place_number(const struct place *p, const char *text)
{
    return place_number_text(p, place_fill(p, text));
}

static char *read_tables_sql(const struct place *p)
{
    const char *path = textf("schema/%s/tables.sql", p->dialect->name);
    FILE *f = fopen(path, "r");
    char *text = NULL;
    size_t size = 0;

    if (f == NULL)
        fail_msg("%s cannot be read: tests run in the root of the project", path);
    if (getdelim(&text, &size, '\0', f) <= 0)
        fail_msg("%s is empty", path);
    fclose(f);
    return kept(text);
}

void place_build(const struct place *p, const struct damage *damage)
{
    char *text = read_tables_sql(p);

    if (damage) {
        if (!strstr(text, damage->from))
            fail_msg("tables.sql has no \"%s\" that could be damaged", damage->from);
        text = text_replace(text, damage->from, damage->to);
    }
    place_exec(p, text);
}

bool damage_shows(const struct damage *d)
{
    return place_keeps_checks() || !(strstr(d->from, "CHECK") || strstr(d->from, "octet_length"));
}

bool pipe_to(const char *client, const char *command, const char *text)
{
    FILE *f;

    if (system(textf("command -v %s >/dev/null", client)) != 0)
        skip_loudly("there is no %s to pipe SQL into", client);
    if ((f = popen(command, "w")) == NULL)
        fail_msg("%s cannot be started", client);
    fputs(text, f);
    return pclose(f) == 0;
}

/* ---- by way of the library ------------------------------------------------------------------- */

struct db place_db(const struct place *p)
{
    return (struct db){.driver = p->driver,
                       .url = p->url,
                       .schema = p->schema,
                       .prefix = p->prefix,
                       .request_ms = patience_ms(10000)};
}

struct place place_migrated(void)
{
    struct place p = place_new();

    place_migrate(&p);
    return p;
}

int verify_code(const struct place *p, sqlock_error *out_err)
{
    sqlock_open_opts o = place_opts(p);

    return sqlock_migration_verify(p->driver, p->url, &o, out_err);
}

void place_forget_migrator(const struct place *p)
{
    if (place_end_lease && place_has_locks(p))
        place_exec(p, place_end_lease);
}

static int known_version(const struct place *p)
{
    return p->dialect->migrations[p->dialect->n_migrations - 1].version;
}

/* ---- comparing ------------------------------------------------------------------------------- */

char *place_tables(const struct place *p)
{
    static const char *const before[] = {"fence_floor=", "fence_floor: "};
    char *text = place_catalogue(p);

    for (int i = 0; i < 2; i++) {
        char *at = strstr(text, before[i]);

        if (at) {
            at += strlen(before[i]);
            memmove(at, at + strspn(at, "0123456789"), strlen(at + strspn(at, "0123456789")) + 1);
        }
    }
    return text;
}

/* ---- what migrations build ------------------------------------------------------------------- */

TEST(test_migrating_builds_what_tables_sql_says)
{
    struct place by_library = place_new(), by_hand = place_new();

    place_migrate(&by_library);
    place_build(&by_hand, NULL);
    assert_non_null(strstr(place_catalogue(&by_library), "next_ticket"));
    assert_catalogue(&by_hand, place_catalogue(&by_library));
}

/* Otherwise the test above would pass with a comparison that sees nothing. */
TEST(test_the_comparison_notices_every_planted_difference)
{
    struct place good = place_new();
    char *expected;
    int planted = 0;

    place_migrate(&good);
    expected = place_catalogue(&good);
    for (const struct damage *d = place_damages; d->from; d++, planted++) {
        struct place bad = place_new();

        if (!damage_shows(d))
            continue;
        place_build(&bad, d);
        if (strcmp(place_catalogue(&bad), expected) == 0)
            fail_msg("\"%s\" in place of \"%s\" was not noticed", d->to, d->from);
    }
    assert_true(planted > 0);
}

TEST(test_migrating_twice_applies_nothing_and_records_all)
{
    struct place p = place_new();
    const sqlock_dialect *d = p.dialect;

    assert_int_equal(place_migrate(&p), (int)d->n_migrations);
    assert_int_equal(place_migrate(&p), 0);
    assert_int_equal(place_number(&p, "SELECT version FROM {meta} WHERE id = 1"),
                     known_version(&p));
    assert_int_equal(place_number(&p, "SELECT count(*) FROM {migration}"), (int)d->n_migrations);
    for (size_t i = 0; i < d->n_migrations; i++) {
        const sqlock_migration *step = &d->migrations[i];
        const char *sql =
            textf("SELECT count(*) FROM {migration} WHERE version = %d AND name = '%s' AND "
                  "checksum = '%s' AND applied > 0",
                  step->version, step->name, step->checksum);

        assert_int_equal((int)strlen(step->checksum), 16);
        assert_int_equal(place_number(&p, sql), 1);
    }
}

/* ---- down ------------------------------------------------------------------------------------ */

/* By the library, and as an operator would. */
static void take_down(const struct place *p, bool by_hand)
{
    int applied = -1;

    if (by_hand) {
        place_pipe_written(p, SQLOCK_SCHEMA_LATEST, 0);
        return;
    }
    assert_ok(go_down(p, 0, 0, &applied, &err), &err);
    assert_int_equal(applied, (int)p->dialect->n_migrations);
}

TEST(test_P2_tokens_rise_over_down_and_up_again)
{
    struct place p = place_migrated();
    int64_t largest = 0, rare;

    rare = place_use(&p, "rare");
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 5; i++) {
            int64_t token = place_use(&p, "often");

            assert_true(token > largest);
            largest = token;
        }
        take_down(&p, round % 2);
        assert_int_equal(place_number(&p, "SELECT version FROM {meta} WHERE id = 1"), 0);
        assert_true(place_number(&p, "SELECT fence_floor FROM {meta} WHERE id = 1") >= largest);
        assert_int_equal(place_number(&p, "SELECT count(*) FROM {migration}"), 0);
        assert_code(SQLOCK_ESCHEMA, open_code(&p, &err), &err);
        assert_int_equal(place_migrate(&p), (int)p.dialect->n_migrations);
        assert_true(place_number(&p, "SELECT fence_floor FROM {meta} WHERE id = 1") >= largest);
    }
    assert_true(place_use(&p, "often") > largest);
    assert_true(place_use(&p, "rare") > rare);
}

/* The last grants of a name are forgotten with a server that was lost: the next server's floor
 * stands for them, and the way down must not lower it to what the rows show. */
TEST(test_P2_tokens_rise_over_down_after_a_server_was_lost)
{
    struct place p = place_migrated();
    int64_t first, lost = 0;

    first = place_use(&p, "x");
    for (int i = 0; i < 3; i++)
        lost = place_use(&p, "x");
    place_exec(&p, textf("UPDATE {lock} SET token = %lld", (long long)first));
    sleep_ms(5); /* SQLite's clock is of milliseconds */
    place_exec(&p, "UPDATE {meta} SET server = 'lost'");
    place_use(&p, "another"); /* meets the next server */
    take_down(&p, false);
    place_migrate(&p);
    assert_true(place_use(&p, "x") > lost);
}

/* The floor is ahead of the clock, as after tokens were lifted: it stands for the versions too. */
TEST(test_P13_versions_rise_over_down_and_up_again)
{
    struct place p = place_migrated();
    int64_t version = 0, last;
    sqlock *m = place_open(&p);

    place_exec(&p, "UPDATE {meta} SET fence_floor = fence_floor + 4000000000000000");
    for (int i = 0; i < 3; i++)
        assert_ok(sqlock_register_set(m, "r", "v", 1, version, &version, &err), &err);
    last = version;
    sqlock_close(m);
    assert_ok(go_down(&p, 1, 0, NULL, &err), &err);
    place_migrate(&p);
    m = place_open(&p);
    version = 0;
    assert_ok(sqlock_register_set(m, "r", "v", 1, 0, &version, &err), &err);
    assert_true(version > last);
    sqlock_close(m);
}

/* ---- versions -------------------------------------------------------------------------------- */

static void set_version(const struct place *p, int version, int min_reader)
{
    place_exec(p, textf("UPDATE {meta} SET version = %d, min_reader = %d WHERE id = 1", version,
                        min_reader));
}

static void assert_reports(const char *before, int version)
{
    assert_says(&err, textf("%s %d", before, version));
}

TEST(test_a_schema_that_needs_a_newer_library_is_refused_with_both_versions)
{
    struct place p = place_migrated();
    int known = known_version(&p);

    set_version(&p, known + 41, known + 31);
    assert_code(SQLOCK_ESCHEMA, open_code(&p, &err), &err);
    assert_reports("version", known + 41);
    assert_reports("a library of generation", known + 31);
    assert_reports("this one is generation", GENERATION);
    assert_code(SQLOCK_ESCHEMA, migrate_code(&p, &err), &err);
    assert_reports("version", known + 41);
    assert_reports("generation", known + 31);
    assert_reports("library's", known);
    assert_int_equal(place_number(&p, "SELECT version FROM {meta} WHERE id = 1"), known + 41);
}

TEST(test_P20_a_newer_schema_that_we_may_read_works)
{
    struct place p = place_migrated();
    int known = known_version(&p);
    int64_t before = place_use(&p, "x");

    set_version(&p, known + 1, GENERATION);
    assert_true(place_use(&p, "x") > before);
    /* It cannot make a newer one, and must not call it done. */
    assert_code(SQLOCK_ESCHEMA, migrate_code(&p, &err), &err);
}

/* P2: who draws tokens in another way must not grant beside us, nor write its server's name into
 * meta. Such libraries are made of ours. */
TEST(test_P2_libraries_of_two_generations_never_work_on_one_schema)
{
    struct place p = place_migrated(), older, newer;
    char *before;
    int64_t last;

    /* Before there were generations the number said which version of the schema one had to know. */
    assert_true(place_number(&p, "SELECT min_reader FROM {meta} WHERE id = 1") > 3);
    last = place_use(&p, "x");
    before = place_catalogue(&p);
    older = place_of_generation(&p, 1); /* it finds one above its own */
    newer = place_of_generation(&p, -1);
    for (int i = 0; i < 3; i++) {
        int64_t token;

        assert_error(SQLOCK_ESCHEMA, "too new", open_code(&older, &err), &err);
        assert_error(SQLOCK_ESCHEMA, "draws tokens in another way", open_code(&newer, &err), &err);
        assert_catalogue(&p, before); /* the server, its floor and how often it has changed */
        token = place_use(&p, "x");
        assert_true(token > last);
        last = token;
    }
}

TEST(test_an_absent_schema_is_reported_and_not_made)
{
    struct place p = place_new();
    char *before = place_catalogue(&p);

    assert_error(SQLOCK_ESCHEMA, "run the migrations", open_code(&p, &err), &err);
    assert_catalogue(&p, before);
}

/* ---- names ----------------------------------------------------------------------------------- */

TEST(test_prefixes_are_different_locks)
{
    struct place one = place_new(), other = one;
    sqlock_lock *lock;
    sqlock *m, *n;

    one.prefix = "a";
    other.prefix = "a_lock_23456789012345678"; /* 24 bytes, and begins like the other's table */
    place_migrate(&one);
    assert_code(SQLOCK_ESCHEMA, open_code(&other, &err), &err);
    assert_int_equal(place_migrate(&other), (int)other.dialect->n_migrations);
    m = place_open(&one);
    n = place_open(&other);
    lock = lock_take(m, "x", 0, 0);
    assert_true(lock_draw(n, "x") < lock_draw(n, "x"));
    lock_give(lock);
    sqlock_close(m);
    sqlock_close(n);
}

TEST(test_bad_prefixes_and_schemas_are_refused)
{
    static const char *const prefixes[] = {
        "", "A_", "_a", "1a", "a-b", "a b", "a\"", "a;", "\xc3\xa4", "a_lock_234567890123456789"};
    static const char *const schemas[] = {
        "",     "a\"b",  "a;b",
        "a'b",  "a\\b",  "a`b",
        "a\nb", "a\xff", "65432109876543210987654321098765432109876543210987654321098765432"};
    struct place p = place_new(), bad = p;

    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        bad.prefix = prefixes[i];
        assert_code(SQLOCK_EINVAL, migrate_code(&bad, &err), &err);
        assert_code(SQLOCK_EINVAL, open_code(&bad, &err), &err);
    }
    bad = p;
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        bad.schema = schemas[i];
        assert_code(SQLOCK_EINVAL, migrate_code(&bad, &err), &err);
        assert_code(SQLOCK_EINVAL, open_code(&bad, &err), &err);
    }
}
