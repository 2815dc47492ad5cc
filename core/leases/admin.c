/* Lists locks and who waits for them, and breaks locks. */
#include <string.h>

#include <sqlock/admin.h>

#include "core/engine/arguments.h"
#include "core/engine/errand.h"
#include "core/leases/calling.h"
#include "core/leases/leases.h"
#include "core/sql/texts.h"

#define PAGE 500

static void info_read(const sqlock_rows *rows, size_t row, sqlock_info *out)
{
    struct answer a;
    const void *owner;
    size_t len;

    memset(out, 0, sizeof *out);
    memset(&a, 0, sizeof a);
    answer_read(rows, row, &a);
    out->size = sizeof *out;
    out->name = rows_bytes(rows, row, SQLOCK_COL_NAME, &out->name_len);
    owner = rows_bytes(rows, row, SQLOCK_COL_OWNER, &len);
    out->held = owner != NULL;
    if (owner != NULL && len == sizeof out->owner)
        memcpy(out->owner, owner, len);
    answer_holder(&a, &out->holder);
}

/* The table takes what a stranger writes into it. */
static int info_check(const sqlock_info *info, sqlock_error *err)
{
    if (info->name != NULL && info->name_len <= SQLOCK_NAME_MAX)
        return 0;
    return sqlock_error_set(err, SQLOCK_ECORRUPT, 0, "a row has a name of %zu bytes",
                            info->name_len);
}

/* ---- page by page ---------------------------------------------------------------------------- */

struct listing {
    sqlock *m;
    const char *verb; /* for errors */
    int (*fetch)(struct listing *l, sqlock_rows *rows, sqlock_error *err);
    int (*each)(struct listing *l, const sqlock_info *info); /* calls the user's function */
    union {
        sqlock_list_fn lock;
        sqlock_waiter_fn waiter;
    } fn;
    void *user;
    char name[SQLOCK_NAME_MAX + 1]; /* of the last row: the next page begins behind it */
    size_t name_len;
    int64_t ticket, place; /* the same, of a waiter */
    sqlock_list_opts o;
    char below[SQLOCK_NAME_MAX + 1]; /* of waiters: names smaller than this */
    size_t below_len;
};

static int listing_send(sqlock *m, sqlock_stmt stmt, const sqlock_value *values, sqlock_rows *rows,
                        sqlock_error *err)
{
    struct errand e = {.use = POOL_CALLS,
                       .stmt = stmt,
                       .values = values,
                       .n = 1,
                       .deadline = sqlock_now_us() + m->request_us,
                       .rows = rows};

    if (errand_run(m, &e) == 0)
        return 0;
    error_contention(&e.err, manager_has_one_writer(m));
    return error_give(err, &e.err);
}

static int listing_row(struct listing *l, const sqlock_rows *rows, size_t row, int *out_stop,
                       sqlock_error *err)
{
    sqlock_info info;
    int rc;

    info_read(rows, row, &info);
    if ((rc = info_check(&info, err)) != 0)
        return rc;
    *out_stop = l->each(l, &info);
    l->name_len = info.name_len;
    memcpy(l->name, info.name, info.name_len);
    return 0;
}

/* Returns what the user's function returned to stop, or the error's code. */
static int listing_run(struct listing *l, sqlock_error *err)
{
    sqlock_rows *rows = rows_new();
    size_t n = PAGE;
    int rc = 0, stop = 0;

    if (rows == NULL)
        return error_nomem(err);
    while (rc == 0 && stop == 0 && n == PAGE) {
        if ((rc = l->fetch(l, rows, err)) == 0)
            n = sqlock_rows_count(rows);
        for (size_t i = 0; rc == 0 && stop == 0 && i < n; i++)
            rc = listing_row(l, rows, i, &stop, err);
    }
    rows_free(rows);
    if (rc != 0)
        error_prefix(err, "%s", l->verb);
    return rc != 0 ? rc : stop;
}

/* ---- locks ----------------------------------------------------------------------------------- */

static int list_fetch(sqlock *m, const char *after, size_t after_len, const sqlock_list_opts *o,
                      int limit, sqlock_rows *rows, sqlock_error *err)
{
    const char *prefix = o->prefix != NULL ? o->prefix : "";
    sqlock_value values[] = {
        value_bytes(m->ns, m->ns_len),
        value_bytes(after, after_len),
        value_bytes(prefix, strlen(prefix)),
        value_int((o->flags & SQLOCK_LIST_FREE) != 0),
        value_int(limit),
    };

    return listing_send(m, SQLOCK_STMT_LIST, values, rows, err);
}

static int list_page(struct listing *l, sqlock_rows *rows, sqlock_error *err)
{
    return list_fetch(l->m, l->name, l->name_len, &l->o, PAGE, rows, err);
}

static int list_each(struct listing *l, const sqlock_info *info)
{
    return l->fn.lock(info, l->user);
}

