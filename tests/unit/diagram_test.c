/* The diagram of a lease's states in core/README.md is made from the table in core/model/lease.c:
 * this test makes it, and fails where the README says something else. SQLOCK_SOURCE_DIR: the tree's
 * root, else the working directory. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/model/lease.h"
#include "tests/lib/check.h"

#define BEGIN_MARK "<!-- lease states: begin -->\n"
#define END_MARK   "<!-- lease states: end -->\n"
#define README     "core/README.md"

#define STATE_WIDTH 10

struct text {
    char bytes[65536];
    size_t len;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *t, const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(t->bytes + t->len, sizeof t->bytes - t->len, fmt, ap);
    va_end(ap);
    assert_true(n >= 0 && (size_t)n < sizeof t->bytes - t->len);
    t->len += (size_t)n;
}

static void cut_blanks(struct text *t)
{
    while (t->len > 0 && t->bytes[t->len - 1] == ' ')
        t->len--;
    add(t, "\n");
}

/* ---- made from the table --------------------------------------------------------------------- */

/* "at risk, lost": where an event leads from a state; "." where it changes nothing. */
static void cell(char *out, size_t size, sqlock_state from, enum lease_event event)
{
    size_t len = 0;

    for (size_t i = 0; i < lease_n_edges; i++)
        if (lease_edges[i].from == from && lease_edges[i].event == event)
            len += (size_t)snprintf(out + len, size - len, "%s%s", len > 0 ? ", " : "",
                                    sqlock_state_name(lease_edges[i].to));
    if (len == 0)
        snprintf(out, size, ".");
}

static int width_of(enum lease_event event)
{
    size_t width = strlen(lease_event_name(event));
    char text[64];

    for (int s = SQLOCK_UNSURE; s <= SQLOCK_RELEASED; s++) {
        cell(text, sizeof text, (sqlock_state)s, event);
        width = strlen(text) > width ? strlen(text) : width;
    }
    return (int)width + 2;
}

static void add_grid(struct text *t)
{
    char text[64];

    add(t, "%-*s", STATE_WIDTH, "");
    for (int e = 0; e < LEASE_EVENTS; e++)
        add(t, "%-*s", width_of((enum lease_event)e), lease_event_name((enum lease_event)e));
    cut_blanks(t);
    for (int s = SQLOCK_UNSURE; s <= SQLOCK_RELEASED; s++) {
        add(t, "%-*s", STATE_WIDTH, sqlock_state_name((sqlock_state)s));
        for (int e = 0; e < LEASE_EVENTS; e++) {
            cell(text, sizeof text, (sqlock_state)s, (enum lease_event)e);
            add(t, "%-*s", width_of((enum lease_event)e), text);
        }
        cut_blanks(t);
    }
}

static void add_moves(struct text *t)
{
    for (size_t i = 0; i < lease_n_edges; i++) {
        const struct lease_edge *edge = &lease_edges[i];

        if (i > 0 && edge->from != edge[-1].from)
            add(t, "\n");
        add(t, "%-*s--%s%.*s> %-*s %s\n", STATE_WIDTH - 1, sqlock_state_name(edge->from),
            lease_event_name(edge->event), (int)(11 - strlen(lease_event_name(edge->event))),
            "-----------", STATE_WIDTH - 1, sqlock_state_name(edge->to), edge->why);
    }
}

static void make_diagram(struct text *t)
{
    add(t, "```\n");
    add_grid(t);
    add(t, "\n");
    add_moves(t);
    add(t, "```\n");
}

/* ---- read from the README -------------------------------------------------------------------- */

static void read_readme(struct text *t)
{
    const char *root = getenv("SQLOCK_SOURCE_DIR");
    char path[4096];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", root != NULL && *root != '\0' ? root : ".", README);
    if ((file = fopen(path, "r")) == NULL)
        fail_msg("%s cannot be read: is SQLOCK_SOURCE_DIR the root of the tree?", path);
    t->len = fread(t->bytes, 1, sizeof t->bytes - 1, file);
    fclose(file);
    assert_true(t->len < sizeof t->bytes - 1);
    t->bytes[t->len] = '\0';
}

/* Between the two marks, each of which stands there once; NULL: they do not. */
static char *between_marks(char *text)
{
    char *begin = strstr(text, BEGIN_MARK);
    char *end = begin != NULL ? strstr(begin, END_MARK) : NULL;

    if (end == NULL || strstr(begin + 1, BEGIN_MARK) != NULL || strstr(end + 1, END_MARK) != NULL)
        return NULL;
    *end = '\0';
    return begin + strlen(BEGIN_MARK);
}

TEST(test_readme_shows_the_states_of_the_table)
{
    static struct text expected, readme;
    char *shown;

    make_diagram(&expected);
    read_readme(&readme);
    shown = between_marks(readme.bytes);
    if (shown != NULL && strcmp(shown, expected.bytes) == 0)
        return;
    /* not by print_error(), which cuts long texts */
    printf("%s must hold:\n%s%s%s", README, BEGIN_MARK, expected.bytes, END_MARK);
    fail_msg("%s %s", README, shown == NULL ? "lacks the marks" : "shows another table");
}

TEST_MAIN_EACH(NULL, NULL)
