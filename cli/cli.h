/* The command table and what all commands are given. */
#ifndef SQLOCK_CLI_CLI_H
#define SQLOCK_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/base/options.h"
#include "cli/exits.h"

/* What the global options say. Strings are of the command line or the environment. */
struct cli {
    const char *url;      /* where the database is; may hold a password: never print it */
    const char *url_text; /* the same as -U gave it and without a password, else NULL */
    const char *url_file;
    bool local;
    const char *schema;
    const char *prefix;
    const char *ns;
    unsigned flags; /* SQLOCK_OPEN_... */
    bool lift_tokens;
    int32_t grace_ms; /* of acquire and run */
    int32_t wait_db_ms;
    bool json;
    const struct command *command;
    int argc; /* all that the process was started with */
    char **argv;
};

struct command {
    const char *name;
    const char *synopsis; /* what follows the name; lines after the first are further forms */
    const char *summary;  /* one line */
    const char *help;     /* more of it, or NULL */
    const struct option_spec *options;
    /* Returns what the process ends with. argv[0] is the command's name. */
    int (*run)(struct cli *cli, int argc, char **argv);
};

extern const struct command command_run, command_acquire, command_renew, command_release,
    command_ls, command_show, command_break, command_reap, command_migrate, command_help;

/* All of them, in the order of the help; ends with NULL. */
extern const struct command *const commands[];
const struct command *command_find(const char *name);
/* Told to the user: nobody has it, or a later version. Returns EXIT_USAGE. */
int command_unknown(const struct cli *cli, const char *name);

/* help.c: to stdout. command may be NULL: the overview. */
int help_print(const struct command *command);

#endif
