/* Compare and set for a row of the application: by its version, or by the fencing token in it. */
#include <assert.h>
#include <string.h>

#include "core/engine/arguments.h"
#include "core/transaction/compare.h"

/* The look found the expected version, but the change found another one, or no row. Another session
 * was there in between, which does not happen every time. */
enum { AGAIN_MAX = 3 };

static int cas_check_version(const sqlock_row_version *v, int inserts, sqlock_error *err)
{
    if (v == NULL || v->size < sizeof *v)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "version is NULL, or its size is not set");
    if (v->flags & ~SQLOCK_CAS_TIMESTAMP)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "unknown flags 0x%x", v->flags);
    if (!inserts && v->expected.type != SQLOCK_INT && v->expected.type != SQLOCK_NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0,
                                "the expected version is neither an integer nor NULL");
    return 0;
}

/* The column must be what the caller says it is. An integer must have room to rise. Otherwise some
 * servers would leave it as it is, and two changes would have one version. */
static int cas_check_kind(const struct compare *c, const sqlock_row_version *v, sqlock_error *err)
{
    const struct table_version *kind = &c->table.kind;
    int as_timestamp = (v->flags & SQLOCK_CAS_TIMESTAMP) != 0;

    if (as_timestamp != kind->is_timestamp)
        return sqlock_error_set(err, SQLOCK_EREFUSED, 0,
                                as_timestamp ? "the version's column is not a timestamp"
                                             : "the version's column is a timestamp: see the "
                                               "warning at SQLOCK_CAS_TIMESTAMP, and set it");
    if (!as_timestamp && c->expected.type == SQLOCK_INT && c->expected.i >= kind->most)
        return sqlock_error_set(err, SQLOCK_EREFUSED, 0,
                                "the version %lld is the largest that its column can store",
                                (long long)c->expected.i);
    return 0;
}

static int number_is_same(const sqlock_value *a, const sqlock_value *b)
{
    return a->type == b->type && (a->type == SQLOCK_NULL || a->i == b->i);
}

/* The row was changed, and stays so in this transaction. But a session that has read it before
 * would not notice the change. */
static int cas_check_raised(const struct compare *c, sqlock_error *err)
{
    if (!number_is_same(&c->found, &c->expected))
        return 0;
    return sqlock_error_set(
        err, SQLOCK_ETXRESTART, 0,
        "the row was changed, but a trigger of the table reset its version: roll back");
}

static int cas_judge(const struct compare *c, sqlock_error *err)
{
    switch (c->outcome) {
    case SQLOCK_OUT_DONE:
        return 0;
    case SQLOCK_OUT_CONFLICT:
        return SQLOCK_CONFLICT;
    case SQLOCK_OUT_NONE:
    case SQLOCK_OUT_GONE:
        return SQLOCK_ABSENT;
    case SQLOCK_OUT_STALE:
        return sqlock_error_set(
            err, SQLOCK_ETXRESTART, SQLOCK_RETRY,
            "the row was changed after this transaction's snapshot: roll back and begin again");
    default:
        return sqlock_error_set(err, SQLOCK_ECORRUPT, 0, "unknown outcome %d", c->outcome);
    }
}

/* ---- update, delete -------------------------------------------------------------------------- */

static int cas_change(struct compare *c, sqlock_stmt block, sqlock_error *err)
{
    for (int n = 0; n < AGAIN_MAX; n++) {
        int rc = compare_run(c, block, err);

        if (rc != 0)
            return rc;
        if (c->outcome != SQLOCK_OUT_SKIPPED)
            return cas_judge(c, err);
    }
    return sqlock_error_set(err, SQLOCK_EREFUSED, 0,
                            "the row has the expected version but was not changed: a trigger or "
                            "policy of the table prevents it");
}

static int cas_update(struct compare *c, sqlock_error *err)
{
    int rc = cas_change(c, SQLOCK_STMT_CAS_UPDATE, err);

    return rc == 0 ? cas_check_raised(c, err) : rc;
}

static int cas_delete(struct compare *c, sqlock_error *err)
{
    return cas_change(c, SQLOCK_STMT_CAS_DELETE, err);
}

/* ---- insert ---------------------------------------------------------------------------------- */

static int error_is_duplicate(const sqlock_error *err)
{
    return err->code == SQLOCK_EDB && strcmp(err->sqlstate, "23505") == 0;
}

/* A row is in the way. It has this key or, where only an error shows it, the values of another
 * unique index. */
static int cas_insert_once(struct compare *c, sqlock_error *err)
{
    sqlock_error second = {0};
    int rc = compare_run(c, SQLOCK_STMT_CAS_INSERT, err), met;

    if ((rc == 0 && c->outcome != SQLOCK_OUT_NONE) || (rc != 0 && !error_is_duplicate(err)))
        return rc;
    if ((met = compare_run(c, SQLOCK_STMT_CAS_MET, &second)) != 0) {
        *err = second;
        return met;
    }
    return c->outcome == SQLOCK_OUT_NONE || c->outcome == SQLOCK_OUT_GONE ? rc : 0;
}

