/* The checker proves histories that are true, and finds what is wrong in others: those of *.cases
 * (planted.h), each alone and in the middle of a long one. */
#include <glob.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/check.h"
#include "tests/torture/planted.h"

/* ---- the cases ------------------------------------------------------------------------------- */

enum { CASES_MOST = 400 };

static struct text_case {
    char test[160];
    const char *path;
    int line;   /* of its name */
    char *text; /* of the lines behind that */
} cases[CASES_MOST];
static struct CMUnitTest tests[CASES_MOST];
static size_t n_cases;
static glob_t files;

static void begin_case(const char *path, int line, const char *name, char *text)
{
    struct text_case *c = &cases[n_cases++];

    assert_true(n_cases <= CASES_MOST);
    *c = (struct text_case){.path = path, .line = line, .text = text};
    snprintf(c->test, sizeof c->test, "test_%s", name);
    for (char *at = c->test; (at = strchr(at, ' ')) != NULL;)
        *at = '_';
}

static char *read_all(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text = NULL;
    size_t size = 0;

    if (!f || getdelim(&text, &size, '\0', f) <= 0)
        fail_msg("%s cannot be read", path);
    fclose(f);
    return text;
}

/* The line of each name ends with a NUL, and so does the text of the case before it. */
static void read_cases(const char *path)
{
    int number = 1;

    for (char *line = read_all(path), *end; *line; line = end, number++) {
        end = strchr(line, '\n');
        end = end ? end + 1 : line + strlen(line);
        if (strchr(" #\n", *line))
            continue;
        end[-1] = '\0';
        begin_case(path, number, line, end);
        *line = '\0';
    }
}

/* ---- a long history that is true ------------------------------------------------------------- */

enum { TURN_MS = 10, NOISE_NAMES = 5, NOISE_TURNS = 200, NOISE_FROM = 5 /* names of no case */ };

/* What happens in a turn: the lock is taken, and somebody else is refused. */
static const struct step {
    int verb, outcome;
    bool rival;
    int64_t usable_ms;
} steps[] = {{V_ACQUIRE, 0, false, 900},
             {V_ACQUIRE, SQLOCK_EBUSY, true, 1000},
             {V_RENEW, 0, false, 900},
             {V_GUARDED, 0, false, 0},
             {V_RELEASE, 0, false, 0}};
enum { STEPS = sizeof steps / sizeof *steps };

/* Two threads of each name take turns. It ends at this time. */
static int64_t add_turns(struct event *to, uint32_t first_name, uint32_t names, int64_t turns,
                         int64_t end_us)
{
    int64_t n = 0;

    for (int64_t turn = 0; turn < turns; turn++)
        for (uint32_t name = first_name; name < first_name + names; name++)
            for (int i = 0; i < STEPS; i++, n++) {
                int64_t at_us = end_us - (turns - turn) * TURN_MS * 1000 + i * 1000;

                to[n] = (struct event){.process = 1000 + name,
                                       .thread = (uint32_t)(turn + steps[i].rival) % 2,
                                       .name = name,
                                       .op = (uint32_t)n,
                                       .verb = steps[i].verb,
                                       .outcome = steps[i].outcome,
                                       .token = turn + 1,
                                       .invoke_us = at_us,
                                       .return_us = at_us + 500,
                                       .deadline_us = at_us + steps[i].usable_ms * 1000,
                                       .value = steps[i].verb == V_GUARDED ? turn + 1 : 0};
            }
    return n;
}

static int64_t end_of(const struct event *events, int64_t n)
{
    int64_t end_us = 0;

    for (int64_t i = 0; i < n; i++) {
        end_us = events[i].invoke_us > end_us ? events[i].invoke_us : end_us;
        end_us = events[i].return_us > end_us ? events[i].return_us : end_us;
    }
    return end_us;
}

/* ---- what is found in them ------------------------------------------------------------------- */

#define NUMBER(name)                                                                               \
    {                                                                                              \
#name, offsetof(struct check_verdict, name)                                                \
    }
static const struct {
    const char *word;
    size_t place;
} numbers[] = {NUMBER(violations),  NUMBER(operations),     NUMBER(grants),        NUMBER(rate),
               NUMBER(clock_steps), NUMBER(clock_overlaps), NUMBER(lost_overlaps), NUMBER(unsure),
               NUMBER(settled),     NUMBER(guarded),        NUMBER(late_refused),  NUMBER(judged)};
#undef NUMBER

static const char *const rule_words[] = {
#define RULE_WORD(rule, text) #rule,
    CHECK_RULES(RULE_WORD)
#undef RULE_WORD
};

static int rule_of(const char *word)
{
    for (int rule = 0; rule < RULE_COUNT; rule++)
        if (strcmp(rule_words[rule] + strlen("RULE_"), word) == 0)
            return rule;
    fail_msg("%s is no rule", word);
    return -1;
}

