/* What a call is made in, and what must be true when it has ended in whichever way. */
#ifndef SQLOCK_TESTS_COUNTED_SCENE_H
#define SQLOCK_TESTS_COUNTED_SCENE_H

#include <sqlock/cas.h>
#include <sqlock/import.h>
#include <sqlock/register.h>
#include <sqlock/retry.h>
#include <sqlock/rows.h>

#include "tests/lib/adopt_app.h"
#include "tests/lib/place.h"
#include "tests/lib/row.h"

enum { LEASE_MS = 30000 };

/* What has to be there before a call. */
#define NEEDS_NOTHING  0x1u /* no manager */
#define NEEDS_BARE     0x2u /* nor a schema: a place of its own */
#define NEEDS_LOCK     0x4u /* s->lock is held */
#define NEEDS_OTHERS   0x8u /* ... by somebody else: s->theirs */
#define NEEDS_APP      0x10u /* s->conn is adopted, with a transaction open that has done something */
#define NEEDS_DEAD     0x20u  /* a row whose lease ran out, and one that is free for long */
#define NEEDS_UNSURE   0x40u  /* s->lock is UNSURE: the reply of its acquire was lost */
#define NEEDS_REGISTER 0x80u  /* the name's register has OLD_VALUE, and the version s->number */
#define NEEDS_SCHEMA   0x100u /* no manager, and a place of its own with a schema */

#define NEEDS_PLACE  0x200u /* a place of its own with a schema, where no other scene has been */
#define NEEDS_GUARDS 0x400u /* a server that tells others of a row's lock: MySQL since 8.0 */
/* What it adds to other calls is the core's alone: on servers it is not tried but at length. */
#define OF_THE_CORE  0x800u
#define NEEDS_QUEUE  0x2000u /* waiters stand in a queue of the database */
#define NEEDS_SECOND 0x1000u /* s->second is held, of a name of its own */

#define OLD_VALUE   "before"
#define OWN_PLACE   (NEEDS_BARE | NEEDS_SCHEMA | NEEDS_PLACE)
#define NO_MANAGERS (NEEDS_BARE | NEEDS_SCHEMA)

struct call;

struct scene {
    const struct quirks *q;
    const struct call *call;
    const sqlock_driver *driver; /* the faulty one */
    struct place place;
    sqlock_open_opts opts;
    char name[64];  /* of the lock and all else that has one: new for each scene */
    int row;        /* of app_row, which the application has changed; the call's is the next one */
    sqlock *m;      /* its requests fail */
    sqlock *others; /* somebody else's: they do not */
    sqlock_lock *lock, *second, *theirs;
    sqlock_cancel *cancel;
    void *app;
    sqlock_conn *conn;
    const sqlock_error *err; /* of the call, for its check */
    int64_t number;
};

/* A public function with one way to call it. */
struct call {
    const char *name;   /* a sentence's subject: "acquire that waits" */
    const char *covers; /* the public functions */
    unsigned needs;
    int least;     /* requests that it makes, at least */
    int ends_with; /* what it returns where nothing fails */
    /* Make it. */
    int (*make)(struct scene *s, sqlock_error *err);
    /* What its code promises, beyond what is true of all. NULL: nothing. In an application's
     * transaction it is asked when that has ended, committed unless the code forbids it. */
    void (*check)(struct scene *s, int rc);
    /* After the death of a process that was in it; s has others. NULL: nothing. */
    void (*heal)(struct scene *s);
};

/* Each ends with a name of NULL. */
extern const struct call lease_calls[], many_calls[], manager_calls[], adopted_calls[],
    schema_calls[];

/* The database of a group of tests, with the application's table. */
void place_begin(const struct quirks *q, struct place *p);
/* Prepare a call; `number` makes names that are new. */
void scene_begin(struct scene *s, const struct quirks *q, const struct place *p,
                 const struct call *call, int number);
/* The same where only others are wanted: the call was made by a process that is dead. */
void scene_after_death(struct scene *s, const struct quirks *q, const struct place *p,
                       const struct call *call, int number);
/* Is the state as the code says? Everything is asked of the database by others. */
void scene_judge(struct scene *s, int rc, const sqlock_error *err);
/* Let go of everything, releasing nothing. */
void scene_end(struct scene *s);
/* Within one lease somebody else can be granted the lock, with a token above all earlier ones. */
void scene_heal(struct scene *s);

/* ---- driver.c -------------------------------------------------------------------------------- */

/* A driver that hands everything on to the real one, that of these quirks, and fails at the n-th
 * request as fault.h says; one at a time. */
const sqlock_driver *faulty_driver(const struct quirks *q);
/* The connection of the application's that is adopted next. */
void faulty_app(void *app);
/* Connections of the library's own that are open. */
int faulty_open(void);

/* ---- counted.c ------------------------------------------------------------------------------- */

/* A program: all calls, all faults, on one driver. Returns what main() returns. With arguments it
 * is a process that is to be killed. */
int counted_run(const struct quirks *q, int argc, char **argv);
extern const struct call *const call_tables[]; /* then NULL */

/* ---- what calls ask -------------------------------------------------------------------------- */

/* The row is this handle's. */
bool is_ours(struct scene *s, sqlock_lock *lock);
/* A value of app_row, committed: -1 is NULL or no row. */
int64_t app_value(struct scene *s, const char *column, int row);
/* The options of most. */
sqlock_open_opts scene_opts(const struct scene *s);
sqlock_acquire_opts take_opts(int32_t wait_ms);

#endif
