/* P24: locks with several holders: shared ones, and slots. */
#define SUITE_NEEDS QUEUES
#include <sqlock/admin.h>
#include <sqlock/import.h>
#include <sqlock/many.h>
#include <sqlock/mode.h>
#include <sqlock/transaction.h>

#include "tests/drivers/suite_in_transaction.h"
#include "tests/drivers/suite_seats.h"

sqlock_acquire_opts mode_opts(int64_t mode, int32_t wait_ms)
{
    sqlock_acquire_opts opts = wait_opts(wait_ms, 0, 0);

    opts.mode = mode;
    return opts;
}

sqlock_lock *sit(sqlock *m, const char *name, int64_t mode)
{
    sqlock_acquire_opts opts = mode_opts(mode, 10000);

    return take_with(m, name, &opts);
}

int try_mode(sqlock *m, const char *name, int64_t mode)
{
    sqlock_acquire_opts opts = mode_opts(mode, 0);
    sqlock_lock *lock = NULL;
    int code = sqlock_acquire(m, name, &opts, &lock, &said);

    if (code == SQLOCK_OK)
        give(keep(lock));
    return code;
}

TEST(test_P24_shared_holders_stand_beside_each_other, m, other)
{
    sqlock_lock *first = sit(m, "door", SQLOCK_SHARED), *second = sit(other, "door", SQLOCK_SHARED);

    assert_int_equal(sqlock_lock_slot(first), 0);
    assert_int_equal(sqlock_lock_slot(second), 1);
    assert_int_equal(sqlock_lock_mode(second), SQLOCK_SHARED);
    assert_string_equal(sqlock_lock_name(second), "door");
    assert_true(sqlock_lock_token(second) > sqlock_lock_token(first));
    says(SQLOCK_EBUSY, try_once(other, "door"));
    give(first);
    says(SQLOCK_EBUSY, try_once(m, "door"));
    give(second);
    assert_true(is_free(m, "door"));
}

TEST(test_P24_exclusive_holder_keeps_shared_ones_out, m, other)
{
    sqlock_lock *alone = take(m, "door"), *shared;
    int64_t token = sqlock_lock_token(alone);

    assert_int_equal(sqlock_lock_slot(alone), -1);
    assert_int_equal(try_mode(other, "door", SQLOCK_SHARED), SQLOCK_EBUSY);
    give(alone);
    shared = sit(other, "door", SQLOCK_SHARED);
    assert_true(sqlock_lock_token(shared) > token);
    token = sqlock_lock_token(shared);
    give(shared);
    alone = take(m, "door");
    assert_true(sqlock_lock_token(alone) > token);
}

/* P9 */
TEST(test_refusal_names_a_shared_holder, m, other)
{
    sqlock_holder holder = {.size = sizeof holder};
    sqlock_acquire_opts opts = mode_opts(SQLOCK_EXCLUSIVE, 0);
    sqlock_lock *shared = sit(m, "door", SQLOCK_SHARED), *none = NULL;

    opts.holder = &holder;
    says(SQLOCK_EBUSY, sqlock_acquire(other, "door", &opts, &none, &said));
    assert_int_equal(holder.token, sqlock_lock_token(shared));
    assert_true(holder.left_ms > 0);
}

TEST(test_P24_as_many_hold_as_there_are_slots, m, other)
{
    sqlock_lock *first = sit(m, "port", SQLOCK_SLOTS(2)), *second = sit(other, "port", 2), *third;

    assert_int_equal(sqlock_lock_slot(first), 0);
    assert_int_equal(sqlock_lock_slot(second), 1);
    assert_int_equal(try_mode(m, "port", 2), SQLOCK_EBUSY);
    give(first);
    third = sit(other, "port", 2);
    assert_int_equal(sqlock_lock_slot(third), 0);
    assert_int_equal(sqlock_lock_mode(third), SQLOCK_SLOTS(2));
    give(second);
    give(third);
}

