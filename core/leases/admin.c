/* Lists locks, their seats, and who waits for them. */
#include <string.h>

#include <sqlock/admin.h>

#include "core/engine/arguments.h"
#include "core/engine/errand.h"
#include "core/engine/locks.h"
#include "core/leases/calling.h"
#include "core/leases/leases.h"
#include "core/model/actor.h"
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
    out->slot = out->name != NULL ? lock_seat_of(out->name, &out->name_len) : -1;
    out->mode = rows_int(rows, row, SQLOCK_COL_BESIDE, SQLOCK_EXCLUSIVE);
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
    const char *verb; /* for errors; NULL: the caller names it */
    int (*fetch)(struct listing *l, sqlock_rows *rows, sqlock_error *err);
    int (*each)(struct listing *l, const sqlock_info *info); /* calls the user's function */
    union {
        sqlock_list_fn lock;
        sqlock_waiter_fn waiter;
    } fn;
    void *user;
    char name[SQLOCK_NAME_MAX + LOCK_SEAT_SIZE]; /* key of the last row: the next page begins
                                                    behind it */
    size_t name_len;
    int64_t ticket, place; /* the same, of a waiter */
    sqlock_list_opts o;
    char below[SQLOCK_NAME_MAX + 1]; /* of waiters: names smaller than this */
    size_t below_len;
};

static int listing_send(sqlock *m, sqlock_stmt stmt, const sqlock_value *values, int64_t until,
                        sqlock_rows *rows, sqlock_error *err)
{
    struct errand e = {.use = POOL_CALLS,
                       .stmt = stmt,
                       .values = values,
                       .n = 1,
                       .deadline = time_min(sqlock_now_us() + m->request_us, until),
                       .rows = rows};

    if (errand_run(m, &e) == 0)
        return 0;
    error_contention(&e.err.code, e.err.sqlstate, manager_has_one_writer(m));
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
    rows_bytes(rows, row, SQLOCK_COL_NAME, &l->name_len);
    memcpy(l->name, info.name, l->name_len);
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
    if (rc != 0 && l->verb != NULL)
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

    return listing_send(m, SQLOCK_STMT_LIST, values, TIME_NEVER, rows, err);
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
            if (info.slot < 0 && info.name_len == name_len &&
                memcmp(info.name, name, name_len) == 0)
                rc = 0;
        }
    }
    if (rc == 0) {
        info.name = name;
        *out = info;
    }
    rows_free(rows);
    return rc;
}

/* ---- who has a seat -------------------------------------------------------------------------- */

struct seats_look {
    int64_t until;
    int64_t token, seat; /* which one has this token */
    int64_t running;     /* how many leases run */
};

/* The keys of a name's seats begin with it and a NUL. */
static int seats_page(struct listing *l, sqlock_rows *rows, sqlock_error *err)
{
    const struct seats_look *look = l->user;
    sqlock_value values[] = {
        value_bytes(l->m->ns, l->m->ns_len),
        value_bytes(l->name, l->name_len),
        value_bytes(l->below, l->below_len),
        value_int(0),
        value_int(PAGE),
    };

    return listing_send(l->m, SQLOCK_STMT_LIST, values, look->until, rows, err);
}

static int seats_each(struct listing *l, const sqlock_info *info)
{
    struct seats_look *look = l->user;

    look->running += info->holder.left_ms > 0;
    if (info->holder.token != look->token)
        return 0;
    look->seat = info->slot;
    return 1;
}

static int seats_look(sqlock *m, const char *name, const char *verb, struct seats_look *look,
                      sqlock_error *err)
{
    struct listing l = {
        .m = m, .verb = verb, .fetch = seats_page, .each = seats_each, .user = look};

    l.name_len = l.below_len = strlen(name) + 1;
    memcpy(l.name, name, l.name_len);
    memcpy(l.below, name, l.below_len);
    return listing_run(&l, err);
}

int named_seat(sqlock *m, const char *name, int64_t token, int64_t until, int64_t *out_seat,
               sqlock_error *err)
{
    struct seats_look look = {.until = until, .token = token, .seat = -1};
    int rc = seats_look(m, name, "break", &look, err);

    *out_seat = look.seat;
    return rc < 0 ? rc : 0;
}

static int find_holders(sqlock *m, const char *name, sqlock_info *info, sqlock_error *err)
{
    struct seats_look look = {.until = TIME_NEVER, .token = -1};
    int rc = 0;

    if (info->held)
        info->holders = info->holder.left_ms > 0;
    else if (info->mode != SQLOCK_EXCLUSIVE) {
        rc = seats_look(m, name, NULL, &look, err);
        info->holders = look.running;
    }
    return rc;
}

int sqlock_find(sqlock *m, const char *name, sqlock_info *out, sqlock_error *err)
{
    UNCANCELLED;
    sqlock_info info;
    size_t name_len = 0;
    int rc;

    if (out == NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "find: out is NULL");
    if ((rc = check_alive(m, err)) == 0 && (rc = check_name(name, &name_len, err)) == 0 &&
        (rc = check_size(out->size, "the size of out is not set", err)) == 0)
        rc = list_find_row(m, name, name_len, &info, err);
    if (rc == 0 && (rc = find_holders(m, name, &info, err)) == 0) {
        info.size = out->size;
        memcpy(out, &info, out->size < sizeof info ? out->size : sizeof info);
    }
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

    return listing_send(m, SQLOCK_STMT_WAITERS, values, TIME_NEVER, rows, err);
}

static int waiters_each(struct listing *l, const sqlock_info *info)
{
    sqlock_waiter w = {.size = sizeof w, .name = info->name, .name_len = info->name_len};

    if (info->name_len != l->name_len || memcmp(info->name, l->name, l->name_len) != 0)
        l->place = 0;
    l->ticket = info->holder.token;
    w.place = l->ticket > 0 ? ++l->place : 0;
    w.waited_ms = info->holder.held_ms;
    w.mode = info->mode;
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

int sqlock_same_actor(const unsigned char *a, const unsigned char *b)
{
    return a != NULL && b != NULL && actor_same(a, b);
}
