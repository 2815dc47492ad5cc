/* sqlock ls: the locks of a namespace, and who waits for them. */
#include <fnmatch.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sqlock/admin.h>

#include "cli/base/connect.h"
#include "cli/base/info.h"
#include "cli/base/output.h"
#include "cli/base/say.h"
#include "cli/base/shown.h"
#include "cli/base/text.h"
#include "cli/cli.h"

enum { HELD = OPTION_LONG, WAITING, EXPIRED, OLDER_THAN, WATCH };

static const struct option_spec options[] = {
    {HELD, "held", NULL, "only locks that are held"},
    {EXPIRED, "expired", NULL, "only locks whose lease has ended"},
    {WAITING, "waiting", NULL, "who waits, in place of the locks"},
    {OLDER_THAN, "older-than", "DUR", "only what was granted, or waits, since that long ago"},
    {WATCH, "watch", "[DUR]", "repeat, every 2s by default; as text, with who waits"},
    {0, NULL, NULL, NULL},
};

struct ls {
    const struct cli *cli;
    bool held, expired, waiting;
    int32_t older_than_ms;
    int32_t watch_ms; /* 0: once */
    const char *glob;
    char prefix[SQLOCK_NAME_MAX + 1]; /* what all matching names begin with */
    FILE *json;    /* rows as text: a tree of many locks would take much memory */
    bool has_head; /* of the table; a list that fails prints none */
    bool may_pass; /* what went wrong last */
};

/* A glob may be longer than all names. */
static void find_prefix(struct ls *ls)
{
    size_t len = strcspn(ls->glob, "*?[\\");

    if (len > SQLOCK_NAME_MAX)
        len = shown_whole(ls->glob, SQLOCK_NAME_MAX);
    memcpy(ls->prefix, ls->glob, len);
    ls->prefix[len] = '\0';
}

static int read_options(struct cli *cli, int argc, char **argv, struct ls *ls)
{
    bool by_default = false;
    struct options o;
    int64_t pause;
    int key;

    options_begin(&o, cli, options, OPTIONS_ANYWHERE, argc, argv);
    while ((key = options_next(&o)) >= 0) {
        if (key == HELD)
            ls->held = true;
        else if (key == EXPIRED)
            ls->expired = true;
        else if (key == WAITING)
            ls->waiting = true;
        else if (key == OLDER_THAN)
            options_duration(&o, &ls->older_than_ms);
        else if ((by_default = o.value == NULL))
            ls->watch_ms = 2000;
        else if (options_duration(&o, &ls->watch_ms) && ls->watch_ms < 100)
            return options_refuse(cli, "--watch must be at least 100ms");
    }
    if (key == OPTIONS_WRONG)
        return EXIT_USAGE;
    if (ls->held && ls->expired)
        return options_refuse(cli, "use only one of --held and --expired");
    if (ls->waiting && (ls->held || ls->expired))
        return options_refuse(cli, "--waiting lists no locks (leave out --held and --expired)");
    if (o.n > 1)
        return options_refuse(cli, "at most one GLOB (quote it, or the shell expands it)");
    if ((ls->glob = o.operands[0]) != NULL)
        find_prefix(ls);
    if (by_default && ls->glob != NULL && text_duration(ls->glob, &pause))
        return options_refuse(cli, "write --watch=%s (or --watch=2s %s, if a lock has that name)",
                              ls->glob, ls->glob);
    return 0;
}

static bool is_named(const struct ls *ls, const char *name)
{
    return ls->glob == NULL || fnmatch(ls->glob, name, 0) == 0;
}

static bool is_wanted(const struct ls *ls, const sqlock_info *info)
{
    bool runs = info->holder.left_ms > 0;

    if ((ls->held || ls->expired) && !(runs ? ls->held : ls->expired))
        return false;
    if (info->holder.held_ms < ls->older_than_ms)
        return false;
    return is_named(ls, info->name);
}

