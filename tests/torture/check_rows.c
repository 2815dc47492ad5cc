/* The rows that clients wrote: guarded, under a row lock, by compare and set. No update is lost,
 * none comes out of order, and what is in the row was committed by somebody (P11, P12, P13).
 *
 * A write counts up from what it read: so its value is its place in the order of all. One whose
 * commit was not answered may be there or not. Where commits were lost the application's own went
 * with those of the locks: there is nothing to be proved by its rows. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <sqlock/sqlock.h>

#include "tests/torture/check_parts.h"

/* The writes of one kind to the row of one name, in the order of their values; those that may have
 * written and said no value (0) come first. */
struct writes {
    const struct event **all;
    int64_t n;
    int64_t silent; /* may have written, and nobody knows what */
    int64_t last;   /* what the row holds at the end, or the largest that was committed */
    const char *kind;
};

static bool is_write(int verb)
{
    return verb == V_GUARDED || verb == V_ROW_LOCK || verb == V_CAS;
}

/* Only SQLOCK_EUNSURE says that nobody knows: all other refusals have changed nothing. */
static bool may_have_written(const struct event *e)
{
    return !event_returned(e) || e->outcome == 0 || e->outcome == SQLOCK_EUNSURE;
}

static int by_value(const void *a, const void *b)
{
    const struct event *x = *(const struct event *const *)a, *y = *(const struct event *const *)b;

    return order(x->verb, y->verb)
               ?: order(x->name, y->name)
               ?: order(x->value, y->value)
               ?: order(event_ok(y), event_ok(x))
               ?: order(x->invoke_us, y->invoke_us);
}

/* ---- order ----------------------------------------------------------------------------------- */

/* Whether this one has written for certain: it was told so; or its value is there, and nobody else
 * can have written it. */
static bool has_written(const struct writes *w, int64_t i)
{
    const struct event *e = w->all[i];
    bool alone = (i == 0 || w->all[i - 1]->value != e->value) &&
                 (i + 1 == w->n || w->all[i + 1]->value != e->value);

    return event_ok(e) ||
           (event_returned(e) && e->value > 0 && e->value <= w->last && alone && w->silent == 0);
}

static void check_twice(struct book *b, const struct writes *w)
{
    for (int64_t i = 0; i < w->n; i++) {
        const struct event *e = w->all[i];

        if (event_ok(e) && e->value <= 0)
            breach(b, RULE_UPDATE, e, NULL, "it was committed, and wrote nothing");
        else if (i > 0 && event_ok(e) && event_ok(w->all[i - 1]) &&
                 w->all[i - 1]->value == e->value)
            breach(b, RULE_UPDATE, w->all[i - 1], e,
                   "two writes made one value: one of them is lost");
    }
}

/* The row was at the version that was expected. */
static void check_expected(struct book *b, const struct writes *w)
{
    for (int64_t i = 0; i < w->n; i++) {
        const struct event *e = w->all[i];

        if (event_ok(e) && e->value != e->token + 1)
            breach(b, RULE_UPDATE, e, NULL, "another version was written than the one after that");
    }
}

/* Who was answered before another one asked has the smaller value. */
static void check_order(struct book *b, const struct writes *w)
{
    const struct event *first = NULL; /* answered, of those with larger values */

    for (int64_t i = w->n - 1; i >= 0; i--) {
        const struct event *e = w->all[i];

        if (!has_written(w, i))
            continue;
        if (first && first->value > e->value && first->return_us < e->invoke_us)
            breach(b, RULE_UPDATE, first, e,
                   "the larger value was committed before the smaller one was asked for");
        if (event_ok(e) && (!first || e->return_us < first->return_us))
            first = e;
    }
}

