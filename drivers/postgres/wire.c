/* How a statement gets to the server and its answer back, never past its deadline.
 *
 * libpq's blocking calls know no deadline, so none of them is used: every wait is a poll on the
 * connection's socket and on its wake descriptor. */
#include <poll.h>
#include <string.h>

#include "postgres.h"

#define FRESH_US 100 /* after an answer within this time the socket is not looked at */

/* On an adopted connection a cancel ends with the call, on others the number is another one. It
 * may leave a wake-up, which wait_for_socket() takes for an old one. */
void pg_call_end(struct pg_conn *c)
{
    if (!c->adopted)
        c->call = 0;
    else if (atomic_exchange(&c->cancelled, 0))
        sqlock_wake_clear(c->wake_fd);
    c->pauses = 0;
}

void pg_cancel(void *conn, uint64_t call)
{
    struct pg_conn *c = conn;

    atomic_store(&c->cancelled, call);
    sqlock_wake_set(c->wake_fd);
}

int pg_is_cancelled(const struct pg_conn *c)
{
    return !c->firm && c->call != 0 && atomic_load(&c->cancelled) == c->call;
}

/* libpq prints notices to stderr, unless it has a receiver. Two kinds matter here: the server's
 * last words to an idle session, and the warning that a wait for the synchronous standby was cut
 * short. In the second case the server reports success, but a failover may lose the commit. */
void pg_take_notice(void *conn, const PGresult *res)
{
    struct pg_conn *c = conn;
    const char *severity = PQresultErrorField(res, PG_DIAG_SEVERITY_NONLOCALIZED);
    const char *state = PQresultErrorField(res, PG_DIAG_SQLSTATE);
    const char *message = PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY);

    if (severity == NULL || state == NULL || strlen(state) != 5 || message == NULL)
        return;
    if (strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0 ||
        strcmp(state, "57P02") == 0)
        memcpy(c->ended, state, sizeof c->ended);
    else if (strcmp(severity, "WARNING") == 0 &&
             (strcmp(state, "01000") == 0 || strcmp(state, "57P01") == 0))
        c->doubt = 1;
    else
        return;
    pg_one_line(c->notice, sizeof c->notice, message);
}

/* If the session has ended already, that must be noticed now: after the request is sent, no one
 * knows whether the server read it before it ended. The look takes a system call. It is left out
 * just after an answer: a session that ends in so short a time could as well have ended after the
 * look. */
int pg_ready_behind(struct pg_conn *c, const struct pg_call *call)
{
    int64_t now = sqlock_now_us();
    PGnotify *note = NULL;
    int alive;

    c->doubt = 0;
    if (c->ended[0] == '\0')
        c->notice[0] = '\0';
    if (c->broken)
        return pg_fail_ended(c, call);
    if (pg_is_cancelled(c))
        return sqlock_error_set(call->err, SQLOCK_ECANCELLED, 0, "cancelled before it was sent");
    if (now >= call->deadline)
        return sqlock_error_set(call->err, SQLOCK_ETIMEOUT, 0, "no time left to send the request");
    alive = now <= c->answered + FRESH_US || PQconsumeInput(c->pg);
    if (c->adopted || c->listens)
        PQisBusy(c->pg); /* reads what came in, and leaves notifications to who listens */
    else
        while ((note = PQnotifies(c->pg)) != NULL) /* the same, and drops them */
            PQfreemem(note);
    if (!alive || c->ended[0] != '\0' || PQstatus(c->pg) != CONNECTION_OK)
        return pg_fail_ended(c, call);
    return 0;
}

int pg_ready(struct pg_conn *c, const struct pg_call *call)
{
    int rc = c->ahead && !c->broken ? pg_read_ahead(c, call) : 0;

    return rc != 0 ? rc : pg_ready_behind(c, call);
}

/* On an adopted connection: pg_adopted_cut() has arranged that the statement ends. Wait for that,
 * until *out_until. */
static int wait_give_up(struct pg_conn *c, const struct pg_call *call, int code, int64_t *out_until)
{
    if (c->pauses && code != SQLOCK_ESYS)
        return SQLOCK_NOT_YET;
    if (!c->adopted || (c->cut != 0 && !c->soft_cut) || code == SQLOCK_ESYS)
        return pg_fail_wait(c, call, c->cut != 0 ? c->cut : code);
    if (pg_adopted_cut(c, code) != 0)
        return pg_fail_wait(c, call, code);
    *out_until = c->cut_until;
    return 0;
}

/* The wake descriptor is cleared before the flag is read. A cancel that sets its flag after that
 * read sets the descriptor later still, and ends the next wait. */