static int cas_insert(struct compare *c, sqlock_error *err)
{
    for (int n = 0; n < AGAIN_MAX; n++) {
        int rc = cas_insert_once(c, err);

        if (rc != 0)
            return rc;
        if (c->outcome != SQLOCK_OUT_NONE && c->outcome != SQLOCK_OUT_GONE)
            return cas_judge(c, err);
    }
    return sqlock_error_set(err, SQLOCK_EREFUSED, 0,
                            "the row was not inserted, and no row with its key is visible: a "
                            "trigger or policy of the table prevents it");
}

/* ---- the calls ------------------------------------------------------------------------------- */

static int cas_run(struct compare *c, sqlock_row_version *v, const char *verb,
                   int (*verb_of)(struct compare *c, sqlock_error *err), sqlock_error *err)
{
    const char *table = c->row != NULL && c->row->size >= sizeof *c->row ? c->row->table : NULL;
    sqlock_error failure = {0}; /* err stays untouched if nothing failed */
    int rc = cas_check_version(v, verb_of == cas_insert, &failure);

    if (rc == 0) {
        c->column = v->column;
        c->expected = verb_of != cas_insert ? v->expected : sqlock_null();
        rc = compare_open(c, &failure);
    }
    if (rc == 0 && (rc = cas_check_kind(c, v, &failure)) == 0)
        rc = verb_of(c, &failure);
    if (rc < 0) {
        table = table != NULL ? table : "";
        check_context(&failure, verb, table, strnlen(table, 80), rc);
        return error_give(err, &failure);
    }
    assert(rc == 0 || rc == SQLOCK_CONFLICT || rc == SQLOCK_ABSENT);
    v->found = c->found;
    return rc;
}

int sqlock_cas_update(sqlock_conn *conn, const sqlock_row *row, sqlock_row_version *version,
                      const sqlock_column *set, size_t n_set, sqlock_error *err)
{
    UNCANCELLED;
    struct compare c = {.conn = conn, .row = row, .set = set, .n_set = n_set};

    return cas_run(&c, version, "cas update", cas_update, err);
}

int sqlock_cas_delete(sqlock_conn *conn, const sqlock_row *row, sqlock_row_version *version,
                      sqlock_error *err)
{
    UNCANCELLED;
    struct compare c = {.conn = conn, .row = row};

    return cas_run(&c, version, "cas delete", cas_delete, err);
}

int sqlock_cas_insert(sqlock_conn *conn, const sqlock_row *row, sqlock_row_version *version,
                      const sqlock_column *set, size_t n_set, sqlock_error *err)
{
    UNCANCELLED;
    struct compare c = {.conn = conn, .row = row, .set = set, .n_set = n_set};

    return cas_run(&c, version, "cas insert", cas_insert, err);
}

#define TOKEN_MOST ((INT64_C(1) << 53) - 1)

static int fence_judge(const struct compare *c, sqlock_error *err)
{
    switch (c->outcome) {
    case SQLOCK_OUT_DONE:
        return 0;
    case SQLOCK_OUT_NONE:
    case SQLOCK_OUT_GONE:
        return SQLOCK_ABSENT;
    case SQLOCK_OUT_CONFLICT:
        return sqlock_error_set(
            err, SQLOCK_ELOST, 0,
            "a newer holder has written the row: its token is %lld, this one's is %lld: roll back",
            (long long)c->found.i, (long long)c->token.i);
    case SQLOCK_OUT_STALE:
        return sqlock_error_set(
            err, SQLOCK_ETXRESTART, SQLOCK_RETRY,
            "the transaction's snapshot is older than an earlier holder's last write");
    default:
        return sqlock_error_set(err, SQLOCK_EREFUSED, 0,
                                "the row accepts the token but was not changed: a trigger or "
                                "policy of the table prevents it");
    }
}

static int fence_row(struct compare *c, sqlock_error *err)
{
    int rc = compare_open(c, err);

    if (rc == 0 && (c->table.kind.is_timestamp || c->table.kind.most < TOKEN_MOST))
        rc = sqlock_error_set(err, SQLOCK_EREFUSED, 0,
                              "the fence's column has fewer than the 64 bits that a token needs");
    for (int n = 0; rc == 0 && n < 3; n++)
        if ((rc = compare_run(c, SQLOCK_STMT_FENCE, err)) == 0 && c->outcome != SQLOCK_OUT_SKIPPED)
            break;
    return rc == 0 ? fence_judge(c, err) : rc;
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
        rc = fence_row(&c, &failure);
    if (rc >= 0)
        return rc;
    table = table != NULL ? table : "";
    check_context(&failure, "fence", table, strnlen(table, 80), rc);
    return error_give(err, &failure);
}
