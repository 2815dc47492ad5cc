/* P5, P13: versioned registers; and rows to lock by name, made beforehand (P12). */
#define SUITE_NEEDS REGISTERS
#include <sqlock/register.h>

#include <sqlock/transaction.h>

#include "tests/drivers/suite.h"

#define NAME "config"

/* ---- small steps ----------------------------------------------------------------------------- */

/* The version; value, if not NULL, is what must be in it. */
static int64_t read_register(sqlock *m, const char *name, const char *value)
{
    char buf[64];
    size_t len = 0;
    int64_t version = -1;

    ok(sqlock_register_get(m, name, buf, sizeof buf, &len, &version, &said));
    if (value) {
        assert_int_equal(len, strlen(value));
        assert_memory_equal(buf, value, len);
    }
    return version;
}

static int set_register_code(sqlock *m, const char *name, const char *value, int64_t expected,
                             int64_t *version, sqlock_error *err)
{
    return sqlock_register_set(m, name, value, strlen(value), expected, version, err);
}

/* The new version. */
static int64_t set_register(sqlock *m, const char *name, const char *value, int64_t expected)
{
    int64_t version = -1;

    ok(set_register_code(m, name, value, expected, &version, &said));
    return version;
}

/* It is the version behind that one. */
static void assert_next(const struct world *w, int64_t version, int64_t before)
{
    assert_between(before + 1, version, w->q->tokens_leave_gaps ? INT64_MAX : before + 1);
}

/* It is refused, without an error, by somebody else's version. */
static void register_conflicts(sqlock *m, const char *name, int64_t expected, int64_t there)
{
    sqlock_error err, before;
    int64_t version = -1;

    memset(&err, 0x5A, sizeof err);
    before = err;
    assert_int_equal(set_register_code(m, name, "lost", expected, &version, &err), SQLOCK_CONFLICT);
    assert_int_equal(version, there);
    assert_memory_equal(&err, &before, sizeof err);
}

/* ---- values and versions --------------------------------------------------------------------- */

TEST(test_register_is_changed_only_by_who_knows_its_version, m, other)
{
    int64_t version, next;

    assert_int_equal(read_register(m, NAME, ""), 0);
    register_conflicts(m, NAME, 7, 0);
    assert_int_equal(read_register(m, NAME, ""), 0);
    version = set_register(m, NAME, "one", 0);
    assert_true(version > 0);
    assert_int_equal(read_register(other, NAME, "one"), version);
    register_conflicts(other, NAME, 0, version);
    register_conflicts(other, NAME, version - 1, version);
    register_conflicts(other, NAME, version + 1, version);
    next = set_register(other, NAME, "two", version);
    assert_next(w, next, version);
    register_conflicts(m, NAME, version, next);
    version = set_register(m, NAME, "two", next); /* the same value, too */
    assert_next(w, version, next);
    assert_int_equal(read_register(m, NAME, "two"), version);
}

TEST(test_registers_of_other_names_and_namespaces_and_locks_are_others)
{
    sqlock *m = open_manager(w, NULL), *other;
    int64_t version = set_register(m, NAME, "one", 0);
    sqlock_lock *lock = take(m, NAME);

    other = open_with(w, with.ns = "other");
    assert_int_equal(read_register(other, NAME, ""), 0);
    assert_int_equal(read_register(m, "Config", ""), 0);
    assert_int_equal(read_register(m, "config ", ""), 0);
    set_register(other, NAME, "two", 0);
    set_register(m, "Config", "three", 0);
    assert_int_equal(read_register(m, NAME, "one"), version);
    assert_next(w, set_register(m, NAME, "four", version), version); /* whoever holds a lock */
    give(lock);
}

static void put_and_get(sqlock *m, const char *name, const char *value, size_t len)
{
    char *buf = malloc(SQLOCK_REGISTER_MAX);
    int64_t version = 0, found = -1;
    size_t n = 1;

    ok(sqlock_register_set(m, name, value, len, 0, &version, &said));
    ok(sqlock_register_get(m, name, buf, SQLOCK_REGISTER_MAX, &n, &found, &said));
    assert_int_equal(found, version);
    assert_int_equal(n, len);
    if (len > 0)
        assert_memory_equal(buf, value, len);
    free(buf);
}

TEST(test_values_are_any_bytes_from_none_to_64_KiB, m)
{
    char *value = malloc(SQLOCK_REGISTER_MAX);

    for (int i = 0; i < SQLOCK_REGISTER_MAX; i++)
        value[i] = (char)(i * 31 + i / 256);
    put_and_get(m, "none", NULL, 0);
    put_and_get(m, "empty", "", 0);
    put_and_get(m, "nul", "\0", 1);
    put_and_get(m, "nuls", "a\0b\0'\"\\", 7);
    put_and_get(m, "byte", value, 1);
    put_and_get(m, "less", value, 65535);
    put_and_get(m, "most", value, 65536);
    free(value);
}

