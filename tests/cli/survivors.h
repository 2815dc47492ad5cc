/* A command that starts everything that can be hard to find, and whether anything of it is alive.
 */
#ifndef SQLOCK_TESTS_CLI_SURVIVORS_H
#define SQLOCK_TESTS_CLI_SURVIVORS_H

#include <sys/types.h>

/* For sh(): processes that tree.sh noted and that are alive; no zombies. */
#define SURVIVORS "tests/cli/survivors.sh $D"

/* `sqlock run OPTIONS nightly tests/cli/tree.sh $D HOW`: the lock is held, all of it is there. How:
 * "stubborn" or "obedient", and redirections. */
pid_t start_tree(const char *options, const char *how);
/* The first child of a process: of a locker, its guardian. 0: none. */
pid_t child_of(pid_t pid);
/* Whoever gets the lock next finds nobody, and the last sign of life is older than its grant. */
void assert_successor_is_alone(void);

#endif
