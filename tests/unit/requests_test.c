/* What a request is (SQLOCK_STMTS) against the SQL of every dialect. The words that decide are
 * looked for outside of comments and literals. */
#include <ctype.h>
#include <string.h>

#include <sqlock/driver.h>

#include "core/sql/requests.h"
#include "tests/lib/check.h"

extern const sqlock_dialect sqlock_fake_dialect, sqlock_sqlite_dialect, sqlock_postgres_dialect,
    sqlock_mysql_dialect;

static const sqlock_dialect *const dialects[] = {
#ifdef TEST_HAVE_FAKE
    &sqlock_fake_dialect,
#endif
#ifdef TEST_HAVE_SQLITE
    &sqlock_sqlite_dialect,
#endif
#ifdef TEST_HAVE_POSTGRES
    &sqlock_postgres_dialect,
#endif
#ifdef TEST_HAVE_MYSQL
    &sqlock_mysql_dialect,
#endif
};
#define DIALECTS (sizeof dialects / sizeof *dialects)

/* Behind a comment or a literal that begins at p; p itself if none does. MySQL runs what stands
 * between
 * "!" and the end of a comment. */
static const char *skip_dead(const char *p)
{
    const char *end;

    if (strncmp(p, "--", 2) == 0)
        return p + strcspn(p, "\n");
    if (strncmp(p, "/*", 2) == 0 && p[2] != '!' && strncmp(p, "/*M!", 4) != 0)
        return (end = strstr(p, "*/")) != NULL ? end + 2 : p + strlen(p);
    if (*p == '\'')
        return (end = strchr(p + 1, '\'')) != NULL ? end + 1 : p + strlen(p);
    return p;
}

static int is_word_at(const char *sql, const char *at, const char *word)
{
    size_t len = strlen(word);

    return strncmp(at, word, len) == 0 && !isalnum((unsigned char)at[len]) && at[len] != '_' &&
           (at == sql || (!isalnum((unsigned char)at[-1]) && at[-1] != '_'));
}

static int begins_with(const char *sql, const char *at, const char *words)
{
    size_t len = strlen(words);

    return (size_t)(at - sql) >= len && memcmp(at - len, words, len) == 0;
}

/* What a statement does besides reading: bits. */
enum { CHANGES = 1, LOCKS = 2 };

/* It is there for its rights or its locks, and has no rows. */
static int is_idle(const char *at)
{
    const char *end = strchr(at, ';'), *idle = strstr(at, "WHERE FALSE");

    idle = idle != NULL ? idle : strstr(at, "WHERE 0 ");
    return idle != NULL && (end == NULL || idle < end);
}

static int word_does(const char *sql, const char *at)
{
    static const char *const changes[] = {"INSERT", "DELETE", "REPLACE INTO", "LOCK TABLE"};
    static const char *const locks[] = {"SHARE", "LOCK IN SHARE MODE"};

    if (is_word_at(sql, at, "UPDATE"))
        return begins_with(sql, at, "FOR ") || begins_with(sql, at, "FOR NO KEY ") || is_idle(at)
                   ? LOCKS
                   : CHANGES;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
        if (is_word_at(sql, at, changes[i]))
            return is_idle(at) ? LOCKS : CHANGES;
    for (size_t i = 0; i < sizeof locks / sizeof *locks; i++)
        if (is_word_at(sql, at, locks[i]))
            return LOCKS;
    return 0;
}

static int text_does(const char *sql)
{
    int does = 0;

    for (const char *at = sql; *at != '\0';) {
        const char *behind = skip_dead(at);

        if (behind == at)
            does |= word_does(sql, at++);
        else
            at = behind;
    }
    return does;
}

static int steps_do(const sqlock_step *steps, size_t n)
{
    int does = 0;

    for (size_t i = 0; i < n; i++)
        does |= text_does(steps[i].sql);
    return does;
}

static int request_does(const sqlock_dialect *d, int stmt)
{
    const sqlock_script *s = &d->scripts[stmt];

    return steps_do(s->steps, s->n_steps) | steps_do(s->array_steps, s->n_array_steps);
}

static int some_text_has(const sqlock_dialect *d, int stmt, const char *what)
{
    const sqlock_script *s = &d->scripts[stmt];

    for (size_t i = 0; i < s->n_steps; i++)
        if (strstr(s->steps[i].sql, what) != NULL)
            return 1;
    for (size_t i = 0; i < s->n_array_steps; i++)
        if (strstr(s->array_steps[i].sql, what) != NULL)
            return 1;
    return 0;
}

