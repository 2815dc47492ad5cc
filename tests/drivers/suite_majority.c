/* A lock on a majority of several databases (recipes/majority.h): here of the same maker. */
#define SUITE_NEEDS REGISTERS
#include <sqlock/admin.h>
#include <sqlock/register.h>

#include "recipes/majority.h"
#include "tests/drivers/suite.h"

#define NAME "nightly"

enum { MEMBERS = 4, PROGRAMS = 2, RENEW_MS = 200 };

/* The databases, and each program's managers on them. */
static struct place places[MEMBERS];
static sqlock *managers[PROGRAMS][MEMBERS];
static const struct quirks *quirks;

static void end_members(void)
{
    for (int i = 0; i < MEMBERS; i++) {
        for (int p = 0; p < PROGRAMS; p++)
            close_here(managers[p][i]);
        quirks->drop(&places[i]);
    }
}

static void begin_members(struct world *w)
{
    memset(managers, 0, sizeof managers);
    quirks = w->q;
    for (int i = 0; i < MEMBERS; i++) {
        struct world there = {.q = w->q};

        w->q->make(&there.place);
        places[i] = there.place;
        if (i == 0)
            at_end(w, end_members);
        ok(migrate_here(&there, NULL, &said));
        for (int p = 0; p < PROGRAMS; p++)
            ok(open_here(&there, NULL, &managers[p][i], &said));
    }
}

#define MAJORITY_TEST(...) TEST_AFTER(begin_members, __VA_ARGS__)

/* The first n members, as a program sees them; those in `down`, a sum of powers of two, are not
 * there. */
static struct majority members_of(int program, size_t n, unsigned down)
{
    struct majority set = {.n = n};

    for (size_t i = 0; i < n; i++)
        set.members[i] = down & 1u << i ? NULL : managers[program][i];
    return set;
}

static int try_majority(struct majority *set, majority_lock **out_lock)
{
    sqlock_acquire_opts opts = wait_opts(0, 0, 0);

    return majority_acquire(set, NAME, &opts, out_lock, &said);
}

/* renew_ms 0: the default. */
static majority_lock *hold(struct majority *set, int32_t renew_ms)
{
    sqlock_acquire_opts opts = wait_opts(10000, 0, 0);
    majority_lock *lock = NULL;

    opts.renew_ms = renew_ms;
    ok(majority_acquire(set, NAME, &opts, &lock, &said));
    assert_true(majority_is_held(lock));
    return lock;
}

/* The member's lock, past its holder. */
static void break_member(int i)
{
    sqlock_info info = {.size = sizeof info};

    ok(sqlock_find(managers[1][i], NAME, &info, &said));
    ok(sqlock_break(managers[1][i], NAME, info.holder.token, &said));
}

static void set_register(int i, const char *text)
{
    int64_t version = 0;
    size_t len = 0;

    ok(sqlock_register_get(managers[1][i], NAME, NULL, 0, &len, &version, &said));
    ok(sqlock_register_set(managers[1][i], NAME, text, strlen(text), version, NULL, &said));
}

/* As one that was restored from a copy. */
static void member_forgets(int i)
{
    break_member(i);
    set_register(i, "");
}

MAJORITY_TEST(test_majority_is_held_and_given_back_on_all_members)
{
    struct majority one = members_of(0, 3, 0), two = members_of(1, 3, 0);
    sqlock_holder holder = {.size = sizeof holder};
    sqlock_acquire_opts opts = wait_opts(0, 0, 0);
    majority_lock *lock = hold(&one, 0), *none = NULL;

    assert_int_equal(majority_count(lock), 3);
    assert_between(1, majority_token(lock), SQLOCK_TOKEN_MAX);
    opts.holder = &holder;
    says(SQLOCK_EBUSY, majority_acquire(&two, NAME, &opts, &none, &said));
    assert_null(none);
    assert_non_null(strstr(said.text, "member 1 of 3: "));
    assert_true(holder.token > 0 && holder.left_ms > 0);
    ok(majority_end(&lock, &said));
    assert_null(lock);
    ok(majority_end(&lock, &said));
    for (int i = 0; i < 3; i++)
        assert_true(is_free(managers[1][i], NAME));
}

MAJORITY_TEST(test_one_member_may_be_down_and_not_two)
{
    majority_lock *lock, *none = NULL;

    for (unsigned i = 0; i < 3; i++) {
        struct majority one = members_of(0, 3, 1u << i), two = members_of(1, 3, 0);

        lock = hold(&one, 0);
        assert_int_equal(majority_count(lock), 2);
        says(SQLOCK_EBUSY, try_majority(&two, &none));
        says(SQLOCK_EUNREACH, majority_mend(lock, &said));
        assert_true(majority_is_held(lock));
        ok(majority_end(&lock, &said));
        one = members_of(0, 3, 7u & ~(1u << i));
        says(SQLOCK_EUNREACH, try_majority(&one, &none));
        assert_non_null(strstr(said.text, "not open"));
        assert_null(none);
    }
}

