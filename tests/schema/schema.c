#include "tests/schema/tap.h"

#include <signal.h>
#include <sqlock/register.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- texts -------------------------------------------------------------------------------------
 */

char *text_replace(char *text, const char *from, const char *to)
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
    free(text);
    return out;
}

static const char *schema_of(const struct place *p)
{
    return p->schema ? p->schema : p->dialect->default_schema;
}

char *place_fill(const struct place *p, const char *text)
{
    static const char *const tables[] = {"lock", "meta", "migration", "row", "register", "broken"};
    char *out = strdup(text);
    char word[32], name[256];
    char q = p->dialect->quote;

    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        snprintf(word, sizeof word, "{%s}", tables[i]);
        snprintf(name, sizeof name, "%c%s%c.%c%s%s%c", q, schema_of(p), q, q, p->prefix, tables[i],
                 q);
        out = text_replace(out, word, name);
    }
    out = text_replace(out, "{schema}", schema_of(p));
    return text_replace(out, "{prefix}", p->prefix);
}

void place_exec(const struct place *p, const char *text)
{
    char *sql = place_fill(p, text);

    place_exec_text(p, sql);
    free(sql);
}

int64_t place_number(const struct place *p, const char *text)
{
    char *sql = place_fill(p, text);
    int64_t number = place_number_text(p, sql);

    free(sql);
    return number;
}

static char *read_tables_sql(const struct place *p)
{
    char path[128];
    char *text = NULL;
    size_t size = 0;
    FILE *f;

    snprintf(path, sizeof path, "schema/%s/tables.sql", p->dialect->name);
    if ((f = fopen(path, "r")) == NULL)
        fail_msg("%s cannot be read: tests run in the root of the project", path);
    if (getdelim(&text, &size, '\0', f) <= 0)
        fail_msg("%s is empty", path);
    fclose(f);
    return text;
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
    free(text);
}

bool damage_shows(const struct damage *d)
{
    return place_keeps_checks() || !(strstr(d->from, "CHECK") || strstr(d->from, "octet_length"));
}

bool pipe_to(const char *client, const char *command, const char *text)
{
    char look[64];
    FILE *f;

    snprintf(look, sizeof look, "command -v %s >/dev/null", client);
    if (system(look) != 0) {
        print_error("SKIP: there is no %s to pipe SQL into\n", client);
        if (test_strict())
            fail_msg("STRICT=1 asks for every test");
        skip();
    }
    if ((f = popen(command, "w")) == NULL)
        fail_msg("%s cannot be started", client);
    fputs(text, f);
    return pclose(f) == 0;
}

/* ---- by way of the library ---------------------------------------------------------------------
 */

sqlock_open_opts place_opts(const struct place *p)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;

    o.schema = p->schema;
    o.prefix = p->prefix;
    o.request_ms = patience_ms(10000);
    return o;
}

int place_migrate(const struct place *p)
{
    sqlock_open_opts o = place_opts(p);
    sqlock_error err;
    int applied = -1;

    assert_ok(sqlock_migrate(p->driver, p->url, &o, &applied, &err), &err);
    return applied;
}

void place_forget_migrator(const struct place *p)
{
    if (place_end_lease && place_has_locks(p))
        place_exec(p, place_end_lease);
}

sqlock *place_open(const struct place *p)
{
    sqlock_open_opts o = place_opts(p);
    sqlock_error err;
    sqlock *m = NULL;

    assert_ok(sqlock_open(p->driver, p->url, &o, &m, &err), &err);
    return m;
}

static int64_t use(sqlock *m, const char *name)
{
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL;
    sqlock_error err;
    int64_t token;

    o.wait_ms = 0;
    assert_ok(sqlock_acquire(m, name, &o, &lock, &err), &err);
    token = sqlock_lock_token(lock);
    assert_ok(sqlock_release(lock, &err), &err);
    sqlock_lock_free(lock);
    return token;
}

int64_t place_use(const struct place *p, const char *name)
{
    sqlock *m = place_open(p);
    int64_t token = use(m, name);

    sqlock_close(m);
    return token;
}

static int known_version(const struct place *p)
{
    return p->dialect->migrations[p->dialect->n_migrations - 1].version;
}

/* The code of an open that must fail. */
static int open_code(const struct place *p, sqlock_error *err)
{
    sqlock_open_opts o = place_opts(p);
    sqlock *m = NULL;
    int code = sqlock_open(p->driver, p->url, &o, &m, err);

    sqlock_close(m);
    return code;
}