/* Tokens never fall from one write to the next; but those of who may hold the name together may. */
static void check_fence(struct book *b, const struct writes *w, const struct check_row *row)
{
    const struct event *top = NULL, *exclusive = NULL, *last = NULL;
    bool slots = kind_of(b, w->all[0]->name).slots > 1;

    for (int64_t i = 0; i < w->n; i++) {
        const struct event *e = w->all[i], *above;
        const struct grant *g = b->grant_of[e - b->events];
        bool shared = g && g->shared;

        if (!has_written(w, i))
            continue;
        last = e;
        above = shared ? exclusive : top;
        if (above && e->token < above->token && !slots)
            breach(b, RULE_FENCE, above, e, "a smaller token after a larger one");
        if (!top || e->token >= top->token)
            top = e;
        if (!shared && (!exclusive || e->token >= exclusive->token))
            exclusive = e;
    }
    if (!last || !row || row->token == CHECK_NOT_READ)
        return;
    if ((exclusive && !slots && row->token < exclusive->token) ||
        (row->guarded == last->value && row->token != last->token))
        breach(b, RULE_FENCE, last, NULL,
               "the row says token %" PRId64 " at the end, after %" PRId64, row->token,
               last->token);
}

/* ---- conflicts ------------------------------------------------------------------------------- */

