/* Circles of those who wait for each other: who is stuck, against a second way to find out, and who
 * gives up. */
#include <stdio.h>
#include <string.h>

#include "core/model/actor.h"
#include "core/model/circle.h"
#include "tests/lib/check.h"
#include "tests/lib/dice.h"

enum { MOST = 64, LOCKS_MOST = 8, ACTORS_MOST = 10, ROUNDS = 20000 };

/* What stands where, as it is written down: `job` is the actor, 0: none, and then the owner has no
 * other one. */
static struct scene {
    struct stand stands[MOST];
    struct circle_actor actors[MOST];
    size_t n;
    struct circle c;
} scene;

static const char *const names[LOCKS_MOST] = {"a", "b", "c", "d", "ab", "abc", "x", "xy"};

static struct stand *stand(int job, enum stand_kind kind, int lock, int64_t since)
{
    struct stand *s = &scene.stands[scene.n++];

    assert_true(scene.n <= MOST);
    memset(s, 0, sizeof *s);
    memset(s->owner, job, ACTOR_SIZE);
    s->owner[0] = job == 0 ? 0xff : 0;
    s->owner[job == 0 ? 1 : ACTOR_SIZE] = (unsigned char)scene.n;
    if (job != 0)
        actor_mark(s->owner);
    s->kind = kind;
    s->name = names[lock];
    s->name_len = strlen(names[lock]);
    s->id = s->since = since;
    s->waits = kind == STAND_WAITS;
    return s;
}

static void holds(int job, int lock)
{
    stand(job, STAND_ROW, lock, 1);
}

static void sits(int job, int lock)
{
    stand(job, STAND_SEAT, lock, 1);
}

static void waits(int job, int lock, int64_t since)
{
    stand(job, STAND_WAITS, lock, since);
}

/* It has the turn, and waits for seats. */
static void turns(int job, int lock, int64_t beside, int64_t since)
{
    struct stand *s = stand(job, STAND_ROW, lock, since);

    s->beside = beside;
    s->waits = 1;
}

static void clear(void)
{
    memset(&scene, 0, sizeof scene);
}

static void settle(void)
{
    scene.c = (struct circle){.stands = scene.stands, .n = scene.n, .actors = scene.actors};
    circle_settle(&scene.c);
}

/* The wait of this job: its number. */
static size_t wait_of(int job)
{
    for (size_t i = 0; i < scene.n; i++)
        if (scene.stands[i].waits && scene.stands[i].owner[1] == job &&
            scene.stands[i].owner[0] == 0)
            return i;
    fail_msg("job %d does not wait", job);
    return 0;
}

/* Who is to give up, if that is judged from there; 0: no one. */
static int victim_of(int job)
{
    size_t i = circle_victim(&scene.c, wait_of(job));

    return i == scene.n ? 0 : scene.stands[i].owner[1];
}

TEST(test_later_one_of_two_gives_up)
{
    clear();
    holds(1, 0);
    holds(2, 1);
    waits(1, 1, 10);
    waits(2, 0, 20);
    settle();
    assert_int_equal(victim_of(1), 2);
    assert_int_equal(victim_of(2), 2);
}

/* At the same microsecond the owners decide. */
TEST(test_of_two_that_came_together_both_find_the_same)
{
    clear();
    holds(1, 0);
    holds(2, 1);
    waits(1, 1, 10);
    waits(2, 0, 10);
    settle();
    assert_int_equal(victim_of(1), 2);
    assert_int_equal(victim_of(2), 2);
}

TEST(test_chain_is_no_circle_and_who_waits_behind_one_is_not_in_it)
{
    clear();
    holds(1, 0);
    holds(2, 1);
    holds(3, 6);
    waits(1, 1, 10);
    waits(3, 0, 20);
    settle();
    assert_int_equal(victim_of(1), 0);
    assert_int_equal(victim_of(3), 0);
    waits(2, 0, 15); /* 3 comes behind it, or, by its ticket, before it */
    settle();
    assert_int_equal(victim_of(1), 2);
    assert_int_equal(victim_of(2), 2);
    assert_int_equal(victim_of(3), 0);
    scene.stands[wait_of(3)].id = 1;
    settle();
    assert_int_equal(victim_of(1), 2);
    assert_int_equal(victim_of(3), 0);
    clear();
    holds(1, 0);
    holds(2, 1);
    waits(1, 1, 10);
    holds(3, 6);
    waits(2, 0, 20);
    waits(3, 0, 30); /* no one waits for 3 */
    settle();
    assert_int_equal(victim_of(3), 0);
    assert_int_equal(victim_of(1), 2);
}

