#include "tests/torture/planted.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlock/sqlock.h>

enum { USABLE_MS = 900, CELL = 99, BESIDE = 100 };

#define BEGIN_MS INT64_C(10000) /* of a case: others may have been there before */

static const struct {
    const char *word;
    int outcome;
    int64_t value;
} answers[] = {
    {"lost", SQLOCK_ELOST, 0},
    {"unsure", SQLOCK_EUNSURE, 0},
    {"busy", SQLOCK_EBUSY, 0},
    {"guarded", SQLOCK_EGUARDED, 0},
    {"timeout", SQLOCK_ETIMEOUT, 0},
    {"conflict", SQLOCK_CONFLICT, 0},
    {"rolled-back", SQLOCK_ETXGONE, 0},
    {"failed", SQLOCK_EDB, 0},
    {"unreachable", SQLOCK_EUNREACH, 0},
    {"by-command", 0, 3},
    {"why-broken", 0, SQLOCK_WHY_BROKEN},
    {"why-expired", 0, SQLOCK_WHY_EXPIRED},
    {"why-clock", 0, SQLOCK_WHY_CLOCK},
    {"not-granted", 0, SQLOCK_WHY_NOT_GRANTED},
    {"was-released", 0, SQLOCK_WHY_RELEASED},
    {"hurts", 0, 1}, /* of faults: what they do to the server */
    {"steps", 0, 2},
    {"loses", 0, 3},
    {"loses-in-grace", 0, 4},
};

void planted_begin(struct planted *p)
{
    *p = (struct planted){.rules = {.folder = "/folder",
                                    .engine = "engine",
                                    .fault = "none",
                                    .seed = 77,
                                    .lease_ms = 1000,
                                    .slack_ms = 2000}};
}

/* ---- events ---------------------------------------------------------------------------------- */

/* An event and how often it happens. */
struct repeated {
    struct event e;
    bool has_deadline, token_rises;
    int times;
    int64_t every_ms;
};

static bool take_who(struct event *e, const char *word)
{
    *e = (struct event){.process = 1};
    if (strcmp(word, "cell") == 0)
        *e = (struct event){.process = CELL, .thread = CELL, .name = 7};
    else if (sscanf(word, "p%" SCNu32, &e->process) == 1)
        e->thread = e->process;
    else
        return sscanf(word, "%" SCNu32, &e->thread) == 1;
    return true;
}

static bool take_times(struct event *e, const char *word)
{
    int64_t from, to = 0;
    int n = sscanf(word, "%" SCNd64 "-%" SCNd64, &from, &to);

    e->invoke_us = (BEGIN_MS + from) * 1000;
    e->return_us = n == 2 ? (BEGIN_MS + to) * 1000 : HISTORY_NOT_RETURNED;
    return n >= 1;
}

static bool take_answer(struct event *e, const char *word)
{
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
        if (strcmp(word, answers[i].word) == 0) {
            if (answers[i].outcome)
                e->outcome = answers[i].outcome;
            else
                e->value = answers[i].value;
            return true;
        }
    return false;
}

static bool take_word(struct repeated *r, const char *word, char **rest)
{
    if (strcmp(word, "until") == 0 || strcmp(word, "commit") == 0 || strcmp(word, "asked") == 0) {
        const char *ms = strtok_r(NULL, " ", rest);

        r->has_deadline = ms && sscanf(ms, "%" SCNd64, &r->e.deadline_us) == 1;
        if (r->e.deadline_us > 0)
            r->e.deadline_us = (BEGIN_MS + r->e.deadline_us) * 1000;
        return r->has_deadline;
    }
    r->token_rises = r->token_rises || (*word == '#' && strchr(word, '+'));
    return sscanf(word, "#%" SCNd64, &r->e.token) == 1 ||
           sscanf(word, "=%" SCNd64, &r->e.value) == 1 ||
           sscanf(word, "x%d/%" SCNd64, &r->times, &r->every_ms) == 2 ||
           sscanf(word, "n%" SCNu32, &r->e.name) == 1 || take_answer(&r->e, word);
}

