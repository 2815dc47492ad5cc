#include "tests/torture/planted.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/check.h"
#include "tests/lib/dice.h"

#define LEASE_US  (SIM_LEASE_MS * INT64_C(1000))
#define USABLE_US (LEASE_US / 10 * 9)

/* ---- the service ----------------------------------------------------------------------------- */

/* An owner is the number of an acquire; 0: free. */
struct holder {
    int64_t owner, token, ends_us;
    bool shared;
};

struct row {
    struct holder holders[SIM_THREADS_MAX];
    int64_t token;
    int64_t released; /* the owner that released it last */
    bool shares;      /* who asks for it may want to share it */
    int64_t slots;
    struct check_row app;
};

struct client {
    struct event now; /* what is under way */
    int64_t at_us;    /* when the service sees it */
    int64_t owner, token, deadline_us;
    bool shares, held, unsure, releasing;
};

struct world {
    struct sim *sim;
    struct dice dice;
    struct row rows[SIM_NAMES_MAX];
    struct client clients[SIM_THREADS_MAX];
    int64_t owners;
    uint32_t processes;
};

static bool one_in(struct world *w, uint64_t n)
{
    return dice_below(&w->dice, n) == 0;
}

/* Its place in the row, maybe past its end, or NULL. */
static struct holder *place_of(struct row *r, int64_t owner)
{
    for (int i = 0; i < SIM_THREADS_MAX; i++)
        if (r->holders[i].owner == owner)
            return &r->holders[i];
    return NULL;
}

static bool holds(struct row *r, const struct client *c)
{
    const struct holder *h = place_of(r, c->owner);

    return h && h->ends_us > c->at_us;
}

static bool together(const struct row *r, const struct client *c, const struct holder *h)
{
    return r->slots > 1 || (c->shares && h->shared);
}

/* Who keeps this one out, or NULL. */
static const struct holder *in_the_way(const struct row *r, const struct client *c)
{
    int64_t others = 0;

    for (int i = 0; i < SIM_THREADS_MAX; i++) {
        const struct holder *h = &r->holders[i];

        if (h->owner == 0 || h->owner == c->owner || h->ends_us <= c->at_us)
            continue;
        if (!together(r, c, h) || (r->slots > 1 && ++others >= r->slots))
            return h;
    }
    return NULL;
}

/* Who has run out goes when somebody comes who cannot be beside; else when the place is needed. */
static struct holder *make_place(struct row *r, const struct client *c)
{
    struct holder *place = place_of(r, c->owner);

    for (int i = 0; i < SIM_THREADS_MAX; i++) {
        struct holder *h = &r->holders[i];

        if (h->owner != c->owner && !together(r, c, h))
            h->owner = 0;
        if (!place && (h->owner == 0 || h->ends_us <= c->at_us))
            place = h;
    }
    return place;
}

static int serve_acquire(struct row *r, struct client *c)
{
    const struct holder *other = in_the_way(r, c);
    struct holder *h;

    if (other) {
        c->now.token = other->token;
        c->now.deadline_us = other->ends_us - c->at_us; /* from when it is answered */
        return SQLOCK_EBUSY;
    }
    h = make_place(r, c);
    if (!holds(r, c))
        h->token = ++r->token;
    *h = (struct holder){c->owner, h->token, c->at_us + LEASE_US, c->shares};
    c->now.token = h->token;
    c->now.deadline_us = c->now.invoke_us + USABLE_US;
    return 0;
}

static int serve_renew(struct row *r, struct client *c)
{
    if (!holds(r, c))
        return SQLOCK_ELOST;
    place_of(r, c->owner)->ends_us = c->at_us + LEASE_US;
    c->now.deadline_us = c->now.invoke_us + USABLE_US;
    return 0;
}

static int serve_release(struct row *r, struct client *c)
{
    struct holder *h = place_of(r, c->owner);

    if (!h && r->released != c->owner)
        return c->now.token ? SQLOCK_ELOST : 0;
    if (h)
        h->owner = 0;
    r->released = c->owner;
    return 0;
}

static int serve_break(struct row *r, struct client *c)
{
    for (int i = 0; i < SIM_THREADS_MAX; i++)
        if (r->holders[i].owner != 0 && r->holders[i].token == c->now.token) {
            r->holders[i].owner = 0;
            return 0;
        }
    return SQLOCK_ELOST;
}

static int serve_guarded(struct row *r, struct client *c)
{
    if (!holds(r, c))
        return SQLOCK_ELOST;
    c->now.value = ++r->app.guarded;
    c->now.deadline_us = c->at_us;
    r->app.token = c->now.token;
    return 0;
}

static int serve_row_lock(struct row *r, struct client *c)
{
    c->now.value = ++r->app.row;
    return 0;
}