TEST(test_P24_what_does_not_go_with_the_holders_is_refused, m, other)
{
    sqlock_lock *slot = sit(m, "port", SQLOCK_SLOTS(2)), *shared = sit(m, "door", SQLOCK_SHARED);

    assert_int_equal(try_mode(other, "port", 3), SQLOCK_EREFUSED);
    assert_non_null(strstr(said.text, "2 slots"));
    assert_non_null(strstr(said.text, "3 slots"));
    assert_int_equal(try_mode(other, "port", SQLOCK_SHARED), SQLOCK_EREFUSED);
    assert_int_equal(try_once(other, "port"), SQLOCK_EREFUSED);
    assert_int_equal(try_mode(other, "door", 2), SQLOCK_EREFUSED);
    give(slot);
    give(shared);
    assert_int_equal(try_mode(other, "port", 3), SQLOCK_OK);
    assert_int_equal(try_mode(other, "port", SQLOCK_SHARED), SQLOCK_OK);
    assert_int_equal(try_mode(other, "door", 2), SQLOCK_OK);
    assert_true(is_free(other, "door"));
}

/* The row could not tell such a grant from the exclusive one of the same owner. */
/* One of a list may be shared, and another one not. */
TEST(test_each_name_of_a_list_has_its_mode, m, other)
{
    static const char *const names[] = {"door", "port", "room"};
    static const int64_t modes[] = {SQLOCK_SHARED, SQLOCK_SLOTS(2), SQLOCK_EXCLUSIVE};
    sqlock_acquire_opts opts = wait_opts(0, 0, 0);
    sqlock_lock *locks[3], *shared = sit(other, "door", SQLOCK_SHARED);

    opts.modes = modes;
    ok(sqlock_acquire_all(m, names, 3, &opts, locks, &said));
    assert_int_equal(sqlock_lock_slot(locks[0]), 1);
    assert_int_equal(sqlock_lock_slot(locks[1]), 0);
    assert_int_equal(sqlock_lock_slot(locks[2]), -1);
    assert_int_equal(try_mode(other, "door", SQLOCK_SHARED), 0);
    assert_int_equal(try_mode(other, "port", SQLOCK_SLOTS(2)), 0);
    assert_int_equal(try_mode(other, "room", SQLOCK_SHARED), SQLOCK_EBUSY);
    ok(sqlock_end_each(locks, 3, NULL, &said));
    give(shared);
    shared = sit(other, "room", SQLOCK_SHARED);
    says(SQLOCK_EBUSY, sqlock_acquire_all(m, names, 3, &opts, locks, &said));
    assert_non_null(strstr(said.text, "room"));
    assert_true(is_free(other, "door"));
    assert_true(is_free(other, "port"));
    give(shared);
}

TEST(test_modes_that_cannot_be_are_refused, m)
{
    static const char *const names[] = {"door", "port"};
    static const int64_t wrong[] = {SQLOCK_EXCLUSIVE, SQLOCK_SLOTS_MAX + 1};
    sqlock_acquire_opts opts = wait_opts(0, 0, 0);
    sqlock_lock *locks[2], *lock;

    opts.modes = wrong;
    says(SQLOCK_EINVAL, sqlock_acquire_all(m, names, 2, &opts, locks, &said));
    says(SQLOCK_EINVAL, sqlock_acquire_each(m, names, 2, &opts, locks, NULL, &said));
    says(SQLOCK_EINVAL, sqlock_acquire(m, "door", &opts, &lock, &said));
}

TEST(test_owner_is_given_to_exclusive_acquires_only, m)
{
    sqlock_acquire_opts opts = mode_opts(SQLOCK_SHARED, 0);
    sqlock_lock *alone = take(m, "door"), *none = NULL;

    opts.owner = sqlock_lock_owner(alone);
    says(SQLOCK_EINVAL, sqlock_acquire(m, "door", &opts, &none, &said));
    opts.mode = SQLOCK_SLOTS(1);
    says(SQLOCK_EINVAL, sqlock_acquire(m, "door", &opts, &none, &said));
    assert_true(sqlock_is_held(alone));
}

static sqlock_lock *import_seat(sqlock *m, sqlock_lock *of, int64_t slot)
{
    sqlock_acquire_opts opts = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL;

    opts.slot = slot;
    ok(sqlock_import(m, sqlock_lock_name(of), sqlock_lock_owner(of), sqlock_lock_token(of), &opts,
                     &lock, &said));
    return keep(lock);
}

