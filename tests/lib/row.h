/* The row of a name, as a manager sees it; or that of its last shared holder. */
#ifndef SQLOCK_TESTS_LIB_ROW_H
#define SQLOCK_TESTS_LIB_ROW_H

#include <stdint.h>

#include <sqlock/sqlock.h>

struct row {
    int n; /* rows of that name */
    int held;
    unsigned char owner[SQLOCK_OWNER_SIZE];
    int64_t token, left_ms;
};

struct row row_of(sqlock *m, const char *name);

#endif
