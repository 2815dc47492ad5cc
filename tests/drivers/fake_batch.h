/* A crowd of callers in front of one connection to the fake database. */
#ifndef SQLOCK_TESTS_DRIVERS_FAKE_BATCH_H
#define SQLOCK_TESTS_DRIVERS_FAKE_BATCH_H

#ifdef TEST_HAVE_FAKE
#include "tests/drivers/fake_network.h"

enum { MEMBERS = 8, TIME_MS = 20000 };

/* The driver. A shut gate keeps the connection busy with the first request that comes. */
extern struct gate {
    atomic_int shut, entered;
    atomic_int fail_batches; /* with this code; 0: none */
    atomic_int fail_flags;
    atomic_int drop_rows;  /* every second member of a batch has no answer */
    atomic_int hang_ms;    /* of the next batch, before its answer */
    atomic_int hold, held; /* the answers of batches: they have come, but core does not know yet */
    atomic_int unsorted;   /* a batch was not in the order of names */
    char poison[8];        /* a request with this name fails, alone or with others */
} gate;

struct caller {
    pthread_t thread;
    sqlock *m;
    char name[8];
    sqlock_acquire_opts opts;
    sqlock_lock *lock;
    sqlock_holder holder;
    sqlock_error err;
    int code;
    int64_t ended;
    bool joined;
};

extern struct crowd {
    sqlock *m;
    struct caller first, callers[MEMBERS];
} crowd;

/* A manager with one connection for calls, and one for renewals. */
void begin_crowd(struct world *w);
/* The first request is on its way, and all others wait behind it, in their order. */
void gather(void);
size_t n_waiting(sqlock *m); /* for a connection */
/* Their requests end, and their threads. */
void let_through(void);
void start_caller(struct caller *c);
void end_caller(struct caller *c);

#define assert_granted(c) check_granted((c), __FILE__, __LINE__)
void check_granted(const struct caller *c, const char *file, int line);
void check_others_granted(int but);
/* What was granted has this token in the database too. */
void assert_token_is_the_rows(const struct caller *c);

#endif
#endif
