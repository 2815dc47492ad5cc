#include "tests/lib/undo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct entry {
    struct entry *next;
    void (*undo)(const char *what);
    char *what;
    pid_t maker; /* a forked child has a copy of the list, in which nothing is the child's */
};

static struct entry *entries;
static bool registered;

/* Inherited by children too. */
static void undo_all(void)
{
    for (struct entry *e = entries, *next = NULL; e; e = next) {
        next = e->next;
        if (e->maker == getpid())
            undo_now(e->what);
    }
}

char *undo_later(void (*undo)(const char *what), const char *what)
{
    struct entry *e = malloc(sizeof *e);
    char *copy = strdup(what);

    if (!e || !copy) {
        fputs("out of memory in a test\n", stderr);
        abort();
    }
    if (!registered)
        registered = atexit(undo_all) == 0;
    *e = (struct entry){entries, undo, copy, getpid()};
    entries = e;
    return copy;
}

bool undo_now(char *what)
{
    for (struct entry **p = &entries; *p; p = &(*p)->next) {
        struct entry *e = *p;

        if (e->what != what)
            continue;
        *p = e->next;
        e->undo(e->what);
        free(e->what);
        free(e);
        return true;
    }
    return false;
}
