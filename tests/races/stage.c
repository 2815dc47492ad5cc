/* What a race is played with: its sessions, the words of its lines, and its statements on trial. */
#include <stdlib.h>

#include "play.h"

struct stage stage;

/* ---- what is played now ---------------------------------------------------------------------- */

struct asked *requested_of(const char *name)
{
    struct asked *k = stage.asked;
    while (k < stage.asked + stage.n_requested && strcmp(k->name, name) != 0)
        k++;
    if (k == stage.asked + stage.n_requested) {
        assert_true(++stage.n_requested <= (int)COUNT(stage.asked));
        snprintf(k->name, sizeof k->name, "%s", name);
        k->r = request_of(name[0], 5000 * MS);
    }
    return k;
}

struct session *session_of(const char *name)
{
    struct session *k = stage.sessions;
    while (k < stage.sessions + stage.n_sessions && strcmp(k->name, name) != 0)
        k++;
    if (k == stage.sessions + stage.n_sessions) {
        assert_true(++stage.n_sessions <= (int)COUNT(stage.sessions));
        snprintf(k->name, sizeof k->name, "%s", name);
        k->c = open_conn();
    }
    return k;
}

conn looker(void)
{
    return session_of("(looks)")->c;
}

bool skips_locked(void)
{
    return bench.db->skips_locked == NULL || bench.db->skips_locked();
}

/* ---- words in braces ------------------------------------------------------------------------- */

void define(const char *name, const char *text)
{
    struct word *w = stage.words;
    while (w < stage.words + stage.n_words && strcmp(w->name, name) != 0)
        w++;
    if (w == stage.words + stage.n_words)
        assert_true(++stage.n_words <= (int)COUNT(stage.words));
    snprintf(w->name, sizeof w->name, "%s", name);
    w->text = text;
}

/* The guard as applications have it, schema/<dialect>/guard.sql, with literals for parameters. */
static char *plain_guard(const struct asked *k)
{
    const char *dialect = bench.db->name, *owner = "'";
    char line[512], *out = NULL;
    size_t size = 0;
    int hits = 0;
    FILE *file = source(textf("schema/%s/guard.sql", dialect)), *text = open_memstream(&out, &size);
    assert_true(file != NULL && text != NULL);
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "--", 2) != 0)
            fputs(line, text);
    fclose(file);
    fclose(text);
    for (int i = 0; i < 16; i++)
        owner = textf("%s%02x%s", owner, k->r.owner[i], i == 15 ? "'" : "");
    out = replaced(out, "public.", "", &hits);
    out = replaced(out, "sqlock_lock", "{lock}", &hits);
    out = replaced(out, ":owner", owner, &hits);
    out = replaced(out, ":token", textf("%lld", (long long)k->r.token), &hits);
    out = replaced(out, ":ttl", textf("%lld", (long long)(k->r.ttl / MS)), &hits);
    out = replaced(out, ":name", "'job'", &hits);
    return keep(replaced(out, ":ns", "'app'", &hits));
}

/* {A.token}: the token that A was granted, and asks with; {A.got}: that it was told last. */
static const char *word_of_requested(const char *name, const char *field)
{
    const struct asked *k = requested_of(name);
    const struct {
        const char *field;
        int64_t value;
    } fields[] = {{"token", k->r.token}, {"not_after", k->not_after}, {"got", k->a.token},
                  {"left", k->a.left},   {"now", k->a.now},           {"since", k->a.since},
                  {"seat", k->a.seat},   {"kept", k->a.kept},         {"grant", k->a.grant}};
    for (size_t i = 0; i < COUNT(fields); i++)
        if (strcmp(fields[i].field, field) == 0)
            return textf("%lld", (long long)fields[i].value);
    if (strcmp(field, "plain_guard") == 0)
        return plain_guard(k);
    if (strcmp(field, "pid") != 0)
        broken("nothing is known of %s.%s", name, field);
    return textf("%d", PQbackendPID(session_of(name)->c.pg));
}

static const char *word_for(const char *name)
{
    const char *field, *asked;
    for (int i = 0; i < stage.n_words; i++)
        if (strcmp(stage.words[i].name, name) == 0)
            return stage.words[i].text;
    asked = cut(name, ".", &field);
    return *field ? word_of_requested(asked, field) : NULL; /* fill() knows the others */
}

/* Words may be made of words. */
char *expanded(const char *text)
{
    char *out = NULL, name[40];
    size_t size = 0;
    FILE *f = open_memstream(&out, &size);
    for (const char *s = text; *s; s++) {
        const char *end = *s == '{' ? strchr(s, '}') : NULL, *word = NULL;
        if (end != NULL && end - s < (int)sizeof name) {
            snprintf(name, sizeof name, "%.*s", (int)(end - s - 1), s + 1);
            word = word_for(name);
        }
        if (word != NULL)
            fputs(expanded(word), f);
        else
            fputc(*s, f);
        s = word != NULL ? end : s;
    }
    fclose(f);
    return keep(out);
}

char *cut(const char *text, const char *end, const char **rest)
{
    const char *at = strstr(text, end);
    *rest = at != NULL ? at + strlen(end) : "";
    return keep(at != NULL ? strndup(text, (size_t)(at - text)) : strdup(text));
}

char *next_word(const char **text)
{
    char *word = cut(*text, " ", text);
    *text += strspn(*text, " ");
    return word;
}

/* ---- whom a line is for ---------------------------------------------------------------------- */

static int is_here(const char *word)
{
    return strcmp(word, bench.db->name) == 0 || strcmp(word, bench.db->mode) == 0;
}

