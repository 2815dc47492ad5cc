#include "tests/torture/client_plan.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlock/sqlock.h>

#define PLAN_WORD(id, word, number) {word, number},
static const struct {
    const char *word;
    int number;
} steps[] = {CLIENT_STEPS(PLAN_WORD)}, chances[] = {CLIENT_CHANCES(PLAN_WORD)};
#undef PLAN_WORD

bool plan_lists(const char *list, const char *word)
{
    size_t len = strlen(word);

    for (const char *p = list; p != NULL && (p = strstr(p, word)) != NULL; p += len)
        if ((p == list || p[-1] == ' ') && (p[len] == ' ' || p[len] == '\0'))
            return true;
    return false;
}

static int *place_of(struct plan *p, const char *word, size_t len)
{
    for (int i = 0; i < STEP_COUNT; i++)
        if (strlen(steps[i].word) == len && strncmp(steps[i].word, word, len) == 0)
            return &p->steps[i];
    for (int i = 0; i < CHANCE_COUNT; i++)
        if (strlen(chances[i].word) == len && strncmp(chances[i].word, word, len) == 0)
            return &p->chances[i];
    return NULL;
}

/* "late=30 reap=0" */
static bool read_mix(struct plan *p, const char *mix)
{
    while (*mix != '\0') {
        size_t len = strcspn(mix, "=");
        int *place = place_of(p, mix, len);
        char *end = NULL;

        if (place == NULL || mix[len] != '=')
            return false;
        *place = (int)strtol(mix + len + 1, &end, 10);
        if (end == mix + len + 1 || *place < 0 || *place > 1000)
            return false;
        mix = end + strspn(end, " ");
    }
    return true;
}

static bool read_number(const char *text, int64_t least, int64_t most, int64_t *out)
{
    char *end = NULL;

    *out = strtoll(text, &end, 10);
    return end != text && *end == '\0' && *out >= least && *out <= most;
}

/* Options that are a number: where it goes, and what it may be. */
static bool take_number(struct plan *p, const char *option, const char *value)
{
    int64_t n = 0;

    if (strcmp(option, "--process") == 0 && read_number(value, 0, UINT32_MAX, &n))
        p->process = (uint32_t)n;
    else if (strcmp(option, "--names") == 0 && read_number(value, 1, 10000, &n))
        p->names = (uint32_t)n;
    else if (strcmp(option, "--threads") == 0 && read_number(value, 1, CLIENT_THREADS_MAX, &n))
        p->threads = (uint32_t)n;
    else if (strcmp(option, "--managers") == 0 && read_number(value, 0, CLIENT_THREADS_MAX, &n))
        p->managers = (uint32_t)n;
    else if (strcmp(option, "--seed") == 0 && read_number(value, 0, INT64_MAX, &n))
        p->seed = (uint64_t)n;
    else if (strcmp(option, "--lease") == 0 &&
             read_number(value, SQLOCK_LEASE_MIN_MS, SQLOCK_LEASE_MAX_MS, &n))
        p->lease_ms = (int32_t)n;
    else if (strcmp(option, "--grace") == 0 && read_number(value, 0, INT32_MAX, &n))
        p->grace_ms = (int32_t)n;
    else if (strcmp(option, "--side") == 0 && read_number(value, 1, INT32_MAX, &n))
        p->side = (int32_t)n;
    else if (strcmp(option, "--seconds") == 0 && read_number(value, 1, 1000000, &n))
        p->seconds = (int32_t)n;
    else if (strcmp(option, "--asked") == 0 && read_number(value, 1, INT64_MAX, &n))
        p->asked_us = n;
    else if (strcmp(option, "--work-ms") == 0 && read_number(value, 0, INT32_MAX, &n))
        p->work_ms = (int32_t)n;
    else
        return false;
    return true;
}

static bool take_flag(struct plan *p, const char *option)
{
    if (strcmp(option, "--command") == 0)
        p->command = true;
    else if (strcmp(option, "--unprepared") == 0)
        p->open_flags |= SQLOCK_OPEN_UNPREPARED;
    else if (strcmp(option, "--weak") == 0)
        p->open_flags |= SQLOCK_OPEN_ACCEPT_WEAK;
    else
        return false;
    return true;
}

static bool take(struct plan *p, const char *option, const char *value)
{
    if (strcmp(option, "--folder") == 0)
        p->folder = value;
    else if (strcmp(option, "--url") == 0)
        p->url = value;
    else if (strcmp(option, "--allow") == 0)
        p->allow = value;
    else if (strcmp(option, "--mix") == 0)
        return read_mix(p, value);
    else
        return take_number(p, option, value);
    return true;
}

bool plan_read(struct plan *p, int argc, char **argv)
{
    *p = (struct plan){.names = 4, .threads = 4, .lease_ms = 400, .seconds = 1, .allow = ""};
    for (int i = 0; i < STEP_COUNT; i++)
        p->steps[i] = steps[i].number;
    for (int i = 0; i < CHANCE_COUNT; i++)
        p->chances[i] = chances[i].number;
    for (int i = 0; i < argc; i++) {
        if (take_flag(p, argv[i]))
            continue;
        if (i + 1 == argc || !take(p, argv[i], argv[i + 1])) {
            fprintf(stderr, "client: %s%s%s is not understood\n", argv[i], i + 1 < argc ? " " : "",
                    i + 1 < argc ? argv[i + 1] : "");
            return false;
        }
        i++;
    }
    if (p->command && p->lease_ms < COMMAND_LEASE_LEAST_MS)
        p->lease_ms = COMMAND_LEASE_LEAST_MS;
    if (p->folder == NULL)
        fprintf(stderr, "client: --folder is needed\n");
    return p->folder != NULL;
}
