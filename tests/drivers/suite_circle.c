/* P26: actors that wait for each other in a circle. Exactly one of them gives up, and no one who is
 * in none. */
#define SUITE_NEEDS (QUEUES | LEISURE) /* a circle is noticed after some seconds */
#include <sqlock/admin.h>
#include <sqlock/async.h>
#include <sqlock/many.h>
#include <sqlock/mode.h>
#include <stdlib.h>

#include "tests/drivers/suite_actor.h"

enum { SOON_MS = 10000, WAITERS_MOST = 4, TWO = SQLOCK_SLOTS(2) };

/* Those of a test that wait. */
static struct waiter all[WAITERS_MOST];
static size_t n_all;

/* Later than what was wanted before by a millisecond at least: SQLite's times have no more. */
static struct waiter *want(sqlock *m, const char *actor, const char *name, int64_t mode)
{
    struct waiter *t = &all[n_all++];

    sleep_ms(3);
    *t = (struct waiter){.m = m, .name = name, .opts = actor_opts(actor, mode, ACTOR_WAIT_MS)};
    wait_start(t);
    return t;
}

static int count(const sqlock_waiter *waiter, void *user)
{
    *(int *)user += waiter->place > 0; /* who is next has left the queue */
    return 0;
}

static int in_the_queue(sqlock *m, const char *name)
{
    int n = 0;

    ok(sqlock_list_waiters(m, name, count, &n, &said));
    return n;
}

static void await_place(sqlock *m, const char *name, int n)
{
    assert_soon(in_the_queue(m, name) == n, patience_ms(5000));
}

/* A try of this mode is refused by who is next, and waits for others to release. */
static bool has_turn(sqlock *m, const char *name, int64_t mode)
{
    sqlock_holder holder = {.size = sizeof holder};
    sqlock_acquire_opts o = mode_opts(mode, 0);
    sqlock_lock *none = NULL;

    o.holder = &holder;
    if (sqlock_acquire(m, name, &o, &none, &said) == 0) {
        give(keep(none));
        return false;
    }
    return said.code == SQLOCK_EBUSY && holder.token == 0;
}

static void await_turn(sqlock *m, const char *name, int64_t mode)
{
    assert_soon(has_turn(m, name, mode), patience_ms(5000));
}

static struct waiter *first_ended(void)
{
    for (size_t i = 0; i < n_all; i++)
        if (all[i].ended)
            return &all[i];
    return NULL;
}

static void did_not_give_up(const struct waiter *t)
{
    if (t->code != 0)
        fail_msg("gave up, and was not to: %s", t->err.text);
}

/* It is the first that ends, for no one is granted anything. */
static void gives_up(struct waiter *t)
{
    assert_soon(first_ended() != NULL, patience_ms(SOON_MS));
    for (size_t i = 0; i < n_all; i++)
        if (&all[i] != t && all[i].ended)
            did_not_give_up(&all[i]);
    pthread_join(t->thread, NULL);
    assert_code(SQLOCK_EDEADLOCK, t->code, &t->err);
    assert_null(t->lock);
}

static sqlock_lock *granted(struct waiter *t)
{
    pthread_join(t->thread, NULL);
    did_not_give_up(t);
    return keep(t->lock);
}

/* Soon: who gave up gives its turn back behind its call. */
static void all_free(sqlock *m, const char *names)
{
    char name[2] = "";

    for (; *names != '\0'; names++) {
        name[0] = *names;
        assert_soon(is_free(m, name), patience_ms(5000));
    }
}

static void none_yet(struct world *w)
{
    (void)w;
    n_all = 0;
}

TEST_AFTER(none_yet, test_P26_of_two_actors_in_a_circle_the_later_one_gives_up, m, other)
{
    sqlock_lock *x = hold_as(m, "job 1", "x", SQLOCK_EXCLUSIVE);
    sqlock_lock *y = hold_as(other, "job 2", "y", SQLOCK_EXCLUSIVE);
    struct waiter *first = want(m, "job 1", "y", SQLOCK_EXCLUSIVE), *second;

    await_place(m, "y", 1);
    second = want(other, "job 2", "x", SQLOCK_EXCLUSIVE);
    gives_up(second);
    assert_non_null(strstr(second->err.text, "acquire \"x\": a deadlock: "));
    assert_non_null(strstr(second->err.text, "job 2 waits for \"x\" of "));
    assert_non_null(strstr(second->err.text, "job 1 waits for \"y\" of "));
    await_place(m, "x", 0);
    assert_true(sqlock_is_held(x) && sqlock_is_held(y));
    give(y);
    give(granted(first));
    give(x);
    all_free(m, "xy");
}

