/* Setting a register behind a link that is cut (P5, P13): who is told "set" has set it, once; who
 * is told nothing learns the truth by asking again. PostgreSQL behind the proxy. */
#include "tests/faults/faults.h"

#include <sqlock/register.h>
#include <sqlock/transaction.h>
#include <stdio.h>
#include <string.h>

#define NAME "config"

static struct place place;
static sqlock *m, *direct;
static int64_t version; /* of the register, before */

static int teardown(void **state)
{
    (void)state;
    place_remove(&place);
    return 0;
}

static int set(sqlock *by, const char *name, const char *value, int64_t expected, int64_t *out,
               sqlock_error *err)
{
    return sqlock_register_set(by, name, SQLOCK_LEN_STRING, value, strlen(value), expected, out,
                               err);
}

static void assert_register(const char *name, const char *value, int64_t expected)
{
    char buf[64];
    sqlock_error err;
    int64_t found = -1;
    size_t len;

    assert_ok(
        sqlock_register_get(direct, name, SQLOCK_LEN_STRING, buf, sizeof buf, &len, &found, &err),
        &err);
    assert_int_equal(len, strlen(value));
    assert_memory_equal(buf, value, len);
    if (expected >= 0)
        assert_int_equal(found, expected);
}

/* A connection that knows its statements: the next request is the next message. */
static void warm(void)
{
    sqlock_error err;

    place_proxied(&place);
    m = place_open_cut(&place);
    direct = place_open(&place);
    assert_ok(set(m, NAME, "first", 0, &version, &err), &err);
    assert_ok(set(m, NAME, "before", version, &version, &err), &err);
}

static void set_through(void (*cut)(struct proxy *, int), int skip)
{
    int64_t told = -1;
    sqlock_error err;

    warm();
    cut(place.proxy, skip);
    assert_ok(set(m, NAME, "after", version, &told, &err), &err);
    assert_int_equal(proxy_cuts(place.proxy), 1);
    assert_int_equal(told, version + 1);
    assert_register(NAME, "after", version + 1);
}

static void test_set_whose_reply_or_request_was_cut_is_made_once(void **state)
{
    (void)state;
    set_through(proxy_cut_reply, 0);
    place_remove(&place);
    set_through(proxy_cut_request, 0);
}

/* It is looked for, made, and where that made nothing, looked for again. */
static void test_new_register_survives_a_cut_at_each_of_its_replies(void **state)
{
    (void)state;
    warm();
    for (int i = 0; i < 2; i++) {
        char name[16];
        int64_t told = -1;
        sqlock_error err;

        snprintf(name, sizeof name, "new %d", i);
        proxy_cut_reply(place.proxy, i);
        assert_ok(set(m, name, "made", 0, &told, &err), &err);
        assert_int_equal(proxy_cuts(place.proxy), i + 1);
        assert_register(name, "made", told);
        snprintf(name, sizeof name, "warm %d", i); /* the new connection learns its statements */
        assert_ok(set(m, name, "x", 0, NULL, &err), &err);
    }
}

/* Nothing more is heard of it; the server can not be reached until the call has ended. */
static void unsure_set(void (*cut)(struct proxy *, int), int applied)
{
    int64_t told = -1;
    sqlock_error err;

    warm();
    proxy_refuse(place.proxy, 1);
    cut(place.proxy, 0);
    assert_code(SQLOCK_EUNSURE, set(m, NAME, "after", version, &told, &err), &err);
    assert_true(err.flags & SQLOCK_MAYBE);
    assert_int_equal(told, -1);
    assert_register(NAME, applied ? "after" : "before", version + applied);
    proxy_refuse(place.proxy, 0);
    assert_ok(set(m, NAME, "later", version + applied, &told, &err), &err);
    assert_int_equal(told, version + applied + 1);
}

static void test_set_of_which_nothing_is_heard_is_unsure(void **state)
{
    (void)state;
    unsure_set(proxy_cut_reply, 1);
    place_remove(&place);
    unsure_set(proxy_cut_request, 0);
}

enum { BYTES = 80 };

/* Each set is applied once, or the versions would show it. */
static void test_reset_at_any_byte_of_a_reply_reaches_no_caller(void **state)
{
    (void)state;
    warm();
    for (int bytes = 0; bytes <= BYTES; bytes++) {
        int64_t before = version;
        char value[16];
        sqlock_error err;

        snprintf(value, sizeof value, "%d", bytes);
        proxy_cut_after(place.proxy, bytes);
        for (int i = 0; proxy_cuts(place.proxy) <= bytes && i < BYTES; i++)
            assert_ok(set(m, NAME, value, version, &version, &err), &err);
        assert_int_equal(proxy_cuts(place.proxy), bytes + 1);
        assert_true(version > before);
        assert_register(NAME, value, version);
    }
}

static void test_get_and_ensure_survive_a_cut(void **state)
{
    sqlock_error err;
    int64_t found;
    size_t len;
    (void)state;

    warm();
    proxy_cut_reply(place.proxy, 0);
    assert_ok(sqlock_register_get(m, NAME, SQLOCK_LEN_STRING, NULL, 0, &len, &found, &err), &err);
    assert_int_equal(found, version);
    for (int i = 0; i < 2; i++) {
        proxy_cut_reply(place.proxy, i);
        assert_ok(sqlock_ensure(m, i == 0 ? "a" : "b", SQLOCK_LEN_STRING, &err), &err);
    }
    assert_int_equal(proxy_cuts(place.proxy), 3);
}

/* A value of 64 KiB travels for longer than a small one; the server stays silent. */
static void test_call_ends_on_time_when_the_server_is_silent(void **state)
{
    static char value[SQLOCK_REGISTER_MAX];
    int64_t begun, told = -1;
    sqlock_error err;
    size_t len;
    (void)state;

    warm();
    proxy_mode_set(place.proxy, PROXY_HOLD);
    begun = sqlock_now_us();
    assert_code(
        SQLOCK_EUNSURE,
        sqlock_register_set(m, NAME, SQLOCK_LEN_STRING, value, sizeof value, version, &told, &err),
        &err);
    assert_between(1900 * MS, sqlock_now_us() - begun, 2000 * MS + patience_ms(1000) * MS);
    begun = sqlock_now_us();
    assert_code(SQLOCK_EUNREACH, /* the next one needs a connection, and gets none */
                sqlock_register_get(m, NAME, SQLOCK_LEN_STRING, NULL, 0, &len, &told, &err), &err);
    assert_between(1900 * MS, sqlock_now_us() - begun, 2000 * MS + patience_ms(1000) * MS);
    proxy_mode_set(place.proxy, PROXY_PASS);
    sleep_ms(200);
    assert_register(NAME, "before", version); /* what was held has arrived: too late */
}

#define T(name) cmocka_unit_test_teardown(test_##name, teardown)

static const struct CMUnitTest tests[] = {
    T(set_whose_reply_or_request_was_cut_is_made_once),
    T(new_register_survives_a_cut_at_each_of_its_replies),
    T(set_of_which_nothing_is_heard_is_unsure),
    T(reset_at_any_byte_of_a_reply_reaches_no_caller),
    T(get_and_ensure_survive_a_cut),
    T(call_ends_on_time_when_the_server_is_silent),
};

TEST_MAIN(tests)
