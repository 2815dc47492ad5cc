#include "tests/torture/planted.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/check.h"

struct planted planted;

int planted_begin(void **state)
{
    (void)state;
    free(planted.said);
    memset(&planted, 0, sizeof planted);
    planted.rules = (struct check_rules){.folder = "/folder",
                                         .engine = "engine",
                                         .fault = "none",
                                         .seed = 77,
                                         .lease_ms = 1000,
                                         .slack_ms = 2000};
    return 0;
}

int planted_end(void **state)
{
    (void)state;
    free(planted.said);
    planted.said = NULL;
    return 0;
}

struct event *planted_ask(uint32_t thread, int64_t from, int64_t to, int verb, int outcome,
                          int64_t token)
{
    struct event *e = &planted.events[planted.n++];

    *e = (struct event){.invoke_us = from * 1000,
                        .return_us = to == NO_ANSWER ? HISTORY_NOT_RETURNED : to * 1000,
                        .process = 1,
                        .thread = thread,
                        .op = (uint32_t)planted.n,
                        .name = planted.name,
                        .verb = verb,
                        .outcome = outcome,
                        .token = token};
    return e;
}

struct event *planted_until(uint32_t thread, int64_t from, int64_t to, int verb, int64_t token,
                            int64_t deadline)
{
    struct event *e = planted_ask(thread, from, to, verb, 0, token);

    e->deadline_us = deadline * 1000;
    return e;
}

struct event *planted_value(uint32_t thread, int64_t from, int64_t to, int verb, int outcome,
                            int64_t token, int64_t value)
{
    struct event *e = planted_ask(thread, from, to, verb, outcome, token);

    e->value = value;
    return e;
}

struct event *planted_grant(uint32_t thread, int64_t from, int64_t to, int64_t token)
{
    return planted_until(thread, from, to, V_ACQUIRE, token, from + 900);
}

struct event *planted_share(uint32_t thread, int64_t from, int64_t to, int64_t token)
{
    return planted_until(thread, from, to, V_SHARE, token, from + 900);
}

void planted_slots(int64_t slots)
{
    planted_value(90, 0, 0, V_SLOTS, 0, 0, slots);
}

void planted_killed(int64_t from)
{
    planted_ask(80, from, NO_ANSWER, V_ACQUIRE, 0, 0);
}

struct event *planted_release(uint32_t thread, int64_t from, int64_t to, int64_t token)
{
    return planted_ask(thread, from, to, V_RELEASE, 0, token);
}

struct event *planted_guarded(uint32_t thread, int64_t from, int64_t to, int64_t token,
                              int64_t value)
{
    return planted_value(thread, from, to, V_GUARDED, 0, token, value);
}

struct event *planted_fault(int64_t from, int64_t to, int64_t value)
{
    struct event *e = planted_value(99, from, to, V_FAULT, 0, 0, value);

    e->process = 99;
    e->name = 7;
    return e;
}

void planted_rows(int64_t guarded, int64_t token, int64_t row, int64_t version)
{
    planted.rows[0] = (struct check_row){guarded, token, row, version, version};
    planted.rules.rows = planted.rows;
    planted.rules.n_rows = 1;
}

static int by_invocation(const void *a, const void *b)
{
    const struct event *x = a, *y = b;

    return (x->invoke_us > y->invoke_us) - (x->invoke_us < y->invoke_us);
}

void planted_check(void)
{
    FILE *say;
    int rc;

    free(planted.said);
    planted.said = NULL;
    say = open_memstream(&planted.said, &planted.said_len);
    assert_non_null(say);
    qsort(planted.events, (size_t)planted.n, sizeof planted.events[0], by_invocation);
    rc = check_history(&planted.rules, planted.events, planted.n, &planted.v, say);
    fclose(say);
    assert_int_equal(rc, planted.v.violations > 0);
}

void assert_proved(void)
{
    planted_check();
    if (planted.v.violations)
        print_error("%s", planted.said);
    assert_int_equal(planted.v.violations, 0);
    assert_string_equal(planted.said, "");
}

void assert_breach(int rule)
{
    planted_check();
    if (planted.v.found[rule] == 0 || planted.v.found[rule] != planted.v.violations)
        print_error("expected: %s; found %" PRId64 ":\n%s", check_rule_text(rule),
                    planted.v.violations, planted.said);
    assert_int_not_equal(planted.v.found[rule], 0);
    assert_int_equal(planted.v.found[rule], planted.v.violations);
    assert_non_null(strstr(planted.said, check_rule_text(rule)));
    assert_non_null(strstr(planted.said, "seed 77"));
    assert_non_null(strstr(planted.said, "/folder"));
}

void assert_found(int rule)
{
    planted_check();
    assert_int_not_equal(planted.v.found[rule], 0);
    assert_non_null(strstr(planted.said, check_rule_text(rule)));
}
