/* From global options to an open manager, and from the library's codes to exit codes. */
#ifndef SQLOCK_CLI_CONNECT_H
#define SQLOCK_CLI_CONNECT_H

#include <sqlock/sqlock.h>
#include <stdbool.h>

struct cli;

struct database {
    const sqlock_driver *driver;
    sqlock_open_opts opts;
};

/* The database that the options name, without connecting. Here and below: returns 0, or the exit
 * code after printing why. */
int database_find(struct cli *cli, struct database *out);
/* Open a manager; try for as long as --wait-db says. label may be NULL. */
int database_open(struct cli *cli, const char *label, sqlock **out_m);
/* The same, for locks that belong to another process: 0 is this one. */
int database_open_for(struct cli *cli, int32_t pid, const char *label, sqlock **out_m);

/* The same, for who may try again: what the library answered last is in *err, and not printed. If
 * it is not the library that refused, err->code is 0. */
int database_try(struct cli *cli, const char *label, sqlock **out_m, sqlock_error *err);

/* The exit code for a code of the library. */
int exit_of(int code);
/* Waiting does not help: the URL is wrong, or the database that it names does not exist. */
bool setup_is_wrong(int code, const sqlock_error *err);
/* The library advises programs. A shell has options and commands: put those in its text. */
void error_for_shell(sqlock_error *err);
/* Print err in these words. Returns the exit code. */
int fail_with(int code, const sqlock_error *err);

#endif
