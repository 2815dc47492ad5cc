/* Plays a race: its sessions' steps one after the other, with our statement and then with each
 * wrong one, and compares what comes of each step. */
#include "play.h"

#include <stdlib.h>

/* ---- what a request says --------------------------------------------------------------------- */

/* \0, \xff, \_ for a blank; x*255 for so many. */
static const char *name_bytes(const char *text, size_t *len)
{
    char *out = keep(calloc(1, 300));
    size_t n = 0;
    for (const char *s = text; *s; s++) {
        char *end = NULL;
        if (s[0] == '\\' && s[1] == 'x')
            out[n++] = (char)strtol(s + 2, &end, 16), s = end - 1;
        else if (s[0] == '\\')
            out[n++] = *++s == '_' ? ' ' : '\0';
        else if (s[0] == '*')
            for (long k = strtol(s + 1, &end, 10) - 1; k > 0 || (s = end - 1, 0); k--, n++)
                out[n] = out[n - 1];
        else
            out[n++] = *s;
    }
    *len = n;
    return out;
}

/* A number, or what the database makes of the text. */
static int64_t amount(const char *text)
{
    char *end = NULL;
    int64_t n = strtoll(text, &end, 10);
    return *end == '\0' && *text ? n : number(looker(), textf("SELECT %s", text));
}

static void put_parameter(request *r, const char *name, const char *text)
{
    const struct {
        const char *name;
        int64_t *to, unit;
    } numbers[] = {
        {"ttl", &r->ttl, MS},       {"grace", &r->grace, MS}, {"token", &r->token, 1},
        {"cut", &r->cut, 1},        {"floor", &r->floor, 1},  {"lift", &r->lift, 1},
        {"expected", &r->token, 1}, {"waits", &r->waits, 1},  {"session", &r->session, 1},
        {"seats", &r->seats, 1},    {"turn", &r->turn, 1},    {"mode", &r->mode, 1},
        {"again", &r->again, 1}};
    for (size_t i = 0; i < COUNT(numbers); i++)
        if (strcmp(name, numbers[i].name) == 0) {
            *numbers[i].to = amount(text) * numbers[i].unit;
            return;
        }
    if (strcmp(name, "not_after") == 0)
        r->not_after = strcmp(text, "past") ? amount("{now} * (1000 / {ms})") + atoi(text) * MS : 1;
    else if (strcmp(name, "name") == 0)
        r->name = name_bytes(text, &r->name_len);
    else if (strcmp(name, "ns") == 0)
        r->ns = name_bytes(text, &r->ns_len);
    else if (strcmp(name, "to") == 0)
        r->to = text;
    else if (strcmp(name, "owner") == 0)
        memset(r->owner, text[0], sizeof r->owner);
    else if (strcmp(name, "client") == 0)
        memset(r->client, text[0], sizeof r->client);
    else if (strcmp(name, "next") == 0)
        r->next = requested_of(text)->r.owner;
    else if (strcmp(name, "beside") == 0)
        r->beside = requested_of(text)->r.owner;
    else
        broken("no request says %s", name);
}

static void put_parameters(request *r, const char *words, int *step, int *from)
{
    words += strspn(words, " ");
    while (*words) {
        const char *text, *name = cut(next_word(&words), "=", &text);
        if (strcmp(name, "step") == 0)
            *step = atoi(text);
        else if (strcmp(name, "from") == 0)
            *from = atoi(text);
        else
            put_parameter(r, name, text);
    }
}

/* ---- what comes of it ------------------------------------------------------------------------ */

static const char *told(const answer *a)
{
    static char text[48];
    if (a->error[0])
        snprintf(text, sizeof text, "error %s", a->error);
    else
        snprintf(text, sizeof text, "%s", a->rows ? outcomes[a->outcome] : "nothing");
    return text;
}

