/* All descendants of a process, however they tried to leave: who made itself a daemon in a session
 * of its own is a child of the nearest subreaper. */
#ifndef SQLOCK_CLI_RUN_TREE_H
#define SQLOCK_CLI_RUN_TREE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Make this process the one that orphans come to. False: this system cannot, or has no /proc to
 * find descendants by, or that of other processes (another namespace's). */
bool tree_adopt(void);
/* Send a signal to every descendant of root, which is this process or below it. Returns how many
 * there were. */
int tree_signal(pid_t root, int signal);
/* KILL them all, those too that are being made meanwhile. They still have to be waited for; whoever
 * has waited and has children left calls it again. Returns how many could not be killed (they run
 * as another user). */
int tree_kill(pid_t root);

#endif
