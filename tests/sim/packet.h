/* What the network and the server share: links, and packets on their way. */
#ifndef SQLOCK_TESTS_SIM_PACKET_H
#define SQLOCK_TESTS_SIM_PACKET_H

#include "core/sql/rows.h"
#include "tests/sim/sim.h"

/* A connection, as its client has it. */
struct wire {
    struct link in_process;
    struct process *process;
    int64_t server_start; /* of the server at its other end */
    bool cut;             /* the client learns of it by its next request; */
    bool silent;          /* or by no answer */
    bool dead;            /* it knows */
    uint64_t cancelled;   /* the number of a call */
    struct packet *sent;  /* the request under way; also while its call pauses */
};

/* A request on its way, and the answer on its way back. It outlives its client. */
struct packet {
    int happenings;    /* of the future that name it */
    struct wire *wire; /* NULL: no one waits for the answer any more */
    struct process *process;
    uint32_t number; /* of the process at that time */
    int64_t server_start;
    bool lost_reply, silent, refused, again, ran, arrived;
    int64_t back_us;
    sqlock_stmt stmt;
    size_t n;
    int rc;
    sqlock_error err;
    sqlock_rows rows;
    sqlock_value values[];
};

/* One way, as long as it takes in this weather. */
int64_t one_way(void);
/* The caller's values end with its call: they are copied. */
struct packet *packet_new(struct wire *w, sqlock_stmt stmt, const sqlock_value *values, size_t n);
/* All that will become of it is drawn here. */
void packet_send(struct packet *p);
/* The client waits no more. */
void packet_leave(struct packet *p);
/* A happening of a packet is over: the last one may free it. */
void packet_happened(void *packet);
/* In server.c: the request has come. What comes twice has one answer, the first. */
void server_runs(struct packet *p);
void server_runs_again(struct packet *p);

#endif
