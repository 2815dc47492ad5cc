/* sqlock renew: extend a lock that acquire took. */
#include <stdio.h>

#include "cli/base/connect.h"
#include "cli/base/grant.h"
#include "cli/base/say.h"
#include "cli/cli.h"

enum { TTL = OPTION_LONG };

static const struct option_spec options[] = {
    {TTL, "ttl", "DUR", "length of the lease from now on; default: 30s"},
    {0, NULL, NULL, NULL},
};

static int renew_grant(sqlock *m, const struct grant_id *id, int32_t lease_ms)
{
    sqlock_lock *lock = NULL;
    sqlock_error err = {0};
    int rc = grant_import(m, id, lease_ms, &lock);

    if (rc == 0 && (rc = sqlock_settle(lock, 5000, &err)) != 0)
        rc = grant_failed(m, "renew", id, lock, rc, &err);
    sqlock_lock_free(lock);
    return rc;
}

static int renew_run(struct cli *cli, int argc, char **argv)
{
    struct grant_id id;
    struct options o;
    int32_t lease_ms = 0;
    sqlock *m = NULL;
    int rc, key;

    options_begin(&o, cli, options, OPTIONS_ANYWHERE, argc, argv);
    while ((key = options_next(&o)) >= 0)
        grant_ttl(&o, &lease_ms);
    if (key == OPTIONS_WRONG)
        return EXIT_USAGE;
    if ((rc = grant_read(cli, o.n, o.operands, &id)) != 0 ||
        (rc = database_open(cli, NULL, &m)) != 0)
        return rc;
    rc = renew_grant(m, &id, lease_ms);
    sqlock_close(m);
    return rc;
}

const struct command command_renew = {
    .name = "renew",
    .synopsis = "[--ttl DUR] NAME OWNER TOKEN [SLOT]",
    .summary = "extend the lease of an acquired lock",
    .help = "Exits with 1, and changes nothing, if that grant no longer exists.\n",
    .options = options,
    .run = renew_run,
};
