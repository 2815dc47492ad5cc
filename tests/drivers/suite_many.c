/* Several locks in one call: each its own lease, and together they cost one request. */
#include <sqlock/admin.h>
#include <sqlock/many.h>

#include "tests/drivers/suite_many.h"

enum { ROUNDS = 4 };

struct list list;

static void end_list(void)
{
    for (int i = 0; i < CROWD; i++) {
        sqlock_lock_free(list.locks[i]);
        list.locks[i] = NULL;
    }
}

void begin_list(struct world *w)
{
    memset(&list, 0, sizeof list);
    for (int i = 0; i < CROWD; i++) {
        snprintf(list.texts[i], sizeof list.texts[i], "n%03d", i * 7 % CROWD);
        list.names[i] = list.texts[i];
    }
    at_end(w, end_list);
}

sqlock_acquire_opts quick_opts(int32_t wait_ms)
{
    return wait_opts(wait_ms, 60000, SQLOCK_NO_RENEW);
}

static int each(sqlock *m, size_t n, int32_t wait_ms)
{
    sqlock_acquire_opts o = quick_opts(wait_ms);

    return sqlock_acquire_each(m, list.names, n, &o, list.locks, list.codes, &said);
}

static int all(sqlock *m, size_t n, int32_t wait_ms)
{
    sqlock_acquire_opts o = quick_opts(wait_ms);

    return sqlock_acquire_all(m, list.names, n, &o, list.locks, &said);
}

int end_all(size_t n)
{
    return sqlock_end_each(list.locks, n, list.codes, &said);
}

void assert_none(size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_null(list.locks[i]);
}

static void assert_held(sqlock *other, size_t i)
{
    sqlock_info info = {.size = sizeof info};

    assert_state(SQLOCK_HELD, list.locks[i]);
    assert_string_equal(sqlock_lock_name(list.locks[i]), list.names[i]);
    ok(sqlock_find(other, list.names[i], &info, &said));
    assert_int_equal(info.holder.token, sqlock_lock_token(list.locks[i]));
}

void make_rows(sqlock *m, size_t n)
{
    ok(each(m, n, 10000));
    ok(end_all(n));
}

static void *give_later(void *arg)
{
    sqlock_lock *lock = *(sqlock_lock **)arg;
    sqlock_error err;

    sleep_ms(200);
    return sqlock_release(lock, &err) == 0 ? arg : NULL;
}

/* ---- as many as possible --------------------------------------------------------------------- */

/* At first there are no rows. Tokens rise. */
TEST_AFTER(begin_list, test_P2_each_name_of_a_list_is_taken_and_given_back, m, other)
{
    int64_t last[NAMES] = {0};

    for (int round = 0; round < 3; round++) {
        ok(each(m, NAMES, 0));
        for (size_t i = 0; i < NAMES; i++) {
            assert_int_equal(list.codes[i], SQLOCK_OK);
            assert_held(other, i);
            assert_true(sqlock_lock_token(list.locks[i]) > last[i]);
            last[i] = sqlock_lock_token(list.locks[i]);
            assert_int_equal(try_once(other, list.names[i]), SQLOCK_EBUSY);
        }
        ok(end_all(NAMES));
        assert_none(NAMES);
        for (size_t i = 0; i < NAMES; i++)
            assert_true(is_free(other, list.names[i]));
    }
}

TEST_AFTER(begin_list, test_P9_what_others_hold_is_refused_and_the_rest_is_taken, m, other)
{
    sqlock_holder holder = {.size = sizeof holder};
    sqlock_acquire_opts o = quick_opts(0);
    sqlock_lock *third = take(other, list.names[3]), *fifth = take(other, list.names[5]);

    make_rows(m, 3);
    o.holder = &holder;
    says(SQLOCK_EBUSY,
         sqlock_acquire_each(m, list.names, NAMES, &o, list.locks, list.codes, &said));
    assert_non_null(strstr(said.text, list.names[3]));
    assert_int_equal(holder.token, sqlock_lock_token(third));
    for (size_t i = 0; i < NAMES; i++) {
        bool refused = i == 3 || i == 5;

        assert_int_equal(list.codes[i], refused ? SQLOCK_EBUSY : SQLOCK_OK);
        if (refused)
            assert_null(list.locks[i]);
        else
            assert_held(other, i);
    }
    give(third);
    give(fifth);
    ok(end_all(NAMES));
}