TEST(test_seat_is_imported_by_its_number, m, other)
{
    static const int64_t modes[] = {SQLOCK_SHARED, SQLOCK_SLOTS(2)};

    for (int i = 0; i < 2; i++) {
        sqlock_lock *first = sit(m, "door", modes[i]), *second = sit(m, "door", modes[i]);
        sqlock_lock *import = import_seat(other, second, 1);

        ok(sqlock_settle(import, 5000, &said));
        assert_int_equal(sqlock_lock_slot(import), 1);
        assert_int_equal(sqlock_lock_token(import), sqlock_lock_token(second));
        says(SQLOCK_ESTATE, sqlock_downgrade(&import, &said)); /* in which mode it is no one said */
        says(SQLOCK_ESTATE, sqlock_upgrade(&import, 0, NULL, &said));
        give(import);
        assert_int_equal(sqlock_settle(import_seat(other, second, 1), 5000, &said), SQLOCK_ELOST);
        assert_int_equal(sqlock_settle(import_seat(other, first, 1), 5000, &said), SQLOCK_ELOST);
        assert_true(sqlock_is_held(first));
        says(SQLOCK_ELOST, sqlock_renew(second, &said));
        give(first);
        assert_true(is_free(other, "door"));
    }
}

TEST(test_seats_that_cannot_be_are_not_imported, m)
{
    sqlock_lock *lock = sit(m, "door", SQLOCK_SHARED), *none = NULL;
    sqlock_acquire_opts opts = SQLOCK_ACQUIRE_OPTS_INIT;

    opts.mode = SQLOCK_SHARED;
    says(SQLOCK_EINVAL, sqlock_import(m, "door", sqlock_lock_owner(lock), sqlock_lock_token(lock),
                                      &opts, &none, &said));
    opts.slot = -2;
    says(SQLOCK_EINVAL, sqlock_import(m, "door", sqlock_lock_owner(lock), sqlock_lock_token(lock),
                                      &opts, &none, &said));
    opts.slot = 1 << 24;
    says(SQLOCK_EINVAL, sqlock_import(m, "door", sqlock_lock_owner(lock), sqlock_lock_token(lock),
                                      &opts, &none, &said));
}

/* P7, P10 */
TEST(test_shared_lease_is_renewed_and_runs_out, m, other)
{
    sqlock_acquire_opts renewed = mode_opts(SQLOCK_SHARED, 5000), not = renewed;
    sqlock_lock *keeps, *runs_out;

    renewed.lease_ms = not .lease_ms = 1500;
    not .flags = SQLOCK_NO_RENEW;
    keeps = take_with(m, "door", &renewed);
    runs_out = take_with(m, "gate", &not );
    sleep_ms(2000);
    assert_state(SQLOCK_HELD, keeps);
    says(SQLOCK_EBUSY, try_once(other, "door"));
    assert_lost(runs_out, SQLOCK_WHY_EXPIRED);
    assert_true(is_free(other, "gate"));
    says(SQLOCK_ELOST, sqlock_release(runs_out, &said));
    give(keeps);
}

/* P5 */
TEST(test_P5_seat_whose_reply_was_lost_is_settled, m, other)
{
    sqlock_acquire_opts opts = mode_opts(SQLOCK_SHARED, 0);
    sqlock_lock *lock = NULL;
    int code;

    spy_lose_reply(SQLOCK_STMT_SEAT);
    code = sqlock_acquire(m, "door", &opts, &lock, &said);
    if (code == SQLOCK_EUNSURE)
        code = sqlock_settle(lock, 5000, &said);
    ok(code);
    assert_int_equal(sqlock_lock_slot(lock), 0);
    says(SQLOCK_EBUSY, try_once(other, "door"));
    give(keep(lock));
    assert_true(is_free(other, "door"));
}

/* Whatever a request was for, when its reply is lost: no one is kept out for ever, and no one is
 * beside an exclusive holder. */