static int serve_cas(struct row *r, struct client *c)
{
    if (r->app.version != c->now.token)
        return SQLOCK_CONFLICT;
    c->now.value = ++r->app.version;
    r->app.changes++;
    return 0;
}

/* Settling an acquire does not ask for a new one here: it only looks. */
static int serve_settle(struct row *r, struct client *c)
{
    int rc;

    if (!c->releasing && holds(r, c))
        return serve_acquire(r, c);
    rc = c->releasing ? serve_release(r, c) : SQLOCK_ELOST;
    c->now.value = !c->releasing ? SQLOCK_WHY_NOT_GRANTED
                   : rc == 0     ? SQLOCK_WHY_RELEASED
                                 : SQLOCK_WHY_EXPIRED;
    return rc;
}

static int (*const services[V_COUNT])(struct row *, struct client *) = {
    [V_ACQUIRE] = serve_acquire, [V_SHARE] = serve_acquire,     [V_RENEW] = serve_renew,
    [V_RELEASE] = serve_release, [V_SETTLE] = serve_settle,     [V_BREAK] = serve_break,
    [V_GUARDED] = serve_guarded, [V_ROW_LOCK] = serve_row_lock, [V_CAS] = serve_cas};

/* ---- the clients ----------------------------------------------------------------------------- */

static void note(struct world *w, const struct event *e)
{
    w->sim->events[w->sim->n++] = *e;
}

static void ask(struct world *w, struct client *c, int verb, int64_t from_us)
{
    struct event *e = &c->now;

    e->op++;
    e->verb = verb;
    e->outcome = 0;
    e->value = e->deadline_us = 0;
    e->token = verb == V_CAS ? w->rows[e->name].app.version : c->token;
    e->invoke_us = from_us + dice_between(&w->dice, 1, 300);
    e->return_us = HISTORY_NOT_RETURNED;
    c->at_us = verb == V_HELD ? e->invoke_us : e->invoke_us + dice_between(&w->dice, 50, 1500);
}

/* Whoever believes to hold it asks this next. */
static void use(struct world *w, struct client *c, int64_t from_us)
{
    static const int verbs[] = {V_HELD,    V_HELD,    V_RENEW,  V_GUARDED,
                                V_GUARDED, V_RELEASE, V_RELEASE};

    if (one_in(w, 200)) {
        ask(w, c, V_GUARDED, from_us + LEASE_US); /* was stopped, and does not look */
    } else if (one_in(w, 100)) {
        c->held = false; /* without a release */
        ask(w, c, V_REAP, from_us);
    } else {
        ask(w, c, verbs[dice_below(&w->dice, sizeof verbs / sizeof verbs[0])], from_us);
        c->releasing = c->now.verb == V_RELEASE;
    }
}

static void idle(struct world *w, struct client *c, int64_t from_us)
{
    static const int verbs[] = {V_ROW_LOCK, V_CAS};

    c->token = 0;
    c->held = c->unsure = c->releasing = false;
    c->now.name = (uint32_t)dice_below(&w->dice, w->sim->names);
    if (one_in(w, 6)) {
        ask(w, c, verbs[dice_below(&w->dice, 2)], from_us);
        return;
    }
    c->owner = ++w->owners;
    c->shares = w->rows[c->now.name].shares && !one_in(w, 3);
    ask(w, c, c->shares ? V_SHARE : V_ACQUIRE, from_us);
}

/* Or give it back. */
static void settle(struct world *w, struct client *c, int64_t from_us)
{
    ask(w, c, one_in(w, 2) ? V_SETTLE : V_RELEASE, from_us);
    c->releasing = c->releasing || c->now.verb == V_RELEASE;
}

static void next(struct world *w, struct client *c)
{
    const struct event done = c->now;

    if (c->unsure)
        settle(w, c, done.return_us);
    else if (c->held)
        use(w, c, done.return_us);
    else if (done.outcome == SQLOCK_EBUSY && one_in(w, 40)) {
        c->token = done.token;
        ask(w, c, V_BREAK, done.return_us);
        c->token = 0;
    } else
        idle(w, c, done.return_us);
}

/* What the client makes of the answer, and what it tells its application. */
static void believe(struct client *c)
{
    struct event *e = &c->now;

    if (e->outcome == SQLOCK_EBUSY)
        e->deadline_us += e->return_us;
    if (e->verb == V_HELD) {
        e->outcome = e->invoke_us < c->deadline_us && c->held ? 0 : SQLOCK_ELOST;
        e->deadline_us = e->outcome == 0 ? c->deadline_us : 0;
        e->value = e->outcome == 0 ? 0 : SQLOCK_WHY_EXPIRED;
    }
    if (e->verb == V_RENEW && e->return_us >= c->deadline_us) {
        e->outcome = SQLOCK_ELOST;
        e->deadline_us = 0;
    }
    if (e->verb == V_RELEASE && e->outcome == 0 && e->token != 0 && e->return_us >= c->deadline_us)
        e->outcome = SQLOCK_ELOST;
    if (e->outcome == 0 && e->deadline_us > 0 && e->verb != V_GUARDED) {
        c->deadline_us = e->deadline_us;
        c->token = e->token;
        c->held = true;
    }
    if (e->outcome == SQLOCK_ELOST || (e->outcome == 0 && e->verb == V_RELEASE) ||
        (e->verb == V_SETTLE && c->releasing))
        c->held = false;
    c->unsure = false;
}

