#include "tests/torture/planted.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlock/sqlock.h>

enum { USABLE_MS = 900, CELL = 99 };

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

/* ---- events -----------------------------------------------------------------------------------
 */

/* An event and how often it happens. */
struct repeated {
    struct event e;
    bool has_deadline, token_rises;
    int times;
    int64_t every_us;
};

static int verb_of(const char *word)
{
    for (int verb = 0; verb < V_COUNT; verb++)
        if (strcmp(history_verb_word(verb), word) == 0)
            return verb;
    return -1;
}

static bool take_who(struct event *e, const char *word)
{
    if (strcmp(word, "cell") == 0) {
        e->process = e->thread = CELL;
        e->name = 7;
        return true;
    }
    e->process = 1;
    if (sscanf(word, "p%" SCNu32, &e->process) == 1) {
        e->thread = e->process;
        return true;
    }
    return sscanf(word, "%" SCNu32, &e->thread) == 1;
}

static bool take_times(struct event *e, const char *word)
{
    int64_t from, to = 0;
    int n = sscanf(word, "%" SCNd64 "-%" SCNd64, &from, &to);

    if (n < 1)
        return false;
    e->invoke_us = from * 1000;
    e->return_us = n == 2 ? to * 1000 : HISTORY_NOT_RETURNED;
    return true;
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

static bool take_deadline(struct repeated *r, const char *ms)
{
    r->has_deadline = ms && sscanf(ms, "%" SCNd64, &r->e.deadline_us) == 1;
    r->e.deadline_us *= 1000;
    return r->has_deadline;
}

static bool take_word(struct repeated *r, const char *word, char **rest)
{
    switch (word[0]) {
    case '#':
        r->token_rises = strchr(word, '+') != NULL;
        return sscanf(word, "#%" SCNd64, &r->e.token) == 1;
    case '=':
        return sscanf(word, "=%" SCNd64, &r->e.value) == 1;
    case 'x':
        if (sscanf(word, "x%d/%" SCNd64, &r->times, &r->every_us) != 2)
            return false;
        r->every_us *= 1000;
        return true;
    default:
        if (strcmp(word, "until") == 0 || strcmp(word, "commit") == 0)
            return take_deadline(r, strtok_r(NULL, " ", rest));
        return sscanf(word, "n%" SCNu32, &r->e.name) == 1 || take_answer(&r->e, word);
    }
}

static bool is_grant(const struct event *e)
{
    return (e->verb == V_ACQUIRE || e->verb == V_SHARE) && e->outcome == 0 && e->value != 3 &&
           e->return_us != HISTORY_NOT_RETURNED;
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
        e->invoke_us += i * r->every_us;
        if (e->return_us != HISTORY_NOT_RETURNED)
            e->return_us += i * r->every_us;
        if (is_grant(e) && !r->has_deadline)
            e->deadline_us = e->invoke_us + USABLE_MS * 1000;
        else if (r->has_deadline)
            e->deadline_us += i * r->every_us;
    }
    return true;
}

static const char *take_event(struct planted *p, char *text)
{
    struct repeated r = {.times = 1};
    char *rest = NULL, *word = strtok_r(text, " ", &rest);

    if (!word || !take_who(&r.e, word))
        return word ? word : "nothing";
    if (!(word = strtok_r(NULL, " ", &rest)) || (r.e.verb = verb_of(word)) < 0)
        return word ? word : "no verb";
    if (!(word = strtok_r(NULL, " ", &rest)) || !take_times(&r.e, word))
        return word ? word : "no time";
    while ((word = strtok_r(NULL, " ", &rest)) != NULL)
        if (!take_word(&r, word, &rest))
            return word;
    return add(p, &r) ? NULL : "too many events";
}

/* ---- rows and rules ---------------------------------------------------------------------------
 */

static const char *take_row(struct planted *p, char *text)
{
    struct check_row *row = &p->rows[0];
    char *rest = NULL;
    bool changes = false;

    *row = (struct check_row){0};
    p->rules.rows = p->rows;
    p->rules.n_rows = 1;
    for (char *word; (word = strtok_r(text, " ", &rest)) != NULL; text = NULL) {
        char *number = strtok_r(NULL, " ", &rest);
        int64_t *place = strcmp(word, "guarded") == 0   ? &row->guarded
                         : strcmp(word, "token") == 0   ? &row->token
                         : strcmp(word, "row") == 0     ? &row->row
                         : strcmp(word, "version") == 0 ? &row->version
                         : strcmp(word, "changes") == 0 ? &row->changes
                                                        : NULL;

        if (!place || !number)
            return word;
        *place = strtoll(number, NULL, 10);
        changes = changes || place == &row->changes;
    }
    if (!changes)
        row->changes = row->version;
    return NULL;
}

static const char *take_rule(struct planted *p, const char *text)
{
    struct check_rules *r = &p->rules;
    static char engine[32];

    if (sscanf(text, "engine %31s", engine) == 1) {
        r->engine = engine;
        return NULL;
    }
    return sscanf(text, "min_rate %" SCNd64, &r->min_rate) == 1 ||
                   sscanf(text, "min_grants %" SCNd64, &r->min_grants) == 1 ||
                   sscanf(text, "min_faults %" SCNd64, &r->min_faults) == 1
               ? NULL
               : text;
}

const char *planted_line(struct planted *p, char *line)
{
    const char *wrong = NULL;
    char *rest = NULL;

    if (strncmp(line, "rows ", 5) == 0)
        return take_row(p, line + 5);
    if (strncmp(line, "rules ", 6) == 0)
        return take_rule(p, line + 6);
    for (char *text; !wrong && (text = strtok_r(line, ";", &rest)) != NULL; line = NULL)
        wrong = take_event(p, text);
    return wrong;
}
