/* sqlock acquire: a lock for a script, which releases it by owner and token. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sqlock/import.h>

#include "cli/base/connect.h"
#include "cli/base/file.h"
#include "cli/base/grant.h"
#include "cli/base/look.h"
#include "cli/base/nested.h"
#include "cli/base/output.h"
#include "cli/base/say.h"
#include "cli/base/shown.h"
#include "cli/base/signals.h"
#include "cli/base/text.h"
#include "cli/cli.h"

enum { OWNER = GRANT_LAST };

static const struct option_spec options[] = {
    GRANT_KINDS,
    GRANT_OPTIONS,
    {OWNER, "owner", "OWNER", "settle an acquire that exited with 79 (unknown)"},
    {0, NULL, NULL, NULL},
};

struct acquire {
    struct grant_opts grant;
    unsigned char owner[SQLOCK_OWNER_SIZE];
    bool has_owner;
    const char *name;
};

static int read_options(struct cli *cli, int argc, char **argv, struct acquire *a)
{
    struct options o;
    int key;

    options_begin(&o, cli, options, OPTIONS_ANYWHERE, argc, argv);
    while ((key = options_next(&o)) >= 0)
        if (key == OWNER) {
            if (!(a->has_owner = text_owner_read(o.value, a->owner)))
                return options_refuse(cli, "invalid --owner (use 32 hexadecimal digits)");
        } else {
            grant_option(&o, key, &a->grant);
        }
    if (key == OPTIONS_WRONG)
        return EXIT_USAGE;
    if (o.n != 1)
        return options_refuse(cli, "acquire needs one NAME");
    if (a->has_owner && a->grant.mode != SQLOCK_EXCLUSIVE)
        return options_refuse(cli, "--owner is for exclusive locks only");
    if (a->has_owner && a->grant.actor != NULL)
        return options_refuse(cli, "use only one of --owner and --actor");
    a->name = o.operands[0];
    return 0;
}

/* Print what release and renew take. Without a token the outcome is unknown. */
static int print_grant(const struct cli *cli, sqlock_lock *lock, int unsure)
{
    const char *name = sqlock_lock_name(lock);
    const int64_t slot = sqlock_lock_slot(lock);
    char owner[TEXT_OWNER];

    text_owner(owner, sqlock_lock_owner(lock));
    if (cli->json)
        return output_json(json_pack(
            "{s:o, s:s, s:o, s:o, s:I}", "name", json_text(name, strlen(name)), "owner", owner,
            "token", unsure ? json_null() : json_integer(sqlock_lock_token(lock)), "slot",
            slot < 0 ? json_null() : json_integer(slot), "left_ms",
            unsure ? (json_int_t)0 : (sqlock_lock_deadline_us(lock) - sqlock_now_us()) / 1000));
    if (unsure)
        printf("%s\n", owner);
    else if (slot < 0)
        printf("%s %lld\n", owner, (long long)sqlock_lock_token(lock));
    else
        printf("%s %lld %lld\n", owner, (long long)sqlock_lock_token(lock), (long long)slot);
    return output_end();
}

/* Without the printed owner and token no one could release the lock: so give it back. */
static int acquire_granted(const struct cli *cli, sqlock_lock *lock)
{
    sqlock_error err = {0};
    int rc = print_grant(cli, lock, 0);

    if (rc != 0 && sqlock_release(lock, &err) != 0)
        fail_with(err.code, &err);
    return rc;
}

/* No one knows whether it was granted. An exclusive one can be settled by its owner. Any other is
 * given back, or its lease runs out. */
static int acquire_unsure(const struct cli *cli, const struct acquire *a, sqlock_lock **lock,
                          int rc)
{
    int unprinted = 0;

    if (*lock != NULL && a->grant.mode == SQLOCK_EXCLUSIVE)
        unprinted = print_grant(cli, *lock, 1);
    else
        sqlock_scope_end(lock);
    return unprinted != 0 ? unprinted : rc;
}

