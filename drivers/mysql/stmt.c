/* Requests: the scripts of the dialect, statements of migrations; and the driver's table. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mysql.h"

/* A whole number that fits. Application columns may have others, which stay what they are. In a
 * wide character set a 1 begins with a NUL, and would be read as 0. */
static int cell_put_number(const char *data, size_t len, sqlock_rows *rows)
{
    char *end = NULL, again[24];
    long long n = strtoll(data, &end, 10);

    if (strlen(data) != len)
        return SQLOCK_EREFUSED;
    snprintf(again, sizeof again, "%lld", n);
    if (*end != '\0' || (len > 18 && strcmp(again, data) != 0))
        return sqlock_rows_put_bytes(rows, data, len);
    return sqlock_rows_put_int(rows, n);
}

static int cell_put(const MYSQL_FIELD *field, const char *data, size_t len, sqlock_rows *rows)
{
    if (data == NULL)
        return sqlock_rows_put_null(rows);
    switch (field->type) {
    case MYSQL_TYPE_TINY:
    case MYSQL_TYPE_SHORT:
    case MYSQL_TYPE_INT24:
    case MYSQL_TYPE_LONG:
    case MYSQL_TYPE_LONGLONG:
    case MYSQL_TYPE_NEWDECIMAL:
        return cell_put_number(data, len, rows);
    default:
        return sqlock_rows_put_bytes(rows, data, len);
    }
}

int my_fail_rows(const struct my_call *call, int rc, unsigned flags)
{
    return sqlock_error_set(call->err, rc, flags,
                            rc == SQLOCK_EREFUSED
                                ? "the session's character_set_results has wide characters"
                                : "no memory for the answer");
}

int my_take_rows(MYSQL_RES *res, sqlock_rows *rows, size_t request)
{
    const MYSQL_FIELD *fields = mysql_fetch_fields(res);
    unsigned n = mysql_num_fields(res);
    MYSQL_ROW row;
    int rc = 0;

    while (rc == 0 && (row = mysql_fetch_row(res)) != NULL) {
        const unsigned long *lens = mysql_fetch_lengths(res);

        rc = sqlock_rows_add(rows, request);
        for (unsigned i = 0; rc == 0 && i < n; i++)
            rc = cell_put(&fields[i], row[i], lens[i], rows);
    }
    return rc;
}

#define STEPS_KEPT 8 /* bits of my_conn.kept */

/* Who met a locked row, or was in a deadlock, has done nothing, and has found no row. */
static int transaction_send(struct my_conn *c, struct my_call *call, const char *text, size_t len,
                            MYSQL_RES **out_res)
{
    int rc;

    call->rolls_back = 1;
    rc = my_query(c, call, text, len, out_res);
    call->rolls_back = 0;
    if (rc != SQLOCK_EDB || c->broken || my_roll_back(c, call) != 0)
        return rc;
    return !(call->err->flags & SQLOCK_MAYBE) && (strcmp(call->err->sqlstate, "55P03") == 0 ||
                                                  strncmp(call->err->sqlstate, "40", 2) == 0)
               ? 0
               : rc;
}

/* A statement that waited too long for a locked row has changed nothing. As if it had found no row,
 * the rest of its packet is sent, which reports the row's state. If there is no rest, and the
 * statement was not to change anything, or a later step goes on, it has found no row. */
static int packet_send(struct my_conn *c, struct my_call *call, const sqlock_step *step,
                       const char *text, size_t len, MYSQL_RES **out_res)
{
    int goes_on = !call->changes || (step->flags & SQLOCK_STEP_GIVES_NOW), rc;
    const char *rest;

    if (my_step_is_transaction(step))
        return transaction_send(c, call, text, len, out_res);
    rc = my_query(c, call, text, len, out_res);
    while (rc == SQLOCK_EDB && strcmp(call->err->sqlstate, "55P03") == 0) {
        if ((rest = my_next_statement(call->at)) == NULL)
            return goes_on ? 0 : rc;
        rc = my_query(c, call, rest, strlen(rest), out_res);
    }
    return rc;
}

/* Because the server would take longer to read its text than to run it. Steps that are not in most
 * requests are not worth it. */
int my_step_is_kept(const struct my_conn *c, const sqlock_step *step, size_t i)
{
    const char *rest = my_next_statement(step->sql);

    return c->keeps && i < STEPS_KEPT &&
           step->flags & (SQLOCK_STEP_GIVES_NOW | SQLOCK_STEP_NOWAIT | SQLOCK_STEP_OFTEN) &&
           (rest == NULL || my_next_statement(rest) == NULL || step->flags & SQLOCK_STEP_NOWAIT ||
            my_step_is_transaction(step));
}

void my_step_name(const struct my_conn *c, const sqlock_script *s, size_t i, char *out)
{
    snprintf(out, MY_NAME_SIZE, "sqlock_%zu_%zu", (size_t)(s - c->scripts), i);
}

