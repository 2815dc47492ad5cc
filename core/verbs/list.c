/* Listing locks, a page at a time. */
#include <string.h>

#include "core/engine/call.h"
#include "core/engine/hosts.h"
#include "core/engine/pool.h"
#include "core/verbs/check.h"

#define PAGE 500

static void read_info(const sqlock_rows *rows, size_t row, sqlock_info *out)
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

static int fetch(sqlock *m, const char *after, size_t after_len, const sqlock_list_opts *o,
                 sqlock_rows *rows, sqlock_error *err)
{
    int64_t deadline = sqlock_now_us() + m->request_us;
    const char *prefix = o->prefix != NULL ? o->prefix : "";
    sqlock_value values[] = {
        value_bytes(m->ns, m->ns_len),
        value_bytes(after, after_len),
        value_bytes(prefix, strlen(prefix)),
        value_int((o->flags & SQLOCK_LIST_FREE) != 0),
        value_int(PAGE),
    };
    struct conn *c;
    sqlock_error failure = {0};
    int64_t sent = sqlock_now_us();
    int rc, stale;

    for (int tries = 0;; tries++) {
        stale = 0;
        if ((rc = pool_take(m, POOL_CALLS, NULL, deadline, &c, &failure)) == 0) {
            stale = c->used;
            rc = call_rows(m, c, NULL, SQLOCK_STMT_LIST, values, 1, hosts_room(m, deadline), rows,
                           &sent, &failure);
            if (rc != 0)
                hosts_failed(m, c, sent, &failure);
            pool_give(m, c, rc != 0 && (failure.flags & SQLOCK_RECONNECT));
        }
        if (rc == 0 || !(failure.flags & (SQLOCK_RETRY | SQLOCK_RECONNECT)) ||
            (tries > 0 && !stale) || sqlock_now_us() >= deadline)
            break; /* connections that had died in the pool are opened again */
    }
    failure.flags &= ~SQLOCK_MAYBE;
    if (rc == 0)
        return 0;
    error_contention(&failure);
    return error_give(err, &failure);
}

int sqlock_list(sqlock *m, const sqlock_list_opts *opts, sqlock_list_fn fn, void *user,
                sqlock_error *err)
{
    UNCANCELLED;
    sqlock_list_opts o;
    sqlock_rows *rows;
    sqlock_info info;
    char after[SQLOCK_NAME_MAX] = "";
    size_t after_len = 0, n = PAGE;
    int rc;

    if ((rc = check_alive(m, err)) != 0 || (rc = check_list_opts(opts, &o, err)) != 0)
        return rc;
    if (fn == NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "list: fn is NULL");
    if ((rows = rows_new()) == NULL)
        return error_nomem(err);
    while (rc == 0 && n == PAGE) {
        if ((rc = fetch(m, after, after_len, &o, rows, err)) != 0) {
            error_prefix(err, "list");
            break;
        }
        n = sqlock_rows_count(rows);
        for (size_t i = 0; rc == 0 && i < n; i++) {
            read_info(rows, i, &info);
            rc = fn(&info, user);
            after_len = info.name_len;
            memcpy(after, info.name, after_len);
        }
    }
    rows_free(rows);
    return rc;
}
