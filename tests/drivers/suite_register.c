/* P13: versioned registers; and the rows that transactions lock by name, made beforehand (P12). */
#include "tests/drivers/suite.h"

#include <pthread.h>
#include <sqlock/register.h>
#include <sqlock/transaction.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME "config"

/* ---- small steps ----------------------------------------------------------------------------- */

/* The version; value, if not NULL, is what must be in it. */
static int64_t get(sqlock *m, const char *name, const char *value)
{
    char buf[64];
    size_t len = 0;
    int64_t version = -1;
    sqlock_error err = {0};

    assert_ok(
        sqlock_register_get(m, name, SQLOCK_LEN_STRING, buf, sizeof buf, &len, &version, &err),
        &err);
    if (value) {
        assert_int_equal(len, strlen(value));
        assert_memory_equal(buf, value, len);
    }
    return version;
}

static int set_code(sqlock *m, const char *name, const char *value, int64_t expected,
                    int64_t *version, sqlock_error *err)
{
    return sqlock_register_set(m, name, SQLOCK_LEN_STRING, value, strlen(value), expected, version,
                               err);
}

/* The new version. */
static int64_t set(sqlock *m, const char *name, const char *value, int64_t expected)
{
    sqlock_error err = {0};
    int64_t version = -1;

    assert_ok(set_code(m, name, value, expected, &version, &err), &err);
    return version;
}

/* It is refused, without an error, by somebody else's version. */
static void conflicts(sqlock *m, const char *name, int64_t expected, int64_t there)
{
    sqlock_error err, before;
    int64_t version = -1;

    memset(&err, 0x5A, sizeof err);
    before = err;
    assert_int_equal(set_code(m, name, "lost", expected, &version, &err), SQLOCK_CONFLICT);
    assert_int_equal(version, there);
    assert_memory_equal(&err, &before, sizeof err);
}

/* ---- a driver that lets a test act before a set, or keeps one back -------------------------- */

static struct {
    sqlock_driver table;
    int n;                                     /* sets so far */
    void (*before)(void *user, int n, void *); /* NULL: nothing */
    void *user;
    int lose; /* so many sets do not arrive; the first is kept */
    bool arrive;
    sqlock_value values[8];
    char bytes[8][256];
} tap;

static void keep(const sqlock_value *values)
{
    size_t n = tap.table.dialect->scripts[SQLOCK_STMT_REGISTER_SET].n_params;

    memcpy(tap.values, values, n * sizeof *values);
    for (size_t i = 0; i < n; i++)
        if (values[i].type == SQLOCK_BYTES && values[i].len > 0) {
            memcpy(tap.bytes[i], values[i].data, values[i].len);
            tap.values[i].data = tap.bytes[i];
        }
}

static int tap_run(void *conn, sqlock_stmt stmt, const sqlock_value *values, size_t n,
                   int64_t deadline, sqlock_rows *rows, sqlock_error *err)
{
    const sqlock_driver *real = spied_driver();

    if (tap.arrive) {
        size_t before = sqlock_rows_count(rows);

        tap.arrive = false;
        assert_int_equal(
            real->run(conn, SQLOCK_STMT_REGISTER_SET, tap.values, 1, deadline, rows, err), 0);
        sqlock_rows_cut(rows, before);
    }
    if (stmt == SQLOCK_STMT_REGISTER_SET) {
        tap.n++;
        if (tap.n == 1)
            keep(values);
        if (tap.before)
            tap.before(tap.user, tap.n, conn);
        if (tap.n <= tap.lose)
            return sqlock_error_db(err, "08006", 0, SQLOCK_RECONNECT | SQLOCK_MAYBE, "kept back");
    }
    return real->run(conn, stmt, values, n, deadline, rows, err);
}

