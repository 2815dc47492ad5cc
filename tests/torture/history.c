#include "tests/torture/history.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sqlock/sqlock.h>

#include "tests/torture/text.h"

#define FIELDS "%" PRIu32 " %" PRIu32 " %" PRIu32 " %s %d %" PRId64 " %" PRId64 " %" PRId64
#define TIMES  " %" PRId64 " %" PRId64

static const char *const words[] = {
#define HISTORY_WORD(verb, word) word,
    HISTORY_VERBS(HISTORY_WORD)
#undef HISTORY_WORD
};

const char *history_verb_word(int verb)
{
    return verb >= 0 && verb < V_COUNT ? words[verb] : "?";
}

int history_verb_of(const char *word)
{
    for (int verb = 0; verb < V_COUNT; verb++)
        if (strcmp(words[verb], word) == 0)
            return verb;
    return -1;
}

/* ---- writing --------------------------------------------------------------------------------- */

int history_open(const char *folder, uint32_t process)
{
    return open(text("%s/%" PRIu32 ".history", folder, process),
                O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

/* A history with a hole proves nothing: who cannot write it must not go on. */
static void put(int fd, char kind, const struct event *e)
{
    char line[256];
    int n = snprintf(line, sizeof line, "%c " FIELDS TIMES "\n", kind, e->thread, e->op, e->name,
                     history_verb_word(e->verb), e->outcome, e->token, e->deadline_us, e->value,
                     e->invoke_us, e->return_us);

    if (write(fd, line, (size_t)n) != n) {
        perror("the history cannot be written");
        _exit(99);
    }
}

void history_invoke(int fd, struct event *e)
{
    e->op++;
    e->return_us = HISTORY_NOT_RETURNED;
    e->invoke_us = sqlock_now_us();
    put(fd, 'I', e);
}

void history_return(int fd, struct event *e)
{
    e->return_us = sqlock_now_us();
    put(fd, 'R', e);
}

/* ---- reading --------------------------------------------------------------------------------- */

struct book {
    struct event *events;
    int64_t n, room;
};

static bool add(struct book *b, const struct event *e)
{
    if (b->n == b->room) {
        int64_t room = b->room ? 2 * b->room : 1024;
        struct event *bigger = realloc(b->events, (size_t)room * sizeof *bigger);

        if (!bigger)
            return false;
        b->events = bigger;
        b->room = room;
    }
    b->events[b->n++] = *e;
    return true;
}

static bool parse(const char *line, char *kind, struct event *e)
{
    char word[32];
    int end = 0;

    if (sscanf(line,
               "%c %" SCNu32 " %" SCNu32 " %" SCNu32 " %31s %d %" SCNd64 " %" SCNd64 " %" SCNd64
               " %" SCNd64 " %" SCNd64 "%n",
               kind, &e->thread, &e->op, &e->name, word, &e->outcome, &e->token, &e->deadline_us,
               &e->value, &e->invoke_us, &e->return_us, &end) != 11)
        return false;
    e->verb = history_verb_of(word);
    return (*kind == 'I' || *kind == 'R') && e->verb >= 0 && line[end] == '\n' && !line[end + 1];
}

/* An "R" line holds all of its "I" line: it takes its place, the latest of the same thread. */
static bool settle_line(struct book *b, int64_t first, char kind, const struct event *e)
{
    if (kind == 'I')
        return add(b, e);
    for (int64_t i = b->n - 1; i >= first; i--)
        if (b->events[i].thread == e->thread) {
            if (b->events[i].op != e->op || b->events[i].return_us != HISTORY_NOT_RETURNED)
                return false;
            b->events[i] = *e;
            return true;
        }
    return false;
}

/* The last line of a process that was killed may be a part of one. */
static bool read_file(struct book *b, const char *path, uint32_t process)
{
    FILE *f = fopen(path, "r");
    char *line = NULL;
    size_t size = 0;
    int64_t first = b->n;
    long number = 0;
    bool fine = f != NULL;

    while (fine && getline(&line, &size, f) > 0) {
        struct event e = {.process = process};
        char kind = 0;

        number++;
        if (!strchr(line, '\n'))
            break;
        fine = parse(line, &kind, &e) && settle_line(b, first, kind, &e);
        if (!fine)
            fprintf(stderr, "%s:%ld: not a line of a history: %s", path, number, line);
    }
    free(line);
    if (f)
        fclose(f);
    else
        perror(path);
    return fine;
}

static int by_invocation(const void *a, const void *b)
{
    const struct event *x = a, *y = b;

    return order(x->invoke_us, y->invoke_us)
               ?: order(x->process, y->process)
               ?: order(x->thread, y->thread)
               ?: order(x->op, y->op);
}

void history_sort(struct event *events, int64_t n)
{
    if (n > 0)
        qsort(events, (size_t)n, sizeof *events, by_invocation);
}

int64_t history_read(const char *folder, struct event **out)
{
    struct book b = {0};
    DIR *dir = opendir(folder);
    bool fine = dir != NULL;

    if (!dir)
        perror(folder);
    for (struct dirent *entry; fine && (entry = readdir(dir)) != NULL;) {
        char *end = NULL;
        unsigned long process = strtoul(entry->d_name, &end, 10);

        if (strcmp(end, ".history") != 0 || end == entry->d_name)
            continue;
        fine = read_file(&b, text("%s/%s", folder, entry->d_name), (uint32_t)process);
    }
    if (dir)
        closedir(dir);
    if (!fine) {
        free(b.events);
        return -1;
    }
    history_sort(b.events, b.n);
    *out = b.events;
    return b.n;
}

void history_print(FILE *f, const struct event *e)
{
    fprintf(f, "%" PRIu32 ".%" PRIu32 " [%" PRId64 " .. %" PRId64 "] n%" PRIu32 " %s", e->process,
            e->thread, e->invoke_us, e->return_us, e->name, history_verb_word(e->verb));
    if (e->return_us == HISTORY_NOT_RETURNED)
        fprintf(f, " was never answered");
    else
        fprintf(f, " %s", e->outcome == 0 ? "ok" : sqlock_code_name(e->outcome));
    fprintf(f, ", token %" PRId64 ", deadline %" PRId64 ", value %" PRId64 "\n", e->token,
            e->deadline_us, e->value);
}
