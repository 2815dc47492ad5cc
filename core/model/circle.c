/* Circles of those who wait for each other. The greatest set of waits that hold each other up.
 * - Who is in a queue waits for who has the lock's row. Those before it are in the way, too, but go
 *   on when that one does. If they counted, someone might give up who only comes before a circle.
 * - Who has the turn for a lock with shared holders waits for all of these.
 * - Who has the turn for slots needs one of their holders: it is stuck only if all are (the "and"
 *   and "or" models of Knapp, "Deadlock Detection in Distributed Databases", 1987). */
#include "core/model/circle.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/model/actor.h"

static int stand_compare(const void *a, const void *b)
{
    const struct stand *x = a, *y = b;
    int order = memcmp(x->owner, y->owner, sizeof x->owner);

    if (order == 0)
        order = (x->kind > y->kind) - (x->kind < y->kind);
    return order != 0 ? order : (x->id > y->id) - (x->id < y->id);
}

static int stand_name_order(const struct stand *x, const struct stand *y)
{
    int order = memcmp(x->name, y->name, x->name_len < y->name_len ? x->name_len : y->name_len);

    return order != 0 ? order : (x->name_len > y->name_len) - (x->name_len < y->name_len);
}

static int stand_by_name(const void *a, const void *b)
{
    const struct stand *x = a, *y = b;
    int order = stand_name_order(x, y);

    if (order == 0)
        order = (x->kind > y->kind) - (x->kind < y->kind);
    return order != 0 ? order : (x->id > y->id) - (x->id < y->id);
}

void stands_sort(struct stand *stands, size_t n)
{
    qsort(stands, n, sizeof *stands, stand_compare);
}

size_t stands_keep(struct stand *now, size_t n, const struct stand *before, size_t n_before)
{
    size_t kept = 0;

    for (size_t i = 0, k = 0; i < n; i++) {
        struct stand s = now[i];

        while (k < n_before && stand_compare(&before[k], &s) < 0)
            k++;
        if (k == n_before || stand_compare(&before[k], &s) != 0 || before[k].since != s.since)
            continue;
        if (s.kind == STAND_ROW && s.beside != 0)
            s.waits = before[k].end < s.end;
        now[kept++] = s;
    }
    return kept;
}

/* ---- who is stuck ---------------------------------------------------------------------------- */

/* The stands of one lock: its row, seats, waiters. */
struct lot {
    size_t first, seats, waiters, end;
};

static int lot_next(const struct circle *c, size_t first, struct lot *l)
{
    const struct stand *s = c->stands;

    if (first >= c->n)
        return 0;
    l->first = l->seats = l->waiters = l->end = first;
    for (; l->end < c->n && s[l->end].lot == s[first].lot; l->end++) {
        l->seats += s[l->end].kind == STAND_ROW;
        l->waiters += s[l->end].kind != STAND_WAITS;
    }
    return 1;
}

#define LOTS_EACH(l, c) for (struct lot l = {0}; lot_next((c), l.end, &l);)

static int is_same_owner(const struct stand *a, const struct stand *b)
{
    return memcmp(a->owner, b->owner, sizeof a->owner) == 0;
}

/* It does not wait for that one: it is itself, or the seat that it gives back to have the lock
 * alone. */
static int is_own(const struct stand *s, const struct stand *by)
{
    return is_same_owner(s, by) || (by->kind == STAND_SEAT && actor_succeeds(s->owner, by->owner));
}

/* What others that wait for this stand need of it does not come. */
static int is_held_up(const struct circle *c, const struct stand *s)
{
    return s->waits ? s->stuck : c->actors[s->actor].stuck;
}

/* One who has a slot itself does not wait for another one. */
static int turn_is_stuck(const struct circle *c, const struct lot *l)
{
    const struct stand *turn = &c->stands[l->first];
    size_t held_up = 0;

    for (size_t i = l->seats; i < l->waiters; i++) {
        if (!is_own(turn, &c->stands[i]))
            held_up += is_held_up(c, &c->stands[i]) != 0;
        else if (turn->beside > 0)
            return 0;
    }
    if (turn->beside < 0)
        return held_up > 0;
    return held_up == l->waiters - l->seats && (int64_t)held_up >= turn->beside;
}