TEST(test_words_that_decide_are_found_and_others_are_not)
{
    assert_int_equal(text_does("UPDATE t SET a = 1"), CHANGES);
    assert_int_equal(text_does("WITH w AS (INSERT INTO t SELECT 1) SELECT 0"), CHANGES);
    assert_int_equal(text_does("UPDATE t SET a = 1 WHERE FALSE;\nSELECT 0"), LOCKS);
    assert_int_equal(text_does("UPDATE t SET a = 1 WHERE FALSE;\nDELETE FROM t"), LOCKS | CHANGES);
    assert_int_equal(text_does("SELECT 0 /*!80001 FOR UPDATE */"), LOCKS);
    assert_int_equal(text_does("SELECT 0 FROM t FOR NO KEY UPDATE SKIP LOCKED"), LOCKS);
    assert_int_equal(text_does("SELECT has('SELECT, UPDATE'), update_time -- UPDATE\n"), 0);
    assert_int_equal(text_does("SELECT 0 /* DELETE */, 'it''s', \"x\" FROM inserts"), 0);
}

/* Every dialect of this build has every request, with the flags of the table. */
TEST(test_dialects_have_the_flags_of_the_table)
{
    assert_true(DIALECTS > 0);
    for (size_t d = 0; d < DIALECTS; d++) {
        assert_int_equal(dialects[d]->n_scripts, SQLOCK_STMT_COUNT);
        for (int i = 0; i < SQLOCK_STMT_COUNT; i++) {
            const struct request_kind *kind = request_kind((sqlock_stmt)i);

            assert_string_equal(dialects[d]->scripts[i].name, kind->name);
            assert_string_equal(dialects[d]->scripts[i].params, kind->params);
            assert_int_equal(dialects[d]->scripts[i].flags, kind->flags);
        }
    }
}

/* It may travel with the step before it, whatever that does. */
TEST(test_look_behind_a_step_reads_and_locks_nothing)
{
    int looks = 0;

    for (size_t d = 0; d < DIALECTS; d++)
        for (int i = 0; i < SQLOCK_STMT_COUNT; i++) {
            const sqlock_script *s = &dialects[d]->scripts[i];

            for (size_t n = 0; n < s->n_steps; n++)
                if (s->steps[n].flags & SQLOCK_STEP_LOOK) {
                    looks++;
                    assert_true(n > 0);
                    assert_true(s->steps[n].flags & SQLOCK_STEP_ASIDE);
                    assert_int_equal(text_does(s->steps[n].sql), 0);
                }
        }
    print_message("%d looks\n", looks);
}

TEST(test_request_that_only_reads_changes_nothing_and_every_other_one_does_something)
{
    for (int i = 0; i < SQLOCK_STMT_COUNT; i++) {
        int does = 0;

        for (size_t d = 0; d < DIALECTS; d++) {
            int here = request_does(dialects[d], i);

            does |= here;
            if (request_is((sqlock_stmt)i, SQLOCK_REQ_READS) && (here & CHANGES))
                fail_msg("%s changes something on %s, and is marked as one that only reads",
                         request_kind((sqlock_stmt)i)->name, dialects[d]->name);
        }
        if (DIALECTS == 4 && does == 0 && !request_is((sqlock_stmt)i, SQLOCK_REQ_READS))
            fail_msg("%s only reads on every database, and is not marked so",
                     request_kind((sqlock_stmt)i)->name);
    }
}

/* A request does not name a table that its schema lacks. What looks at the schema itself names all.
 */
TEST(test_request_names_no_table_that_came_later_than_its_schema)
{
    static const struct {
        const char *word;
        int since;
    } tables[] = {{"{lock}", 1}, {"{meta}", 1}, {"{row}", 2}, {"{register}", 2}, {"{broken}", 3}};

    for (int i = 0; i < SQLOCK_STMT_COUNT; i++) {
        const struct request_kind *kind = request_kind((sqlock_stmt)i);

        for (size_t d = 0; d < DIALECTS; d++)
            for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
                if (kind->since > 0 && kind->since < tables[t].since &&
                    some_text_has(dialects[d], i, tables[t].word))
                    fail_msg("%s names %s on %s, and is for schema %d", kind->name, tables[t].word,
                             dialects[d]->name, kind->since);
    }
}

/* What travels with others begins with a key, and waits for no one. A look that changes nothing
 * leaves no doubt, and need not be repeated on another server. */
TEST(test_flags_go_together)
{
    for (int i = 0; i < SQLOCK_STMT_COUNT; i++) {
        sqlock_stmt stmt = (sqlock_stmt)i;
        const struct request_kind *kind = request_kind(stmt);
        int reads = request_is(stmt, SQLOCK_REQ_READS);

        if (request_is(stmt, SQLOCK_REQ_JOINS))
            assert_memory_equal(kind->params, "b:ns b:name ", 12);
        assert_false(reads && request_is(stmt, SQLOCK_REQ_HARMLESS | SQLOCK_REQ_FORGOTTEN));
        assert_int_equal(request_doubt(stmt),
                         reads || request_is(stmt, SQLOCK_REQ_HARMLESS) ? 0 : SQLOCK_MAYBE);
    }
}

TEST_MAIN_EACH(NULL, NULL)