int sqlock_list(sqlock *m, const sqlock_list_opts *opts, sqlock_list_fn fn, void *user,
                sqlock_error *err)
{
    UNCANCELLED;
    struct listing l = {
        .m = m, .verb = "list", .fetch = list_page, .each = list_each, .fn.lock = fn, .user = user};
    int rc;

    if ((rc = check_alive(m, err)) != 0 || (rc = check_list_opts(opts, &l.o, err)) != 0)
        return rc;
    if (fn == NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "list: fn is NULL");
    return listing_run(&l, err);
}

/* Names come in byte order, so a name is the first of those that begin with it. */
static int list_find_row(sqlock *m, const char *name, size_t name_len, sqlock_info *out,
                         sqlock_error *err)
{
    sqlock_list_opts o = {sizeof o, SQLOCK_LIST_FREE, name};
    sqlock_rows *rows = rows_new();
    sqlock_info info;
    int rc;

    if (rows == NULL)
        return error_nomem(err);
    if ((rc = list_fetch(m, "", 0, &o, 1, rows, err)) == 0) {
        rc = SQLOCK_ABSENT;
        if (sqlock_rows_count(rows) > 0) {
            info_read(rows, 0, &info);
            if (info.name_len == name_len && memcmp(info.name, name, name_len) == 0)
                rc = 0;
        }
    }
    if (rc == 0) {
        info.name = name;
        info.size = out->size;
        memcpy(out, &info, out->size < sizeof info ? out->size : sizeof info);
    }
    rows_free(rows);
    return rc;
}

int sqlock_find(sqlock *m, const char *name, sqlock_info *out, sqlock_error *err)
{
    UNCANCELLED;
    size_t name_len = 0;
    int rc;

    if (out == NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "find: out is NULL");
    if ((rc = check_alive(m, err)) == 0 && (rc = check_name(name, &name_len, err)) == 0 &&
        (rc = check_size(out->size, "the size of out is not set", err)) == 0)
        rc = list_find_row(m, name, name_len, out, err);
    return check_context(err, "find", name, name_len, rc);
}

/* ---- who waits ------------------------------------------------------------------------------- */

static int waiters_page(struct listing *l, sqlock_rows *rows, sqlock_error *err)
{
    sqlock *m = l->m;
    sqlock_value values[] = {
        value_bytes(m->ns, m->ns_len),
        value_bytes(l->name, l->name_len),
        value_int(l->ticket),
        value_bytes(l->below, l->below_len),
        value_int(PAGE),
    };

    return listing_send(m, SQLOCK_STMT_WAITERS, values, rows, err);
}

static int waiters_each(struct listing *l, const sqlock_info *info)
{
    sqlock_waiter w = {.size = sizeof w, .name = info->name, .name_len = info->name_len};

    if (info->name_len != l->name_len || memcmp(info->name, l->name, l->name_len) != 0)
        l->place = 0;
    w.place = ++l->place;
    l->ticket = info->holder.token;
    w.waited_ms = info->holder.held_ms;
    memcpy(w.owner, info->owner, sizeof w.owner);
    memcpy(w.label, info->holder.label, sizeof w.label);
    return l->fn.waiter(&w, l->user);
}

/* No name contains a NUL, so the next key behind a name ends with one. No name has a byte ff. */
static void waiters_bounds(struct listing *l, const char *name, size_t name_len)
{
    l->ticket = -1;
    if (name == NULL) {
        l->below[l->below_len++] = '\xff';
        return;
    }
    memcpy(l->name, name, name_len);
    memcpy(l->below, name, name_len);
    l->name_len = name_len;
    l->below_len = name_len + 1;
}

static int waiters_are_kept(const sqlock *m, sqlock_error *err)
{
    if (texts_has(m->texts, SQLOCK_STMT_WAITERS, NULL) == 0)
        return 0;
    return sqlock_error_set(err, SQLOCK_EREFUSED, 0,
                            "list waiters: this database has no queue of waiters: each tries again "
                            "and again, and leaves no trace");
}

int sqlock_list_waiters(sqlock *m, const char *name, sqlock_waiter_fn fn, void *user,
                        sqlock_error *err)
{
    UNCANCELLED;
    struct listing l = {.m = m,
                        .verb = "list waiters",
                        .fetch = waiters_page,
                        .each = waiters_each,
                        .fn.waiter = fn,
                        .user = user};
    size_t name_len = 0;
    int rc;

    if ((rc = check_alive(m, err)) != 0 ||
        (name != NULL && (rc = check_name(name, &name_len, err)) != 0))
        return rc;
    if (fn == NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "list waiters: fn is NULL");
    if ((rc = waiters_are_kept(m, err)) != 0)
        return rc;
    waiters_bounds(&l, name, name_len);
    return listing_run(&l, err);
}

