/* What the tests of SQLite files share. Paths live to the end of the program. */
#ifndef SQLOCK_TESTS_INPUT_FILE_H
#define SQLOCK_TESTS_INPUT_FILE_H

#include "tests/lib/db.h"
#include "tests/lib/lite.h"
#include "tests/lib/words.h"

/* A child's result: what the test is about cannot be done on this machine. */
enum { NOT_HERE = 77 };

/* Run fn(arg) in a child, which must return 0; NOT_HERE skips the test, and says why. */
void in_child(int (*fn)(void *), const void *arg);
void in_child_or_skip(int (*fn)(void *), const void *arg, const char *why);

/* The path of a new, migrated file in a folder of its own. */
char *new_migrated(void);
/* The same with a rollback journal. */
char *new_without_wal(void);
struct db file_db(const char *path);

int try_open(const char *path, sqlock_error *err);
int try_migrate(const char *path, sqlock_error *err);
/* Acquire, renew and release with a manager of its own. */
void use(const char *path);

void write_file(const char *path, const void *data, size_t len);
char *read_file(const char *path, size_t *out_len);

#endif
