/* sqlock waits: who waits for whom, as a table, as JSON, or as a graph for dot(1). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlock/admin.h>

#include "cli/base/connect.h"
#include "cli/base/info.h"
#include "cli/base/output.h"
#include "cli/base/say.h"
#include "cli/base/shown.h"
#include "cli/base/text.h"
#include "cli/cli.h"

enum { DOT = OPTION_LONG };

static const struct option_spec options[] = {
    {DOT, "dot", NULL, "print a graph, for dot(1)"},
    {0, NULL, NULL, NULL},
};

/* One that waits for a lock. Those whom it waits for are those of the lock, which others share. */
struct wait {
    char *name;
    sqlock_waiter waiter; /* its name is the one above */
    struct holders *of;
};

struct holder {
    char *label;
    unsigned char owner[SQLOCK_OWNER_SIZE];
    bool is_next; /* it holds nothing: others wait until it has had its turn */
};

struct holders {
    const char *name;
    struct holder *list;
    size_t n;
    struct holders *next;
};

struct waits {
    struct wait *list; /* in the order of names and places */
    size_t n;
    struct holders *holders;
    bool failed; /* out of memory */
};

/* ---- reading --------------------------------------------------------------------------------- */

static int waits_add(const sqlock_waiter *waiter, void *user)
{
    struct waits *w = user;
    struct wait *list = realloc(w->list, (w->n + 1) * sizeof *list);
    char *name = strndup(waiter->name, waiter->name_len);

    w->list = list != NULL ? list : w->list;
    if (list == NULL || name == NULL) {
        free(name);
        w->failed = true;
        return 1;
    }
    list[w->n++] = (struct wait){.name = name, .waiter = *waiter};
    return 0;
}

/* Returns 0, or -1 without memory. */
static int holders_append(struct holders *h, const unsigned char *owner, const char *label,
                          bool is_next)
{
    struct holder *list = realloc(h->list, (h->n + 1) * sizeof *list);

    if (list == NULL)
        return -1;
    h->list = list;
    list[h->n] = (struct holder){.label = strdup(label), .is_next = is_next};
    if (list[h->n].label == NULL)
        return -1;
    memcpy(list[h->n++].owner, owner, SQLOCK_OWNER_SIZE);
    return 0;
}

/* The lock's own row, and those of its shared holders or slots, which stand behind it. */
static int holders_add(const sqlock_info *info, void *user)
{
    struct holders *h = user;

    if (strcmp(info->name, h->name) != 0)
        return 1;
    if (!info->held || info->holder.left_ms <= 0)
        return 0;
    return holders_append(h, info->owner, info->holder.label, false);
}

/* Of the lock of its first waiter. Returns 0, or the exit code after saying why. */
static int holders_read(sqlock *m, struct waits *w, const sqlock_waiter *first,
                        struct holders **out)
{
    struct holders *h = calloc(1, sizeof *h);
    sqlock_list_opts opts = SQLOCK_LIST_OPTS_INIT;
    sqlock_error err = {0};
    int rc;

    if ((*out = h) == NULL)
        return fail_with(SQLOCK_ENOMEM, &err);
    h->name = first->name;
    h->next = w->holders;
    w->holders = h;
    opts.prefix = first->name;
    rc = sqlock_list(m, &opts, holders_add, h, &err);
    if (rc < 0 && err.code == rc)
        return fail_with(rc, &err);
    if (rc != -1 && first->place == 0)
        rc = holders_append(h, first->owner, first->label, true);
    return rc == -1 ? fail_with(SQLOCK_ENOMEM, &err) : 0;
}

static int waits_read(sqlock *m, struct waits *w)
{
    sqlock_error err = {0};
    int rc = sqlock_list_waiters(m, NULL, waits_add, w, &err);

    if (rc < 0)
        return fail_with(rc, &err);
    if (w->failed)
        return fail_with(SQLOCK_ENOMEM, &err);
    for (size_t i = 0; i < w->n; i++) {
        struct wait *wait = &w->list[i];

        wait->waiter.name = wait->name;
        if (i > 0 && strcmp(wait[-1].name, wait->name) == 0)
            wait->of = wait[-1].of;
        else if ((rc = holders_read(m, w, &wait->waiter, &wait->of)) != 0)
            return rc;
    }
    return 0;
}

static void waits_free(struct waits *w)
{
    for (size_t i = 0; i < w->n; i++)
        free(w->list[i].name);
    free(w->list);
    while (w->holders != NULL) {
        struct holders *next = w->holders->next;

        for (size_t i = 0; i < w->holders->n; i++)
            free(w->holders->list[i].label);
        free(w->holders->list);
        free(w->holders);
        w->holders = next;
    }
}

