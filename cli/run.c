/* sqlock run: run a command while holding a lock. sqlock once: the same, once per period. sqlock
 * lead: the same, again and again. */
#include <stdlib.h>
#include <unistd.h>

#include "cli/base/grant.h"
#include "cli/base/say.h"
#include "cli/cli.h"
#include "cli/run/lead.h"
#include "cli/run/plan.h"
#include "cli/run/status.h"
#include "cli/run/tree.h"

#define RUN_COMMAND                                                                                \
    {RUN_STATUS_FD, "status-fd", "N", "write one line of JSON about the outcome there"},           \
        {RUN_KEEP_URL, "keep-url", NULL, "pass SQLOCK_URL to CMD even if it has a password"},      \
        {'c', NULL, NULL, "CMD is one quoted line, run by sh"},                                    \
    {                                                                                              \
        0, NULL, NULL, NULL                                                                        \
    }
#define RUN_LIMITS                                                                                 \
    {RUN_MAX_TIME, "max-time", "DUR", "stop CMD after this time, and exit with 124; 0: never"},    \
    {                                                                                              \
        'k', NULL, "DUR", "TERM to KILL; default: 5s; at a loss at most --ttl/4"                   \
    }
#define RUN_OPTIONS                                                                                \
    GRANT_OPTIONS, {'E', NULL, "CODE", "exit with this code if the lock is busy; default: 75"},    \
        {RUN_AT_LEAST, "at-least", "DUR", "hold the lock this long even if CMD ends earlier"},     \
        RUN_LIMITS,                                                                                \
        {RUN_ON_LOST, "on-lost", "HOW", "term, kill, or warn and let CMD go on; default: term"},   \
        RUN_COMMAND

static const struct option_spec options[] = {
    GRANT_KINDS,
    {'l', NULL, "NAME", "in place of NAME, for several locks: all or none"},
    RUN_OPTIONS};
static const struct option_spec once_options[] = {
    GRANT_KINDS_LATER,
    {'l', NULL, "NAME", NULL},
    {RUN_EVERY, "every", "DUR", "length of a period, such as 1h or 1d"},
    {RUN_AGAIN, "again", NULL, "run it even if this period's run is done"},
    RUN_OPTIONS};

static const struct option_spec lead_options[] = {
    {RUN_AGAIN, "again", NULL, "stand for election again after CMD has ended by itself"},
    {RUN_RESIGN, "resign", NULL, "request the leader to resign, and print who that is"},
    GRANT_LEASE,
    RUN_LIMITS,
    {RUN_ON_LOST, "on-lost", "HOW", "term or kill; default: term"},
    RUN_COMMAND};

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

static int run_run(struct cli *cli, int argc, char **argv)
{
    struct plan plan = {.cli = cli,
                        .grant = GRANT_OPTS_INIT,
                        .busy_exit = EXIT_BUSY,
                        .kill_after_ms = 5000,
                        .status_fd = -1,
                        .status_fd_given = -1,
                        .lead = cli->command == &command_lead,
                        .locker = getpid(),
                        .group = getpgrp()};
    struct outcome outcome = {0};
    int rc;

    if ((rc = plan_read(&plan, argc, argv)) != 0)
        goto out;
    if (plan.resign) {
        rc = lead_resign(&plan);
        goto out;
    }
    say_without_waiting();
    signals_hear_children(&plan.signals);
    export_names(cli);
    if (!tree_adopt()) {
        say(SAY_ERROR, "cannot find what the command starts: run needs Linux with the /proc of "
                       "this namespace");
        rc = EXIT_SETUP;
    } else if (!signals_take(&plan.signals)) {
        say(SAY_ERROR, "no file descriptor available");
        rc = EXIT_INTERNAL;
    } else {
        rc = plan.lead ? lead_run(&plan) : plan_run(&plan, &outcome);
    }
out:
    say_end();
    plan_free(&plan);
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
            "time, it is stopped. On a terminal, or with -v, a wait of more than a second\n"
            "says who holds the lock, and the place in the queue. If the database goes away\n"
            "while 'run' waits for the lock, it waits on, for as long as -w says. A signal\n"
            "to sqlock is passed on to CMD; no KILL follows it, whatever -k says.\n"
            "\n"
            "Exit codes: CMD's own; 128+n: a signal n ended it; 126, 127: it could not run;\n"
            "75: busy; 76: the lock was lost; 78: others use it, or wait for it, in another\n"
            "way, such as as slots; 124: --max-time. CMD finds SQLOCK_NAME,\n"
            "SQLOCK_OWNER, SQLOCK_TOKEN and SQLOCK_HELD=1 in its environment, and the\n"
            "database as SQLOCK_URL, for sqlock inside CMD: empty if that URL has a\n"
            "password, unless --keep-url passes it on. A database that DATABASE_URL names\n"
            "is left there.\n"
            "Waiting for a lock that an outer 'sqlock run' holds is an error (64). So is\n"
            "a shared one inside a shared one, if others have waited for it alone before.\n"
            "\n"
            "With -s any number of commands may hold the lock at once, and no exclusive\n"
            "one. With --slots as many as there are slots. An exclusive one that waits comes\n"
            "before shared ones that come later.\n"
            "\n"
            "With -l A -l B it holds all of these locks, or none. -s, -x and --slots are of\n"
            "the names behind them: -s -l A -x -l B. CMD finds the first lock in its\n"
            "variables, and of all, in that order, the tokens in SQLOCK_TOKENS and the\n"
            "slots in SQLOCK_SLOTS (- for one that has none). If one is lost, CMD is\n"
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
            "it is stopped if the lock cannot be kept.\n"
            "\n"
            "With --on-lost warn CMD goes on without the lock. Its run is then not written\n"
            "down, even if it ends with 0: another host may be running it, and may fail.\n"
            "\n"
            "Behind a longer --every the period that is written down is yet to come: that\n"
            "ends with 78, until --again has run CMD once.\n",
    .options = once_options,
    .run = run_run,
};

const struct command command_lead = {
    .name = "lead",
    .synopsis = "[--again] [--ttl DUR] [--grace DUR] [--max-time DUR] [-k DUR] "
                "[--on-lost term|kill] [-m K=V]... [--status-fd N] [--keep-url] [-c] NAME CMD "
                "[ARG...]\n"
                "--resign NAME",
    .summary = "run a command on one host of many, the leader",
    .help = "Of all that call this, one leads: it holds the lock, and runs CMD. The others\n"
            "wait in its queue. When the leader ends, dies or is cut off from the database,\n"
            "the next one leads. The old leader's CMD is stopped before that, as by 'sqlock\n"
            "run', whose other rules hold here too.\n"
            "\n"
            "When CMD ends by itself, 'lead' releases the lock and exits with CMD's code;\n"
            "with --again it stands for election again, a second later. It always does if\n"
            "the lock is lost, and tries each second while the database does not answer.\n"
            "A signal is passed on to CMD, and ends it when CMD has ended.\n"
            "\n"
            "--resign requests the leader of now to resign, in the register of this name. It\n"
            "looks once a second, stops CMD (TERM, -k, KILL) while it still holds the lock,\n"
            "and goes to the end of the queue. Without a leader the exit code is 1. Other\n"
            "holders than 'sqlock lead' do not look.\n"
            "\n"
            "CMD may be started several times, so its input and output stay open in between.\n"
            "--status-fd gets a line for each time as the leader.\n",
    .options = lead_options,
    .run = run_run,
};
