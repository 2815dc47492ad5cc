/* A script of the dialect: which of its steps a request needs, and which go in one packet. */
#include "postgres.h"

/* Of the statements that were sent the first with a row is the answer. *out_n: its rows; *out_by:
 * its number. */
static int answers_take(const struct pg_call *call, PGresult *const *answers, size_t n,
                        sqlock_rows *rows, size_t request, int *out_n, size_t *out_by)
{
    size_t i = 0;
    int rc;

    while (i + 1 < n && PQntuples(answers[i]) == 0)
        i++;
    *out_by = i;
    if ((*out_n = PQntuples(answers[i])) == 0)
        return 0;
    rc = pg_rows_take(answers[i], rows, request);
    if (rc != 0) /* the server has done it */
        sqlock_error_set(call->err, rc, call->applies ? SQLOCK_MAYBE : 0,
                         "no memory for the answer");
    return rc;
}

/* n: one step, or so many in a packet. */
static int script_run_steps(struct pg_conn *c, const struct pg_call *call,
                            const struct pg_part *parts, size_t n, sqlock_rows *rows,
                            size_t request, int *out_n, size_t *out_by)
{
    PGresult *one = NULL;
    PGresult *const *answers = n == 1 ? &one : c->at.answers;
    int rc = n == 1 ? pg_step_run(c, call, &parts->step, parts->params, &one)
                    : pg_run_packet(c, call, parts, n);

    if (rc != 0)
        return rc;
    rc = answers_take(call, answers, n == 1 ? 1 : c->at.n_answers, rows, request, out_n, out_by);
    PQclear(one);
    pg_packet_clear(c);
    return rc;
}

static int step_is(const sqlock_step *step, unsigned flag)
{
    return (step->flags & flag) != 0;
}

/* A request's steps. */
struct script_steps {
    const sqlock_step *all;
    size_t n;
    const sqlock_value *values;
    int packets;  /* several may go in one */
    int joins;    /* and the first one has others behind it in its own */
    size_t begin; /* the first one that is sent */
};

/* It would do nothing. */
static int script_is_vain(const struct script_steps *s, const sqlock_step *step)
{
    return (step_is(step, SQLOCK_STEP_FIRST) && !s->packets) ||
           sqlock_step_is_vain(step->flags, s->values);
}

/* The first one from number i on that is worth to be sent. */
static size_t script_next(const struct script_steps *s, size_t i)
{
    while (i < s->n && script_is_vain(s, &s->all[i]))
        i++;
    return i;
}

/* Which steps go in one packet, from number i on. *out_end: the number of the one behind them.
 * - A step that locks for the next one goes with that.
 * - So do the first step and the looks behind it, of a script that is run once always: these are
 *   the checks of a handshake.
 * - Else if the step did nothing the last time. It may do nothing again: a wait for a lock that is
 *   held, names that are new, a release that others wait for. */
static size_t script_packet(const struct script_steps *s, size_t i, size_t numbers[PG_GROUPS_MAX],
                            size_t *out_end)
{
    const unsigned follows =
        SQLOCK_STEP_LOOK | (step_is(&s->all[i], SQLOCK_STEP_FIRST) ? 0 : SQLOCK_STEP_FIRST);
    const int joins = s->joins && i == s->begin;
    size_t n = 0;

    do {
        for (int left = step_is(&s->all[i], SQLOCK_STEP_FIRST) ? 2 : 1; left > 0 && i < s->n;
             left--) {
            numbers[n++] = i;
            i = script_next(s, i + 1);
        }
    } while (joins && i < s->n && n + 2 <= PG_GROUPS_MAX && step_is(&s->all[i], follows));
    *out_end = i;
    return n;
}

/* Others were at work on what the last requests were about: begin where it is locked first. It was
 * so a moment ago, and is for so many requests more. */
enum { CROWDED = 16 };

static size_t script_begin(const struct pg_conn *c, const struct script_steps *s, sqlock_stmt stmt)
{
    size_t i = 0;

    if (s->packets && stmt < SQLOCK_STMT_COUNT && c->crowded[stmt] > 0)
        while (i < s->n && !step_is(&s->all[i], SQLOCK_STEP_CROWDED))
            i++;
    return script_next(s, i < s->n ? i : 0);
}

/* What the step (and not a look behind it) of the packet at number i has answered. */
static void script_learn(struct pg_conn *c, const struct script_steps *s, sqlock_stmt stmt,
                         size_t i, int answered)
{
    if (i == s->begin)
        c->looked[stmt] = !answered;
    if (i == s->begin && step_is(&s->all[i], SQLOCK_STEP_CROWDED))
        c->crowded[stmt] = answered ? c->crowded[stmt] - 1 : 0;
    else if (answered && step_is(&s->all[i], SQLOCK_STEP_CROWDED))
        c->crowded[stmt] = CROWDED;
}

static struct script_steps script_steps(const struct pg_conn *c, const sqlock_script *script,
                                        sqlock_stmt stmt, int array, const struct pg_params *p)
{
    const int packets = PG_CAP_GROUPS && !c->adopted && !c->in_tx && !array;
    struct script_steps s = {
        .all = array ? script->array_steps : script->steps,
        .n = array ? script->n_array_steps : script->n_steps,
        .values = p->values,
        .packets = packets,
        .joins = packets && stmt < SQLOCK_STMT_COUNT &&
                 ((c->looked[stmt] && !c->likely) || (script->flags & SQLOCK_REQ_ONCE)),
    };

    s.begin = script_begin(c, &s, stmt);
    return s;
}

/* The first step that returns a row ends the script. Steps before it that returned none have not
 * done yet what the request is for. So a failure after them is the failure of the present step
 * alone. */
int pg_script_run(struct pg_conn *c, const struct pg_call *call, const sqlock_script *script,
                  sqlock_stmt stmt, int array, const struct pg_params *p, sqlock_rows *rows,
                  size_t request)
{
    const struct script_steps s = script_steps(c, script, stmt, array, p);
    int once = (script->flags & SQLOCK_REQ_ONCE) != 0, n_rows = 0, rc = 0;
    const struct pg_call aside = {call->deadline, 0, call->err};
    size_t end, by;

    for (size_t i = c->under_way ? c->at.step : s.begin; rc == 0 && n_rows == 0 && i < s.n;
         i = end) {
        size_t numbers[PG_GROUPS_MAX], n = script_packet(&s, i, numbers, &end);
        struct pg_part parts[PG_GROUPS_MAX];

        for (size_t k = 0; k < n; k++)
            parts[k] = (struct pg_part){{stmt, array, once, numbers[k], s.all[numbers[k]].sql}, p};
        c->at.step = i;
        rc = script_run_steps(c, step_is(&s.all[i], SQLOCK_STEP_ASIDE) ? &aside : call, parts, n,
                              rows, request, &n_rows, &by);
        if (rc == 0 && !array && stmt < SQLOCK_STMT_COUNT)
            script_learn(c, &s, stmt, i,
                         n_rows > 0 && by <= (size_t)step_is(&s.all[i], SQLOCK_STEP_FIRST));
    }
    return rc;
}
