/* Requests on an adopted connection: one statement after the other, each with settings of its own,
 * which also make the server end it in time. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mysql.h"

#define SECOND_US      INT64_C(1000000)
#define FIRST_SLICE_US (SECOND_US / 2)
#define BEYOND_S       10 /* added to a limit in seconds that is not to be reached */

/* ---- settings -------------------------------------------------------------------------------- */

/* What our statements rely on, and their limits: cut_us for now, left_us until the deadline. Where
 * innodb_rollback_on_timeout is on, a wait for a row that innodb_lock_wait_timeout ends would end
 * the whole transaction. So that setting is no limit if there is another one. */
struct bounds {
    int64_t cut_us;
    int64_t left_us;
};

#define RELIED_ON                                                                                  \
    "sql_select_limit = 18446744073709551615, sql_safe_updates = 0, sql_auto_is_null = 0,"         \
    " sql_big_selects = 1"

static int64_t wait_seconds(int64_t us)
{
    return (us + SECOND_US - 1) / SECOND_US;
}

/* MariaDB: for one statement, in front of it. */
static int bounds_put_prefix(char *out, size_t size, const struct bounds *b)
{
    int64_t far = wait_seconds(b->cut_us) + BEYOND_S;

    return snprintf(out, size,
                    "SET STATEMENT max_statement_time = %" PRId64 ".%06" PRId64
                    ", innodb_lock_wait_timeout = %" PRId64 ", lock_wait_timeout = %" PRId64
                    ", " RELIED_ON " FOR ",
                    b->cut_us / SECOND_US, b->cut_us % SECOND_US, far, far);
}

/* MySQL: for the session, and restored after the request. Only queries can be ended by the
 * millisecond. */
static const char settings_sql[] =
    "SELECT @@innodb_lock_wait_timeout, @@lock_wait_timeout, @@sql_select_limit, "
    "@@sql_safe_updates,"
    " @@sql_auto_is_null, @@sql_big_selects /*!50708 , @@max_execution_time */ LIMIT 1";

static int session_bound(struct my_conn *c, const struct my_call *call, const struct bounds *b)
{
    char sql[512];

    snprintf(sql, sizeof sql,
             "SET SESSION innodb_lock_wait_timeout ="
             " IF(@@innodb_rollback_on_timeout, %" PRId64 ", %" PRId64 "),"
             " lock_wait_timeout = %" PRId64 ", " RELIED_ON
             " /*!50708 , max_execution_time = %" PRId64 " */",
             wait_seconds(b->left_us), wait_seconds(b->cut_us), wait_seconds(b->cut_us),
             (b->cut_us + 999) / 1000);
    return my_adopted_exec(c, call, sql);
}

static int session_keep(struct my_conn *c, const struct my_call *call, char *out, size_t size)
{
    static const char *const names[] = {
        "innodb_lock_wait_timeout", "lock_wait_timeout", "sql_select_limit",  "sql_safe_updates",
        "sql_auto_is_null",         "sql_big_selects",   "max_execution_time"};
    MYSQL_RES *res = NULL;
    MYSQL_ROW row;
    size_t len = 0;
    int rc = my_adopted_query(c, call, settings_sql, sizeof settings_sql - 1, &res);

    if (rc == 0 && (row = mysql_fetch_row(res)) == NULL)
        rc = sqlock_error_set(call->err, SQLOCK_EDB, 0, "the server does not return its settings");
    for (unsigned i = 0; rc == 0 && i < mysql_num_fields(res); i++)
        len += (size_t)snprintf(out + len, size - len, "%s%s = %s", i == 0 ? "SET SESSION " : ", ",
                                names[i], row[i]);
    mysql_free_result(res);
    return rc;
}

/* ---- a statement ----------------------------------------------------------------------------- */

/* The server ended it at its limit, and the transaction stands. On MariaDB there is no other limit:
 * there 1205 comes from a statement that waits for no one. */
static int statement_was_cut(const struct my_conn *c, const sqlock_error *err)
{
    return (err->native == 1969 || err->native == 3024 || (!c->maria && err->native == 1205)) &&
           !c->ended && my_adopted_in_transaction(c->my);
}

static int statement_attempt(struct my_conn *c, const struct my_call *call, const char *sql,
                             size_t len, const struct bounds *b, MYSQL_RES **out_res)
{
    char prefix[320], *text;
    size_t n;
    int rc;

    if (!c->maria)
        return my_adopted_query(c, call, sql, len, out_res);
    n = (size_t)bounds_put_prefix(prefix, sizeof prefix, b);
    if ((text = sqlock_mem_alloc(n + len)) == NULL)
        return sqlock_error_set(call->err, SQLOCK_ENOMEM, 0, "no memory for the statement");
    memcpy(text, prefix, n);
    memcpy(text + n, sql, len);
    rc = my_adopted_query(c, call, text, n + len, out_res);
    sqlock_mem_free(text);
    return rc;
}

