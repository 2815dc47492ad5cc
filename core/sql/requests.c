/* The table of requests. */
#include "core/sql/requests.h"

const struct request_kind request_kinds[SQLOCK_STMT_COUNT] = {
#define REQUEST_KIND(id, block, params, since, flags) {block, params, since, flags},
    SQLOCK_STMTS(REQUEST_KIND)
#undef REQUEST_KIND
};
