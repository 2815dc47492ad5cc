/* A cell: one engine, one kind of fault, one seed. It starts a database of its own and clients on
 * it, lets them work in peace, hurts them, lets them recover, looks at what is left, and has the
 * history checked. */
#ifndef SQLOCK_TESTS_TORTURE_CELL_H
#define SQLOCK_TESTS_TORTURE_CELL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/lib/dice.h"
#include "tests/lib/proxy.h"
#include "tests/torture/check.h"
#include "tests/torture/engine.h"
#include "tests/torture/history.h"
#include "tests/torture/totals.h"

enum {
    CELL_CLIENTS = 5,
    CELL_NAMES = 6,
    CELL_FREEZES = 512,
    CELL_EVENTS_MIN = 10,
    CELL_FAILOVERS_MIN = 4, /* of cells with several servers: each takes seconds */
    CELL_GRANTS_MIN = 1000,
    CELL_OTHERS = 2,             /* servers beside the primary */
    CELL_COMMAND_LEASE_MS = 1000 /* of clients that run the command, who need longer ones */
};

struct client {
    pid_t pid; /* 0: none */
    uint32_t process;
    bool command;
    int side; /* the server that it was started on: V_SIDE */
};

/* short.c: the short form of all, as a cmocka program. */
int short_main(void);

struct fault_kind;

struct cell {
    const struct engine_kind *kind;
    const struct fault_kind *fault;
    uint64_t seed;
    int32_t seconds; /* of the clients' work */
    int32_t share;   /* so many cells share the machine: the rate that is asked of each */
    /* All else is for cell_run(). */
    int32_t lease_ms;

    struct dice dice;
    struct engine engine;              /* the primary, of several servers */
    struct engine others[CELL_OTHERS]; /* followers, or dead */
    int side;                          /* promotions so far, and one: for V_SIDE */
    int64_t token;                     /* the largest when the primary was promoted */
    int64_t promoted_us, longest_us;   /* when that was; from there to the first grant */
    pid_t haproxy;
    struct proxy *proxy; /* NULL: clients reach the database directly */
    char folder[256];    /* of the history */
    struct client clients[CELL_CLIENTS];
    uint32_t processes; /* that were started so far */
    int history;
    struct event now; /* the fault that is going on */
    int events;       /* faults so far */
    struct check_freeze freezes[CELL_FREEZES];
    int n_freezes;
    char problem[600]; /* the first thing that went wrong; "" */

    struct check_verdict verdict;
};

#define CELL_BROKE 78

/* Run it; 0: proved. 1: violated, or the cell did not work; what is known is on `say`. 77: it
 * cannot be had here, for the reason that is said. CELL_BROKE: its clock has hurt the server, and
 * what was found says nothing; run it again. *out, for the totals, is filled with 0 and with
 * 1 for violations (out->date is "" if there is nothing to add). */
int cell_run(struct cell *c, struct total *out, FILE *say);

/* ---- for faults ------------------------------------------------------------------------------ */

/* The fault begins and is over, for the history. */
void cell_hurt(struct cell *c);
void cell_hurt_by(struct cell *c, int64_t harm); /* in place of the kind's own */
void cell_healed(struct cell *c);
/* Something is wrong that no fault explains. */
void cell_problem(struct cell *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A random time, evenly between the two. */
void cell_nap(struct cell *c, int32_t least_ms, int32_t most_ms);
/* One of the clients, by chance. */
struct client *cell_victim(struct cell *c);
/* The latest thing that it began (asks) or was answered with 0. */
bool cell_client_is_at(const struct cell *c, const struct client *who, bool asks, int verb);
void cell_client_start(struct cell *c, struct client *who);
/* With -9; it may have been stopped. */
void cell_client_kill(struct client *who);
/* Start a line of the shell, or this program again with these words. It ends with the cell. */
pid_t cell_shell(struct cell *c, const char *line);
pid_t cell_again(struct cell *c, const char *words, const char *err_path);

/* ---- cell_clients.c -------------------------------------------------------------------------- */

/* All of them, until each has asked for something; false: one does not. */
bool cell_clients_start(struct cell *c);
/* One that ended by itself was told something that nothing explains: that is a problem. */
void cell_clients_look_after(struct cell *c);
/* Ask all to end, and wait for them; one that does not, or that failed, is a problem. */
void cell_clients_end(struct cell *c);

/* ---- cell_sweep.c ---------------------------------------------------------------------------- */

/* After the clients: each name can be had, nothing is held, and nobody is connected. */
void cell_sweep(struct cell *c);

/* ---- followers.c ----------------------------------------------------------------------------- */

/* Servers that follow one another: pairs and triples, all of the cell's own. The cell's engine is
 * the primary; the others are copies of it, which follow it until one of them is promoted. */

/* Make all that the cell's kind of fault wants, and let them follow. False: it is told. */
bool followers_start(struct cell *c);
void followers_stop(struct cell *c);
/* From now on nothing reaches the others that the primary commits. */
void followers_stall(struct cell *c);
/* others[i] is promoted, or started again as the primary that it was when it died, and becomes
 * c->engine; which becomes others[i]. */
void followers_promote(struct cell *c, int i);
void followers_fail_back(struct cell *c, int i);
/* others[i], which is dead, becomes a copy of the primary and follows it. */
void followers_rebuild(struct cell *c, int i);
/* haproxy before them, if the fault wants it; clients use it then. False: told or c->engine.why. */
bool front_start(struct cell *c);
void front_stop(struct cell *c);
/* Until somebody has been granted a lock by the new primary; nobody is for long: a problem. */
void followers_await_grant(struct cell *c);

#endif
