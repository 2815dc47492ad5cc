/* MariaDB's client library: a call that would block returns what it waits for, and is continued. */
#include "mysql.h"

#ifdef MARIADB_PACKAGE_VERSION_ID
#include <errno.h>
#include <ma_pvio.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#define NAP_US     1000
#define AT_ONCE_US 1000
#define SECOND_US  INT64_C(1000000)

/* What the library waits for, in poll()'s words; 0: the call is done. Its own timeout is not
 * reported to it: the deadline is ours. */
static int client_waits(struct my_op *op, int status)
{
    status &= ~MYSQL_WAIT_TIMEOUT;
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

/* When the library is connected, it makes the socket a blocking one, but reads under TLS as if it
 * did not block. So in the handshake and after each statement it would wait without end for a
 * silent server. With these timeouts the socket itself gives up at once, and the library returns
 * what it waits for. Without TLS it never blocks in the socket. */
static void socket_never_block(MYSQL *my)
{
    const struct timeval at_once = {.tv_usec = AT_ONCE_US};
    int fd = my_client_socket(my);

    if (fd < 0)
        return;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &at_once, sizeof at_once);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &at_once, sizeof at_once);
}

/* In the handshake the library does not return what it waits for: it waits itself, this long for
 * each of the server's answers. */
static void handshake_bound(MYSQL *my, int64_t deadline)
{
    int64_t half = (deadline - sqlock_now_us()) / 2 / SECOND_US;
    unsigned seconds = half < 1 ? 1 : half > 3600 ? 3600 : (unsigned)half;

    mysql_options(my, MYSQL_OPT_CONNECT_TIMEOUT, &seconds);
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
    socket_never_block(my);
    return ready;
}

const char *my_client_strays(MYSQL *my)
{
    my_bool reconnects = 0, skips = 0;

    mysql_get_option(my, MYSQL_OPT_RECONNECT, &reconnects);
    mysql_get_option(my, MARIADB_OPT_SKIP_READ_RESPONSE, &skips);
    return reconnects ? "MYSQL_OPT_RECONNECT" : skips ? "MARIADB_OPT_SKIP_READ_RESPONSE" : NULL;
}

/* 1: an option file has an option that only TLS uses. */
static int files_want_tls(const struct st_mysql_options *files)
{
    return files->use_ssl || files->ssl_ca != NULL || files->ssl_capath != NULL ||
           files->ssl_cert != NULL || files->ssl_key != NULL || files->ssl_cipher != NULL;
}

/* This library always checks the host's name too. */
const char *my_client_tls(MYSQL *my, MYSQL *files, enum my_ssl_mode *mode)
{
    static const enum mysql_option texts[] = {MARIADB_OPT_TLS_PEER_FP, MARIADB_OPT_TLS_PEER_FP_LIST,
                                              MARIADB_OPT_TLS_PASSPHRASE};
    my_bool enforce, verify = *mode == MY_SSL_VERIFY_IDENTITY;

    if (*mode == MY_SSL_VERIFY_CA)
        return "MariaDB's client library has no ssl-mode=verify_ca; verify_identity is stricter";
    if (*mode == MY_SSL_UNSAID) {
        mysql_get_option(files, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &verify);
        *mode = verify || files_want_tls(&files->options) ? MY_SSL_REQUIRED : MY_SSL_UNSAID;
    }
    enforce = *mode >= MY_SSL_PREFERRED;
    mysql_options(my, MYSQL_OPT_SSL_ENFORCE, &enforce);
    mysql_options(my, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &verify);
    for (size_t i = 0; *mode >= MY_SSL_REQUIRED && i < sizeof texts / sizeof *texts; i++) {
        const char *value = NULL;

        mysql_get_option(files, texts[i], &value);
        if (value != NULL)
            mysql_options(my, texts[i], value);
    }
    return NULL;
}

/* Looks at the server's first packet and leaves it in the socket. Returns
 * - 1: the server has TLS, or this is another packet, which the library will read
 * - 0: it has no TLS
 * - -1: not all of the packet has come */
