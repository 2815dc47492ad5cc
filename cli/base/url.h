/* Where the database is. A URL may contain a password: it is removed from the process list at once,
 * and never printed. */
#ifndef SQLOCK_CLI_URL_H
#define SQLOCK_CLI_URL_H

#include <stdbool.h>

struct cli;

/* -U: remember the URL. If it has a password, blank the argument, which others see in the list of
 * processes. False: out of memory, which was reported. */
bool url_from_argument(struct cli *cli, char *argument);
/* Find the URL: -U, --url-file, --local, SQLOCK_URL, DATABASE_URL. Sets cli->url. Returns 0, or the
 * exit code after printing why. */
int url_find(struct cli *cli);
/* What SQLOCK_URL is to be for a command, so that sqlock inside uses the same database: the URL, or
 * empty if that has a password and is not kept. NULL: it stays unset, for DATABASE_URL says it. */
const char *url_for_command(const struct cli *cli, bool keep);
/* Whether it contains a password, as user information or as a parameter. */
bool url_has_password(const char *url);

#endif