TEST(test_P5_lost_replies_leave_no_seat_and_no_turn_behind, m, other)
{
    static const sqlock_stmt lost[] = {SQLOCK_STMT_SEAT, SQLOCK_STMT_DRAIN, SQLOCK_STMT_QUEUE,
                                       SQLOCK_STMT_ACQUIRE, SQLOCK_STMT_RELEASE};

    for (size_t i = 0; i < sizeof lost / sizeof *lost; i++)
        for (int alone = 0; alone < 2; alone++) {
            sqlock_acquire_opts opts =
                mode_opts(alone ? SQLOCK_EXCLUSIVE : SQLOCK_SHARED, patience_ms(5000));
            sqlock_lock *lock = NULL, *first = sit(other, "door", SQLOCK_SHARED);
            int code;

            give(first);
            spy_lose_reply(lost[i]);
            code = sqlock_acquire(m, "door", &opts, &lock, &said);
            if (code == SQLOCK_EUNSURE)
                code = sqlock_settle(lock, patience_ms(5000), &said);
            ok(code);
            assert_int_equal(try_mode(other, "door", SQLOCK_EXCLUSIVE), SQLOCK_EBUSY);
            assert_int_equal(try_mode(other, "door", SQLOCK_SHARED),
                             alone ? SQLOCK_EBUSY : SQLOCK_OK);
            code = sqlock_release(keep(lock), &said);
            ok(code == SQLOCK_EUNSURE ? sqlock_settle(lock, patience_ms(5000), &said) : code);
            drop(lock);
            assert_true(is_free(other, "door"));
        }
}

/* Its handle may be given back before anyone knows what became of it. */
TEST(test_P5_seat_whose_reply_was_lost_is_given_back, m, other)
{
    sqlock_acquire_opts opts = mode_opts(SQLOCK_SHARED, 0);
    sqlock_lock *lock = NULL;
    int code;

    spy_hold_back(SQLOCK_STMT_SEAT, 1);
    code = sqlock_acquire(m, "door", &opts, &lock, &said);
    if (code == SQLOCK_EUNSURE)
        ok(sqlock_release(keep(lock), &said));
    else if (code == SQLOCK_OK)
        give(keep(lock));
    spy_arrive(1); /* with the next request */
    assert_int_equal(try_mode(other, "door", SQLOCK_SHARED), SQLOCK_OK);
    assert_true(is_free(other, "door"));
}

TEST_IF(GUARDS, test_P11_guard_of_a_shared_holder_keeps_exclusive_ones_out_and_shared_ones_in)
{
    sqlock *m, *other;
    sqlock_acquire_opts opts = mode_opts(SQLOCK_SHARED, 5000);
    sqlock_lock *shared, *second;
    sqlock_conn *conn;

    begin_app(w);
    if (g.driver->caps & SQLOCK_CAP_ONE_WRITER)
        return; /* the guard keeps all others out */
    m = open_manager(w, NULL);
    other = open_with(w, with.request_ms = 2000);
    opts.lease_ms = 400;
    opts.flags = SQLOCK_NO_RENEW;
    shared = take_with(m, "door", &opts);
    conn = adopted(m, g.app);
    app_exec(g.app, g.side->begins[0]);
    ok(sqlock_guard(shared, conn, &said));
    sleep_ms(500); /* it runs out */
    assert_int_equal(try_once(other, "door"), SQLOCK_EGUARDED);
    second = sit(other, "door", SQLOCK_SHARED);
    assert_int_equal(sqlock_lock_slot(second), 1);
    give(second);
    app_exec(g.app, "COMMIT");
    assert_true(is_free(other, "door"));
}

/* A session that meets others at a lock's row waits for it from then on. It makes the rows of new
 * names all the same. */
TEST_WITH(MANY_WRITERS | ADOPTION, begin_app, test_new_name_is_shared_after_a_wait_for_a_row)
{
    sqlock *m = open_with(w, with.connections = 2);

    give(sit(m, "door", SQLOCK_SHARED));
    for (int i = 0; i < 3; i++) {
        app_exec(g.app, g.side->begins[0],
                 "SELECT 1 FROM sqlock_lock WHERE name = 'door' FOR UPDATE");
        exec_later(200, g.app, "COMMIT");
        give(sit(m, "door", SQLOCK_SHARED));
        await_later();
    }
    give(sit(m, "gate", SQLOCK_SHARED));
    assert_int_equal(try_mode(m, "window", SQLOCK_SHARED), SQLOCK_OK);
}

