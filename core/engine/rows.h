#ifndef SQLOCK_ENGINE_ROWS_H
#define SQLOCK_ENGINE_ROWS_H

#include <sqlock/driver.h>

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