static bool is_grant(const struct event *e)
{
    return event_acquires(e) && event_ok(e) && e->value != 3;
}

static bool add(struct planted *p, const struct repeated *r)
{
    for (int i = 0; i < r->times; i++) {
        struct event *e = &p->events[p->n];

        if (p->n++ == PLANTED_MOST)
            return false;
        *e = r->e;
        e->op = (uint32_t)p->n;
        e->token += r->token_rises ? i : 0;
        e->invoke_us += i * r->every_ms * 1000;
        if (e->return_us != HISTORY_NOT_RETURNED)
            e->return_us += i * r->every_ms * 1000;
        if (is_grant(e) && !r->has_deadline)
            e->deadline_us = e->invoke_us + USABLE_MS * 1000;
        else if (r->has_deadline)
            e->deadline_us += i * r->every_ms * 1000;
    }
    return true;
}

static const char *take_event(struct planted *p, char *line)
{
    struct repeated r = {.times = 1};
    char *rest = NULL, *word = strtok_r(line, " ", &rest);

    if (!word || !take_who(&r.e, word))
        return word ? word : "nothing";
    if (!(word = strtok_r(NULL, " ", &rest)) || (r.e.verb = history_verb_of(word)) < 0)
        return word ? word : "no verb";
    if (r.e.verb == V_PLACE)
        r.e.thread += BESIDE; /* while that one waits */
    if (!(word = strtok_r(NULL, " ", &rest)) || !take_times(&r.e, word))
        return word ? word : "no time";
    while ((word = strtok_r(NULL, " ", &rest)) != NULL)
        if (!take_word(&r, word, &rest))
            return word;
    return add(p, &r) ? NULL : "too many events";
}

/* ---- rows and rules -------------------------------------------------------------------------- */

/* "guarded 1 token 2" */
static bool take_row(struct planted *p, const char *line)
{
    struct check_row *row = &p->rows[0];
    struct {
        const char *word;
        int64_t *place;
    } fields[] = {{"guarded", &row->guarded}, {"token", &row->token},     {"row", &row->row},
                  {"version", &row->version}, {"changes", &row->changes}, {NULL, NULL}};
    char word[16];
    int64_t number;
    int used;

    *row = (struct check_row){.changes = CHECK_NOT_READ};
    p->rules.rows = p->rows;
    p->rules.n_rows = 1;
    for (; sscanf(line, "%15s %" SCNd64 "%n", word, &number, &used) == 2; line += used) {
        int i = 0;

        while (fields[i].word && strcmp(fields[i].word, word) != 0)
            i++;
        if (!fields[i].word)
            return false;
        *fields[i].place = number;
    }
    if (row->changes == CHECK_NOT_READ)
        row->changes = row->version;
    return line[strspn(line, " ")] == '\0';
}

static bool take_rule(struct planted *p, const char *line)
{
    struct check_rules *r = &p->rules;

    if (sscanf(line, "engine %31s", p->engine) == 1)
        return (r->engine = p->engine) != NULL;
    return sscanf(line, "min_rate %" SCNd64, &r->min_rate) == 1 ||
           sscanf(line, "min_grants %" SCNd64, &r->min_grants) == 1 ||
           sscanf(line, "min_faults %" SCNd64, &r->min_faults) == 1;
}

const char *planted_line(struct planted *p, char *line)
{
    const char *wrong = NULL;
    char *rest = NULL;

    if (strncmp(line, "rows ", 5) == 0)
        return take_row(p, line + 5) ? NULL : line;
    if (strncmp(line, "rules ", 6) == 0)
        return take_rule(p, line + 6) ? NULL : line;
    for (char *one; !wrong && (one = strtok_r(line, ";", &rest)) != NULL; line = NULL)
        wrong = take_event(p, one);
    return wrong;
}
