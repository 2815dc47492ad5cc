/* The script of faults, and the requests that the server runs later than they were sent. */
#include "fake.h"

#include <string.h>

/* ---- the script ----------------------------------------------------------------------------- */

struct fake_fault {
    struct fake_fault *next;
    int stmt;
    sqlock_fault fault;
    int skip;
    int times;
    int64_t delay_us;
};

void sqlock_fake_fault(sqlock_fake *db, int stmt, sqlock_fault fault, int skip, int times,
                       int32_t delay_ms)
{
    int valid = stmt >= -1 && stmt < SQLOCK_STMT_COUNT && (int)fault >= SQLOCK_FAULT_NONE &&
                fault <= SQLOCK_FAULT_ERROR && skip >= 0 && times >= 0 && delay_ms >= 0;

    fake_enter(db);
    if (!valid) {
        db->bad_fault = 1;
    } else if (times > 0) {
        struct fake_fault **end = &db->faults;
        while (*end != NULL)
            end = &(*end)->next;
        *end = sqlock_mem_alloc(sizeof **end);
        if (*end == NULL)
            db->bad_fault = 1;
        else
            **end = (struct fake_fault){NULL, stmt, fault, skip, times, (int64_t)delay_ms * 1000};
    }
    fake_leave(db);
}

void fake_faults_free(sqlock_fake *db)
{
    while (db->faults != NULL) {
        struct fake_fault *gone = db->faults;
        db->faults = gone->next;
        sqlock_mem_free(gone);
    }
}

/* Its first two values are the key of a row. */
static int script_names_row(const sqlock_script *script)
{
    return strncmp(script->params, "b:ns b:name", 11) == 0;
}

static int fault_fits(const struct fake_fault *f, sqlock_stmt stmt)
{
    const sqlock_script *script = &sqlock_fake_dialect.scripts[stmt];

    if (f->fault == SQLOCK_FAULT_VANISH && !script_names_row(script))
        return 0;
    return f->stmt == -1 ? !(script->flags & SQLOCK_REQ_ONCE) : f->stmt == (int)stmt;
}

/* The first fault that fits takes the request, even if only to let it pass: the script reads in
 * order. */
static sqlock_fault fault_draw_one(sqlock_fake *db, sqlock_stmt stmt, int64_t *out_delay_us)
{
    struct fake_fault **at = &db->faults;
    while (*at != NULL && !fault_fits(*at, stmt))
        at = &(*at)->next;
    struct fake_fault *f = *at;
    if (f == NULL)
        return SQLOCK_FAULT_NONE;
    if (f->skip > 0) {
        f->skip--;
        return SQLOCK_FAULT_NONE;
    }
    sqlock_fault fault = f->fault;
    *out_delay_us = f->delay_us;
    if (--f->times == 0) {
        *at = f->next;
        sqlock_mem_free(f);
    }
    return fault;
}

/* A batch travels as one statement: a fault of one of its requests hits all, and counts once. */
sqlock_fault fake_fault_draw(const struct fake_call *call, int64_t *out_delay_us)
{
    for (size_t i = 0; i < call->n; i++) {
        const sqlock_value *v = fake_values_of(call, i);
        sqlock_fault fault = fault_draw_one(call->db, call->stmt, out_delay_us);
        if (fault == SQLOCK_FAULT_VANISH)
            fake_vanish(call->db, v);
        else if (fault != SQLOCK_FAULT_NONE)
            return fault;
    }
    return SQLOCK_FAULT_NONE;
}

/* ---- requests that run later ---------------------------------------------------------------- */

/* The caller's values end with its call, perhaps long before the request runs. */
static struct fake_pending *pending_copy(const struct fake_call *call)
{
    size_t n_values = call->n * sqlock_fake_dialect.scripts[call->stmt].n_params;
    size_t bytes = 0;
    for (size_t i = 0; i < n_values; i++)
        bytes += call->values[i].type == SQLOCK_BYTES ? call->values[i].len : 0;

    struct fake_pending *p = sqlock_mem_alloc(sizeof *p + n_values * sizeof *p->values + bytes);
    if (p == NULL)
        return NULL;
    unsigned char *at = (unsigned char *)(p->values + n_values);
    for (size_t i = 0; i < n_values; i++) {
        p->values[i] = call->values[i];
        if (p->values[i].type != SQLOCK_BYTES)
            continue;
        if (p->values[i].len > 0)
            memcpy(at, call->values[i].data, p->values[i].len);
        p->values[i].data = at;
        at += p->values[i].len;
    }
    p->call = *call;
    p->call.values = p->values;
    p->call.err = &p->err;
    return p;
}

int fake_pending_add(const struct fake_call *call, int64_t delay_us, struct fake_pending **out)
{
    struct fake_pending *p = pending_copy(call);
    if (p == NULL)
        return sqlock_error_set(call->err, SQLOCK_ENOMEM, 0, "no memory for the request");
    p->due = sqlock_now_us() + delay_us;

    struct fake_pending **at = &call->db->pending;
    while (*at != NULL && (*at)->due <= p->due)
        at = &(*at)->next;
    p->next = *at;
    *at = p;
    if (out != NULL)
        *out = p;
    return 0;
}

void fake_pending_abandon(sqlock_fake *db, struct fake_pending *pending, int forget)
{
    pending->call.conn = NULL;
    pending->call.rows = NULL;
    if (!pending->done && !forget)
        return;
    struct fake_pending **at = &db->pending;
    while (*at != NULL && *at != pending)
        at = &(*at)->next;
    if (*at == pending)
        *at = pending->next;
    sqlock_mem_free(pending);
}

/* A late request runs at the time when it was due, by the server's clock. So what a test sees does
 * not depend on the next entry into the database. Before that clock is stepped, the requests that
 * are due run. */
void fake_pending_run_due(sqlock_fake *db)
{
    int64_t now = sqlock_now_us();
    struct fake_pending **at = &db->pending;

    while (*at != NULL && (*at)->due <= now) {
        struct fake_pending *p = *at;
        if (db->owner != NULL && p->call.conn != db->owner) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        p->call.now = fake_clock(db) - (now - p->due);
        p->rc = fake_db_run(&p->call);
        p->done = 1;
        if (p->call.conn == NULL)
            sqlock_mem_free(p);
    }
}

void fake_pending_forget_all(sqlock_fake *db)
{
    struct fake_pending *p = db->pending;

    db->pending = NULL;
    while (p != NULL) {
        struct fake_pending *next = p->next;
        /* A request with a waiting call belongs to that call, which finds its link cut. */
        p->done = 1;
        if (p->call.conn == NULL)
            sqlock_mem_free(p);
        p = next;
    }
}
