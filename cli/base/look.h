/* Who is in the way of a wait. A thread of its own looks: while the database hangs the look does
 * too, and a wait must hear signals. One look at a time for the whole process. */
#ifndef SQLOCK_CLI_LOOK_H
#define SQLOCK_CLI_LOOK_H

#include <sqlock/sqlock.h>
#include <stdbool.h>

enum { LOOK_NAMES = 16 };

/* Begin, with what is waited for. False: no thread, descriptor or memory is left. */
bool look_start(sqlock *m, const char *const *names, int n);
/* Readable when the look is done. */
int look_fd(void);
/* Then one of those who hold it, ", held by ... for ...", or that no one does; and the place that
 * sqlock_op_place() does not know. Nothing if the look failed: the request will report what is
 * wrong. It lives until the next look. */
const char *look_take(void);
/* sqlock_close() for commands that wait. A look that hangs is not waited for: then m stays open
 * until the process ends, unless the process goes on without m. */
void look_close(sqlock *m, bool goes_on);
/* For main(): returns code. If a look hangs still, ends the process at once: what exit() runs would
 * run beside its thread. */
int look_exit(int code);

#endif
