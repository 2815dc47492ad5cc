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

/* What the rows must hold, kept in the plainest way. A dialect may leave trailing columns away; the
 * next row's cells must not be read in their place. */
struct mirror {
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
    if (m->cells[n].type == SQLOCK_NULL) {
        assert_int_equal(sqlock_rows_put_null(r), 0);
    } else if (m->cells[n].type == SQLOCK_INT) {
        m->cells[n].i = (int64_t)dice_below(d, UINT64_MAX);
        assert_int_equal(sqlock_rows_put_int(r, m->cells[n].i), 0);
    } else {
        m->cells[n].fill = (unsigned char)dice_below(d, 256);
        m->cells[n].len = dice_below(d, sizeof bytes);
        memset(bytes, m->cells[n].fill, sizeof bytes);
        assert_int_equal(sqlock_rows_put_bytes(r, bytes, m->cells[n].len), 0);
    }
}

static void check_row(const sqlock_rows *r, size_t row, const struct mirror *m)
{
    size_t len;

    for (size_t c = 0; c < 9; c++) {
        const unsigned char *bytes = rows_bytes(r, row, c, &len);
        bool there = (int)c < m->n_cells;

        assert_true(rows_int(r, row, c, -5000) ==
                    (there && m->cells[c].type == SQLOCK_INT ? m->cells[c].i : -5000));
        assert_int_equal(bytes != NULL, there && m->cells[c].type == SQLOCK_BYTES);
        assert_int_equal(len, bytes != NULL ? m->cells[c].len : 0);
        for (size_t i = 0; i < len; i++)
            assert_int_equal(bytes[i], m->cells[c].fill);
        assert_true(bytes == NULL || bytes[len] == '\0');
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
