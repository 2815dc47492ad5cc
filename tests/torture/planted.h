/* Histories by hand, as text, for the tests of the checker. A file *.cases beside it holds them,
 * and what the checker is to find in each:
 *
 *     # a remark
 *     grant within the span of another is found
 *         1 acquire 0-10 #1; 2 acquire 850-899 #2
 *         => OVERLAP
 *
 * The name of a case begins its line, and is the name of its test. Events are: who (a thread of
 * process 1, p3: the only one of process 3, or the cell), the verb's word, from-to in milliseconds
 * (without the second: it was never answered), and in any order
 *
 *     #5               its token
 *     n1               its name, which is n0 else
 *     until 900        its deadline; of a grant this is 900 ms after it was asked for, if not told
 *     commit 50        the same field of a guarded write
 *     =3               its value; some have words, and so have outcomes (planted.c)
 *     x20/5            20 of them, one each 5 ms; then #5+ is a token that rises with each
 *
 * A lease is a second, of which 900 ms are usable. Further lines:
 *
 *     rows guarded 1 token 2   what the rows of n0 hold at the end (row, version, changes); else 0
 *     rules min_grants 2       what else is asked of the history (min_rate, min_faults, engine)
 *     => OVERLAP               the rule that is broken, and no other
 *     => OVERLAP and others    ... and maybe others with it
 *     => no OVERLAP            it is not broken
 *     => proved                nothing is found, and nothing said
 *
 * Behind that may stand, each with a semicolon before it: a number of the verdict (`rate 2`), and
 * what is said (`"these words"`; `"these words" x3`: so often). More may happen after it. */
#ifndef SQLOCK_TESTS_TORTURE_PLANTED_H
#define SQLOCK_TESTS_TORTURE_PLANTED_H

#include "tests/torture/check.h"

enum { PLANTED_MOST = 128, PLANTED_NAMES = 2 };

struct planted {
    struct event events[PLANTED_MOST]; /* in the order of the lines */
    int64_t n;
    struct check_row rows[PLANTED_NAMES];
    struct check_rules rules;
    char engine[32];
};

/* Nothing has happened yet. */
void planted_begin(struct planted *p);
/* What a line says that is no verdict. NULL, or the word of it that is not understood; the line is
 * cut into words. */
const char *planted_line(struct planted *p, char *line);

#endif
