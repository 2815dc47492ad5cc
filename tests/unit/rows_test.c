/* Rows of an answer: what a driver puts in comes out, and nothing else. */
#include <string.h>

#include "core/sql/rows.h"
#include "tests/lib/check.h"
#include "tests/lib/dice.h"

static int setup(void **state)
{
    *state = rows_new();
    return *state != NULL ? 0 : -1;
}

static int teardown(void **state)
{
    rows_free(*state);
    return 0;
}

static void check_bytes(const sqlock_rows *r, size_t row, size_t column, const void *expected,
                        size_t len)
{
    size_t got;
    const void *bytes = rows_bytes(r, row, column, &got);

    assert_non_null(bytes);
    assert_int_equal(got, len);
    assert_memory_equal(bytes, expected, len);
    assert_int_equal(((const char *)bytes)[len], '\0');
}

TEST(test_new_rows_are_empty)
{
    assert_int_equal(sqlock_rows_count(*state), 0);
    rows_clear(*state);
    assert_int_equal(sqlock_rows_count(*state), 0);
    rows_free(NULL);
}

TEST(test_cells_come_out_as_they_were_put_in)
{
    sqlock_rows *r = *state;

    assert_int_equal(sqlock_rows_add(r, 0), 0);
    assert_int_equal(sqlock_rows_put_int(r, 0), 0);
    assert_int_equal(sqlock_rows_put_int(r, INT64_MIN), 0);
    assert_int_equal(sqlock_rows_put_int(r, INT64_MAX), 0);
    assert_int_equal(sqlock_rows_put_null(r), 0);
    assert_int_equal(sqlock_rows_put_bytes(r, "a\0b", 3), 0);
    assert_int_equal(sqlock_rows_put_bytes(r, "", 0), 0);
    assert_int_equal(sqlock_rows_count(r), 1);
    assert_true(rows_int(r, 0, 1, 7) == INT64_MIN);
    assert_true(rows_int(r, 0, 2, 7) == INT64_MAX);
    assert_int_equal(rows_int(r, 0, 3, 7), 7);
    check_bytes(r, 0, 4, "a\0b", 3);
    check_bytes(r, 0, 5, "", 0);
}

TEST(test_cell_of_another_type_reads_as_none)
{
    sqlock_rows *r = *state;
    size_t len = 99;

    sqlock_rows_add(r, 0);
    sqlock_rows_put_int(r, 5);
    sqlock_rows_put_bytes(r, "5", 1);
    sqlock_rows_put_null(r);
    assert_null(rows_bytes(r, 0, 0, &len));
    assert_int_equal(len, 0);
    assert_int_equal(rows_int(r, 0, 1, -3), -3);
    len = 99;
    assert_null(rows_bytes(r, 0, 2, &len));
    assert_int_equal(len, 0);
}

/* A dialect may leave trailing columns away; the next row's cells must not be read in their place.
 */
TEST(test_missing_columns_are_not_those_of_the_next_row)
{
    sqlock_rows *r = *state;
    size_t len;

    sqlock_rows_add(r, 0);
    sqlock_rows_put_int(r, 0);
    sqlock_rows_add(r, 1);
    sqlock_rows_put_int(r, 11);
    sqlock_rows_put_bytes(r, "next", 4);
    assert_int_equal(rows_int(r, 0, 1, -1), -1);
    assert_null(rows_bytes(r, 0, 2, &len));
    assert_int_equal(rows_int(r, 1, 0, -1), 11);
    assert_int_equal(rows_int(r, 1, 50, -1), -1);
    assert_null(rows_bytes(r, 1, 50, &len));
}

TEST(test_row_without_cells_has_none)
{
    sqlock_rows *r = *state;

    sqlock_rows_add(r, 4);
    sqlock_rows_add(r, 5);
    sqlock_rows_put_int(r, 0);
    assert_int_equal(sqlock_rows_count(r), 2);
    assert_int_equal(rows_int(r, 0, 0, -1), -1);
    assert_int_equal(rows_request(r, 0), 4);
    assert_int_equal(rows_request(r, 1), 5);
}

TEST(test_request_is_where_the_statement_began_plus_its_index)
{
    sqlock_rows *r = *state;

    sqlock_rows_add(r, 0);
    sqlock_rows_put_int(r, 3);
    sqlock_rows_add(r, 500);
    sqlock_rows_put_int(r, 2);
    assert_int_equal(rows_request(r, 0), 3);
    assert_int_equal(rows_request(r, 1), 502);
}

