/* What cells have proved: a file with one line for each. totals.awk makes RESULTS.md of it. */
#ifndef SQLOCK_TESTS_TORTURE_TOTALS_H
#define SQLOCK_TESTS_TORTURE_TOTALS_H

#include <stdbool.h>
#include <stdint.h>

/* Columns of the file, which are separated by tabs, in this order behind the date, the engine, its
 * version and the fault. */
#define TOTALS_NUMBERS(X)                                                                          \
    X(seed)                                                                                        \
    X(seconds)                                                                                     \
    X(operations)                                                                                  \
    X(grants)                                                                                      \
    X(events)                                                                                      \
    X(unsure)  /* replies that were lost */                                                        \
    X(settled) /* of them: what became of it was found out */                                      \
    X(frozen)  /* holders that were stopped past their lease */                                    \
    X(late)    /* writes, and other uses, of grants that had ended: violations, too */             \
    X(refused) /* guarded writes that were refused because others had been granted the lock */     \
    X(clock_steps)                                                                                 \
    X(violations)                                                                                  \
    X(overlaps) /* of holders, where commits were lost, which is no violation */

struct total {
    char date[24], engine[24], version[96], fault[24];
#define TOTALS_FIELD(name) int64_t name;
    TOTALS_NUMBERS(TOTALS_FIELD)
#undef TOTALS_FIELD
    int64_t cells; /* of a sum */
};

/* Append a line; false, and why on stderr, if that failed. Several may append at once. */
bool totals_append(const char *path, const struct total *t);
/* A cell that could not be had: a line that begins with "skip". */
bool totals_append_skip(const char *path, const char *engine, const char *fault, const char *why);
/* Add up the numbers of an engine's and a fault's cells; NULL: of any. A file that is not there has
 * none. False: a line is cut. */
bool totals_sum(const char *path, const char *engine, const char *fault, struct total *out);

#endif