static int acquire_take(const struct cli *cli, sqlock *m, const struct acquire *a,
                        struct signals *signals)
{
    sqlock_acquire_opts opts = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_holder holder = {.size = sizeof holder};
    sqlock_lock *lock = NULL;
    sqlock_error err = {0};
    int rc, caught;

    opts.wait_ms = a->grant.wait_ms;
    opts.lease_ms = a->grant.lease_ms;
    opts.flags = SQLOCK_NO_RENEW;
    opts.mode = a->grant.mode;
    opts.actor = a->grant.actor;
    opts.holder = &holder;
    opts.owner = a->has_owner ? a->owner : NULL;
    rc = grant_take(m, a->name, &opts, signals, -1, &lock, &caught, &err);
    if (rc == 0)
        rc = acquire_granted(cli, lock);
    else if (caught != 0)
        rc = EXIT_SIGNAL + caught;
    else if (rc == SQLOCK_EBUSY || rc == SQLOCK_EGUARDED) {
        if ((rc = nested_busy(&a->grant)) == 0) {
            grant_say_busy(cli, a->name, &holder, &err);
            rc = EXIT_BUSY;
        }
    } else {
        rc = fail_with(rc, &err);
        if (rc == EXIT_UNSURE)
            rc = acquire_unsure(cli, a, &lock, rc);
    }
    sqlock_lock_free(lock);
    return rc;
}

/* The script holds the lock: it goes on, while this process ends. Add the script's name if the
 * label has room for it, because a pid alone, which may be a shell's, says little to others. The
 * kernel cuts names at COMM_MAX bytes, also within a character. */
enum { COMM_MAX = 15 };

static void name_script(pid_t script, char *label, size_t size)
{
    char path[64], *name;
    size_t used = strlen(label);

    snprintf(path, sizeof path, "/proc/%d/comm", (int)script);
    if ((name = file_text(path)) == NULL)
        return;
    name[strcspn(name, "\n")] = '\0';
    if (strlen(name) == COMM_MAX)
        name[shown_whole(name, COMM_MAX)] = '\0';
    shown_mend(name);
    if (used + strlen(" script=") + strlen(name) < size)
        snprintf(label + used, size - used, "%sscript=%s", used > 0 ? " " : "", name);
    free(name);
}

static int acquire_run(struct cli *cli, int argc, char **argv)
{
    struct acquire a = {.grant = GRANT_OPTS_INIT};
    struct signals signals;
    pid_t script = getppid();
    sqlock *m = NULL;
    int rc;

    if ((rc = read_options(cli, argc, argv, &a)) != 0)
        return rc;
    name_script(script, a.grant.label, GRANT_LABEL);
    if ((rc = database_open_for(cli, script, a.grant.label, &m)) != 0)
        return rc;
    if (a.grant.wait_ms != 0 && (rc = nested_look(m, a.name, a.grant.mode, &a.grant)) != 0) {
        sqlock_close(m);
        return rc;
    }
    if (signals_take(&signals)) {
        rc = acquire_take(cli, m, &a, &signals);
    } else {
        say(SAY_ERROR, "no file descriptor available");
        rc = EXIT_INTERNAL;
    }
    look_close(m, false);
    return rc;
}

const struct command command_acquire = {
    .name = "acquire",
    .synopsis =
        "[-n | -w DUR] [-s | --slots N] [--ttl DUR] [--grace DUR] [-m K=V]... [--actor TEXT] "
        "[--owner OWNER] NAME",
    .summary = "take a lock and print its owner and token",
    .help = "The lock is held until 'sqlock release NAME OWNER TOKEN', or until the lease\n"
            "ends; 'sqlock renew' extends it. For a single command, 'sqlock run' is safer.\n"
            "With -s and --slots it prints a third word, SLOT, that both take behind TOKEN.\n"
            "Others see the process that called this command, the script, as the holder.\n",
    .options = options,
    .run = acquire_run,
};