static sqlock *open_tapped(struct world *w, int32_t request_ms)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock_error err = {0};
    sqlock *m = NULL;

    memset(&tap, 0, sizeof tap);
    tap.table = *spied_driver();
    tap.table.run = tap_run;
    place_opts(w, &o);
    o.request_ms = request_ms;
    assert_ok(sqlock_open(&tap.table, w->place.url, &o, &m, &err), &err);
    w->managers[w->n_managers++] = m;
    return m;
}

/* ---- values and versions --------------------------------------------------------------------- */

static void test_register_is_changed_only_by_who_knows_its_version(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL), *other = open_manager(w, NULL);
    int64_t version;

    assert_int_equal(get(m, NAME, ""), 0);
    conflicts(m, NAME, 7, 0);
    assert_int_equal(get(m, NAME, ""), 0);
    version = set(m, NAME, "one", 0);
    assert_true(version > 0);
    assert_int_equal(get(other, NAME, "one"), version);
    conflicts(other, NAME, 0, version);
    conflicts(other, NAME, version - 1, version);
    conflicts(other, NAME, version + 1, version);
    assert_int_equal(set(other, NAME, "two", version), version + 1);
    conflicts(m, NAME, version, version + 1);
    assert_int_equal(set(m, NAME, "two", version + 1), version + 2); /* the same value, too */
    assert_int_equal(get(m, NAME, "two"), version + 2);
}

static void test_registers_of_other_names_and_namespaces_and_locks_are_others(void **state)
{
    struct world *w = world(state);
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock *m = open_manager(w, NULL), *other;
    int64_t version = set(m, NAME, "one", 0);
    sqlock_lock *lock = take(m, NAME);

    o.ns = "other";
    other = open_manager(w, &o);
    assert_int_equal(get(other, NAME, ""), 0);
    assert_int_equal(get(m, "Config", ""), 0);
    assert_int_equal(get(m, "config ", ""), 0);
    set(other, NAME, "two", 0);
    set(m, "Config", "three", 0);
    assert_int_equal(get(m, NAME, "one"), version);
    assert_int_equal(set(m, NAME, "four", version), version + 1); /* whoever holds a lock */
    give(lock);
}

static void put_and_get(sqlock *m, const char *name, const char *value, size_t len)
{
    char *buf = malloc(SQLOCK_REGISTER_MAX);
    sqlock_error err = {0};
    int64_t version = 0, found = -1;
    size_t n = 1;

    assert_ok(sqlock_register_set(m, name, SQLOCK_LEN_STRING, value, len, 0, &version, &err), &err);
    assert_ok(
        sqlock_register_get(m, name, SQLOCK_LEN_STRING, buf, SQLOCK_REGISTER_MAX, &n, &found, &err),
        &err);
    assert_int_equal(found, version);
    assert_int_equal(n, len);
    if (len > 0)
        assert_memory_equal(buf, value, len);
    free(buf);
}

