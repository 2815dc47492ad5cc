/* A statement on an adopted connection. The non-blocking calls need connections that were made for
 * them, and the application's may not be. So this sends a statement, waits for its answer by a poll
 * on the socket, and reads it when it begins to come. The server ends the statement at the
 * deadline: a client that stopped waiting would leave the answer to the application. */
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "mysql.h"

/* How long to wait for a late answer; after that the link is dead. */
#define PATIENCE_US INT64_C(5000000)

/* Answers to XA END. */
#define XA_OTHER_NAME 1397
#define XA_NONE       1399

/* A number of packets that no command reaches: each begins at 0. */
#define UNDISTURBED UINT32_MAX

/* ---- what the application's connection is at ------------------------------------------------- */

/* The header of a sent command is still in the buffer, and no packet has come. The server never
 * answers these two commands. */
static int native_awaits_answer(const MYSQL *my)
{
    const unsigned char *sent = my->net.buff;

    return my->net.pkt_nr == 1 && sent != NULL && sent[3] == 0 && sent[4] != COM_STMT_CLOSE &&
           sent[4] != COM_STMT_SEND_LONG_DATA;
}

int my_adopted_busy(MYSQL *my)
{
    return my->status != MYSQL_STATUS_READY || mysql_more_results(my) || native_awaits_answer(my);
}

int my_adopted_lost(const struct my_conn *c)
{
    return c->broken || my_client_socket(c->my) < 0 || mysql_thread_id(c->my) != c->thread_id;
}

int my_adopted_in_transaction(const MYSQL *my)
{
    return (my->server_status & SERVER_STATUS_IN_TRANS) != 0 ||
           (my->server_status & SERVER_STATUS_AUTOCOMMIT) == 0;
}

int my_adopted_undisturbed(const struct my_conn *c)
{
    return c->my->net.pkt_nr == UNDISTURBED;
}

/* ---- what the application may read next ------------------------------------------------------ */

void my_last_keep(struct my_last *last, const MYSQL *my)
{
    const NET *net = &my->net;
    const char *buff = (const char *)net->buff;

    last->affected_rows = my->affected_rows;
    last->insert_id = my->insert_id;
    last->warning_count = my->warning_count;
    last->field_count = my->field_count;
    last->last_errno = net->last_errno;
    memcpy(last->last_error, net->last_error, sizeof last->last_error);
    memcpy(last->sqlstate, net->sqlstate, sizeof last->sqlstate);
    last->info_at = -1;
    if (my->info == NULL || my->info < buff || my->info >= (const char *)net->buff_end)
        return;
    last->info_at = my->info - buff;
    last->info_len = strnlen(my->info, sizeof last->info - 1);
    memcpy(last->info, my->info, last->info_len);
    last->info[last->info_len] = '\0';
}

/* The info is a piece of the buffer that packets are read into, and goes back there. */
void my_last_give_back(const struct my_last *last, MYSQL *my)
{
    NET *net = &my->net;

    my->affected_rows = last->affected_rows;
    my->insert_id = last->insert_id;
    my->warning_count = last->warning_count;
    my->field_count = last->field_count;
    net->last_errno = last->last_errno;
    memcpy(net->last_error, last->last_error, sizeof last->last_error);
    memcpy(net->sqlstate, last->sqlstate, sizeof last->sqlstate);
    my->info = NULL;
    if (net->buff == NULL)
        return;
    net->pkt_nr = UNDISTURBED;
    if (last->info_at < 0 || last->info_at + (ptrdiff_t)last->info_len >= net->buff_end - net->buff)
        return;
    my->info = (char *)net->buff + last->info_at;
    memcpy(my->info, last->info, last->info_len + 1);
}

/* ---- a statement and its answer -------------------------------------------------------------- */

int my_adopted_ready(struct my_conn *c, const struct my_call *call)
{
    if (my_adopted_lost(c))
        return my_fail_ended(c, call);
    if (my_adopted_state(c) != SQLOCK_TX_ACTIVE)
        return sqlock_error_set(call->err, SQLOCK_ESTATE, 0,
                                my_adopted_busy(c->my)
                                    ? "an answer on the connection has not been read to its end"
                                    : "no transaction is open on the connection");
    /* an idle server sends nothing but its good-bye */
    if (sqlock_wait_fd(my_client_socket(c->my), POLLIN, -1, sqlock_now_us()) != 0)
        return my_fail_ended(c, call);
    c->ended = 0;
    return 0;
}

