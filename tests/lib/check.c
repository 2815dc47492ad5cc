#include "tests/lib/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/lib/undo.h"

/* Before main(), so that programs with a main() of their own are served too. */
__attribute__((constructor)) static void test_prepare(void)
{
    const char *filter = getenv("SQLOCK_TEST_FILTER");

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (filter && *filter)
        cmocka_set_test_filter(filter);
    late_begin();
}

static struct test *first, **end = &first;

void test_add(struct test *test)
{
    *end = test;
    end = &test->next;
}

struct test *test_first(void)
{
    return first;
}

int tests_run(int (*setup)(void **state), int (*teardown)(void **state))
{
    struct CMUnitTest tests[128];
    size_t n = 0;

    for (struct test *t = first; t != NULL; t = t->next) {
        assert_true(n < sizeof tests / sizeof *tests);
        tests[n++] = (struct CMUnitTest){t->name, t->body, setup, teardown, NULL};
    }
    return _cmocka_run_group_tests("tests", tests, n, NULL, NULL) == 0 ? 0 : 1;
}

void check_code(int expected, int got, const sqlock_error *err, const char *call, const char *file,
                int line)
{
    if (got == expected)
        return;
    print_error("%s\n  gave %s (%d), not %s (%d)\n", call, sqlock_code_name(got), got,
                sqlock_code_name(expected), expected);
    /* An error is left alone on success: it would tell of an earlier call. */
    if (err && got != SQLOCK_OK)
        print_error("  error: %s%s\"%s\" sqlstate \"%s\" native %ld%s%s%s\n",
                    err->code == got ? "" : sqlock_code_name(err->code),
                    err->code == got ? "" : " (another code than was returned!) ", err->text,
                    err->sqlstate, err->native, err->flags & SQLOCK_RETRY ? " RETRY" : "",
                    err->flags & SQLOCK_RECONNECT ? " RECONNECT" : "",
                    err->flags & SQLOCK_MAYBE ? " MAYBE" : "");
    _fail(file, line);
}

void check_between(int64_t low, int64_t value, int64_t high, const char *what, const char *file,
                   int line)
{
    if (low <= value && value <= high)
        return;
    print_error("%s is %" PRId64 ", not between %" PRId64 " and %" PRId64 "\n", what, value, low,
                high);
    _fail(file, line);
}

void check_late(const char *what, int64_t limit_ms, const char *file, int line)
{
    print_error("not within %" PRId64 " ms: %s\n", limit_ms, what);
    _fail(file, line);
}

bool is_word(const char *list, const char *word)
{
    size_t len = strlen(word);

    for (const char *p = list; (p = strstr(p, word)) != NULL; p += len)
        if ((p == list || p[-1] == ' ') && (p[len] == ' ' || p[len] == '\0'))
            return true;
    return false;
}

bool test_wants(const char *driver)
{
    const char *chosen = getenv("SQLOCK_TEST_DRIVERS");

    return is_word(TEST_DRIVERS_BUILT, driver) && (!chosen || !*chosen || is_word(chosen, driver));
}

bool test_strict(void)
{
    const char *strict = getenv("STRICT");

    return strict && strcmp(strict, "1") == 0;
}

static const char *url_of(const struct test_server *server)
{
    const char *url = getenv(server->variable);

    return url && *url ? url : NULL;
}

const char *test_server_url(const struct test_server *server)
{
    const bool wanted = test_wants(server->driver);

    if (wanted && url_of(server))
        return url_of(server);
    if (wanted) {
        print_error("SKIP: no %s: %s is not set\n", server->name, server->variable);
        if (test_strict())
            fail_msg("STRICT=1 asks for every test");
    }
    skip();
    return NULL;
}

int test_server_is_missing(const struct test_server *server, int *out_code)
{
    if (!test_wants(server->driver) || url_of(server))
        return 0;
    printf("SKIP: no %s: %s is not set\n", server->name, server->variable);
    *out_code = test_strict() ? 1 : 0;
    return 1;
}

int32_t patience_ms(int32_t ms)
{
    const char *slow = getenv("SQLOCK_TEST_SLOW");
    int32_t factor = slow ? (int32_t)strtol(slow, NULL, 10) : 1;

    return factor > 1 ? ms * factor : ms;
}

/* Since the machine's start. The kernel adds up the time in which a ready task had no processor. */
static int64_t machine_waited_us(void)
{
    FILE *file = fopen("/proc/pressure/cpu", "re");
    int64_t total = 0;

    if (file == NULL)
        return 0;
    if (fscanf(file, "some avg10=%*f avg60=%*f avg300=%*f total=%" SCNd64, &total) != 1)
        total = 0;
    fclose(file);
    return total;
}

static int64_t waited_before_us;

void late_begin(void)
{
    waited_before_us = machine_waited_us();
}

int32_t late_ms(int32_t ms)
{
    return patience_ms(ms) + (int32_t)((machine_waited_us() - waited_before_us) / 1000);
}

struct patience patience_for(int64_t limit_ms)
{
    return (struct patience){now_us(), machine_waited_us(), limit_ms * 1000};
}

bool patience_is_over(const struct patience *p)
{
    int64_t passed_us = now_us() - p->begun_us;

    return passed_us > p->limit_us &&
           (passed_us > 10 * p->limit_us ||
            passed_us - (machine_waited_us() - p->waited_us) > p->limit_us);
}

int64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

void sleep_ms(int64_t ms)
{
    struct timespec left = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};

    while (nanosleep(&left, &left) != 0)
        ;
}