TEST(test_actor_may_wait_for_itself)
{
    clear();
    holds(1, 0);
    waits(1, 0, 10);
    settle();
    assert_int_equal(victim_of(1), 1);
}

/* Two that wait for the same lock are of one actor, which is no circle: the first gets it. */
TEST(test_actor_that_waits_twice_is_no_circle)
{
    clear();
    holds(2, 0);
    waits(1, 0, 10);
    waits(1, 0, 20);
    settle();
    assert_int_equal(victim_of(1), 0);
}

TEST(test_turn_waits_for_all_readers_and_a_slot_for_any)
{
    clear();
    turns(1, 0, -1, 10);
    sits(2, 0);
    sits(3, 0);
    holds(1, 1);
    waits(2, 1, 20);
    settle();
    assert_int_equal(victim_of(1), 2);
    assert_int_equal(victim_of(2), 2);
    clear();
    turns(1, 0, 2, 10);
    sits(2, 0);
    sits(3, 0);
    holds(1, 1);
    waits(2, 1, 20);
    settle();
    assert_int_equal(victim_of(1), 0);
    waits(3, 1, 30);
    settle();
    assert_int_equal(victim_of(1), 3);
    assert_int_equal(victim_of(2), 3);
    assert_int_equal(victim_of(3), 3);
}

/* A slot that no one has, or that was not listed, can be had. */
TEST(test_free_slot_is_not_waited_for_in_vain)
{
    clear();
    turns(1, 0, 3, 10);
    sits(2, 0);
    sits(3, 0);
    holds(1, 1);
    waits(2, 1, 20);
    waits(3, 1, 30);
    settle();
    assert_int_equal(victim_of(1), 0);
}

static void shows(size_t i, const char *name, size_t by, size_t next)
{
    size_t found_by = MOST, found = circle_next(&scene.c, i, &found_by);

    assert_memory_equal(scene.stands[i].name, name, strlen(name));
    assert_int_equal(found, next);
    assert_int_equal(found_by, by);
}

static size_t number_of(int job, enum stand_kind kind)
{
    for (size_t i = 0; i < scene.n; i++)
        if (scene.stands[i].owner[1] == job && scene.stands[i].kind == kind)
            return i;
    return MOST;
}

TEST(test_way_round_a_circle_is_shown)
{
    clear();
    holds(1, 0);
    holds(2, 1);
    holds(3, 6);
    waits(1, 1, 10);
    waits(2, 6, 20);
    waits(3, 0, 30);
    settle();
    assert_int_equal(victim_of(3), 3);
    shows(wait_of(3), "a", number_of(1, STAND_ROW), wait_of(1));
    shows(wait_of(1), "b", number_of(2, STAND_ROW), wait_of(2));
    shows(wait_of(2), "x", number_of(3, STAND_ROW), wait_of(3));
}

/* ---- two looks ------------------------------------------------------------------------------- */

static size_t seen_twice(struct stand *before, size_t n_before)
{
    stands_sort(before, n_before);
    stands_sort(scene.stands, scene.n);
    return stands_keep(scene.stands, scene.n, before, n_before);
}

TEST(test_only_what_two_looks_saw_counts)
{
    struct stand before[MOST];
    size_t n;

    clear();
    holds(1, 0);
    waits(1, 1, 10);
    waits(2, 0, 20);
    memcpy(before, scene.stands, sizeof before);
    n = scene.n;
    assert_int_equal(seen_twice(before, n), 3);
    assert_int_equal(seen_twice(before, 0), 0);
    scene.stands[wait_of(1)].id = 11; /* the same owner has queued anew */
    assert_int_equal(seen_twice(before, n), 2);
    scene.n = 2;
    scene.stands[0].since++;
    assert_int_equal(seen_twice(before, n), 1);
}

TEST(test_who_has_the_turn_waits_if_it_extends_that)
{
    struct stand before[MOST];

    clear();
    turns(1, 0, -1, 10);
    memcpy(before, scene.stands, sizeof before);
    assert_int_equal(seen_twice(before, 1), 1);
    assert_false(scene.stands[0].waits);
    scene.stands[0].end++;
    assert_int_equal(seen_twice(before, 1), 1);
    assert_true(scene.stands[0].waits);
}

/* ---- at random ------------------------------------------------------------------------------- */

