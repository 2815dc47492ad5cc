/* The short form of the cells, as tests: eight kinds of faults on each of three databases, which
 * work at the same time, and the bar that their sums are to reach. */
#ifndef SQLOCK_TESTS_TORTURE_SHORT_H
#define SQLOCK_TESTS_TORTURE_SHORT_H

/* All of it, as a cmocka program. */
int short_main(void);
/* `lane DRIVER FOLDER`: the cells of one database, one after the other, each by a process of its
 * own. For each it leaves FOLDER/ENGINE-FAULT.log and .rc, and its line in FOLDER/totals.tsv. */
int short_lane(const char *driver, const char *folder);

#endif
