/* sqlock show: all that is known of one lock. */
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

static const struct option_spec options[] = {{0, NULL, NULL, NULL}};

struct show {
    const struct cli *cli;
    const char *name;
    bool found;
    int rc;
};

static void print_words(const sqlock_info *info)
{
    char held[TEXT_DURATION], left[TEXT_DURATION], moment[TEXT_MOMENT], owner[TEXT_OWNER];
    char *name = shown_cell(info->name, info->name_len, 0), *holder = info_holder(info);

    printf("name        %s\n", name != NULL ? name : "?");
    printf("state       %s\n", info_state(info));
    printf("last token  %lld\n", (long long)info->holder.token);
    if (info->held) {
        printf("holder      %s\n", holder != NULL ? holder : "?");
        printf("owner       %s\n", text_owner(owner, info->owner));
        printf("held since  %s (%s)\n", text_moment(moment, info->holder.held_ms),
               text_span(held, info->holder.held_ms));
        if (info->holder.left_ms > 0)
            printf("expires in  %s\n", text_span(left, info->holder.left_ms));
        else
            printf("expired     %s ago\n", text_span(left, -info->holder.left_ms));
    }
    free(name);
    free(holder);
}

/* Names come in byte order, so a name is the first of those that begin with it. */
static int each(const sqlock_info *info, void *user)
{
    struct show *s = user;

    if (strlen(s->name) != info->name_len || memcmp(s->name, info->name, info->name_len) != 0)
        return 1;
    s->found = true;
    if (s->cli->json)
        s->rc = output_json(info_json(info));
    else
        print_words(info);
    return 1;
}

static int show(struct show *s, sqlock *m)
{
    sqlock_list_opts opts = SQLOCK_LIST_OPTS_INIT;
    sqlock_error err = {0};
    int rc;

    opts.flags = SQLOCK_LIST_FREE;
    opts.prefix = s->name;
    if ((rc = sqlock_list(m, &opts, each, s, &err)) < 0)
        return fail_with(rc, &err);
    if (!s->found) {
        say(SAY_NOTE, "there is no lock \"%s\"", s->name);
        return EXIT_NO;
    }
    return s->rc != 0 ? s->rc : output_end();
}

static int run(struct cli *cli, int argc, char **argv)
{
    struct show s = {.cli = cli};
    struct options o;
    sqlock *m = NULL;
    int rc;

    options_begin(&o, cli, options, OPTIONS_ANYWHERE, argc, argv);
    if (options_next(&o) != OPTIONS_END)
        return EXIT_USAGE;
    if (o.n != 1)
        return options_refuse(cli, "one NAME is needed");
    s.name = o.operands[0];
    if ((rc = database_open(cli, NULL, &m)) != 0)
        return rc;
    rc = show(&s, m);
    sqlock_close(m);
    return rc;
}

const struct command command_show = {
    .name = "show",
    .synopsis = "NAME",
    .summary = "tell who holds a lock, and its last token",
    .help = "Ends with 1 when no lock of this name was ever taken.\n",
    .options = options,
    .run = run,
};