/* ---- breaking -------------------------------------------------------------------------------- */

/* What comes next. An older schema has no place for a note, and an older driver has no request for
 * it. They can break a lock all the same (P20). */
enum break_phase {
    BREAK_NOTED,
    BREAK_PLAIN,
    BREAK_NEXT,   /* who waits for the lock? */
    BREAK_NOTIFY, /* another client's waiter should look */
    BREAK_PROBE   /* does a guard still stand? */
};

static int64_t break_token(const sqlock_op *op)
{
    return *(const int64_t *)op->work;
}

static int break_next(sqlock_op *op, int64_t now)
{
    const sqlock_lock *lock = op->lock;

    (void)now;
    if (op->phase == BREAK_NEXT)
        return calling_send_look(op);
    if (op->phase == BREAK_NOTIFY)
        return calling_send(op);
    if (op->phase == BREAK_PROBE)
        return verb_send_probe(op, break_token(op));
    if (texts_has(op->m->texts, SQLOCK_STMT_BREAK_NOTED, NULL) != 0)
        op->phase = BREAK_PLAIN;
    return OP_SEND(op, op->phase == BREAK_NOTED ? SQLOCK_STMT_BREAK_NOTED : SQLOCK_STMT_BREAK,
                   value_bytes(lock->ns, lock->ns_len), value_bytes(lock->name, lock->name_len),
                   value_int(break_token(op)));
}

static void break_end(sqlock_op *op)
{
    if (verb_may_be_guarded(op))
        op->phase = BREAK_PROBE;
    else
        op_done(op, 0);
}

static void break_done(sqlock_op *op)
{
    op->succeeded = 1; /* whatever becomes of the call */
    if (calling_can(op))
        op->phase = BREAK_NEXT;
    else
        break_end(op);
}

/* There was no grant to break. After a lost reply we may have broken it ourselves: the row or the
 * note shows it. Only an older schema has no notes, and there a later grant may have ended
 * since. */
static void break_found_none(sqlock_op *op, const struct answer *a)
{
    long long token = break_token(op);

    if (op->unsure && a->outcome == SQLOCK_OUT_BROKEN)
        break_done(op);
    else if (op->unsure && (a->outcome == SQLOCK_OUT_TAKEN || a->outcome == SQLOCK_OUT_NONE))
        op_done(op, sqlock_error_set(&op->err, SQLOCK_EUNSURE, SQLOCK_MAYBE,
                                     "the reply was lost; the grant with token %lld has ended, by "
                                     "this request or otherwise",
                                     token));
    else
        op_done(op, sqlock_error_set(&op->err, SQLOCK_ELOST, 0, "no grant with token %lld", token));
}

static void break_answered(sqlock_op *op, const struct answer *a, int64_t now)
{
    if (op->phase == BREAK_PROBE) {
        verb_probed(op, a, "broken; no one else gets it until the transaction that guards it ends");
        return;
    }
    if (op->phase == BREAK_NEXT && calling_found(op, a, now)) {
        op->phase = BREAK_NOTIFY;
        return;
    }
    if (op->phase == BREAK_NEXT || op->phase == BREAK_NOTIFY) {
        break_end(op);
        return;
    }
    op->phase = BREAK_NOTED;
    if (a->outcome == SQLOCK_OUT_DONE)
        break_done(op);
    else if (a->outcome == SQLOCK_OUT_KIND)
        op_unknown_kind(op);
    else if (a->outcome == SQLOCK_OUT_SKIPPED)
        op_retry_at_once(op, now); /* the row changed while we looked */
    else
        break_found_none(op, a);
}

static void break_failed(sqlock_op *op, int64_t now)
{
    int noted = op->phase == BREAK_NOTED;

    if (op->phase == BREAK_PROBE) {
        op_done(op, 0);
        return;
    }
    if (op->phase == BREAK_NEXT || op->phase == BREAK_NOTIFY) {
        break_end(op);
        return;
    }
    op->phase = BREAK_NOTED;
    if (noted && op->err.code == SQLOCK_ESCHEMA) {
        /* MariaDB: the lock was broken, and then the table of notes was dropped before the same
         * packet read it. */
        if (op->err.flags & SQLOCK_MAYBE)
            op->unsure = 1;
        op->phase = BREAK_PLAIN;
        return;
    }
    op_failed(op, now);
}

const struct verb break_verb = {break_next, break_answered, break_failed, 0};

int sqlock_break(sqlock *m, const char *name, int64_t token, sqlock_error *err)
{
    UNCANCELLED;
    struct named_request request = {"break", name, &break_verb, &token, 1};
    size_t name_len;
    int rc;

    if ((rc = check_alive(m, err)) != 0 || (rc = check_name(name, &name_len, err)) != 0 ||
        (rc = check_token(token, err)) != 0)
        return rc;
    return named_request(m, &request, err);
}
