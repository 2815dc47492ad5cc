/* Arguments that are not valid are told as such before anything is sent, and change nothing. */
#include "tests/drivers/suite.h"

#include <limits.h>

/* ---- opening --------------------------------------------------------------------------------- */

static void refused_open(struct world *w, const sqlock_open_opts *opts)
{
    sqlock *m = (sqlock *)w; /* must not stay */
    sqlock_open_opts o = *opts;
    long opens = spy_opens();

    o.connect = w->place.connect;
    o.connect_user = w->place.connect_user;
    says(SQLOCK_EINVAL, sqlock_open(spied_driver(), w->place.url, &o, &m, &said));
    assert_null(m);
    assert_int_equal(said.code, SQLOCK_EINVAL);
    says(SQLOCK_EINVAL, sqlock_migrate(spied_driver(), w->place.url, &o, NULL, &said));
    assert_int_equal(spy_opens(), opens);
}

/* Each of these values of one option. */
#define REFUSED(member, ...)                                                                       \
    do {                                                                                           \
        const int64_t values[] = {__VA_ARGS__};                                                    \
        for (size_t i = 0; i < sizeof values / sizeof *values; i++) {                              \
            sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;                                            \
            o.member = (__typeof__(o.member))values[i];                                            \
            refused_open(w, &o);                                                                   \
        }                                                                                          \
    } while (0)

CORE_TEST(test_open_refuses_bad_numbers)
{
    REFUSED(connections, 1, 0, -1, INT32_MAX);
    REFUSED(request_ms, 0, -1, INT32_MIN);
    REFUSED(lease_ms, 0, -1, SQLOCK_LEASE_MIN_MS - 1, SQLOCK_LEASE_MAX_MS + 1, INT32_MIN);
    REFUSED(flags, 0x80000000u, 0x10u);
    REFUSED(grace_ms, -1, SQLOCK_LEASE_MAX_MS + 1);
    REFUSED(size, 0, 3);
}

CORE_TEST(test_open_refuses_urls_of_others)
{
    static const char *const bad[] = {"",          "nosuch:///x",  "nosuch:",
                                      "x",         "://x",         ":x",
                                      " sqlite:x", "/tmp/file.db", "oracle://root:secret@db/x"};
    sqlock *m = NULL;
    long opens = spy_opens();

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        says(SQLOCK_EINVAL, sqlock_open(spied_driver(), bad[i], NULL, &m, &said));
        assert_null(m);
        assert_null(strstr(said.text, "secret")); /* a password is nobody's business */
    }
    assert_int_equal(spy_opens(), opens);
}

static int connect_never(void *user, void **out_native, sqlock_error *err)
{
    (void)user;
    *out_native = NULL;
    return sqlock_error_set(err, SQLOCK_EUNREACH, 0, "the factory was called");
}

CORE_TEST(test_open_wants_a_driver_and_either_url_or_factory)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock *m = NULL;
    char url[64];
    long opens = spy_opens();

    snprintf(url, sizeof url, "%.*s:x", (int)strcspn(spied_driver()->schemes, " "),
             spied_driver()->schemes);
    says(SQLOCK_EINVAL, sqlock_open(spied_driver(), NULL, NULL, &m, &said));
    says(SQLOCK_EINVAL, sqlock_open(NULL, url, NULL, &m, &said));
    says(SQLOCK_EINVAL, sqlock_open(spied_driver(), url, NULL, NULL, &said));
    o.connect = connect_never;
    says(SQLOCK_EINVAL, sqlock_open(spied_driver(), url, &o, &m, &said));
    assert_null(m);
    assert_int_equal(spy_opens(), opens);
}

static void in_capitals(char *out, size_t size, const char *url)
{
    snprintf(out, size, "%s", url);
    for (char *at = out; *at != ':' && *at != '\0'; at++)
        *at = *at >= 'a' && *at <= 'z' ? (char)(*at - 'a' + 'A') : *at;
}

