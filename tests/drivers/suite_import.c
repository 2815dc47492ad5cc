/* P3, P5: a grant that is carried on by another handle than the one that was granted it. What is
 * exported is what sqlock_lock_owner() and sqlock_lock_token() say. */
#include "tests/drivers/suite.h"

/* What another process would have been told. */
struct grant {
    unsigned char owner[SQLOCK_OWNER_SIZE];
    int64_t token;
};

static struct grant grant_of(sqlock_lock *lock)
{
    struct grant g = {.token = sqlock_lock_token(lock)};

    memcpy(g.owner, sqlock_lock_owner(lock), sizeof g.owner);
    return g;
}

static sqlock_lock *import_for(sqlock *m, const struct grant *g, int32_t lease_ms, unsigned flags)
{
    sqlock_acquire_opts o = wait_opts(0, lease_ms, flags);
    sqlock_lock *lock = NULL;

    ok(sqlock_import(m, "nightly", g->owner, g->token, &o, &lock, &said));
    assert_non_null(lock);
    return keep(lock);
}

/* An own manager each: one was granted the lock and does not renew it, one imports it. */
struct pair {
    struct world *w;
    sqlock *a, *b;
    sqlock_lock *first;
    struct grant grant;
};

static struct pair pair(struct world *w, int32_t lease_ms)
{
    struct pair p = {.w = w};

    p.a = open_manager(p.w, NULL);
    p.b = open_manager(p.w, NULL);
    p.first = take_for(p.a, "nightly", lease_ms, SQLOCK_NO_RENEW);
    p.grant = grant_of(p.first);
    return p;
}

/* ---- before it is settled -------------------------------------------------------------------- */

CORE_TEST(test_imported_grant_is_unsure_and_nothing_was_sent)
{
    struct pair p = pair(w, 20000);
    long before = spy_runs(-1);
    sqlock_lock *lock = import_for(p.b, &p.grant, 20000, 0);
    int fd = sqlock_lock_fd(lock, &said);

    assert_state(SQLOCK_UNSURE, lock);
    assert_int_equal(sqlock_lock_why(lock), SQLOCK_WHY_NONE);
    assert_int_equal(sqlock_is_held(lock), 0);
    assert_int_equal(sqlock_lock_deadline_us(lock), 0);
    assert_int_equal(sqlock_lock_token(lock), p.grant.token);
    assert_memory_equal(sqlock_lock_owner(lock), p.grant.owner, SQLOCK_OWNER_SIZE);
    assert_string_equal(sqlock_lock_name(lock), "nightly");
    assert_false(readable_within(fd, 50));
    says(SQLOCK_ESTATE, sqlock_renew(lock, &said));
    assert_int_equal(spy_runs(-1), before);
    drop(lock);
    assert_int_equal(spy_runs(-1), before);
    ok(sqlock_renew(p.first, &said)); /* and the grant is as it was */
    give(p.first);
}

CORE_TEST(test_import_of_what_cannot_be_is_refused_before_any_request, m)
{
    const unsigned char owner[SQLOCK_OWNER_SIZE] = {1};
    const int64_t tokens[] = {0, -1, SQLOCK_TOKEN_MAX + 1, INT64_MAX, INT64_MIN};
    sqlock_acquire_opts bad = wait_opts(0, SQLOCK_LEASE_MIN_MS - 1, 0);
    long before = spy_runs(-1);
    sqlock_lock *lock = (sqlock_lock *)&said;

    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        says(SQLOCK_EINVAL, sqlock_import(m, "x", owner, tokens[i], NULL, &lock, &said));
        assert_null(lock);
        assert_non_null(strstr(said.text, "import: the token"));
    }
    says(SQLOCK_EINVAL, sqlock_import(NULL, "x", owner, 1, NULL, &lock, &said));
    says(SQLOCK_EINVAL, sqlock_import(m, NULL, owner, 1, NULL, &lock, &said));
    says(SQLOCK_EINVAL, sqlock_import(m, "", owner, 1, NULL, &lock, &said));
    says(SQLOCK_EINVAL, sqlock_import(m, "\xff", owner, 1, NULL, &lock, &said));
    says(SQLOCK_EINVAL, sqlock_import(m, "x", NULL, 1, NULL, &lock, &said));
    says(SQLOCK_EINVAL, sqlock_import(m, "x", owner, 1, &bad, &lock, &said));
    says(SQLOCK_EINVAL, sqlock_import(m, "x", owner, 1, NULL, NULL, &said));
    assert_int_equal(sqlock_import(m, "x", owner, 0, NULL, &lock, NULL), SQLOCK_EINVAL);
    assert_int_equal(spy_runs(-1), before);
}