/* The first of the compare-and-sets of a name that may have written this value or a larger one. */
static int64_t first_writer(const struct event **all, int64_t n, uint32_t name, int64_t value)
{
    int64_t low = 0, high = n;

    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        const struct event *e = all[middle];

        if (e->verb < V_CAS ||
            (e->verb == V_CAS && (e->name < name || (e->name == name && e->value < value))))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Whether somebody may have written this value before e was answered. There may be several: what
 * one has written a killed server may forget, and another writes it again. */
static bool may_be_written(const struct event **all, int64_t n, const struct event *e,
                           int64_t value)
{
    for (int64_t i = first_writer(all, n, e->name, value); i < n; i++) {
        if (all[i]->verb != V_CAS || all[i]->name != e->name || all[i]->value != value)
            return false;
        if (all[i]->invoke_us <= e->return_us)
            return true;
    }
    return false;
}

/* The version that was expected had been read before. So who found another one found the one after
 * it, or a later one: somebody must have written that, or may have. */
static void check_conflicts(struct book *b, const struct event **all, int64_t n)
{
    for (int64_t i = 0; i < b->n; i++) {
        const struct event *e = &b->events[i];

        if (e->verb == V_CAS && event_returned(e) && e->outcome == SQLOCK_CONFLICT &&
            !may_be_written(all, n, e, e->token + 1) && !may_be_written(all, n, e, 0))
            breach(b, RULE_CONFLICT, e, NULL, "nobody had written the version after that");
    }
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* Values that nobody says to have written, and may be those of the silent. */
static int64_t unclaimed(const struct writes *w)
{
    int64_t claimed = 0, last = 0;

    for (int64_t i = 0; i < w->n; i++) {
        const struct event *e = w->all[i];

        if (e->value > last && e->value <= w->last) {
            claimed++;
            last = e->value;
        }
    }
    return w->last - claimed;
}

static const struct event *largest(const struct writes *w)
{
    for (int64_t i = w->n - 1; i >= 0; i--)
        if (event_ok(w->all[i]))
            return w->all[i];
    return NULL;
}

static void check_sum(struct book *b, const struct writes *w, bool read)
{
    const struct event *top = largest(w);
    int64_t missing = unclaimed(w);

    if (read && top && top->value > w->last)
        breach(b, RULE_SUM, top, NULL, "%s %" PRId64 " was committed, and the row holds %" PRId64,
               w->kind, top->value, w->last);
    else if (missing > w->silent)
        breach(b, RULE_SUM, w->n ? w->all[w->n - 1] : NULL, NULL,
               "the %s row holds %" PRId64 ", of which %" PRId64
               " were written by nobody who says so, and %" PRId64 " may have been",
               w->kind, w->last, missing, w->silent);
}

static int64_t final_of(const struct check_row *row, int verb)
{
    if (!row)
        return CHECK_NOT_READ;
    return verb == V_GUARDED ? row->guarded : verb == V_ROW_LOCK ? row->row : row->version;
}

static bool was_committed_by_another(const struct writes *w, int64_t i)
{
    int64_t first = i;

    while (first > 0 && w->all[first - 1]->value == w->all[i]->value)
        first--;
    return event_ok(w->all[first]);
}

/* Commits of which nobody knew, and the rows tell in the end. */
static void count_settled(struct book *b, const struct writes *w, bool read)
{
    for (int64_t i = 0; i < w->n; i++) {
        const struct event *e = w->all[i];

        if (!event_returned(e) || e->outcome != SQLOCK_EUNSURE || e->value == 0)
            continue;
        b->out->unsure++;
        b->out->settled +=
            was_committed_by_another(w, i) || (read && (e->value > w->last || has_written(w, i)));
    }
}

/* all: those of one kind and name, n > 0. */
static void check_writes(struct book *b, const struct event **all, int64_t n)
{
    uint32_t name = all[0]->name;
    const struct check_row *row =
        b->rules->rows && name < b->rules->n_rows ? &b->rules->rows[name] : NULL;
    struct writes w = {.all = all, .n = n, .kind = history_verb_word(all[0]->verb)};
    const struct event *top = largest(&w);
    int64_t final = final_of(row, all[0]->verb);

    for (int64_t i = 0; i < n; i++)
        w.silent += all[i]->value == 0;
    w.last = final != CHECK_NOT_READ ? final : top ? top->value : 0;
    check_twice(b, &w);
    check_order(b, &w);
    if (all[0]->verb == V_CAS)
        check_expected(b, &w);
    if (all[0]->verb == V_GUARDED)
        check_fence(b, &w, row);
    check_sum(b, &w, final != CHECK_NOT_READ);
    count_settled(b, &w, final != CHECK_NOT_READ);
}

/* A row that nobody says to have written, and what no event tells. */
static void check_row(struct book *b, uint32_t name, const struct check_row *row,
                      const bool written[V_COUNT])
{
    for (int verb = 0; verb < V_COUNT; verb++)
        if (is_write(verb) && !written[verb] && final_of(row, verb) > 0)
            breach(b, RULE_SUM, NULL, NULL,
                   "n%" PRIu32 ": the %s row holds %" PRId64 ", and nobody can have written it",
                   name, history_verb_word(verb), final_of(row, verb));
    if (row->version != CHECK_NOT_READ && row->changes != CHECK_NOT_READ &&
        row->version != row->changes)
        breach(b, RULE_SUM, NULL, NULL,
               "n%" PRIu32 ": version %" PRId64 " after %" PRId64 " changes of the row", name,
               row->version, row->changes);
}

static void check_finals(struct book *b, const struct event **all, int64_t n)
{
    uint32_t rows = b->rules->rows ? b->rules->n_rows : 0;
    bool(*written)[V_COUNT] = book_new(b, rows, sizeof *written);

    for (int64_t i = 0; i < n; i++)
        if (all[i]->name < rows)
            written[all[i]->name][all[i]->verb] = true;
    for (uint32_t name = 0; name < rows; name++)
        check_row(b, name, &b->rules->rows[name], written[name]);
}

void check_rows(struct book *b)
{
    const struct event **all = book_new(b, b->n, sizeof *all);
    int64_t n = 0, from = 0;

    if (b->lost.n > 0)
        return;
    for (int64_t i = 0; i < b->n; i++)
        if (is_write(b->events[i].verb) && may_have_written(&b->events[i]))
            all[n++] = &b->events[i];
    qsort(all, (size_t)n, sizeof *all, by_value);
    for (int64_t i = 1; i <= n; i++)
        if (i == n || all[i]->name != all[from]->name || all[i]->verb != all[from]->verb) {
            check_writes(b, all + from, i - from);
            from = i;
        }
    check_conflicts(b, all, n);
    check_finals(b, all, n);
}
