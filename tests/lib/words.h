/* What an error says, and why a test is left out. */
#ifndef SQLOCK_TESTS_LIB_WORDS_H
#define SQLOCK_TESTS_LIB_WORDS_H

#include "tests/lib/check.h"

/* The error's text has these words. */
#define assert_says(err, words) check_says((err), (words), __FILE__, __LINE__)
/* It has not: it is a secret. */
#define assert_silent(err, secret) check_silent((err), (secret), __FILE__, __LINE__)
/* A call that fails with a code, and says why. */
#define assert_error(code, words, call, err)                                                       \
    do {                                                                                           \
        assert_code((code), (call), (err));                                                        \
        assert_says((err), (words));                                                               \
    } while (0)

void check_says(const sqlock_error *err, const char *words, const char *file, int line);
void check_silent(const sqlock_error *err, const char *secret, const char *file, int line);

/* What is tested cannot be done here: a loud skip; with STRICT=1 a failure. */
void skip_loudly(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Skips the test where the driver was not built, or is left out. */
void need_driver(const char *name);

#endif
