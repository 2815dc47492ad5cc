/* Descriptors that the process was started with. */
#ifndef SQLOCK_CLI_FDS_H
#define SQLOCK_CLI_FDS_H

#include <stdbool.h>

/* Whoever starts us with 0, 1 or 2 closed must not find the database's socket there: they are
 * filled with /dev/null. First of all. */
void fds_fill(void);
/* Whether it was closed: then the command that `run` starts finds it closed too. */
bool fds_was_closed(int fd);
/* /dev/null in the place of standard input and output: their ends must not be kept open by us. */
void fds_silence(void);
/* Close all from 3 on but these (-1: none). */
void fds_close_others(const int *keep, int n);

#endif
