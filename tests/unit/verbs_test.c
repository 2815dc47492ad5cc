/* The verbs of a lock's life by values alone. */
#include <string.h>

#include "core/leases/acquire.h"
#include "core/leases/leases.h"
#include "core/sql/rows.h"
#include "core/sql/texts.h"
#include "tests/unit/verb.h"

extern const sqlock_dialect sqlock_fake_dialect;

/* ---- acquire --------------------------------------------------------------------------------- */

TEST(test_grant_counts_from_before_its_request)
{
    begin(&acquire_verb, 0);
    assert_next(SQLOCK_STMT_ACQUIRE, NOW);
    assert_memory_equal(s.attempt.request.values[1].data, "nightly", 7);
    assert_int_equal(s.attempt.request.values[3].i, TTL);
    answer(SQLOCK_OUT_DONE, NOW);
    assert_done(0);
    assert_int_equal(s.lock.token, TOKEN);
    assert_int_equal(s.lock.lease.deadline, lease_deadline(&s.lock.lease, NOW));
}

/* Another program wrote it. A double cannot hold it, and a resource would refuse all later ones. */
TEST(test_P2_grant_with_a_token_that_none_can_have_is_refused)
{
    static const int64_t tokens[] = {SQLOCK_TOKEN_MAX + 1, 0, -1, INT64_MIN};

    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        struct answer a = {.outcome = SQLOCK_OUT_DONE,
                           .token = tokens[i],
                           .left = TTL,
                           .now = NOW,
                           .sent = NOW,
                           .received = NOW + 1000};

        begin(&acquire_verb, 0);
        assert_next(SQLOCK_STMT_ACQUIRE, NOW);
        s.op.verb->on_answer(&s.op, &a, NOW + 1000);
        assert_done(SQLOCK_ECORRUPT);
    }
}

TEST(test_server_learns_of_a_longer_lease_before_it_is_granted)
{
    begin(&acquire_verb, 0);
    s.m.longest = TTL - 1;
    assert_next(SQLOCK_STMT_LONGEST, NOW);
    fail_request(SQLOCK_EUNREACH,
                 SQLOCK_RETRY | SQLOCK_RECONNECT | request_doubt(SQLOCK_STMT_LONGEST), NOW);
    assert_false(s.op.unsure); /* that granted nothing */
    assert_next(SQLOCK_STMT_LONGEST, NOW);
    answer(SQLOCK_OUT_DONE, NOW);
    assert_int_equal(s.m.longest, TTL);
    assert_next(SQLOCK_STMT_ACQUIRE, NOW);
}

TEST(test_refusal_ends_a_try_and_names_the_holder)
{
    sqlock_holder holder;

    begin(&acquire_verb, 0);
    s.op.out_holder = &holder;
    assert_next(SQLOCK_STMT_ACQUIRE, NOW);
    answer(SQLOCK_OUT_HELD, NOW);
    assert_done(SQLOCK_EBUSY);
    assert_string_equal(s.op.holder->label, "2@there");
    assert_int_equal(s.op.holder->token, TOKEN);
}

TEST(test_waiter_sleeps_no_longer_than_its_time)
{
    begin(&acquire_verb, 1000000);
    for (int64_t now = NOW; now < s.op.deadline; now = s.op.next_at) {
        assert_next(SQLOCK_STMT_ACQUIRE, now);
        answer(SQLOCK_OUT_HELD, now);
        assert_false(s.op.decided);
        assert_between(now + 1, s.op.next_at, s.op.deadline);
    }
    assert_int_equal(s.op.refused, SQLOCK_EBUSY); /* with which it ends */
}

TEST(test_lost_reply_is_settled_by_the_same_request)
{
    begin(&acquire_verb, 0);
    assert_next(SQLOCK_STMT_ACQUIRE, NOW);
    fail_request(SQLOCK_EUNREACH, SQLOCK_RETRY | SQLOCK_RECONNECT | SQLOCK_MAYBE, NOW);
    assert_true(s.op.unsure && !s.op.decided);
    assert_int_equal(s.lock.lost_until, s.op.acquire.not_after);
    assert_next(SQLOCK_STMT_ACQUIRE, NOW);
    assert_memory_equal(s.attempt.request.values[2].data, s.lock.owner, sizeof s.lock.owner);
    answer(SQLOCK_OUT_DONE, NOW);
    assert_done(0);
}

