/* Processes that work for the demo, and the temporary folder that they work in. */
#ifndef DEMO_CREW_H
#define DEMO_CREW_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#define CREW_MAX         8
#define CREW_PATIENCE_MS 60000 /* for one sale; it takes a few seconds */

/* What a worker tells about itself, in memory that it shares with the parent: it outlives a kill.
 */
struct crew_note {
    atomic_int ready;      /* has opened the database */
    atomic_int orders;     /* answered, with a unit or without */
    atomic_int fenced;     /* tries that the fencing token stopped */
    atomic_int conflicts;  /* tries that saw that others had been quicker */
    atomic_int retries;    /* tries that were made once more, for that or for the database's sake */
    atomic_int longest_ms; /* for one order, waiting for the lock included */
};

struct crew {
    int size;
    pid_t pid[CREW_MAX];    /* 0: has ended */
    int status[CREW_MAX];   /* of waitpid(), once it has ended */
    struct crew_note *note; /* [CREW_MAX], shared */
    atomic_int *go;         /* shared: set when all are ready */
    atomic_int *stuck;      /* shared: 1 + the worker whose order hangs; 0 before */
};

typedef void (*crew_work_fn)(struct crew *c, int me, const char *path);

/* End the program with a message: a worker alone, or the parent with all that it started. */
void die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

void pause_ms(int ms); /* in the parent it ends the program if somebody wants it to */
int64_t now_ms(void);

/* Make a temporary folder, removed with its files when the program ends. Returns a file name in it.
 */
const char *crew_folder(void);
/* Fork size processes that call work() and end, and let them start all at once. No connection to a
 * database may be open here: neither SQLite's nor a manager survives a fork. */
void crew_start(struct crew *c, int size, crew_work_fn work, const char *path);
/* In a worker: ready; wait for the others. */
void crew_wait_go(struct crew *c, int me);
void crew_kill(struct crew *c, int worker); /* kill -9, and wait until it is gone */
/* Wait until all have ended. Returns how many ended in another way than by returning from work(),
 * but for the one of crew_kill(). */
int crew_wait_end(struct crew *c);

#endif