/* RFC 3986, section 3.1. What follows the scheme is left alone. */
TEST(test_scheme_of_a_url_is_understood_in_any_case)
{
    sqlock *m = NULL;
    char loud[256];
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;

    if (w->place.url == NULL)
        return; /* a database without URLs */
    in_capitals(loud, sizeof loud, w->place.url);
    place_opts(w, &o);
    ok(sqlock_migrate(spied_driver(), loud, &o, NULL, &said));
    ok(sqlock_open(spied_driver(), loud, &o, &m, &said));
    give(take(m, "nightly"));
    sqlock_close(m);
    says(SQLOCK_EINVAL, sqlock_open(spied_driver(), loud + 1, &o, &m, &said));
    loud[0] = 'x';
    says(SQLOCK_EINVAL, sqlock_open(spied_driver(), loud, &o, &m, &said));
}

/* ---- acquiring ------------------------------------------------------------------------------- */

TEST(test_largest_durations_are_no_trouble)
{
    sqlock_acquire_opts o = wait_opts(INT32_MAX, SQLOCK_LEASE_MAX_MS, 0);
    /* where the answer shows no clock, the lease counts from a little before the request */
    int64_t begun = sqlock_now_us() - 10000, week = SQLOCK_LEASE_MAX_MS * INT64_C(1000);
    sqlock *m = open_with(w, with.lease_ms = SQLOCK_LEASE_MAX_MS);

    o.renew_ms = SQLOCK_LEASE_MAX_MS / 2;
    o.max_hold_ms = INT32_MAX;
    sqlock_lock *lock = take_with(m, "nightly", &o);
    assert_between(begun + week - margin_us(SQLOCK_LEASE_MAX_MS), sqlock_lock_deadline_us(lock),
                   sqlock_now_us() + week - margin_us(SQLOCK_LEASE_MAX_MS));
    give(lock);
    o.wait_ms = SQLOCK_WAIT_FOREVER;
    give(take_with(m, "nightly", &o));
}

static int count_info(const sqlock_info *info, void *user)
{
    (void)info;
    (*(int *)user)++;
    return 0;
}

static int count_waiter(const sqlock_waiter *waiter, void *user)
{
    (void)waiter;
    (*(int *)user)++;
    return 0;
}

CORE_TEST(test_other_calls_refuse_bad_arguments, m)
{
    sqlock_list_opts lo = SQLOCK_LIST_OPTS_INIT;
    sqlock_acquire_opts o = wait_opts(0, 1000, 0);
    sqlock_lock *lock = take(m, "nightly"), *none = (sqlock_lock *)m; /* must not stay */
    long requests = spy_runs(-1);
    int seen = 0;

    says(SQLOCK_EINVAL, sqlock_settle(lock, -2, &said));
    says(SQLOCK_EINVAL, sqlock_break(m, "nightly", 0, &said));
    says(SQLOCK_EINVAL, sqlock_break(m, "nightly", -1, &said));
    says(SQLOCK_EINVAL, sqlock_break(m, "nightly", SQLOCK_TOKEN_MAX + 1, &said));
    says(SQLOCK_EINVAL, sqlock_break(m, "nightly", INT64_MAX, &said));
    says(SQLOCK_EINVAL, sqlock_with(m, "nightly", NULL, NULL, NULL, NULL, &said));
    says(SQLOCK_EINVAL, sqlock_acquire(m, "nightly", NULL, NULL, &said));
    o.renew_ms = 501; /* more than half of the lease */
    says(SQLOCK_EINVAL, sqlock_acquire(m, "other", &o, &none, &said));
    assert_null(none);
    lo.flags = 0x2u;
    says(SQLOCK_EINVAL, sqlock_list(m, &lo, count_info, &seen, &said));
    lo.flags = 0;
    lo.size = 0;
    says(SQLOCK_EINVAL, sqlock_list(m, &lo, count_info, &seen, &said));
    says(SQLOCK_EINVAL, sqlock_list_waiters(m, "", count_waiter, &seen, &said));
    says(SQLOCK_EINVAL, sqlock_list_waiters(m, "\xff", count_waiter, &seen, &said));
    says(SQLOCK_EINVAL, sqlock_list_waiters(m, NULL, NULL, NULL, &said));
    assert_int_equal(seen, 0);
    assert_int_equal(spy_runs(-1), requests);
    give(lock);
}

