/* Statements, prepared or not; requests; migrations, transactions; and the driver's table. */
#include <stdio.h>
#include <string.h>

#include "postgres.h"

/* The caller's, to be freed; NULL: out of memory. */
static char *stmt_new_name(struct pg_conn *c, const struct pg_step *step)
{
    char *name = sqlock_mem_alloc(PG_NAME_SIZE);

    if (name != NULL)
        snprintf(name, PG_NAME_SIZE, "sqlock_%s_%s%zu_%08x%08x_%u", c->scripts[step->stmt].name,
                 step->array ? "a" : "", step->n + 1, (unsigned)c->tag[0], (unsigned)c->tag[1],
                 ++c->last_prepared);
    return name;
}

int pg_is_unnamed(const struct pg_conn *c, const struct pg_step *step)
{
    return c->unprepared || step->once || step->n >= PG_STEPS_MAX ||
           !c->used[step->stmt][step->array][step->n];
}

void pg_note_use(struct pg_conn *c, const struct pg_step *step)
{
    if (step->stmt < SQLOCK_STMT_COUNT && step->n < PG_STEPS_MAX)
        c->used[step->stmt][step->array][step->n] = 1;
}

int pg_prepare(struct pg_conn *c, const struct pg_call *call, const struct pg_step *step,
               const struct pg_params *p)
{
    /* Preparing changes nothing, so a lost answer to it leaves no doubt. */
    struct pg_call prepare_call = {call->deadline, 0, call->err};
    char *name = c->at.name;
    int rc = c->under_way ? 0 : pg_ready(c, &prepare_call);

    if (rc != 0)
        return rc;
    if (name == NULL && (name = stmt_new_name(c, step)) == NULL)
        return sqlock_error_set(call->err, SQLOCK_ENOMEM, 0, "out of memory");
    rc = pg_collect(c, &prepare_call,
                    c->under_way || PQsendPrepare(c->pg, name, step->sql, p->n, p->types), NULL);
    c->at.name = rc == SQLOCK_NOT_YET ? name : NULL;
    if (rc < 0)
        sqlock_mem_free(name);
    if (rc != 0)
        return rc;
    c->prepared[step->stmt][step->array][step->n] = name;
    c->answered = 0; /* look at the socket before the next request: the session may end right after
                        this answer */
    return 0;
}

/* The prepared statement is gone (a DEALLOCATE, another session behind a pooler), its columns have
 * other types, or its name exists. */
int pg_is_stale(const struct pg_conn *c, const sqlock_error *err)
{
    return !c->in_tx && !c->broken &&
           (strcmp(err->sqlstate, "26000") == 0 || strcmp(err->sqlstate, "0A000") == 0 ||
            strcmp(err->sqlstate, "42P05") == 0);
}

static int step_run_prepared(struct pg_conn *c, const struct pg_call *call,
                             const struct pg_step *step, const struct pg_params *p,
                             PGresult **out_res)
{
    char **name = &c->prepared[step->stmt][step->array][step->n];
    int rc = 0;

    for (int tries = 0; tries < 2; tries++) {
        rc = *name == NULL ? pg_prepare(c, call, step, p) : 0;
        if (rc == 0 && !c->under_way)
            rc = pg_ready(c, call);
        if (rc == 0)
            rc = pg_collect(c, call,
                            c->under_way || PQsendQueryPrepared(c->pg, *name, p->n, p->data,
                                                                p->lens, p->formats, 1),
                            out_res);
        if (rc >= 0 || !pg_is_stale(c, call->err))
            break;
        sqlock_mem_free(*name);
        *name = NULL;
        if (tries == 0)
            memset(call->err, 0, sizeof *call->err); /* it may be cured */
    }
    return rc;
}

static int step_run_unnamed(struct pg_conn *c, const struct pg_call *call,
                            const struct pg_step *step, const struct pg_params *p,
                            PGresult **out_res)
{
    int rc = pg_adopted_reads(c, call, step->sql);

    if (rc == 0 && !c->under_way)
        rc = pg_ready(c, call);
    if (rc != 0)
        return rc;
    return pg_collect(c, call,
                      c->under_way || PQsendQueryParams(c->pg, step->sql, p->n, p->types, p->data,
                                                        p->lens, p->formats, 1),
                      out_res);
}