CORE_TEST(test_unsettled_import_is_lost_with_its_manager)
{
    struct pair p = pair(w, 20000);
    sqlock_lock *lock = import_for(p.b, &p.grant, 20000, 0);

    close_manager(p.w, p.b);
    assert_lost(lock, SQLOCK_WHY_CLOSED);
    says(SQLOCK_ELOST, sqlock_settle(lock, 0, &said));
    drop(lock);
    give(p.first);
}

/* ---- settled --------------------------------------------------------------------------------- */

TEST(test_settled_import_is_the_same_grant_for_a_full_lease)
{
    struct pair p = pair(w, 5000);
    sqlock_lock *lock = import_for(p.b, &p.grant, 30000, 0);
    int64_t length = 30000000 - margin_us(30000), before = sqlock_now_us();

    ok(sqlock_settle(lock, 0, &said));
    assert_state(SQLOCK_HELD, lock);
    assert_int_equal(sqlock_lock_token(lock), p.grant.token);
    assert_between(before + length - GRAIN_MS * 1000, sqlock_lock_deadline_us(lock),
                   sqlock_now_us() + length);
    assert_int_equal(spy_runs(SQLOCK_STMT_ACQUIRE), 1); /* it was not granted again */
    assert_int_equal(try_once(p.a, "nightly"), SQLOCK_EBUSY);
    ok(sqlock_renew(lock, &said));
    give(lock);
    assert_true(is_free(p.a, "nightly"));
}

/* P7 */
CORE_TEST(test_settled_import_is_renewed)
{
    const int32_t lease_ms = patience_ms(400);
    struct pair p = pair(w, lease_ms);
    sqlock_lock *lock = import_for(p.b, &p.grant, lease_ms, 0);

    ok(sqlock_settle(lock, 0, &said));
    stays_held(lock, 3 * lease_ms);
    give(lock);
}

/* ---- released -------------------------------------------------------------------------------- */

TEST(test_import_is_released_without_being_settled)
{
    struct pair p = pair(w, 20000);
    sqlock_lock *lock = import_for(p.b, &p.grant, 0, 0), *again;

    ok(sqlock_release(lock, &said));
    assert_state(SQLOCK_RELEASED, lock);
    assert_true(is_free(p.a, "nightly"));
    drop(lock);
    /* P5: who asks once more is told the same, from a handle of its own too. */
    p.first = take_for(p.a, "nightly", 20000, SQLOCK_NO_RENEW);
    p.grant = grant_of(p.first);
    for (int i = 0; i < 2; i++) {
        again = import_for(p.b, &p.grant, 0, 0);
        ok(sqlock_release(again, &said));
    }
}

/* All handles of a grant are one hold. */
TEST(test_holder_learns_that_another_handle_released_its_grant, a, b)
{
    sqlock_lock *renewed = take_for(a, "nightly", 400, 0), *lock;
    struct grant g = grant_of(renewed);

    lock = import_for(b, &g, 0, 0);
    ok(sqlock_release(lock, &said));
    await_lost(renewed, SQLOCK_WHY_RELEASED);
    assert_string_equal(sqlock_why_name(SQLOCK_WHY_RELEASED), "released by another handle");
}

