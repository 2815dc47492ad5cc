/* A connection: how it is made, what its session is set to, how it ends. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "postgres.h"

/* libpq quotes a malformed URL in its message, with the password. So the message is passed on only
 * if the URL has no room for a password. */
static int url_fail(const char *url, const char *message, sqlock_error *err)
{
    char text[PG_TEXT_SIZE] = "libpq cannot read it";

    if (message == NULL || pg_is_memory(message))
        return sqlock_error_set(err, SQLOCK_ENOMEM, 0, "out of memory");
    if (strpbrk(url, "@%") == NULL && strstr(url, "password") == NULL)
        pg_one_line(text, sizeof text, message);
    return sqlock_error_set(err, SQLOCK_EINVAL, 0, "the URL is malformed: %s", text);
}

/* A "/", "@" or "?" of a password that is not written by its code: libpq takes what follows for a
 * host, a port or a database, and repeats it in messages. */
static int url_has_bare_password(const char *url)
{
    const char *hosts, *path, *at;

    if (strncmp(url, "postgres://", 11) != 0 && strncmp(url, "postgresql://", 13) != 0)
        return 0;
    hosts = strstr(url, "://") + 3;
    path = hosts + strcspn(hosts, "/?");
    if ((at = memchr(hosts, '@', (size_t)(path - hosts))) != NULL)
        hosts = at + 1;
    for (; hosts < path; hosts++)
        if (*hosts == '[')
            hosts += strcspn(hosts, "]/?");
        else if (*hosts == '@' || (*hosts == ':' && strchr("0123456789,/?", hosts[1]) == NULL))
            return 1;
    return memchr(path, '@', strcspn(path, "?")) != NULL;
}

/* 1: the URL or the environment has this setting. A service file may have more, which cannot be
 * known here and must not be overruled. */
static int option_is_set(const PQconninfoOption *options, const char *keyword)
{
    for (; options->keyword != NULL; options++)
        if (strcmp(options->keyword, keyword) == 0)
            return (options->val != NULL && options->val[0] != '\0') ||
                   (options->envvar != NULL && getenv(options->envvar) != NULL);
    return 0;
}

struct conn_args {
    const char *keys[16];
    const char *vals[16];
    size_t n;
    struct pg_host host; /* of several */
};

static void arg_add(struct conn_args *args, const char *key, const char *val)
{
    args->keys[args->n] = key;
    args->vals[args->n++] = val;
}

/* Of two values for a keyword libpq takes the later one. So a value before the URL is a default,
 * and one after it is an order. A silent network is noticed within about 25 s, instead of two
 * hours. GSS encryption is off unless the user names it: its library does not survive running out
 * of memory. */
static int url_check(const char *url, struct conn_args *args, sqlock_error *err)
{
    char *message = NULL;
    PQconninfoOption *options = PQconninfoParse(url, &message);
    int rc = 0;

    if (options == NULL) {
        rc = url_fail(url, message, err);
        goto out;
    }
    if (url_has_bare_password(url)) {
        rc = sqlock_error_set(err, SQLOCK_EINVAL, 0,
                              "the URL is malformed: in a user's name or password write %%40 for "
                              "\"@\", %%2F for \"/\", %%3F for \"?\"");
        goto out;
    }
    arg_add(args, "fallback_application_name", "sqlock");
    if (!option_is_set(options, "service")) {
        arg_add(args, "keepalives_idle", "10");
        arg_add(args, "keepalives_interval", "5");
        arg_add(args, "keepalives_count", "3");
        arg_add(args, "tcp_user_timeout", "15000");
        if (!option_is_set(options, "gssencmode"))
            arg_add(args, "gssencmode", "disable");
    }
    arg_add(args, "dbname", url);
    arg_add(args, "client_encoding", "UTF8");
out:
    PQfreemem(message);
    PQconninfoFree(options);
    return rc;
}

static int conn_connect_wait(struct pg_conn *c, int64_t deadline, sqlock_error *err)
{
    PostgresPollingStatusType want = PGRES_POLLING_WRITING;

    while (want != PGRES_POLLING_OK) {
        int r;

        if (want == PGRES_POLLING_FAILED || PQsocket(c->pg) < 0)
            return pg_fail_connect(c->pg, err);
        /* The socket changes when libpq goes on to the next address. */
        r = sqlock_wait_fd(PQsocket(c->pg), want == PGRES_POLLING_READING ? POLLIN : POLLOUT,
                           c->open_wake, deadline);
        if (r == 2)
            return sqlock_error_set(err, SQLOCK_ECANCELLED, 0, "cancelled while connecting");
        if (r == 0)
            return sqlock_error_db(err, "08001", 0, 0, "no connection before the deadline");
        if (r < 0)
            return sqlock_error_set(err, SQLOCK_ESYS, 0, "waiting for the server failed");
        want = PQconnectPoll(c->pg);
    }
    return 0;
}