/* ---- errors ---------------------------------------------------------------------------------- */

/* P18: written on failure, left alone on success, and nobody must pass one. */
CORE_TEST(test_error_is_left_alone_on_success_and_may_be_null, m)
{
    sqlock_error err, before;
    sqlock_acquire_opts o = wait_opts(0, 0, 0);
    sqlock_lock *lock = NULL, *none = NULL;

    memset(&err, 0x5A, sizeof err);
    before = err;
    assert_int_equal(sqlock_acquire(m, "nightly", &o, &lock, &err), 0);
    assert_int_equal(sqlock_renew(lock, &err), 0);
    assert_int_equal(sqlock_list(m, NULL, count_info, &(int){0}, &err), 0);
    assert_int_equal(sqlock_acquire(m, "nightly", &o, &none, NULL), SQLOCK_EBUSY);
    assert_int_equal(sqlock_release(lock, &err), 0);
    assert_memory_equal(&err, &before, sizeof err);
    assert_int_equal(sqlock_renew(lock, NULL), SQLOCK_ESTATE);
    assert_int_equal(sqlock_acquire(m, "", &o, &none, NULL), SQLOCK_EINVAL);
    drop(lock);
}

/* A handle from before is none after a failure: whoever frees it then would do so twice. */
CORE_TEST(test_failed_start_leaves_no_handle, m)
{
    sqlock_lock *lock = take(m, "nightly");
    sqlock_op *op = (sqlock_op *)&said;
    long before = spy_runs(-1);

    says(SQLOCK_EINVAL, sqlock_acquire_start(m, "", NULL, &op, &said));
    assert_null(op);
    op = (sqlock_op *)&said;
    says(SQLOCK_EINVAL, sqlock_renew_start(NULL, &op, &said));
    assert_null(op);
    op = (sqlock_op *)&said;
    says(SQLOCK_EINVAL, sqlock_release_start(NULL, &op, &said));
    assert_null(op);
    says(SQLOCK_EINVAL, sqlock_acquire_start(m, "x", NULL, NULL, &said));
    says(SQLOCK_EINVAL, sqlock_renew_start(lock, NULL, &said));
    says(SQLOCK_EINVAL, sqlock_release_start(lock, NULL, &said));
    assert_state(SQLOCK_HELD, lock); /* no release has begun */
    says(SQLOCK_EINVAL, sqlock_list(m, NULL, NULL, NULL, &said));
    says(SQLOCK_EINVAL, sqlock_cancel_new(NULL, &said));
    assert_int_equal(spy_runs(-1), before);
    give(lock);
}

CORE_TEST(test_request_that_is_NULL_is_refused, m)
{
    sqlock_lock *lock = (sqlock_lock *)&said;

    (void)m;
    assert_int_equal(SQLOCK_EINVAL, sqlock_op_fd(NULL));
    assert_int_equal(1, sqlock_op_step(NULL)); /* and then it is finished */
    assert_int_equal(0, sqlock_op_place(NULL));
    sqlock_op_cancel(NULL);
    says(SQLOCK_EINVAL, sqlock_op_finish(NULL, &lock, &said));
    assert_null(lock);
}

CORE_TEST(test_no_handle_is_no_crash, m)
{
    unsigned char owner[SQLOCK_OWNER_SIZE] = {0};

    (void)m;
    assert_string_equal("", sqlock_lock_name(NULL));
    sqlock_cancel_fire(NULL);
    sqlock_scope_end(NULL);
    assert_int_equal(0, sqlock_same_actor(NULL, owner));
    assert_int_equal(0, sqlock_same_actor(owner, NULL));
}