TEST(test_grants_that_come_too_late_are_given_back)
{
    int64_t now = NOW;

    begin(&acquire_verb, 10 * TTL);
    for (int i = 0; i < 3; i++, now += TTL) {
        assert_next(SQLOCK_STMT_ACQUIRE, now);
        answer_late(SQLOCK_OUT_DONE, now, now + TTL);
        assert_true(s.op.unsure && !s.op.decided);
    }
    assert_next(SQLOCK_STMT_RELEASE, now);
    assert_int_equal(s.attempt.request.values[3].i, TOKEN);
    answer(SQLOCK_OUT_DONE, now);
    assert_done(SQLOCK_ETIMEOUT);
    assert_int_equal(s.lock.lease.state, SQLOCK_RELEASED);
}

/* A place that is left behind would be granted the lock after the answer "not granted". */
TEST(test_P5_settling_says_not_granted_only_behind_its_place)
{
    begin(&acquire_verb, 0);
    s.op.settle = s.op.unsure = 1;
    s.lock.queued = true;
    assert_next(SQLOCK_STMT_ACQUIRE, NOW);
    answer(SQLOCK_OUT_HELD, NOW);
    assert_true(!s.op.decided && s.op.unsure && s.op.refused == 0);
    assert_next(SQLOCK_STMT_LEAVE, NOW);
    assert_int_equal(s.attempt.request.values[3].i, 0);
    answer(SQLOCK_OUT_SKIPPED, NOW);
    assert_next(SQLOCK_STMT_LEAVE, NOW);
    answer(SQLOCK_OUT_DONE, NOW);
    assert_next(SQLOCK_STMT_ACQUIRE, NOW);
    answer(SQLOCK_OUT_HELD, NOW);
    assert_done(SQLOCK_EBUSY);
}

/* P1, P4: its turn had run out, and others have emptied the seats. What it is granted is the lock
 * itself, but for as long as a turn: the same request makes that a lease. */
TEST(test_P4_grant_in_the_place_of_a_turn_is_made_a_lease)
{
    begin(&acquire_verb, 10 * TTL);
    s.op.phase = ACQUIRE_TURN;
    assert_next(SQLOCK_STMT_ACQUIRE, NOW);
    answer(SQLOCK_OUT_DONE, NOW);
    assert_true(!s.op.decided && s.op.unsure);
    assert_next(SQLOCK_STMT_ACQUIRE, NOW);
    assert_int_equal(s.attempt.request.values[3].i, TTL);
    answer(SQLOCK_OUT_DONE, NOW);
    assert_done(0);
}

/* P21, P22: its turn lapsed, and another holds the lock, or others come first. It waits as all do,
 * and does not extend again and again what it has no more. */
TEST(test_turn_that_was_lost_is_not_extended)
{
    static const sqlock_outcome others[] = {SQLOCK_OUT_HELD, SQLOCK_OUT_GRACE};

    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        begin(&acquire_verb, 10 * TTL);
        s.op.phase = ACQUIRE_TURN;
        s.op.acquire.has_turn = 1;
        s.op.acquire.turned = NOW - TTL;
        assert_next(SQLOCK_STMT_ACQUIRE, NOW);
        answer(others[i], NOW);
        assert_true(!s.op.decided && !s.op.acquire.has_turn);
        assert_between(NOW + 1001, s.op.next_at, s.op.deadline);
        assert_next(SQLOCK_STMT_ACQUIRE, s.op.next_at);
        assert_int_equal(s.attempt.request.values[3].i, TTL);
    }
}

/* Finds the lock free and its row locked. */
static void begin_and_be_skipped(unsigned caps)
{
    begin(&acquire_verb, 0);
    s.driver.caps = caps;
    for (int i = 0; i < RETRIES_AT_ONCE; i++) {
        assert_next(SQLOCK_STMT_ACQUIRE, NOW);
        answer(SQLOCK_OUT_SKIPPED, NOW);
    }
}

TEST(test_guard_is_believed_at_the_second_look)
{
    begin_and_be_skipped(0);
    for (int look = 0; look < 2; look++) {
        assert_false(s.op.decided);
        assert_next(SQLOCK_STMT_GUARDED, NOW);
        answer(SQLOCK_OUT_GUARDED, NOW);
    }
    assert_done(SQLOCK_EGUARDED);
}

/* Where others meet a row for a moment, only what is there for some time is a guard. */
TEST(test_guard_is_believed_after_pauses_where_a_look_may_err)
{
    static const int64_t behind_us[] = {0,     1000,  6000,
                                        16000, 46000, 136000}; /* answers take 1000 */
    int64_t now = NOW;

    begin_and_be_skipped(SQLOCK_CAP_GLIMPSES);
    for (size_t look = 0; look < sizeof behind_us / sizeof *behind_us; look++) {
        assert_false(s.op.decided);
        now += behind_us[look];
        if (look > 0)
            assert_true(s.op.next_at == now);
        assert_next(SQLOCK_STMT_GUARDED, now);
        answer(SQLOCK_OUT_GUARDED, now);
    }
    assert_done(SQLOCK_EGUARDED);
}

