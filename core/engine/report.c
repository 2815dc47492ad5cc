/* What an op reports to its caller: why it failed, and who is in the way. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/engine/op.h"

#define OLD_MS 1000 /* an answer */

int op_error_set(sqlock_op *op, int code, unsigned flags, const char *fmt, ...)
{
    sqlock_error err;
    va_list ap;

    va_start(ap, fmt);
    error_set_list(&err, code, flags, fmt, ap);
    va_end(ap);
    error_keep(&op->err, &err);
    return code;
}

void op_note_holder(sqlock_op *op, const sqlock_holder *holder)
{
    const size_t size = strlen(holder->label) + 1;
    struct met_holder *met = NULL;

    if (op->out_holder == NULL)
        return;
    if ((met = sqlock_mem_alloc(sizeof *met + size)) != NULL) {
        met->token = holder->token;
        met->left_ms = holder->left_ms;
        met->held_ms = holder->held_ms;
        met->place = holder->place;
        memcpy(met->label, holder->label, size);
    }
    sqlock_mem_free(op->holder);
    op->holder = met;
}

void op_note_no_holder(sqlock_op *op, int64_t place)
{
    op->held_until = 0;
    op_note_holder(op, &(sqlock_holder){.place = place});
}

static int64_t op_age_ms(const sqlock_op *op)
{
    return op->refused == SQLOCK_EBUSY && op->held_until > 0 ? (sqlock_now_us() - op->told) / 1000
                                                             : 0;
}

/* As it is now: while the database was away, the last answer grew old. Copy as much as an older
 * caller's struct has room for. */
void op_give_holder(sqlock_holder *out, const sqlock_op *op)
{
    const struct met_holder *met = op->holder;
    sqlock_holder holder = {.age_ms = 0};
    uint32_t size = out->size;

    if (met != NULL) {
        holder.age_ms = op_age_ms(op);
        holder.token = met->token;
        holder.left_ms = met->left_ms;
        holder.held_ms = met->held_ms;
        holder.place = met->place;
        memcpy(holder.label, met->label, strlen(met->label) + 1);
    }
    if (holder.age_ms > 0) {
        holder.left_ms -= holder.age_ms;
        holder.held_ms += holder.token > 0 || holder.held_ms > 0 ? holder.age_ms : 0;
    }
    memcpy(out, &holder, size < sizeof holder ? size : sizeof holder);
    out->size = size;
}

/* The text of the last answer is as it was then. */
void op_give_error(sqlock_error *err, const sqlock_op *op)
{
    const int64_t age_ms = op_age_ms(op);
    size_t used;

    error_recall(&op->err, err);
    if (err == NULL || op->code != SQLOCK_EBUSY || age_ms <= OLD_MS)
        return;
    used = strlen(err->text);
    snprintf(err->text + used, sizeof err->text - used, ", as of %lld.%03d s ago",
             (long long)(age_ms / 1000), (int)(age_ms % 1000));
}
