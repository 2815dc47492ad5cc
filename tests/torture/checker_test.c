/* The checker proves histories that are true, and finds what is wrong in others: those of *.cases
 * (planted.h), each alone and in the middle of a long one; and long ones of a simulation. */
#include <glob.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/lib/check.h"
#include "tests/lib/dice.h"
#include "tests/torture/planted.h"

/* ---- the cases ------------------------------------------------------------------------------- */

enum { CASES_MOST = 400 };

static struct text_case {
    char test[160];
    const char *path;
    int line;   /* of its name */
    char *text; /* of the lines behind that */
} cases[CASES_MOST];
static struct CMUnitTest tests[CASES_MOST + 2];
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

/* ---- a long history beside them -------------------------------------------------------------- */

enum { NOISE_NAMES = 5, NOISE_EVENTS = 5000 };

static struct sim noise = {
    .seed = 1, .names = NOISE_NAMES, .threads = 8, .together = true, .immortal = true};

static void move(struct event *e, int64_t us)
{
    e->invoke_us += us;
    e->return_us += e->return_us != HISTORY_NOT_RETURNED ? us : 0;
    e->deadline_us += e->deadline_us > 0 ? us : 0;
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

/* Later than anything that a case may begin with. */
static int make_noise(void **state)
{
    (void)state;
    noise.events_wanted = NOISE_EVENTS;
    sim_run(&noise);
    for (int64_t i = 0; i < noise.n; i++)
        move(&noise.events[i], INT64_C(20000000));
    return 0;
}

/* Both end at the same time, and have no names, processes and threads in common. */
static int64_t add_noise(struct planted *p, struct event *events, struct check_row *rows)
{
    int64_t us = end_of(noise.events, noise.n) - end_of(p->events, p->n);

    memcpy(events, noise.events, (size_t)noise.n * sizeof *events);
    for (int64_t i = 0; i < p->n; i++) {
        events[noise.n + i] = p->events[i];
        events[noise.n + i].name += NOISE_NAMES;
        events[noise.n + i].process += 1000;
        move(&events[noise.n + i], us);
    }
    memcpy(rows, noise.rows, NOISE_NAMES * sizeof *rows);
    if (p->rules.rows)
        rows[NOISE_NAMES] = p->rows[0];
    p->rules.n_rows += NOISE_NAMES;
    p->rules.rows = rows;
    return noise.n + p->n;
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

/* But for what is asked of a history as a whole. */
static void judge_in_noise(struct planted p, const char *expected)
{
    struct event *events = calloc((size_t)(noise.n + p.n), sizeof *events);
    struct check_row rows[NOISE_NAMES + PLANTED_NAMES];
    struct check_verdict v;
    int64_t n;
    int rule;

    assert_non_null(events);
    p.rules.min_rate = p.rules.min_grants = p.rules.min_faults = 0;
    n = add_noise(&p, events, rows);
    history_sort(events, n);
    check_history(&p.rules, events, n, &v, NULL);
    free(events);
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

/* ---- long true histories --------------------------------------------------------------------- */

static int64_t cpu_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

static void assert_proved(struct sim *s, struct check_verdict *v)
{
    if (check_history(&s->rules, s->events, s->n, v, stderr) != 0)
        fail_msg("a history that is true was refuted: seed %" PRIu64, s->seed);
}

static void test_history_of_200000_operations_is_proved_in_two_seconds(void **state)
{
    struct sim s = {.seed = 1, .names = 8, .threads = 24, .events_wanted = 280000};
    struct check_verdict v;
    int64_t begun;

    (void)state;
    sim_run(&s);
    begun = cpu_ms();
    assert_proved(&s, &v);
    assert_between(0, cpu_ms() - begun, patience_ms(2000));
    assert_between(200000, v.operations, 280000);
    assert_between(20000, v.grants, 280000);
    assert_between(10, v.faults, 1000);
    assert_between(1000, v.unsure, 280000);
    assert_between(1000, v.settled, v.unsure);
    assert_between(1000, v.guarded, 280000);
    assert_between(10, v.late_refused, 280000);
    assert_int_equal(v.judged, s.names);
    free(s.events);
}

static void test_true_histories_are_proved(void **state)
{
    struct dice dice = dice_new("true histories");

    (void)state;
    for (int i = 0; i < 600; i++) {
        struct sim s = {.seed = dice_below(&dice, UINT64_MAX),
                        .together = i % 2 == 1,
                        .names = (uint32_t)dice_between(&dice, 1, 4),
                        .threads = (uint32_t)dice_between(&dice, 2, 12),
                        .events_wanted = dice_between(&dice, 10, 2000)};
        struct check_verdict v;

        sim_run(&s);
        assert_proved(&s, &v);
        free(s.events);
    }
}

int main(void)
{
    const struct CMUnitTest long_ones[] = {
        cmocka_unit_test(test_history_of_200000_operations_is_proved_in_two_seconds),
        cmocka_unit_test(test_true_histories_are_proved)};

    if (glob("tests/torture/*.cases", 0, NULL, &files) != 0) {
        fputs("there are no tests/torture/*.cases here\n", stderr);
        return 1;
    }
    for (size_t i = 0; i < files.gl_pathc; i++)
        read_cases(files.gl_pathv[i]);
    memcpy(tests, long_ones, sizeof long_ones);
    for (size_t i = 0; i < n_cases; i++)
        tests[2 + i] = (struct CMUnitTest){cases[i].test, run_case, NULL, NULL, &cases[i]};
    return _cmocka_run_group_tests("the checker", tests, n_cases + 2, make_noise, NULL) == 0 ? 0
                                                                                             : 1;
}
