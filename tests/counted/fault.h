/* One fault at the n-th point: where it may happen, what it is, and whether it did. */
#ifndef SQLOCK_TESTS_COUNTED_FAULT_H
#define SQLOCK_TESTS_COUNTED_FAULT_H

#include <stdbool.h>
#include <stddef.h>

/* Where points are counted. */
enum level {
    AT_REQUESTS, /* each call of a driver's slot that talks to the database (driver.c) */
    AT_WIRE,     /* each packet to a server, each statement that SQLite begins to step (wire.c) */
    AT_PACKETS,  /* each statement of a packet to MariaDB or MySQL but its first one (wire.c) */
    AT_MEMORY,   /* each allocation of the library and its drivers (fault.c) */
    AT_SYSTEM    /* each thread and descriptor that the library makes (fault.c) */
};

enum fault {
    FAULT_NONE,
    FAULT_ERROR,        /* it fails, and nothing was done; of an allocation: there is no memory */
    FAULT_LOSE_REQUEST, /* the link breaks before the server sees it */
    FAULT_LOSE_REPLY,   /* it is done, and then the link breaks */
    FAULT_DIE_BEFORE,   /* the process is killed before it */
    FAULT_DIE_AFTER     /* ... when it was done */
};

struct plan {
    const char *name;
    const char *on; /* which drivers, with a blank between */
    enum level level;
    enum fault fault;
    bool lasts; /* from that point on each one has it */
};

/* From now on points are counted, and the n-th (from 1) has the fault; until fault_disarm(), which
 * tells whether it had. Any thread may come to a point. */
void fault_arm(const struct plan *plan, int n);
bool fault_disarm(void);
/* Here is a point: what happens at it? */
enum fault fault_at(enum level level);
/* Let fn be called when the reply of a request has been lost, once; fault_lost() calls it. */
void fault_print(void (*fn)(void *user), void *user);
void fault_lost(void);

/* The end of this process. */
_Noreturn void fault_die(void);

/* The function that ours of this name stands before, into the pointer at out. */
void find_real(const char *name, void *out, size_t size);
/* Allocations that were not given back. */
long memory_live(void);

#endif
