/* Requests of several kinds in one packet: a statement for each kind, which the server runs one
 * after the other in one transaction. It commits when it reads the end of the packet. */
#include <string.h>

#include "postgres.h"

#ifdef LIBPQ_HAS_PIPELINING

static struct pg_step group_step(const struct pg_conn *c, const sqlock_group *g)
{
    return (struct pg_step){g->stmt, 1, 0, 0, c->scripts[g->stmt].array_steps[0].sql};
}

static char **group_name(struct pg_conn *c, const sqlock_group *g)
{
    return &c->prepared[g->stmt][1][0];
}

static int group_prepare(struct pg_conn *c, const struct pg_call *call, const sqlock_group *g,
                         const struct pg_params *p)
{
    struct pg_step step = group_step(c, g);

    return c->unprepared || *group_name(c, g) != NULL ? 0 : pg_prepare(c, call, &step, p);
}

/* Into libpq's memory. */
static int group_send(struct pg_conn *c, const sqlock_group *g, const struct pg_params *p)
{
    return c->unprepared ? PQsendQueryParams(c->pg, group_step(c, g).sql, p->n, p->types, p->data,
                                             p->lens, p->formats, 1)
                         : PQsendQueryPrepared(c->pg, *group_name(c, g), p->n, p->data, p->lens,
                                               p->formats, 1);
}

static int groups_send(struct pg_conn *c, const struct pg_call *call, const sqlock_group *groups,
                       const struct pg_params *params, size_t n)
{
    int rc = pg_ready(c, call), sent = 1;

    if (rc != 0)
        return rc;
    sent = PQenterPipelineMode(c->pg);
    for (size_t i = 0; sent && i < n; i++)
        sent = group_send(c, &groups[i], &params[i]);
    if (!sent) { /* the server commits nothing without the packet's end */
        rc = pg_fail_lost(c, call);
        call->err->flags &= ~SQLOCK_MAYBE;
        return rc;
    }
    c->under_way = c->at.piped = 1;
    c->at.n_answers = 0;
    return PQpipelineSync(c->pg) ? 0 : pg_fail_lost(c, call);
}

/* Without memory for all parameters nothing is sent. */
static int groups_begin(struct pg_conn *c, const struct pg_call *call, const sqlock_group *groups,
                        size_t n)
{
    struct pg_params *params = sqlock_mem_alloc(n * sizeof *params);
    int rc = 0;

    if (params == NULL)
        return sqlock_error_set(call->err, SQLOCK_ENOMEM, 0, "out of memory");
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = pg_params_of(c, call, &groups[i], 1, &params[i]);
    for (size_t i = c->under_way ? c->at.request : 0; rc == 0 && i < n; i++) {
        c->at.request = i;
        rc = group_prepare(c, call, &groups[i], &params[i]);
    }
    if (rc == 0)
        rc = groups_send(c, call, groups, params, n);
    for (size_t i = 0; i < n; i++)
        pg_params_free(&params[i]);
    sqlock_mem_free(params);
    if (rc < 0)
        c->under_way = c->at.piped = 0;
    return rc;
}

/* A failure, or the answer of the next group. What the server skipped after a failure is no news.
 */
static void groups_keep(struct pg_conn *c, PGresult *res)
{
    size_t n = c->at.n_answers;
    int failed = n > 0 && !pg_result_is_success(c->at.answers[n - 1]);

    if (failed || n == PG_GROUPS_MAX)
        PQclear(res);
    else
        c->at.answers[c->at.n_answers++] = res;
}

/* Up to the packet's end. The end of each answer is a NULL. */
static int groups_read(struct pg_conn *c, const struct pg_call *call)
{
    for (int ends = 0; ends < 2;) {
        PGresult *res = NULL;
        int rc = pg_next_result(c, call, &res);

        if (rc != 0)
            return rc;
        if (res == NULL) {
            ends++;
            continue;
        }
        ends = 0;
        if (PQresultStatus(res) == PGRES_PIPELINE_SYNC) {
            PQclear(res);
            return 0;
        }
        groups_keep(c, res);
    }
    return 0; /* the link broke, which the last answer says */
}

static int groups_take(struct pg_conn *c, const struct pg_call *call, const sqlock_group *groups,
                       sqlock_rows *rows)
{
    size_t first = 0;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < c->at.n_answers; i++) {
        rc = pg_rows_take(c->at.answers[i], rows, first);
        first += groups[i].n;
    }
    return rc == 0 ? 0 /* else the server has done it */
                   : sqlock_error_set(call->err, rc, call->applies ? SQLOCK_MAYBE : 0,
                                      "no memory for the answer");
}

static void groups_clear(struct pg_conn *c)
{
    while (c->at.n_answers > 0)
        PQclear(c->at.answers[--c->at.n_answers]);
}

static int groups_collect(struct pg_conn *c, const struct pg_call *call, const sqlock_group *groups,
                          size_t n, sqlock_rows *rows)
{
    int rc = groups_read(c, call);
    PGresult *last;

    if (rc == SQLOCK_NOT_YET)
        return rc;
    c->under_way = c->at.piped = 0;
    last = c->at.n_answers > 0 ? c->at.answers[c->at.n_answers - 1] : NULL;
    if (rc == 0 && (!PQexitPipelineMode(c->pg) ||
                    (c->at.n_answers < n && (last == NULL || pg_result_is_success(last)))))
        rc = pg_fail_lost(c, call);
    if (rc == 0)
        rc = pg_check(c, call, last);
    if (rc == 0) {
        c->answered = sqlock_now_us();
        rc = groups_take(c, call, groups, rows);
    }
    groups_clear(c);
    return rc;
}

static int groups_run_once(struct pg_conn *c, const struct pg_call *call,
                           const sqlock_group *groups, size_t n, sqlock_rows *rows)
{
    int rc = c->at.piped ? 0 : groups_begin(c, call, groups, n);

    return rc != 0 ? rc : groups_collect(c, call, groups, n, rows);
}

int pg_run_groups(struct pg_conn *c, const struct pg_call *call, const sqlock_group *first,
                  const sqlock_call *more, sqlock_rows *rows)
{
    sqlock_group groups[PG_GROUPS_MAX];
    size_t n = 1 + more->n_more;
    int rc;

    if (n > PG_GROUPS_MAX)
        return sqlock_error_set(call->err, SQLOCK_EINVAL, 0, "too many kinds of requests");
    groups[0] = *first;
    memcpy(groups + 1, more->more, more->n_more * sizeof *groups);
    rc = groups_run_once(c, call, groups, n, rows);
    if (rc >= 0 || !pg_is_stale(c, call->err))
        return rc;
    for (size_t i = 0; i < n; i++) { /* a new name and plan cure it, and nothing was applied */
        sqlock_mem_free(*group_name(c, &groups[i]));
        *group_name(c, &groups[i]) = NULL;
    }
    memset(call->err, 0, sizeof *call->err);
    return groups_run_once(c, call, groups, n, rows);
}

#else

int pg_run_groups(struct pg_conn *c, const struct pg_call *call, const sqlock_group *first,
                  const sqlock_call *more, sqlock_rows *rows)
{
    (void)c;
    (void)first;
    (void)more;
    (void)rows;
    return sqlock_error_set(call->err, SQLOCK_EINVAL, 0,
                            "this libpq sends one statement at a time");
}

#endif