/* A cancel cannot reach the statement: that would take a second connection. So the server ends the
 * statement after a while, this looks for a cancel, and sends it again. The first time comes after
 * half a second. Each next one takes twice as long, so that a long statement gets done too. A step
 * that only waits always has half a second. A statement that was ended that way has changed
 * nothing. */
static int statement_run(struct my_conn *c, const struct my_call *call, const char *sql, size_t len,
                         int hears, MYSQL_RES **out_res)
{
    int64_t slice = FIRST_SLICE_US;
    int rc;

    for (int again = 0;; again = 1, slice *= hears ? 1 : 2) {
        struct bounds b = {.left_us = call->deadline - sqlock_now_us()};

        *out_res = NULL;
        if (my_is_cancelled(c))
            return sqlock_error_set(call->err, SQLOCK_ECANCELLED, 0, "cancelled");
        if (b.left_us <= 0)
            return sqlock_error_set(call->err, SQLOCK_ETIMEOUT, 0,
                                    again ? "the server ended the statement at the deadline"
                                          : "no time left to send the request");
        b.cut_us = b.left_us < slice ? b.left_us : slice;
        if (!c->maria && again && (rc = session_bound(c, call, &b)) != 0)
            return rc;
        rc = statement_attempt(c, call, sql, len, &b, out_res);
        if (rc == 0 || !statement_was_cut(c, call->err))
            return rc;
    }
}

/* A change outside a transaction could not be undone. So the state is checked before the first
 * statement (job_look_first), and after each. */
static int transaction_check(struct my_conn *c, const struct my_call *call)
{
    return my_adopted_in_transaction(c->my)
               ? 0
               : sqlock_error_set(call->err, SQLOCK_ESTATE, 0, "no transaction is open any more");
}

/* One statement of the step at a time: the connection need not take several in a packet. The rows
 * of the last one count. */
static int step_run(struct my_conn *c, const struct my_call *call, const struct my_batch *b,
                    const sqlock_step *step, sqlock_rows *rows)
{
    MYSQL_RES *res = NULL, *last = NULL;
    size_t len = 0;
    char *text = my_text(step, b, &len);
    int rc = 0;

    if (text == NULL)
        return sqlock_error_set(call->err, SQLOCK_ENOMEM, 0, "no memory for the statement");
    for (const char *at = text, *next = NULL; rc == 0 && at != NULL; at = next) {
        next = my_next_statement(at);
        rc = statement_run(c, call, at, next != NULL ? (size_t)(next - at) - 2 : strlen(at),
                           step->flags & SQLOCK_STEP_HEARS, &res);
        if (rc == 0 && res != NULL) {
            mysql_free_result(last);
            last = res;
        }
        rc = rc == 0 ? transaction_check(c, call) : rc;
    }
    if (rc == 0 && last != NULL && (rc = my_take_rows(last, rows, 0)) != 0)
        my_fail_rows(call, rc, 0);
    mysql_free_result(last);
    sqlock_mem_free(text);
    return rc;
}

/* What runs, and under which settings. */
struct job {
    const sqlock_script *script;
    const sqlock_value *values;
    sqlock_rows *rows;
    char charset[64];
    int changes_id; /* it would change the last insert id */
    uint64_t insert_id;
};

static int request_run(struct my_conn *c, const struct my_call *call, const struct job *job)
{
    const sqlock_script *s = job->script;
    struct my_batch b = {job->values, s->n_params, 1, job->charset};
    size_t before = sqlock_rows_count(job->rows);
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < s->n_steps && sqlock_rows_count(job->rows) == before; i++)
        rc = step_run(c, call, &b, &s->steps[i], job->rows);
    return rc;
}

/* ---- the slot -------------------------------------------------------------------------------- */

/* On MySQL, between two changes of the session's settings. They are restored whatever happened. If
 * the server refused that, the application would go on with ours, so its link is cut instead. */
static int job_run_bounded(struct my_conn *c, const struct my_call *call, const struct job *job)
{
    int64_t left = call->deadline - sqlock_now_us();
    struct bounds b = {left < FIRST_SLICE_US ? left : FIRST_SLICE_US, left};
    struct my_call back = *call;
    sqlock_error err;
    char put_back[512];
    int rc;

    if ((rc = session_keep(c, call, put_back, sizeof put_back)) != 0 ||
        (rc = transaction_check(c, call)) != 0)
        return rc;
    if ((rc = session_bound(c, call, &b)) == 0)
        rc = request_run(c, call, job);
    back.err = &err;
    if (!c->broken && my_adopted_exec(c, &back, put_back) != 0) {
        if (!c->broken)
            my_adopted_hang_up(c);
        *call->err = err;
        call->err->flags |= SQLOCK_RECONNECT;
        rc = err.code;
    }
    return rc;
}

static int job_has_text(const struct job *job)
{
    for (size_t i = 0; i < job->script->n_params; i++)
        if (job->values[i].type == SQLOCK_TEXT)
            return 1;
    return 0;
}

/* A statement that uses LAST_INSERT_ID(), or inserts into a table with a counter, replaces the
 * application's last insert id. */
