/* sqlock run: run a command while holding a lock. sqlock once: the same, once per period. */
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/base/grant.h"
#include "cli/base/say.h"
#include "cli/base/url.h"
#include "cli/cli.h"
#include "cli/run/plan.h"
#include "cli/run/tree.h"
#include "cli/run/waker.h"

enum { MAX_TIME = GRANT_LAST, ON_LOST, STATUS_FD, AT_LEAST, KEEP_URL, EVERY, AGAIN };

#define RUN_OPTIONS                                                                                \
    GRANT_OPTIONS, {'E', NULL, "CODE", "exit with this code if the lock is busy; default: 75"},    \
        {AT_LEAST, "at-least", "DUR", "hold the lock this long even if CMD ends earlier"},         \
        {MAX_TIME, "max-time", "DUR", "stop CMD after this time, and exit with 124"},              \
        {'k', NULL, "DUR", "time between TERM and KILL; default: 5s"},                             \
        {ON_LOST, "on-lost", "HOW", "term, kill, or warn and let CMD go on; default: term"},       \
        {STATUS_FD, "status-fd", "N", "write one line of JSON about the outcome there"},           \
        {KEEP_URL, "keep-url", NULL, "pass SQLOCK_URL to CMD even if it has a password"},          \
        {'c', NULL, NULL, "CMD is one quoted line, run by sh"},                                    \
    {                                                                                              \
        0, NULL, NULL, NULL                                                                        \
    }

static const struct option_spec options[] = {
    GRANT_KINDS,
    {'l', NULL, "NAME", "in place of NAME, for several locks: all or none"},
    RUN_OPTIONS};
static const struct option_spec once_options[] = {
    GRANT_KINDS_LATER,
    {'l', NULL, "NAME", NULL},
    {EVERY, "every", "DUR", "length of a period, such as 1h or 1d"},
    {AGAIN, "again", NULL, "run it even if this period's run is done"},
    RUN_OPTIONS};

/* ---- options --------------------------------------------------------------------------------- */

static bool read_on_lost(struct options *o, struct plan *plan)
{
    static const char *const words[] = {"term", "kill", "warn"};

    for (int i = 0; i < 3; i++)
        if (strcmp(o->value, words[i]) == 0) {
            plan->on_lost = (enum on_lost)i;
            return true;
        }
    options_refuse(o->cli, "invalid --on-lost \"%s\" (use term, kill or warn)", o->value);
    return false;
}

/* Copy the descriptor: 0 and 1 are replaced later. */
static bool read_status_fd(struct options *o, struct plan *plan)
{
    int64_t fd;

    if (!options_number(o, 0, 1 << 20, &fd))
        return false;
    plan->status_fd_given = (int)fd;
    if ((plan->status_fd = fcntl((int)fd, F_DUPFD_CLOEXEC, 3)) >= 0)
        return true;
    options_refuse(o->cli, "--status-fd %s: this file descriptor is not open", o->value);
    return false;
}

static bool add_name(struct plan *plan, const char *text)
{
    struct plan_name *name = &plan->names[plan->n_names];

    *name = (struct plan_name){strdup(text), plan->grant.mode};
    if (name->text == NULL)
        return false;
    plan->n_names++;
    return true;
}

/* A mode is that of the names behind it. */
static bool take_name(struct options *o, struct plan *plan)
{
    if (o->n > 0) {
        options_refuse(o->cli, "give each name by -l, or one NAME");
        return false;
    }
    for (int i = 0; i < plan->n_names; i++)
        if (strcmp(plan->names[i].text, o->value) == 0) {
            options_refuse(o->cli, "-l %s: this name is there twice", o->value);
            return false;
        }
    if (plan->n_names == PLAN_NAMES) {
        options_refuse(o->cli, "too many names (at most %d)", PLAN_NAMES);
        return false;
    }
    o->stop = 1; /* CMD */
    plan->grant.has_mode = false;
    return add_name(plan, o->value);
}

static bool take_option(struct options *o, int key, struct plan *plan, bool *out_line)
{
    int64_t number;

    switch (key) {
    case 'E':
        if (!options_number(o, 0, 255, &number))
            return false;
        plan->busy_exit = (int)number;
        return true;
    case MAX_TIME:
        return options_duration(o, &plan->max_ms);
    case AT_LEAST:
        return options_duration(o, &plan->least_ms);
    case 'k':
        return options_duration(o, &plan->grace_ms);
    case ON_LOST:
        return read_on_lost(o, plan);
    case STATUS_FD:
        return read_status_fd(o, plan);
    case KEEP_URL:
        plan->keep_url = true;
        return true;
    case 'l':
        return take_name(o, plan);
    case EVERY:
        return options_long_duration(o, &plan->every_ms);
    case AGAIN:
        plan->again = true;
        return true;
    case 'c':
        *out_line = true;
        return true;
    default:
        return grant_option(o, key, &plan->grant);
    }
}