TEST_AFTER(none_yet, test_P26_of_three_actors_in_a_circle_one_gives_up, m, other)
{
    sqlock *third = open_manager(w, NULL);
    sqlock_lock *x = hold_as(m, "job 1", "x", SQLOCK_EXCLUSIVE);
    sqlock_lock *y = hold_as(other, "job 2", "y", SQLOCK_EXCLUSIVE);
    sqlock_lock *z = hold_as(third, "job 3", "z", SQLOCK_EXCLUSIVE);
    struct waiter *a = want(m, "job 1", "y", SQLOCK_EXCLUSIVE), *b;

    await_place(m, "y", 1);
    b = want(other, "job 2", "z", SQLOCK_EXCLUSIVE);
    await_place(m, "z", 1);
    gives_up(want(third, "job 3", "x", SQLOCK_EXCLUSIVE));
    give(z);
    give(granted(b));
    give(y);
    give(granted(a));
    give(x);
    all_free(m, "xyz");
}

/* None of them stands in a queue: each has the turn, and waits for the other's seat. */
TEST_AFTER(none_yet, test_P26_actors_with_turns_wait_for_each_others_seats, m, other)
{
    sqlock_lock *x = hold_as(m, "job 1", "x", SQLOCK_SHARED);
    sqlock_lock *y = hold_as(other, "job 2", "y", SQLOCK_SHARED);
    struct waiter *first = want(m, "job 1", "y", SQLOCK_EXCLUSIVE);

    await_turn(m, "y", SQLOCK_SHARED);
    gives_up(want(other, "job 2", "x", SQLOCK_EXCLUSIVE));
    give(y);
    give(granted(first));
    give(x);
    all_free(m, "xy");
}

/* A reader waits behind a writer, which has no actor, and waits for the first reader. */
TEST_AFTER(none_yet, test_P26_circle_may_lead_over_who_is_next_in_line, m, other)
{
    sqlock_lock *x = hold_as(m, "job 1", "x", SQLOCK_SHARED);
    sqlock_lock *y = hold_as(other, "job 2", "y", SQLOCK_EXCLUSIVE);
    struct waiter *writer = want(other, NULL, "x", SQLOCK_EXCLUSIVE), *reader;

    await_turn(m, "x", SQLOCK_SHARED);
    reader = want(other, "job 2", "x", SQLOCK_SHARED);
    await_place(m, "x", 1);
    gives_up(want(m, "job 1", "y", SQLOCK_EXCLUSIVE));
    assert_non_null(strstr(all[2].err.text, "waits for \"x\" behind "));
    give(x);
    give(granted(writer));
    give(granted(reader));
    give(y);
    all_free(m, "xy");
}

/* Who has the turn, and is not run for longer than an offer, loses it and comes once more. So on a
 * busy machine it may be the last. Returns false then. */
static bool gives_up_or_came_again(struct waiter *last, const struct waiter *turn)
{
    assert_soon(first_ended() != NULL, patience_ms(SOON_MS));
    if (!turn->ended)
        gives_up(last);
    return !turn->ended;
}

/* One of two slots may come free, so it is not waited for in vain: until its holder waits, too. */
static bool slot_is_waited_for(sqlock *m, sqlock *other)
{
    sqlock_lock *first = hold_as(m, "job 1", "s", TWO), *second = hold_as(other, "job 2", "s", TWO);
    sqlock_lock *x = hold_as(m, "job 3", "x", SQLOCK_EXCLUSIVE);
    struct waiter *slot = want(m, "job 3", "s", TWO), *a, *b;
    long looks = spy_requests(SQLOCK_STMT_CIRCLE);
    bool gave_up;

    await_turn(m, "s", TWO);
    a = want(m, "job 1", "x", SQLOCK_EXCLUSIVE);
    await_place(m, "x", 1);
    assert_soon(spy_requests(SQLOCK_STMT_CIRCLE) >= looks + 4, patience_ms(SOON_MS));
    assert_null(first_ended());
    b = want(other, "job 2", "x", SQLOCK_EXCLUSIVE);
    gave_up = gives_up_or_came_again(b, slot);
    if (!gave_up)
        gives_up(slot);
    give(second);
    if (gave_up)
        give(granted(slot));
    give(x);
    give(granted(a));
    if (!gave_up)
        give(granted(b));
    give(first);
    all_free(m, "xs");
    return gave_up;
}

