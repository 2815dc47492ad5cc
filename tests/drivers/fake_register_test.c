/* P13, P5 on the fake driver: registers whose requests are lost, refused, late, or forgotten by a
 * failover. */
#include "tests/drivers/fake_network.h"

#include <sqlock/register.h>

#define NAME "config"

static int set(sqlock *m, const char *value, int64_t expected, int64_t *version, sqlock_error *err)
{
    return sqlock_register_set(m, NAME, value, strlen(value), expected, version, err);
}

static int64_t set_ok(sqlock *m, const char *value, int64_t expected)
{
    int64_t version = -1;

    ok(set(m, value, expected, &version, &said));
    return version;
}

static int64_t get(sqlock *m, const char *value)
{
    char buf[32];
    int64_t version = -1;
    size_t len;

    ok(sqlock_register_get(m, NAME, buf, sizeof buf, &len, &version, &said));
    assert_int_equal(len, strlen(value));
    assert_memory_equal(buf, value, len);
    return version;
}

/* Whatever happens to an attempt, or to several in a row, the next one finds out. */
TEST(test_set_is_made_once_whatever_happens_to_its_requests, m)
{
    static const sqlock_fault faults[] = {SQLOCK_FAULT_LOSE_REQUEST, SQLOCK_FAULT_LOSE_REPLY,
                                          SQLOCK_FAULT_LATE,         SQLOCK_FAULT_SLOW,
                                          SQLOCK_FAULT_STALL,        SQLOCK_FAULT_ERROR};
    int64_t version = set_ok(m, "0", 0);

    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        for (int times = 1; times <= 3; times++) {
            char value[8] = {(char)('a' + i), (char)('0' + times), '\0'};

            fault(w, SQLOCK_STMT_REGISTER_SET, faults[i], times, 10);
            assert_int_equal(set_ok(m, value, version), version + 1);
            sleep_ms(20); /* what is late has come */
            assert_int_equal(get(m, value), ++version);
            fault(w, SQLOCK_STMT_REGISTER_GET, faults[i], 1, 10);
            assert_int_equal(get(m, value), version);
        }
}

/* The commit is forgotten with the server: no version comes twice. */
TEST(test_version_that_a_failover_forgot_never_comes_again, m)
{
    int64_t kept = set_ok(m, "one", 0), forgotten, now, there = -1;

    kept = set_ok(m, "kept", kept);
    forgotten = set_ok(m, "forgotten", kept);
    sqlock_fake_failover(fake_at(&w->place));
    assert_int_equal(get(m, "kept"), kept);
    now = set_ok(m, "other", kept);
    assert_true(now > forgotten);
    assert_int_equal(set(m, "stale", forgotten, &there, &said), SQLOCK_CONFLICT);
    assert_int_equal(there, now);
    assert_int_equal(set_ok(m, "next", now), now + 1);
    sqlock_fake_failover(fake_at(&w->place));
    sqlock_fake_failover(fake_at(&w->place));
    assert_int_equal(get(m, "other"), now);
}

/* Its reply was lost with the server, and so was what it did: asked again, it is done. */
TEST(test_set_that_a_failover_forgot_is_made_again, m)
{
    int64_t version = set_ok(m, "one", 0);

    version = set_ok(m, "two", version);
    fault(w, SQLOCK_STMT_REGISTER_SET, SQLOCK_FAULT_LOSE_REPLY, 1, 0);
    assert_int_equal(set_ok(m, "three", version), version + 1);
    sqlock_fake_failover(fake_at(&w->place));
    assert_int_equal(get(m, "two"), version);
}

TEST(test_register_that_was_deleted_begins_above_what_it_had, m)
{
    int64_t version = set_ok(m, "one", 0), there = -1;

    for (int i = 0; i < 100; i++)
        version = set_ok(m, "one", version);
    fault(w, SQLOCK_STMT_REGISTER_SET, SQLOCK_FAULT_VANISH, 1, 0);
    assert_int_equal(set(m, "stale", version, &there, &said), SQLOCK_CONFLICT);
    assert_int_equal(there, 0);
    assert_int_equal(get(m, ""), 0);
    assert_true(set_ok(m, "new", 0) > version);
}

/* The row went before the answer to the second attempt came: nobody can tell. */
TEST(test_set_of_a_register_that_vanished_after_a_lost_reply_is_unsure, m)
{
    int64_t version = set_ok(m, "one", 0), there = -1;

    fault(w, SQLOCK_STMT_REGISTER_SET, SQLOCK_FAULT_LOSE_REPLY, 1, 0);
    fault(w, SQLOCK_STMT_REGISTER_SET, SQLOCK_FAULT_VANISH, 1, 0);
    says(SQLOCK_EUNSURE, set(m, "two", version, &there, &said));
    assert_int_equal(there, -1);
}

/* The server's clock was put on: not_after has passed to it, and the next request knows better. */
TEST(test_set_learns_of_a_clock_that_jumped, m)
{
    int64_t version = set_ok(m, "one", 0);

    sqlock_fake_step_clock(fake_at(&w->place), 3600000);
    assert_int_equal(set_ok(m, "two", version), version + 1);
    sqlock_fake_step_clock(fake_at(&w->place), -7200000);
    assert_int_equal(set_ok(m, "three", version + 1), version + 2);
}

/* Each call that a lock could hang on ends by its own time. */
TEST(test_register_behind_a_silent_server_ends_on_time)
{
    sqlock *m = open_with(w, with.request_ms = 200);
    int64_t version = -1;
    size_t len;

    fault(w, -1, SQLOCK_FAULT_STALL, 100, 20000);
    assert_takes(200, 200 + late_ms(300), says(SQLOCK_EUNSURE, set(m, "one", 0, &version, &said)));
    assert_takes(
        200, 200 + late_ms(300),
        says(SQLOCK_ETIMEOUT, sqlock_register_get(m, NAME, NULL, 0, &len, &version, &said)));
    assert_int_equal(version, -1);
}

TEST_MAIN_ON(fake)
