#include "tests/lib/row.h"

#include <string.h>

#include "tests/lib/check.h"

struct finder {
    const char *name;
    struct row row;
};

static int find(const sqlock_info *info, void *user)
{
    struct finder *f = user;

    if (strcmp(info->name, f->name) != 0)
        return 0;
    f->row.n += info->slot < 0; /* a seat is a row beside it */
    if (info->slot >= 0 && !info->held)
        return 0;
    f->row.held = info->held;
    f->row.token = info->holder.token;
    f->row.left_ms = info->holder.left_ms;
    memcpy(f->row.owner, info->owner, sizeof f->row.owner);
    return 0;
}

struct row row_of(sqlock *m, const char *name)
{
    sqlock_list_opts opts = SQLOCK_LIST_OPTS_INIT;
    struct finder f = {.name = name};
    sqlock_error err;

    opts.flags = SQLOCK_LIST_FREE;
    opts.prefix = name;
    assert_ok(sqlock_list(m, &opts, find, &f, &err), &err);
    return f.row;
}
