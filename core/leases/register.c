/* Versioned registers (P13). */
#include <sqlock/register.h>
#include <string.h>

#include "core/engine/arguments.h"
#include "core/engine/hosts.h"
#include "core/leases/leases.h"

/* The answer is neither yes nor no. */
static void register_go_on(sqlock_op *op, int outcome, int64_t now)
{
    switch (outcome) {
    case SQLOCK_OUT_LATE:    /* the clocks differ from what we knew, and this answer has shown it */
    case SQLOCK_OUT_SKIPPED: /* the row changed while we looked */
    case SQLOCK_OUT_GONE:    /* ... or another program made it, and deleted it again */
        op_retry_at_once(op, now);
        return;
    case SQLOCK_OUT_STRANGER:
    case SQLOCK_OUT_NONE: /* the meta row is gone */
        op_handshake(op, now);
        return;
    default:
        op_done(op, op_error_set(op, SQLOCK_ECORRUPT, 0, "unknown outcome %d", outcome));
    }
}

/* ---- get ------------------------------------------------------------------------------------- */

static void register_seen(struct register_look *l, const sqlock_rows *rows)
{
    const void *value = rows_bytes(rows, 0, SQLOCK_COL_VALUE, &l->len);

    l->version = rows_int(rows, 0, SQLOCK_COL_REGISTER, 0);
    l->fits = l->buf == NULL || l->len <= l->size;
    if (l->fits && l->buf != NULL && l->len > 0)
        memcpy(l->buf, value, l->len);
}

static int register_get_next(sqlock_op *op, int64_t now)
{
    const sqlock_lock *lock = op->lock;

    (void)now;
    return OP_SEND(op, SQLOCK_STMT_REGISTER_GET, value_bytes(lock->ns, lock->ns_len),
                   value_bytes(lock->name, lock->name_len));
}

static void register_get_answered(sqlock_op *op, const struct answer *a, int64_t now)
{
    if (a->outcome != SQLOCK_OUT_DONE && a->outcome != SQLOCK_OUT_GONE) {
        register_go_on(op, a->outcome, now);
        return;
    }
    register_seen(op->work, a->rows);
    op_done(op, 0);
}

const struct verb register_get_verb = {register_get_next, register_get_answered, NULL, 0, NULL};

int sqlock_register_get(sqlock *m, const char *name, void *buf, size_t buf_size, size_t *out_len,
                        int64_t *out_version, sqlock_error *err)
{
    UNCANCELLED;
    struct register_look l = {.buf = buf, .size = buf_size};
    struct named_request request = {"register get", name, &register_get_verb, &l, 0, -1, 0};
    int rc;

    if (out_len == NULL || out_version == NULL || (buf == NULL && buf_size > 0))
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "register get: %s is NULL",
                                out_len == NULL       ? "out_len"
                                : out_version == NULL ? "out_version"
                                                      : "buf");
    if ((rc = named_request(m, &request, err)) != 0)
        return rc;
    *out_len = l.len;
    if (!l.fits)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0,
                                "register get: the value has %zu bytes, the buffer only %zu", l.len,
                                buf_size);
    *out_version = l.version;
    return 0;
}

/* ---- set ------------------------------------------------------------------------------------- */

static int register_set_next(sqlock_op *op, int64_t now)
{
    const struct register_change *c = op->work;
    const sqlock_lock *lock = op->lock;
    int64_t last = time_min(op->deadline, now + op->m->request_us);

    return OP_SEND(op, SQLOCK_STMT_REGISTER_SET, value_bytes(lock->ns, lock->ns_len),
                   value_bytes(lock->name, lock->name_len), value_bytes(c->value, c->len),
                   value_int(c->expected), value_bytes(lock->owner, sizeof lock->owner),
                   value_int(call_not_after(op->m, hosts_room(op->m, now, last))),
                   value_int(op->m->above));
}

/* Another version is there, and the expected one never returns. If a reply was lost, our change may
 * have been applied and then changed again. It was not if the version is the expected one plus 1:
 * then another program made it from the expected one. */
static void register_conflict(sqlock_op *op, int64_t version)
{
    struct register_change *c = op->work;

    if (op->unsure && (c->expected == 0 || version != c->expected + 1)) {
        op_done(op, op_error_set(op, SQLOCK_EUNSURE, SQLOCK_MAYBE,
                                 "the reply was lost, and the register has changed since, with "
                                 "or without this change: it is at version %lld",
                                 (long long)version));
        return;
    }
    c->conflict = 1;
    c->version = version;
    op_done(op, 0);
}

static void register_set_answered(sqlock_op *op, const struct answer *a, int64_t now)
{
    struct register_change *c = op->work;
    int64_t version = rows_int(a->rows, 0, SQLOCK_COL_REGISTER, 0);

    if (a->outcome == SQLOCK_OUT_DONE) {
        c->version = version;
        op_done(op, 0);
    } else if (a->outcome == SQLOCK_OUT_CONFLICT ||
               (a->outcome == SQLOCK_OUT_GONE && c->expected != 0)) {
        register_conflict(op, version);
    } else {
        register_go_on(op, a->outcome, now);
    }
}

const struct verb register_set_verb = {register_set_next, register_set_answered, NULL, 0, NULL};

static int register_check(const struct register_change *c, sqlock_error *err)
{
    if (c->len > SQLOCK_REGISTER_MAX)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0,
                                "register set: the value has %zu bytes (at most %d)", c->len,
                                SQLOCK_REGISTER_MAX);
    if (c->value == NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "register set: the value is NULL");
    if (c->expected < 0)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0,
                                "register set: the version is negative: %lld",
                                (long long)c->expected);
    return 0;
}

int sqlock_register_set(sqlock *m, const char *name, const void *value, size_t len,
                        int64_t expected_version, int64_t *out_version, sqlock_error *err)
{
    UNCANCELLED;
    struct register_change c = {
        .value = value == NULL && len == 0 ? "" : value, .len = len, .expected = expected_version};
    struct named_request request = {"register set", name, &register_set_verb, &c, 0, -1, 0};
    int rc;

    if ((rc = register_check(&c, err)) != 0 || (rc = named_request(m, &request, err)) != 0)
        return rc;
    if (out_version != NULL)
        *out_version = c.version;
    return c.conflict ? SQLOCK_CONFLICT : 0;
}
