/* Several statements in one packet, which the server runs one after the other in one transaction.
 * It commits when it reads the end of the packet. They are requests of several kinds, a statement
 * for each kind; or a step and the look behind it. */
#include <string.h>

#include "postgres.h"

void pg_packet_clear(struct pg_conn *c)
{
    while (c->at.n_answers > 0)
        PQclear(c->at.answers[--c->at.n_answers]);
}

#ifdef LIBPQ_HAS_PIPELINING

static char **part_name(struct pg_conn *c, const struct pg_part *part)
{
    return &c->prepared[part->step.stmt][part->step.array][part->step.n];
}

/* After a pause the first one without a name is the one that is being prepared. */
static int packet_prepare(struct pg_conn *c, const struct pg_call *call,
                          const struct pg_part *parts, size_t n)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < n; i++)
        if (!pg_is_unnamed(c, &parts[i].step) && *part_name(c, &parts[i]) == NULL)
            rc = pg_prepare(c, call, &parts[i].step, parts[i].params);
    return rc;
}

/* Into libpq's memory. */
static int part_send(struct pg_conn *c, const struct pg_part *part)
{
    const struct pg_params *p = part->params;

    return pg_is_unnamed(c, &part->step) ? PQsendQueryParams(c->pg, part->step.sql, p->n, p->types,
                                                             p->data, p->lens, p->formats, 1)
                                         : PQsendQueryPrepared(c->pg, *part_name(c, part), p->n,
                                                               p->data, p->lens, p->formats, 1);
}

static int packet_send(struct pg_conn *c, const struct pg_call *call, const struct pg_part *parts,
                       size_t n)
{
    int rc = pg_ready_behind(c, call), sent = 1;

    if (rc != 0)
        return rc;
    sent = PQenterPipelineMode(c->pg);
    for (size_t i = 0; sent && i < n; i++)
        sent = part_send(c, &parts[i]);
    if (!sent) { /* the server commits nothing without the packet's end */
        rc = pg_fail_lost(c, call);
        call->err->flags &= ~SQLOCK_MAYBE;
        return rc;
    }
    c->under_way = c->at.piped = 1;
    c->at.n_answers = 0;
    return PQpipelineSync(c->pg) ? 0 : pg_fail_lost(c, call);
}

static int packet_begin(struct pg_conn *c, const struct pg_call *call, const struct pg_part *parts,
                        size_t n)
{
    int rc = packet_prepare(c, call, parts, n);

    if (rc == 0)
        rc = packet_send(c, call, parts, n);
    if (rc < 0)
        c->under_way = c->at.piped = 0;
    return rc;
}

/* A failure, or the answer of the next part. What the server skipped after a failure is no news.
 */
static void packet_keep(struct pg_conn *c, PGresult *res)
{
    size_t n = c->at.n_answers;
    int failed = n > 0 && !pg_result_is_success(c->at.answers[n - 1]);

    if (failed || n > PG_GROUPS_MAX)
        PQclear(res);
    else
        c->at.answers[c->at.n_answers++] = res;
}

/* Up to the packet's end. The end of each answer is a NULL. */
static int packet_read(struct pg_conn *c, const struct pg_call *call)
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
        packet_keep(c, res);
    }
    return 0; /* the link broke, which the last answer says */
}

/* What is behind a failure is not read: the connection is closed. */
static int ahead_read(struct pg_conn *c, const struct pg_call *call)
{
    for (int ends = 0; ends < 2;) {
        PGresult *res = NULL;
        int rc = pg_next_result(c, call, &res), is_end;

        if (rc != 0)
            return rc;
        is_end = PQresultStatus(res) == PGRES_PIPELINE_SYNC;
        ends = res == NULL ? ends + 1 : 0;
        if (res != NULL && !is_end && !pg_result_is_success(res)) {
            rc = pg_fail_result(c, call, res);
            c->broken = 1;
            call->err->flags |= SQLOCK_RECONNECT;
        }
        PQclear(res);
        if (is_end)
            c->ahead = 0;
        if (is_end || rc != 0)
            return rc;
    }
    return pg_fail_lost(c, call);
}

int pg_read_ahead(struct pg_conn *c, const struct pg_call *call)
{
    const struct pg_call aside = {call->deadline, 0, call->err};
    int rc = ahead_read(c, &aside);

    return rc == 0 && !PQexitPipelineMode(c->pg) ? pg_fail_lost(c, &aside) : rc;
}

int pg_send_ahead(struct pg_conn *c, const struct pg_call *call, const char *first,
                  const char *second)
{
    int rc = pg_ready(c, call);

    if (rc != 0)
        return rc;
    c->ahead = 1;
    return PQenterPipelineMode(c->pg) &&
                   PQsendQueryParams(c->pg, first, 0, NULL, NULL, NULL, NULL, 0) &&
                   PQsendQueryParams(c->pg, second, 0, NULL, NULL, NULL, NULL, 0) &&
                   PQpipelineSync(c->pg)
               ? 0
               : pg_fail_lost(c, call);
}

/* Of checks in one packet the first answer counts: a later one may fail just because of what it
 * says, such as that there is no table. */
static void packet_forget_late_failure(struct pg_conn *c)
{
    size_t last = c->at.n_answers - 1;

    for (size_t i = 0; i < last; i++)
        if (PQntuples(c->at.answers[i]) > 0) {
            PQclear(c->at.answers[last]);
            c->at.n_answers--;
            return;
        }
}