static void refused(sqlock *m, const char *name, const void *value, size_t len, int64_t expected)
{
    long runs = spy_runs(-1), opens = spy_opens();
    int64_t version = -7;

    says(SQLOCK_EINVAL, sqlock_register_set(m, name, value, len, expected, &version, &said));
    assert_int_equal(version, -7);
    assert_int_equal(spy_runs(-1), runs);
    assert_int_equal(spy_opens(), opens);
}

CORE_TEST(test_bad_values_and_versions_are_refused_before_anything_is_sent, m)
{
    char *value = calloc(1, SQLOCK_REGISTER_MAX + 1);

    refused(m, NAME, value, SQLOCK_REGISTER_MAX + 1, 0);
    refused(m, NAME, value, SIZE_MAX, 0);
    refused(m, NAME, NULL, 1, 0);
    refused(m, NAME, value, 1, -1);
    refused(m, NAME, value, 1, INT64_MIN);
    refused(NULL, NAME, value, 1, 0);
    assert_int_equal(read_register(m, NAME, ""), 0);
    free(value);
}

TEST(test_names_are_refused_as_those_of_locks, m)
{
    char longer[257] = "", buf[8];
    const char *const bad[] = {NULL, "", longer, "\x80", "\xED\xA0\x80"};
    size_t len = 99;
    int64_t version = -7;
    long runs = spy_runs(-1);

    memset(longer, 'x', sizeof longer - 1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        refused(m, bad[i], "v", 1, 0);
        says(SQLOCK_EINVAL, sqlock_register_get(m, bad[i], buf, sizeof buf, &len, &version, &said));
        says(SQLOCK_EINVAL, sqlock_ensure(m, bad[i], &said));
    }
    assert_int_equal(len, 99);
    assert_int_equal(version, -7);
    assert_int_equal(spy_runs(-1), runs);
    set_register(m, "'; DROP TABLE sqlock_register; --", "v", 0);
    longer[255] = '\0';
    set_register(m, longer, "v", 0);
    read_register(m, longer, "v");
    ok(sqlock_ensure(m, longer, &said));
    ok(sqlock_ensure(m, "'; DROP TABLE sqlock_row; --", &said));
}

CORE_TEST(test_buffer_that_is_too_small_gets_the_length_and_is_left_alone, m)
{
    int64_t version = set_register(m, NAME, "12345", 0), found = -7;
    char buf[8] = "untouch";
    size_t len = 99;

    says(SQLOCK_EINVAL, sqlock_register_get(m, NAME, buf, 4, &len, &found, &said));
    assert_int_equal(len, 5);
    assert_int_equal(found, -7);
    assert_string_equal(buf, "untouch");
    ok(sqlock_register_get(m, NAME, buf, 5, &len, &found, &said));
    assert_int_equal(found, version);
    assert_memory_equal(buf, "12345ch", 8);
    len = 99;
    ok(sqlock_register_get(m, NAME, NULL, 0, &len, &found, &said));
    assert_int_equal(len, 5);
}

CORE_TEST(test_get_without_room_for_its_answer_is_refused, m)
{
    long runs = spy_runs(-1);
    int64_t version;
    size_t len;
    char buf[4];

    says(SQLOCK_EINVAL, sqlock_register_get(m, NAME, buf, 4, NULL, &version, &said));
    says(SQLOCK_EINVAL, sqlock_register_get(m, NAME, buf, 4, &len, NULL, &said));
    says(SQLOCK_EINVAL, sqlock_register_get(m, NAME, NULL, 4, &len, &version, &said));
    assert_int_equal(spy_runs(-1), runs);
    ok(sqlock_register_set(m, NAME, "v", 1, 0, NULL, &said));
    assert_int_equal(sqlock_register_set(m, NAME, "v", 1, 0, NULL, NULL), SQLOCK_CONFLICT);
}

/* ---- replies and requests that are lost ------------------------------------------------------ */

/* Before the second attempt others change the register, so many times. */
static struct others {
    sqlock *m;
    int sets, times;
    int64_t version;
} others;

static int run_with_others(void *conn, const sqlock_call *call, sqlock_stmt stmt,
                           const sqlock_value *values, size_t n, int64_t deadline,
                           sqlock_rows *rows, sqlock_error *err)
{
    if (stmt == SQLOCK_STMT_REGISTER_SET && ++others.sets == 2)
        for (int i = 0; i < others.times; i++)
            others.version =
                set_register(others.m, NAME, "theirs", read_register(others.m, NAME, NULL));
    return spied_driver()->run(conn, call, stmt, values, n, deadline, rows, err);
}

