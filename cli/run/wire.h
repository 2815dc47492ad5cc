/* Messages between locker and guardian, one struct in each packet. The end of the stream means that
 * the other one is dead. */
#ifndef SQLOCK_CLI_RUN_WIRE_H
#define SQLOCK_CLI_RUN_WIRE_H

#include <stdint.h>

#include "cli/run/plan.h"

enum order_kind {
    ORDER_START = 1,    /* the lock is held: start the command */
    ORDER_DEADLINE = 2, /* the lock is ours until this time, by the last reply */
    ORDER_SIGNAL = 3,   /* pass on this signal */
    ORDER_STOP = 4,     /* the lock is lost: stop the command now */
    ORDER_RESIGN = 5    /* the leader is to resign: stop the command, the lock is still held */
};

struct order {
    int32_t kind;
    int32_t signal;
    int64_t deadline_us; /* of sqlock_now_us() */
    int32_t n;           /* ORDER_START: of these, in the order of the plan's names */
    struct order_grant {
        int64_t token;
        int64_t slot;   /* as sqlock_lock_slot() */
        char owner[40]; /* as text */
    } grants[PLAN_NAMES];
};

enum report_kind {
    REPORT_STARTED = 1,
    REPORT_NOT_STARTED = 2, /* value: errno */
    REPORT_STOPPED = 3,     /* value: the signal that stopped the command (Ctrl-Z) */
    REPORT_ENDED = 4        /* value: its status, as of waitpid(); nothing of it is alive */
};

/* Why the guardian ended the command. */
enum cause {
    CAUSE_NONE = 0,     /* the command ended by itself */
    CAUSE_DEADLINE = 1, /* no renewal came in time */
    CAUSE_LOST = 2,     /* the locker said that the lock is lost */
    CAUSE_MAX_TIME = 3,
    CAUSE_ALONE = 4,   /* the locker died */
    CAUSE_RESIGNED = 5 /* the locker said that the leader is to resign */
};

struct report {
    int32_t kind;
    int32_t value;
    int32_t cause;
    int32_t ended_by_us; /* 1: the command was running when we stopped it */
    int32_t left_behind; /* processes that the command had left behind when it ended */
};

#endif
