#include "tests/lib/undo.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/check.h"

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

/* ---- folders --------------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

static void remove_tree(const char *dir)
{
    if (nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) != 0)
        fprintf(stderr, "%s was not removed: %s\n", dir, strerror(errno));
}

char *temp_dir(void)
{
    const char *top = getenv("TMPDIR");
    char path[4096];

    /* The name of a socket in it has room for 107 bytes. */
    if (!top || !*top || strlen(top) > 70)
        top = "/tmp";
    snprintf(path, sizeof path, "%s/sqlock-test.XXXXXX", top);
    if (!mkdtemp(path))
        fail_msg("mkdtemp %s: %s", path, strerror(errno));
    return undo_later(remove_tree, path);
}

void temp_dir_remove(char *dir)
{
    if (dir && !undo_now(dir))
        fail_msg("%s is not of temp_dir()", dir);
}

const char *faketime_path(void)
{
    static const char *const paths[] = {"/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
                                        "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
                                        "/usr/lib64/faketime/libfaketimeMT.so.1",
                                        "/usr/lib/faketime/libfaketimeMT.so.1"};

    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (access(paths[i], R_OK) == 0)
            return paths[i];
    return NULL;
}