static int job_sets_insert_id(const struct job *job)
{
    for (size_t i = 0; i < job->script->n_steps; i++)
        if (strstr(job->script->steps[i].sql, "LAST_INSERT_ID(") != NULL ||
            strncmp(job->script->steps[i].sql, "INSERT ", 7) == 0)
            return 1;
    return 0;
}

/* A guard keeps others out by a share lock. */
static int job_share_locks(const struct job *job)
{
    for (size_t i = 0; i < job->script->n_steps; i++)
        if (strstr(job->script->steps[i].sql, "LOCK IN SHARE MODE") != NULL)
            return 1;
    return 0;
}

/* In which character set the server reads the application's texts: the client library does not see
 * each change. And the session's last insert id, which the library may not have seen either. */
static int session_read(struct my_conn *c, const struct my_call *call, struct job *job)
{
    static const char sql[] = "SELECT @@character_set_client, LAST_INSERT_ID() LIMIT 1";
    MYSQL_RES *res = NULL;
    MYSQL_ROW row;
    int rc = my_adopted_query(c, call, sql, sizeof sql - 1, &res);

    if (rc == 0 && ((row = mysql_fetch_row(res)) == NULL || row[0] == NULL || row[1] == NULL ||
                    strlen(row[0]) >= sizeof job->charset))
        rc = sqlock_error_set(call->err, SQLOCK_EDB, 0, "the server does not return its settings");
    else if (rc == 0 && strlen(row[0]) != mysql_fetch_lengths(res)[0])
        rc = my_fail_rows(call, SQLOCK_EREFUSED, 0);
    else if (rc == 0) {
        memcpy(job->charset, row[0], strlen(row[0]) + 1);
        job->insert_id = strtoull(row[1], NULL, 10);
    }
    mysql_free_result(res);
    return rc;
}

/* After an error the client library still shows a transaction, which the server may have ended.
 * Then a change would commit by itself. So this sends a statement once more, unless nothing was
 * sent since SET looked. A single query does no harm outside a transaction, and its answer shows
 * the state. */
static int job_look_first(struct my_conn *c, const struct my_call *call, struct job *job)
{
    const sqlock_script *s = job->script;
    int rc;

    if (job->changes_id || job_has_text(job))
        rc = session_read(c, call, job);
    else if (my_adopted_undisturbed(c) || !c->maria || strncmp(s->steps[0].sql, "SELECT ", 7) == 0)
        return 0;
    else
        rc = my_adopted_exec(c, call, "DO 0");
    return rc == 0 ? transaction_check(c, call) : rc;
}

static int session_give_back_id(struct my_conn *c, const struct my_call *call,
                                const struct job *job)
{
    char sql[64];

    snprintf(sql, sizeof sql, "DO LAST_INSERT_ID(%" PRIu64 ")", job->insert_id);
    return my_adopted_exec(c, call, sql);
}

static int job_run(struct my_conn *c, const struct my_call *call, struct job *job)
{
    struct my_call back = *call;
    sqlock_error err;
    int rc = job_look_first(c, call, job);

    if (rc == 0 && job_share_locks(job))
        rc = my_adopted_refuse_xa(c, call);
    if (rc != 0)
        return rc;
    rc = c->maria ? request_run(c, call, job) : job_run_bounded(c, call, job);
    back.err = &err;
    if (job->changes_id && !c->broken && session_give_back_id(c, &back, job) != 0 && c->broken) {
        *call->err = err;
        rc = err.code;
    }
    return rc;
}

int my_adopted_run_script(void *conn, const sqlock_script *script, const sqlock_value *values,
                          int64_t deadline, sqlock_rows *rows, sqlock_error *err)
{
    struct my_conn *c = conn;
    struct my_call call = {.deadline = deadline, .err = err};
    struct job job = {.script = script, .values = values, .rows = rows};
    size_t before = sqlock_rows_count(rows);
    struct my_last last;
    int rc = my_adopted_ready(c, &call);

    if (rc == 0 && my_is_cancelled(c))
        rc = sqlock_error_set(err, SQLOCK_ECANCELLED, 0, "cancelled before it was sent");
    if (rc == 0 && sqlock_now_us() >= deadline)
        rc = sqlock_error_set(err, SQLOCK_ETIMEOUT, 0, "no time left to send the request");
    if (rc == 0) {
        my_last_keep(&last, c->my);
        job.changes_id = job_sets_insert_id(&job);
        rc = job_run(c, &call, &job);
        my_last_give_back(&last, c->my);
    }
    if (rc != 0)
        sqlock_rows_cut(rows, before);
    atomic_store(&c->cancelled, 0);
    return rc;
}

int my_adopted_run(void *conn, sqlock_stmt stmt, const sqlock_value *values, int64_t deadline,
                   sqlock_rows *rows, sqlock_error *err)
{
    const struct my_conn *c = conn;

    return my_adopted_run_script(conn, &c->scripts[stmt], values, deadline, rows, err);
}
