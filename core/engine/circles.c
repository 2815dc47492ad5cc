/* Looks for circles of actors that wait for each other. Exactly one of a circle gives up: all of it
 * see the same stands, and so the same one that came last.
 *
 * No circle is reported that never was. One look is made of several requests, and what it shows may
 * never have been at the same time. So only what two looks have seen counts. A grant has its token
 * only once, and a place its ticket and time. So whatever both looks saw stood there at each moment
 * between them, all of it together. Who stands in such a circle cannot go on by itself: it is still
 * there when its op ends, unless a lease ran out, a lock was broken, or another one gave up. */
#include "core/engine/circles.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/engine/locks.h"
#include "core/engine/op.h"
#include "core/engine/renewals.h"
#include "core/model/circle.h"

#define FIRST_US   INT64_C(1000000)  /* who waits for less is in no circle: most waits end before */
#define PAUSE_MOST INT64_C(8000000)  /* between looks that see none; twice as long each time */
#define AGAIN_US   INT64_C(500000)   /* the second look: who has the turn extends it before that */
#define STOOD_US   INT64_C(20000000) /* the database knows that for a minute */
#define ROWS_MOST  5000
#define SEATS_MOST 500
#define LISTS_MOST 64
#define LOOK_MOST  INT64_C(200000) /* no more lists of seats: renewals need the worker */
#define JUDGE_MOST INT64_C(50000)
#define MINE_MOST  200 /* waiters of a manager that one look judges */

void circles_come(struct place *p)
{
    struct circles *cs = &p->op->m->queue.circles;

    if (!p->op->lock->has_actor)
        return;
    cs->look_at = time_min(cs->n == 0 ? TIME_NEVER : cs->look_at, p->came + FIRST_US);
    cs->pause = FIRST_US;
    cs->n++;
}

void circles_free(struct circles *cs)
{
    sqlock_mem_free(cs->before);
    cs->before = NULL;
    cs->n_before = 0;
}

void circles_go(struct place *p)
{
    struct circles *cs = &p->op->m->queue.circles;

    if (!p->op->lock->has_actor)
        return;
    sqlock_mem_free(p->circle);
    p->circle = NULL;
    if (--cs->n == 0)
        circles_free(cs);
}

int64_t circles_due(const struct circles *cs)
{
    return cs->n == 0 ? TIME_NEVER : cs->look_at;
}

/* ---- reading --------------------------------------------------------------------------------- */

struct look {
    sqlock *m;
    int64_t begun;
    sqlock_rows *rows[1 + LISTS_MOST]; /* the first has the waiters and the locks */
    size_t n_rows;
    struct stand *stands, *kept;
    struct circle_actor *actors, *kept_actors;
    size_t n, room;
};

/* A place with the turn, of which the database does not know that it waits. */
static struct place *look_stander(const sqlock *m, int64_t now)
{
    LIST_EACH(at, &m->queue.places)
    {
        struct place *p = LIST_MEMBER(at, struct place, in_queue);

        if (p->op->lock->has_actor && p->op->acquire.has_turn && p->came + FIRST_US <= now &&
            (p->stood == 0 || p->stood + STOOD_US <= now))
            return p;
    }
    return NULL;
}

/* The place may be gone before the answer comes. */
static void look_let_stand(struct look *l)
{
    sqlock *m = l->m;
    struct place *p;

    while ((p = look_stander(m, l->begun)) != NULL) {
        const sqlock_lock *lock = p->op->lock;
        unsigned char owner[SQLOCK_OWNER_SIZE];
        char name[SQLOCK_NAME_MAX];
        sqlock_value values[] = {value_bytes(m->ns, m->ns_len), value_bytes(name, lock->name_len),
                                 value_bytes(owner, sizeof owner),
                                 value_bytes(LOCK_OWN_NS, sizeof LOCK_OWN_NS - 1)};
        sqlock_rows rows;
        int64_t sent;

        memcpy(owner, lock->owner, sizeof owner);
        memcpy(name, lock->name, lock->name_len);
        p->stood = l->begun;
        rows_init(&rows);
        queue_send(m, POOL_RENEWALS, SQLOCK_STMT_STAND, values, &rows, &sent, NULL);
        rows_end(&rows);
    }
}

/* Returns the rows, which are freed at the look's end; NULL: no answer, or no memory. */
static sqlock_rows *look_send(struct look *l, sqlock_stmt stmt, const sqlock_value *values)
{
    sqlock_rows *rows = rows_new();
    int64_t sent;

    if (rows == NULL)
        return NULL;
    l->rows[l->n_rows++] = rows;
    return queue_send(l->m, POOL_RENEWALS, stmt, values, rows, &sent, NULL) == 0 ? rows : NULL;
}

static int look_make_room(struct look *l, size_t more)
{
    struct stand *stands;

    if (l->n + more <= l->room)
        return 1;
    if ((stands = sqlock_mem_alloc((l->n + more) * sizeof *stands)) == NULL)
        return 0;
    if (l->n > 0)
        memcpy(stands, l->stands, l->n * sizeof *stands);
    sqlock_mem_free(l->stands);
    l->stands = stands;
    l->room = l->n + more;
    return 1;
}