/* One of several hosts, instead of all. An empty value would keep the URL's. */
static int conn_choose_host(const char *url, uint32_t host, struct conn_args *args,
                            sqlock_error *err)
{
    struct pg_host *h = &args->host;

    if (host == 0)
        return 0;
    if (!pg_host_pick(url, host, h))
        return sqlock_error_set(err, SQLOCK_ENOMEM, 0, "out of memory");
    if (*h->name != '\0')
        arg_add(args, "host", h->name);
    if (*h->address != '\0')
        arg_add(args, "hostaddr", h->address);
    if (*h->port != '\0')
        arg_add(args, "port", h->port);
    return 0;
}

static int conn_start(struct pg_conn *c, const sqlock_conn_opts *opts, sqlock_error *err)
{
    struct conn_args args = {.n = 0};
    int rc = url_check(opts->url, &args, err);

    if (rc == 0)
        rc = conn_choose_host(opts->url, SQLOCK_HAS_FIELD(opts, host) ? opts->host : 0, &args, err);
    if (rc == 0)
        c->pg = PQconnectStartParams(args.keys, args.vals, 1);
    pg_host_free(&args.host);
    return rc;
}

static int conn_connect_url(struct pg_conn *c, const sqlock_conn_opts *opts, int64_t deadline,
                            sqlock_error *err)
{
    int rc;

    if (PQlibVersion() < PG_OLDEST_LIBPQ)
        return sqlock_error_set(err, SQLOCK_EREFUSED, 0, "libpq is older than 12");
    if ((rc = conn_start(c, opts, err)) != 0)
        return rc;
    if (c->pg == NULL)
        return sqlock_error_set(err, SQLOCK_ENOMEM, 0, "out of memory");
    PQsetNoticeReceiver(c->pg, pg_take_notice, c);
    /* The only way to learn the SQLSTATE of a refused login. */
    PQsetErrorVerbosity(c->pg, PQERRORS_VERBOSE);
    if (PQstatus(c->pg) == CONNECTION_BAD)
        return pg_fail_connect(c->pg, err);
    rc = conn_connect_wait(c, deadline, err);
    PQsetErrorVerbosity(c->pg, PQERRORS_DEFAULT);
    return rc;
}

static int conn_connect_factory(struct pg_conn *c, const sqlock_conn_opts *opts, sqlock_error *err)
{
    void *native = NULL;
    int rc = opts->connect(opts->connect_user, &native, err);

    if (rc != 0)
        return rc;
    if (native == NULL)
        return sqlock_error_set(err, SQLOCK_ESTATE, 0,
                                "the connection factory returned no connection");
    c->pg = native;
    PQsetNoticeReceiver(c->pg, pg_take_notice, c);
    if (PQstatus(c->pg) != CONNECTION_OK || PQtransactionStatus(c->pg) != PQTRANS_IDLE)
        return sqlock_error_set(err, SQLOCK_ESTATE, 0,
                                "the connection factory's connection is not connected and idle");
    return 0;
}

/* What the statements need, whatever the server, the database or the role has as its default:
 * - Names and operators are those of pg_catalog. Tables are written with their schema.
 * - A confirmed commit survives a crash, and is on the synchronous standby if there is one.
 * - Each statement sees what was committed before it started.
 * - Only the client's deadline ends a request. The server's timeouts would end the session. But a
 *   server notices that a client has gone only when it next sends something to it. So a wait for a
 *   lock ends earlier, and begins again while there is time. Otherwise the session would wait for
 *   as long as the lock is kept, and then do work whose result no client reads.
 * - Warnings are sent, because one of them takes back a success (pg_take_notice).
 * - Tables are read by their key: a plan that was made while they were empty is still used when
 *   they have grown. A small table without a fitting key counts as dear then, and the server would
 *   compile the statement, which takes hundreds of milliseconds: so it compiles none.
 * - A prepared statement is planned once. Otherwise the server plans it anew for five calls of each
 *   session, and for all later ones where it hopes to save something by the values of a call.
 * - A packet of several statements may be cut in the middle by a network that falls silent. Then
 * the server has run the first ones, and keeps the rows locked until it notices: within 25 seconds.
 *
 * search_path comes first, for the operators after it. */
