/* The descriptors that the process was started with. */
#ifndef SQLOCK_CLI_FDS_H
#define SQLOCK_CLI_FDS_H

#include <stdbool.h>

/* If 0, 1 or 2 is closed at the start, a database's socket must not get that number: fill them with
 * /dev/null. Call this first. */
void fds_fill(void);
/* Whether it was closed at the start. Then the command of `run` finds it closed too. */
bool fds_was_closed(int fd);
/* Replace standard input and output by /dev/null, so that we do not keep the user's pipes open. */
void fds_silence(void);
/* Close all descriptors from 3 on, except these (-1: none). */
void fds_close_others(const int *keep, int n);

#endif