/* What is sent for a step; NULL: no memory. */
static char *step_text(struct my_conn *c, const sqlock_script *s, const sqlock_step *step,
                       const struct my_batch *b, size_t *out_len)
{
    char name[MY_NAME_SIZE];

    if (!my_step_is_kept(c, step, c->at.step))
        return my_text(step, b, out_len);
    my_step_name(c, s, c->at.step, name);
    return my_text_execute(step, b, name, c->kept[s - c->scripts] & 1u << c->at.step ? NULL : c->my,
                           out_len);
}

/* Was the statement kept? Returns 1 if not: the server keeps no more of them, or the session has
 * lost it. From then on the connection sends whole texts. Nothing was executed; or only what stands
 * behind the statement was lost, and the same request, sent again, is answered as the first. */
static int step_must_be_sent_whole(struct my_conn *c, const struct my_call *call,
                                   const sqlock_script *s, const char *text, int rc)
{
    int keeps = strncmp(text, "PREPARE ", 8) == 0;

    if (rc == SQLOCK_EDB && !c->broken &&
        ((keeps && strncmp(call->at, "PREPARE ", 8) == 0) || call->err->native == MY_NOT_KEPT)) {
        c->keeps = 0;
        return 1;
    }
    if (keeps)
        c->kept[s - c->scripts] |= (uint8_t)(1u << c->at.step);
    return 0;
}

static int step_send(struct my_conn *c, struct my_call *call, const sqlock_script *s,
                     const sqlock_step *step, const struct my_batch *b, MYSQL_RES **out_res)
{
    for (;;) {
        size_t len = 0;
        char *text = c->under_way ? c->at.text : step_text(c, s, step, b, &len);
        int whole, rc;

        c->at.text = NULL;
        if (text == NULL)
            return sqlock_error_set(call->err, SQLOCK_ENOMEM, 0, "no memory for the statement");
        rc = packet_send(c, call, step, text, len, out_res);
        if (rc == SQLOCK_NOT_YET) {
            c->at.text = text;
            return rc;
        }
        whole = step_must_be_sent_whole(c, call, s, text, rc);
        sqlock_mem_free(text);
        if (!whole)
            return rc;
    }
}

int my_give(const struct my_result *result, sqlock_rows *rows, size_t request)
{
    int rc;

    if (result->changed != 1 || result->id == 0)
        return 0;
    rc = sqlock_rows_add(rows, request);
    if (rc == 0)
        rc = sqlock_rows_put_int(rows, 0);
    if (rc == 0)
        rc = sqlock_rows_put_int(rows, SQLOCK_OUT_DONE);
    for (int i = SQLOCK_COL_OUTCOME + 1; rc == 0 && i < SQLOCK_COL_NOW; i++)
        rc = sqlock_rows_put_null(rows);
    return rc == 0 ? sqlock_rows_put_int(rows, (int64_t)result->id) : rc;
}

/* A statement that waited too long has given nothing. */
static int step_give(const struct my_conn *c, sqlock_rows *rows, size_t request)
{
    struct my_result result = {NULL, mysql_affected_rows(c->my), mysql_insert_id(c->my)};

    return mysql_errno(c->my) != 0 ? 0 : my_give(&result, rows, request);
}

static int step_run(struct my_conn *c, struct my_call *call, const sqlock_script *s,
                    const sqlock_step *step, const struct my_batch *b, sqlock_rows *rows,
                    size_t request)
{
    MYSQL_RES *res = NULL;
    int rc;

    call->applied = 0;
    if ((rc = step_send(c, call, s, step, b, &res)) != 0)
        return rc;
    if (c->my->server_status & SERVER_STATUS_IN_TRANS) /* a success that would still be undone */
        rc = SQLOCK_ESTATE;
    else if (res != NULL)
        rc = my_take_rows(res, rows, request);
    else if (step->flags & SQLOCK_STEP_GIVES_NOW)
        rc = step_give(c, rows, request);
    mysql_free_result(res);
    if (rc == SQLOCK_ESTATE) {
        c->broken = 1;
        return sqlock_error_set(call->err, SQLOCK_EDB, SQLOCK_RECONNECT | SQLOCK_MAYBE,
                                "the server left a transaction open");
    }
    if (rc != 0) /* the server has done it */
        return my_fail_rows(call, rc, call->applies ? SQLOCK_MAYBE : 0);
    return 0;
}

/* It would do nothing. */
static int step_is_vain(const struct my_conn *c, const sqlock_step *step, const struct my_batch *b)
{
    return ((step->flags & SQLOCK_STEP_NOWAIT) && !c->waits_not) ||
           sqlock_step_is_vain(step->flags, b->values);
}

/* The first step that answers ends the script. Steps before it that did not answer have not done
 * yet what the request is for. So a failure after them is the failure of the present step alone. */