TEST_AFTER(begin_list, test_P3_one_that_was_broken_is_said_to_be_lost_and_the_others_released, m,
           other)
{
    sqlock_lock *theirs;

    ok(each(m, NAMES, 0));
    ok(sqlock_break(other, list.names[4], sqlock_lock_token(list.locks[4]), &said));
    theirs = take(other, list.names[4]);
    says(SQLOCK_ELOST, end_all(NAMES));
    assert_non_null(strstr(said.text, list.names[4]));
    for (size_t i = 0; i < NAMES; i++)
        assert_int_equal(list.codes[i], i == 4 ? SQLOCK_ELOST : SQLOCK_OK);
    assert_none(NAMES);
    ok(sqlock_renew(theirs, &said));
    give(theirs);
}

/* It goes out in as few requests as batches have room for. */
static void assert_few(long before, sqlock_stmt stmt, long most)
{
    assert_between(1, spy_runs((int)stmt) - before, most);
}

TEST_WITH(BATCHES, begin_list, test_list_costs_one_request, m)
{
    long acquires, releases;

    make_rows(m, NAMES);
    acquires = spy_runs(SQLOCK_STMT_ACQUIRE);
    releases = spy_runs(SQLOCK_STMT_RELEASE);
    ok(each(m, NAMES, 0));
    assert_few(acquires, SQLOCK_STMT_ACQUIRE, 1);
    ok(end_all(NAMES));
    assert_few(releases, SQLOCK_STMT_RELEASE, 1);
    ok(all(m, NAMES, 0));
    assert_few(acquires, SQLOCK_STMT_ACQUIRE, 2);
    ok(end_all(NAMES));
}

TEST_WITH(BATCHES | LEISURE, begin_list, test_long_list_costs_few_requests, m)
{
    long acquires;

    make_rows(m, CROWD);
    acquires = spy_runs(SQLOCK_STMT_ACQUIRE);
    ok(each(m, CROWD, 10000));
    assert_few(acquires, SQLOCK_STMT_ACQUIRE, 8);
    for (size_t i = 0; i < CROWD; i++)
        assert_state(SQLOCK_HELD, list.locks[i]);
    ok(end_all(CROWD));
}

/* The same requests again find the same grants. */
TEST_AFTER(begin_list, test_P5_list_whose_reply_is_lost_is_held_all_the_same, m, other)
{
    make_rows(m, NAMES);
    spy_lose_reply(SQLOCK_STMT_ACQUIRE);
    ok(each(m, NAMES, 10000));
    for (size_t i = 0; i < NAMES; i++)
        assert_held(other, i);
    spy_lose_reply(SQLOCK_STMT_RELEASE);
    ok(end_all(NAMES));
    for (size_t i = 0; i < NAMES; i++)
        assert_true(is_free(other, list.names[i]));
}

TEST_AFTER(begin_list, test_P8_list_ends_in_time_where_one_name_stays_held, m, other)
{
    sqlock_lock *lock = take(other, list.names[2]);

    make_rows(m, 2);
    assert_takes(0, patience_ms(700), says(SQLOCK_EBUSY, each(m, NAMES, patience_ms(400))));
    for (size_t i = 0; i < NAMES; i++)
        assert_int_equal(list.codes[i], i == 2 ? SQLOCK_EBUSY : SQLOCK_OK);
    ok(end_all(NAMES));
    give(lock);
}

