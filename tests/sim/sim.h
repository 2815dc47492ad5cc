/* The simulation: the real engine over a machine, a network and a server that are all made of one
 * seed, in one thread of the operating system. A world is one seed, from its begin to its verdict.
 * There is one at a time. */
#ifndef SQLOCK_TESTS_SIM_SIM_H
#define SQLOCK_TESTS_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include <sqlock/fake.h>

#include "core/base/clock.h"
#include "core/base/list.h"
#include "tests/lib/dice.h"
#include "tests/torture/check.h"

#define SIM_SECOND INT64_C(1000000)
#define SIM_HOUR   (3600 * SIM_SECOND)

enum { SIM_PROCESSES = 4, SIM_HANDS = 10 };
enum { SIM_SHARED = 0, SIM_SLOTS = 1 }; /* names that several may hold at a time, in later worlds */

/* A process of a client. When it is killed, all that it has is gone. */
struct process {
    uint32_t number; /* in the history; a new start gets a new one */
    bool alive;
    int64_t paused_until;               /* its tasks do not run, and its clock goes on */
    int64_t busy_until;                 /* its tasks are kept waiting at any point */
    int64_t deaf_until;                 /* no answer reaches it */
    int64_t mute_until;                 /* none of its requests reaches the server */
    int64_t calm_since;                 /* it was neither paused nor busy since then */
    struct link memory, handles, wires; /* of the library in it */
    struct crew *crew;                  /* what the application keeps in it (client.c) */
};

/* ---- tasks (tasks.c) ------------------------------------------------------------------------- */

/* What a thread is here: a stack to which the scheduler switches. */
struct task;

/* process NULL: it belongs to the simulation, and is never paused or killed. */
struct task *task_start(struct process *process, void *(*body)(void *arg), void *arg);
/* NULL: the scheduler itself, which lets events happen. */
struct task *task_me(void);
struct process *task_process(void);
/* Sleep until one of two things is woken (either may be NULL), or until then. */
void task_wait(const void *on, const void *or_on, int64_t until);
void task_sleep(int64_t us);
/* All that sleep on it go on, in an order that the seed decides. */
void task_wake(const void *on);
/* Others may run now, or this one is kept waiting, as the seed decides. */
void task_may_switch(void);
void task_join(struct task *task);
bool task_is_over(const struct task *task);
/* The tasks of a process are gone, wherever they are. */
void tasks_kill(const struct process *process);

/* Something happens at a time. It must not wait. */
void event_at(int64_t at, void (*happen)(void *arg), void *arg);
/* Run until no task is left. False: all sleep for ever; stderr has where. */
bool tasks_run(void);
/* Forget what is still to happen: `forget` is called for each event's argument. */
void tasks_reset(void (*forget)(void *arg));

/* ---- the machine (machine.c): what stands for core/base -------------------------------------- */

void machine_begin(struct process *process);
/* Take back what the process has. Returns how many pieces of memory and descriptors that were. */
long machine_end(struct process *process);
/* The clock of the server, in microseconds since 1970. */
int64_t machine_server_clock(void);

/* ---- the network (network.c) ----------------------------------------------------------------- */

/* Chances are of 1000. */
struct weather {
    int lose_request, lose_reply, late, twice, refuse;
    int silent;                /* of what is lost: no one notices before a deadline */
    int64_t least_us, most_us; /* one way */
    int64_t late_us;           /* what is late is so much later, at most */
};

const sqlock_driver *network_driver(void);
/* For connect: user is the process. The driver makes the connection itself. */
int network_connect(void *user, void **out_native, sqlock_error *err);
/* All links break; silently: the clients learn of it by their deadlines. */
void network_breaks(bool silently);
/* Whoever uses a link that is broken learns of it. */
void network_heals(void);
/* The process has died, and its links with it. What it has sent goes on. */
void network_drop(struct process *process);
long network_links(const struct process *process);

/* ---- the server (server.c) ------------------------------------------------------------------- */

bool server_begin(void);
void server_end(void);
/* With all links. */
void server_crash(bool silently);
/* Another server takes over, without the last commits. */
void server_failover(void);

/* ---- clients and faults ---------------------------------------------------------------------- */

void client_start(struct process *process); /* client.c */
void client_kill(struct process *process);
void *faults_main(void *none); /* faults.c: a task */

/* ---- what happened (record.c) ---------------------------------------------------------------- */

/* Before a request; returns its place in the history. And its answer. */
int64_t record_invoke(struct event *e);
void record_return(int64_t at, struct event *e);
void record_end(void);
/* Since it was sent, no fault was there, nor the time after one. */
bool record_in_peace(const struct event *e);
/* A rule of the simulation's own is broken. */
void record_breach(const struct event *e, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Part of the trace. */
void trace(char what, int64_t a, int64_t b);

/* ---- the world (world.c) --------------------------------------------------------------------- */

struct world {
    uint64_t seed;
    int64_t now;        /* by the clock of all clients */
    int64_t end;        /* no fault begins after that */
    bool over;          /* clients begin nothing any more */
    struct dice chance; /* what the scheduler, the network and the library draw from */
    uint64_t trace;     /* a hash of all that happened */
    int64_t steps;      /* and how much that was */
    int64_t requests;   /* that the server ran */
    int64_t batched;    /* and those of them that came together with others */
    int switch_one_in;  /* of the points where a task may be left */
    int64_t think_us;   /* between what a task does */
    uint32_t names, n_processes, next_number;
    bool shares; /* the first name may be shared */
    bool kinds;  /* and its mode be changed; the second name has slots */
    int slots;   /* so many */
    bool lists;  /* two names may be taken at once */
    int32_t lease_most_ms, grace_ms;

    sqlock_fake *db;
    void *session;         /* the server's own connection to it */
    int64_t server_offset; /* of the server's clock */
    int64_t server_ppm;    /* and what it gains */
    int64_t down_until, frozen_until;
    int64_t server_start; /* links of an earlier start are dead */
    int64_t replaced_us;  /* when the last server took over */
    struct weather weather, calm;

    struct process processes[SIM_PROCESSES];
    int64_t trouble_until; /* from then on there is peace; TIME_NEVER: a fault is not healed */

    struct event *events;
    int64_t n_events, room;
    long breaches;
};

extern struct world world;

struct sim_result {
    int64_t steps, requests, batched, events;
    uint64_t trace;
    long breaches;
    struct check_verdict verdict;
};

/* One world of a seed, for so long. False: a rule was broken, which stderr explains. */
bool sim_run(uint64_t seed, int64_t length_us, struct sim_result *out);

static inline int64_t chance_between(int64_t low, int64_t high)
{
    return dice_between(&world.chance, low, high);
}

static inline bool chance_of(int of_1000)
{
    return of_1000 > 0 && (int)dice_below(&world.chance, 1000) < of_1000;
}

#endif
