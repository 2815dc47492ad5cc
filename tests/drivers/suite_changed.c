/* P2, P5, P7, P11: what becomes of a lock whose mode was to change: no answer came, a guard stood,
 * or many others wanted it. */
#define SUITE_NEEDS QUEUES
#include <sqlock/admin.h>
#include <sqlock/mode.h>
#include <sqlock/transaction.h>

#include "tests/drivers/suite_change.h"
#include "tests/drivers/suite_in_transaction.h"

/* P5: whatever reply is lost, the change is made, or the lock is what its handle says. In the end
 * no one is kept out. */
TEST(test_P5_lost_replies_of_a_change_leave_nothing_behind, m, other)
{
    static const sqlock_stmt lost[] = {SQLOCK_STMT_SEAT, SQLOCK_STMT_QUEUE, SQLOCK_STMT_DRAIN,
                                       SQLOCK_STMT_ACQUIRE, SQLOCK_STMT_RELEASE};

    for (size_t i = 0; i < sizeof lost / sizeof *lost; i++)
        for (int up = 0; up < 2; up++) {
            sqlock_lock *lock = up ? sit(m, "door", SQLOCK_SHARED) : take(m, "door");
            int code;

            spy_lose_reply(lost[i]);
            code = up ? upgrade(&lock, patience_ms(5000)) : downgrade(&lock);
            if (!up && code == SQLOCK_EUNSURE)
                code = sqlock_settle(lock, patience_ms(5000), &said);
            if (code == SQLOCK_OK) {
                assert_true(sqlock_is_held(lock));
                assert_int_equal(try_mode(other, "door", SQLOCK_EXCLUSIVE), SQLOCK_EBUSY);
                assert_int_equal(try_mode(other, "door", SQLOCK_SHARED),
                                 up ? SQLOCK_EBUSY : SQLOCK_OK);
            }
            code = sqlock_release(lock, &said);
            if (code == SQLOCK_EUNSURE)
                code = sqlock_settle(lock, patience_ms(5000), &said);
            ok(code);
            drop(lock);
            assert_soon(is_free(other, "door"), patience_ms(5000));
        }
}

/* P5: what became of the lock is known in the end, and it is not held if others may have had it. */
TEST(test_P5_settled_downgrade_of_a_lock_that_was_broken_is_lost)
{
    sqlock *m = open_with(w, with.request_ms = 400), *other = open_manager(w, NULL);
    sqlock_lock *lock = take(m, "door");
    int64_t token = sqlock_lock_token(lock);

    spy_hold_back(SQLOCK_STMT_SEAT, INT32_MAX);
    says(SQLOCK_EUNSURE, downgrade(&lock));
    spy_arrive(0);
    ok(sqlock_break(other, "door", token, &said));
    says(SQLOCK_ELOST, sqlock_settle(lock, patience_ms(5000), &said));
    assert_lost(lock, SQLOCK_WHY_BROKEN);
    assert_true(is_free(other, "door"));
}

/* P8: whatever it has to send again, and however often: its last steps have the time of one
 * request. */
TEST(test_P8_upgrade_ends_in_time_where_no_release_is_answered)
{
    sqlock *m = open_with(w, with.request_ms = 1000);
    sqlock_lock *lock = sit(m, "door", SQLOCK_SHARED);

    spy_hold_back(SQLOCK_STMT_RELEASE, 50);
    assert_takes(0, 2000 + 1000 + patience_ms(900), says(SQLOCK_EUNSURE, upgrade(&lock, 2000)));
    spy_arrive(0);
    if (sqlock_settle(lock, patience_ms(5000), &said) != SQLOCK_ELOST)
        ok(sqlock_release(lock, &said));
    drop(lock);
    assert_soon(is_free(m, "door"), patience_ms(5000));
}

/* P5: the upgrade had given its shared lock back, and others may have had the lock since. */
TEST(test_P5_settled_upgrade_is_not_held)
{
    sqlock *m = open_with(w, with.request_ms = 400), *other = open_manager(w, NULL);
    sqlock_lock *lock = sit(m, "door", SQLOCK_SHARED), *next = NULL;
    sqlock_op *op = NULL;
    int code;

    spy_hold_back(SQLOCK_STMT_ACQUIRE, INT32_MAX);
    ok(sqlock_upgrade_start(lock, 600, NULL, &op, &said));
    next = change_result(op, &code);
    spy_arrive(0);
    says(SQLOCK_EUNSURE, code);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_RELEASED);
    assert_soon(is_free(other, "door"), patience_ms(5000));
    says(SQLOCK_ELOST, sqlock_settle(next, patience_ms(5000), &said));
    assert_false(sqlock_is_held(next));
    assert_true(is_free(other, "door"));
}

/* A request that cannot begin has no op, and none that was freed. */
TEST(test_second_change_of_a_lock_is_refused_and_has_no_op, m, other)
{
    sqlock_lock *lock = sit(m, "door", SQLOCK_SHARED), *beside = sit(other, "door", SQLOCK_SHARED);
    sqlock_op *first = NULL, *second = NULL;
    int code;

    ok(sqlock_upgrade_start(lock, 300, NULL, &first, &said));
    second = first;
    says(SQLOCK_ESTATE, sqlock_upgrade_start(lock, 0, NULL, &second, &said));
    assert_null(second);
    assert_non_null(strstr(said.text, "upgrade \"door\": another change"));
    assert_null(change_result(first, &code));
    assert_int_equal(code, SQLOCK_EBUSY);
    give(lock);
    give(beside);
}