/* Whether the verdict is the one that is expected; *rule: what must have been told, or -1. */
static bool is_expected(const char *expected, const struct check_verdict *v, int *rule)
{
    char word[32] = "";

    *rule = -1;
    if (strcmp(expected, "proved") == 0)
        return v->violations == 0;
    if (sscanf(expected, "no %31s", word) == 1)
        return v->found[rule_of(word)] == 0;
    sscanf(expected, "%31s", word);
    *rule = rule_of(word);
    return v->found[*rule] > 0 &&
           (strstr(expected, " and others") || v->found[*rule] == v->violations);
}

static int64_t times_said(const char *said, const char *words)
{
    int64_t n = 0;

    for (const char *at = said; (at = strstr(at, words)) != NULL; at++)
        n++;
    return n;
}

/* `rate 2`, `"these words"`, `"these words" x3` */
static bool is_so(const char *claim, const struct check_verdict *v, const char *said)
{
    char word[64];
    int64_t n = -1;

    if (sscanf(claim, "\"%63[^\"]\" x%" SCNd64, word, &n) >= 1)
        return n < 0 ? times_said(said, word) > 0 : times_said(said, word) == n;
    if (sscanf(claim, "%63s %" SCNd64, word, &n) == 2)
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
            if (strcmp(word, numbers[i].word) == 0)
                return *(const int64_t *)((const char *)v + numbers[i].place) == n;
    return false;
}

static void judge_alone(struct planted p, const char *expected, char *claims)
{
    struct check_verdict v;
    char *said = NULL;
    size_t size = 0;
    FILE *say = open_memstream(&said, &size);
    int rule;

    assert_non_null(say);
    history_sort(p.events, p.n);
    check_history(&p.rules, p.events, p.n, &v, say);
    fclose(say);
    if (!is_expected(expected, &v, &rule))
        fail_msg("%s was expected; %" PRId64 " violations:\n%s", expected, v.violations, said);
    if (rule >= 0 && (!strstr(said, check_rule_text(rule)) || !strstr(said, "seed 77") ||
                      !strstr(said, "/folder")))
        fail_msg("rule, seed and folder are not told: %s", said);
    if (v.violations == 0)
        assert_string_equal(said, "");
    for (char *claim; (claim = strsep(&claims, ";")) != NULL;)
        if (!is_so(claim + strspn(claim, " "), &v, said))
            fail_msg("not so: %s: %s", claim, said);
    free(said);
}

/* In the middle of others that are true; but for what is asked of a history as a whole. */
static void judge_in_noise(struct planted p, const char *expected)
{
    struct event events[PLANTED_MOST + NOISE_TURNS * NOISE_NAMES * STEPS];
    struct check_verdict v;
    int64_t n = p.n;
    int rule;

    p.rules.min_rate = p.rules.min_grants = p.rules.min_faults = 0;
    memcpy(events, p.events, (size_t)n * sizeof *events);
    n += add_turns(events + n, NOISE_FROM, NOISE_NAMES, NOISE_TURNS, end_of(events, n));
    history_sort(events, n);
    check_history(&p.rules, events, n, &v, NULL);
    if (!is_expected(expected, &v, &rule))
        fail_msg("%s was expected, also beside others; %" PRId64 " violations", expected,
                 v.violations);
}

static void judge(const struct planted *p, char *verdict)
{
    char *claims = verdict, *expected = strsep(&claims, ";");

    judge_alone(*p, expected, claims);
    if (strcmp(expected, "LOAD") != 0)
        judge_in_noise(*p, expected);
}

static void run_case(void **state)
{
    const struct text_case *c = *state;
    char *text = c->text, *line;
    int number = c->line, verdicts = 0;
    struct planted p;

    planted_begin(&p);
    while ((line = strsep(&text, "\n")) != NULL) {
        const char *wrong = NULL;

        number++;
        line += strspn(line, " ");
        print_message("%s:%d: %s\n", c->path, number, line);
        if (strncmp(line, "=> ", 3) == 0) {
            judge(&p, line + 3);
            verdicts++;
        } else if (*line && *line != '#' && (wrong = planted_line(&p, line)) != NULL) {
            fail_msg("not understood: %s", wrong);
        }
    }
    assert_int_not_equal(verdicts, 0);
}

int main(void)
{
    if (glob("tests/torture/*.cases", 0, NULL, &files) != 0) {
        fputs("there are no tests/torture/*.cases here\n", stderr);
        return 1;
    }
    for (size_t i = 0; i < files.gl_pathc; i++)
        read_cases(files.gl_pathv[i]);
    for (size_t i = 0; i < n_cases; i++)
        tests[i] = (struct CMUnitTest){cases[i].test, run_case, NULL, NULL, &cases[i]};
    return _cmocka_run_group_tests("the checker", tests, n_cases, NULL, NULL) == 0 ? 0 : 1;
}
