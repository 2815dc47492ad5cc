#ifndef SQLOCK_TRANSACTION_COMPARE_H
#define SQLOCK_TRANSACTION_COMPARE_H

#include <sqlock/cas.h>

#include "core/transaction/table.h"

/* A statement that changes a row of the application, if a column allows it: its version, or its
 * fence. The dialect's blocks decide, on the locked row. This walks through their steps. */
struct compare {
    sqlock_conn *conn;
    const sqlock_row *row;
    const char *column;
    sqlock_value expected;
    const sqlock_column *set;
    size_t n_set;
    sqlock_value token; /* for a fence */
    sqlock_value start; /* the first version of a row that has none */
    int64_t deadline;
    struct table table;

    /* What the last answer with a row said. */
    int outcome;        /* SQLOCK_OUT_NONE: no row, or only looked at */
    sqlock_value there; /* 1: there was a row */
    sqlock_value found;
};

/* Check arguments, transaction and catalogue. After 0, compare_run() may follow. */
int compare_open(struct compare *c, sqlock_error *err);
/* Run the steps of a block until one has an outcome. Waits while the row is busy. */
int compare_run(struct compare *c, sqlock_stmt block, sqlock_error *err);

#endif