/* Each actor waits for one thing at most. */
static void draw(struct dice *d)
{
    int waits_for[ACTORS_MOST + 1] = {0}, locks = (int)dice_between(d, 1, 5), turn;

    clear();
    for (int lock = 0; lock < locks; lock++) {
        int64_t seats = dice_between(d, 0, 3), since = dice_between(d, 0, 40);

        if (seats == 0) {
            if (dice_below(d, 4) > 0)
                holds((int)dice_between(d, 0, ACTORS_MOST), lock);
            continue;
        }
        for (int64_t i = 0; i < seats; i++)
            sits((int)dice_between(d, 0, ACTORS_MOST), lock);
        turn = (int)dice_between(d, 0, ACTORS_MOST);
        if (dice_below(d, 2) == 0 && (turn == 0 || !waits_for[turn]++))
            turns(turn, lock, dice_below(d, 2) == 0 ? -1 : dice_between(d, 1, 4), since);
    }
    for (int i = 0; i < 12; i++) {
        int job = (int)dice_between(d, 0, ACTORS_MOST);

        if (job == 0 || !waits_for[job]++)
            waits(job, (int)dice_between(d, 0, locks - 1), dice_between(d, 0, 40));
    }
}

static int is_actor_of(const struct stand *a, const struct stand *b)
{
    return memcmp(a->owner, b->owner, ACTOR_SIZE) == 0;
}

/* Can stand i get what it waits for, once those that have gone on have? */
static int can_go_on(const bool *gone, size_t i)
{
    const struct stand *s = &scene.stands[i];
    int64_t seats = 0, left = 0;

    for (size_t k = 0; k < scene.n; k++) {
        const struct stand *o = &scene.stands[k];

        if (k == i || o->name != s->name)
            continue;
        if (s->kind == STAND_WAITS && !gone[k] &&
            (o->kind == STAND_ROW ||
             (o->kind == STAND_WAITS && (o->id < s->id || (o->id == s->id && k < i)))))
            return 0;
        seats += o->kind == STAND_SEAT;
        left += o->kind == STAND_SEAT && !gone[k];
    }
    return s->kind == STAND_WAITS || (s->beside < 0 ? left == 0 : left < s->beside || left < seats);
}

/* Let all go on that can: who waits for nothing releases all that it has. */
static void play(bool *gone)
{
    bool changed = true;

    memset(gone, 0, MOST);
    while (changed) {
        changed = false;
        for (size_t i = 0; i < scene.n; i++) {
            bool waiting = false;

            if (gone[i])
                continue;
            for (size_t k = 0; k < scene.n; k++)
                waiting |= is_actor_of(&scene.stands[i], &scene.stands[k]) && !gone[k] &&
                           scene.stands[k].waits && !can_go_on(gone, k);
            if (!waiting)
                gone[i] = changed = true;
        }
    }
}

/* Takes out who gives up, with all that it holds. */
static void give_up(size_t i)
{
    struct stand s = scene.stands[i];
    size_t kept = 0;

    for (size_t k = 0; k < scene.n; k++)
        if (!is_actor_of(&scene.stands[k], &s))
            scene.stands[kept++] = scene.stands[k];
    scene.n = kept;
}

/* Returns MOST if no one is to give up. */
static size_t find_victim(void)
{
    size_t victim = MOST;

    for (size_t i = 0; i < scene.n; i++) {
        size_t v = circle_victim(&scene.c, i), w;

        if (v == scene.n)
            continue;
        assert_true(scene.stands[i].stuck && scene.stands[v].stuck);
        w = circle_victim(&scene.c, v);
        assert_int_equal(w, v); /* it is the same for itself */
        victim = v;
    }
    return victim;
}

/* Those that cannot go on are those that the model calls stuck, or wait behind them. While there
 * are any, someone gives up, and at last no one is stuck. */
TEST(test_all_go_on_once_one_of_each_circle_has_given_up)
{
    struct dice d = dice_new("circles");
    size_t victim, circles = 0, stuck;
    bool gone[MOST];

    for (int round = 0; round < ROUNDS; round++) {
        draw(&d);
        do {
            settle();
            play(gone);
            stuck = 0;
            for (size_t i = 0; i < scene.n; i++) {
                const struct stand *s = &scene.stands[i];

                if (s->waits && s->stuck == gone[i])
                    fail_msg("round %d: stand %zu of \"%s\"", round, i, s->name);
                stuck += s->waits && s->stuck;
            }
            victim = find_victim();
            assert_true((victim == MOST) == (stuck == 0));
            if (victim != MOST)
                give_up(victim);
            circles += victim != MOST;
        } while (victim != MOST);
    }
    assert_true(circles > ROUNDS / 10); /* they were drawn */
}

TEST_MAIN_EACH(NULL, NULL)