int pg_step_run(struct pg_conn *c, const struct pg_call *call, const struct pg_step *step,
                const struct pg_params *p, PGresult **out_res)
{
    int rc;

    if (!c->under_way)
        c->at.unnamed = pg_is_unnamed(c, step);
    rc = c->at.unnamed ? step_run_unnamed(c, call, step, p, out_res)
                       : step_run_prepared(c, call, step, p, out_res);
    if (rc == 0)
        pg_note_use(c, step);
    return rc;
}

int pg_params_of(struct pg_conn *c, const struct pg_call *call, const sqlock_group *g, int array,
                 struct pg_params *p)
{
    const sqlock_script *script = &c->scripts[g->stmt];
    Oid **types = &c->types[g->stmt];
    int rc = *types == NULL ? pg_params_types(script, types) : 0;

    p->n_owned = 0;
    if (rc == 0)
        rc = array ? pg_params_array(p, *types, g->values, script->n_params, g->n)
                   : pg_params_one(p, *types, g->values, script->n_params);
    if (rc != 0)
        return sqlock_error_set(call->err, rc, 0, "%s: the parameters cannot be sent",
                                script->name);
    if (script->flags & SQLOCK_REQ_LAZY)
        pg_params_add_lazy(p, c->lazy);
    return 0;
}

/* g: one request, or many for an array. */
static int request_run(struct pg_conn *c, const struct pg_call *call, const sqlock_group *g,
                       sqlock_rows *rows, size_t request)
{
    struct pg_params p;
    int rc = pg_params_of(c, call, g, g->n > 1, &p);

    if (rc == 0)
        rc = pg_script_run(c, call, &c->scripts[g->stmt], g->stmt, g->n > 1, &p, rows, request);
    pg_params_free(&p);
    return rc;
}

/* After a failure that left the connection usable, core expects no open transaction. */
static void tx_leave(struct pg_conn *c, const struct pg_call *call)
{
    sqlock_error ignored = {.code = 0};
    struct pg_call undo = {call->deadline, 0, &ignored};

    if (!c->in_tx || c->adopted)
        return;
    c->in_tx = 0;
    if (c->broken || pg_command(c, &undo, "ROLLBACK", NULL) == 0)
        return;
    c->broken = 1;
    call->err->flags |= SQLOCK_RECONNECT;
}

/* If it was paused, c->under_way is set: each function is entered again as it was before, and none
 * sends what it has sent. */
int pg_run(void *conn, const sqlock_call *number, sqlock_stmt stmt, const sqlock_value *values,
           size_t n, int64_t deadline, sqlock_rows *rows, sqlock_error *err)
{
    struct pg_conn *c = conn;
    const sqlock_script *script = &c->scripts[stmt];
    const sqlock_group all = {stmt, values, n};
    struct pg_call call = {deadline, !c->in_tx && SQLOCK_LEAVES_DOUBT(script->flags), err};
    size_t n_before = sqlock_rows_count(rows);
    int rc = 0;

    if (c->adopted && (rc = pg_adopted_enter(c, &call, 0)) != 0) {
        pg_call_end(c);
        return rc;
    }
    if (!c->adopted)
        c->call = number != NULL ? number->number : 0;
    c->pauses = number != NULL && (number->flags & SQLOCK_CALL_PAUSES);
    c->lazy = number != NULL && (number->flags & SQLOCK_CALL_LAZY);
    c->likely = number != NULL && (number->flags & SQLOCK_CALL_LIKELY);
    if (number != NULL && number->n_more > 0) {
        rc = pg_run_groups(c, &call, &all, number, rows);
    } else if (n == 1 || script->n_array_steps > 0) {
        rc = request_run(c, &call, &all, rows, 0); /* column index says which answer is whose */
    } else {
        for (size_t i = c->under_way ? c->at.request : 0; rc == 0 && i < n; i++) {
            sqlock_group one = {stmt, values + i * script->n_params, 1};

            rc = request_run(c, &call, &one, rows, i);
            c->at.request = i;
            if (rc < 0 && i > 0 && call.applies) /* the earlier ones are committed */
                err->flags |= SQLOCK_MAYBE;
        }
    }
    c->pauses = 0;
    if (rc < 0) {
        sqlock_rows_cut(rows, n_before);
        tx_leave(c, &call);
    }
    if (c->adopted)
        pg_adopted_leave(c);
    pg_call_end(c);
    return rc;
}

