#include "tests/torture/client_hand.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlock/sqlock.h>

#define PLAN_WORD(id, word, number) {word, number},
static const struct {
    const char *word;
    int number;
} mix[] = {CLIENT_STEPS(PLAN_WORD) CLIENT_CHANCES(PLAN_WORD)};
#undef PLAN_WORD

/* Arguments: what is behind the word, and for numbers what it may be. */
static const struct option {
    const char *word;
    enum { TEXT, NUMBER, FLAG, MIX } kind;
    size_t place;
    int64_t least, most;
} options[] = {
    {"--folder", TEXT, offsetof(struct plan, folder), 0, 0},
    {"--url", TEXT, offsetof(struct plan, url), 0, 0},
    {"--allow", TEXT, offsetof(struct plan, allow), 0, 0},
    {"--mix", MIX, 0, 0, 0},
    {"--command", FLAG, offsetof(struct plan, command), 1, 1},
    {"--unprepared", FLAG, offsetof(struct plan, open_flags), SQLOCK_OPEN_UNPREPARED, 0},
    {"--process", NUMBER, offsetof(struct plan, process), 0, UINT32_MAX},
    {"--names", NUMBER, offsetof(struct plan, names), 1, 10000},
    {"--threads", NUMBER, offsetof(struct plan, threads), 1, CLIENT_THREADS_MAX},
    {"--seed", NUMBER, offsetof(struct plan, seed), 0, INT64_MAX},
    {"--lease", NUMBER, offsetof(struct plan, lease_ms), SQLOCK_LEASE_MIN_MS, SQLOCK_LEASE_MAX_MS},
    {"--grace", NUMBER, offsetof(struct plan, grace_ms), 0, INT32_MAX},
    {"--side", NUMBER, offsetof(struct plan, side), 1, INT32_MAX},
    {"--seconds", NUMBER, offsetof(struct plan, seconds), 1, 1000000},
    {"--asked", NUMBER, offsetof(struct plan, sent_us), 1, INT64_MAX},
    {"--work-ms", NUMBER, offsetof(struct plan, work_ms), 0, INT32_MAX},
};

bool plan_lists(const char *list, const char *word)
{
    size_t len = strlen(word);

    for (const char *p = list; p != NULL && (p = strstr(p, word)) != NULL; p += len)
        if ((p == list || p[-1] == ' ') && (p[len] == ' ' || p[len] == '\0'))
            return true;
    return false;
}

/* "late=30 reap=0" */
static bool read_mix(struct plan *p, const char *text)
{
    char word[16];
    int number, used;

    for (; sscanf(text, " %15[^= ]=%d%n", word, &number, &used) == 2; text += used) {
        int i = 0;

        while (i < PLAN_MIX && strcmp(mix[i].word, word) != 0)
            i++;
        if (i == PLAN_MIX || number < 0 || number > 1000)
            return false;
        p->mix[i] = number;
    }
    return text[strspn(text, " ")] == '\0';
}

static bool read_number(struct plan *p, const struct option *o, const char *value)
{
    char *end = NULL;
    int64_t n = strtoll(value, &end, 10);

    *(int64_t *)((char *)p + o->place) = n;
    return end != value && *end == '\0' && n >= o->least && n <= o->most;
}

/* value: the argument behind the option, or NULL. How many of them were taken; 0: it is wrong. */
static int take(struct plan *p, const char *word, const char *value)
{
    const struct option *o = options, *end = options + sizeof options / sizeof *options;

    while (o < end && strcmp(o->word, word) != 0)
        o++;
    if (o == end || (o->kind != FLAG && value == NULL))
        return 0;
    if (o->kind == FLAG)
        *(int64_t *)((char *)p + o->place) |= o->least;
    if (o->kind == TEXT)
        *(const char **)((char *)p + o->place) = value;
    if ((o->kind == NUMBER && !read_number(p, o, value)) || (o->kind == MIX && !read_mix(p, value)))
        return 0;
    return o->kind == FLAG ? 1 : 2;
}

bool plan_read(struct plan *p, int argc, char **argv)
{
    *p = (struct plan){.names = 4, .threads = 4, .lease_ms = 400, .seconds = 1, .allow = ""};
    for (int i = 0; i < PLAN_MIX; i++)
        p->mix[i] = mix[i].number;
    for (int i = 0, taken; i < argc; i += taken) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;

        if ((taken = take(p, argv[i], value)) == 0) {
            fprintf(stderr, "client: %s %s is not understood\n", argv[i], value ? value : "");
            return false;
        }
    }
    if (p->command && p->lease_ms < COMMAND_LEASE_LEAST_MS)
        p->lease_ms = COMMAND_LEASE_LEAST_MS;
    if (p->folder == NULL)
        fprintf(stderr, "client: --folder is needed\n");
    return p->folder != NULL;
}