TEST_AFTER(none_yet, test_P26_slot_is_waited_for_in_vain_if_all_holders_are_stuck, m, other)
{
    int tries = 3;

    while (!slot_is_waited_for(m, other)) {
        assert_true(--tries > 0);
        none_yet(w);
    }
}

TEST_AFTER(none_yet, test_P26_actor_that_waits_for_its_own_lock_is_a_circle, m, other)
{
    sqlock_lock *x = hold_as(m, "job 1", "x", SQLOCK_EXCLUSIVE);
    sqlock_lock *s = hold_as(m, "job 2", "s", SQLOCK_SHARED), *again;

    again = hold_as(m, "job 2", "s", SQLOCK_SHARED); /* no one waits here */
    give(again);
    gives_up(want(other, "job 1", "x", SQLOCK_EXCLUSIVE));
    n_all = 0;
    gives_up(want(m, "job 2", "s", SQLOCK_EXCLUSIVE));
    give(x);
    give(s);
    all_free(m, "xs");
}

/* On a busy machine its last answer may come too late. */
static void waits_in_vain(struct waiter *t)
{
    pthread_join(t->thread, NULL);
    if (t->code != SQLOCK_EUNSURE)
        assert_code(SQLOCK_EBUSY, t->code, &t->err);
    sqlock_lock_free(t->lock);
}

/* No look is made for them, either. */
TEST_AFTER(none_yet, test_P26_waiters_without_an_actor_wait_on, m, other)
{
    sqlock_lock *x = hold_as(m, NULL, "x", SQLOCK_EXCLUSIVE), *y = hold_as(other, NULL, "y", 0);
    long looks = spy_requests(SQLOCK_STMT_CIRCLE), stands = spy_requests(SQLOCK_STMT_STAND);
    struct waiter a = {.m = m, .name = "y", .opts = actor_opts(NULL, SQLOCK_EXCLUSIVE, 3000)};
    struct waiter b = {.m = other, .name = "x", .opts = a.opts};

    wait_start(&a);
    wait_start(&b);
    waits_in_vain(&a);
    waits_in_vain(&b);
    assert_int_equal(spy_requests(SQLOCK_STMT_CIRCLE), looks);
    assert_int_equal(spy_requests(SQLOCK_STMT_STAND), stands);
    give(x);
    give(y);
}

struct lister {
    sqlock *m;
    const char *actor, *names[3];
    pthread_t thread;
    int code;
    sqlock_error err;
};

static void *list_main(void *arg)
{
    struct lister *l = arg;
    sqlock_acquire_opts o = actor_opts(l->actor, SQLOCK_EXCLUSIVE, ACTOR_WAIT_MS);
    sqlock_lock *locks[3];

    for (int i = 0; i < 3 && l->code == 0; i++) {
        l->code = sqlock_acquire_all(l->m, l->names, 3, &o, locks, &l->err);
        if (l->code == 0)
            l->code = sqlock_end_each(locks, 3, NULL, &l->err);
    }
    return NULL;
}

/* While one of a list is waited for, none of it is held for long. */
TEST(test_P26_lists_of_names_that_cross_are_granted, m, other)
{
    struct lister lists[] = {{.m = m, .actor = "job 1", .names = {"x", "y", "z"}},
                             {.m = other, .actor = "job 2", .names = {"z", "y", "x"}}};
    sqlock_lock *y = hold_as(m, "job 3", "y", SQLOCK_EXCLUSIVE);
    long looks = spy_requests(SQLOCK_STMT_CIRCLE);

    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&lists[i].thread, NULL, list_main, &lists[i]), 0);
    assert_soon(spy_requests(SQLOCK_STMT_CIRCLE) >= looks + 4, patience_ms(SOON_MS));
    give(y);
    for (int i = 0; i < 2; i++) {
        pthread_join(lists[i].thread, NULL);
        assert_ok(lists[i].code, &lists[i].err);
    }
}