/* ---- stale ----------------------------------------------------------------------------------- */

/* Import g, settle it and another one, release it: each says lost, for this reason, and nothing is
 * changed: `holder`, if there is one, still holds. */
static void check_stale(const struct pair *p, const struct grant *g, sqlock_why why,
                        sqlock_lock *holder)
{
    sqlock_lock *settled = import_for(p->b, g, 20000, 0), *released = import_for(p->b, g, 0, 0);

    says(SQLOCK_ELOST, sqlock_settle(settled, 0, &said));
    assert_lost(settled, why);
    assert_int_equal(sqlock_lock_deadline_us(settled), 0);
    says(SQLOCK_ELOST, sqlock_settle(settled, 0, &said));
    if (why != SQLOCK_WHY_RELEASED && why != SQLOCK_WHY_EXPIRED) {
        says(SQLOCK_ELOST, sqlock_release(released, &said));
        assert_lost(released, why);
    }
    if (holder != NULL) {
        assert_int_equal(try_once(p->b, "nightly"), SQLOCK_EBUSY);
        ok(sqlock_renew(holder, &said));
    }
}

TEST(test_import_of_a_grant_that_was_given_back_is_lost_and_frees_no_one)
{
    struct pair p = pair(w, 20000);
    sqlock_lock *next;

    give(p.first);
    check_stale(&p, &p.grant, SQLOCK_WHY_RELEASED, NULL);
    give(take(p.a, "nightly"));
    next = take(p.a, "nightly");
    check_stale(&p, &p.grant, SQLOCK_WHY_TAKEN, next);
    p.grant = grant_of(next);
    ok(sqlock_break(p.a, "nightly", p.grant.token, &said));
    check_stale(&p, &p.grant, SQLOCK_WHY_BROKEN, NULL);
    next = take(p.a, "nightly");
    check_stale(&p, &p.grant, SQLOCK_WHY_BROKEN, next);
    give(next);
}

TEST(test_import_of_an_expired_grant_does_not_raise_it)
{
    struct pair p = pair(w, 200);
    sqlock_lock *next;

    await_loss(p.first);
    sleep_ms(250); /* however late the row was written: now it has run out there, too */
    check_stale(&p, &p.grant, SQLOCK_WHY_EXPIRED, NULL);
    next = take(p.a, "nightly");
    assert_between(p.grant.token + 1, sqlock_lock_token(next), SQLOCK_TOKEN_MAX);
    ok(sqlock_renew(next, &said));
    give(next);
}

/* P3: owner and token, both. */
TEST(test_import_with_one_wrong_part_is_lost_and_frees_no_one)
{
    struct pair p = pair(w, 20000);
    struct grant wrong_owner = p.grant, wrong_token = p.grant;

    wrong_owner.owner[SQLOCK_OWNER_SIZE - 1] ^= 1;
    check_stale(&p, &wrong_owner, SQLOCK_WHY_TAKEN, p.first);
    wrong_token.token++;
    check_stale(&p, &wrong_token, SQLOCK_WHY_TAKEN, p.first);
    give(p.first);
}

TEST(test_import_of_a_name_that_never_was_is_gone_and_makes_no_row)
{
    struct pair p = pair(w, 20000);
    sqlock_lock *lock = NULL;

    ok(sqlock_import(p.b, "never", p.grant.owner, 1, NULL, &lock, &said));
    says(SQLOCK_ELOST, sqlock_settle(lock, 0, &said));
    assert_lost(lock, SQLOCK_WHY_GONE);
    drop(lock);
    ok(sqlock_import(p.b, "never", p.grant.owner, 1, NULL, &lock, &said));
    says(SQLOCK_ELOST, sqlock_release(lock, &said));
    drop(lock);
    lock = take(p.a, "never");
    give(lock);
    give(p.first);
}