void my_adopted_hang_up(struct my_conn *c)
{
    c->broken = 1;
    shutdown(my_client_socket(c->my), SHUT_RDWR);
}

/* No answer came, not even late. If one came now, the application would read it. So the link is
 * cut, and the library notices that. */
static int answer_give_up(struct my_conn *c, const struct my_call *call)
{
    my_adopted_hang_up(c);
    mysql_read_query_result(c->my);
    return my_fail_wait(c, call, SQLOCK_ETIMEOUT);
}

/* The application must not get what the client library could not read to its end either. */
static int answer_fail(struct my_conn *c, const struct my_call *call)
{
    int rc = my_fail(c, call);

    if (c->broken)
        my_adopted_hang_up(c);
    return rc;
}

static int answer_exchange(struct my_conn *c, const struct my_call *call, const char *sql,
                           size_t len, MYSQL_RES **out_res)
{
    int64_t now = sqlock_now_us();
    int64_t end = (call->deadline > now ? call->deadline : now) + PATIENCE_US;

    *out_res = NULL;
    if (mysql_send_query(c->my, sql, (unsigned long)len) != 0)
        return answer_fail(c, call);
    if (sqlock_wait_fd(my_client_socket(c->my), POLLIN, -1, end) != 1)
        return answer_give_up(c, call);
    if (mysql_read_query_result(c->my) != 0)
        return answer_fail(c, call);
    if (mysql_field_count(c->my) != 0 && (*out_res = mysql_store_result(c->my)) == NULL)
        return answer_fail(c, call);
    return 0;
}

static int answer_get(struct my_conn *c, const struct my_call *call, const char *sql, size_t len,
                      MYSQL_RES **out_res)
{
    struct my_quiet quiet;
    int rc;

    my_quiet_begin(&quiet);
    rc = answer_exchange(c, call, sql, len, out_res);
    my_quiet_end(&quiet);
    return rc;
}

/* An error as an answer does not say whether the transaction is still there. 1305 means that our
 * savepoint is gone: the transaction that it stood in, which had no statement yet, has ended. */
static int transaction_look_again(struct my_conn *c, const struct my_call *call, int rc)
{
    unsigned was_open = c->my->server_status & SERVER_STATUS_IN_TRANS;
    int no_savepoint = call->err->native == 1305;
    struct my_call look = *call;
    MYSQL_RES *res = NULL;
    sqlock_error err;

    look.err = &err;
    if (answer_get(c, &look, "DO 0", 4, &res) != 0) {
        call->err->flags |= err.flags & SQLOCK_RECONNECT;
        return rc;
    }
    if (!(c->my->server_status & SERVER_STATUS_IN_TRANS) && (was_open || no_savepoint))
        c->ended = 1;
    return rc;
}

int my_adopted_query(struct my_conn *c, const struct my_call *call, const char *sql, size_t len,
                     MYSQL_RES **out_res)
{
    int rc = answer_get(c, call, sql, len, out_res);

    return rc != 0 && !c->broken ? transaction_look_again(c, call, rc) : rc;
}

int my_adopted_exec(struct my_conn *c, const struct my_call *call, const char *sql)
{
    MYSQL_RES *res = NULL;
    int rc = my_adopted_query(c, call, sql, strlen(sql), &res);

    mysql_free_result(res);
    return rc;
}

/* A prepared transaction loses its share locks: on MariaDB at once, on MySQL after a restart. Only
 * the way it was begun distinguishes an XA transaction. XA END with another name fails in each case
 * and does nothing. The error number shows whether there is an XA transaction. */
int my_adopted_refuse_xa(struct my_conn *c, const struct my_call *call)
{
    static const char sql[] = "XA END 'sqlock guard'";
    MYSQL_RES *res = NULL;
    int rc = answer_get(c, call, sql, sizeof sql - 1, &res);

    mysql_free_result(res);
    if (rc != 0 && !c->broken && call->err->native == XA_NONE)
        return 0;
    if (rc != 0 && (c->broken || call->err->native != XA_OTHER_NAME))
        return rc;
    return sqlock_error_set(call->err, SQLOCK_EREFUSED, 0,
                            "an XA transaction loses its share locks when it is prepared");
}