static int handshake_offers_tls(int fd, int *out_part)
{
    unsigned char b[512];
    ssize_t n = recv(fd, b, sizeof b, MSG_PEEK | MSG_DONTWAIT);
    size_t got = n > 0 ? (size_t)n : 0, flags;
    const unsigned char *end;

    if (n == 0 || (n < 0 && errno != EAGAIN) || (n > 4 && b[4] != PROTOCOL_VERSION))
        return 1;
    end = got > 5 ? memchr(b + 5, '\0', got - 5) : NULL; /* of the version */
    flags = end != NULL ? (size_t)(end - b) + 1 + 4 + 8 + 1 : sizeof b;
    *out_part = got > 0;
    if (flags + 2 <= got)
        return (b[flags] | b[flags + 1] << 8) & CLIENT_SSL ? 1 : 0;
    if (got > 0 && sqlock_wait_fd(fd, POLLRDHUP, -1, sqlock_now_us()) == 1)
        return 1;
    return got == sizeof b ? 0 : -1;
}

/* If TLS is wanted and the server has none, the library goes on silently, believes in TLS, and may
 * send the password in clear. So this looks at the server's first packet before the library reads
 * it. Only a connection that is made at once, on this machine, may be faster. 1: not yet. */
static int handshake_look(MYSQL *my, struct my_op *op, enum my_ssl_mode tls)
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer;
    int fd = my_client_socket(my), part, speaks;
    my_bool off = 0;

    if (op->looked || tls < MY_SSL_PREFERRED ||
        getpeername(fd, (struct sockaddr *)&peer, &len) != 0)
        return 0;
    if ((speaks = handshake_offers_tls(fd, &part)) < 0) {
        op->events =
            part ? 0 : POLLIN; /* a part that stays in the socket would end the wait at once */
        op->nap_us = part ? NAP_US : 0;
        return 1;
    }
    op->looked = 1;
    op->nap_us = 0;
    op->refused = !speaks && tls >= MY_SSL_REQUIRED;
    if (!speaks)
        mysql_options(my, MYSQL_OPT_SSL_ENFORCE, &off);
    return 0;
}

int my_client_connect(MYSQL *my, struct my_op *op, const struct my_target *t)
{
    MYSQL *done = NULL;
    int status = op->status;

    if (status != 0 && handshake_look(my, op, t->tls))
        return 1;
    if (op->refused) {
        op->failed = 1;
        return 0;
    }
    socket_never_block(my); /* before it goes on to the handshake */
    if (status == 0)
        handshake_bound(my, t->deadline);
    status = status != 0
                 ? mysql_real_connect_cont(&done, my, status)
                 : mysql_real_connect_start(&done, my, t->host, t->user, t->password, t->database,
                                            t->port, t->socket, CLIENT_MULTI_STATEMENTS);
    socket_never_block(my);
    op->failed = done == NULL;
    return client_waits(op, status);
}

int my_client_send(MYSQL *my, struct my_op *op, const char *sql, size_t len)
{
    int status = op->status != 0 ? mysql_send_query_cont(&op->failed, my, op->status)
                                 : mysql_send_query_start(&op->failed, my, sql, (unsigned long)len);

    return client_waits(op, status);
}

int my_client_answer(MYSQL *my, struct my_op *op, const char *sql, size_t len)
{
    my_bool failed = 0;
    int status = op->status != 0 ? mysql_read_query_result_cont(&failed, my, op->status)
                                 : mysql_read_query_result_start(&failed, my);

    (void)sql;
    (void)len;
    op->failed = failed;
    return client_waits(op, status);
}

int my_client_next(MYSQL *my, struct my_op *op)
{
    int status = op->status != 0 ? mysql_next_result_cont(&op->failed, my, op->status)
                                 : mysql_next_result_start(&op->failed, my);

    return client_waits(op, status);
}

/* The library reads ahead into its cache, except for packets of 2048 bytes or more, of which TLS
 * may keep a rest. Those have rows. */
int my_client_has_read(const MYSQL *my)
{
    const MARIADB_PVIO *io = my->net.pvio;

    return io == NULL || my->net.remain_in_buf > 0 ||
           (io->cache != NULL && io->cache_pos < io->cache + io->cache_size);
}

/* Without TLS it sends with MSG_NOSIGNAL. */
int my_client_signals(MYSQL *my)
{
    return mysql_get_ssl_cipher(my) != NULL;
}

/* A library that has lost the connection between columns and rows has forgotten the columns. Only
 * the error distinguishes that from an answer without any. */
int my_client_store(MYSQL *my, struct my_op *op, MYSQL_RES **out_res)
{
    int status = op->status != 0 ? mysql_store_result_cont(out_res, my, op->status)
                                 : mysql_store_result_start(out_res, my);

    op->failed = *out_res == NULL && (mysql_field_count(my) != 0 || mysql_errno(my) != 0);
    return client_waits(op, status);
}

#endif
