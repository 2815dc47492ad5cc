/* The table of requests. */
#include <assert.h>

#include <sqlock/sqlock.h>

#include "core/sql/requests.h"

static const struct request_kind kinds[SQLOCK_STMT_COUNT] = {
#define REQUEST_KIND(id, block, params, since, flags) {block, params, since, flags},
    SQLOCK_STMTS(REQUEST_KIND)
#undef REQUEST_KIND
};

const struct request_kind *request_kind(sqlock_stmt stmt)
{
    assert(stmt < SQLOCK_STMT_COUNT);
    return &kinds[stmt];
}

int request_is(sqlock_stmt stmt, unsigned flag)
{
    return (request_kind(stmt)->flags & flag) != 0;
}

unsigned request_doubt(sqlock_stmt stmt)
{
    return SQLOCK_LEAVES_DOUBT(request_kind(stmt)->flags) ? SQLOCK_MAYBE : 0;
}