/* P7: renewals go on while the database does not answer to the change. */
TEST(test_P7_lease_is_renewed_while_its_mode_cannot_change)
{
    sqlock *m = open_with(w, with.request_ms = patience_ms(3000));
    sqlock_lock *lock = take_for(m, "door", patience_ms(1200), 0);
    int code;

    spy_hold_back(SQLOCK_STMT_SEAT, INT32_MAX);
    code = downgrade(&lock);
    spy_arrive(0);
    if (code == SQLOCK_EUNSURE)
        code = sqlock_settle(lock, patience_ms(5000), &said);
    else if (code != SQLOCK_OK)
        code = downgrade(&lock);
    ok(code);
    assert_true(sqlock_is_held(lock));
    give(lock);
}

/* P11: the transaction of the former grant is open, and its guard stands. */
TEST_IF(GUARDS, test_P11_guarded_lock_does_not_change)
{
    sqlock *m, *other;
    sqlock_lock *lock, *same;
    sqlock_conn *conn;
    int code;

    begin_app(w);
    if (g.driver->caps & SQLOCK_CAP_ONE_WRITER)
        return; /* the guard keeps all others out */
    m = open_with(w, with.request_ms = 1000);
    other = open_manager(w, NULL);
    same = lock = take(m, "door");
    conn = adopted(m, g.app);
    app_exec(g.app, g.side->begins[0]);
    ok(sqlock_guard(lock, conn, &said));
    code = downgrade(&same);
    assert_true(code == SQLOCK_EBUSY || code == SQLOCK_EGUARDED || code == SQLOCK_ETIMEOUT);
    assert_ptr_equal(same, lock);
    app_exec(g.app, "COMMIT");
    assert_int_equal(try_mode(other, "door", SQLOCK_SHARED), SQLOCK_EBUSY);
    assert_true(sqlock_is_held(lock));
    lock = downgraded(lock);
    give(lock);
}

enum { EDITORS = 6, EDITS = 12 };

/* What an editor writes, all others read until the next one has the lock alone. */
static struct {
    atomic_int version, readers, writers, wrong;
    _Atomic int64_t until;
} page;

struct editor {
    sqlock *m;
    int number, failed;
    sqlock_error err;
};

static int page_write(void)
{
    if (atomic_fetch_add(&page.writers, 1) != 0 || atomic_load(&page.readers) != 0)
        atomic_fetch_add(&page.wrong, 1);
    atomic_fetch_add(&page.version, 1);
    sleep_ms(1);
    atomic_fetch_sub(&page.writers, 1);
    return atomic_load(&page.version);
}

static void page_read(int version)
{
    atomic_fetch_add(&page.readers, 1);
    if (atomic_load(&page.writers) != 0 || atomic_load(&page.version) != version)
        atomic_fetch_add(&page.wrong, 1);
    sleep_ms(1);
    if (atomic_load(&page.version) != version)
        atomic_fetch_add(&page.wrong, 1);
    atomic_fetch_sub(&page.readers, 1);
}

static void edit_failed(struct editor *e, const sqlock_error *err)
{
    e->failed++;
    e->err = *err;
}

/* Writes, reads what it has written, and writes again if it may. */
static void edit(struct editor *e, int wait_ms)
{
    sqlock_acquire_opts opts = mode_opts(SQLOCK_EXCLUSIVE, patience_ms(8000));
    sqlock_lock *lock = NULL;
    sqlock_error err = {0};
    int version, code;

    if (sqlock_acquire(e->m, "page", &opts, &lock, &err) != 0 ||
        now_us() > atomic_load(&page.until)) {
        edit_failed(e, &err);
        sqlock_scope_end(&lock);
        return;
    }
    version = page_write();
    code = sqlock_downgrade(&lock, &err);
    if (code == SQLOCK_OK) {
        page_read(version);
        code = sqlock_upgrade(&lock, wait_ms, NULL, &err);
    }
    if (code == SQLOCK_OK) {
        if (atomic_load(&page.version) != version)
            atomic_fetch_add(&page.wrong, 1);
        page_write();
    } else if (!sqlock_is_held(lock)) {
        edit_failed(e, &err);
    } else {
        page_read(version); /* others want it alone, or the file was locked for too long */
    }
    if (sqlock_lock_end(&lock, &err) != 0)
        edit_failed(e, &err);
}

static void *editor_run(void *arg)
{
    struct editor *e = arg;

    for (int i = 0; i < EDITS && e->failed == 0; i++) {
        edit(e, i % 3 * 20);
        sleep_ms(i % 2 * e->number * 3); /* or others wait always, and no upgrade is granted */
    }
    return NULL;
}

/* P2, P24: and no change of anyone's is lost. */
TEST(test_P24_no_one_writes_between_the_modes_of_a_holder, m, other)
{
    static struct editor editors[EDITORS];

    if (suite_stepped)
        return; /* one thread steps them all */
    for (int i = 0; i < EDITORS; i++)
        editors[i] = (struct editor){.m = i % 2 ? m : other, .number = i};
    atomic_store(&page.version, 0);
    atomic_store(&page.wrong, 0);
    atomic_store(&page.until, now_us() + patience_ms(20000) * INT64_C(1000));
    run_threads(EDITORS, editors, sizeof *editors, editor_run);
    for (int i = 0; i < EDITORS; i++)
        if (editors[i].failed > 0)
            fail_msg("editor %d: %s", i, editors[i].err.text);
    assert_int_equal(atomic_load(&page.wrong), 0);
    assert_true(atomic_load(&page.version) >= EDITORS * EDITS);
}