/* Of a list of which each is waited for by itself, what was granted stays. */
TEST_AFTER(none_yet, test_P26_one_of_a_list_gives_up, m, other)
{
    static const char *const names[] = {"x", "z"};
    sqlock_acquire_opts o = actor_opts("job 2", SQLOCK_EXCLUSIVE, ACTOR_WAIT_MS);
    sqlock_lock *x = hold_as(m, "job 1", "x", SQLOCK_EXCLUSIVE),
                *y = hold_as(other, "job 2", "y", 0);
    struct waiter *first = want(m, "job 1", "y", SQLOCK_EXCLUSIVE);
    sqlock_lock *locks[2];
    int codes[2];

    await_place(m, "y", 1);
    says(SQLOCK_EDEADLOCK, sqlock_acquire_each(other, names, 2, &o, locks, codes, &said));
    assert_int_equal(codes[0], SQLOCK_EDEADLOCK);
    assert_int_equal(codes[1], 0);
    ok(sqlock_end_each(locks, 2, NULL, &said));
    give(y);
    give(granted(first));
    give(x);
}

/* ---- no circle ------------------------------------------------------------------------------- */

enum { WORKERS = 8, WORK_US = 4000000, HOLD_MS = 150 };

struct worker {
    sqlock *m;
    int number;
    int64_t until_us;
    int code, rounds;
    sqlock_error err;
};

/* Three locks in the order of their names, each of them held for a while: so holders change, and
 * wait for others that hold, but never in a circle. */
static void work_once(struct worker *k, const char *actor, unsigned *dice)
{
    static const char *const names[] = {"a", "b", "c"};
    sqlock_lock *locks[3] = {NULL, NULL, NULL};

    for (int i = 0; i < 3 && k->code == 0; i++) {
        unsigned drawn = (unsigned)rand_r(dice);
        sqlock_acquire_opts o = actor_opts(actor,
                                           i == 2        ? TWO
                                           : (drawn & 1) ? SQLOCK_SHARED
                                                         : 0,
                                           60000);

        if ((drawn & 6) != 0) {
            k->code = sqlock_acquire(k->m, names[i], &o, &locks[i], &k->err);
            sleep_ms(HOLD_MS);
        }
    }
    for (int i = 0; i < 3; i++)
        sqlock_scope_end(&locks[i]);
    k->rounds++;
}

static void *work_main(void *arg)
{
    struct worker *k = arg;
    unsigned dice = (unsigned)k->number;
    char actor[16];

    snprintf(actor, sizeof actor, "worker %d", k->number);
    while (k->code == 0 && sqlock_now_us() < k->until_us)
        work_once(k, actor, &dice);
    return NULL;
}

TEST(test_P26_no_one_gives_up_where_locks_are_taken_in_order, m, other)
{
    struct worker workers[WORKERS];
    long looks = spy_requests(SQLOCK_STMT_CIRCLE);
    int rounds = 0;

    memset(workers, 0, sizeof workers);
    for (int i = 0; i < WORKERS; i++) {
        workers[i].m = i % 2 == 0 ? m : other;
        workers[i].number = i + 1;
        workers[i].until_us = sqlock_now_us() + WORK_US;
    }
    run_threads(WORKERS, workers, sizeof *workers, work_main);
    for (int i = 0; i < WORKERS; i++) {
        assert_ok(workers[i].code, &workers[i].err);
        rounds += workers[i].rounds;
    }
    assert_true(rounds >= WORKERS);
    assert_true(spy_requests(SQLOCK_STMT_CIRCLE) >= looks + 3);
}

/* Its own seat is not in the way of an upgrade. That of the other one is. */
TEST(test_P26_upgrade_in_a_circle, m, other)
{
    sqlock_lock *lock = hold_as(m, "editor", "door", SQLOCK_SHARED), *next = NULL;
    sqlock_lock *reader = hold_as(other, "reader", "door", SQLOCK_SHARED);
    sqlock_op *op = NULL;
    struct waiter *waits;
    int code;

    hold_as(m, "editor", "gate", SQLOCK_EXCLUSIVE);
    ok(sqlock_upgrade_start(lock, ACTOR_WAIT_MS, NULL, &op, &said));
    await_turn(other, "door", SQLOCK_SHARED);
    waits = want(other, "reader", "gate", SQLOCK_EXCLUSIVE);
    assert_soon(atomic_load(&waits->ended), patience_ms(SOON_MS)); /* it came last */
    pthread_join(waits->thread, NULL);
    assert_int_equal(waits->code, SQLOCK_EDEADLOCK);
    give(reader);
    while (!sqlock_op_step(op))
        sleep_ms(1);
    code = sqlock_op_finish(op, &next, &said);
    ok(code);
    give(keep(next));
}