static int wait_for_socket(struct pg_conn *c, const struct pg_call *call, int events)
{
    int64_t until = c->cut != 0 ? c->cut_until : call->deadline;
    int rc = 0;

    while (rc == 0) {
        int r;

        if (c->cut == 0 && pg_is_cancelled(c))
            rc = wait_give_up(c, call, SQLOCK_ECANCELLED, &until);
        if (rc != 0 || PQsocket(c->pg) < 0) /* then the next read shows what happened */
            break;
        r = sqlock_wait_fd(PQsocket(c->pg), events, c->open_wake >= 0 ? c->open_wake : c->wake_fd,
                           until);
        if (r == 1)
            break;
        if (r == 0)
            rc = wait_give_up(c, call, SQLOCK_ETIMEOUT, &until);
        else if (r != 2)
            rc = wait_give_up(c, call, SQLOCK_ESYS, &until);
        else if (c->open_wake >= 0)
            rc = wait_give_up(c, call, SQLOCK_ECANCELLED, &until);
        else
            sqlock_wake_clear(c->wake_fd);
    }
    return rc;
}

/* Until PQgetResult() does not block. A failed write is not the end: the server's reason for
 * closing may still be readable. */
static int wait_for_result(struct pg_conn *c, const struct pg_call *call)
{
    do {
        int unsent = PQflush(c->pg) == 1;
        int rc = wait_for_socket(c, call, unsent ? POLLIN | POLLOUT : POLLIN);

        if (rc != 0)
            return rc;
        if (!PQconsumeInput(c->pg))
            return PQstatus(c->pg) != CONNECTION_BAD ? pg_fail_lost(c, call) : 0;
    } while (PQisBusy(c->pg));
    return 0;
}

/* The next result, NULL after ReadyForQuery. PQgetResult() blocks while PQisBusy(), except on a
 * broken connection, where it returns the reason. */
int pg_next_result(struct pg_conn *c, const struct pg_call *call, PGresult **out_res)
{
    int rc = PQisBusy(c->pg) ? wait_for_result(c, call) : 0;

    if (rc == 0)
        *out_res = PQgetResult(c->pg);
    return rc;
}

int pg_result_is_success(const PGresult *res)
{
    ExecStatusType status = PQresultStatus(res);

    return status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK || status == PGRES_EMPTY_QUERY;
}

/* All results of one request: the first error, or else the last result. */
static int wire_drain(struct pg_conn *c, const struct pg_call *call, PGresult **out_res)
{
    PGresult *kept = c->at.kept;

    c->at.kept = NULL;
    for (;;) {
        PGresult *res = NULL;
        int rc = pg_next_result(c, call, &res);

        if (rc == SQLOCK_NOT_YET) {
            c->at.kept = kept;
            return rc;
        }
        if (rc != 0) {
            PQclear(kept);
            return rc;
        }
        if (res == NULL)
            break;
        if (kept != NULL && !pg_result_is_success(kept)) {
            PQclear(res);
            continue;
        }
        PQclear(kept);
        kept = res;
        /* COPY would wait for data for ever; no statement of ours is one. */
        if (!pg_result_is_success(res) && PQresultStatus(res) != PGRES_FATAL_ERROR)
            break;
    }
    *out_res = kept;
    return 0;
}

/* ReadyForQuery says whether a transaction is open. In autocommit none may be: otherwise what looks
 * like a success would still be undone. */
int pg_check(struct pg_conn *c, const struct pg_call *call, const PGresult *res)
{
    if (res == NULL)
        return pg_fail_lost(c, call);
    if (!pg_result_is_success(res))
        return pg_fail_result(c, call, res);
    if (c->doubt && call->applies)
        return pg_fail_doubt(c, call, c->notice);
    if (!c->in_tx && PQtransactionStatus(c->pg) != PQTRANS_IDLE)
        return pg_fail_doubt(c, call, "the server left a transaction open");
    return 0;
}

int pg_collect(struct pg_conn *c, const struct pg_call *call, int sent, PGresult **out_res)
{
    PGresult *res = NULL;
    int rc;

    if (c->adopted && !c->under_way)
        c->sent = sqlock_now_us();
    c->under_way = 1;
    rc = sent ? wire_drain(c, call, &res) : pg_fail_lost(c, call);
    if (rc == SQLOCK_NOT_YET)
        return rc;
    c->under_way = 0;
    if (rc == 0)
        rc = pg_check(c, call, res);
    if (rc == 0)
        c->answered = sqlock_now_us();
    if (rc == 0 && out_res != NULL) {
        *out_res = res;
        res = NULL;
    }
    PQclear(res);
    return rc;
}

int pg_command(struct pg_conn *c, const struct pg_call *call, const char *sql, PGresult **out_res)
{
    int rc = pg_ready(c, call);

    if (rc != 0)
        return rc;
    return pg_collect(c, call, PQsendQuery(c->pg, sql), out_res);
}
