/* All descendants of this process, however they tried to leave: who made itself a daemon in a
 * session of its own is a child of the nearest subreaper, and that is this process. */
#ifndef SQLOCK_CLI_RUN_TREE_H
#define SQLOCK_CLI_RUN_TREE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Make this process the one that orphans come to. False: this system cannot, or has no /proc to
 * find descendants by. */
bool tree_adopt(void);
/* This child is not one of them: neither it is signalled, nor what it starts. 0: there is none. */
void tree_spare(pid_t pid);
/* Whether there is none, by a look. Only ECHILD proves it. */
bool tree_looks_empty(void);
/* Send a signal to every descendant. Returns how many there were. */
int tree_signal(int signal);
/* KILL them all, those too that are being made meanwhile. They still have to be waited for; whoever
 * has waited and has children left calls it again. Returns how many could not be killed (they run
 * as another user). */
int tree_kill(void);

#endif
