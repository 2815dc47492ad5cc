/* The book of a history: who was granted what, until when, and when which faults were. */
#include <stdlib.h>

#include <sqlock/sqlock.h>

#include "tests/torture/check_parts.h"

#define RELEASE_DONE SQLOCK_WHY_RELEASED /* value of a settle that is about a release */

bool event_settles(const struct event *e)
{
    return event_returned(e) && (e->verb == V_SETTLE || e->verb == V_RELEASE) &&
           (e->outcome == 0 || e->outcome == SQLOCK_ELOST || e->outcome == SQLOCK_EBUSY ||
            e->outcome == SQLOCK_EGUARDED);
}

/* ---- what processes say of themselves -------------------------------------------------------- */

static void note_processes(struct book *b)
{
    for (int64_t i = 0; i < b->n; i++)
        if ((b->events[i].verb == V_LEASE || b->events[i].verb == V_SIDE) &&
            b->events[i].process >= b->n_processes)
            b->n_processes = (int64_t)b->events[i].process + 1;
    b->processes = book_new(b, b->n_processes, sizeof *b->processes);
    for (int64_t i = 0; i < b->n; i++) {
        const struct event *e = &b->events[i];

        if (e->verb == V_LEASE)
            b->processes[e->process].lease_ms = (int32_t)e->value;
        if (e->verb == V_SIDE)
            b->processes[e->process].side = (int32_t)e->value;
    }
}

static int64_t lease_us(const struct book *b, uint32_t process)
{
    int32_t said_ms = process < b->n_processes ? b->processes[process].lease_ms : 0;

    return (said_ms ? said_ms : b->rules->lease_ms) * INT64_C(1000);
}

int32_t side_of(const struct book *b, uint32_t process)
{
    return process < b->n_processes ? b->processes[process].side : 0;
}

int64_t lease_usable_us(const struct book *b, uint32_t process)
{
    int64_t us = lease_us(b, process);

    return us - us / 10;
}

/* ---- faults ---------------------------------------------------------------------------------- */

/* What a fault does, by the value of its event. */
#define STEPS_CLOCK   (1u << 2)
#define HURTS_SERVER  (~1u)
#define LOSES_COMMITS (1u << 3 | 1u << 4)
#define GRANTS_AGAIN  (1u << 3)

static void collect_faults(struct book *b, struct faults *f, unsigned values)
{
    int64_t healed_us = INT64_MIN;

    f->times = book_new(b, b->n, sizeof *f->times);
    for (int64_t i = 0; i < b->n; i++) {
        const struct event *e = &b->events[i];

        if (e->verb != V_FAULT || !(values >> (e->value >= 0 && e->value < 5 ? e->value : 1) & 1))
            continue;
        if (!event_returned(e) || e->return_us > healed_us)
            healed_us = event_returned(e) ? e->return_us : NEVER;
        f->times[f->n++] = (struct fault_time){e->invoke_us, healed_us};
    }
}

