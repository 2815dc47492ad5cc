/* A lock was given back: call who is the next to have it. A waiter that hears nothing looks a
 * moment later all the same. So nothing is tried again here. */
#include <string.h>

#include "core/engine/queue.h"
#include "core/leases/calling.h"
#include "core/sql/texts.h"

int calling_can(const sqlock_op *op)
{
    return texts_has(op->m->texts, SQLOCK_STMT_WAITERS, NULL) == 0 &&
           texts_has(op->m->texts, SQLOCK_STMT_NOTIFY, NULL) == 0;
}

/* No name contains a NUL, so the next key behind a name ends with one. */
int calling_send_look(sqlock_op *op)
{
    const sqlock_lock *lock = op->lock;

    return OP_SEND(op, SQLOCK_STMT_WAITERS, value_bytes(lock->ns, lock->ns_len),
                   value_bytes(lock->name, lock->name_len), value_int(-1),
                   value_bytes(lock->name, lock->name_len + 1), value_int(1));
}

int calling_found(sqlock_op *op, const struct answer *a, int64_t now)
{
    struct answer first = *a;

    first.has_next = answer_read_id(a->rows, 0, SQLOCK_COL_OWNER, first.next_owner) &&
                     answer_read_id(a->rows, 0, SQLOCK_COL_WAITER_CLIENT, first.next_client);
    first.next_token = 0;
    return calling_is_due(op, &first, now);
}

int calling_is_due(sqlock_op *op, const struct answer *a, int64_t now)
{
    if (!a->has_next || queue_call(op->lock, a, now) ||
        texts_has(op->m->texts, SQLOCK_STMT_NOTIFY, NULL) != 0)
        return 0;
    memcpy(op->call.client, a->next_client, sizeof op->call.client);
    memcpy(op->call.owner, a->next_owner, sizeof op->call.owner);
    return 1;
}

int calling_send(sqlock_op *op)
{
    return OP_SEND(op, SQLOCK_STMT_NOTIFY, value_bytes(op->call.client, sizeof op->call.client),
                   value_bytes(op->call.owner, sizeof op->call.owner));
}
