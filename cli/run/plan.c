/* The words of `sqlock run` and its like, read into a plan; and the times that follow from it. */
#include "cli/run/plan.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/base/say.h"
#include "cli/cli.h"

/* Of two leaders only one may work, so there is no warning alone. */
static bool read_on_lost(struct options *o, struct plan *plan)
{
    static const char *const words[] = {"term", "kill", "warn"};

    for (int i = 0; i < (plan->lead ? 2 : 3); i++)
        if (strcmp(o->value, words[i]) == 0) {
            plan->on_lost = (enum on_lost)i;
            return true;
        }
    options_refuse(o->cli, "invalid --on-lost \"%s\" (use %s)", o->value,
                   plan->lead ? "term or kill" : "term, kill or warn");
    return false;
}

/* Copy the descriptor: 0 and 1 are replaced later. */
static bool read_status_fd(struct options *o, struct plan *plan)
{
    int64_t fd;

    if (!options_number(o, 0, 1 << 20, &fd))
        return false;
    plan->status_fd_given = (int)fd;
    if ((plan->status_fd = fcntl((int)fd, F_DUPFD_CLOEXEC, 3)) >= 0 &&
        (fcntl((int)fd, F_GETFL) & O_ACCMODE) != O_RDONLY)
        return true;
    options_refuse(o->cli, "--status-fd %s: this file descriptor is not open for writing",
                   o->value);
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
    case RUN_MAX_TIME:
        return options_duration(o, &plan->max_ms);
    case RUN_AT_LEAST:
        return options_duration(o, &plan->least_ms);
    case 'k':
        return options_duration(o, &plan->kill_after_ms);
    case RUN_ON_LOST:
        return read_on_lost(o, plan);
    case RUN_STATUS_FD:
        return read_status_fd(o, plan);
    case RUN_KEEP_URL:
        plan->keep_url = true;
        return true;
    case 'l':
        return take_name(o, plan);
    case RUN_EVERY:
        return options_period(o, &plan->every_ms);
    case RUN_AGAIN:
        plan->again = true;
        return true;
    case RUN_RESIGN:
        plan->resign = true;
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

void plan_free(struct plan *plan)
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

int plan_read(struct plan *plan, int argc, char **argv)
{
    struct cli *cli = plan->cli;
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
    if (plan->resign && o.n != 1)
        return options_refuse(cli, "lead --resign needs one NAME, and no CMD");
    if (words < 1 && !plan->resign)
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
    words = plan->resign ? 0 : words;
    plan->command = command_words(o.operands + o.n - words, words, line);
    if ((named || add_name(plan, o.operands[0])) && (plan->name = all_names(plan)) != NULL &&
        plan->command != NULL)
        return 0;
    say(SAY_ERROR, "out of memory");
    return EXIT_INTERNAL;
}

/* ---- times ----------------------------------------------------------------------------------- */

enum { KILL_AGAIN_US = 5000, KILL_SLOWLY_US = 250000, KILL_SLOW_AFTER_US = 2000000 };

int64_t plan_kill_after_us(const struct plan *plan)
{
    int64_t most = (int64_t)plan->grant.lease_ms * 1000 / 4;
    int64_t wanted = plan->on_lost == ON_LOST_KILL ? 0 : (int64_t)plan->kill_after_ms * 1000;

    return wanted < most ? wanted : most;
}

int64_t plan_slack_us(const struct plan *plan)
{
    int64_t slack = (int64_t)plan->grant.lease_ms * 1000 / 10;

    return slack < 500000 ? slack : 500000;
}

int64_t plan_again_us(int64_t since_us)
{
    return since_us < KILL_SLOW_AFTER_US ? KILL_AGAIN_US : KILL_SLOWLY_US;
}