/* Returns 1 if one of them can go on after all. */
static int lot_settle(struct circle *c, const struct lot *l)
{
    int held_up = 0, changed = 0;

    for (size_t i = l->first; i < l->end; i++) {
        struct stand *s = &c->stands[i];

        if (s->stuck && !(s->kind == STAND_WAITS ? held_up : turn_is_stuck(c, l))) {
            s->stuck = 0;
            changed = 1;
        }
        if (s->kind == STAND_ROW)
            held_up = is_held_up(c, s);
    }
    return changed;
}

static void actors_settle(struct circle *c)
{
    for (size_t a = 0; a < c->n_actors; a++)
        c->actors[a].stuck = 0;
    for (size_t i = 0; i < c->n; i++)
        c->actors[c->stands[i].actor].stuck |= c->stands[i].stuck;
}

static void actors_number(struct circle *c)
{
    stands_sort(c->stands, c->n);
    c->n_actors = 0;
    for (size_t i = 0; i < c->n; i++) {
        struct stand *s = &c->stands[i];

        if (i == 0 || !(is_same_owner(&s[-1], s) || actor_same(s[-1].owner, s->owner)))
            c->actors[c->n_actors++] = (struct circle_actor){0};
        else if (!is_same_owner(&s[-1], s))
            c->actors[c->n_actors - 1].several = 1;
        s->actor = c->n_actors - 1;
    }
}

static void lots_number(struct circle *c)
{
    qsort(c->stands, c->n, sizeof *c->stands, stand_by_name);
    for (size_t i = 0; i < c->n; i++) {
        struct stand *s = &c->stands[i];

        s->lot = i == 0 ? 0 : s[-1].lot + (stand_name_order(&s[-1], s) != 0);
    }
}

void circle_settle(struct circle *c)
{
    int changed;

    actors_number(c);
    lots_number(c);
    for (size_t i = 0; i < c->n; i++)
        c->stands[i].stuck = c->stands[i].waits;
    do {
        changed = 0;
        actors_settle(c);
        LOTS_EACH(l, c)
        {
            changed |= lot_settle(c, &l);
        }
    } while (changed);
}

/* ---- circles --------------------------------------------------------------------------------- */

/* What s waits for is ahead: the stand itself if it waits, or all waits of its actor. */
static int ahead_mark(struct circle *c, struct stand *s)
{
    int *mark = s->waits ? &s->ahead : &c->actors[s->actor].ahead, changed;

    if (!is_held_up(c, s))
        return 0;
    changed = !*mark;
    *mark = 1;
    return changed;
}

/* One step ahead of all stands of this lot that are, and of stand `from`. */
static int lot_go_ahead(struct circle *c, const struct lot *l, size_t from)
{
    int changed = 0;

    for (size_t i = l->end; i-- > l->first;) {
        struct stand *s = &c->stands[i];
        size_t at = s->kind == STAND_WAITS ? l->first : l->seats;
        size_t end = s->kind == STAND_WAITS ? l->seats : l->waiters;

        for (; s->stuck && (s->ahead || i == from) && at < end; at++)
            if (!is_own(s, &c->stands[at]))
                changed |= ahead_mark(c, &c->stands[at]);
    }
    return changed;
}

static void circle_go_ahead(struct circle *c, size_t from)
{
    int changed;

    for (size_t a = 0; a < c->n_actors; a++)
        c->actors[a].ahead = 0;
    for (size_t i = 0; i < c->n; i++)
        c->stands[i].ahead = 0;
    do {
        changed = 0;
        LOTS_EACH(l, c)
        {
            changed |= lot_go_ahead(c, &l, from);
        }
        for (size_t i = 0; i < c->n; i++)
            if (c->stands[i].stuck && c->actors[c->stands[i].actor].ahead && !c->stands[i].ahead)
                changed = c->stands[i].ahead = 1;
    } while (changed);
}

