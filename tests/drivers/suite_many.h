/* A list of names, and their locks. */
#ifndef SQLOCK_TESTS_DRIVERS_SUITE_MANY_H
#define SQLOCK_TESTS_DRIVERS_SUITE_MANY_H

#include <sqlock/many.h>

#include "tests/drivers/suite.h"

enum { NAMES = 12, CROWD = 300 };

/* "n00" and so on, not by their keys. */
extern struct list {
    char texts[CROWD][8];
    const char *names[CROWD];
    sqlock_lock *locks[CROWD];
    int codes[CROWD];
} list;

/* A stage: an empty list, whose handles are freed behind the test. */
void begin_list(struct world *w);
sqlock_acquire_opts quick_opts(int32_t wait_ms);
/* Of the first n: what ended them; none has a handle; their rows are there. */
int end_all(size_t n);
void assert_none(size_t n);
void make_rows(sqlock *m, size_t n);

#endif
