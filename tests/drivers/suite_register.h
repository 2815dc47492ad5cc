/* Steps on versioned registers, which tests of them share. */
#ifndef SQLOCK_TESTS_DRIVERS_SUITE_REGISTER_H
#define SQLOCK_TESTS_DRIVERS_SUITE_REGISTER_H

#include <sqlock/register.h>

#include "tests/drivers/suite.h"

#define NAME "config"

/* The version; value, if not NULL, is what must be in it. */
int64_t read_register(sqlock *m, const char *name, const char *value);
int set_register_code(sqlock *m, const char *name, const char *value, int64_t expected,
                      int64_t *version, sqlock_error *err);
/* The new version. */
int64_t set_register(sqlock *m, const char *name, const char *value, int64_t expected);
/* It is the version behind that one. */
void assert_next(const struct world *w, int64_t version, int64_t before);
/* It is refused, without an error, by somebody else's version. */
void register_conflicts(sqlock *m, const char *name, int64_t expected, int64_t there);

#endif
