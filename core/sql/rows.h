#ifndef SQLOCK_SQL_ROWS_H
#define SQLOCK_SQL_ROWS_H

#include <sqlock/driver.h>

/* The cells of all rows are in one array, and their bytes in another. Most answers are one row with
 * a label. It fits into the built-in arrays, and needs no allocation. */
struct sqlock_rows {
    struct rows_row {
        size_t request;
        size_t first; /* its first cell */
    } * rows, few_rows[1];
    struct rows_cell {
        sqlock_type type;
        int64_t i;  /* the number, or where the bytes start */
        size_t len; /* length of the bytes */
    } * cells, few_cells[16];
    char *bytes, few_bytes[256];
    size_t n_rows, n_cells, n_bytes;
    size_t max_rows, max_cells, max_bytes;
};

void rows_init(sqlock_rows *rows);
void rows_end(sqlock_rows *rows); /* of rows that rows_init() began */

sqlock_rows *rows_new(void); /* NULL: out of memory */
void rows_free(sqlock_rows *rows);
void rows_clear(sqlock_rows *rows);

/* The number of the request that this row answers. */
size_t rows_request(const sqlock_rows *rows, size_t row);
/* The cells of one row: none if there is no such row. */
struct rows_line {
    const struct rows_cell *cells;
    size_t n;
};
static inline struct rows_line rows_line(const sqlock_rows *r, size_t row)
{
    size_t first, end;

    if (row >= r->n_rows)
        return (struct rows_line){NULL, 0};
    first = r->rows[row].first;
    end = row + 1 < r->n_rows ? r->rows[row + 1].first : r->n_cells;
    return (struct rows_line){&r->cells[first], end - first};
}

/* NULL: there is no such cell. */
static inline const struct rows_cell *rows_cell_at(const sqlock_rows *r, size_t row, size_t column)
{
    struct rows_line line = rows_line(r, row);

    return column < line.n ? &line.cells[column] : NULL;
}

/* A cell as a number, or `otherwise` if it is NULL, bytes or missing. */
static inline int64_t line_int(struct rows_line line, size_t column, int64_t otherwise)
{
    return column < line.n && line.cells[column].type == SQLOCK_INT ? line.cells[column].i
                                                                    : otherwise;
}
static inline int64_t rows_int(const sqlock_rows *r, size_t row, size_t column, int64_t otherwise)
{
    return line_int(rows_line(r, row), column, otherwise);
}

/* A cell that is a number or NULL, as a value. A cell that is bytes or missing gives NULL. */
sqlock_value rows_number(const sqlock_rows *rows, size_t row, size_t column);
/* A cell's bytes, borrowed until the rows change. NULL, and length 0, if it is not bytes. */
const void *rows_bytes(const sqlock_rows *rows, size_t row, size_t column, size_t *out_len);

#endif
