#include <sqlock/admin.h>

#include "cli/base/nested.h"

#include <stdlib.h>
#include <string.h>

#include "cli/base/grant.h"
#include "cli/base/say.h"
#include "cli/base/text.h"
#include "cli/cli.h"

/* Enough for a waiter that gives up, or has died. */
enum { NESTED_WAIT_MS = 1000 };

/* What the outer runs hold of it. */
struct nest {
    const char *outer, *name;
    int64_t seats; /* shared ones, and slots */
    bool alone;
};

/* Its own row, and those of its seats. */
static int nest_each(const sqlock_info *info, void *user)
{
    struct nest *n = user;
    char owner[TEXT_OWNER];

    if (strcmp(info->name, n->name) != 0)
        return 1;
    if (info->holder.left_ms <= 0 || strstr(n->outer, text_owner(owner, info->owner)) == NULL)
        return 0;
    if (info->slot < 0)
        n->alone = true;
    else
        n->seats++;
    return 0;
}

int nested_look(sqlock *m, const char *name, int64_t mode, struct grant_opts *g)
{
    struct nest n = {getenv("SQLOCK_OUTER"), name, 0, false};
    sqlock_list_opts opts = SQLOCK_LIST_OPTS_INIT;

    opts.prefix = name;
    if (n.outer == NULL || sqlock_list(m, &opts, nest_each, &n, NULL) < 0 ||
        (!n.alone && n.seats == 0))
        return 0;
    if (n.alone || (mode != SQLOCK_SHARED && n.seats >= mode)) {
        say(SAY_ERROR, "%s is held by an outer 'sqlock run': this one would wait for ever", name);
        return EXIT_USAGE;
    }
    if (mode != SQLOCK_SHARED)
        return 0; /* others have slots, and end by themselves */
    if (g->wait_ms < 0 || g->wait_ms > NESTED_WAIT_MS) {
        g->wait_ms = NESTED_WAIT_MS;
        g->nested = name;
    }
    return 0;
}

int nested_busy(const struct grant_opts *g)
{
    if (g->nested == NULL)
        return 0;
    say(SAY_ERROR,
        "%s is held by an outer 'sqlock run', and others wait for its end: this one would wait for "
        "them",
        g->nested);
    return EXIT_USAGE;
}