static void print_head(struct ls *ls)
{
    if (!ls->has_head)
        printf("%-24s %16s  %-7s %8s %8s  %s\n", "NAME", "TOKEN", "STATE", "HELD", "LEFT",
               "HOLDER");
    ls->has_head = true;
}

/* An expired lock is no longer held: print how long it was held, and how long ago it expired. */
static void print_row(const sqlock_info *info)
{
    char held[TEXT_DURATION], span[TEXT_DURATION], left[TEXT_DURATION + 1], seat[INFO_SEAT];
    int64_t left_ms = info->holder.left_ms, held_ms = info->holder.held_ms;
    char *name = shown_cell(info->name, info->name_len, 24), *holder = info_holder(info);
    const char *state = info_state(info);

    text_span(held, left_ms < 0 ? held_ms + left_ms : held_ms);
    text_span(span, left_ms < 0 ? -left_ms : left_ms);
    snprintf(left, sizeof left, "%s%s", left_ms < 0 ? "-" : "", span);
    if (info->slot >= 0 && left_ms > 0)
        state = info_seat(info, seat, sizeof seat);
    if (name != NULL && holder != NULL)
        printf("%s %16lld  %-7s %8s %8s  %s\n", name, (long long)info->holder.token, state, held,
               left, holder);
    free(name);
    free(holder);
}

static int add_row(struct ls *ls, json_t *row)
{
    int failed;

    fputc(ftell(ls->json) == 0 ? '[' : ',', ls->json);
    failed = json_dumpf(row, ls->json, JSON_COMPACT);
    json_decref(row);
    return failed;
}

static int ls_each(const sqlock_info *info, void *user)
{
    struct ls *ls = user;

    if (!is_wanted(ls, info))
        return 0;
    if (ls->cli->json)
        return add_row(ls, info_json(info));
    print_head(ls);
    print_row(info);
    return ferror(stdout);
}

/* A server that is started anew ends no watch. The message stands behind what is listed. */
static int ls_failed(struct ls *ls, int rc, const sqlock_error *err)
{
    ls->may_pass = !setup_is_wrong(rc, err) &&
                   (rc == SQLOCK_EUNREACH || (err->flags & (SQLOCK_RETRY | SQLOCK_RECONNECT)));
    fflush(stdout);
    return fail_with(rc, err);
}

static int ls_locks(struct ls *ls, sqlock *m)
{
    sqlock_list_opts opts = SQLOCK_LIST_OPTS_INIT;
    sqlock_error err = {0};
    int rc;

    opts.prefix = ls->prefix;
    rc = sqlock_list(m, &opts, ls_each, ls, &err);
    return rc < 0 && err.code == rc ? ls_failed(ls, rc, &err) : 0;
}

/* ---- who waits ------------------------------------------------------------------------------- */

static void print_waiters_head(struct ls *ls)
{
    if (!ls->has_head)
        printf("%-24s %5s  %8s  %-10s  %s\n", "NAME", "PLACE", "WAITED", "FOR", "WAITER");
    ls->has_head = true;
}

static int print_waiter(const sqlock_waiter *waiter)
{
    char waited[TEXT_DURATION], wants[INFO_SEAT];
    char *name = shown_cell(waiter->name, waiter->name_len, 24), *label = waiter_label(waiter);

    if (name != NULL && label != NULL)
        printf("%s %5lld  %8s  %-10s  %s\n", name, (long long)waiter->place,
               text_span(waited, waiter->waited_ms), waiter_wants(waiter, wants, sizeof wants),
               label);
    free(name);
    free(label);
    return ferror(stdout);
}

static int waiters_each(const sqlock_waiter *waiter, void *user)
{
    struct ls *ls = user;

    if (waiter->waited_ms < ls->older_than_ms || !is_named(ls, waiter->name))
        return 0;
    if (ls->cli->json)
        return add_row(ls, waiter_json(waiter));
    if (!ls->waiting && !ls->has_head)
        putchar('\n'); /* behind the locks */
    print_waiters_head(ls);
    return print_waiter(waiter);
}