/* ---- circles --------------------------------------------------------------------------------- */

/* It holds a lock, and waits for another one. */
static bool is_of(const struct holder *h, const struct wait *wait)
{
    return sqlock_same_actor(h->owner, wait->waiter.owner) ||
           strcmp(h->label, wait->waiter.label) == 0;
}

/* Who is next waits for the holders only. */
static bool waits_for(const struct wait *wait, const struct holder *holder)
{
    return !holder->is_next || wait->waiter.place > 0;
}

/* From the last waiter of the way, on through holders that wait themselves, and back to the first
 * one. It knows actors, and programs by their labels. A program with several threads may wait in
 * one, and go on in another, so such a circle is a hint and no proof. A program that waits for
 * itself is none: its threads do that all the time. An actor that does is one. It is found from its
 * first waiter in the list. Returns its length, or 0. */
static size_t circle_find(const struct waits *w, size_t *way, size_t n, bool *seen)
{
    const struct wait *last = &w->list[way[n - 1]], *first = &w->list[way[0]];

    for (size_t h = 0; h < last->of->n; h++) {
        const struct holder *holder = &last->of->list[h];

        if (!waits_for(last, holder))
            continue;
        if (sqlock_same_actor(holder->owner, first->waiter.owner))
            return n;
        if (is_of(holder, last))
            continue;
        if (is_of(holder, first))
            return n;
        for (size_t i = way[0] + 1; i < w->n; i++) {
            size_t found;

            if (seen[i] || !is_of(holder, &w->list[i]))
                continue;
            seen[i] = true;
            way[n] = i;
            if ((found = circle_find(w, way, n + 1, seen)) != 0)
                return found;
        }
    }
    return 0;
}

/* Another thread of a program that waits for the same lock. */
static bool is_again(const struct waits *w, size_t i)
{
    for (size_t k = i; k-- > 0 && w->list[k].of == w->list[i].of;)
        if (strcmp(w->list[k].waiter.label, w->list[i].waiter.label) == 0)
            return true;
    return false;
}

typedef void circle_fn(const struct waits *w, const size_t *way, size_t n, void *user);

static void circles_each(const struct waits *w, circle_fn *each, void *user)
{
    size_t *way = calloc(w->n + 1, sizeof *way), n;
    bool *seen = calloc(w->n + 1, sizeof *seen);

    for (size_t i = 0; way != NULL && seen != NULL && i < w->n; i++) {
        if (is_again(w, i))
            continue;
        memset(seen, 0, w->n);
        way[0] = i;
        if ((n = circle_find(w, way, 1, seen)) != 0)
            each(w, way, n, user);
    }
    free(way);
    free(seen);
}

/* ---- printing -------------------------------------------------------------------------------- */

static char *shown_label(const char *label)
{
    return shown_text(*label != '\0' ? label : "someone", *label != '\0' ? strlen(label) : 7);
}

/* Over whom the way goes on from one waiter to the next: an actor may hold in one process, and wait
 * in another. */
static const struct holder *circle_holder(const struct waits *w, const size_t *way, size_t n,
                                          size_t i)
{
    const struct wait *wait = &w->list[way[i]], *next = &w->list[way[(i + 1) % n]];
    size_t h = 0;

    while (h + 1 < wait->of->n &&
           !(waits_for(wait, &wait->of->list[h]) && is_of(&wait->of->list[h], next)))
        h++;
    return &wait->of->list[h];
}

static void print_circle(const struct waits *w, const size_t *way, size_t n, void *user)
{
    (void)user;
    printf("circle:");
    for (size_t i = 0; i < n; i++) {
        const struct wait *wait = &w->list[way[i]];
        const struct holder *of = circle_holder(w, way, n, i);
        char *label = shown_label(wait->waiter.label),
             *name = shown_text(wait->name, strlen(wait->name)), *holder = shown_label(of->label);

        if (label != NULL && name != NULL && holder != NULL)
            printf("%s %s waits for %s, %s %s", i > 0 ? ";" : "", label, name,
                   of->is_next ? "behind" : "held by", holder);
        free(label);
        free(name);
        free(holder);
    }
    putchar('\n');
}

