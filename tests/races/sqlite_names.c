/* Names (P1, P15): one row for each, whoever makes it, and each is its bytes. */
#include "races.h"

static void test_two_creators_make_one_row(void **state)
{
    conn a = lite_open(), b = lite_open();
    request ra = request_of('A', 5000 * MS), rb = request_of('B', 5000 * MS);
    script right = ours(SQLOCK_STMT_ACQUIRE), read = only_the_read(right), rest;
    script wrong = read_then("INSERT INTO {lock} (ns, name, owner, token, exp, inc)"
                             " VALUES (?1, ?2, ?3, 1, " LITE_NOW " + ?4 / 1000, 0)"
                             " RETURNING 0, 1, token");
    (void)state;
    for (int i = 0; i < 2; i++) {
        run(a, "DELETE FROM {lock}");
        assert_int_equal(ask(a, &read, &ra).rows + ask(b, &read, &rb).rows, 0);
        rest = after_the_read(i ? wrong : right);
        EXPECT(ask(a, &rest, &ra), SQLOCK_OUT_DONE);
        if (i) /* wrong: look, then insert */
            assert_string_equal(ask(b, &rest, &rb).error, "CONSTRAINT");
        else
            EXPECT(ask(b, &rest, &rb), SQLOCK_OUT_HELD);
        assert_int_equal(number(a, "SELECT count(*) FROM {lock}"), 1);
    }
}

static void test_names_are_bytes(void **state)
{
    char longest[256], other[256];
    conn c = lite_open();
    request r = request_of('A', 5000 * MS), pair = request_of('B', 5000 * MS);
    script right = ours(SQLOCK_STMT_ACQUIRE), glued, text;
    const struct {
        const char *name;
        size_t len;
    } names[] = {{"job", 3},         {"Job", 3},  {"job ", 4},    {"job\0", 4}, {"job\xff", 4},
                 {"job\xff\xfe", 5}, {" job", 4}, {longest, 255}, {other, 255}, {longest, 254}};
    const struct {
        const char *name, *where;
    } alike[] = {{"C", "WHERE ns = ?1 AND CAST(name AS TEXT) = CAST(?2 AS TEXT) COLLATE NOCASE"},
                 {"c ", "WHERE ns = ?1 AND CAST(name AS TEXT) = CAST(?2 AS TEXT) COLLATE RTRIM"}};
    (void)state;
    memset(longest, 'x', sizeof longest);
    memset(other, 'x', sizeof other);
    other[254] = 'y';
    for (size_t i = 0; i < COUNT(names); i++) {
        answer got = acquire(c, request_name(r, names[i].name, names[i].len));
        EXPECT(got, SQLOCK_OUT_DONE);
        assert_int_equal(got.token, 1);
    }
    assert_int_equal(number(c, "SELECT count(*) FROM {lock}"), COUNT(names));
    assert_string_equal(acquire(c, request_name(r, longest, 256)).error, "CONSTRAINT");
    /* A name bound as text would be another name than its bytes: refused by the table. */
    text = changed(right, "SELECT ?1, ?2,", "SELECT ?1, CAST(?2 AS TEXT),");
    assert_string_equal(ask(c, &text, (request[]){request_name(r, "t", 1)}).error, "CONSTRAINT");

    run(c, "DELETE FROM {lock}");
    r.ns = "a", r.ns_len = 1, r.name = "bc", r.name_len = 2;
    pair.ns = "ab", pair.ns_len = 2, pair.name = "c", pair.name_len = 1;
    EXPECT(acquire(c, r), SQLOCK_OUT_DONE);
    /* Wrong: one column's worth of comparison for two columns; a comparison that folds case, or
     * does not see blanks at the end. */
    glued = changed(right, "WHERE ns = ?1 AND name = ?2", "WHERE ns || name = ?1 || ?2");
    EXPECT(ask(c, &glued, &pair), SQLOCK_OUT_HELD);
    EXPECT(acquire(c, pair), SQLOCK_OUT_DONE);
    for (size_t i = 0; i < COUNT(alike); i++) {
        glued = changed(right, "WHERE ns = ?1 AND name = ?2", alike[i].where);
        pair = request_name(pair, alike[i].name, strlen(alike[i].name));
        memset(pair.owner, 'C' + (int)i, sizeof pair.owner);
        EXPECT(ask(c, &glued, &pair), SQLOCK_OUT_HELD);
        EXPECT(acquire(c, pair), SQLOCK_OUT_DONE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_SQLITE(test_two_creators_make_one_row),
        ON_SQLITE(test_names_are_bytes),
    };
    return cmocka_run_group_tests_name("names on SQLite", tests, NULL, NULL);
}