/* Without --waiting, who may not see them, or has no queue, sees the locks only. */
static int ls_waiters(struct ls *ls, sqlock *m)
{
    bool one = *ls->prefix != '\0' && strcmp(ls->glob, ls->prefix) == 0;
    sqlock_error err = {0};
    int rc = sqlock_list_waiters(m, one ? ls->glob : NULL, waiters_each, ls, &err);

    if (rc >= 0 || err.code != rc ||
        (!ls->waiting && (rc == SQLOCK_EREFUSED || rc == SQLOCK_EDENIED)))
        return 0;
    return ls_failed(ls, rc, &err);
}

/* ---- once, or again and again ---------------------------------------------------------------- */

static int ls_list(struct ls *ls, sqlock *m)
{
    return ls->waiting ? ls_waiters(ls, m) : ls_locks(ls, m);
}

static int ls_words(struct ls *ls, sqlock *m)
{
    bool both = ls->watch_ms > 0 && !ls->waiting && !ls->held && !ls->expired;
    int rc;

    ls->has_head = false;
    if ((rc = ls_list(ls, m)) != 0)
        return rc;
    if (ls->waiting)
        print_waiters_head(ls);
    else
        print_head(ls);
    ls->has_head = false;
    if (both && (rc = ls_waiters(ls, m)) != 0)
        return rc;
    return output_end();
}

/* Whole or not at all. */
static int ls_json(struct ls *ls, sqlock *m)
{
    char *text = NULL;
    size_t len = 0;
    int rc, failed;

    if ((ls->json = open_memstream(&text, &len)) == NULL) {
        say(SAY_ERROR, "out of memory");
        return EXIT_INTERNAL;
    }
    rc = ls_list(ls, m);
    if (ftell(ls->json) == 0)
        fputc('[', ls->json);
    fputs("]\n", ls->json);
    failed = ferror(ls->json);
    if (fclose(ls->json) != 0 || failed) {
        say(SAY_ERROR, "out of memory");
        rc = EXIT_INTERNAL;
    }
    if (rc == 0) {
        fwrite(text, 1, len, stdout);
        rc = output_end();
    }
    free(text);
    return rc;
}

/* Until a signal ends the process, no one reads the output, or there is an error that stays. */
static int ls_watch(struct ls *ls, sqlock *m)
{
    bool screen = ls->watch_ms > 0 && !ls->cli->json && isatty(STDOUT_FILENO);
    int rc;

    for (;;) {
        if (screen)
            fputs("\033[H\033[2J", stdout);
        ls->may_pass = false;
        rc = ls->cli->json ? ls_json(ls, m) : ls_words(ls, m);
        if (ls->watch_ms == 0 || (rc != 0 && !ls->may_pass))
            return rc;
        if (rc == 0 && !screen && !ls->cli->json)
            putchar('\n');
        poll(NULL, 0, ls->watch_ms);
    }
}

static int ls_run(struct cli *cli, int argc, char **argv)
{
    struct ls ls = {.cli = cli};
    sqlock *m = NULL;
    int rc;

    if ((rc = read_options(cli, argc, argv, &ls)) != 0 || (rc = database_open(cli, NULL, &m)) != 0)
        return rc;
    rc = ls_watch(&ls, m);
    sqlock_close(m);
    return rc;
}

const struct command command_ls = {
    .name = "ls",
    .synopsis = "[--held|--expired|--waiting] [--older-than DUR] [--watch[=DUR]] [GLOB]",
    .summary = "list locks that are held or expired, or who waits",
    .help = "Sorted by name. Read page by page, so the list is not a snapshot of one moment.\n"
            "GLOB is a pattern as in a shell. An expired lock is free to take: HELD shows\n"
            "how long it was held, and LEFT -3m means that its lease ended 3m ago.\n"
            "With --watch, a database that is away for a while is reported, and looked at\n"
            "again.\n",
    .options = options,
    .run = ls_run,
};
