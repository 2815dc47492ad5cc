/* A fence around data that is not in the lock's own database: who comes with an older token than
 * somebody before is turned away. */
#include <string.h>

#include "core/verbs/check.h"
#include "core/verbs/compare.h"

#define TOKEN_MOST ((INT64_C(1) << 53) - 1)

static int judge(const struct compare *c, sqlock_error *err)
{
    switch (c->outcome) {
    case SQLOCK_OUT_DONE:
        return 0;
    case SQLOCK_OUT_NONE:
    case SQLOCK_OUT_GONE:
        return SQLOCK_ABSENT;
    case SQLOCK_OUT_CONFLICT:
        return sqlock_error_set(err, SQLOCK_ELOST, 0,
                                "a newer holder was here: its token is %lld, and this one's %lld: "
                                "roll back",
                                (long long)c->found.i, (long long)c->token.i);
    case SQLOCK_OUT_STALE:
        return sqlock_error_set(err, SQLOCK_ETXRESTART, SQLOCK_RETRY,
                                "the transaction has read before an earlier holder's last write");
    default:
        return sqlock_error_set(err, SQLOCK_EREFUSED, 0,
                                "the row lets the token pass, and is not changed: a trigger or a "
                                "policy of the table's keeps it");
    }
}

static int fence(struct compare *c, sqlock_error *err)
{
    int rc = compare_open(c, err);

    if (rc == 0 && (c->table.kind.is_timestamp || c->table.kind.most < TOKEN_MOST))
        rc = sqlock_error_set(err, SQLOCK_EREFUSED, 0,
                              "the fence is not of 64 bits, as tokens may become");
    for (int n = 0; rc == 0 && n < 3; n++)
        if ((rc = compare_ask(c, SQLOCK_STMT_FENCE, err)) == 0 && c->outcome != SQLOCK_OUT_SKIPPED)
            break;
    return rc == 0 ? judge(c, err) : rc;
}

int sqlock_fence(sqlock_conn *conn, const sqlock_row *row, const char *column, int64_t token,
                 sqlock_error *err)
{
    UNCANCELLED;
    struct compare c = {.conn = conn, .row = row, .column = column, .token = sqlock_int(token)};
    const char *table = row != NULL && row->size >= sizeof *row ? row->table : NULL;
    sqlock_error failure = {0};
    int rc = check_token(token, &failure);

    if (rc == 0)
        rc = fence(&c, &failure);
    if (rc >= 0)
        return rc;
    table = table != NULL ? table : "";
    check_context(&failure, "fence", table, strnlen(table, 80), rc);
    return error_give(err, &failure);
}