/* CMD ARG... as they stand, or one CMD as a line for sh. They are copies, because our own arguments
 * are overwritten. */
static char **command_words(char **words, int n, bool line)
{
    char **out = calloc((size_t)n + 4, sizeof *out), **to = out;

    if (out == NULL)
        return NULL;
    if (line) {
        *to++ = strdup("/bin/sh");
        *to++ = strdup("-c");
    }
    for (; n > 0; n--)
        *to++ = strdup(*words++);
    return out;
}

static void free_words(struct plan *plan)
{
    for (char **word = plan->command; word != NULL && *word != NULL; word++)
        free(*word);
    free(plan->command);
    for (int i = 0; i < plan->n_names; i++)
        free(plan->names[i].text);
    free(plan->name);
}

/* "a, b, c" */
static char *all_names(const struct plan *plan)
{
    size_t room = 1, used = 0;
    char *out;

    for (int i = 0; i < plan->n_names; i++)
        room += strlen(plan->names[i].text) + 2;
    if ((out = calloc(room, 1)) == NULL)
        return NULL;
    for (int i = 0; i < plan->n_names; i++)
        used += (size_t)snprintf(out + used, room - used, "%s%s", i > 0 ? ", " : "",
                                 plan->names[i].text);
    return out;
}

static int read_options(struct cli *cli, int argc, char **argv, struct plan *plan)
{
    struct options o;
    bool line = false, named;
    int key, words, before;

    options_begin(&o, cli, cli->command->options, 2, argc, argv);
    while ((key = options_next(&o)) >= 0)
        if (!take_option(&o, key, plan, &line))
            return EXIT_USAGE;
    if (key == OPTIONS_WRONG)
        return EXIT_USAGE;
    named = plan->n_names > 0;
    before = named ? 0 : 1;
    /* run NAME -- CMD: the first "--" ends the options. */
    words = o.n - before - (o.n > before && strcmp(o.operands[before], "--") == 0);
    if (words < 1)
        return options_refuse(cli, named ? "%s needs a CMD" : "%s needs a NAME and a CMD",
                              cli->command->name);
    if (named && plan->grant.has_mode)
        return options_refuse(cli, "put -s, -x and --slots before the -l NAME that they are for");
    if (cli->command == &command_once && plan->every_ms == 0)
        return options_refuse(cli, "once needs --every and the length of a period, such as 1d");
    if (line && words > 1)
        return options_refuse(cli, "-c takes a single CMD, one line for sh: quote it");
    if (plan->grant.lease_ms == 0)
        plan->grant.lease_ms = SQLOCK_LEASE_DEFAULT_MS;
    plan->command = command_words(o.operands + o.n - words, words, line);
    if ((named || add_name(plan, o.operands[0])) && (plan->name = all_names(plan)) != NULL &&
        plan->command != NULL)
        return 0;
    say(SAY_ERROR, "out of memory");
    return EXIT_INTERNAL;
}

/* So that `sqlock ls` inside the command sees the same locks. Call it before the guardian blanks
 * our arguments. */
static void export_names(const struct cli *cli)
{
    const char *const shared[][2] = {{"SQLOCK_NAMESPACE", cli->ns},
                                     {"SQLOCK_SCHEMA", cli->schema},
                                     {"SQLOCK_PREFIX", cli->prefix}};

    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
        if (shared[i][1] != NULL)
            setenv(shared[i][0], shared[i][1], 1);
}

/* ---- three processes ------------------------------------------------------------------------- */

void plan_show_as(const struct plan *plan, const char *what)
{
    char *begin = plan->cli->argv[0], *end = plan->cli->argv[plan->cli->argc - 1];

    end += strlen(end);
    memset(begin, 0, (size_t)(end - begin));
    snprintf(begin, (size_t)(end - begin), "%s %s", what, plan->name);
    prctl(PR_SET_NAME, what, 0, 0, 0);
}

