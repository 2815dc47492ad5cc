/* The command table, and what all commands get. */
#ifndef SQLOCK_CLI_CLI_H
#define SQLOCK_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/base/options.h"
#include "cli/exits.h"

/* The global options. Strings point into the command line or the environment. */
struct cli {
    const char *url;      /* the database; may contain a password: never print it */
    const char *url_text; /* the same if it came from -U and has no password, else NULL */
    const char *url_file;
    bool url_found; /* url is what the options and the environment say */
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
    int argc; /* the whole command line */
    char **argv;
};

struct command {
    const char *name;
    const char *synopsis; /* what follows the name; each line is one form */
    const char *summary;  /* one line */
    const char *help;     /* more of it, or NULL */
    const struct option_spec *options;
    /* Returns the exit code. argv[0] is the command's name. */
    int (*run)(struct cli *cli, int argc, char **argv);
};

extern const struct command command_run, command_once, command_lead, command_acquire, command_renew,
    command_release, command_ls, command_show, command_break, command_reap, command_migrate,
    command_waits, command_help;

/* All commands, in the order of the help; ends with NULL. */
extern const struct command *const commands[];
const struct command *command_find(const char *name);
/* Print that there is no such command, or not yet. Returns EXIT_USAGE. */
int command_unknown(const struct cli *cli, const char *name);

/* help.c: print help to stdout. command NULL: the overview. */
int help_print(const struct command *command);

#endif
