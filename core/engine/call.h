#ifndef SQLOCK_ENGINE_CALL_H
#define SQLOCK_ENGINE_CALL_H

#include "core/engine/manager.h"
#include "core/sql/rows.h"

/* What the database said to one request. */
struct answer {
    int outcome;                     /* sqlock_outcome */
    int64_t token, left, since, now; /* 0 where it said none; left: INT64_MIN */
    char label[LABEL_MAX + 1];
    int64_t sent, received; /* our clock: before the request, after the answer */
    int64_t server;         /* which one it came from (sqlock.server) */
};

/* Run a request n times on c, and note the server's clock. out_sent, if not NULL: when it was sent.
 * op, if not NULL, may cancel it. On error the flags tell the connection's fate (SQLOCK_RECONNECT)
 * and the request's (SQLOCK_MAYBE). */
int call_rows(sqlock *m, struct conn *c, sqlock_op *op, sqlock_stmt stmt,
              const sqlock_value *values, size_t n, int64_t deadline, sqlock_rows *rows,
              int64_t *out_sent, sqlock_error *err);
/* The same for one request with one answer; no row is SQLOCK_OUT_NONE. */
int call_one(sqlock *m, struct conn *c, sqlock_op *op, sqlock_stmt stmt, const sqlock_value *values,
             int64_t deadline, struct answer *out, sqlock_error *err);
/* Row number `row` as an answer. */
void answer_read(const sqlock_rows *rows, size_t row, struct answer *out);

/* Who holds the lock, by an answer that tells a held row; its label as it can be shown. */
void answer_holder(const struct answer *a, sqlock_holder *out);

sqlock_value value_int(int64_t i);
sqlock_value value_bytes(const void *data, size_t len);

/* From when, by our clock, an answer's lease counts: before the request was sent, and not later
 * than the server's clock showed the answer's time by all that is known of it now; so a grant from
 * before a jump of that clock is not counted in full. m->mu is held. */
int64_t call_counts_from(const sqlock *m, const struct answer *a);

/* `deadline` in the server's clock: what runs later must do nothing. */
int64_t call_not_after(sqlock *m, int64_t deadline);

/* Why a lock is lost, for the outcomes that say so; SQLOCK_WHY_NONE for the others. token: its own,
 * as far as the database has said so; 0. */
sqlock_why answer_why(const struct answer *a, int64_t token);

#endif