static int set_with_others(struct world *w, bool applied, int times, int64_t *out_before,
                           int64_t *out_reported)
{
    sqlock *m;

    w->driver.run = run_with_others;
    m = open_changed(w, patience_ms(5000));
    others = (struct others){.m = open_manager(w, NULL), .times = times};
    *out_before = set_register(others.m, NAME, "before", read_register(others.m, NAME, NULL));
    if (applied)
        spy_lose_reply(SQLOCK_STMT_REGISTER_SET);
    else
        spy_hold_back(SQLOCK_STMT_REGISTER_SET, 1);
    *out_reported = -7;
    return set_register_code(m, NAME, "ours", *out_before, out_reported, &said);
}

TEST(test_lost_reply_is_reported_as_far_as_anybody_can_know)
{
    int64_t before, told;
    int rc;

    /* It was not applied: the very next version is somebody else's. Where versions follow the clock
     * others mostly leave a gap, and then nobody can know. */
    rc = set_with_others(w, false, 1, &before, &told);
    assert_int_equal(rc, others.version == before + 1 ? SQLOCK_CONFLICT : SQLOCK_EUNSURE);
    assert_int_equal(told, rc == SQLOCK_CONFLICT ? before + 1 : -7);
    assert_next(w, read_register(others.m, NAME, "theirs"), before);
    /* It was applied, then changed; or it was not, and changed twice: they look alike. */
    assert_int_equal(set_with_others(w, true, 1, &before, &told), SQLOCK_EUNSURE);
    assert_int_equal(told, -7);
    assert_next(w, read_register(others.m, NAME, "theirs"), before + 1);
    assert_int_equal(set_with_others(w, false, 2, &before, &told), SQLOCK_EUNSURE);
    assert_next(w, read_register(others.m, NAME, "theirs"), before + 1);
}

/* The link is gone until the call has ended; what it sent arrives afterwards. */
static void set_arrives(struct world *w, bool in_time)
{
    sqlock *m = open_with(w, with.request_ms = in_time ? patience_ms(5000) : 1000);
    sqlock *other = open_manager(w, NULL);
    int64_t version = set_register(other, NAME, "before", read_register(other, NAME, NULL)),
            told = -7;

    spy_hold_back(SQLOCK_STMT_REGISTER_SET, in_time ? 1 : INT32_MAX);
    if (in_time) {
        told = set_register(m, NAME, "late", version); /* the second attempt; the first is kept */
        assert_next(w, told, version);
    } else {
        says(SQLOCK_EUNSURE, set_register_code(m, NAME, "late", version, &told, &said));
        assert_int_equal(told, -7);
        sleep_ms(100); /* the clocks are known to a fraction of that */
    }
    spy_arrive(1);
    if (in_time) /* it finds what the second one did */
        assert_int_equal(read_register(m, NAME, "late"), told);
    else
        assert_int_equal(read_register(m, NAME, "before"), version);
}

TEST(test_set_that_arrives_late_does_nothing)
{
    set_arrives(w, true);
    set_arrives(w, false);
}

/* ---- older schemas (P20) --------------------------------------------------------------------- */

static int migrate_to(struct world *w, int version, unsigned flags, sqlock_error *err)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;

    place_opts(w, &o);
    return sqlock_migrate_to(spied_driver(), w->place.url, &o, version, flags, NULL, err);
}

static void refused_by_version(sqlock *m)
{
    sqlock_error err[3];
    int64_t version = -7;
    size_t len;

    memset(err, 0, sizeof err);
    assert_code(SQLOCK_ESCHEMA, set_register_code(m, NAME, "v", 0, &version, &err[0]), &err[0]);
    assert_code(SQLOCK_ESCHEMA, sqlock_register_get(m, NAME, NULL, 0, &len, &version, &err[1]),
                &err[1]);
    assert_code(SQLOCK_ESCHEMA, sqlock_ensure(m, NAME, &err[2]), &err[2]);
    for (int i = 0; i < 3; i++) {
        assert_non_null(strstr(err[i].text, "version 1"));
        assert_non_null(strstr(err[i].text, "version 2 is needed"));
    }
    assert_int_equal(version, -7);
}

TEST(test_on_an_older_schema_locks_work_and_registers_name_the_version)
{
    sqlock *m;

    ok(migrate_to(w, 1, SQLOCK_MIGRATE_DOWN, &said));
    m = open_manager(w, NULL);
    refused_by_version(m);
    give(take(m, NAME));
    refused_by_version(m);
    /* Somebody migrates, and a manager that is open finds out. */
    ok(migrate_to(w, 2, 0, &said));
    ok(sqlock_ensure(m, NAME, &said));
    assert_true(set_register(m, NAME, "v", 0) > 0);
    /* ... and back, under its connections: the tables are gone. */
    ok(migrate_to(w, 1, SQLOCK_MIGRATE_DOWN, &said));
    says(SQLOCK_ESCHEMA, set_register_code(m, NAME, "v", 0, NULL, &said));
    give(take(m, NAME));
}

/* ---- named rows ------------------------------------------------------------------------------ */
