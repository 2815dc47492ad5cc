/* sqlock break: take locks away from holders that are known to be dead. */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlock/admin.h>

#include "cli/base/connect.h"
#include "cli/base/info.h"
#include "cli/base/output.h"
#include "cli/base/say.h"
#include "cli/base/shown.h"
#include "cli/base/text.h"
#include "cli/cli.h"

enum { TOKEN = OPTION_LONG, OLDER_THAN, DRY_RUN, YES };

static const struct option_spec options[] = {
    {TOKEN, "token", "T", "token of the grant, as ls and show print it"},
    {OLDER_THAN, "older-than", "DUR", "all locks that were granted at least this long ago"},
    {DRY_RUN, "dry-run", NULL, "only print what would be broken"},
    {YES, "yes", NULL, "with --older-than: no confirmation"},
    {0, NULL, NULL, NULL},
};

struct victim {
    char *name;
    size_t len;
    int64_t token;
    char *holder; /* printable */
    int64_t held_ms, left_ms;
};

struct job {
    const struct cli *cli;
    int64_t token; /* 0: --older-than */
    int32_t older_than_ms;
    bool by_age, dry_run, yes;
    const char *operand; /* NAME, or GLOB, or NULL */
    struct victim *victims;
    size_t n;
};

/* ---- options --------------------------------------------------------------------------------- */

static void take_option(struct options *o, int key, struct job *job)
{
    if (key == TOKEN)
        options_number(o, 1, SQLOCK_TOKEN_MAX, &job->token);
    else if (key == OLDER_THAN)
        job->by_age = options_duration(o, &job->older_than_ms);
    else if (key == DRY_RUN)
        job->dry_run = true;
    else
        job->yes = true;
}

static int read_options(struct cli *cli, int argc, char **argv, struct job *job)
{
    struct options o;
    int key;

    options_begin(&o, cli, options, OPTIONS_ANYWHERE, argc, argv);
    while ((key = options_next(&o)) >= 0)
        take_option(&o, key, job);
    if (key == OPTIONS_WRONG)
        return EXIT_USAGE;
    job->operand = o.operands[0];
    if (o.n > 1)
        return options_refuse(cli, "more than one NAME or GLOB given");
    if ((job->token > 0) == job->by_age)
        return options_refuse(cli, "use either NAME --token T or --older-than DUR [GLOB]");
    if (job->token > 0 && job->operand == NULL)
        return options_refuse(cli, "--token needs a NAME");
    return 0;
}

/* ---- which ----------------------------------------------------------------------------------- */

static int add_victim(struct job *job, const sqlock_info *info)
{
    struct victim *more = realloc(job->victims, (job->n + 1) * sizeof *more);

    if (more == NULL)
        return 1;
    job->victims = more;
    more[job->n].len = info->name_len;
    more[job->n].token = info->holder.token;
    more[job->n].held_ms = info->holder.held_ms;
    more[job->n].left_ms = info->holder.left_ms;
    if ((more[job->n].holder = info_holder(info)) == NULL)
        return 1;
    if ((more[job->n].name = malloc(info->name_len + 1)) == NULL)
        return 1;
    memcpy(more[job->n].name, info->name, info->name_len + 1);
    job->n++;
    return 0;
}

static int break_each(const sqlock_info *info, void *user)
{
    struct job *job = user;
    bool wanted;

    if (job->token > 0)
        wanted = strcmp(info->name, job->operand) == 0 && info->holder.token == job->token;
    else
        wanted = info->holder.held_ms >= job->older_than_ms &&
                 (job->operand == NULL || fnmatch(job->operand, info->name, 0) == 0);
    return wanted ? add_victim(job, info) : 0;
}

static int break_find(struct job *job, sqlock *m)
{
    sqlock_list_opts opts = SQLOCK_LIST_OPTS_INIT;
    sqlock_error err = {0};
    int rc;

    opts.prefix = job->token > 0 ? job->operand : NULL;
    if ((rc = sqlock_list(m, &opts, break_each, job, &err)) < 0)
        return fail_with(rc, &err);
    if (rc != 0) {
        say(SAY_ERROR, "out of memory");
        return EXIT_INTERNAL;
    }
    return 0;
}

/* ---- breaking -------------------------------------------------------------------------------- */