static int packet_collect(struct pg_conn *c, const struct pg_call *call,
                          const struct pg_part *parts, size_t n)
{
    int rc = c->ahead ? ahead_read(c, call) : 0;
    PGresult *last;

    if (rc == 0)
        rc = packet_read(c, call);
    if (rc == SQLOCK_NOT_YET)
        return rc;
    c->under_way = c->at.piped = 0;
    last = c->at.n_answers > 0 ? c->at.answers[c->at.n_answers - 1] : NULL;
    if (rc == 0 && (!PQexitPipelineMode(c->pg) ||
                    (c->at.n_answers < n && (last == NULL || pg_result_is_success(last)))))
        rc = pg_fail_lost(c, call);
    if (rc == 0 && parts->step.once && !pg_result_is_success(last))
        packet_forget_late_failure(c);
    if (rc == 0)
        rc = pg_check(c, call, c->at.answers[c->at.n_answers - 1]);
    if (rc == 0)
        c->answered = sqlock_now_us();
    else
        pg_packet_clear(c);
    for (size_t i = 0; rc == 0 && i < n; i++)
        pg_note_use(c, &parts[i].step);
    return rc;
}

/* 1: new names and plans may cure it, and nothing was applied. */
static int packet_is_curable(struct pg_conn *c, const struct pg_call *call,
                             const struct pg_part *parts, size_t n)
{
    if (!pg_is_stale(c, call->err))
        return 0;
    for (size_t i = 0; i < n; i++) {
        sqlock_mem_free(*part_name(c, &parts[i]));
        *part_name(c, &parts[i]) = NULL;
    }
    memset(call->err, 0, sizeof *call->err);
    return 1;
}

static int packet_run_once(struct pg_conn *c, const struct pg_call *call,
                           const struct pg_part *parts, size_t n)
{
    int rc = c->at.piped ? 0 : packet_begin(c, call, parts, n);

    return rc != 0 ? rc : packet_collect(c, call, parts, n);
}

int pg_run_packet(struct pg_conn *c, const struct pg_call *call, const struct pg_part *parts,
                  size_t n)
{
    int rc = packet_run_once(c, call, parts, n);

    return rc < 0 && packet_is_curable(c, call, parts, n) ? packet_run_once(c, call, parts, n) : rc;
}

/* By which statement: for one request there may be a cheaper one than the array's. */
static struct pg_step group_step(const struct pg_conn *c, const sqlock_group *group)
{
    const sqlock_script *script = &c->scripts[group->stmt];
    const size_t beside = script->beside - 1u; /* none: larger than all */

    if (group->n == 1 && beside < PG_STEPS_MAX &&
        !sqlock_step_is_vain(script->steps[beside].flags, group->values))
        return (struct pg_step){group->stmt, 0, 0, beside, script->steps[beside].sql};
    return (struct pg_step){group->stmt, 1, 0, 0, script->array_steps[0].sql};
}

/* Without memory for all parameters nothing is sent. */
static int groups_begin(struct pg_conn *c, const struct pg_call *call, const sqlock_group *groups,
                        struct pg_part *parts, size_t n)
{
    struct pg_params *params = sqlock_mem_alloc(n * sizeof *params);
    int rc = 0;

    if (params == NULL)
        return sqlock_error_set(call->err, SQLOCK_ENOMEM, 0, "out of memory");
    for (size_t i = 0; i < n; i++) {
        params[i].n_owned = 0;
        parts[i].params = &params[i];
    }
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = pg_params_of(c, call, &groups[i], parts[i].step.array, &params[i]);
    if (rc == 0)
        rc = packet_begin(c, call, parts, n);
    for (size_t i = 0; i < n; i++)
        pg_params_free(&params[i]);
    sqlock_mem_free(params);
    return rc;
}

static int groups_run_once(struct pg_conn *c, const struct pg_call *call,
                           const sqlock_group *groups, struct pg_part *parts, size_t n)
{
    int rc = c->at.piped ? 0 : groups_begin(c, call, groups, parts, n);

    return rc != 0 ? rc : packet_collect(c, call, parts, n);
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
    pg_packet_clear(c);
    return rc == 0 ? 0 /* else the server has done it */
                   : sqlock_error_set(call->err, rc, call->applies ? SQLOCK_MAYBE : 0,
                                      "no memory for the answer");
}

int pg_run_groups(struct pg_conn *c, const struct pg_call *call, const sqlock_group *first,
                  const sqlock_call *more, sqlock_rows *rows)
{
    sqlock_group groups[PG_GROUPS_MAX];
    struct pg_part parts[PG_GROUPS_MAX];
    size_t n = 1 + more->n_more;
    int rc;

    if (n > PG_GROUPS_MAX)
        return sqlock_error_set(call->err, SQLOCK_EINVAL, 0, "too many kinds of requests");
    groups[0] = *first;
    if (more->n_more > 0)
        memcpy(groups + 1, more->more, more->n_more * sizeof *groups);
    for (size_t i = 0; i < n; i++)
        parts[i].step = group_step(c, &groups[i]);
    rc = groups_run_once(c, call, groups, parts, n);
    if (rc < 0 && packet_is_curable(c, call, parts, n))
        rc = groups_run_once(c, call, groups, parts, n);
    return rc == 0 ? groups_take(c, call, groups, rows) : rc;
}

#else

int pg_read_ahead(struct pg_conn *c, const struct pg_call *call)
{
    (void)call;
    c->ahead = 0;
    return 0;
}

int pg_send_ahead(struct pg_conn *c, const struct pg_call *call, const char *first,
                  const char *second)
{
    int rc = pg_command(c, call, first, NULL);

    return rc == 0 ? pg_command(c, call, second, NULL) : rc;
}

int pg_run_packet(struct pg_conn *c, const struct pg_call *call, const struct pg_part *parts,
                  size_t n)
{
    (void)c;
    (void)parts;
    (void)n;
    return sqlock_error_set(call->err, SQLOCK_EINVAL, 0,
                            "this libpq sends one statement at a time");
}

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
