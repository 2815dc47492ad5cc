/* Requests: the scripts of the dialect, statements of migrations; and the driver's table.
 *
 * Values are written into the statement's text, integers in decimal and bytes as X'hex', which no
 * character set, sql_mode or quoting rule touches. Prepared statements would need a second round
 * trip each, and both client libraries' calls that do not block know only texts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mysql.h"

#define INT_MOST 21 /* characters of an integer */

/* After one of these a lost answer leaves nothing open. */
static int only_reads(sqlock_stmt stmt)
{
    return stmt == SQLOCK_STMT_HELLO || stmt == SQLOCK_STMT_GUARDED || stmt == SQLOCK_STMT_LIST ||
           stmt == SQLOCK_STMT_MIGRATE_LOCK || stmt == SQLOCK_STMT_MIGRATE_VERSION;
}

static size_t value_size(const sqlock_value *v)
{
    return v->type == SQLOCK_BYTES ? v->len * 2 + 4 : INT_MOST;
}

static char *put_value(char *out, const sqlock_value *v)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *data = v->data;

    if (v->type == SQLOCK_INT)
        return out + snprintf(out, INT_MOST, "%lld", (long long)v->i);
    if (v->type == SQLOCK_NULL)
        return out + snprintf(out, INT_MOST, "NULL");
    *out++ = 'X';
    *out++ = '\'';
    for (size_t i = 0; i < v->len; i++) {
        *out++ = digits[data[i] >> 4];
        *out++ = digits[data[i] & 15];
    }
    *out++ = '\'';
    return out;
}

/* The step's text with its values; NULL: no memory. Statements hold no `?` but placeholders. */
static char *fill(const sqlock_step *step, const sqlock_value *values, size_t *out_len)
{
    size_t size = strlen(step->sql) + 1, n = 0;
    char *text, *out;

    for (size_t i = 0; i < step->n_order; i++)
        size += value_size(&values[step->order[i]]);
    if ((text = out = sqlock_mem_alloc(size)) == NULL)
        return NULL;
    for (const char *s = step->sql; *s != '\0'; s++) {
        if (*s == '?' && n < step->n_order)
            out = put_value(out, &values[step->order[n++]]);
        else
            *out++ = *s;
    }
    *out_len = (size_t)(out - text);
    return text;
}

static int put_cell(const MYSQL_FIELD *field, const char *data, size_t len, sqlock_rows *rows)
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
        return sqlock_rows_put_int(rows, strtoll(data, NULL, 10));
    default:
        return sqlock_rows_put_bytes(rows, data, len);
    }
}

static int take_rows(MYSQL_RES *res, sqlock_rows *rows, size_t request)
{
    const MYSQL_FIELD *fields = mysql_fetch_fields(res);
    unsigned n = mysql_num_fields(res);
    MYSQL_ROW row;
    int rc = 0;

    while (rc == 0 && (row = mysql_fetch_row(res)) != NULL) {
        const unsigned long *lens = mysql_fetch_lengths(res);

        rc = sqlock_rows_add(rows, request);
        for (unsigned i = 0; rc == 0 && i < n; i++)
            rc = put_cell(&fields[i], row[i], lens[i], rows);
    }
    return rc;
}

static int run_step(struct my_conn *c, struct my_call *call, const sqlock_step *step,
                    const sqlock_value *values, sqlock_rows *rows, size_t request)
{
    MYSQL_RES *res = NULL;
    size_t len = 0;
    char *text = fill(step, values, &len);
    int rc;

    if (text == NULL)
        return sqlock_error_set(call->err, SQLOCK_ENOMEM, 0, "no memory for the statement");
    rc = my_query(c, call, text, len, &res);
    sqlock_mem_free(text);
    if (rc != 0)
        return rc;
    if (c->my->server_status & SERVER_STATUS_IN_TRANS) /* a success that would still be undone */
        rc = SQLOCK_ESTATE;
    else if (res != NULL)
        rc = take_rows(res, rows, request);
    mysql_free_result(res);
    if (rc == SQLOCK_ESTATE) {
        c->broken = 1;
        return sqlock_error_set(call->err, SQLOCK_EDB, SQLOCK_RECONNECT | SQLOCK_MAYBE,
                                "the server left a transaction open");
    }
    if (rc != 0) /* the server has done its part */
        return sqlock_error_set(call->err, rc, call->applies ? SQLOCK_MAYBE : 0,
                                "no memory for the answer");
    return 0;
}

/* The first step that answers ends the script. Steps before it that did not have not done what the
 * request asks for, so a failure after them is the failure of the step under way alone. */
static int run_script(struct my_conn *c, struct my_call *call, const sqlock_script *script,
                      const sqlock_value *values, sqlock_rows *rows, size_t request)
{
    size_t before = sqlock_rows_count(rows);
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < script->n_steps && sqlock_rows_count(rows) == before; i++)
        rc = run_step(c, call, &script->steps[i], values, rows, request);
    return rc;
}

int my_run(void *conn, sqlock_stmt stmt, const sqlock_value *values, size_t n, int64_t deadline,
           sqlock_rows *rows, sqlock_error *err)
{
    struct my_conn *c = conn;
    const sqlock_script *script = &c->scripts[stmt];
    struct my_call call = {deadline, !only_reads(stmt), 0, err};
    size_t before = sqlock_rows_count(rows);
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < n; i++) {
        rc = run_script(c, &call, script, values + i * script->n_params, rows, i);
        if (rc != 0 && i > 0 && call.applies) /* those before it are committed */
            err->flags |= SQLOCK_MAYBE;
    }
    if (rc != 0)
        sqlock_rows_cut(rows, before);
    my_call_end(c);
    return rc;
}

int my_exec(void *conn, const char *sql, int64_t deadline, sqlock_error *err)
{
    struct my_call call = {deadline, 1, 0, err};
    MYSQL_RES *res = NULL;
    int rc = my_query(conn, &call, sql, strlen(sql), &res);

    mysql_free_result(res);
    return rc;
}

/* DDL commits by itself: a transaction around a migration would only look like one. The statements
 * can be run again instead, and the migrators' lock lasts until the connection is closed. */
int my_begin(void *conn, int64_t deadline, sqlock_error *err)
{
    struct my_conn *c = conn;
    struct my_call call = {deadline, 0, 0, err};

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
        .caps = 0,
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
    };

    return &driver;
}