/* How far it is from this stand, which another one waits for, to the stand in question. */
static uint32_t steps_from(const struct circle *c, const struct stand *s)
{
    return s->waits ? s->behind : c->actors[s->actor].behind;
}

/* Of two ways the shorter one; 0: there is none. */
static uint32_t steps_least(uint32_t a, uint32_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* The shortest way of those that begin at a stand which stand i waits for. *out_by: that stand. */
static uint32_t steps_next(const struct circle *c, const struct lot *l, size_t i, size_t *out_by)
{
    const struct stand *s = &c->stands[i];
    size_t at = s->kind == STAND_WAITS ? l->first : l->seats;
    size_t end = s->kind == STAND_WAITS ? l->seats : l->waiters;
    uint32_t least = 0;

    for (; at < end; at++) {
        const struct stand *by = &c->stands[at];
        uint32_t steps = steps_from(c, by);

        if (is_own(s, by) || !is_held_up(c, by) || steps == 0)
            continue;
        if (least == 0 || steps < least)
            *out_by = at;
        least = steps_least(least, steps);
    }
    return least;
}

/* Those from which it takes so many steps. */
static int circle_go_back(struct circle *c, uint32_t steps)
{
    int found = 0;
    size_t by;

    LOTS_EACH(l, c)
    {
        for (size_t i = l.first; i < l.end; i++) {
            struct stand *s = &c->stands[i];

            if (s->stuck && s->behind == 0 && steps_next(c, &l, i, &by) == steps) {
                s->behind = steps + 1;
                found = 1;
            }
        }
    }
    for (size_t i = 0; i < c->n; i++) {
        struct stand *s = &c->stands[i];
        struct circle_actor *a = &c->actors[s->actor];

        if (s->stuck)
            a->behind = steps_least(a->behind, s->behind);
    }
    return found;
}

static void circle_go_back_from(struct circle *c, size_t to)
{
    for (size_t a = 0; a < c->n_actors; a++)
        c->actors[a].behind = 0;
    for (size_t i = 0; i < c->n; i++)
        c->stands[i].behind = 0;
    c->stands[to].behind = c->actors[c->stands[to].actor].behind = 1;
    for (uint32_t steps = 1; circle_go_back(c, steps); steps++)
        ;
}

static int stand_is_later(const struct stand *a, const struct stand *b)
{
    if (a->since != b->since)
        return a->since > b->since;
    return memcmp(a->owner, b->owner, sizeof a->owner) > 0;
}

/* Not one that has no actor: it is in circles only by the turn that it has, and no one looks for
 * it. Each circle has others. */
size_t circle_victim(struct circle *c, size_t i)
{
    size_t victim = c->n;

    if (!c->stands[i].stuck)
        return c->n;
    circle_go_ahead(c, i);
    if (!c->stands[i].ahead)
        return c->n;
    circle_go_back_from(c, i);
    for (size_t k = 0; k < c->n; k++) {
        const struct stand *s = &c->stands[k];

        if (s->ahead && s->behind != 0 && c->actors[s->actor].several &&
            (victim == c->n || stand_is_later(s, &c->stands[victim])))
            victim = k;
    }
    return victim;
}

size_t circle_next(const struct circle *c, size_t i, size_t *out_by)
{
    size_t next = c->n;

    LOTS_EACH(l, c)
    {
        if (i >= l.first && i < l.end && steps_next(c, &l, i, out_by) == 0)
            return c->n;
    }
    if (c->stands[*out_by].waits)
        return *out_by;
    for (size_t k = 0; k < c->n; k++) {
        const struct stand *s = &c->stands[k];

        if (s->stuck && s->actor == c->stands[*out_by].actor && s->behind != 0 &&
            (next == c->n || s->behind < c->stands[next].behind))
            next = k;
    }
    return next;
}
