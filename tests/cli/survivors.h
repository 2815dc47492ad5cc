/* A command that starts everything that can be hard to find, and whether anything of it is alive.
 */
#ifndef SQLOCK_TESTS_CLI_SURVIVORS_H
#define SQLOCK_TESTS_CLI_SURVIVORS_H

#include <signal.h>
#include <sys/types.h>

#include "tests/cli/shell.h"

/* For sh(): processes that tree.sh noted and that are alive; no zombies. */
#define SURVIVORS "tests/cli/survivors.sh $D"

/* `sqlock run OPTIONS nightly tests/cli/tree.sh $D HOW`: the lock is held, all of it is there. How:
 * "stubborn" or "obedient", and redirections. */
pid_t start_tree(const char *options, const char *how);
/* `sqlock run WORDS`, of which the command makes $D/ready. */
pid_t start_until_ready(const char *words);
/* Of a locker: its guardian, its waker, which are there soon after its start. */
pid_t guardian_of(pid_t run);
pid_t waker_of(pid_t run);
/* Anybody below a process, by the name that ps shows. 0: none. */
pid_t below(pid_t pid, const char *name);
/* By SIGKILL; it ends so. */
void kill_locker(pid_t run);

/* What the locker ends with, by itself. */
#define assert_ends(run, code) assert_int_equal(child_wait((run), patience_ms(20000)), (code))
#define assert_no_survivors()  assert_string_equal(sh(SURVIVORS)->out, "")
/* Whoever gets the lock next finds nobody, and the last sign of life is older than its grant. */
void assert_successor_is_alone(void);
/* The same while this locker is stopped; that it has lost the lock it says when it goes on. */
void assert_lost_while_stopped(pid_t run);

#endif
