/* Histories by hand, for the tests of the checker: some events, and what is found in them. Times
 * are in milliseconds; a lease is a second, of which 900 are usable. */
#ifndef SQLOCK_TESTS_TORTURE_PLANTED_H
#define SQLOCK_TESTS_TORTURE_PLANTED_H

#include "tests/torture/check.h"

#define NO_ANSWER (-1) /* a time */

extern struct planted {
    struct event events[64];
    int n;
    uint32_t name;
    struct check_row rows[4];
    struct check_rules rules;
    struct check_verdict v;
    char *said;
    size_t said_len;
} planted;

/* Of each test: nothing has happened yet. */
int planted_begin(void **state);
int planted_end(void **state);

/* ---- what happened ----------------------------------------------------------------------------
 */

/* What a thread asked from..to, about planted.name; to may be NO_ANSWER. It can be changed until it
 * is checked, which sorts them. */
struct event *planted_ask(uint32_t thread, int64_t from, int64_t to, int verb, int outcome,
                          int64_t token);
/* It was said yes, with a deadline. */
struct event *planted_until(uint32_t thread, int64_t from, int64_t to, int verb, int64_t token,
                            int64_t deadline);
struct event *planted_value(uint32_t thread, int64_t from, int64_t to, int verb, int outcome,
                            int64_t token, int64_t value);
/* Granted for 900 ms from when it was asked for, to one or to who shares it; released; committed
 * under a guard. */
struct event *planted_grant(uint32_t thread, int64_t from, int64_t to, int64_t token);
struct event *planted_share(uint32_t thread, int64_t from, int64_t to, int64_t token);
/* A client asked for it, and was killed before it was answered: what it was granted nobody else
 * tells. */
void planted_killed(int64_t from);
struct event *planted_release(uint32_t thread, int64_t from, int64_t to, int64_t token);
struct event *planted_guarded(uint32_t thread, int64_t from, int64_t to, int64_t token,
                              int64_t value);
/* So many may hold planted.name at a time. */
void planted_slots(int64_t slots);
/* value: of V_FAULT. */
struct event *planted_fault(int64_t from, int64_t to, int64_t value);
/* What the rows of n0 hold at the end. */
void planted_rows(int64_t guarded, int64_t token, int64_t row, int64_t version);

/* ---- what is found ----------------------------------------------------------------------------
 */

/* Check it: planted.v is the verdict, planted.said what was said. */
void planted_check(void);
/* It is proved, and nothing is said. */
void assert_proved(void);
/* A breach of this rule is found, and of no other; and told with seed and folder. */
void assert_breach(int rule);
/* It is found, and maybe others that go with it. */
void assert_found(int rule);

#endif
