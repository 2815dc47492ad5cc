/* MariaDB's client library: a call that would block returns what it waits for, and is carried on.
 */
#include "mysql.h"

#ifdef MARIADB_PACKAGE_VERSION_ID
#include <poll.h>

/* What the library waits for, in poll()'s words; 0: the call is done. */
static int waits(struct my_op *op, int status)
{
    op->status = status;
    op->events = (status & MYSQL_WAIT_READ ? POLLIN : 0) |
                 (status & MYSQL_WAIT_WRITE ? POLLOUT : 0) |
                 (status & MYSQL_WAIT_EXCEPT ? POLLPRI : 0);
    return status != 0;
}

int my_client_socket(MYSQL *my)
{
    return (int)mysql_get_socket(my);
}

int my_client_prepare(MYSQL *my)
{
    my_bool off = 0;

    mysql_options(my, MYSQL_OPT_RECONNECT, &off);
    return mysql_options(my, MYSQL_OPT_NONBLOCK, NULL) == 0;
}

int my_client_adopts(MYSQL *my, const char **out_why)
{
    my_bool ready = 0, off = 0;

    *out_why = "has no MYSQL_OPT_NONBLOCK";
    mysql_get_option(my, MYSQL_OPT_NONBLOCK, &ready);
    mysql_options(my, MYSQL_OPT_RECONNECT, &off);
    return ready;
}

const char *my_client_strays(MYSQL *my)
{
    my_bool reconnects = 0, skips = 0;

    mysql_get_option(my, MYSQL_OPT_RECONNECT, &reconnects);
    mysql_get_option(my, MARIADB_OPT_SKIP_READ_RESPONSE, &skips);
    return reconnects ? "MYSQL_OPT_RECONNECT" : skips ? "MARIADB_OPT_SKIP_READ_RESPONSE" : NULL;
}

/* Enforced TLS is dropped without a word where the server has none, unless certificates are
 * verified: conn.c looks again. There is no verifying without the host's name. */
const char *my_client_tls(MYSQL *my, MYSQL *files, enum my_ssl_mode mode)
{
    static const enum mysql_option texts[] = {MARIADB_OPT_TLS_PEER_FP, MARIADB_OPT_TLS_PEER_FP_LIST,
                                              MARIADB_OPT_TLS_PASSPHRASE};
    my_bool enforce = mode >= MY_SSL_PREFERRED, verify = mode == MY_SSL_VERIFY_IDENTITY;

    if (mode == MY_SSL_VERIFY_CA)
        return "MariaDB's client library knows no ssl-mode=verify_ca; verify_identity is stricter";
    if (mode == MY_SSL_UNSAID) {
        mysql_get_option(files, MYSQL_OPT_SSL_ENFORCE, &enforce);
        mysql_get_option(files, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &verify);
    }
    mysql_options(my, MYSQL_OPT_SSL_ENFORCE, &enforce);
    mysql_options(my, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &verify);
    for (size_t i = 0; mode != MY_SSL_DISABLED && i < sizeof texts / sizeof *texts; i++) {
        const char *value = NULL;

        mysql_get_option(files, texts[i], &value);
        if (value != NULL)
            mysql_options(my, texts[i], value);
    }
    return NULL;
}

int my_client_connect(MYSQL *my, struct my_op *op, const struct my_target *t)
{
    MYSQL *done = NULL;
    int status = op->status != 0 ? mysql_real_connect_cont(&done, my, op->status)
                                 : mysql_real_connect_start(&done, my, t->host, t->user,
                                                            t->password, t->database, t->port,
                                                            t->socket, CLIENT_MULTI_STATEMENTS);

    op->failed = done == NULL;
    return waits(op, status);
}

int my_client_query(MYSQL *my, struct my_op *op, const char *sql, size_t len)
{
    int status = op->status != 0 ? mysql_real_query_cont(&op->failed, my, op->status)
                                 : mysql_real_query_start(&op->failed, my, sql, (unsigned long)len);

    return waits(op, status);
}

int my_client_next(MYSQL *my, struct my_op *op)
{
    int status = op->status != 0 ? mysql_next_result_cont(&op->failed, my, op->status)
                                 : mysql_next_result_start(&op->failed, my);

    return waits(op, status);
}

int my_client_store(MYSQL *my, struct my_op *op, MYSQL_RES **out_res)
{
    int status = op->status != 0 ? mysql_store_result_cont(out_res, my, op->status)
                                 : mysql_store_result_start(out_res, my);

    op->failed = *out_res == NULL && mysql_field_count(my) != 0;
    return waits(op, status);
}

#endif
