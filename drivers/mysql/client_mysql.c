/* MySQL's own client library: a call that would block says so, and is made again. It does not say
 * what it waits for. */
#include "mysql.h"

#ifndef MARIADB_PACKAGE_VERSION_ID
#include <poll.h>

#if LIBMYSQL_VERSION_ID < 80016
#error "libmysqlclient before 8.0.16 has no calls that do not block: build with libmariadb"
#endif

#define NAP_MIN_US 200
#define NAP_MAX_US 10000

static int client_waits(struct my_op *op, enum net_async_status status, int events)
{
    op->failed = status == NET_ASYNC_ERROR;
    op->events = events;
    return status == NET_ASYNC_NOT_READY;
}

/* The library's own field keeps its number after the library has closed the socket. By then the
 * number may belong to another descriptor. */
int my_client_socket(MYSQL *my)
{
    return my->net.vio != NULL ? (int)my->net.fd : -1;
}

/* Reconnecting is off by default, and newer libraries complain about the option. Until the library
 * has a socket, it leaves 0 in the field, which is a descriptor too. */
int my_client_prepare(MYSQL *my)
{
    my->net.fd = -1;
    return 1;
}

int my_client_adopts(MYSQL *my, const char **out_why)
{
    *out_why = "reconnects by itself";
    return !my->reconnect;
}

const char *my_client_strays(MYSQL *my)
{
    return my->reconnect ? "MYSQL_OPT_RECONNECT" : NULL;
}

static int files_name_authority(MYSQL *files)
{
    return files->options.ssl_ca != NULL || files->options.ssl_capath != NULL;
}

/* The library reads ssl-mode in no option file. If a file names an authority, the server's
 * certificate is checked, as the mysql command does. */
const char *my_client_tls(MYSQL *my, MYSQL *files, enum my_ssl_mode *mode)
{
    static const unsigned modes[] = {
        [MY_SSL_DISABLED] = SSL_MODE_DISABLED,
        [MY_SSL_PREFERRED] = SSL_MODE_PREFERRED,
        [MY_SSL_REQUIRED] = SSL_MODE_REQUIRED,
        [MY_SSL_VERIFY_CA] = SSL_MODE_VERIFY_CA,
        [MY_SSL_VERIFY_IDENTITY] = SSL_MODE_VERIFY_IDENTITY,
    };
    unsigned wanted = modes[*mode];
    const char *suites = NULL;

    if (*mode == MY_SSL_UNSAID)
        mysql_get_option(files, MYSQL_OPT_SSL_MODE, &wanted);
    if (*mode == MY_SSL_UNSAID && wanted <= SSL_MODE_PREFERRED && files_name_authority(files))
        wanted = SSL_MODE_VERIFY_CA;
    if (wanted != 0)
        mysql_options(my, MYSQL_OPT_SSL_MODE, &wanted);
    mysql_get_option(files, MYSQL_OPT_TLS_CIPHERSUITES, &suites);
    if (suites != NULL)
        mysql_options(my, MYSQL_OPT_TLS_CIPHERSUITES, suites);
    return NULL;
}

/* It reads and writes in turn, and has no descriptor before it is connected. So the call is made
 * again after a while at the latest. */
int my_client_connect(MYSQL *my, struct my_op *op, const struct my_target *t)
{
    op->nap_us = op->nap_us * 2 < NAP_MIN_US   ? NAP_MIN_US
                 : op->nap_us * 2 < NAP_MAX_US ? op->nap_us * 2
                                               : NAP_MAX_US;
    return client_waits(op,
                        mysql_real_connect_nonblocking(my, t->host, t->user, t->password,
                                                       t->database, t->port, t->socket,
                                                       CLIENT_MULTI_STATEMENTS),
                        POLLIN);
}

/* Sends first, then reads: so it is known what the library waits for. */
int my_client_send(MYSQL *my, struct my_op *op, const char *sql, size_t len)
{
    return client_waits(op, mysql_send_query_nonblocking(my, sql, (unsigned long)len), POLLOUT);
}

int my_client_answer(MYSQL *my, struct my_op *op, const char *sql, size_t len)
{
    return client_waits(op, mysql_real_query_nonblocking(my, sql, (unsigned long)len), POLLIN);
}

/* It sends without MSG_NOSIGNAL. */
int my_client_signals(MYSQL *my)
{
    (void)my;
    return 1;
}

/* It does not say how far it has read. */
int my_client_has_read(const MYSQL *my)
{
    (void)my;
    return 1;
}

int my_client_next(MYSQL *my, struct my_op *op)
{
    return client_waits(op, mysql_next_result_nonblocking(my), POLLIN);
}

/* As in client_mariadb.c: after a loss the columns may be forgotten, and only the error is left. */
int my_client_store(MYSQL *my, struct my_op *op, MYSQL_RES **out_res)
{
    int more = client_waits(op, mysql_store_result_nonblocking(my, out_res), POLLIN);

    op->failed = !more && *out_res == NULL && (mysql_field_count(my) != 0 || mysql_errno(my) != 0);
    return more;
}

#endif