int64_t faults_healed(const struct faults *f, int64_t until_us)
{
    int64_t low = 0, high = f->n;

    while (low < high) {
        int64_t middle = low + (high - low) / 2;

        if (f->times[middle].begin_us <= until_us)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? f->times[low - 1].healed_us : INT64_MIN;
}

bool fault_between(const struct faults *f, int64_t from_us, int64_t to_us)
{
    return faults_healed(f, to_us) >= from_us;
}

bool forgotten_between(const struct book *b, const struct event *told, int64_t sent_us)
{
    return fault_between(&b->lost, told->invoke_us, sent_us);
}

/* ---- grants ---------------------------------------------------------------------------------- */

static int by_thread(const void *a, const void *b)
{
    const struct event *x = *(const struct event *const *)a, *y = *(const struct event *const *)b;

    return order(x->process, y->process)
               ?: order(x->thread, y->thread)
               ?: order(x->invoke_us, y->invoke_us)
               ?: order(x->op, y->op);
}

static int by_token(const void *a, const void *b)
{
    const struct grant *x = a, *y = b;

    return order(x->name, y->name) ?: order(x->token, y->token) ?: order(x->start_us, y->start_us);
}

static void add_grant(struct book *b, const struct event *told, const struct event *asked)
{
    bool by_command = event_acquires(told) && told->value == 3;

    b->grants[b->n_grants++] =
        (struct grant){.told = told,
                       .name = told->name,
                       .side = side_of(b, told->process),
                       .shared = asked->verb == V_SHARE,
                       .token = told->token,
                       .sent_us = asked->invoke_us,
                       .start_us = told->return_us,
                       .deadline_us = by_command ? told->return_us : told->deadline_us,
                       .released_us = NEVER,
                       .over_us = NEVER};
}

/* A settle, or a release of what has no token yet, tells what became of the acquire that the thread
 * asked for last, if its answer was lost. Then *unsure is NULL. A settle of anything else is one of
 * a grant that is known. */
static void note_settled(struct book *b, const struct event *e, const struct event **unsure)
{
    bool of_release = e->verb == V_RELEASE || e->value == RELEASE_DONE;

    if (!event_settles(e) || (of_release && e->token != 0) || !*unsure ||
        (*unsure)->name != e->name)
        return;
    if (!of_release && e->outcome == 0)
        add_grant(b, e, *unsure);
    *unsure = NULL;
}

static void collect_grants(struct book *b)
{
    const struct event *unsure = NULL;

    for (int64_t i = 0; i < b->n; i++) {
        const struct event *e = b->by_thread[i], *last = i > 0 ? b->by_thread[i - 1] : e;

        if (e->process != last->process || e->thread != last->thread)
            unsure = NULL;
        if (event_acquires(e)) {
            if (event_ok(e))
                add_grant(b, e, e);
            unsure = event_returned(e) && e->outcome == SQLOCK_EUNSURE ? e : NULL;
        }
        if (e->verb == V_SETTLE || e->verb == V_RELEASE)
            note_settled(b, e, &unsure);
    }
    qsort(b->grants, (size_t)b->n_grants, sizeof *b->grants, by_token);
}

int64_t book_at(const struct book *b, uint32_t name, int64_t token)
{
    int64_t low = 0, high = b->n_grants;

    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        const struct grant *g = &b->grants[middle];

        if (g->name < name || (g->name == name && g->token < token))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Of two grants with the same token, which is a breach, the one of the thread that asks. */
static struct grant *find_grant(const struct book *b, const struct event *e)
{
    struct grant *found = NULL;

    for (int64_t i = book_at(b, e->name, e->token); i < b->n_grants; i++) {
        struct grant *g = &b->grants[i];

        if (g->name != e->name || g->token != e->token)
            break;
        if (!found || (g->told->process == e->process && g->told->thread == e->thread))
            found = g;
    }
    return found;
}

/* ---- how they went on ------------------------------------------------------------------------ */

static void note_over(struct grant *g, const struct event *e)
{
    if (e->return_us < g->over_us) {
        g->over_us = e->return_us;
        g->over = e;
    }
}

static void note_ending(struct grant *g, const struct event *e)
{
    bool release = e->verb == V_RELEASE || (e->verb == V_SETTLE && e->value == RELEASE_DONE);

    if (e->verb == V_RELEASE && !g->release)
        g->release = e;
    if (release && event_ok(e) && e->return_us < g->released_us)
        g->released_us = e->return_us;
    /* One that says no has changed nothing. */
    if (e->verb == V_BREAK && !g->broken && (!event_returned(e) || e->outcome != SQLOCK_ELOST))
        g->broken = e;
    if ((release || e->verb == V_BREAK) && event_ok(e))
        note_over(g, e);
}

static bool confirms(const struct event *e)
{
    return event_ok(e) && (e->verb == V_RENEW || e->verb == V_HELD ||
                           (e->verb == V_SETTLE && e->value != RELEASE_DONE));
}

/* Whoever was stopped knows nothing of the time that passed: neither the work under a grant nor
 * what would end it. So who has not beaten for a quarter of a lease is not believed any more. */
static void note_beat(const struct book *b, struct grant *g, const struct event *e)
{
    int64_t lease = lease_us(b, e->process), most_us = lease > 0 ? lease / 4 : 250000;

    if (e->invoke_us > g->deadline_us && e->invoke_us - g->deadline_us <= most_us)
        g->deadline_us = e->invoke_us;
}

static const struct event *earlier(const struct event *a, const struct event *b)
{
    return !a || (b && b->return_us < a->return_us) ? b : a;
}

/* Who was refused was told of a grant, which may be one that nobody else tells of: its holder was
 * killed before it knew. That one is a larger token for those below it. Whether it is exclusive is
 * known only if somebody tells of it: who waits alone may keep out those who would share. */
static void note_refused(struct book *b, const struct event *e)
{
    const struct grant *named = b->grant_of[e - b->events];
    int64_t i = book_at(b, e->name, e->token) - 1;
    struct grant *g = i >= 0 ? &b->grants[i] : NULL;

    if (!g || g->name != e->name || g->side != side_of(b, e->process))
        return;
    g->next = earlier(g->next, e);
    if (named && !named->shared && named->sent_us <= e->return_us)
        g->rival = earlier(g->rival, e);
}

static void follow_grants(struct book *b)
{
    for (int64_t i = 0; i < b->n; i++) {
        const struct event *e = &b->events[i];
        struct grant *g = e->token != 0 && e->verb != V_CAS ? find_grant(b, e) : NULL;

        b->grant_of[i] = g;
        if (event_refused(e) && e->token != 0)
            note_refused(b, e);
        if (!g)
            continue;
        note_ending(g, e);
        if (confirms(e) && e->deadline_us > g->deadline_us)
            g->deadline_us = e->deadline_us;
        if (e->verb == V_BEAT)
            note_beat(b, g, e);
    }
}

/* Who was the first to be told of a larger token; and of one that ends this grant, or of a larger
 * one than that. A server that lives on beside the one that was promoted grants beside it: there
 * the larger tokens of the other end nothing. */
static void follow_tokens(struct book *b)
{
    const struct event *next = NULL, *exclusive = NULL;

    for (int64_t i = b->n_grants - 1; i >= 0; i--) {
        struct grant *g = &b->grants[i];

        if (i + 1 == b->n_grants || g[1].name != g->name || g[1].side != g->side) {
            next = exclusive = NULL;
        } else if (g[1].token > g->token) {
            next = earlier(next, g[1].told);
            if (!g[1].shared)
                exclusive = next;
        }
        next = g->next = earlier(next, g->next);
        exclusive = earlier(exclusive, g->rival);
        g->rival = g->shared ? exclusive : next;
        if (kind_of(b, g->name).slots > 1)
            g->rival = NULL;
    }
}

static void end_grants(struct book *b)
{
    for (int64_t i = 0; i < b->n_grants; i++) {
        struct grant *g = &b->grants[i];

        if (g->rival)
            note_over(g, g->rival);
        g->end_us = g->deadline_us;
        if (g->release && g->release->invoke_us < g->end_us)
            g->end_us = g->release->invoke_us;
        if (g->broken && g->broken->invoke_us < g->end_us)
            g->end_us = g->broken->invoke_us;
    }
}

void book_make(struct book *b)
{
    b->by_thread = book_new(b, b->n, sizeof *b->by_thread);
    b->grants = book_new(b, b->n, sizeof *b->grants);
    b->grant_of = book_new(b, b->n, sizeof *b->grant_of);
    kinds_make(b);
    note_processes(b);
    collect_faults(b, &b->all, ~0u);
    collect_faults(b, &b->clock, STEPS_CLOCK);
    collect_faults(b, &b->hurt, HURTS_SERVER);
    collect_faults(b, &b->lost, LOSES_COMMITS);
    collect_faults(b, &b->regranted, GRANTS_AGAIN);
    for (int64_t i = 0; i < b->n; i++)
        b->by_thread[i] = &b->events[i];
    qsort(b->by_thread, (size_t)b->n, sizeof *b->by_thread, by_thread);
    collect_grants(b);
    follow_grants(b);
    follow_tokens(b);
    end_grants(b);
}

void *book_new(struct book *b, int64_t n, size_t size)
{
    void *made = calloc((size_t)n + 1, size);

    if (!made) {
        perror("the checker");
        exit(2);
    }
    return b->made[b->n_made++] = made;
}

void book_free(struct book *b)
{
    while (b->n_made > 0)
        free(b->made[--b->n_made]);
}