static int migrate_code(const struct place *p, sqlock_error *err)
{
    sqlock_open_opts o = place_opts(p);

    return sqlock_migrate(p->driver, p->url, &o, NULL, err);
}

/* ---- what migrations build ---------------------------------------------------------------------
 */

void test_migrating_builds_what_tables_sql_says(void **state)
{
    struct place by_library = place_new(), by_hand = place_new();
    char *one, *other;

    (void)state;
    place_migrate(&by_library);
    place_build(&by_hand, NULL);
    one = place_catalogue(&by_library);
    other = place_catalogue(&by_hand);
    assert_non_null(strstr(one, "next_ticket"));
    assert_string_equal(one, other);
    free(one);
    free(other);
}

/* Otherwise the test above would pass with a comparison that sees nothing. */
void test_the_comparison_notices_every_planted_difference(void **state)
{
    struct place good = place_new();
    char *expected;
    int planted = 0;

    (void)state;
    place_migrate(&good);
    expected = place_catalogue(&good);
    for (const struct damage *d = place_damages; d->from; d++, planted++) {
        struct place bad = place_new();
        char *found;

        if (!damage_shows(d))
            continue;
        place_build(&bad, d);
        found = place_catalogue(&bad);
        if (strcmp(found, expected) == 0)
            fail_msg("\"%s\" in place of \"%s\" was not noticed", d->to, d->from);
        free(found);
    }
    assert_true(planted > 0);
    free(expected);
}

void test_migrating_twice_applies_nothing_and_records_all(void **state)
{
    struct place p = place_new();
    const sqlock_dialect *d = p.dialect;

    (void)state;
    assert_int_equal(place_migrate(&p), (int)d->n_migrations);
    assert_int_equal(place_migrate(&p), 0);
    assert_int_equal(place_number(&p, "SELECT version FROM {meta} WHERE id = 1"),
                     known_version(&p));
    assert_int_equal(place_number(&p, "SELECT count(*) FROM {migration}"), (int)d->n_migrations);
    for (size_t i = 0; i < d->n_migrations; i++) {
        const sqlock_migration *step = &d->migrations[i];
        char sql[512];

        snprintf(sql, sizeof sql,
                 "SELECT count(*) FROM {migration} WHERE version = %d AND name = '%s' AND "
                 "checksum = '%s' AND applied > 0",
                 step->version, step->name, step->checksum);
        assert_int_equal((int)strlen(step->checksum), 16);
        assert_int_equal(place_number(&p, sql), 1);
    }
}

/* ---- down --------------------------------------------------------------------------------------
 */

/* By the library, and as an operator would. */
static void take_down(const struct place *p, bool by_hand)
{
    sqlock_open_opts o = place_opts(p);
    sqlock_error err;
    int applied = -1;

    if (by_hand) {
        place_pipe_written(p, SQLOCK_SCHEMA_LATEST, 0);
        return;
    }
    assert_ok(sqlock_migrate_to(p->driver, p->url, &o, 0, SQLOCK_MIGRATE_DOWN, &applied, &err),
              &err);
    assert_int_equal(applied, (int)p->dialect->n_migrations);
}