/* The first name is refused at first, and granted later. */
TEST_AFTER(begin_list, test_P9_holder_is_of_a_name_that_is_refused_in_the_end, m, other)
{
    sqlock_holder holder = {.size = sizeof holder};
    sqlock_acquire_opts o = wait_opts(patience_ms(1500), 60000, 0);
    sqlock_lock *lock, *stays;
    pthread_t thread;

    lock = take(other, list.names[0]);
    stays = take(other, list.names[1]);
    while (sqlock_lock_token(lock) == sqlock_lock_token(stays)) {
        give(stays);
        stays = take(other, list.names[1]);
    }
    o.holder = &holder;
    assert_int_equal(pthread_create(&thread, NULL, give_later, &lock), 0);
    says(SQLOCK_EBUSY, sqlock_acquire_each(m, list.names, 2, &o, list.locks, list.codes, &said));
    pthread_join(thread, NULL);
    assert_state(SQLOCK_HELD, list.locks[0]);
    assert_int_equal(holder.token, sqlock_lock_token(stays));
    give(stays);
    ok(end_all(2));
}

/* The first name is granted at once, and its lease is over, or half over, before the second one is
 * granted. That is 200 ms later or more, so from then on half of the lease must be left. */
TEST_AFTER(begin_list, test_P4_list_hands_out_no_lock_that_was_lost_while_it_waited, m, other)
{
    sqlock_acquire_opts o = wait_opts(10000, 300, SQLOCK_NO_RENEW);
    int64_t half = (300 / 2 - 300 / 10) * INT64_C(1000), begun;
    sqlock_lock *lock = take(other, list.names[1]);
    pthread_t thread;

    for (int again = 0; again < 2; again++) {
        begun = now_us();
        assert_int_equal(pthread_create(&thread, NULL, give_later, &lock), 0);
        if (sqlock_acquire_each(m, list.names, 2, &o, list.locks, list.codes, &said) != 0)
            assert_true(said.code == SQLOCK_ELOST || said.code == SQLOCK_ETIMEOUT);
        pthread_join(thread, NULL);
        for (int i = 0; i < 2; i++) {
            assert_true((list.locks[i] != NULL) == (list.codes[i] == SQLOCK_OK));
            if (list.locks[i] != NULL)
                assert_true(sqlock_lock_deadline_us(list.locks[i]) >= begun + 200000 + half);
        }
        drop(lock);
        end_list();
        lock = take(other, list.names[1]);
    }
    give(lock);
}

/* ---- all or none ----------------------------------------------------------------------------- */

TEST_AFTER(begin_list, test_P9_all_or_none_holds_none_if_one_is_refused, m, other)
{
    sqlock_holder holder = {.size = sizeof holder};
    sqlock_acquire_opts o = quick_opts(0);
    sqlock_lock *lock = take(other, list.names[7]);

    o.holder = &holder;
    says(SQLOCK_EBUSY, sqlock_acquire_all(m, list.names, NAMES, &o, list.locks, &said));
    assert_non_null(strstr(said.text, list.names[7]));
    assert_int_equal(holder.token, sqlock_lock_token(lock));
    assert_none(NAMES);
    for (size_t i = 0; i < NAMES; i++)
        assert_int_equal(is_free(other, list.names[i]), i != 7);
    give(lock);
    ok(all(m, NAMES, 0));
    for (size_t i = 0; i < NAMES; i++)
        assert_held(other, i);
    ok(end_all(NAMES));
}

struct collector {
    sqlock *m;
    const char *names[3];
    sqlock_error err;
    int code, got;
};

static void *collect(void *arg)
{
    struct collector *c = arg;
    sqlock_acquire_opts o = wait_opts(patience_ms(60000), 10000, 0);
    sqlock_lock *locks[3];

    for (c->got = 0; c->got < ROUNDS; c->got++) {
        c->code = sqlock_acquire_all(c->m, c->names, 3, &o, locks, &c->err);
        if (c->code == 0)
            c->code = sqlock_end_each(locks, 3, NULL, &c->err);
        if (c->code != 0)
            break;
    }
    return NULL;
}