/* ---- renew ----------------------------------------------------------------------------------- */

TEST(test_denial_is_believed_when_it_came_twice)
{
    begin_held(&renew_verb);
    assert_next(SQLOCK_STMT_RENEW, NOW);
    answer(SQLOCK_OUT_TAKEN, NOW);
    assert_false(s.op.decided);
    assert_int_equal(s.lock.lease.state, SQLOCK_HELD);
    assert_next(SQLOCK_STMT_RENEW, NOW);
    answer(SQLOCK_OUT_TAKEN, NOW);
    assert_done(SQLOCK_ELOST);
    assert_int_equal(s.lock.lease.why, SQLOCK_WHY_TAKEN);
}

TEST(test_renewal_after_the_deadline_sends_nothing)
{
    begin_held(&renew_verb);
    assert_false(s.op.verb->next(&s.op, s.lock.lease.deadline));
    assert_done(SQLOCK_ELOST);
}

/* ---- release --------------------------------------------------------------------------------- */

TEST(test_release_names_owner_and_token)
{
    begin_held(&release_verb);
    lock_change(&s.lock, LEASE_RELEASING, NOW, 0);
    assert_next(SQLOCK_STMT_RELEASE, NOW);
    assert_memory_equal(s.attempt.request.values[2].data, s.lock.owner, sizeof s.lock.owner);
    assert_int_equal(s.attempt.request.values[3].i, TOKEN);
    answer(SQLOCK_OUT_DONE, NOW);
    assert_done(0);
    assert_int_equal(s.lock.lease.state, SQLOCK_RELEASED);
}

static void renewed(int64_t sent, int64_t ran, int64_t answered)
{
    struct answer a = {.sent = sent, .now = ran, .left = TTL, .token = TOKEN};

    lock_renewed(&s.lock, &a, answered);
}

/* P5: by that end a release that is sent again tells whether others were let in by it. */
TEST(test_answers_of_two_renewals_in_either_order_leave_the_later_end)
{
    begin_held(&release_verb);
    renewed(NOW + 20, NOW + 25, NOW + 30);
    assert_int_equal(s.lock.server_end, NOW + 25 + TTL);
    renewed(NOW + 10, NOW + 12, NOW + 40); /* sent and run first */
    assert_int_equal(s.lock.server_end, NOW + 25 + TTL);
    renewed(NOW + 15, NOW + 35, NOW + 50); /* sent first, run last */
    assert_int_equal(s.lock.server_end, NOW + 35 + TTL);
    renewed(NOW + 60, NOW - 1000, NOW + 70); /* the server's clock was put back */
    assert_int_equal(s.lock.server_end, NOW - 1000 + TTL);
}

TEST(test_release_of_a_guarded_lock_says_whether_a_guard_still_stands)
{
    for (int guarded = 0; guarded < 2; guarded++) {
        begin_held(&release_verb);
        lock_change(&s.lock, LEASE_RELEASING, NOW, 0);
        s.driver.adopter = &s.adopter;
        s.lock.guards = 1;
        assert_next(SQLOCK_STMT_RELEASE, NOW);
        answer(SQLOCK_OUT_DONE, NOW);
        assert_true(s.op.succeeded && !s.op.decided);
        assert_next(SQLOCK_STMT_PROBE, NOW);
        answer(SQLOCK_OUT_GUARDED, NOW);
        assert_next(SQLOCK_STMT_PROBE, NOW);
        if (guarded)
            answer(SQLOCK_OUT_GUARDED, NOW);
        else
            fail_request(SQLOCK_EUNREACH, SQLOCK_RETRY, NOW);
        assert_done(guarded ? SQLOCK_EGUARDED : 0);
    }
}