/* One of "held or error 1020". */
static void expect_one(const answer *a, const char *expected)
{
    const char *rest = expected;
    while (*rest) {
        const char *one = cut(rest, " or ", &rest);
        if (strcmp(told(a), one) == 0 || strcmp(one, "any") == 0)
            return;
    }
    broken("it was told %s, not %s", told(a), expected);
}

/* Answers to many requests, in any order: "done late - done", `-` for one that has none. */
static void expect_each(struct session *k, const answer *got, int rows, const char *expected)
{
    if (got[0].error[0] || strncmp(expected, "error", 5) == 0) {
        expect_one(&got[0], expected);
        return;
    }
    for (int i = 0; i < k->n; i++) {
        const char *word = next_word(&expected), *was = "-";
        for (int at = 0; at < rows; at++)
            if (got[at].index == i)
                was = outcomes[got[at].outcome];
        if (strcmp(word, "any") != 0 && strcmp(was, word) != 0)
            broken("%s was told %s, not %s", k->of[i]->name, was, word);
    }
}

static void compare(struct session *k, answer *got, int rows, const char *expected)
{
    struct asked *of = k->of[0];
    if (k->rest.many) {
        expect_each(k, got, rows, expected);
        return;
    }
    of->a = got[0];
    if ((k->rest.stmt == SQLOCK_STMT_ACQUIRE || k->rest.stmt == SQLOCK_STMT_QUEUE ||
         k->rest.stmt == SQLOCK_STMT_SEAT) &&
        got[0].rows && (got[0].outcome == SQLOCK_OUT_DONE || got[0].outcome == SQLOCK_OUT_TURN))
        of->r.token = got[0].token;
    expect_one(&got[0], expected);
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* What is sent is the first step; the others are run when that told nothing. */
static void answer_comes(struct session *k, const char *expected)
{
    answer got[COUNT(k->of)];
    int rows;
    if (!k->sent)
        broken("%s has sent nothing", k->name);
    k->sent = 0;
    rows = bench.db->finish(k->c, got, k->n);
    if (k->n == 1 && bench.db->server != NULL && !rows && !got[0].error[0] && k->rest.n > 1) {
        script rest = from_step(k->rest, 2);
        got[0] = bench.db->ask(k->c, &rest, &k->r);
    }
    compare(k, got, rows, expected);
}

static void plan_step(struct session *k, const char *expected)
{
    const char *words = bench.db->plan(k->c, &k->rest);
    if (strcmp(words, expected) != 0)
        broken("its plan is %s, not %s", words, expected);
}

static void send_and_see(struct session *k, const request *r, const char *expected)
{
    answer got[COUNT(k->of)];
    int rows = 0;
    if (strcmp(expected, "waits") == 0 || strcmp(expected, "sent") == 0) {
        bench.db->start(k->c, &k->rest, r, k->n);
        k->r = r[0];
        k->sent = expected[0] == 'w';
        if (k->sent && !bench.db->waits(k->c))
            broken("it does not wait");
        return;
    }
    if (!k->rest.many) {
        got[0] = bench.db->ask(k->c, &k->rest, r);
        compare(k, got, got[0].rows, expected);
        return;
    }
    for (script s = k->rest; s.n > 0 && !rows; s = from_step(s, 2)) {
        bench.db->start(k->c, &s, r, k->n);
        rows = bench.db->finish(k->c, got, k->n);
        if (got[0].error[0])
            break;
    }
    compare(k, got, rows, expected);
}

/* Whose request it is: the session's own, where nobody is named. */
static struct asked *whose(const char **words, const char *own)
{
    size_t len = strcspn(*words, " ");
    return requested_of(len == 0 || memchr(*words, '=', len) ? own : next_word(words));
}

/* "acquire", "acquire*" for the one on trial, "renew(a b c)" for many; then whose request it is and
 * what else it says. */
static void request_step(struct session *k, const char *text, const char *expected, int plan)
{
    const char *names = strchr(text, '('), *words = text;
    char *verb = next_word(&words);
    int trial = 0, step = 0, from = 0;
    request r[COUNT(k->of)];
    k->n = 0;
    if (names != NULL) {
        verb = cut(text, "(", &names);
        for (names = cut(names, ")", &words); *names;)
            k->of[k->n++] = requested_of(next_word(&names));
    } else {
        k->of[k->n++] = whose(&words, k->name);
    }
    if (verb[strlen(verb) - 1] == '*') {
        trial = 1;
        verb[strlen(verb) - 1] = '\0';
    }
    k->rest = names != NULL ? ours_many(stmt_called(verb)) : ours(stmt_called(verb));
    for (int i = 0; i < k->n; i++)
        r[i] = k->of[i]->r;
    if (strcmp(verb, "prune") == 0)
        for (int i = 0; i < k->n; i++)
            r[i].floor = number(looker(), "SELECT coalesce(max(token), 0) FROM {lock}");
    for (int i = 0; i < k->n; i++)
        put_parameters(&r[i], words, &step, &from);
    if (r[0].not_after != INT64_MAX)
        k->of[0]->not_after = r[0].not_after;
    if (trial)
        k->rest = on_trial(k->rest);
    k->rest = step || from ? from_step(k->rest, step ? step : from) : from_worth(k->rest, &r[0]);
    if (step)
        k->rest.n = 1;
    if (plan)
        plan_step(k, expected);
    else
        send_and_see(k, r, expected);
}

/* ---- other steps ----------------------------------------------------------------------------- */

static void sql_step(conn c, const char *sql, const char *expected)
{
    int failed = try_run(c, sql) != 0;
    if (failed != (strcmp(expected, "fails") == 0))
        broken("%s: %s", fill(sql), failed ? bench.db->error(c) : "it does not fail");
}

static int holds(conn c, const char *condition)
{
    return number(c, textf("SELECT CASE WHEN %s THEN 1 ELSE 0 END", condition)) == 1;
}

static void check_step(conn c, const char *condition)
{
    if (!holds(c, column(condition)))
        broken("it is not so that %s", column(condition));
}

static void until_step(const char *condition)
{
    int64_t end = now_us() + patience_ms(8000) * MS;
    while (!holds(looker(), condition)) {
        if (now_us() > end)
            broken("it never came that %s", condition);
        sleep_ms(1);
    }
}

static void let_step(const char *text)
{
    const char *sql, *name = cut(text, " = ", &sql);
    define(name, value(looker(), textf("SELECT %s", sql)));
}

static void holder_step(const char *expected)
{
    int owner = (int)row_owner(looker()), wanted = strcmp(expected, "nobody") ? expected[0] : -1;
    if (owner != wanted)
        broken("the holder is %c, not %s", owner < 0 ? '-' : owner, expected);
}

static void request_words(const char *words)
{
    struct asked *k = requested_of(next_word(&words));
    int step, from;
    put_parameters(&k->r, words, &step, &from);
}

/* Steps of nobody. 0: it is not one of these. */
static int scene_step(const char *verb, const char *rest, const char *expected)
{
    if (strcmp(verb, "check") == 0)
        check_step(looker(), rest);
    else if (strcmp(verb, "until") == 0)
        until_step(rest);
    else if (strcmp(verb, "only") == 0) /* "if": this wrong one is wrong only there */
        stage.over = stage.wrong > 0 && !holds(looker(), rest + 3);
    else if (strcmp(verb, "let") == 0)
        let_step(rest);
    else if (strcmp(verb, "sql") == 0)
        sql_step(looker(), rest, expected);
    else if (strcmp(verb, "request") == 0)
        request_words(rest);
    else if (strcmp(verb, "pause") == 0)
        sleep_ms(atoi(rest));
    else if (strcmp(verb, "hold") == 0)
        hold();
    else if (strcmp(verb, "unhold") == 0)
        unhold();
    else if (strcmp(verb, "expire") == 0)
        let_it_run_out(looker());
    else if (strcmp(verb, "holder") == 0)
        holder_step(expected);
    else
        return 0;
    return 1;
}

static void session_step(struct session *k, const char *text, const char *expected)
{
    const char *rest = text, *verb = next_word(&rest);
    if (!*verb)
        answer_comes(k, expected);
    else if (strcmp(verb, "sql") == 0)
        sql_step(k->c, rest, expected);
    else if (strcmp(verb, "check") == 0)
        check_step(k->c, rest);
    else if (strcmp(verb, "begin") == 0)
        sql_step(k->c, bench.db->server ? "BEGIN" : "BEGIN IMMEDIATE", expected);
    else if (strcmp(verb, "commit") == 0 || strcmp(verb, "rollback") == 0)
        sql_step(k->c, verb, expected);
    else
        request_step(k, strcmp(verb, "plan") == 0 ? rest : text, expected,
                     strcmp(verb, "plan") == 0);
}

/* "who does what -> what comes of it"; where nothing is said, it is done. */
static void play_step(const char *text)
{
    const char *expected, *rest, *verb;
    rest = text = expanded(cut(text, " -> ", &expected));
    expected = *expected ? expanded(column(expected)) : "done";
    verb = next_word(&rest);
    if (!scene_step(verb, rest, expected))
        session_step(session_of(verb), rest, expected);
}

/* "for a b: step", in which {it} is one after the other. */
static void play_line(const struct line *line)
{
    static char where[600];
    const char *text = meant(line->text), *step, *each;
    if (text == NULL)
        return;
    snprintf(where, sizeof where, "%s:%d: %s (%s, %s, row %d)", stage.race->file, line->at,
             line->text, bench.db->mode, stage.wrong ? "the wrong one" : "ours", stage.row + 1);
    bench.where = where;
    if (strncmp(text, "for ", 4) != 0)
        play_step(text);
    else
        for (each = cut(text + 4, ": ", &step); *each;) {
            define("it", next_word(&each));
            play_step(step);
        }
    bench.where = NULL;
}

/* ---- a race ---------------------------------------------------------------------------------- */

int race_is_on(const struct race *race, const char *name, const char *mode)
{
    for (int i = 1; i < race->n_lines; i++)
        if (strncmp(race->lines[i].text, "on ", 3) == 0 && race->lines[i].heading)
            return strstr(race->lines[i].text, name) || strstr(race->lines[i].text, mode);
    return 1;
}

/* Some are for servers that can step over locked rows. */
static void skip_without_batches(void)
{
    int at = section("on", 0);
    if (at < 0 || strstr(heading(at), "skips") == NULL || skips_locked())
        return;
    printf("SKIP: the server cannot step over locked rows\n");
    skip();
}

/* 0: there is no such row. */
static int play_once(const struct race *race, int wrong, int row)
{
    int at;
    memset(&stage, 0, sizeof stage);
    stage.race = race;
    stage.wrong = wrong;
    stage.row = row;
    define_all();
    if (!define_row(row))
        return 0;
    if (wrong + row > 0) { /* the test's setup was for the first time */
        const struct database *db = bench.db;
        bench_end();
        bench_begin(db);
        define_all();
        define_row(row);
    }
    at = section("steps", 0);
    assert_true(at > 0);
    for (; at < race->n_lines && !stage.over; at++)
        play_line(&race->lines[at]);
    for (int i = 0; i < stage.n_sessions; i++)
        if (stage.sessions[i].sent && !stage.over)
            broken("nobody asks for the answer of %s", stage.sessions[i].name);
    return 1;
}

void play(const struct race *race)
{
    stage.race = race;
    skip_without_batches();
    for (int wrong = 0; wrong == 0 || section("wrong", wrong - 1) > 0; wrong++) {
        int row = 0;
        if (wrong > 0 && !is_wrong_here(section("wrong", wrong - 1)))
            continue;
        while (play_once(race, wrong, row))
            row++;
        assert_true(row > 0);
    }
}