int pg_run_script(void *conn, const sqlock_script *script, const sqlock_value *values,
                  int64_t deadline, sqlock_rows *rows, sqlock_error *err)
{
    struct pg_conn *c = conn;
    struct pg_call call = {deadline, 0, err};
    size_t n_before = sqlock_rows_count(rows);
    struct pg_params p;
    int rc = pg_params_loose(&p, values, script->n_params);

    if (rc != 0)
        sqlock_error_set(err, rc, 0, "a value cannot be sent");
    else if ((rc = pg_adopted_enter(c, &call, 0)) == 0) {
        rc = pg_script_run(c, &call, script, SQLOCK_STMT_COUNT, 0, &p, rows, 0);
        pg_adopted_leave(c);
    }
    if (rc != 0)
        sqlock_rows_cut(rows, n_before);
    pg_params_free(&p);
    pg_call_end(c);
    return rc;
}

int pg_exec(void *conn, const char *sql, int64_t deadline, sqlock_error *err)
{
    struct pg_conn *c = conn;
    struct pg_call call = {deadline, !c->in_tx, err};
    int rc;

    rc = pg_command(c, &call, sql, NULL);
    if (rc != 0)
        tx_leave(c, &call);
    return rc;
}

/* in_tx is set first: with it, an open transaction after the answer is right. */
int pg_begin(void *conn, int64_t deadline, sqlock_error *err)
{
    struct pg_conn *c = conn;
    struct pg_call call = {deadline, 0, err};
    int rc;

    if (c->in_tx)
        return sqlock_error_set(err, SQLOCK_ESTATE, 0, "a transaction is open already");
    c->in_tx = 1;
    /* a migration waits for other users of the tables, and is not begun anew */
    rc = pg_command(c, &call,
                    c->unprepared
                        ? "BEGIN ISOLATION LEVEL READ COMMITTED"
                        : "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = 0",
                    NULL);
    if (rc != 0)
        c->in_tx = 0;
    return rc;
}

/* COMMIT of a failed transaction is a success too, with another tag. */
int pg_commit(void *conn, int64_t deadline, sqlock_error *err)
{
    struct pg_conn *c = conn;
    struct pg_call call = {deadline, 1, err};
    PGresult *res = NULL;
    int rc;

    if (!c->in_tx)
        return sqlock_error_set(err, SQLOCK_ESTATE, 0, "no transaction is open");
    rc = pg_ready(c, &call);
    if (rc != 0) {
        tx_leave(c, &call);
        return rc;
    }
    c->in_tx = 0;
    rc = pg_collect(c, &call, PQsendQuery(c->pg, "COMMIT"), &res);
    if (rc == 0 && strcmp(PQcmdStatus(res), "COMMIT") != 0)
        rc = sqlock_error_db(err, "40000", 0, 0, "the server rolled back instead of committing");
    PQclear(res);
    return rc;
}

int pg_rollback(void *conn, int64_t deadline, sqlock_error *err)
{
    struct pg_conn *c = conn;
    struct pg_call call = {deadline, 0, err};
    int rc;

    if (!c->in_tx) /* a failed call has rolled back already */
        return 0;
    c->in_tx = 0;
    rc = pg_command(c, &call, "ROLLBACK", NULL);
    if (rc != 0) {
        c->broken = 1;
        err->flags |= SQLOCK_RECONNECT;
    }
    return rc;
}

const sqlock_driver *sqlock_driver_postgres(void)
{
    static const sqlock_driver driver = {
        .size = sizeof(sqlock_driver),
        .caps = SQLOCK_CAP_TX_DDL | SQLOCK_CAP_HOSTS | SQLOCK_CAP_PAUSES | SQLOCK_CAP_HEARS |
                PG_CAP_GROUPS,
        .name = "postgres",
        .schemes = "postgres postgresql",
        .dialect = &sqlock_postgres_dialect,
        .open = pg_open,
        .close = pg_close,
        .run = pg_run,
        .exec = pg_exec,
        .begin = pg_begin,
        .commit = pg_commit,
        .rollback = pg_rollback,
        .cancel = pg_cancel,
        .adopter = &pg_adopter,
        .hosts = pg_hosts,
        .listen = pg_listen,
        .hear = pg_hear,
    };

    return &driver;
}