MAJORITY_TEST(test_minority_is_given_back)
{
    struct majority set = members_of(0, 3, 0), four = members_of(0, 4, 0);
    majority_lock *none = NULL;

    take(managers[1][0], NAME);
    take(managers[1][1], NAME);
    says(SQLOCK_EBUSY, try_majority(&set, &none));
    assert_true(is_free(managers[1][2], NAME));
    says(SQLOCK_EBUSY, try_majority(&four, &none)); /* two of four are none */
    assert_true(is_free(managers[1][2], NAME));
    assert_true(is_free(managers[1][3], NAME));
}

MAJORITY_TEST(test_P6_loss_of_one_member_keeps_it_and_loss_of_two_is_reported)
{
    struct majority set = members_of(0, 3, 0);
    majority_lock *lock = hold(&set, RENEW_MS);

    break_member(1);
    assert_soon(majority_count(lock) == 2, patience_ms(3000));
    assert_true(majority_is_held(lock));
    break_member(2);
    assert_soon(!majority_is_held(lock), patience_ms(3000));
    assert_int_equal(majority_count(lock), 1);
    says(SQLOCK_ELOST, majority_mend(lock, &said));
    assert_false(majority_is_held(lock));
    says(SQLOCK_ELOST, majority_end(&lock, &said));
    assert_true(is_free(managers[1][0], NAME));
}

MAJORITY_TEST(test_member_that_came_back_is_mended)
{
    struct majority set = members_of(0, 3, 0);
    majority_lock *lock = hold(&set, RENEW_MS);

    for (int i = 0; i < 3; i++) {
        break_member(i);
        set_register(i, "");
        assert_soon(majority_count(lock) == 2, patience_ms(3000));
        ok(majority_mend(lock, &said));
        assert_int_equal(majority_count(lock), 3);
        assert_true(majority_is_held(lock));
    }
    ok(majority_end(&lock, &said));
}

/* Of the same actor, and shown alike. */
static void assert_member_is_as(int i, const sqlock_info *first)
{
    sqlock_info info = {.size = sizeof info};

    ok(sqlock_find(managers[1][i], NAME, &info, &said));
    assert_memory_equal(info.owner, first->owner, SQLOCK_OWNER_SIZE / 2);
    assert_string_equal(info.holder.label, first->holder.label);
}

/* The caller's options and texts are gone by then. */
MAJORITY_TEST(test_mended_member_has_the_actor_and_label_of_the_others)
{
    char actor[] = "job 1742, which has a long name", label[] = "the nightly report";
    struct majority set = members_of(0, 3, 0);
    sqlock_acquire_opts *opts = calloc(1, sizeof *opts);
    sqlock_info first = {.size = sizeof first};
    majority_lock *lock = NULL;

    assert_non_null(opts);
    *opts = wait_opts(0, 0, 0);
    opts->renew_ms = RENEW_MS;
    opts->actor = actor;
    opts->label = label;
    opts->user = opts;
    ok(majority_acquire(&set, NAME, opts, &lock, &said));
    free(opts);
    memset(actor, 'x', sizeof actor - 1);
    memset(label, 'x', sizeof label - 1);
    ok(sqlock_find(managers[1][1], NAME, &first, &said));
    assert_non_null(strstr(first.holder.label, "the nightly report"));
    break_member(0);
    assert_soon(majority_count(lock) == 2, patience_ms(3000));
    ok(majority_mend(lock, &said));
    for (int i = 0; i < 3; i++)
        assert_member_is_as(i, &first);
    ok(majority_end(&lock, &said));
}

/* Who holds the mended member may have come and gone meanwhile. */
MAJORITY_TEST(test_lock_that_was_lost_for_a_moment_stays_lost)
{
    struct majority one = members_of(0, 3, 1), two = members_of(1, 3, 2);
    majority_lock *lock = hold(&one, RENEW_MS), *next;
    int64_t token = majority_token(lock);

    break_member(2);
    next = hold(&two, 0);
    assert_true(majority_token(next) > token);
    ok(majority_end(&next, &said));
    assert_soon(majority_count(lock) == 1, patience_ms(3000));
    says(SQLOCK_ELOST, majority_mend(lock, &said));
    assert_false(majority_is_held(lock));
    says(SQLOCK_ELOST, majority_end(&lock, &said));
}