TEST(test_break_ends_one_shared_holder, m, other)
{
    sqlock_lock *first = sit(m, "door", SQLOCK_SHARED), *second = sit(m, "door", SQLOCK_SHARED);
    int64_t token = sqlock_lock_token(second);

    ok(sqlock_break(other, "door", token, &said));
    says(SQLOCK_ELOST, sqlock_break(other, "door", token, &said));
    says(SQLOCK_ELOST, sqlock_renew(second, &said));
    assert_lost(second, SQLOCK_WHY_BROKEN);
    ok(sqlock_renew(first, &said));
    give(first);
    assert_true(is_free(other, "door"));
}

static int count_seats(const sqlock_info *info, void *user)
{
    int *n = user;

    assert_string_equal(info->name, "door");
    assert_int_equal(info->slot, *n);
    assert_int_equal(info->mode, SQLOCK_SHARED);
    ++*n;
    return 0;
}

static int64_t holders_of(sqlock *m, const char *name)
{
    sqlock_info info = {.size = sizeof info};

    ok(sqlock_find(m, name, &info, &said));
    return info.holders;
}

TEST(test_list_has_all_shared_holders, m, other)
{
    sqlock_lock *first = sit(m, "door", SQLOCK_SHARED), *second = sit(other, "door", SQLOCK_SHARED);
    int n = 0;

    ok(sqlock_list(m, NULL, count_seats, &n, &said));
    assert_int_equal(n, 2);
    assert_int_equal(holders_of(m, "door"), 2);
    give(first);
    assert_int_equal(holders_of(m, "door"), 1);
    give(second);
    assert_int_equal(holders_of(m, "door"), 0);
    first = take(m, "door");
    assert_int_equal(holders_of(m, "door"), 1);
    give(first);
    assert_int_equal(holders_of(m, "door"), 0);
}

enum { CROWD = 8, ROUNDS = 25 };

static struct {
    atomic_int shared, alone, wrong;
    _Atomic int64_t until; /* a turn that is not given back costs a second each time */
} inside;

struct visitor {
    sqlock *m;
    int number, failed;
};

static void *visit(void *arg)
{
    struct visitor *v = arg;

    for (int i = 0; i < ROUNDS; i++) {
        bool alone = (v->number + i) % 4 == 0;
        sqlock_acquire_opts opts =
            mode_opts(alone ? SQLOCK_EXCLUSIVE : SQLOCK_SHARED, patience_ms(8000));
        sqlock_lock *lock = NULL;

        if (sqlock_acquire(v->m, "door", &opts, &lock, &said) != 0 ||
            now_us() > atomic_load(&inside.until)) {
            v->failed++;
            sqlock_scope_end(&lock);
            break;
        }
        atomic_fetch_add(alone ? &inside.alone : &inside.shared, 1);
        if (atomic_load(&inside.alone) > (alone ? 1 : 0) || (alone && atomic_load(&inside.shared)))
            atomic_fetch_add(&inside.wrong, 1);
        sleep_ms(1);
        atomic_fetch_sub(alone ? &inside.alone : &inside.shared, 1);
        v->failed += sqlock_release(lock, &said) != 0;
        sqlock_lock_free(lock);
    }
    return NULL;
}

TEST(test_P24_no_one_is_beside_an_exclusive_holder_in_a_crowd, m, other)
{
    struct visitor crowd[CROWD];
    int failed = 0;

    if (suite_stepped)
        return; /* one thread steps them all */
    for (int i = 0; i < CROWD; i++)
        crowd[i] = (struct visitor){i % 2 ? m : other, i, 0};
    atomic_store(&inside.until, now_us() + patience_ms(12000) * INT64_C(1000));
    run_threads(CROWD, crowd, sizeof *crowd, visit);
    for (int i = 0; i < CROWD; i++)
        failed += crowd[i].failed;
    assert_int_equal(failed, 0);
    assert_int_equal(atomic_load(&inside.wrong), 0);
}
