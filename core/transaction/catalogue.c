/* What the database's catalogue says about the application's tables. */
#include <assert.h>
#include <string.h>

#include "core/engine/pool.h"
#include "core/transaction/catalogue.h"

enum { PARAMS_MAX = 4, STALE_MAX = 4 };

/* An idle connection may have died. Then try another one. */
int catalogue_beside(sqlock *m, sqlock_stmt stmt, const sqlock_value *values, int64_t deadline,
                     sqlock_rows *rows, sqlock_error *err)
{
    sqlock_error own = {0};
    struct conn *c;
    int rc, stale, tries = 0;

    do {
        if ((rc = pool_take(m, POOL_CALLS, NULL, deadline, &c, &own)) != 0)
            break;
        stale = c->used;
        rc = call_rows(m, c, NULL, stmt, values, 1, deadline, rows, NULL, &own);
        pool_give(m, c, rc != 0 && (own.flags & SQLOCK_RECONNECT));
    } while (rc != 0 && stale && (own.flags & SQLOCK_RECONNECT) && ++tries < STALE_MAX);
    return rc == 0 ? 0 : error_give_elsewhere(err, &own);
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
