/* Requests, and the library's statements as texts that a test may damage. */
#include "bench.h"

#include <stdlib.h>
#include <unistd.h>

request request_of(char owner, int64_t ttl)
{
    request r = {"app", "job", 3, 3, {0}, 0, ttl, INT64_MAX, INT64_MAX, 0, 0, 0, NULL};
    memset(r.owner, owner, sizeof r.owner);
    return r;
}

request request_token(request r, int64_t token)
{
    r.token = token;
    return r;
}

request request_name(request r, const char *name, size_t len)
{
    r.name = name;
    r.name_len = len;
    return r;
}

/* Every `from` becomes `to`; *hits counts them. Frees text. */
static char *replaced(char *text, const char *from, const char *to, int *hits)
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

char *fill(const char *text)
{
    int pg = bench.dialect == &sqlock_postgres_dialect, my = is_mysql();
    const char *words[] = {"{lock}",   "{meta}",      "{migration}", "{row}",          "{register}",
                           "{broken}", "{lock:text}", "{meta:text}", "{register:text}"};
    const char *tables[] = {"lock",   "meta", "migration", "row",     "register",
                            "broken", "lock", "meta",      "register"};
    char name[160];
    char *out = NULL;
    int hits = 0;
    if (my)
        snprintf(name, sizeof name, "GET_LOCK('race_%d', 20) + RELEASE_LOCK('race_%d') = 2",
                 (int)getpid(), (int)getpid());
    else
        snprintf(name, sizeof name, "(SELECT pg_advisory_xact_lock_shared(731205, %d)::text) = ''",
                 (int)getpid());
    out = replaced(strdup(text), "{hold}", name, &hits);
    for (size_t i = 0; i < COUNT(words); i++) {
        const char *q = strstr(words[i], ":text") ? "'" : "";
        char i_q = my ? '`' : '"';
        snprintf(name, sizeof name, "%s%c%s%c.%csqlock_%s%c%s", q, i_q,
                 pg || my ? bench.schema : "main", i_q, i_q, tables[i], i_q, q);
        out = replaced(out, words[i], name, &hits);
    }
    out = replaced(out, "{schema}", pg || my ? bench.schema : "main", &hits);
    out = replaced(out, "{prefix}", "sqlock_", &hits);
    return keep(pg ? unqualified(out) : out);
}

static script take(sqlock_stmt stmt, const sqlock_step *steps, int n)
{
    script s = {stmt, n, {NULL}, {0}};
    assert_true(n >= 1 && n <= MAX_STEPS);
    for (int i = 0; i < n; i++) {
        char *text = my_numbered(&steps[i]);

        s.step[i] = fill(text);
        free(text);
        s.flags[i] = steps[i].flags;
    }
    return s;
}

script ours(sqlock_stmt stmt)
{
    const sqlock_script *from = &bench.dialect->scripts[stmt];
    /* handshake has more steps than a race needs: the last one tells who the server is */
    int skip = from->n_steps > MAX_STEPS ? from->n_steps - MAX_STEPS : 0;
    return take(stmt, from->steps + skip, from->n_steps - skip);
}

script ours_array(sqlock_stmt stmt)
{
    const sqlock_script *from = &bench.dialect->scripts[stmt];
    return take(stmt, from->array_steps, from->n_array_steps);
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
        fail_msg("the statement has no \"%s\" to change", f);
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
    };
    for (size_t i = 0; i < COUNT(known); i++)
        if (is_named(param, known[i].name))
            return known[i].value;
    fail_msg("no test knows a value for %s", param);
    return integer(0);
}

/* The request's parameters, in driver.h's order. */
int bind_request(sqlock_stmt stmt, const request *r, sqlock_value *v)
{
    const sqlock_script *texts = &bench.dialect->scripts[stmt];
    const char *param = texts->params;
    for (int i = 0; i < texts->n_params; i++) {
        v[i] = parameter(param, r);
        param += strcspn(param, " ");
        param += strspn(param, " ");
    }
    return texts->n_params;
}