TEST(test_cut_forgets_the_rows_from_there_on)
{
    sqlock_rows *r = *state;
    size_t len;

    for (int i = 0; i < 5; i++) {
        sqlock_rows_add(r, (size_t)i);
        sqlock_rows_put_int(r, 0);
        sqlock_rows_put_bytes(r, &"abcde"[i], 1);
    }
    sqlock_rows_cut(r, 9);
    sqlock_rows_cut(r, 5);
    assert_int_equal(sqlock_rows_count(r), 5);
    sqlock_rows_cut(r, 2);
    assert_int_equal(sqlock_rows_count(r), 2);
    check_bytes(r, 1, 1, "b", 1);
    assert_int_equal(rows_int(r, 1, 2, -1), -1);
    sqlock_rows_add(r, 7);
    sqlock_rows_put_int(r, 0);
    sqlock_rows_put_bytes(r, "new", 3);
    check_bytes(r, 0, 1, "a", 1);
    check_bytes(r, 2, 1, "new", 3);
    assert_int_equal(rows_request(r, 2), 7);
    rows_clear(r);
    assert_int_equal(sqlock_rows_count(r), 0);
    sqlock_rows_add(r, 0);
    assert_null(rows_bytes(r, 0, 1, &len));
}

/* What the rows must hold, kept in the plainest way. */
struct mirror {
    size_t request;
    int n_cells;
    struct {
        sqlock_type type;
        int64_t i;
        unsigned char fill;
        size_t len;
    } cells[9];
};

static void put_random(sqlock_rows *r, struct mirror *m, struct dice *d)
{
    unsigned char bytes[400];
    int n = m->n_cells++;

    m->cells[n].type = (sqlock_type)dice_below(d, 3);
    switch (m->cells[n].type) {
    case SQLOCK_NULL:
        assert_int_equal(sqlock_rows_put_null(r), 0);
        break;
    case SQLOCK_INT:
        m->cells[n].i = dice_between(d, -1000, 1000);
        assert_int_equal(sqlock_rows_put_int(r, m->cells[n].i), 0);
        break;
    case SQLOCK_TEXT: /* of requests only */
    case SQLOCK_BYTES:
        m->cells[n].fill = (unsigned char)dice_below(d, 256);
        m->cells[n].len = dice_below(d, sizeof bytes);
        memset(bytes, m->cells[n].fill, sizeof bytes);
        assert_int_equal(sqlock_rows_put_bytes(r, bytes, m->cells[n].len), 0);
        break;
    }
}

static void check_row(const sqlock_rows *r, size_t row, const struct mirror *m)
{
    size_t len;

    for (size_t c = 0; c < 9; c++) {
        const unsigned char *bytes = rows_bytes(r, row, c, &len);
        bool there = (int)c < m->n_cells;

        assert_int_equal(rows_int(r, row, c, 5000),
                         there && m->cells[c].type == SQLOCK_INT ? m->cells[c].i : 5000);
        assert_int_equal(bytes != NULL, there && m->cells[c].type == SQLOCK_BYTES);
        if (bytes == NULL)
            continue;
        assert_int_equal(len, m->cells[c].len);
        for (size_t i = 0; i < len; i++)
            assert_int_equal(bytes[i], m->cells[c].fill);
    }
}

TEST(test_thousands_of_rows_keep_what_they_hold)
{
    static struct mirror mirrors[3000];
    struct dice d = dice_new("rows");
    sqlock_rows *r = *state;
    size_t n = 0;

    for (int i = 0; i < 6000; i++) {
        if (n == 3000 || dice_below(&d, 500) == 0) {
            n = dice_below(&d, n + 1);
            sqlock_rows_cut(r, n);
        }
        memset(&mirrors[n], 0, sizeof mirrors[n]);
        assert_int_equal(sqlock_rows_add(r, n), 0);
        for (uint64_t cells = dice_below(&d, 10); cells > 0; cells--)
            put_random(r, &mirrors[n], &d);
        n++;
    }
    assert_int_equal(sqlock_rows_count(r), n);
    for (size_t i = 0; i < n; i++)
        check_row(r, i, &mirrors[i]);
}

TEST_MAIN_EACH(setup, teardown)