static void print_wait(const struct wait *wait)
{
    char waited[TEXT_DURATION], *label = shown_label(wait->waiter.label);
    char *name = shown_cell(wait->name, strlen(wait->name), 24);

    if (name != NULL && label != NULL)
        printf("%s %5lld  %8s  %-24s ", name, (long long)wait->waiter.place,
               text_span(waited, wait->waiter.waited_ms), label);
    free(name);
    free(label);
    for (size_t i = 0; i < wait->of->n; i++) {
        const struct holder *of = &wait->of->list[i];
        char *holder = shown_label(of->label);

        if (waits_for(wait, of))
            printf("%s%s%s", i > 0 ? ", " : "", holder != NULL ? holder : "?",
                   of->is_next ? " (next)" : "");
        free(holder);
    }
    putchar('\n');
}

static int waits_words(const struct waits *w)
{
    printf("%-24s %5s  %8s  %-24s %s\n", "NAME", "PLACE", "WAITED", "WAITER", "WAITS FOR");
    for (size_t i = 0; i < w->n; i++)
        print_wait(&w->list[i]);
    circles_each(w, print_circle, NULL);
    return output_end();
}

static void add_circle(const struct waits *w, const size_t *way, size_t n, void *user)
{
    json_t *circle = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(
            circle, json_text(w->list[way[i]].waiter.label, strlen(w->list[way[i]].waiter.label)));
    json_array_append_new(user, circle);
}

static int waits_json(const struct waits *w)
{
    json_t *waits = json_array(), *found = json_array();

    for (size_t i = 0; i < w->n; i++) {
        json_t *row = waiter_json(&w->list[i].waiter), *holders = json_array();

        for (size_t h = 0; h < w->list[i].of->n; h++) {
            const struct holder *of = &w->list[i].of->list[h];

            if (waits_for(&w->list[i], of))
                json_array_append_new(holders, json_text(of->label, strlen(of->label)));
        }
        json_object_set_new(row, "waits_for", holders);
        json_array_append_new(waits, row);
    }
    circles_each(w, add_circle, found);
    return output_json(json_pack("{s:o, s:o}", "waits", waits, "circles", found));
}

/* As a string of dot's. */
static void print_quoted(const char *text)
{
    char *shown = shown_label(text);

    putchar('"');
    for (const char *c = shown != NULL ? shown : "?"; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\')
            putchar('\\');
        putchar(*c);
    }
    putchar('"');
    free(shown);
}

/* An actor is one node, though it may hold in one process and wait in another. */
static void print_node(const struct waits *w, const unsigned char *owner, const char *label)
{
    for (size_t i = 0; i < w->n; i++)
        if (sqlock_same_actor(owner, w->list[i].waiter.owner)) {
            label = w->list[i].waiter.label;
            break;
        }
    print_quoted(label);
}

static int waits_dot(const struct waits *w)
{
    puts("digraph waits {");
    for (size_t i = 0; i < w->n; i++)
        for (size_t h = 0; h < w->list[i].of->n; h++) {
            const struct holder *holder = &w->list[i].of->list[h];

            if (!waits_for(&w->list[i], holder))
                continue;
            printf("    ");
            print_node(w, w->list[i].waiter.owner, w->list[i].waiter.label);
            printf(" -> ");
            print_node(w, holder->owner, holder->label);
            printf(" [label=");
            print_quoted(w->list[i].name);
            puts("];");
        }
    puts("}");
    return output_end();
}

static int waits_run(struct cli *cli, int argc, char **argv)
{
    struct waits w = {0};
    struct options o;
    sqlock *m = NULL;
    bool dot = false;
    int rc, key;

    options_begin(&o, cli, options, OPTIONS_ANYWHERE, argc, argv);
    while ((key = options_next(&o)) >= 0)
        dot = true;
    if (key == OPTIONS_WRONG)
        return EXIT_USAGE;
    if (o.n != 0)
        return options_refuse(cli, "waits takes no NAME: it shows all who wait");
    if (dot && cli->json)
        return options_refuse(cli, "use only one of --dot and --json");
    if ((rc = database_open(cli, NULL, &m)) != 0)
        return rc;
    if ((rc = waits_read(m, &w)) == 0)
        rc = dot ? waits_dot(&w) : cli->json ? waits_json(&w) : waits_words(&w);
    waits_free(&w);
    sqlock_close(m);
    return rc;
}

const struct command command_waits = {
    .name = "waits",
    .synopsis = "[--dot]",
    .summary = "show who waits for whom, and circles of them",
    .help = "One line for each that waits, with those who hold the lock. At place 0 is who\n"
            "comes next, once shared holders, or holders of slots, have gone. A circle is a\n"
            "hint of a deadlock: who has no --actor is known by process and label, and may\n"
            "wait in one thread and go on in another. The list is not a snapshot of one\n"
            "moment.\n",
    .options = options,
    .run = waits_run,
};