static int print_outcome(const struct job *job, const struct victim *v, const char *what)
{
    char *name;

    if (job->cli->json)
        return output_json(json_pack("{s:o, s:I, s:s}", "name", json_text(v->name, v->len), "token",
                                     (json_int_t)v->token, "outcome", what));
    if ((name = shown_cell(v->name, v->len, 0)) != NULL)
        printf("%s: token %lld: %s\n", name, (long long)v->token, what);
    free(name);
    return output_end();
}

/* Since it was listed. */
static int break_came_late(const struct job *job, const struct victim *v)
{
    int rc = print_outcome(job, v, "already gone");

    return rc == 0 && job->token > 0 ? EXIT_NO : rc;
}

static int break_all(const struct job *job, sqlock *m)
{
    sqlock_error err = {0};
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < job->n; i++) {
        const struct victim *v = &job->victims[i];

        if (job->dry_run) {
            rc = print_outcome(job, v, "would be broken");
            continue;
        }
        rc = sqlock_break(m, v->name, v->token, &err);
        if (rc == 0)
            rc = print_outcome(job, v, "broken");
        else if (rc == SQLOCK_EGUARDED && !(err.flags & SQLOCK_RETRY)) /* it is done */
            rc = print_outcome(job, v, "broken; an open transaction still guards the name");
        else if (rc == SQLOCK_ELOST)
            rc = break_came_late(job, v);
        else
            rc = fail_with(rc, &err);
    }
    return rc;
}

/* Many locks at once, by age alone: show them first, and let the user confirm. */
static bool is_confirmed(const struct job *job)
{
    char answer[16] = "";
    FILE *tty;

    if (job->dry_run || job->yes || job->token > 0 || job->n == 0)
        return true;
    if ((tty = fopen("/dev/tty", "r+e")) == NULL) {
        options_refuse(
            job->cli,
            "no terminal to confirm breaking %zu %s: use --dry-run to list, --yes to confirm",
            job->n, job->n == 1 ? "lock" : "locks");
        return false;
    }
    for (size_t i = 0; i < job->n; i++) {
        const struct victim *v = &job->victims[i];
        char *name = shown_cell(v->name, v->len, 0), held[TEXT_DURATION], ago[TEXT_DURATION];

        fprintf(tty, "  %s: granted to %s %s ago", name != NULL ? name : "?", v->holder,
                text_span(held, v->held_ms));
        if (v->left_ms <= 0)
            fprintf(tty, ", expired %s ago", text_span(ago, -v->left_ms));
        fputc('\n', tty);
        free(name);
    }
    if (job->n == 1)
        fputs("Break 1 lock? [y/N] ", tty);
    else
        fprintf(tty, "Break these %zu locks? [y/N] ", job->n);
    fflush(tty);
    if (fgets(answer, sizeof answer, tty) == NULL)
        answer[0] = '\0';
    fclose(tty);
    return answer[0] == 'y' || answer[0] == 'Y';
}

static int break_found(struct job *job, sqlock *m)
{
    int rc = break_find(job, m);

    if (rc != 0)
        return rc;
    if (job->token > 0 && job->n == 0) {
        say(SAY_ERROR, "no grant of \"%s\" with token %lld", job->operand, (long long)job->token);
        return EXIT_NO;
    }
    if (job->n == 0)
        say(SAY_NOTE, "nothing to break: no lock %s%s%swas granted that long ago",
            job->operand != NULL ? "that matches " : "", job->operand != NULL ? job->operand : "",
            job->operand != NULL ? " " : "");
    return is_confirmed(job) ? break_all(job, m) : EXIT_USAGE;
}

static int break_run(struct cli *cli, int argc, char **argv)
{
    struct job job = {.cli = cli};
    sqlock *m = NULL;
    int rc;

    if ((rc = read_options(cli, argc, argv, &job)) != 0 || (rc = database_open(cli, NULL, &m)) != 0)
        return rc;
    rc = break_found(&job, m);
    for (size_t i = 0; i < job.n; i++) {
        free(job.victims[i].name);
        free(job.victims[i].holder);
    }
    free(job.victims);
    sqlock_close(m);
    return rc;
}

const struct command command_break = {
    .name = "break",
    .synopsis = "NAME --token T [--dry-run]\n--older-than DUR [--dry-run] [--yes] [GLOB]",
    .summary = "forcibly release locks whose holder is known to be dead",
    .help = "A holder that is still alive learns of this at its next renewal, and works on\n"
            "until then: only the token protects your data from it.\n",
    .options = options,
    .run = break_run,
};
