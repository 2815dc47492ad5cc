/* An SQLite connection of the test's own, past the library; a failure fails the test. */
#ifndef SQLOCK_TESTS_LIB_LITE_H
#define SQLOCK_TESTS_LIB_LITE_H

#include <stdint.h>

struct sqlite3;

/* End it with sqlite3_close(). It waits for others for 10 s. */
struct sqlite3 *lite_open(const char *path);
/* Rows are thrown away. lite_number(): the first column of the first row, which is there. */
void lite_exec(struct sqlite3 *db, const char *sql);
int64_t lite_number(struct sqlite3 *db, const char *sql);
/* The same on a connection of its own. */
void lite_exec_at(const char *path, const char *sql);
int64_t lite_number_at(const char *path, const char *sql);

#endif
