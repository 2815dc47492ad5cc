/* Where the database is. A URL may hold a password: it leaves the process list at once, and no
 * message ever holds it. */
#ifndef SQLOCK_CLI_URL_H
#define SQLOCK_CLI_URL_H

#include <stdbool.h>

struct cli;

/* -U: remember it; if it holds a password, blank the argument, which others see in the list of
 * processes. False: out of memory, which has been told. */
bool url_from_argument(struct cli *cli, char *argument);
/* Find the URL: -U, --url-file, --local, SQLOCK_URL, DATABASE_URL. Sets cli->url. Returns 0, or
 * what the process ends with, and then has told why. */
int url_find(struct cli *cli);
/* Whether it holds a password, as user information or as a parameter. */
bool url_has_password(const char *url);

#endif
