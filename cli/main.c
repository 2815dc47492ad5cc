/* sqlock, the command: a client of the public library, nothing more. */
#include <locale.h>
#include <sqlock/sqlock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/base/fds.h"
#include "cli/base/look.h"
#include "cli/base/output.h"
#include "cli/base/say.h"
#include "cli/cli.h"

const struct command *const commands[] = {
    &command_run,     &command_once,  &command_lead,
    &command_acquire, &command_renew, &command_release,
    &command_ls,      &command_show,  &command_break,
    &command_waits,   &command_reap,  &command_migrate,
    &command_help,    NULL,
};

/* Planned for a later version: say so, instead of "unknown command". */
static const char *const later[] = {"doctor", "metrics", "completion", NULL};

const struct command *command_find(const char *name)
{
    for (const struct command *const *c = commands; *c != NULL; c++)
        if (strcmp((*c)->name, name) == 0)
            return *c;
    return NULL;
}

int command_unknown(const struct cli *cli, const char *name)
{
    for (const char *const *word = later; *word != NULL; word++)
        if (strcmp(*word, name) == 0)
            return options_refuse(cli, "%s: not available in this version yet", name);
    return options_refuse(cli, "unknown command \"%s\"", name);
}

static const struct option_spec main_options[] = {
    {'V', "version", NULL, "print the version"},
    {0, NULL, NULL, NULL},
};

static int print_version(const struct cli *cli)
{
    if (cli->json)
        return output_json(
            json_pack("{s:s, s:s}", "command", SQLOCK_VERSION, "library", sqlock_version()));
    printf("sqlock %s (library %s)\n", SQLOCK_VERSION, sqlock_version());
    return output_end();
}

int main(int argc, char **argv)
{
    static struct cli cli; /* what it points to lives until exit */
    struct options o;
    bool version = false;
    int key;

    cli.argc = argc;
    cli.argv = argv;
    fds_fill();
    /* Names are UTF-8, whatever the user's language is: for widths, and for * and ? in patterns. */
    setlocale(LC_CTYPE, "C.UTF-8");
    cli.ns = getenv("SQLOCK_NAMESPACE");
    cli.schema = getenv("SQLOCK_SCHEMA");
    cli.prefix = getenv("SQLOCK_PREFIX");
    options_begin(&o, &cli, main_options, 1, argc, argv);
    while ((key = options_next(&o)) >= 0)
        version = true;
    if (key == OPTIONS_WRONG)
        return EXIT_USAGE;
    if (version)
        return print_version(&cli);
    if (o.n == 0) {
        say(SAY_ERROR, "no command given; try 'sqlock help'");
        return EXIT_USAGE;
    }
    if ((cli.command = command_find(o.operands[0])) == NULL)
        return command_unknown(&cli, o.operands[0]);
    return look_exit(cli.command->run(&cli, o.n, o.operands));
}
