/* Requests, and the library's statements as texts that a test may damage. */
#include "bench.h"

#include <ctype.h>
#include <stdlib.h>
#include <unistd.h>

request request_of(char owner, int64_t ttl)
{
    request r = {.ns = "app",
                 .name = "job",
                 .ns_len = 3,
                 .name_len = 3,
                 .ttl = ttl,
                 .not_after = INT64_MAX,
                 .cut = INT64_MAX,
                 .waits = 1,
                 .seats = -1};
    memset(r.owner, owner, sizeof r.owner);
    memset(r.client, owner, sizeof r.client);
    return r;
}

char *replaced(char *text, const char *from, const char *to, int *hits)
{
    char *out = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&out, &size);
    const char *rest = text, *at = NULL;
    assert_non_null(f);
    while ((at = strstr(rest, from)) != NULL) {
        fprintf(f, "%.*s%s", (int)(at - rest), rest, to);
        rest = at + strlen(from);
        (*hits)++;
    }
    fputs(rest, f);
    fclose(f);
    free(text);
    return out;
}

/* PostgreSQL's statements as they were written: a race is about what they do, not about who else
 * has an operator of that name. The build has seen to it that both mean the same. Frees text. */
static char *unqualified(char *text)
{
    static const char before[] = "OPERATOR(pg_catalog.";
    int hits = 0;

    for (char *at = text, *end; (at = strstr(at, before)) != NULL; at++) {
        end = strchr(at, ')');
        memmove(end, end + 1, strlen(end));
        memmove(at, at + sizeof before - 1, strlen(at + sizeof before - 1) + 1);
    }
    return replaced(text, "pg_catalog.", "", &hits);
}

/* {lock} is a table, and {lock:text} its name as a string. */
static char *put_table(char *text, const char *table)
{
    const char *schema = bench.db->server != NULL ? bench.schema : "main";
    char word[32], name[160], q = bench.db->quote;
    int hits = 0;
    snprintf(word, sizeof word, "{%s:text}", table);
    snprintf(name, sizeof name, "'%c%s%c.%csqlock_%s%c'", q, schema, q, q, table, q);
    text = replaced(text, word, name, &hits);
    snprintf(word, sizeof word, "{%s}", table);
    snprintf(name, sizeof name, "%c%s%c.%csqlock_%s%c", q, schema, q, q, table, q);
    return replaced(text, word, name, &hits);
}

const char *const outcomes[N_OUTCOMES] = {
    "none",  "done",   "held",     "skipped", "late",     "released", "broken", "reaped",
    "taken", "gone",   "expired",  "kind",    "guarded",  "stranger", "never",  "early",
    "idle",  "stale",  "conflict", "grace",   "readonly", "weak",     "unfit",  "denied",
    "24",    "behind", "queued",   "seated",  "turn",     "unlike",   "full"};

