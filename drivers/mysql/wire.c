/* How a statement gets to the server and its answer back, never past its deadline: by the client
 * library's non-blocking calls, and a poll on the socket and the wake descriptor. */
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "mysql.h"

#define FRESH_US 100 /* after an answer within this time the socket is not looked at */

int my_is_cancelled(const struct my_conn *c)
{
    return c->call != 0 && atomic_load(&c->cancelled) == c->call;
}

void my_cancel(void *conn, uint64_t call)
{
    struct my_conn *c = conn;

    atomic_store(&c->cancelled, call);
    if (c->wake_fd >= 0)
        sqlock_wake_set(c->wake_fd);
}

static int wait_give_up(struct my_conn *c, const struct my_call *call, const struct my_op *op,
                        int code)
{
    return c->pauses && op->idle ? SQLOCK_NOT_YET : my_fail_wait(c, call, code);
}

/* The wake descriptor is cleared before the flag is read. A cancel that sets its flag after that
 * read sets the descriptor later still, and ends the next wait. */
int my_wait(struct my_conn *c, const struct my_call *call, const struct my_op *op)
{
    int64_t until = call->deadline, again = sqlock_now_us() + op->nap_us;

    if (op->nap_us > 0 && again < until)
        until = again;
    for (;;) {
        int r;

        if (my_is_cancelled(c))
            return wait_give_up(c, call, op, SQLOCK_ECANCELLED);
        r = sqlock_wait_fd(my_client_socket(c->my), op->events,
                           c->open_wake >= 0 ? c->open_wake : c->wake_fd, until);
        if (r == 1 || (r == 0 && until < call->deadline))
            return 0;
        if (r == 0)
            return wait_give_up(c, call, op, SQLOCK_ETIMEOUT);
        if (r != 2)
            return my_fail_wait(c, call, SQLOCK_ESYS);
        if (c->open_wake >= 0)
            return my_fail_wait(c, call, SQLOCK_ECANCELLED);
        sqlock_wake_clear(c->wake_fd);
    }
}

/* If the session has ended already, that must be noticed now: after the request is sent, no one
 * knows whether the server read it before it ended. An idle server sends nothing but its
 * good-bye. The look takes a system call. It is left out just after an answer: a session that ends
 * in so short a time could as well have ended after the look. */
static int wire_ready(struct my_conn *c, const struct my_call *call)
{
    int64_t now = sqlock_now_us();

    if (c->broken || mysql_thread_id(c->my) != c->thread_id ||
        (now > c->answered + FRESH_US &&
         sqlock_wait_fd(my_client_socket(c->my), POLLIN, -1, now) != 0))
        return my_fail_ended(c, call);
    if (my_is_cancelled(c))
        return sqlock_error_set(call->err, SQLOCK_ECANCELLED, 0, "cancelled before it was sent");
    if (now >= call->deadline)
        return sqlock_error_set(call->err, SQLOCK_ETIMEOUT, 0, "no time left to send the request");
    return 0;
}

/* A library call that is abandoned keeps for good what it has read so far, because that lies on the
 * call's own stack. So for a request that is given up the link is shut, and the call goes on to the
 * end that it finds there. It waits for nothing any more, so this many pieces are enough. */
enum { PIECES_MOST = 1000 };

/* Between two pieces. rc is what this returned before. */
static int wire_wait_or_shut(struct my_conn *c, const struct my_call *call, const struct my_op *op,
                             int rc)
{
    if (rc == 0 && (rc = my_wait(c, call, op)) != 0)
        shutdown(my_client_socket(c->my), SHUT_RDWR);
    return rc;
}

static int wire_send(struct my_conn *c, const struct my_call *call, const char *sql, size_t len)
{
    struct my_op op = {0};
    int rc = 0;

    for (int left = PIECES_MOST; left > 0 && my_client_send(c->my, &op, sql, len); left -= rc != 0)
        rc = wire_wait_or_shut(c, call, &op, rc);
    return rc != 0 ? rc : op.failed ? my_fail(c, call) : 0;
}

/* Until an answer begins to come. A call of MariaDB's library that waits has a stack of its own,
 * with what it knows of the thread, and must end on it. So it is not begun before. */
static int wire_await(struct my_conn *c, const struct my_call *call)
{
    struct my_op op = {.events = POLLIN, .idle = 1};

    return c->at.got.with_rows > 0 || my_client_has_read(c->my) ? 0 : my_wait(c, call, &op);
}