void test_P2_tokens_rise_over_down_and_up_again(void **state)
{
    struct place p = place_new();
    int64_t largest = 0, rare;
    sqlock_error err;

    (void)state;
    place_migrate(&p);
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
void test_P2_tokens_rise_over_down_after_a_server_was_lost(void **state)
{
    struct place p = place_new();
    char sql[96];
    int64_t first, lost = 0;

    (void)state;
    place_migrate(&p);
    first = place_use(&p, "x");
    for (int i = 0; i < 3; i++)
        lost = place_use(&p, "x");
    snprintf(sql, sizeof sql, "UPDATE {lock} SET token = %lld", (long long)first);
    place_exec(&p, sql);
    sleep_ms(5); /* SQLite's clock is of milliseconds */
    place_exec(&p, "UPDATE {meta} SET server = 'lost'");
    place_use(&p, "another"); /* meets the next server */
    take_down(&p, false);
    place_migrate(&p);
    assert_true(place_use(&p, "x") > lost);
}

/* The floor is ahead of the clock, as after tokens were lifted: it stands for the versions too. */
void test_P13_versions_rise_over_down_and_up_again(void **state)
{
    struct place p = place_new();
    sqlock_open_opts o = place_opts(&p);
    int64_t version = 0, last;
    sqlock_error err;
    sqlock *m;

    (void)state;
    place_migrate(&p);
    m = place_open(&p);
    place_exec(&p, "UPDATE {meta} SET fence_floor = fence_floor + 4000000000000000");
    for (int i = 0; i < 3; i++)
        assert_ok(sqlock_register_set(m, "r", "v", 1, version, &version, &err), &err);
    last = version;
    sqlock_close(m);
    assert_ok(sqlock_migrate_to(p.driver, p.url, &o, 1, SQLOCK_MIGRATE_DOWN, NULL, &err), &err);
    place_migrate(&p);
    m = place_open(&p);
    version = 0;
    assert_ok(sqlock_register_set(m, "r", "v", 1, 0, &version, &err), &err);
    assert_true(version > last);
    sqlock_close(m);
}

/* ---- several, and killed -----------------------------------------------------------------------
 */

struct start {
    struct place place;
    int gate[2]; /* closed by the parent: all go at once */
};

static int migrate_in_child(void *arg)
{
    struct start *s = arg;
    sqlock_open_opts o = place_opts(&s->place);
    sqlock_error err;
    int applied = -1;
    char byte;

    close(s->gate[1]);
    if (read(s->gate[0], &byte, 1) != 0)
        return 98;
    if (sqlock_migrate(s->place.driver, s->place.url, &o, &applied, &err) != 0) {
        print_error("%s\n", err.text);
        return 97;
    }
    return applied;
}

void test_migrators_at_once_do_the_work_once(void **state)
{
    (void)state;
    for (int round = 0; round < 8; round++) {
        struct start s = {.place = place_new()};
        pid_t child[3];
        int applied = 0;

        assert_int_equal(pipe(s.gate), 0);
        for (int i = 0; i < 3; i++)
            child[i] = child_start(migrate_in_child, &s);
        close(s.gate[0]);
        close(s.gate[1]);
        for (int i = 0; i < 3; i++) {
            int result = child_wait(child[i], patience_ms(10000));

            assert_between(0, result, (int)s.place.dialect->n_migrations);
            applied += result;
        }
        assert_int_equal(applied, (int)s.place.dialect->n_migrations);
        assert_true(place_use(&s.place, "x") > 0);
    }
}

/* All or nothing of a call where it is one transaction, else of each migration.
 * The moments are drawn over twice the time that a whole migration takes; how many of them came
 * before its end is counted, for a test that always kills too late proves nothing. */
void test_a_killed_migrator_leaves_all_or_nothing(void **state)
{
    struct place model = place_new();
    int64_t begun = now_us(), span;
    int unfinished = 0, killed = 0, rounds = 0;
    char *expected;

    (void)state;
    srand((unsigned)begun);
    place_migrate(&model);
    span = now_us() - begun;
    expected = place_catalogue(&model);
    for (; rounds < 20 || (unfinished == 0 && rounds < 200); rounds++) {
        struct start s = {.place = place_new()};
        pid_t child;
        char *found;
        int applied;

        assert_int_equal(pipe(s.gate), 0);
        child = child_start(migrate_in_child, &s);
        close(s.gate[0]);
        close(s.gate[1]);
        usleep((useconds_t)(rand() % (int)(2 * span)));
        kill(child, SIGKILL);
        killed += child_wait(child, 5000) == -SIGKILL;
        place_forget_migrator(&s.place);
        applied = place_migrate(&s.place);
        if (s.place.driver->caps & SQLOCK_CAP_TX_DDL)
            assert_true(applied == 0 || applied == (int)s.place.dialect->n_migrations);
        unfinished += applied > 0;
        found = place_catalogue(&s.place);
        assert_string_equal(found, expected);
        free(found);
        assert_int_equal(place_migrate(&s.place), 0);
    }
    free(expected);
    print_message("killed %d of %d migrators, %d of them before their commit\n", killed, rounds,
                  unfinished);
    assert_true(killed > 0 && unfinished > 0);
}

/* ---- versions ----------------------------------------------------------------------------------
 */

static void set_version(const struct place *p, int version, int min_reader)
{
    char sql[128];

    snprintf(sql, sizeof sql, "UPDATE {meta} SET version = %d, min_reader = %d WHERE id = 1",
             version, min_reader);
    place_exec(p, sql);
}

static void assert_tells(const sqlock_error *err, const char *before, int version)
{
    char words[64];

    snprintf(words, sizeof words, "%s %d", before, version);
    if (!strstr(err->text, words))
        fail_msg("\"%s\" does not say \"%s\"", err->text, words);
}

void test_a_schema_that_needs_a_newer_library_is_refused_with_both_versions(void **state)
{
    struct place p = place_new();
    int known = known_version(&p);
    sqlock_error err;

    (void)state;
    place_migrate(&p);
    set_version(&p, known + 41, known + 31);
    assert_code(SQLOCK_ESCHEMA, open_code(&p, &err), &err);
    assert_tells(&err, "version", known + 41);
    assert_tells(&err, "a library of generation", known + 31);
    assert_tells(&err, "this one is generation", GENERATION);
    assert_code(SQLOCK_ESCHEMA, migrate_code(&p, &err), &err);
    assert_tells(&err, "version", known + 41);
    assert_tells(&err, "generation", known + 31);
    assert_tells(&err, "library's", known);
    assert_int_equal(place_number(&p, "SELECT version FROM {meta} WHERE id = 1"), known + 41);
}

void test_P20_a_newer_schema_that_we_may_read_works(void **state)
{
    struct place p = place_new();
    int known = known_version(&p);
    sqlock_error err;
    int64_t before;

    (void)state;
    place_migrate(&p);
    before = place_use(&p, "x");
    set_version(&p, known + 1, GENERATION);
    assert_true(place_use(&p, "x") > before);
    /* It cannot make a newer one, and must not call it done. */
    assert_code(SQLOCK_ESCHEMA, migrate_code(&p, &err), &err);
}

/* P2: who draws tokens in another way must not grant beside us, nor write its server's name into
 * meta. Such libraries are made of ours. */
void test_P2_libraries_of_two_generations_never_work_on_one_schema(void **state)
{
    struct place p = place_new(), older, newer;
    char *before, *after;
    sqlock_error err;
    int64_t last;

    (void)state;
    place_migrate(&p);
    /* Before there were generations the number said which version of the schema one had to know. */
    assert_true(place_number(&p, "SELECT min_reader FROM {meta} WHERE id = 1") > 3);
    last = place_use(&p, "x");
    before = place_catalogue(&p);
    older = place_of_generation(&p, 1); /* it finds one above its own */
    newer = place_of_generation(&p, -1);
    for (int i = 0; i < 3; i++) {
        int64_t token;

        assert_code(SQLOCK_ESCHEMA, open_code(&older, &err), &err);
        assert_non_null(strstr(err.text, "too new"));
        assert_code(SQLOCK_ESCHEMA, open_code(&newer, &err), &err);
        assert_non_null(strstr(err.text, "draws tokens in another way"));
        after = place_catalogue(&p);
        assert_string_equal(before, after); /* the server, its floor and how often it has changed */
        free(after);
        token = place_use(&p, "x");
        assert_true(token > last);
        last = token;
    }
    free(before);
}

void test_an_absent_schema_is_told_and_not_made(void **state)
{
    struct place p = place_new();
    char *before = place_catalogue(&p), *after;
    sqlock_error err;

    (void)state;
    assert_code(SQLOCK_ESCHEMA, open_code(&p, &err), &err);
    assert_tells(&err, "version", known_version(&p));
    after = place_catalogue(&p);
    assert_string_equal(before, after);
    free(before);
    free(after);
}

/* ---- names -------------------------------------------------------------------------------------
 */

void test_prefixes_are_different_locks(void **state)
{
    struct place one = place_new(), other = one;
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL;
    sqlock_error err;
    sqlock *m, *n;

    (void)state;
    one.prefix = "a";
    other.prefix = "a_lock_23456789012345678"; /* 24 bytes, and begins like the other's table */
    place_migrate(&one);
    assert_code(SQLOCK_ESCHEMA, open_code(&other, &err), &err);
    assert_int_equal(place_migrate(&other), (int)other.dialect->n_migrations);
    m = place_open(&one);
    n = place_open(&other);
    assert_ok(sqlock_acquire(m, "x", &o, &lock, &err), &err);
    assert_true(use(n, "x") < use(n, "x"));
    assert_ok(sqlock_release(lock, &err), &err);
    sqlock_lock_free(lock);
    sqlock_close(m);
    sqlock_close(n);
}

void test_bad_prefixes_and_schemas_are_refused(void **state)
{
    static const char *const prefixes[] = {
        "", "A_", "_a", "1a", "a-b", "a b", "a\"", "a;", "\xc3\xa4", "a_lock_234567890123456789"};
    static const char *const schemas[] = {
        "",     "a\"b",  "a;b",
        "a'b",  "a\\b",  "a`b",
        "a\nb", "a\xff", "65432109876543210987654321098765432109876543210987654321098765432"};
    struct place p = place_new(), bad = p;
    sqlock_error err;

    (void)state;
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
