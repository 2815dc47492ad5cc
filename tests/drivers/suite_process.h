/* What is the whole process's, and a client library might set. */
#ifndef SQLOCK_TESTS_DRIVERS_SUITE_PROCESS_H
#define SQLOCK_TESTS_DRIVERS_SUITE_PROCESS_H

#include <signal.h>
#include <sys/types.h>

#include "tests/lib/check.h"

enum { PROCESS_SIGNALS = 32 };

struct process_state {
    struct sigaction signals[PROCESS_SIGNALS];
    sigset_t mask, pending; /* of this thread */
    mode_t umask;
    char words[65536]; /* folder, locale, environment */
};

void process_look(struct process_state *s);
/* What is not as it was then; NULL: nothing. */
const char *process_changed(const struct process_state *s);

#endif
