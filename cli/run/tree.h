/* All descendants of a process, however they tried to leave: a daemon in a session of its own is a
 * child of the nearest subreaper. */
#ifndef SQLOCK_CLI_RUN_TREE_H
#define SQLOCK_CLI_RUN_TREE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Make this process adopt orphans. False: this system cannot, or has no /proc to find descendants
 * in, or only that of another namespace. */
bool tree_adopt(void);
/* Send a signal to every descendant of root, which is this process or one below it. Returns how
 * many there were. */
int tree_signal(pid_t root, int signal);
/* KILL them all, also those that start meanwhile. The caller must still wait for them, and call
 * this again if children are left. Returns how many could not be killed (they belong to another
 * user). */
int tree_kill(pid_t root);

#endif