static const char session_path[] = "SET search_path = pg_catalog, pg_temp";
static const char session_sql[] =
    "SELECT set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit')"
    " IN ('on', 'remote_apply') THEN current_setting('synchronous_commit') ELSE 'on' END, false),"
    " set_config('default_transaction_isolation', 'read committed', false),"
    " set_config('default_transaction_deferrable', 'off', false),"
    " set_config('standard_conforming_strings', 'on', false),"
    " set_config('client_min_messages', 'warning', false),"
    " set_config('enable_seqscan', 'off', false),"
    " set_config('statement_timeout', '0', false),"
    " set_config('lock_timeout', CASE WHEN current_setting('server_version_num')::int >= 140000"
    " AND version() ~ 'linux' THEN '0' ELSE '2s' END, false),"
    " set_config('idle_in_transaction_session_timeout', '0', false),"
    " set_config('tcp_keepalives_idle', '10', false),"
    " set_config('tcp_keepalives_interval', '5', false),"
    " set_config('tcp_keepalives_count', '3', false)";
static const char session_sql_11[] = ", set_config('jit', 'off', false)";
static const char session_sql_12[] = ", set_config('plan_cache_mode', 'force_generic_plan', false)";
/* With this setting the server looks for its client during a statement, and soon ends one whose
 * client has gone. Linux only: other servers refuse the setting. */
static const char session_sql_14[] =
    ", set_config('idle_session_timeout', '0', false), CASE WHEN version() ~ 'linux'"
    " THEN set_config('client_connection_check_interval', '2s', false) END";
static const char session_sql_17[] = ", set_config('transaction_timeout', '0', false)";

static int session_set(struct pg_conn *c, int64_t deadline, sqlock_error *err)
{
    char sql[sizeof session_sql + sizeof session_sql_11 + sizeof session_sql_12 +
             sizeof session_sql_14 + sizeof session_sql_17];
    struct pg_call call = {deadline, 0, err};
    int version = PQserverVersion(c->pg);

    snprintf(sql, sizeof sql, "%s%s%s%s%s", session_sql, version >= 110000 ? session_sql_11 : "",
             version >= 120000 ? session_sql_12 : "", version >= 140000 ? session_sql_14 : "",
             version >= 170000 ? session_sql_17 : "");
    return pg_send_ahead(c, &call, session_path, sql);
}

static int session_prepare(struct pg_conn *c, int64_t deadline, sqlock_error *err)
{
    int version = PQserverVersion(c->pg);

    if (version < PG_OLDEST_SERVER)
        return sqlock_error_set(err, SQLOCK_EREFUSED, 0,
                                "the server's version number is %d; PostgreSQL 10 is the oldest",
                                version);
    if (PQsetnonblocking(c->pg, 1) != 0)
        return pg_fail_connect(c->pg, err);
    return c->unprepared ? 0 : session_set(c, deadline, err);
}

int pg_open(const sqlock_conn_opts *opts, int64_t deadline, void **out_conn, sqlock_error *err)
{
    struct pg_conn *c = sqlock_mem_alloc(sizeof *c);
    int rc;

    if (c == NULL)
        return sqlock_error_set(err, SQLOCK_ENOMEM, 0, "out of memory");
    c->scripts = opts->scripts;
    c->unprepared = (opts->flags & SQLOCK_OPEN_UNPREPARED) != 0;
    c->tag[0] = sqlock_random_below(UINT32_MAX);
    c->tag[1] = sqlock_random_below(UINT32_MAX);
    atomic_init(&c->cancelled, 0);
    c->open_wake = SQLOCK_HAS_FIELD(opts, wake_fd) ? opts->wake_fd : -1;
    c->wake_fd = sqlock_wake_make();
    if (c->wake_fd < 0) {
        rc = sqlock_error_set(err, SQLOCK_ESYS, 0, "no file descriptor is available");
        goto fail;
    }
    rc = opts->url != NULL ? conn_connect_url(c, opts, deadline, err)
                           : conn_connect_factory(c, opts, err);
    if (rc == 0)
        rc = session_prepare(c, deadline, err);
    if (rc != 0)
        goto fail;
    c->open_wake = -1;
    *out_conn = c;
    return 0;
fail:
    pg_close(c);
    return rc;
}

static void conn_forget_scripts(struct pg_conn *c)
{
    for (int stmt = 0; stmt < SQLOCK_STMT_COUNT; stmt++) {
        sqlock_mem_free(c->types[stmt]);
        for (int array = 0; array < 2; array++)
            for (int n = 0; n < PG_STEPS_MAX; n++)
                sqlock_mem_free(c->prepared[stmt][array][n]);
    }
}

/* The socket does not block, so PQfinish() does not wait for the server either. An adopted PGconn
 * may be gone by now. */
void pg_close(void *conn)
{
    struct pg_conn *c = conn;

    if (!c->adopted)
        PQfinish(c->pg);
    if (c->wake_fd >= 0)
        sqlock_wake_close(c->wake_fd);
    conn_forget_scripts(c);
    sqlock_mem_free(c->at.name);
    PQclear(c->at.kept);
    pg_packet_clear(c);
    sqlock_mem_free(c);
}