/* The answer of the packet's first statement. */
static int wire_first(struct my_conn *c, const struct my_call *call, const char *sql, size_t len)
{
    struct my_op op = {0};
    int rc = 0;

    for (int left = PIECES_MOST; left > 0 && my_client_answer(c->my, &op, sql, len);
         left -= rc != 0)
        rc = wire_wait_or_shut(c, call, &op, rc);
    return rc != 0 ? rc : op.failed ? my_fail(c, call) : 0;
}

/* Go on to the answer of the packet's next statement. */
static int wire_next(struct my_conn *c, const struct my_call *call)
{
    struct my_op op = {0};
    int rc = 0;

    for (int left = PIECES_MOST; left > 0 && my_client_next(c->my, &op); left -= rc != 0)
        rc = wire_wait_or_shut(c, call, &op, rc);
    return rc != 0 ? rc : op.failed ? my_fail(c, call) : 0;
}

void my_results_free(struct my_results *results)
{
    while (results->n > 0)
        mysql_free_result(results->of[--results->n].rows);
    results->with_rows = 0;
}

static void results_add(struct my_results *results, const struct my_conn *c, MYSQL_RES *rows)
{
    if (results->n == MY_RESULTS_MAX)
        mysql_free_result(results->of[--results->n].rows);
    results->of[results->n++] =
        (struct my_result){rows, mysql_affected_rows(c->my), mysql_insert_id(c->my)};
    results->with_rows += rows != NULL;
}

/* The rows of an answer, or what it changed. */
static int wire_store(struct my_conn *c, struct my_call *call)
{
    MYSQL_RES *res = NULL;
    struct my_op op = {0};
    int rc = 0;

    for (int left = PIECES_MOST; left > 0 && my_client_store(c->my, &op, &res); left -= rc != 0)
        rc = wire_wait_or_shut(c, call, &op, rc);
    if (rc != 0) {
        mysql_free_result(res); /* the whole answer may have come */
        return rc;
    }
    if (op.failed)
        return my_fail(c, call);
    if (res == NULL) /* SELECT ... INTO counts what it has read */
        call->applied |= mysql_affected_rows(c->my) != 0 && strncmp(call->at, "SELECT ", 7) != 0;
    results_add(&c->at.got, c, res);
    return 0;
}

/* No value holds a `;`. */
const char *my_next_statement(const char *sql)
{
    const char *end = sql + strlen(sql);

    for (; (sql = my_find(sql, end, ';')) != NULL; sql++)
        if (sql[1] == '\n')
            return sql + 2;
    return NULL;
}

static int query_begin(struct my_conn *c, struct my_call *call, const char *sql, size_t len)
{
    int rc = wire_ready(c, call);

    call->at = sql;
    c->at.followed = 0;
    my_results_free(&c->at.got);
    return rc != 0 ? rc : wire_send(c, call, sql, len);
}

static int query_answers(struct my_conn *c, struct my_call *call, const char *sql, size_t len)
{
    for (;;) {
        int rc = wire_await(c, call);

        if (rc == 0)
            rc = c->at.followed ? wire_next(c, call) : wire_first(c, call, sql, len);
        if (rc == 0)
            rc = wire_store(c, call);
        if (rc != 0 || !mysql_more_results(c->my))
            return rc;
        c->at.followed = 1;
        if ((call->at = my_next_statement(call->at)) == NULL)
            call->at = "";
    }
}

int my_query_all(struct my_conn *c, struct my_call *call, const char *sql, size_t len)
{
    int signals = my_client_signals(c->my), rc = 0;
    struct my_quiet quiet;

    if (signals)
        my_quiet_begin(&quiet);
    if (!c->under_way) {
        rc = query_begin(c, call, sql, len);
    } else {
        call->at = c->at.statement;
        call->applied = c->at.applied;
    }
    if (rc == 0)
        rc = query_answers(c, call, sql, len);
    if (signals)
        my_quiet_end(&quiet);
    if (rc == 0)
        c->answered = sqlock_now_us();
    c->under_way = rc == SQLOCK_NOT_YET;
    c->at.statement = call->at;
    c->at.applied = call->applied;
    if (rc < 0)
        my_results_free(&c->at.got);
    return rc;
}

int my_query(struct my_conn *c, struct my_call *call, const char *sql, size_t len,
             MYSQL_RES **out_res)
{
    struct my_results *got = &c->at.got;
    int rc = my_query_all(c, call, sql, len);

    *out_res = NULL;
    for (size_t i = rc == 0 ? got->n : 0; *out_res == NULL && i > 0; i--) {
        *out_res = got->of[i - 1].rows;
        got->of[i - 1].rows = NULL;
    }
    if (rc == 0)
        my_results_free(got);
    return rc;
}
