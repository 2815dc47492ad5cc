/* Names (P1, P15): one row for each, whoever makes it, and each is its bytes. */
#include "races.h"

static void test_two_creators_make_one_row(void **state)
{
    conn a = lite_open(), b = lite_open();
    request ra = request_of('A', 5000 * MS), rb = request_of('B', 5000 * MS);
    script right = ours(SQLOCK_STMT_ACQUIRE), read = only_the_read(right), rest;
    script wrong = read_then("INSERT INTO {lock} (ns, name, owner, token, exp)"
                             " VALUES (?1, ?2, ?3, 1, " LITE_NOW " + ?4 / 1000)"
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

static script compared(const char *where)
{
    return changed(ours(SQLOCK_STMT_ACQUIRE), "WHERE ns = ?1 AND name = ?2", where);
}

static void test_names_are_bytes(void **state)
{
    conn c = lite_open();
    request t = request_name(request_of('A', 5000 * MS), "t", 1);
    script text;
    mistaken wrong[] = {{.name = "c"}, {.name = "C"}, {.name = "c "}};
    (void)state;
    names_are_bytes(c, "CONSTRAINT");
    /* A name bound as text would be another name than its bytes: refused by the table. */
    text = changed(ours(SQLOCK_STMT_ACQUIRE), "SELECT ?1, ?2,", "SELECT ?1, CAST(?2 AS TEXT),");
    assert_string_equal(ask(c, &text, &t).error, "CONSTRAINT");
    /* Wrong: one column's worth of comparison for two columns; a comparison that folds case, or
     * does not see blanks at the end. */
    wrong[0].how = compared("WHERE ns || name = ?1 || ?2");
    wrong[1].how =
        compared("WHERE ns = ?1 AND CAST(name AS TEXT) = CAST(?2 AS TEXT) COLLATE NOCASE");
    wrong[2].how =
        compared("WHERE ns = ?1 AND CAST(name AS TEXT) = CAST(?2 AS TEXT) COLLATE RTRIM");
    names_are_told_apart(c, wrong, COUNT(wrong));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_SQLITE(test_two_creators_make_one_row),
        ON_SQLITE(test_names_are_bytes),
    };
    return cmocka_run_group_tests_name("names on SQLite", tests, NULL, NULL);
}
