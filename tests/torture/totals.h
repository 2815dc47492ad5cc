/* What cells have proved, added up over many runs: a file with one line for each cell. */
#ifndef SQLOCK_TESTS_TORTURE_TOTALS_H
#define SQLOCK_TESTS_TORTURE_TOTALS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

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
    X(late)    /* of them: guarded writes that were accepted although others had the lock */       \
    X(refused) /* guarded writes that were refused because others had been granted the lock */     \
    X(clock_steps)                                                                                 \
    X(violations)

/* Columns that came later: lines that were written before end without them, and mean 0. overlaps:
 * of holders, where commits were lost, which is no violation. */
#define TOTALS_LATER(X) X(overlaps)

struct total {
    char date[24], engine[24], version[96], fault[24];
#define TOTALS_FIELD(name) int64_t name;
    TOTALS_NUMBERS(TOTALS_FIELD)
    TOTALS_LATER(TOTALS_FIELD)
#undef TOTALS_FIELD
    int64_t cells; /* of a sum */
};

/* Append a line; false, and why on stderr, if that failed. Several may append at once. */
bool totals_append(const char *path, const struct total *t);
/* A cell that could not be had: a line that begins with "skip". */
bool totals_append_skip(const char *path, const char *engine, const char *fault, const char *why);

struct totals {
    struct total *lines;
    size_t n;
};

/* All cells of a file; one that is not there has none. False: a line cannot be read. */
bool totals_read(const char *path, struct totals *out);
void totals_free(struct totals *t);
/* The sum of an engine's and a fault's; NULL: of all. */
struct total totals_sum(const struct totals *t, const char *engine, const char *fault);
/* The table of engines and faults with the sums against the bar, as Markdown. */
bool totals_report(const char *path, FILE *out);

#endif
