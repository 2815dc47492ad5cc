/* What the tests of SQLite files share. */
#ifndef SQLOCK_TESTS_INPUT_FILE_H
#define SQLOCK_TESTS_INPUT_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "tests/lib/check.h"

/* A child's result: what the test is about cannot be done on this machine. */
enum { NOT_HERE = 77 };

/* dir/name; free() it. */
char *path_in(const char *dir, const char *name);
/* The path of a new, migrated file in a folder of its own; free() it. */
char *new_migrated(void);
/* Of a path. Lives until the next call. */
const char *url_of(const char *path);

/* The library's answers, *err cleared before. */
int open_file(const char *path, sqlock **out_m, sqlock_error *err);
int try_open(const char *path, sqlock_error *err);
int try_migrate(const char *path, sqlock_error *err);
int try_acquire(sqlock *m, const char *name, int32_t wait_ms, sqlock_lock **out_lock,
                sqlock_error *err);
/* Acquire, renew and release with a manager of its own. */
void use(const char *path);

void write_file(const char *path, const void *data, size_t len);
char *read_file(const char *path, size_t *out_len);
/* Run SQL past the library. */
void sql(const char *path, const char *text);

#endif
