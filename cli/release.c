/* sqlock release: give back a lock that acquire took. */
#include <stdio.h>

#include "cli/base/connect.h"
#include "cli/base/grant.h"
#include "cli/cli.h"

static const struct option_spec options[] = {{0, NULL, NULL, NULL}};

static int release_grant(sqlock *m, const struct grant_id *id)
{
    sqlock_lock *lock = NULL;
    sqlock_error err = {0};
    int rc = grant_import(m, id, 0, &lock);

    if (rc == 0 && (rc = sqlock_release(lock, &err)) != 0)
        rc = rc == SQLOCK_EGUARDED && sqlock_lock_state(lock) == SQLOCK_RELEASED
                 ? 0
                 : grant_failed(m, "release", id, lock, rc, &err);
    sqlock_lock_free(lock);
    return rc;
}

static int release_run(struct cli *cli, int argc, char **argv)
{
    struct grant_id id;
    struct options o;
    sqlock *m = NULL;
    int rc;

    options_begin(&o, cli, options, OPTIONS_ANYWHERE, argc, argv);
    if (options_next(&o) != OPTIONS_END)
        return EXIT_USAGE;
    if ((rc = grant_read(cli, o.n, o.operands, &id)) != 0 ||
        (rc = database_open(cli, NULL, &m)) != 0)
        return rc;
    rc = release_grant(m, &id);
    sqlock_close(m);
    return rc;
}

const struct command command_release = {
    .name = "release",
    .synopsis = "NAME OWNER TOKEN [SLOT]",
    .summary = "give back an acquired lock",
    .help = "Exits with 0 also if it was already released. Exits with 1, and changes\n"
            "nothing, if that grant was lost. SLOT is what acquire printed behind TOKEN.\n",
    .options = options,
    .run = release_run,
};
