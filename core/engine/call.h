#ifndef SQLOCK_ENGINE_CALL_H
#define SQLOCK_ENGINE_CALL_H

#include "core/engine/manager.h"
#include "core/sql/rows.h"

/* The database's answer to one request. */
struct answer {
    int outcome;                     /* sqlock_outcome */
    int64_t token, left, since, now; /* 0 if the answer has none; left: INT64_MIN */
    int64_t sent, received;          /* our clock: before the request, after the answer */
    int64_t server;                  /* the server that answered (sqlock.server) */
    int64_t place;                   /* in the queue; 0: it is not there */
    const sqlock_rows *rows; /* all of it; of an op's answer, until its verb has judged it */
    int has_next;            /* a waiter should look now, or has been granted the lock: next_... */
    char label[LABEL_MAX + 1];
    unsigned char next_client[SQLOCK_OWNER_SIZE], next_owner[SQLOCK_OWNER_SIZE];
    int64_t next_token, next_left; /* of that grant; 0: it is none */
};

/* An owner or a client in a row. Returns 0 if there is none. */
int answer_read_id(const sqlock_rows *rows, size_t row, size_t column,
                   unsigned char id[SQLOCK_OWNER_SIZE]);
/* There is no answer yet. */
void answer_clear(struct answer *a);

/* The one way for a request: run it n times on c until the deadline, note the server's clock, and
 * judge how it ended.
 * - A driver that lacks it is not called. Nor is one for an op that was cancelled.
 * - The answer of a server that another one has replaced fails if that one may not know of it
 *   (SQLOCK_REQ_FORGOTTEN).
 * - A host that has fallen silent, or has become read-only, is left for another one.
 *
 * *out_sent, if out_sent is not NULL: when the request was sent. op, if not NULL, may cancel it.
 * After an error the flags say what became of the connection (SQLOCK_RECONNECT) and of the request
 * (SQLOCK_MAYBE). c need not be of the pool. */
int call_rows(sqlock *m, struct conn *c, sqlock_op *op, sqlock_stmt stmt,
              const sqlock_value *values, size_t n, int64_t deadline, sqlock_rows *rows,
              int64_t *out_sent, sqlock_error *err);
/* The same for one request with one answer. An answer without a row is SQLOCK_OUT_NONE. */
int call_one(sqlock *m, struct conn *c, sqlock_op *op, sqlock_stmt stmt, const sqlock_value *values,
             int64_t deadline, struct answer *out, sqlock_error *err);

/* Wait on c until a notification comes (sqlock_driver.hear), a cancel, or until then. m->mu is
 * held, and is released meanwhile. */
int call_hear(sqlock *m, struct conn *c, int64_t until, sqlock_rows *rows, sqlock_error *err);

struct call {
    sqlock_stmt stmt;
    const sqlock_value *values;
    size_t n;
    int64_t deadline;
    unsigned flags;           /* SQLOCK_CALL_... */
    int64_t sent, received;   /* 0: not sent yet, no answer yet */
    sqlock_rows *rows;        /* the same until the answer has come */
    const sqlock_group *more; /* as in sqlock_call */
    size_t n_more;
};
/* As call_rows(). m->mu is held in this and its parts, and is released while the call is under way.
 */
int call_run(sqlock *m, struct conn *c, sqlock_op *op, struct call *k, sqlock_error *err);

/* The parts of call_run(), for a call that passes from one thread to another. */

/* From now on a cancel reaches the call, unless one came already. */
int call_enter(sqlock *m, struct conn *c, sqlock_op *op, const struct call *k, sqlock_error *err);
/* The same for one that another thread has sent and left. A cancel that came already reaches it,
 * too. */
void call_take_over(sqlock *m, struct conn *c, sqlock_op *op);
/* Send, or go on. Returns SQLOCK_NOT_YET if the call pauses: then either call_stop() follows, or
 * this once more, without SQLOCK_CALL_PAUSES, which ends the call. */
int call_wait(sqlock *m, struct conn *c, struct call *k, sqlock_error *err);
/* This thread leaves a call that pauses to another one. */
void call_stop(struct conn *c, sqlock_op *op);
/* rc: what call_wait() returned. */
int call_leave(sqlock *m, struct conn *c, sqlock_op *op, const struct call *k, int rc,
               sqlock_error *err);

/* Row number `row`, as an answer. */
void answer_read(const sqlock_rows *rows, size_t row, struct answer *out);

/* The holder that an answer about a held row shows, with a label that is fit to print. */
void answer_holder(const struct answer *a, sqlock_holder *out);

static inline sqlock_value value_int(int64_t i)
{
    return (sqlock_value){SQLOCK_INT, i, NULL, 0};
}

static inline sqlock_value value_bytes(const void *data, size_t len)
{
    return (sqlock_value){SQLOCK_BYTES, 0, data, len};
}

/* The time on our clock from which an answer's lease counts. It is before the request was sent. Nor
 * is it later than the answer's time on the server's clock, by all that is known of that clock now.
 * So a grant from before a jump of that clock does not count in full. */
int64_t call_counts_from(const sqlock *m, const struct answer *a);

/* `deadline` on the server's clock. A request that runs later must do nothing. */
int64_t call_not_after(const sqlock *m, int64_t deadline);

/* Why a lock is lost, for outcomes that say so; SQLOCK_WHY_NONE for the others. token: the lock's
 * token as far as the database has confirmed it, or 0. */
sqlock_why answer_why(const struct answer *a, int64_t token);

#endif