/* Each quorum shares one member with the one before, and that one's clock may be behind. */
MAJORITY_TEST(test_P2_tokens_rise_from_quorum_to_quorum)
{
    static const unsigned down[] = {4, 1, 2, 1, 4, 0, 1};
    int64_t last = 0;

    w->q->age(&places[0], 3600000);
    for (size_t i = 0; i < 2 * sizeof down / sizeof *down; i++) {
        struct majority set = members_of((int)(i % 2), 3, down[i % (sizeof down / sizeof *down)]);
        majority_lock *lock = hold(&set, 0);

        assert_true(majority_token(lock) > last);
        last = majority_token(lock);
        ok(majority_end(&lock, &said));
    }
}

/* It was on its way when its lease ended, and set one register. Nobody has that number as a token.
 */
MAJORITY_TEST(test_P2_number_that_a_slow_holder_left_is_passed)
{
    struct majority all = members_of(0, 3, 0), others = members_of(0, 3, 1);
    majority_lock *lock = hold(&all, 0);
    int64_t first = majority_token(lock), left = first + 1000000, second;

    ok(majority_end(&lock, &said));
    set_register(0, textf("majority %lld", (long long)left));
    lock = hold(&others, 0);
    second = majority_token(lock);
    assert_true(second > first);
    ok(majority_end(&lock, &said));
    lock = hold(&all, 0);
    assert_true(majority_token(lock) > second && majority_token(lock) > left);
    ok(majority_end(&lock, &said));
}

MAJORITY_TEST(test_register_that_others_use_is_none_of_a_member)
{
    static const char *const texts[] = {
        "7",
        "majority",
        "majority -1",
        "majority 7 8",
        "majority 9007199254740991",
        "majority 7, and more than such a text can have, by some bytes"};
    struct majority set = members_of(0, 3, 0);
    majority_lock *lock = NULL;

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        set_register(0, texts[i]);
        lock = hold(&set, 0);
        assert_int_equal(majority_count(lock), 2);
        ok(majority_end(&lock, &said));
    }
    set_register(1, "7");
    says(SQLOCK_ECORRUPT, try_majority(&set, &lock));
    for (int i = 0; i < 3; i++)
        assert_true(is_free(managers[1][i], NAME));
}

/* ---- a member that forgets ------------------------------------------------------------------- */

/* The first holder has all members but the last one; then member 0 forgets. What comes of a second.
 */
static int try_beside_one_that_forgets(size_t n, size_t quorum)
{
    struct majority one = members_of(0, n, 1u << (n - 1)), two = members_of(1, n, 0);
    majority_lock *first, *second = NULL;
    int rc, both;

    one.quorum = two.quorum = quorum;
    first = hold(&one, 0);
    member_forgets(0);
    rc = try_majority(&two, &second);
    both = rc == 0 && majority_is_held(first) && majority_is_held(second);
    (void)!majority_end(&first, NULL);
    (void)!majority_end(&second, NULL);
    return rc == 0 ? both : rc;
}

/* Two quorums share it alone: the limit that recipes/README.md names. */
MAJORITY_TEST(test_three_members_have_two_holders_when_one_forgets)
{
    assert_int_equal(try_beside_one_that_forgets(3, 2), 1);
}

MAJORITY_TEST(test_P1_four_members_with_a_quorum_of_three_survive_one_that_forgets)
{
    says(SQLOCK_EBUSY, try_beside_one_that_forgets(4, 3));
}

/* Its token too: of two registers that the quorums share, one still knows it. */
MAJORITY_TEST(test_P2_token_is_known_to_four_members_when_one_forgets)
{
    struct majority one = members_of(0, 4, 8), two = members_of(1, 4, 4);
    majority_lock *lock;
    int64_t token;

    one.quorum = two.quorum = 3;
    set_register(2, "majority 9007199254000000"); /* above all that members draw */
    lock = hold(&one, 0);
    token = majority_token(lock);
    assert_true(token > INT64_C(9007199254000000));
    member_forgets(0);
    (void)!majority_end(&lock, NULL);
    lock = hold(&two, 0);
    assert_true(majority_token(lock) > token);
    ok(majority_end(&lock, &said));
}

/* ---- several at once ------------------------------------------------------------------------- */

enum { THREADS = 4, TURNS = 12 };

static atomic_int inside, most_inside;
static int64_t last_token; /* of who is inside: no mutex but the lock */

struct contender {
    struct majority *set;
    int turns, falls;
    sqlock_error err;
};

static void *contend(void *arg)
{
    struct contender *c = arg;
    sqlock_acquire_opts opts = wait_opts(60000, 20000, 0);

    while (c->turns < TURNS) {
        majority_lock *lock = NULL;
        int now;

        if (majority_acquire(c->set, NAME, &opts, &lock, &c->err) != 0)
            break;
        now = atomic_fetch_add(&inside, 1) + 1;
        if (now > most_inside)
            most_inside = now;
        c->falls += majority_token(lock) <= last_token;
        last_token = majority_token(lock);
        sleep_ms(1);
        inside--;
        c->turns += majority_end(&lock, &c->err) == 0 ? 1 : TURNS + 1;
    }
    return NULL;
}