static bool may_lose_reply(const struct event *e)
{
    return services[e->verb] != NULL && e->verb != V_SETTLE;
}

/* The request came or it did not, and its client knows neither. */
static void lose_reply(struct world *w, struct client *c, bool came)
{
    struct event *e = &c->now;
    struct check_row *app = &w->rows[e->name].app;

    if (!came && e->verb == V_GUARDED)
        e->value = app->guarded + 1;
    if (event_acquires(e))
        e->token = 0;
    c->unsure = event_acquires(e) || e->verb == V_RELEASE;
    e->outcome = SQLOCK_EUNSURE;
    e->deadline_us = 0;
}

/* Killed, and another one started in its place. */
static void die(struct world *w, struct client *c)
{
    int64_t at_us = c->at_us;
    const struct event fault = {.process = 1000000,
                                .verb = V_FAULT,
                                .name = 1,
                                .invoke_us = at_us,
                                .return_us = at_us + 500};

    c->now.outcome = 0;
    c->now.value = c->now.deadline_us = 0;
    if (event_acquires(&c->now) || c->now.verb == V_SETTLE)
        c->now.token = c->token;
    note(w, &c->now);
    note(w, &fault);
    c->now.process = ++w->processes;
    c->now.op = 0;
    idle(w, c, at_us + 1000);
}

static void step(struct world *w, struct client *c)
{
    bool lost = may_lose_reply(&c->now) && one_in(w, 50), came = !lost || one_in(w, 2);

    if (came && services[c->now.verb])
        c->now.outcome = services[c->now.verb](&w->rows[c->now.name], c);
    if (one_in(w, 3000) && !w->sim->immortal) {
        die(w, c);
        return;
    }
    c->now.return_us = c->at_us + dice_between(&w->dice, 1, 1500);
    if (one_in(w, 500))
        c->now.return_us += 2 * LEASE_US; /* stopped before it noted the answer */
    if (lost && c->now.outcome == 0)
        lose_reply(w, c, came);
    else
        believe(c);
    note(w, &c->now);
    next(w, c);
}

/* ---- a history ------------------------------------------------------------------------------- */

static struct client *first_due(struct world *w)
{
    struct client *first = &w->clients[0];

    for (uint32_t i = 1; i < w->sim->threads; i++)
        if (w->clients[i].at_us < first->at_us)
            first = &w->clients[i];
    return first;
}

/* By chance: one holder, who shares, or some slots. */
static void set_kinds(struct world *w)
{
    static const int64_t slots[] = {1, 1, 2, 3};

    for (uint32_t i = 0; w->sim->together && i < w->sim->names; i++) {
        uint64_t kind = dice_below(&w->dice, sizeof slots / sizeof *slots);
        struct event e = {
            .process = 1000001, .name = i, .op = i, .verb = V_SLOTS, .value = slots[kind]};

        w->rows[i].shares = kind == 1;
        w->rows[i].slots = slots[kind];
        note(w, &e);
    }
}

void sim_run(struct sim *s)
{
    struct world *w = calloc(1, sizeof *w);

    s->events = calloc((size_t)s->events_wanted + SIM_NAMES_MAX + 2, sizeof *s->events);
    assert_non_null(w);
    assert_non_null(s->events);
    s->n = 0;
    w->sim = s;
    w->dice = dice_of(s->seed);
    set_kinds(w);
    for (uint32_t i = 0; i < s->threads; i++) {
        w->clients[i].now.process = ++w->processes;
        w->clients[i].now.thread = i;
        idle(w, &w->clients[i], 1000000);
    }
    while (s->n < s->events_wanted)
        step(w, first_due(w));
    for (uint32_t i = 0; i < s->names; i++)
        s->rows[i] = w->rows[i].app;
    s->rules = (struct check_rules){.folder = "sim",
                                    .engine = "sim",
                                    .fault = "kill",
                                    .seed = s->seed,
                                    .lease_ms = SIM_LEASE_MS,
                                    .slack_ms = 2000,
                                    .rows = s->rows,
                                    .n_rows = s->names};
    history_sort(s->events, s->n);
    free(w);
}
