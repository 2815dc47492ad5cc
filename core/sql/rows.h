#ifndef SQLOCK_ENGINE_ROWS_H
#define SQLOCK_ENGINE_ROWS_H

#include <sqlock/driver.h>

/* The cells of all rows stand in one array, their bytes in another. One row and its label, which is
 * what most requests answer, has room here, and takes no memory from elsewhere. */
struct sqlock_rows {
    struct rows_row {
        size_t request;
        size_t first; /* its first cell */
    } * rows, few_rows[1];
    struct rows_cell {
        sqlock_type type;
        int64_t i;  /* the number, or where the bytes start */
        size_t len; /* of the bytes */
    } * cells, few_cells[16];
    char *bytes, few_bytes[256];
    size_t n_rows, n_cells, n_bytes;
    size_t max_rows, max_cells, max_bytes;
};

void rows_init(sqlock_rows *rows);
void rows_end(sqlock_rows *rows); /* of those that rows_init() began */

sqlock_rows *rows_new(void); /* NULL: out of memory */
void rows_free(sqlock_rows *rows);
void rows_clear(sqlock_rows *rows);

/* The number of the request that a row answers. */
size_t rows_request(const sqlock_rows *rows, size_t row);
/* A cell as a number; `otherwise` where it is NULL, bytes or missing. */
int64_t rows_int(const sqlock_rows *rows, size_t row, size_t column, int64_t otherwise);
/* A cell that is a number or NULL, as a value; NULL where it is bytes or missing. */
sqlock_value rows_number(const sqlock_rows *rows, size_t row, size_t column);
/* A cell's bytes, borrowed until the rows change; NULL and 0 where it is none. */
const void *rows_bytes(const sqlock_rows *rows, size_t row, size_t column, size_t *out_len);

#endif