static int script_run(struct my_conn *c, struct my_call *call, const sqlock_script *s,
                      const struct my_batch *b, sqlock_rows *rows, size_t request)
{
    const sqlock_step *steps = b->n > 1 ? s->array_steps : s->steps;
    size_t n_steps = b->n > 1 ? s->n_array_steps : s->n_steps, before = sqlock_rows_count(rows);
    const struct my_call whole = *call;
    int rc = 0;

    for (size_t i = c->under_way ? c->at.step : 0;
         rc == 0 && i < n_steps && sqlock_rows_count(rows) == before; i++) {
        int aside = (steps[i].flags & SQLOCK_STEP_ASIDE) != 0;

        if (step_is_vain(c, &steps[i], b))
            continue;
        c->at.step = i;
        call->applies = whole.applies && !aside;
        call->changes = whole.changes && !aside;
        rc = step_run(c, call, s, &steps[i], b, rows, request);
    }
    call->applies = whole.applies;
    call->changes = whole.changes;
    return rc;
}

/* Many requests go in one packet if the server can skip a locked row: otherwise one such row would
 * delay them all. If each goes alone and one fails, the answers before it stand, because those
 * requests have been committed. */
int my_run_group(struct my_conn *c, struct my_call *call, const sqlock_group *group,
                 sqlock_rows *rows, size_t first)
{
    const sqlock_script *s = &c->scripts[group->stmt];
    size_t answered = sqlock_rows_count(rows), most = c->skips_locked ? MY_CHUNK : 1;
    size_t done = c->under_way ? c->at.request : 0;
    int rc = 0;

    call->applies = SQLOCK_LEAVES_DOUBT(s->flags);
    call->changes = !(s->flags & SQLOCK_REQ_READS);
    while (rc == 0 && done < group->n) {
        struct my_batch b = {group->values + done * s->n_params, s->n_params, group->n - done,
                             NULL};

        c->at.request = done;
        if (s->n_array_steps == 0)
            b.n = 1;
        else if (b.n > most)
            b.n = most;
        rc = script_run(c, call, s, &b, rows, first + done);
        if (rc < 0 && done > 0 && call->applies) /* the earlier ones are committed */
            call->err->flags |= SQLOCK_MAYBE;
        if (rc == 0)
            answered = sqlock_rows_count(rows);
        done += b.n;
    }
    if (rc < 0)
        sqlock_rows_cut(rows, answered);
    return rc;
}

/* If it was paused, c->under_way is set: each function is entered again as it was before, and none
 * sends what it has sent. */
int my_run(void *conn, const sqlock_call *number, sqlock_stmt stmt, const sqlock_value *values,
           size_t n, int64_t deadline, sqlock_rows *rows, sqlock_error *err)
{
    struct my_conn *c = conn;
    struct my_call call = {.deadline = deadline, .err = err};
    sqlock_group all = {stmt, values, n};
    int rc;

    c->call = number != NULL ? number->number : 0;
    c->pauses = number != NULL && (number->flags & SQLOCK_CALL_PAUSES);
    rc = number != NULL && n + number->n_more > 1 ? my_run_groups(c, &call, &all, number, rows)
                                                  : my_run_group(c, &call, &all, rows, 0);
    c->call = 0;
    c->pauses = 0;
    return rc;
}

int my_exec(void *conn, const char *sql, int64_t deadline, sqlock_error *err)
{
    struct my_call call = {.deadline = deadline, .applies = 1, .err = err};
    MYSQL_RES *res = NULL;
    int rc = my_query(conn, &call, sql, strlen(sql), &res);

    mysql_free_result(res);
    return rc;
}

/* DDL commits by itself: a transaction around a migration would only look like one. Instead the
 * statements can be run again, under a lease. */
int my_begin(void *conn, int64_t deadline, sqlock_error *err)
{
    struct my_conn *c = conn;
    struct my_call call = {.deadline = deadline, .err = err};

    return c->broken ? my_fail_ended(c, &call) : 0;
}

int my_commit(void *conn, int64_t deadline, sqlock_error *err)
{
    return my_begin(conn, deadline, err);
}

int my_rollback(void *conn, int64_t deadline, sqlock_error *err)
{
    (void)conn;
    (void)deadline;
    (void)err;
    return 0;
}

const sqlock_driver *sqlock_driver_mysql(void)
{
    static const sqlock_driver driver = {
        .size = sizeof(sqlock_driver),
        .caps = SQLOCK_CAP_HOSTS | SQLOCK_CAP_GLIMPSES | MY_CLIENT_CAPS,
        .name = "mysql",
        .schemes = "mysql mariadb",
        .dialect = &sqlock_mysql_dialect,
        .open = my_open,
        .close = my_close,
        .run = my_run,
        .exec = my_exec,
        .begin = my_begin,
        .commit = my_commit,
        .rollback = my_rollback,
        .cancel = my_cancel,
        .adopter = &my_adopter,
        .hosts = my_hosts,
    };

    return &driver;
}
