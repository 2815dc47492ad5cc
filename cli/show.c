/* sqlock show: all that is known about one lock. */
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

static int show_lock(const struct cli *cli, sqlock *m, const char *name)
{
    sqlock_info info = {.size = sizeof info};
    sqlock_error err = {0};
    int rc = sqlock_find(m, name, &info, &err);

    if (rc < 0)
        return fail_with(rc, &err);
    if (rc == SQLOCK_ABSENT) {
        say(SAY_NOTE, "no lock \"%s\"", name);
        return EXIT_NO;
    }
    if (!cli->json)
        print_words(&info);
    else if ((rc = output_json(info_json(&info))) != 0)
        return rc;
    return output_end();
}

static int show_run(struct cli *cli, int argc, char **argv)
{
    struct options o;
    sqlock *m = NULL;
    int rc;

    options_begin(&o, cli, options, OPTIONS_ANYWHERE, argc, argv);
    if (options_next(&o) != OPTIONS_END)
        return EXIT_USAGE;
    if (o.n != 1)
        return options_refuse(cli, "show needs one NAME");
    if ((rc = database_open(cli, NULL, &m)) != 0)
        return rc;
    rc = show_lock(cli, m, o.operands[0]);
    sqlock_close(m);
    return rc;
}

const struct command command_show = {
    .name = "show",
    .synopsis = "NAME",
    .summary = "show who holds a lock, and its last token",
    .help = "Exits with 1 if no lock of this name was ever taken.\n",
    .options = options,
    .run = show_run,
};