static void look_add(struct look *l, const sqlock_rows *rows, size_t row)
{
    struct stand *s = &l->stands[l->n];
    int64_t left = rows_int(rows, row, SQLOCK_COL_LEFT, INT64_MIN);

    memset(s, 0, sizeof *s);
    s->name = rows_bytes(rows, row, SQLOCK_COL_NAME, &s->name_len);
    s->label = rows_bytes(rows, row, SQLOCK_COL_LABEL, &s->label_len);
    if (s->name == NULL || !answer_read_id(rows, row, SQLOCK_COL_OWNER, s->owner))
        return;
    s->id = rows_int(rows, row, SQLOCK_COL_TOKEN, 0);
    s->since = rows_int(rows, row, SQLOCK_COL_SINCE, 0);
    s->kind = left == INT64_MIN                          ? STAND_WAITS
              : lock_seat_of(s->name, &s->name_len) >= 0 ? STAND_SEAT
                                                         : STAND_ROW;
    s->end = left == INT64_MIN ? 0 : rows_int(rows, row, SQLOCK_COL_NOW, 0) + left;
    s->beside = s->kind == STAND_ROW ? rows_int(rows, row, SQLOCK_COL_BESIDE, 0) : 0;
    s->waits = s->kind == STAND_WAITS || s->beside != 0;
    if (s->kind == STAND_WAITS || left > 0)
        l->n++;
}

static int look_add_all(struct look *l, const sqlock_rows *rows)
{
    size_t n = rows != NULL ? sqlock_rows_count(rows) : 0;

    if (rows == NULL || !look_make_room(l, n))
        return 0;
    for (size_t row = 0; row < n; row++)
        look_add(l, rows, row);
    return 1;
}

/* Who has a seat of that lock. The keys of seats begin with its name and a NUL. What is missing
 * hides circles, and makes none. */
static int look_read_seats(struct look *l, const char *name, size_t len)
{
    char key[SQLOCK_NAME_MAX + 1];
    sqlock_value values[] = {value_bytes(l->m->ns, l->m->ns_len), value_bytes(key, len + 1),
                             value_bytes(key, len + 1), value_int(0), value_int(SEATS_MOST)};

    if (len > SQLOCK_NAME_MAX)
        return 1;
    memcpy(key, name, len);
    key[len] = '\0';
    return look_add_all(l, look_send(l, SQLOCK_STMT_LIST, values));
}

/* Returns 0 without an answer. */
static int look_read(struct look *l)
{
    sqlock *m = l->m;
    sqlock_value values[] = {
        value_bytes(m->ns, m->ns_len), value_bytes(LOCK_OWN_NS, sizeof LOCK_OWN_NS - 1),
        value_bytes(m->queue.client, sizeof m->queue.client), value_int(ROWS_MOST)};
    size_t n;

    if (!look_add_all(l, look_send(l, SQLOCK_STMT_CIRCLE, values)))
        return 0;
    n = l->n;
    for (size_t i = 0; i < n; i++)
        if (l->stands[i].beside != 0 && l->n_rows <= LISTS_MOST &&
            sqlock_now_us() < time_min(l->begun + LOOK_MOST, renewals_due(m)) &&
            !look_read_seats(l, l->stands[i].name, l->stands[i].name_len))
            return 0;
    return 1;
}

static void look_end(struct look *l)
{
    while (l->n_rows > 0)
        rows_free(l->rows[--l->n_rows]);
    sqlock_mem_free(l->stands);
    sqlock_mem_free(l->kept);
    sqlock_mem_free(l->actors);
    sqlock_mem_free(l->kept_actors);
}

/* ---- judging --------------------------------------------------------------------------------- */

#define SHOWN      64
#define SHOWN_MOST 4 /* of a circle; there is no room for more */

/* `"1@host a" waits for "x", held by "2@host b"; "2@host b" waits ...`: stand i is the one that
 * gives up. */
static void circle_text(const struct circle *c, size_t i, char *out, size_t size)
{
    char who[SHOWN], name[SHOWN], by[SHOWN];
    size_t at = i, holds = 0, n = 0;

    snprintf(out, size, "a deadlock: ");
    do {
        const struct stand *s = &c->stands[at], *b;
        size_t next = circle_next(c, at, &holds), used = strlen(out);

        if (next == c->n)
            return;
        b = &c->stands[holds];
        if (n++ < SHOWN_MOST)
            snprintf(out + used, size - used, "%s%s waits for \"%s\" %s %s", n > 1 ? ", " : "",
                     text_show(who, sizeof who, s->label != NULL ? s->label : "?",
                               s->label != NULL ? s->label_len : 1),
                     text_show(name, sizeof name, s->name, s->name_len), b->waits ? "behind" : "of",
                     text_show(by, sizeof by, b->label != NULL ? b->label : "?",
                               b->label != NULL ? b->label_len : 1));
        at = next;
    } while (at != i);
    if (n > SHOWN_MOST)
        snprintf(out + strlen(out), size - strlen(out), " and so on, %zu in all", n);
}