/* P11: those who wait for the lock look for it at the same time. */
TEST(test_P11_look_that_meets_others_at_work_says_nothing_about_a_guard)
{
    int64_t now = NOW;

    for (int guarded = 0; guarded < 2; guarded++) {
        begin_held(&release_verb);
        lock_change(&s.lock, LEASE_RELEASING, now, 0);
        s.driver.adopter = &s.adopter;
        s.lock.guards = 1;
        assert_next(SQLOCK_STMT_RELEASE, now);
        answer(SQLOCK_OUT_DONE, now);
        for (int look = 0; look < 10; look++) {
            assert_next(SQLOCK_STMT_PROBE, now);
            answer(look == 3 ? SQLOCK_OUT_GUARDED : SQLOCK_OUT_SKIPPED, now);
            assert_false(s.op.decided);
            now = s.op.next_at;
        }
        assert_between(NOW + 50000, now, NOW + 200000); /* they may be at work for long */
        assert_next(SQLOCK_STMT_PROBE, now);
        answer(guarded ? SQLOCK_OUT_GUARDED : SQLOCK_OUT_DONE, now);
        assert_done(guarded ? SQLOCK_EGUARDED : 0);
        now = NOW;
    }
}

/* P11: its last word is what it has seen before. */
TEST(test_P11_look_that_meets_others_all_the_while_ends)
{
    for (int guarded = 0; guarded < 2; guarded++) {
        int looks = 0;

        begin_held(&release_verb);
        lock_change(&s.lock, LEASE_RELEASING, NOW, 0);
        s.driver.adopter = &s.adopter;
        s.lock.guards = 1;
        assert_next(SQLOCK_STMT_RELEASE, NOW);
        answer(SQLOCK_OUT_DONE, NOW);
        for (; !s.op.decided && looks < 100; looks++) {
            assert_next(SQLOCK_STMT_PROBE, NOW);
            answer(guarded && looks == 0 ? SQLOCK_OUT_GUARDED : SQLOCK_OUT_SKIPPED, NOW);
        }
        assert_between(10, looks, 20);
        assert_done(guarded ? SQLOCK_EGUARDED : 0);
    }
}

/* P5: the first one found waiters. If it came twice it may be applied when they have left, and then
 * others may be granted the lock before the pass: that is no loss. */
TEST(test_P5_release_that_came_twice_is_no_loss)
{
    struct texts *texts = NULL;
    sqlock_error err;

    assert_int_equal(texts_render(&sqlock_fake_dialect, NULL, NULL, &texts, &err), 0);
    begin_held(&release_verb);
    s.m.texts = texts;
    s.lock.server_end = NOW + TTL;
    lock_change(&s.lock, LEASE_RELEASING, NOW, 0);
    assert_next(SQLOCK_STMT_RELEASE, NOW);
    answer(SQLOCK_OUT_QUEUED, NOW);
    assert_next(SQLOCK_STMT_PASS, NOW);
    answer(SQLOCK_OUT_TAKEN, NOW);
    assert_false(s.op.decided);
    assert_next(SQLOCK_STMT_WAS_BROKEN, NOW);
    answer(SQLOCK_OUT_NONE, NOW);
    assert_done(0);
    texts_free(texts);
}

/* A withdrawal frees the lock and passes it on to no one. */
TEST(test_P22_withdrawal_of_a_grant_calls_who_waits)
{
    static const unsigned char client[SQLOCK_OWNER_SIZE] = {1}, owner[SQLOCK_OWNER_SIZE] = {2};
    struct texts *texts = NULL;
    sqlock_error err;

    assert_int_equal(texts_render(&sqlock_fake_dialect, NULL, NULL, &texts, &err), 0);
    for (int waits = 0; waits < 2; waits++) {
        sqlock_rows *rows = rows_new();

        begin(&release_verb, 0);
        s.m.texts = texts;
        assert_next(SQLOCK_STMT_WITHDRAW, NOW);
        answer(SQLOCK_OUT_DONE, NOW);
        assert_true(s.op.succeeded && !s.op.decided);
        assert_next(SQLOCK_STMT_WAITERS, NOW);
        if (waits) {
            sqlock_rows_add(rows, 0);
            for (int i = 0; i < SQLOCK_COL_OWNER; i++)
                sqlock_rows_put_null(rows);
            sqlock_rows_put_bytes(rows, owner, sizeof owner);
            sqlock_rows_put_int(rows, SQLOCK_EXCLUSIVE);
            sqlock_rows_put_bytes(rows, client, sizeof client);
        }
        answer_rows(SQLOCK_OUT_DONE, NOW, rows);
        if (waits) {
            assert_next(SQLOCK_STMT_NOTIFY, NOW);
            assert_memory_equal(s.attempt.request.values[0].data, client, sizeof client);
            assert_memory_equal(s.attempt.request.values[1].data, owner, sizeof owner);
            fail_request(SQLOCK_EUNREACH, SQLOCK_RETRY, NOW);
        }
        assert_done(0);
        rows_free(rows);
    }
    texts_free(texts);
}

TEST_MAIN_EACH(NULL, NULL)