const char *meant(const char *text)
{
    int dbs = 0, here = 0, kinds = 0, kind = 0;
    const char *rest, *words;
    char *word;
    if (text[0] != '[')
        return text;
    words = cut(text + 1, "]", &rest);
    while (*words) {
        word = next_word(&words);
        if (strcmp(word, "skips") == 0) {
            if (!skips_locked())
                return NULL;
        } else if (strcmp(word, "ours") == 0 || strncmp(word, "wrong", 5) == 0) {
            kinds++;
            kind |= word[0] == 'o' ? stage.wrong == 0
                    : word[5]      ? stage.wrong == word[5] - '0'
                                   : stage.wrong > 0;
        } else {
            if (strstr(" postgres mysql sqlite wal rollback ", textf(" %s ", word)) == NULL)
                broken("there is no database %s: %s", word, text);
            dbs++;
            here |= is_here(word);
        }
    }
    return (dbs && !here) || (kinds && !kind) ? NULL : rest + strspn(rest, " ");
}

const char *column(const char *text)
{
    const char *rest = text, *one = "";
    for (int i = 0; i <= stage.wrong && (i == 0 || *rest); i++)
        one = cut(rest, " | ", &rest);
    return one;
}

/* The next line of a section of the race, or of what its file defines, from *i onwards, that is
 * meant for now; NULL: none. */
static const char *next_line(const struct line *lines, int n, int *i)
{
    for (; *i < n && !lines[*i].heading; ++*i) {
        const char *text = meant(lines[*i].text);
        if (text != NULL) {
            ++*i;
            return text;
        }
    }
    return NULL;
}

int section(const char *word, int k)
{
    size_t len = strlen(word);
    for (int i = 0; i < stage.race->n_lines; i++) {
        const char *text = stage.race->lines[i].text;
        if (stage.race->lines[i].heading && strncmp(text, word, len) == 0 &&
            memchr(" :", text[len], 3) != NULL && k-- == 0)
            return i + 1;
    }
    return -1;
}

const char *heading(int section_at)
{
    const char *rest, *words = cut(stage.race->lines[section_at - 1].text, ":", &rest);
    next_word(&words); /* and behind the colon what is wrong with it */
    return words;
}

/* ---- statements ------------------------------------------------------------------------------ */

sqlock_stmt stmt_called(const char *name)
{
    static const char *const names[] = {
#define NAME_OF(id, block, params, since, flags) block,
        SQLOCK_STMTS(NAME_OF)
#undef NAME_OF
    };
    for (size_t i = 0; i < COUNT(names); i++)
        if (strcmp(names[i], name) == 0)
            return i == SQLOCK_STMT_PASS && bench.db->dialect->scripts[i].n_steps == 0
                       ? SQLOCK_STMT_RELEASE /* there it passes the lock on itself */
                       : (sqlock_stmt)i;
    broken("there is no statement %s", name);
}

/* "\n" stands for a new line. */
static char *piece(const char *text)
{
    char *out = expanded(text);
    for (char *at; (at = strstr(out, "\\n")) != NULL;) {
        *at = '\n';
        memmove(at + 1, at + 2, strlen(at + 2) + 1);
    }
    return out;
}

/* "FROM => TO"; "is TEXT" in place of all; "then TEXT" in place of what follows the first step. */
static script damaged(script s, const char *line)
{
    const char *to, *from;
    int many = s.many;
    if (strncmp(line, "is ", 3) == 0) {
        s = written(s.stmt, piece(line + 3));
        s.many = many;
        return s;
    }
    if (strncmp(line, "then ", 5) == 0) {
        s.step[1] = fill(piece(line + 5));
        s.n = 2;
        return s;
    }
    from = cut(line, " =>", &to);
    return changed(s, piece(from), piece(to + strspn(to, " ")));
}

/* The pieces of a section, if they are of this statement. */
static script with_pieces(script s, int at)
{
    const char *line, *words = at > 0 ? heading(at) : "";
    if (at < 0 || !*words || stmt_called(next_word(&words)) != s.stmt)
        return s;
    while ((line = next_line(stage.race->lines, stage.race->n_lines, &at)) != NULL)
        s = damaged(s, line);
    return s;
}

script on_trial(script s)
{
    for (int k = 0; section("ours", k) > 0; k++)
        s = with_pieces(s, section("ours", k));
    return stage.wrong > 0 ? with_pieces(s, section("wrong", stage.wrong - 1)) : s;
}

int is_wrong_here(int at)
{
    const char *words = heading(at);
    return !*words || next_line(stage.race->lines, stage.race->n_lines, &at) != NULL;
}

int define_row(int n)
{
    int at = section("with", 0);
    const char *row = NULL, *names;
    if (at < 0)
        return n == 0;
    names = heading(at);
    for (; n >= 0; n--)
        if ((row = next_line(stage.race->lines, stage.race->n_lines, &at)) == NULL)
            return 0;
    while (*names) {
        const char *cell = cut(row, "  ", &row);
        row += strspn(row, " ");
        define(next_word(&names), strcmp(cell, "''") ? cell : "");
    }
    return 1;
}

void define_all(void)
{
    for (int i = 0; i < stage.race->n_defines; i++) {
        const struct line *line = &stage.race->defines[i];
        int at = i + 1;
        const char *text;
        if (!line->heading)
            continue;
        text = next_line(stage.race->defines, stage.race->n_defines, &at);
        if (text != NULL)
            define(line->text + strlen("define "), text);
    }
}