/* The op finds it when it goes on, unless it was offered the lock by then. */
static void place_give_up(struct place *p, const struct circle *c, size_t i)
{
    char text[sizeof((sqlock_error *)NULL)->text];

    circle_text(c, i, text, sizeof text);
    if (p->circle == NULL && (p->circle = sqlock_mem_alloc(sizeof text)) != NULL)
        memcpy(p->circle, text, sizeof text);
    place_look_at(p, 0);
}

/* A waiter of this manager that has an actor, and has waited for long enough. */
static struct place *look_find(const struct look *l, const struct stand *s)
{
    struct place *p =
        s->stuck ? queue_find(l->m, l->m->ns, l->m->ns_len, s->name, s->name_len, s->owner) : NULL;

    return p != NULL && p->op->lock->has_actor && !p->called && p->came + FIRST_US <= l->begun
               ? p
               : NULL;
}

/* Those of this manager, who came last first. */
static size_t look_collect(const struct look *l, const struct circle *c, size_t *mine)
{
    size_t n = 0;

    for (size_t i = 0; i < c->n; i++) {
        const int64_t since = c->stands[i].since;
        size_t at = n;

        if (look_find(l, &c->stands[i]) == NULL)
            continue;
        for (; at > 0 && c->stands[mine[at - 1]].since < since; at--)
            if (at < MINE_MOST)
                mine[at] = mine[at - 1];
        if (at < MINE_MOST)
            mine[at] = i;
        n += n < MINE_MOST;
    }
    return n;
}

/* Is one of this manager in a circle (gives_up: and the one of it that gives up)? Returns its
 * number, or c->n. Whoever came last of a circle gives up, and is looked at first. m->mu is
 * released: each of many takes time. */
static size_t look_judge(struct look *l, struct circle *c, int gives_up)
{
    size_t mine[MINE_MOST], n = look_collect(l, c, mine), found = c->n;
    const int64_t until = sqlock_now_us() + JUDGE_MOST;

    mutex_unlock(&l->m->mu);
    for (size_t k = 0; k < n && found == c->n && (k == 0 || sqlock_now_us() < until); k++) {
        size_t victim = circle_victim(c, mine[k]);

        if (victim != c->n && (!gives_up || victim == mine[k]))
            found = mine[k];
    }
    mutex_lock(&l->m->mu);
    return found;
}

/* Both looks saw it. It may have ended meanwhile. */
static void look_end_circle(struct look *l, struct circle *c)
{
    size_t i = look_judge(l, c, 1);
    struct place *p = i < c->n ? look_find(l, &c->stands[i]) : NULL;

    if (p != NULL)
        place_give_up(p, c, i);
}

static int look_prepare(struct look *l)
{
    size_t n = l->n + 1;

    l->kept = sqlock_mem_alloc(n * sizeof *l->kept);
    l->actors = sqlock_mem_alloc(n * sizeof *l->actors);
    l->kept_actors = sqlock_mem_alloc(n * sizeof *l->kept_actors);
    return l->kept != NULL && l->actors != NULL && l->kept_actors != NULL;
}

/* Returns 1 if there may be a circle, which one more look will show. m->mu is released while it
 * sorts. */
static int look_compare(struct look *l)
{
    sqlock *m = l->m;
    struct circles *cs = &m->queue.circles, before = *cs;
    struct circle all = {.stands = l->stands, .n = l->n, .actors = l->actors};
    struct circle kept = {.stands = l->kept, .n = l->n, .actors = l->kept_actors};
    int found;

    cs->before = NULL;
    mutex_unlock(&m->mu);
    stands_sort(all.stands, all.n);
    if (all.n > 0)
        memcpy(kept.stands, all.stands, all.n * sizeof *all.stands);
    kept.n = stands_keep(kept.stands, all.n, before.before, before.n_before);
    circle_settle(&kept);
    circle_settle(&all);
    mutex_lock(&m->mu);
    look_end_circle(l, &kept);
    found = look_judge(l, &all, 0) < all.n;
    stands_sort(all.stands, all.n);
    circles_free(&before);
    circles_free(cs);
    cs->before = l->stands;
    cs->n_before = l->n;
    l->stands = NULL;
    return found;
}

void circles_run(sqlock *m)
{
    struct circles *cs = &m->queue.circles;
    struct look l = {.m = m, .begun = sqlock_now_us()};

    cs->look_at = l.begun + cs->pause;
    cs->pause = time_min(2 * cs->pause, PAUSE_MOST);
    look_let_stand(&l);
    if (look_read(&l) && look_prepare(&l) && look_compare(&l))
        cs->look_at = time_min(cs->look_at, sqlock_now_us() + AGAIN_US);
    look_end(&l);
}
