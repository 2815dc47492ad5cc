/* The rows of an answer. */
#include <assert.h>
#include <string.h>

#include "core/sql/rows.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

void rows_init(sqlock_rows *r)
{
    r->rows = r->few_rows;
    r->cells = r->few_cells;
    r->bytes = r->few_bytes;
    r->n_rows = r->n_cells = r->n_bytes = 0;
    r->max_rows = COUNT(r->few_rows);
    r->max_cells = COUNT(r->few_cells);
    r->max_bytes = COUNT(r->few_bytes);
}

void rows_end(sqlock_rows *r)
{
    if (r->rows != r->few_rows)
        sqlock_mem_free(r->rows);
    if (r->cells != r->few_cells)
        sqlock_mem_free(r->cells);
    if (r->bytes != r->few_bytes)
        sqlock_mem_free(r->bytes);
}

sqlock_rows *rows_new(void)
{
    sqlock_rows *rows = sqlock_mem_alloc(sizeof *rows);

    if (rows != NULL)
        rows_init(rows);
    return rows;
}

void rows_free(sqlock_rows *rows)
{
    if (rows != NULL)
        rows_end(rows);
    sqlock_mem_free(rows);
}

void rows_clear(sqlock_rows *rows)
{
    sqlock_rows_cut(rows, 0);
}

/* Make room for `more` items of `size` bytes after the first n, which there is not yet. Returns the
 * array, which may have moved, or NULL. `few` is the built-in array that it began in, which cannot
 * be resized. */
static void *rows_grow(void *array, const void *few, size_t n, size_t more, size_t *max,
                       size_t size)
{
    size_t want = *max < 16 ? 16 : *max;
    void *grown;

    assert(n <= *max && n + more > *max);
    while (want < n + more)
        want *= 2;
    grown = sqlock_mem_resize(array != few ? array : NULL, want * size);
    if (grown != NULL && array == few)
        memcpy(grown, few, n * size);
    if (grown != NULL)
        *max = want;
    return grown;
}

/* What grows is rarely called: one row fits into the built-in arrays. */
static int rows_grow_rows(sqlock_rows *r)
{
    struct rows_row *grown =
        rows_grow(r->rows, r->few_rows, r->n_rows, 1, &r->max_rows, sizeof *grown);

    if (grown == NULL)
        return SQLOCK_ENOMEM;
    r->rows = grown;
    return 0;
}

static int rows_grow_bytes(sqlock_rows *r, size_t more)
{
    char *grown = rows_grow(r->bytes, r->few_bytes, r->n_bytes, more, &r->max_bytes, 1);

    if (grown == NULL)
        return SQLOCK_ENOMEM;
    r->bytes = grown;
    return 0;
}

int sqlock_rows_add(sqlock_rows *r, size_t request)
{
    if (r->n_rows == r->max_rows && rows_grow_rows(r) != 0)
        return SQLOCK_ENOMEM;
    r->rows[r->n_rows++] = (struct rows_row){request, r->n_cells};
    return 0;
}

static inline void rows_append(sqlock_rows *r, sqlock_type type, int64_t i, size_t len)
{
    r->cells[r->n_cells++] = (struct rows_cell){type, i, len};
}

/* Not a part of rows_put(), which most callers leave before it would come here. */
static __attribute__((noinline)) int rows_put_grown(sqlock_rows *r, sqlock_type type, int64_t i,
                                                    size_t len)
{
    struct rows_cell *grown =
        rows_grow(r->cells, r->few_cells, r->n_cells, 1, &r->max_cells, sizeof *grown);

    if (grown == NULL)
        return SQLOCK_ENOMEM;
    r->cells = grown;
    rows_append(r, type, i, len);
    return 0;
}

static inline int rows_put(sqlock_rows *r, sqlock_type type, int64_t i, size_t len)
{
    if (r->n_cells == r->max_cells)
        return rows_put_grown(r, type, i, len);
    rows_append(r, type, i, len);
    return 0;
}

int sqlock_rows_put_null(sqlock_rows *r)
{
    return rows_put(r, SQLOCK_NULL, 0, 0);
}

int sqlock_rows_put_int(sqlock_rows *r, int64_t i)
{
    return rows_put(r, SQLOCK_INT, i, 0);
}

int sqlock_rows_put_bytes(sqlock_rows *r, const void *data, size_t len)
{
    if (r->max_bytes - r->n_bytes < len + 1 && rows_grow_bytes(r, len + 1) != 0)
        return SQLOCK_ENOMEM;
    if (len > 0)
        memcpy(r->bytes + r->n_bytes, data, len);
    r->bytes[r->n_bytes + len] = '\0'; /* for those who read it as a string */
    if (rows_put(r, SQLOCK_BYTES, (int64_t)r->n_bytes, len) != 0)
        return SQLOCK_ENOMEM;
    r->n_bytes += len + 1;
    return 0;
}

void sqlock_rows_cut(sqlock_rows *r, size_t n)
{
    if (n >= r->n_rows)
        return;
    assert(r->rows[n].first <= r->n_cells);
    r->n_cells = r->rows[n].first;
    r->n_rows = n;
    if (n == 0)
        r->n_bytes = 0;
}

size_t sqlock_rows_count(const sqlock_rows *r)
{
    return r->n_rows;
}

size_t rows_request(const sqlock_rows *r, size_t row)
{
    assert(row < r->n_rows);
    return r->rows[row].request + (size_t)rows_int(r, row, SQLOCK_COL_INDEX, 0);
}

sqlock_value rows_number(const sqlock_rows *r, size_t row, size_t column)
{
    const struct rows_cell *cell = rows_cell_at(r, row, column);

    return cell != NULL && cell->type == SQLOCK_INT ? sqlock_int(cell->i) : sqlock_null();
}

const void *rows_bytes(const sqlock_rows *r, size_t row, size_t column, size_t *out_len)
{
    const struct rows_cell *cell = rows_cell_at(r, row, column);

    *out_len = 0;
    if (cell == NULL || cell->type != SQLOCK_BYTES)
        return NULL;
    assert((size_t)cell->i + cell->len < r->n_bytes);
    *out_len = cell->len;
    return r->bytes + cell->i;
}