/* Called before anything is opened and any thread is started, so that they inherit neither. */
static int start_watchers(struct plan *plan, int *out_fd, pid_t *out_pid)
{
    sigset_t all, ours;
    int ends[2];
    void *page =
        mmap(NULL, sizeof *plan->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    sigfillset(&all);
    if (page == MAP_FAILED || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return EXIT_INTERNAL;
    plan->shared = page;
    atomic_init(&plan->shared->last_us, INT64_MAX);
    sigprocmask(SIG_SETMASK, &all, &ours);
    *out_pid = fork();
    if (*out_pid == 0) {
        close(ends[0]);
        waker_run(plan, ends[1]);
    }
    sigprocmask(SIG_SETMASK, &ours, NULL);
    close(ends[1]);
    *out_fd = ends[0];
    return *out_pid > 0 ? 0 : EXIT_INTERNAL;
}

static int run_run(struct cli *cli, int argc, char **argv)
{
    struct plan plan = {.cli = cli,
                        .grant = GRANT_OPTS_INIT,
                        .busy_exit = EXIT_BUSY,
                        .grace_ms = 5000,
                        .status_fd = -1,
                        .status_fd_given = -1,
                        .locker = getpid(),
                        .group = getpgrp()};
    pid_t waker;
    int rc, fd;

    if ((rc = read_options(cli, argc, argv, &plan)) != 0)
        goto out;
    say_without_waiting();
    signals_hear_children(&plan.signals);
    export_names(cli);
    if (!tree_adopt()) {
        say(SAY_ERROR, "cannot find what the command starts: run needs Linux with the /proc of "
                       "this namespace");
        rc = EXIT_SETUP;
    } else if (!signals_take(&plan.signals) || start_watchers(&plan, &fd, &waker) != 0) {
        say(SAY_ERROR, "no file descriptor or process available");
        rc = EXIT_INTERNAL;
    } else {
        rc = locker_run(&plan, fd, waker);
    }
out:
    say_end();
    free_words(&plan);
    return rc;
}

const struct command command_run = {
    .name = "run",
    .synopsis = "[-n | -w DUR] [-s | --slots N] [-E CODE] [--ttl DUR] [--grace DUR] "
                "[--at-least DUR] [--max-time DUR] [-k DUR] [--on-lost term|kill|warn] [-m K=V]... "
                "[--actor TEXT] [--status-fd N] "
                "[--keep-url] [-c] NAME CMD "
                "[ARG...]\n"
                "[OPTION]... [-s | -x | --slots N] -l NAME [-l NAME]... [-c] CMD [ARG...]",
    .summary = "run a command while holding a lock",
    .help = "The lease is renewed while CMD runs. If it cannot be renewed, or is lost, CMD\n"
            "and every process it started are stopped before the lease ends, even if sqlock\n"
            "itself was killed. When CMD ends, processes that it left behind are stopped,\n"
            "and then the lock is released. Ctrl-Z suspends CMD; if it is not resumed in\n"
            "time, it is stopped. On a terminal, a wait of more than a second shows who\n"
            "holds the lock.\n"
            "\n"
            "Exit codes: CMD's own; 128+n: a signal n ended it; 126, 127: it could not run;\n"
            "75: busy; 76: the lock was lost; 124: --max-time. CMD finds SQLOCK_NAME,\n"
            "SQLOCK_OWNER, SQLOCK_TOKEN and SQLOCK_HELD=1 in its environment, and SQLOCK_URL\n"
            "unless that has a password: --keep-url passes it on for sqlock inside CMD.\n"
            "Waiting for a lock that an outer 'sqlock run' holds is an error (64).\n"
            "\n"
            "With -s any number of commands may hold the lock at once, and no exclusive\n"
            "one. With --slots as many as there are slots. An exclusive one that waits comes\n"
            "before shared ones that come later.\n"
            "\n"
            "With -l A -l B it holds all of these locks, or none. -s, -x and --slots are of\n"
            "the names behind them: -s -l A -x -l B. CMD finds the first lock in its\n"
            "variables, and the tokens of all in SQLOCK_TOKENS. If one is lost, CMD is\n"
            "stopped.\n",
    .options = options,
    .run = run_run,
};

const struct command command_once = {
    .name = "once",
    .synopsis =
        "--every DUR [--again] [-n | -w DUR] [-E CODE] [--ttl DUR] [--grace DUR] [--at-least DUR] "
        "[--max-time DUR] [-k DUR] [--on-lost term|kill|warn] [-m K=V]... [--actor TEXT] "
        "[--status-fd N] [--keep-url] [-c] NAME CMD "
        "[ARG...]",
    .summary = "run a command once per period, on one host",
    .help = "Periods of one length follow each other since 1970, in UTC: with --every 1d it\n"
            "is a day. When CMD ends with 0, its period is written down, in the register of\n"
            "this name. Until the next period begins, 'once' then exits with 0 and does not\n"
            "run CMD. If CMD fails, or is stopped, the next call runs it again. It waits for\n"
            "another host that is running it; if it exits with 0, the work is done.\n"
            "\n"
            "All else is as in 'sqlock run': options, exit codes, what CMD finds, and that\n"
            "it is stopped if the lock cannot be kept.\n",
    .options = once_options,
    .run = run_run,
};
