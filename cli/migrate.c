/* sqlock migrate: the schema. */
#include <stdio.h>
#include <string.h>

#include "cli/base/connect.h"
#include "cli/base/output.h"
#include "cli/cli.h"

static const struct option_spec options[] = {{0, NULL, NULL, NULL}};

static int up(struct cli *cli)
{
    struct database db;
    sqlock_error err = {0};
    int applied = 0, rc = database_find(cli, &db);

    if (rc != 0)
        return rc;
    if ((rc = sqlock_migrate(db.driver, cli->url, &db.opts, &applied, &err)) != 0)
        return fail_with(rc, &err);
    if (cli->json)
        return output_json(json_pack("{s:i}", "applied", applied));
    printf("%d applied\n", applied);
    return output_end();
}

static int run(struct cli *cli, int argc, char **argv)
{
    struct options o;

    options_begin(&o, cli, options, argc, argv);
    if (options_next(&o) != OPTIONS_END)
        return EXIT_USAGE;
    if (argc - o.at != 1 || strcmp(argv[o.at], "up") != 0)
        return options_refuse(cli, "one of: up");
    return up(cli);
}

const struct command command_migrate = {
    .name = "migrate",
    .synopsis = "up",
    .summary = "bring the schema to this version",
    .options = options,
    .run = run,
};
