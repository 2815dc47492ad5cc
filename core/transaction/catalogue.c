/* What the database's catalogue says about the application's tables. */
#include <assert.h>
#include <string.h>

#include "core/engine/errand.h"
#include "core/transaction/catalogue.h"

enum { PARAMS_MAX = 4 };

int catalogue_beside(sqlock *m, sqlock_stmt stmt, const sqlock_value *values, int64_t deadline,
                     sqlock_rows *rows, sqlock_error *err)
{
    struct errand e = {.use = POOL_CALLS,
                       .stmt = stmt,
                       .values = values,
                       .n = 1,
                       .deadline = deadline,
                       .rows = rows};

    return errand_run(m, &e) == 0 ? 0 : error_give_elsewhere(err, &e.err);
}

/* Read the schema that the application's connection uses now, into buf. */
static int catalogue_find_schema(sqlock_conn *c, int64_t deadline, sqlock_rows *rows, char *buf,
                                 size_t size, sqlock_error *err)
{
    const char *found;
    size_t len;
    int rc = adopted_rows(c, SQLOCK_STMT_TABLE_AT, NULL, deadline, rows, err);

    if (rc != 0)
        return rc;
    found = rows_bytes(rows, 0, SQLOCK_COL_AT, &len);
    if (found == NULL || len >= size)
        return sqlock_error_set(
            err, SQLOCK_EINVAL, 0,
            "no schema: the row names none, and the connection has none selected");
    assert(found[len] == '\0');
    memcpy(buf, found, len + 1);
    return 0;
}

int catalogue_send(sqlock_conn *c, sqlock_stmt stmt, const sqlock_value *values, size_t n,
                   int64_t deadline, sqlock_rows *rows, sqlock_error *err)
{
    sqlock_value with[PARAMS_MAX];
    char schema[264];
    int rc;

    if (!(c->m->driver->adopter->flags & SQLOCK_ADOPT_BESIDE))
        return adopted_rows(c, stmt, values, deadline, rows, err);
    assert(n >= 1 && n <= PARAMS_MAX);
    memcpy(with, values, n * sizeof *with);
    if (with[0].type == SQLOCK_NULL) {
        if ((rc = catalogue_find_schema(c, deadline, rows, schema, sizeof schema, err)) != 0)
            return rc;
        with[0] = value_bytes(schema, strlen(schema));
    }
    return catalogue_beside(c->m, stmt, with, deadline, rows, err);
}