MAJORITY_TEST(test_P1_contenders_for_a_majority_never_hold_it_at_once)
{
    struct majority sets[PROGRAMS] = {members_of(0, 3, 0), members_of(1, 3, 0)};
    struct contender c[THREADS];

    inside = most_inside = 0;
    last_token = 0;
    for (int i = 0; i < THREADS; i++)
        c[i] = (struct contender){.set = &sets[i % PROGRAMS]};
    run_threads(THREADS, c, sizeof *c, contend);
    for (int i = 0; i < THREADS; i++) {
        check_code(TURNS, c[i].turns, &c[i].err, "turns", __FILE__, __LINE__);
        assert_int_equal(c[i].falls, 0);
    }
    assert_int_equal(most_inside, 1);
}

static void *end_later(void *arg)
{
    majority_lock *lock = arg;

    sleep_ms(300);
    return majority_end(&lock, NULL) == 0 ? arg : NULL;
}

MAJORITY_TEST(test_waiter_gets_a_majority_that_is_given_back)
{
    struct majority one = members_of(0, 3, 0), two = members_of(1, 3, 0);
    majority_lock *lock = hold(&one, 0);
    const int64_t token = majority_token(lock);
    void *was_ended = NULL;
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, end_later, lock), 0);
    assert_takes(250, patience_ms(5000), lock = hold(&two, 0));
    pthread_join(thread, &was_ended);
    assert_non_null(was_ended);
    assert_true(majority_token(lock) > token);
    ok(majority_end(&lock, &said));
}

CORE_TEST(test_wrong_majorities_are_refused, m, other)
{
    struct majority set = {.members = {m, other}, .n = 2, .quorum = 1};
    sqlock_acquire_opts opts = wait_opts(0, 0, SQLOCK_NO_RENEW);
    char actor[SQLOCK_ACTOR_MAX + 2] = "";
    const int64_t mode = SQLOCK_SHARED;
    majority_lock *lock = NULL;

    says(SQLOCK_EINVAL, try_majority(&set, &lock));
    set.quorum = 3;
    says(SQLOCK_EINVAL, try_majority(&set, &lock));
    set.quorum = 0;
    says(SQLOCK_EINVAL, majority_acquire(&set, NAME, &opts, &lock, &said));
    opts.flags = 0;
    opts.mode = SQLOCK_SLOTS(2); /* three members would have three holders */
    says(SQLOCK_EINVAL, majority_acquire(&set, NAME, &opts, &lock, &said));
    opts.mode = SQLOCK_EXCLUSIVE;
    says(SQLOCK_EINVAL, majority_acquire(&set, "", &opts, &lock, &said));
    says(SQLOCK_EINVAL, majority_acquire(&set, NULL, &opts, &lock, &said));
    opts.lease_ms = 1;
    says(SQLOCK_EINVAL, majority_acquire(&set, NAME, &opts, &lock, &said));
    opts.lease_ms = 0;
    opts.wait_ms = -5;
    says(SQLOCK_EINVAL, majority_acquire(&set, NAME, &opts, &lock, &said));
    opts.wait_ms = 0;
    opts.actor = "";
    says(SQLOCK_EINVAL, majority_acquire(&set, NAME, &opts, &lock, &said));
    memset(actor, 'x', sizeof actor - 1);
    opts.actor = actor;
    says(SQLOCK_EINVAL, majority_acquire(&set, NAME, &opts, &lock, &said));
    opts.actor = NULL;
    opts.modes = &mode;
    says(SQLOCK_EINVAL, majority_acquire(&set, NAME, &opts, &lock, &said));
    set.members[1] = m;
    says(SQLOCK_EINVAL, try_majority(&set, &lock));
    set.n = MAJORITY_MOST + 1;
    says(SQLOCK_EINVAL, try_majority(&set, &lock));
    set.n = 0;
    says(SQLOCK_EINVAL, try_majority(&set, &lock));
    assert_null(lock);
    assert_int_equal(spy_requests(SQLOCK_STMT_ACQUIRE), 0);
}

CORE_TEST(test_wait_for_a_majority_is_cancelled, m)
{
    struct majority set = {.members = {m}, .n = 1};
    sqlock_acquire_opts opts = wait_opts(SQLOCK_WAIT_FOREVER, 0, 0);
    majority_lock *lock = NULL;

    take(m, NAME);
    ok(sqlock_cancel_new(&opts.cancel, &said));
    sqlock_cancel_fire(opts.cancel);
    says(SQLOCK_ECANCELLED, majority_acquire(&set, NAME, &opts, &lock, &said));
    sqlock_cancel_free(opts.cancel);
    assert_null(lock);
}
