/* A connection: how it is made, what its session is set to, how it ends. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "mysql.h"

/* Programs that the process starts would inherit the client library's socket: a lock's connection
 * would live on in them. */
static void socket_close_on_exec(MYSQL *my)
{
    int fd = my_client_socket(my);

    if (fd >= 0)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/* What the statements rely on, whatever the server or its init_connect has set:
 * - Each statement commits by itself, and sees what was committed before it started.
 * - Times are UTC. Nothing is cut or rounded silently. Assignments are made from left to right.
 * - A wait for a row ends soon. Only the client's deadline limits the rest.
 * - GROUP_CONCAT cuts no list of a batch's numbers. */
static const char session_sql[] =
    "SET SESSION autocommit = 1, time_zone = '+00:00', completion_type = 0, sql_safe_updates = 0,"
    " sql_auto_is_null = 0, timestamp = DEFAULT, innodb_lock_wait_timeout = 1, foreign_key_checks "
    "= 1,"
    " unique_checks = 1, sql_big_selects = 1, sql_select_limit = 18446744073709551615,"
    " group_concat_max_len = 65536,"
    " sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO'"
    " /*M!100000 , max_statement_time = 0 */ /*!50708 , max_execution_time = 0 */;"
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE";

static int session_set(struct my_conn *c, int64_t deadline, sqlock_error *err)
{
    struct my_call call = {.deadline = deadline, .err = err};
    MYSQL_RES *res = NULL;
    int rc;

    c->thread_id = mysql_thread_id(c->my);
    rc = my_query(c, &call, session_sql, sizeof session_sql - 1, &res);
    mysql_free_result(res);
    return rc;
}

/* MariaDB before 11 puts another number in front, for very old clients. */
static unsigned long server_version(const char *info)
{
    unsigned long major = 0, minor = 0, patch = 0;

    if (strncmp(info, "5.5.5-", 6) == 0)
        info += 6;
    sscanf(info, "%lu.%lu.%lu", &major, &minor, &patch);
    return major * 10000 + minor * 100 + patch;
}

int my_check_version(struct my_conn *c, sqlock_error *err)
{
    const char *info = mysql_get_server_info(c->my);
    unsigned long version = server_version(info);

    c->maria = strstr(info, "MariaDB") != NULL;
    c->skips_locked = version >= (c->maria ? 100600ul : 80001ul);
    c->waits_not = c->keeps = c->maria;
    if (version >= (c->maria ? 100600ul : 50600ul))
        return 0;
    return sqlock_error_set(err, SQLOCK_EREFUSED, 0,
                            "the server is version %s; MariaDB 10.6 or MySQL 5.6 is needed", info);
}

static int connect_fail_tls(sqlock_error *err)
{
    return sqlock_error_set(err, SQLOCK_EREFUSED, 0,
                            "the server has no TLS, but ssl-mode or an option file requires it");
}

static int connect_wait(struct my_conn *c, const struct my_target *t, int64_t deadline,
                        sqlock_error *err)
{
    struct my_call call = {.deadline = deadline, .err = err};
    struct my_op op = {0};
    struct my_quiet quiet;
    int rc = 0;

    my_quiet_begin(&quiet);
    while (rc == 0 && my_client_connect(c->my, &op, t)) {
        socket_close_on_exec(c->my);
        rc = my_wait(c, &call, &op);
    }
    my_quiet_end(&quiet);
    if (rc != 0)
        return rc == SQLOCK_ETIMEOUT
                   ? sqlock_error_db(err, "08001", 0, 0, "no connection before the deadline")
                   : rc;
    if (op.failed)
        return op.refused ? connect_fail_tls(err) : my_fail_connect(c, err);
    socket_close_on_exec(c->my);
    return t->tls >= MY_SSL_REQUIRED && mysql_get_ssl_cipher(c->my) == NULL ? connect_fail_tls(err)
                                                                            : 0;
}

static int connect_url(struct my_conn *c, const sqlock_conn_opts *opts, int64_t deadline,
                       sqlock_error *err)
{
    uint32_t host = SQLOCK_HAS_FIELD(opts, host) && opts->host > 0 ? opts->host : 1;
    struct my_url u;
    struct my_target to = {0};
    MYSQL *files = NULL;
    int rc = my_url_parse(opts->url, host, &u, err);

    if (rc == 0 &&
        ((c->my = my_init()) == NULL || !my_client_prepare(c->my) || (files = my_init()) == NULL))
        rc = sqlock_error_set(err, SQLOCK_ENOMEM, 0, "out of memory");
    if (rc == 0)
        rc = my_options_set(c->my, files, &u, &to, err);
    to.deadline = deadline;
    if (rc == 0)
        rc = connect_wait(c, &to, deadline, err);
    if (files != NULL)
        mysql_close(files);
    my_url_free(&u);
    return rc;
}

static int connect_factory(struct my_conn *c, const sqlock_conn_opts *opts, sqlock_error *err)
{
    void *native = NULL;
    const char *why;
    int rc = opts->connect(opts->connect_user, &native, err);

    if (rc != 0)
        return rc;
    if (native == NULL)
        return sqlock_error_set(err, SQLOCK_ESTATE, 0,
                                "the connection factory returned no connection");
    c->my = native;
    if (my_client_socket(c->my) < 0 || (c->my->server_status & SERVER_STATUS_IN_TRANS))
        return sqlock_error_set(err, SQLOCK_ESTATE, 0,
                                "the connection factory's connection is not connected and idle");
    if (!(c->my->client_flag & CLIENT_MULTI_STATEMENTS))
        return sqlock_error_set(err, SQLOCK_ESTATE, 0,
                                "the connection factory's connection has no "
                                "CLIENT_MULTI_STATEMENTS");
    if (!my_client_adopts(c->my, &why))
        return sqlock_error_set(err, SQLOCK_ESTATE, 0, "the connection factory's connection %s",
                                why);
    socket_close_on_exec(c->my);
    return 0;
}

int my_open(const sqlock_conn_opts *opts, int64_t deadline, void **out_conn, sqlock_error *err)
{
    struct my_conn *c = NULL;
    int rc;

    /* Isolation, time zone and limits are set in the session, and the statements rely on them. */
    if (opts->flags & SQLOCK_OPEN_UNPREPARED)
        return sqlock_error_set(err, SQLOCK_EREFUSED, 0,
                                "this driver sets up its sessions, so no pooler may share them: "
                                "SQLOCK_OPEN_UNPREPARED is not possible");
    if ((c = sqlock_mem_alloc(sizeof *c)) == NULL)
        return sqlock_error_set(err, SQLOCK_ENOMEM, 0, "out of memory");
    c->scripts = opts->scripts;
    atomic_init(&c->cancelled, 0);
    c->open_wake = SQLOCK_HAS_FIELD(opts, wake_fd) ? opts->wake_fd : -1;
    c->wake_fd = sqlock_wake_make();
    if (c->wake_fd < 0) {
        rc = sqlock_error_set(err, SQLOCK_ESYS, 0, "no file descriptor is available");
        goto fail;
    }
    rc = opts->url != NULL ? connect_url(c, opts, deadline, err) : connect_factory(c, opts, err);
    if (rc == 0)
        rc = my_check_version(c, err);
    if (rc == 0)
        rc = session_set(c, deadline, err);
    if (rc != 0)
        goto fail;
    c->open_wake = -1;
    *out_conn = c;
    return 0;
fail:
    c->broken = 1;
    my_close(c);
    return rc;
}

/* mysql_close() sends a good-bye to the server, and would wait if there is no room for it. So there
 * is none on a connection that was given up. */
void my_close(void *conn)
{
    struct my_conn *c = conn;

    if (c->my != NULL && !c->adopted) {
        int fd = my_client_socket(c->my);
        struct my_quiet quiet;

        my_quiet_begin(&quiet);
        if (fd >= 0 && (c->broken || sqlock_wait_fd(fd, POLLOUT, -1, sqlock_now_us()) != 1))
            shutdown(fd, SHUT_RDWR);
        mysql_close(c->my);
        my_quiet_end(&quiet);
    }
    if (c->wake_fd >= 0)
        sqlock_wake_close(c->wake_fd);
    sqlock_mem_free(c->at.text);
    sqlock_mem_free(c);
}
