#ifndef SQLOCK_VERBS_COMPARE_H
#define SQLOCK_VERBS_COMPARE_H

#include <sqlock/cas.h>

#include "core/transaction/table.h"

/* A statement that changes a row of the application's if a column of it allows that: its version,
 * or its fence. The dialect's blocks decide, on the locked row; this walks through their steps. */
struct compare {
    sqlock_conn *conn;
    const sqlock_row *row;
    const char *column;
    sqlock_value expected;
    const sqlock_column *set;
    size_t n_set;
    sqlock_value token; /* of a fence */
    sqlock_value start; /* version of a row that has none */
    int64_t deadline;
    struct table table;

    /* What the last answer with a row said. */
    int outcome;        /* SQLOCK_OUT_NONE: no row, or it was only looked at */
    sqlock_value there; /* 1: there was one */
    sqlock_value found;
};

/* Arguments, transaction and catalogue: 0, and it can be asked with. */
int compare_open(struct compare *c, sqlock_error *err);
/* Ask with a block, until a step of it tells an outcome. Who is busy is waited for. */
int compare_ask(struct compare *c, sqlock_stmt block, sqlock_error *err);

#endif
