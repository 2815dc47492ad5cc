#include "tests/lib/words.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

void check_says(const sqlock_error *err, const char *words, const char *file, int line)
{
    if (strstr(err->text, words) != NULL)
        return;
    print_error("\"%s\" does not say \"%s\"\n", err->text, words);
    _fail(file, line);
}

void check_silent(const sqlock_error *err, const char *secret, const char *file, int line)
{
    if (strstr(err->text, secret) == NULL)
        return;
    print_error("\"%s\" tells a secret\n", err->text);
    _fail(file, line);
}

char *kept(char *text)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static char **all; /* reachable to the end: they are no leaks */
    static size_t n;

    pthread_mutex_lock(&mutex);
    all = realloc(all, (n + 1) * sizeof *all);
    if (all == NULL || text == NULL)
        abort();
    all[n++] = text;
    pthread_mutex_unlock(&mutex);
    return text;
}

char *textf(const char *format, ...)
{
    char *text = NULL;
    va_list args;

    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    return kept(text);
}

char *random_name(void)
{
    uint64_t random;

    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        fail_msg("getrandom failed");
    return textf("test_%016" PRIx64, random);
}

void skip_loudly(const char *format, ...)
{
    char why[300];
    va_list args;

    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    print_error("SKIP: %s\n", why);
    if (test_strict())
        fail_msg("STRICT=1 asks for every test");
    skip();
}

void need_driver(const char *name)
{
    if (!test_wants(name))
        skip();
}