static void test_values_are_any_bytes_from_none_to_64_KiB(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
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

static void refused(sqlock *m, const char *name, size_t name_len, const void *value, size_t len,
                    int64_t expected)
{
    long runs = spy_runs(-1), opens = spy_opens();
    sqlock_error err = {0};
    int64_t version = -7;

    assert_code(SQLOCK_EINVAL,
                sqlock_register_set(m, name, name_len, value, len, expected, &version, &err), &err);
    assert_int_equal(version, -7);
    assert_int_equal(spy_runs(-1), runs);
    assert_int_equal(spy_opens(), opens);
}

static void test_bad_values_and_versions_are_refused_before_anything_is_sent(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
    char *value = calloc(1, SQLOCK_REGISTER_MAX + 1);

    refused(m, NAME, SQLOCK_LEN_STRING, value, SQLOCK_REGISTER_MAX + 1, 0);
    refused(m, NAME, SQLOCK_LEN_STRING, value, SIZE_MAX, 0);
    refused(m, NAME, SQLOCK_LEN_STRING, NULL, 1, 0);
    refused(m, NAME, SQLOCK_LEN_STRING, value, 1, -1);
    refused(m, NAME, SQLOCK_LEN_STRING, value, 1, INT64_MIN);
    refused(NULL, NAME, SQLOCK_LEN_STRING, value, 1, 0);
    assert_int_equal(get(m, NAME, ""), 0);
    free(value);
}

static void test_names_are_refused_as_those_of_locks(void **state)
{
    static const struct {
        const char *name;
        size_t len;
    } bad[] = {
        {NULL, SQLOCK_LEN_STRING}, {"", SQLOCK_LEN_STRING}, {"x", 0}, {"a\0b", 3}, {"\x80", 1},
        {"\xED\xA0\x80", 3}};
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
    char longer[256], buf[8];
    sqlock_error err = {0};
    size_t len = 99;
    int64_t version = -7;
    long runs = spy_runs(-1);

    memset(longer, 'x', sizeof longer);
    refused(m, longer, 256, "v", 1, 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        refused(m, bad[i].name, bad[i].len, "v", 1, 0);
        assert_code(
            SQLOCK_EINVAL,
            sqlock_register_get(m, bad[i].name, bad[i].len, buf, sizeof buf, &len, &version, &err),
            &err);
        assert_code(SQLOCK_EINVAL, sqlock_ensure(m, bad[i].name, bad[i].len, &err), &err);
    }
    assert_int_equal(len, 99);
    assert_int_equal(version, -7);
    assert_int_equal(spy_runs(-1), runs);
    set(m, "'; DROP TABLE sqlock_register; --", "v", 0);
    longer[255] = '\0';
    set(m, longer, "v", 0);
    get(m, longer, "v");
    assert_ok(sqlock_ensure(m, longer, 255, &err), &err);
    assert_ok(sqlock_ensure(m, "'; DROP TABLE sqlock_row; --", SQLOCK_LEN_STRING, &err), &err);
}

static void test_buffer_that_is_too_small_is_told_the_length_and_left_alone(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
    int64_t version = set(m, NAME, "12345", 0), found = -7;
    char buf[8] = "untouch";
    sqlock_error err = {0};
    size_t len = 99;

    assert_code(SQLOCK_EINVAL,
                sqlock_register_get(m, NAME, SQLOCK_LEN_STRING, buf, 4, &len, &found, &err), &err);
    assert_int_equal(len, 5);
    assert_int_equal(found, -7);
    assert_string_equal(buf, "untouch");
    assert_ok(sqlock_register_get(m, NAME, SQLOCK_LEN_STRING, buf, 5, &len, &found, &err), &err);
    assert_int_equal(found, version);
    assert_memory_equal(buf, "12345ch", 8);
    len = 99;
    assert_ok(sqlock_register_get(m, NAME, SQLOCK_LEN_STRING, NULL, 0, &len, &found, &err), &err);
    assert_int_equal(len, 5);
}

static void test_get_without_room_for_its_answer_is_refused(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
    long runs = spy_runs(-1);
    sqlock_error err = {0};
    int64_t version;
    size_t len;
    char buf[4];

    assert_code(SQLOCK_EINVAL, sqlock_register_get(m, NAME, 6, buf, 4, NULL, &version, &err), &err);
    assert_code(SQLOCK_EINVAL, sqlock_register_get(m, NAME, 6, buf, 4, &len, NULL, &err), &err);
    assert_code(SQLOCK_EINVAL, sqlock_register_get(m, NAME, 6, NULL, 4, &len, &version, &err),
                &err);
    assert_int_equal(spy_runs(-1), runs);
    assert_ok(sqlock_register_set(m, NAME, 6, "v", 1, 0, NULL, &err), &err);
    assert_int_equal(sqlock_register_set(m, NAME, 6, "v", 1, 0, NULL, NULL), SQLOCK_CONFLICT);
}

/* ---- several --------------------------------------------------------------------------------- */

enum { THREADS = 4, EACH = 25 };

struct counter {
    pthread_t thread;
    sqlock *m;
    int conflicts, failed;
    sqlock_error err;
};

/* Adds one to the number in the register, as a program would. */
static int add_one(struct counter *c)
{
    char buf[32] = "";
    size_t len;
    int64_t version;
    int rc = sqlock_register_get(c->m, "sum", 3, buf, sizeof buf - 1, &len, &version, &c->err);

    if (rc != 0)
        return rc;
    buf[len] = '\0';
    len = (size_t)snprintf(buf, sizeof buf, "%d", atoi(buf) + 1);
    return sqlock_register_set(c->m, "sum", 3, buf, len, version, NULL, &c->err);
}

static void *count_main(void *arg)
{
    struct counter *c = arg;
    int rc;

    for (int i = 0; i < EACH; i++) {
        while ((rc = add_one(c)) == SQLOCK_CONFLICT)
            c->conflicts++;
        c->failed += rc != 0;
    }
    return NULL;
}

static void test_no_update_is_lost_between_setters(void **state)
{
    struct world *w = world(state);
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    struct counter c[THREADS];
    int conflicted = 0;
    int64_t first;
    char sum[16];

    memset(c, 0, sizeof c);
    o.request_ms = patience_ms(20000);
    for (int i = 0; i < THREADS; i++) /* two share one */
        c[i].m = i % 2 ? c[i - 1].m : open_manager(w, &o);
    first = set(c[0].m, "sum", "0", 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&c[i].thread, NULL, count_main, &c[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(c[i].thread, NULL);
    for (int i = 0; i < THREADS; i++) {
        if (c[i].failed)
            fail_msg("%s", c[i].err.text);
        conflicted += c[i].conflicts;
    }
    snprintf(sum, sizeof sum, "%d", THREADS * EACH);
    assert_int_equal(get(c[0].m, "sum", sum), first + THREADS * EACH); /* one by one */
    print_message("%d conflicts\n", conflicted);
}

/* ---- replies that are lost (P5) -------------------------------------------------------------- */

static void test_set_whose_reply_was_lost_tells_that_it_was_done(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
    int64_t version;

    spy_lose_reply(SQLOCK_STMT_REGISTER_SET);
    version = set(m, NAME, "one", 0);
    assert_int_equal(spy_runs(SQLOCK_STMT_REGISTER_SET), 2);
    assert_int_equal(get(m, NAME, "one"), version);
    spy_lose_reply(SQLOCK_STMT_REGISTER_SET);
    assert_int_equal(set(m, NAME, "two", version), version + 1);
    assert_int_equal(spy_runs(SQLOCK_STMT_REGISTER_SET), 4);
    assert_int_equal(get(m, NAME, "two"), version + 1);
    spy_lose_reply(SQLOCK_STMT_REGISTER_SET); /* one that is refused changes nothing, either */
    conflicts(m, NAME, version, version + 1);
    spy_lose_reply(SQLOCK_STMT_REGISTER_GET);
    assert_int_equal(get(m, NAME, "two"), version + 1);
}

static void test_set_that_never_arrived_is_made_when_it_is_asked_again(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_tapped(w, patience_ms(5000));
    int64_t version;

    tap.lose = 1;
    version = set(m, NAME, "one", 0);
    tap.n = 0;
    assert_int_equal(set(m, NAME, "two", version), version + 1);
    assert_int_equal(tap.n, 2);
    assert_int_equal(get(m, NAME, "two"), version + 1);
}

/* Before the second attempt others change the register, so many times. */
struct others {
    sqlock *m;
    int times;
    int64_t version;
};

static void change_it(void *user, int n, void *conn)
{
    struct others *o = user;

    (void)conn;
    for (int i = 0; n == 2 && i < o->times; i++)
        o->version = set(o->m, NAME, "theirs", get(o->m, NAME, NULL));
}

static int set_with_others(struct world *w, bool applied, int times, int64_t *out_before,
                           int64_t *out_told, struct others *others)
{
    sqlock *m = open_tapped(w, patience_ms(5000));
    sqlock_error err = {0};

    others->m = open_manager(w, NULL);
    others->times = times;
    *out_before = set(others->m, NAME, "before", get(others->m, NAME, NULL));
    tap.before = change_it;
    tap.user = others;
    if (applied)
        spy_lose_reply(SQLOCK_STMT_REGISTER_SET);
    else
        tap.lose = 1;
    *out_told = -7;
    return set_code(m, NAME, "ours", *out_before, out_told, &err);
}

static void test_lost_reply_is_told_as_far_as_anybody_can_know(void **state)
{
    struct world *w = world(state);
    struct others o = {0};
    int64_t before, told;

    /* It was not applied: the very next version is somebody else's. */
    assert_int_equal(set_with_others(w, false, 1, &before, &told, &o), SQLOCK_CONFLICT);
    assert_int_equal(told, before + 1);
    assert_int_equal(get(o.m, NAME, "theirs"), before + 1);
    /* It was applied, and changed from there; then it was not, and changed twice: they look alike.
     */
    assert_int_equal(set_with_others(w, true, 1, &before, &told, &o), SQLOCK_EUNSURE);
    assert_int_equal(told, -7);
    assert_int_equal(get(o.m, NAME, "theirs"), before + 2);
    assert_int_equal(set_with_others(w, false, 2, &before, &told, &o), SQLOCK_EUNSURE);
    assert_int_equal(get(o.m, NAME, "theirs"), before + 2);
}

/* The link is gone until the call has ended; what it sent arrives afterwards. */
static void set_arrives(struct world *w, bool in_time)
{
    sqlock *m = open_tapped(w, in_time ? patience_ms(2000) : 300);
    sqlock *other = open_manager(w, NULL);
    int64_t version = set(other, NAME, "before", get(other, NAME, NULL)), told = -7;
    sqlock_error err = {0};

    tap.lose = 1000000;
    if (!in_time) {
        assert_code(SQLOCK_EUNSURE, set_code(m, NAME, "late", version, &told, &err), &err);
        assert_int_equal(told, -7);
        sleep_ms(100); /* the clocks are known to a fraction of that */
    } else {
        tap.lose = 1;
        tap.before = NULL;
        told = set(m, NAME, "late", version); /* the second attempt; the first is kept */
        assert_int_equal(told, version + 1);
    }
    tap.arrive = true;
    if (in_time) /* it finds what the second one did */
        assert_int_equal(get(m, NAME, "late"), version + 1);
    else
        assert_int_equal(get(m, NAME, "before"), version);
    assert_false(tap.arrive);
}

static void test_set_that_arrives_late_does_nothing(void **state)
{
    struct world *w = world(state);

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
    assert_code(SQLOCK_ESCHEMA, set_code(m, NAME, "v", 0, &version, &err[0]), &err[0]);
    assert_code(SQLOCK_ESCHEMA,
                sqlock_register_get(m, NAME, SQLOCK_LEN_STRING, NULL, 0, &len, &version, &err[1]),
                &err[1]);
    assert_code(SQLOCK_ESCHEMA, sqlock_ensure(m, NAME, SQLOCK_LEN_STRING, &err[2]), &err[2]);
    for (int i = 0; i < 3; i++) {
        assert_non_null(strstr(err[i].text, "version 1"));
        assert_non_null(strstr(err[i].text, "version 2 is needed"));
    }
    assert_int_equal(version, -7);
}

static void test_on_an_older_schema_locks_work_and_registers_name_the_version(void **state)
{
    struct world *w = world(state);
    sqlock_error err = {0};
    sqlock *m;

    assert_ok(migrate_to(w, 1, SQLOCK_MIGRATE_DOWN, &err), &err);
    m = open_manager(w, NULL);
    refused_by_version(m);
    give(take(m, NAME));
    refused_by_version(m);
    /* Somebody migrates, and a manager that is open finds out. */
    assert_ok(migrate_to(w, 2, 0, &err), &err);
    assert_ok(sqlock_ensure(m, NAME, SQLOCK_LEN_STRING, &err), &err);
    assert_true(set(m, NAME, "v", 0) > 0);
    /* ... and back, under its connections: the tables are gone. */
    assert_ok(migrate_to(w, 1, SQLOCK_MIGRATE_DOWN, &err), &err);
    assert_code(SQLOCK_ESCHEMA, set_code(m, NAME, "v", 0, NULL, &err), &err);
    give(take(m, NAME));
}

static void test_versions_go_on_rising_over_down_and_up(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
    sqlock_error err = {0};
    int64_t last = 0;

    for (int round = 0; round < 3; round++) {
        int64_t version = set(m, NAME, "v", 0);

        assert_true(version > last);
        for (int i = 0; i < 20; i++)
            last = version = set(m, NAME, "v", version);
        assert_ok(migrate_to(w, round % 2, SQLOCK_MIGRATE_DOWN, &err), &err);
        assert_ok(migrate_to(w, SQLOCK_SCHEMA_LATEST, 0, &err), &err);
        assert_int_equal(get(m, NAME, ""), 0);
        conflicts(m, NAME, last, 0);
    }
}

/* ---- named rows ------------------------------------------------------------------------------ */

static void *ensure_main(void *arg)
{
    struct counter *c = arg;
    char name[16];

    for (int i = 0; i < 2 * EACH; i++) {
        snprintf(name, sizeof name, "row %d", i / 2);
        c->failed += sqlock_ensure(c->m, name, SQLOCK_LEN_STRING, &c->err) != 0;
    }
    return NULL;
}

static void test_any_number_may_ensure_a_row_at_once(void **state)
{
    struct world *w = world(state);
    struct counter c[THREADS];

    memset(c, 0, sizeof c);
    for (int i = 0; i < THREADS; i++)
        c[i].m = open_manager(w, NULL);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&c[i].thread, NULL, ensure_main, &c[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(c[i].thread, NULL);
    for (int i = 0; i < THREADS; i++)
        if (c[i].failed)
            fail_msg("%s", c[i].err.text);
}

static void test_row_whose_reply_was_lost_is_ensured(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
    sqlock_error err = {0};

    spy_lose_reply(SQLOCK_STMT_ENSURE);
    assert_ok(sqlock_ensure(m, NAME, SQLOCK_LEN_STRING, &err), &err);
    assert_int_equal(spy_runs(SQLOCK_STMT_ENSURE), 2);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_register_is_changed_only_by_who_knows_its_version),
    cmocka_unit_test(test_registers_of_other_names_and_namespaces_and_locks_are_others),
    cmocka_unit_test(test_values_are_any_bytes_from_none_to_64_KiB),
    cmocka_unit_test(test_bad_values_and_versions_are_refused_before_anything_is_sent),
    cmocka_unit_test(test_names_are_refused_as_those_of_locks),
    cmocka_unit_test(test_buffer_that_is_too_small_is_told_the_length_and_left_alone),
    cmocka_unit_test(test_get_without_room_for_its_answer_is_refused),
    cmocka_unit_test(test_no_update_is_lost_between_setters),
    cmocka_unit_test(test_set_whose_reply_was_lost_tells_that_it_was_done),
    cmocka_unit_test(test_set_that_never_arrived_is_made_when_it_is_asked_again),
    cmocka_unit_test(test_lost_reply_is_told_as_far_as_anybody_can_know),
    cmocka_unit_test(test_set_that_arrives_late_does_nothing),
    cmocka_unit_test(test_on_an_older_schema_locks_work_and_registers_name_the_version),
    cmocka_unit_test(test_versions_go_on_rising_over_down_and_up),
    cmocka_unit_test(test_any_number_may_ensure_a_row_at_once),
    cmocka_unit_test(test_row_whose_reply_was_lost_is_ensured),
};
PART(suite_register, tests);