/* They want the same names in different orders. */
TEST_WITH(LEISURE, begin_list, test_P8_all_or_none_callers_do_not_wait_for_each_other, a, b)
{
    struct collector cs[] = {{.m = a, .names = {"x", "y", "z"}},
                             {.m = b, .names = {"z", "y", "x"}},
                             {.m = a, .names = {"y", "u", "x"}},
                             {.m = b, .names = {"u", "z", "y"}}};

    run_threads(4, cs, sizeof cs[0], collect);
    for (int i = 0; i < 4; i++) {
        assert_code(SQLOCK_OK, cs[i].code, &cs[i].err);
        assert_int_equal(cs[i].got, ROUNDS);
    }
}

TEST_AFTER(begin_list, test_P8_all_or_none_waits_for_what_is_held, m, other)
{
    sqlock_lock *lock = take(other, list.names[1]);
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, give_later, &lock), 0);
    ok(all(m, 3, 10000));
    pthread_join(thread, NULL);
    for (size_t i = 0; i < 3; i++)
        assert_held(other, i);
    ok(end_all(3));
}

TEST_AFTER(begin_list, test_P8_all_or_none_ends_by_its_cancel_and_holds_none, m, other)
{
    sqlock_acquire_opts o = quick_opts(SQLOCK_WAIT_FOREVER);
    sqlock_lock *lock = take(other, list.names[1]);

    ok(sqlock_cancel_new(&o.cancel, &said));
    sqlock_cancel_fire(o.cancel);
    says(SQLOCK_ECANCELLED, sqlock_acquire_all(m, list.names, 3, &o, list.locks, &said));
    sqlock_cancel_free(o.cancel);
    assert_none(3);
    assert_true(is_free(other, list.names[0]) && is_free(other, list.names[2]));
    give(lock);
}

/* ---- arguments ------------------------------------------------------------------------------- */

CORE_TEST(test_list_with_a_wrong_argument_sends_nothing, m)
{
    static const char *const twice[] = {"a", "b", "a"}, *const empty[] = {"a", ""},
                             *const one[] = {"a"};
    unsigned char owner[SQLOCK_OWNER_SIZE] = {1};
    sqlock_acquire_opts o = quick_opts(0);
    sqlock_lock *locks[3];
    long before = spy_runs(-1);

    says(SQLOCK_EINVAL, sqlock_acquire_each(m, twice, 3, NULL, locks, NULL, &said));
    assert_non_null(strstr(said.text, "twice"));
    assert_true(locks[0] == NULL && locks[1] == NULL && locks[2] == NULL);
    says(SQLOCK_EINVAL, sqlock_acquire_all(m, empty, 2, NULL, locks, &said));
    says(SQLOCK_EINVAL, sqlock_acquire_all(m, NULL, 2, NULL, locks, &said));
    says(SQLOCK_EINVAL, sqlock_acquire_all(m, one, 1, NULL, NULL, &said));
    says(SQLOCK_EINVAL, sqlock_acquire_all(m, one, 0, NULL, locks, &said));
    says(SQLOCK_EINVAL, sqlock_acquire_all(m, one, SQLOCK_MANY_MAX + 1, NULL, locks, &said));
    says(SQLOCK_EINVAL, sqlock_acquire_all(NULL, one, 1, NULL, locks, &said));
    o.owner = owner;
    says(SQLOCK_EINVAL, sqlock_acquire_each(m, one, 1, &o, locks, NULL, &said));
    o.owner = NULL;
    o.wait_ms = -7;
    says(SQLOCK_EINVAL, sqlock_acquire_each(m, one, 1, &o, locks, NULL, &said));
    says(SQLOCK_EINVAL, sqlock_end_each(NULL, 1, NULL, &said));
    assert_int_equal(spy_runs(-1), before);
}

CORE_TEST(test_list_of_nothing_is_released, m)
{
    sqlock_lock *locks[3] = {NULL, forget(take(m, "a")), NULL};
    int codes[3] = {-1, -1, -1};

    ok(sqlock_end_each(locks, 3, codes, &said));
    assert_true(codes[0] == 0 && codes[1] == 0 && codes[2] == 0 && locks[1] == NULL);
    ok(sqlock_end_each(locks, 3, codes, &said));
    ok(sqlock_end_each(locks, 0, NULL, &said));
    assert_true(is_free(m, "a"));
}