/* {DONE}, {ENDED_RELEASED}: the numbers that schema/embed.awk puts into the statements. */
static char *put_number(char *text, const char *before, const char *name, int number)
{
    char word[32], digits[16];
    int hits = 0;
    snprintf(word, sizeof word, "{%s%s}", before, name);
    for (char *c = word; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    snprintf(digits, sizeof digits, "%d", number);
    return strstr(text, word) != NULL ? replaced(text, word, digits, &hits) : text;
}

static char *put_numbers(char *text)
{
    for (int i = 0; i < N_OUTCOMES; i++)
        text = put_number(text, "", outcomes[i], i);
    for (int i = SQLOCK_OUT_RELEASED; i <= SQLOCK_OUT_TAKEN; i++)
        text = put_number(text, "ENDED_", outcomes[i], i - SQLOCK_OUT_RELEASED + 1);
    return text;
}

char *fill(const char *text)
{
    const char *tables[] = {"lock",     "meta",   "migration", "row",
                            "register", "broken", "waiter",    "client"};
    char pid[16];
    char *out = strdup(text);
    int hits = 0;
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    out = replaced(out, "{hold}", bench.db->held, &hits);
    out = replaced(out, "{pid}", pid, &hits);
    out = replaced(out, "{now}", bench.db->now, &hits);
    out = replaced(out, "{ms}", bench.db->ms, &hits);
    for (size_t i = 0; i < COUNT(tables); i++)
        out = put_table(out, tables[i]);
    out = put_numbers(out);
    out = replaced(out, "{schema}", bench.db->server != NULL ? bench.schema : "main", &hits);
    out = replaced(out, "{prefix}", "sqlock_", &hits);
    return keep(bench.db == &postgres ? unqualified(out) : out);
}

static script take(sqlock_stmt stmt, const sqlock_step *steps, int n)
{
    script s = {stmt, 0, 0, {NULL}, {0}};
    for (int i = 0; i < n; i++) {
        char *text;

        if (steps[i].flags & SQLOCK_STEP_DURABLE)
            continue; /* a question to the driver */
        assert_true(s.n < MAX_STEPS);
        text = my_numbered(&steps[i]);
        s.step[s.n] = fill(text);
        free(text);
        s.flags[s.n++] = steps[i].flags;
    }
    assert_true(s.n >= 1);
    return s;
}

script ours(sqlock_stmt stmt)
{
    const sqlock_script *from = &bench.db->dialect->scripts[stmt];
    /* handshake has more steps than a race needs: the last four say who the server is */
    int skip = stmt == SQLOCK_STMT_HANDSHAKE && from->n_steps > 4 ? from->n_steps - 4 : 0;
    return take(stmt, from->steps + skip, from->n_steps - skip);
}

script ours_many(sqlock_stmt stmt)
{
    const sqlock_script *from = &bench.db->dialect->scripts[stmt];
    script s = take(stmt, from->array_steps, from->n_array_steps);
    s.many = 1;
    return s;
}

script from_step(script s, int step)
{
    s.n -= step - 1;
    memmove(s.step, s.step + step - 1, (size_t)s.n * sizeof *s.step);
    memmove(s.flags, s.flags + step - 1, (size_t)s.n * sizeof *s.flags);
    return s;
}

script written(sqlock_stmt stmt, const char *text)
{
    const sqlock_step step = {text, NULL, 0, SQLOCK_STEP_WRITE};
    return take(stmt, &step, 1);
}

script changed(script s, const char *from, const char *to)
{
    int hits = 0;
    char *f = fill(from), *t = fill(to);
    for (int i = 0; i < s.n; i++)
        s.step[i] = keep(replaced(strdup(s.step[i]), f, t, &hits));
    if (!hits)
        broken("the statement has no \"%s\" to change", f);
    return s;
}

static sqlock_value bytes(const void *data, size_t len)
{
    return (sqlock_value){SQLOCK_BYTES, 0, data, len};
}

static sqlock_value integer(int64_t i)
{
    return (sqlock_value){SQLOCK_INT, i, NULL, 0};
}

static int is_named(const char *param, const char *name)
{
    size_t len = strlen(name);
    return strncmp(param + 2, name, len) == 0 && (param[2 + len] == ' ' || param[2 + len] == '\0');
}

/* "b:ns", "i:ttl": what a request says for the parameter at `param`. */
static sqlock_value parameter(const char *param, const request *r)
{
    const struct {
        const char *name;
        sqlock_value value;
    } known[] = {
        {"ns", bytes(r->ns, r->ns_len)},
        {"name", bytes(r->name, r->name_len)},
        {"owner", bytes(r->owner, sizeof r->owner)},
        {"token", integer(r->token)},
        {"ttl", integer(r->ttl)},
        {"not_after", integer(r->not_after)},
        {"grace", integer(r->grace)},
        {"lift", integer(r->lift)},
        {"label", bytes("label", 5)},
        {"to_ns", bytes(r->ns, r->ns_len)},
        {"to", r->to != NULL ? bytes(r->to, strlen(r->to)) : bytes(r->name, r->name_len)},
        {"own", bytes("\0sqlock", 7)},
        {"cut", integer(r->cut)},
        {"limit", integer(100)},
        {"floor", integer(r->floor)},
        {"accept_weak", integer(1)},
        {"server", bytes(r->name, r->name_len)},
        {"value", bytes(r->owner, sizeof r->owner)}, /* so that it tells whose it is */
        {"writer", bytes(r->owner, sizeof r->owner)},
        {"expected", integer(r->token)},
        {"above", integer(0)},
        {"client", bytes(r->client, sizeof r->client)},
        {"next", bytes(r->next, 16)},
        {"waits", integer(r->waits)},
        {"mode", integer(r->mode)},
        {"again", integer(r->again)},
        {"gives", integer(1)},
        {"alive", integer(60000 * MS)},
        {"session", integer(r->session)},
        {"seat", integer(0)},
        {"seats", integer(r->seats)},
        {"turn", integer(r->turn)},
        {"beside", bytes(r->beside != NULL ? r->beside : r->owner, sizeof r->owner)},
    };
    for (size_t i = 0; i < COUNT(known); i++)
        if (is_named(param, known[i].name))
            return known[i].value;
    broken("no test knows a value for %s", param);
}

/* The request's parameters, in driver.h's order. */
int bind_request(sqlock_stmt stmt, const request *r, sqlock_value *v)
{
    const sqlock_script *texts = &bench.db->dialect->scripts[stmt];
    const char *param = texts->params;
    for (int i = 0; i < texts->n_params; i++) {
        v[i] = parameter(param, r);
        param += strcspn(param, " ");
        param += strspn(param, " ");
    }
    return texts->n_params;
}

static bool step_is_vain(const script *s, const request *r)
{
    sqlock_value v[MAX_PARAMS];
    bind_request(s->stmt, r, v);
    return sqlock_step_is_vain(s->flags[0], v);
}

script from_worth(script s, const request *r)
{
    while (s.n > 1 && step_is_vain(&s, r))
        s = from_step(s, 2);
    return s;
}
