/* An adopted connection: the application's (P14). A statement goes the same way as on a connection
 * of our own (wire.c), with these differences:
 * - What a call sets on the PGconn, it restores at its end.
 * - If a statement is still running when its time is over, it is cancelled and its end is read.
 *   Otherwise the link is cut, because the application would read a later answer as its own.
 * - The driver sends no statement about transactions, except for our own savepoint. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "postgres.h"

/* How long we wait for the end of a cancelled statement, with all that it takes to cancel it. */
#define CUT_US INT64_C(2000000)

/* ---- adopting -------------------------------------------------------------------------------- */

/* libpq does not reveal the argument of a notice receiver, so a replaced one cannot be restored.
 * The exception is libpq's own receiver, which needs no argument. A PGconn that no one has touched
 * shows which one that is. This one fails because of its text, before libpq looks up anything. */
static int receiver_find_default(struct pg_conn *c)
{
    PGconn *untouched = PQconnectStart("=");

    if (untouched == NULL)
        return SQLOCK_ENOMEM;
    c->default_receiver = PQsetNoticeReceiver(untouched, NULL, NULL);
    PQfinish(untouched);
    return 0;
}

/* As long as there is one copy, the address of a function is the same in the whole process. A
 * PGconn of another copy has another layout, or other locks. */
static int adopted_check(const sqlock_adopt_opts *opts, sqlock_error *err)
{
    PGconn *pg = opts->native;

    if (pg == NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "there is no connection to adopt");
    if (opts->library != NULL && opts->library != (void (*)(void))PQlibVersion)
        return sqlock_error_set(err, SQLOCK_EREFUSED, 0,
                                "the application uses another copy of libpq than the driver");
    if (PQlibVersion() < PG_OLDEST_LIBPQ)
        return sqlock_error_set(err, SQLOCK_EREFUSED, 0, "libpq is older than 12");
    if (PQstatus(pg) != CONNECTION_OK)
        return sqlock_error_set(err, SQLOCK_ESTATE, 0, "the connection is not connected");
    if (pg_native_state(pg) == SQLOCK_TX_UNKNOWN)
        return sqlock_error_set(err, SQLOCK_ESTATE, 0,
                                "the connection has an answer that is not read, or a pipeline");
    if (PQserverVersion(pg) < PG_OLDEST_SERVER)
        return sqlock_error_set(err, SQLOCK_EREFUSED, 0,
                                "the server's version number is %d; PostgreSQL 10 is the oldest",
                                PQserverVersion(pg));
    return 0;
}

/* in_tx: all statements run in a transaction that the application ends. */
static int adopted_make(const sqlock_adopt_opts *opts, void **out_conn, sqlock_error *err)
{
    struct pg_conn *c = NULL;
    int rc = adopted_check(opts, err);

    if (rc != 0)
        return rc;
    c = sqlock_mem_alloc(sizeof *c);
    if (c == NULL)
        return sqlock_error_set(err, SQLOCK_ENOMEM, 0, "out of memory");
    c->pg = opts->native;
    c->scripts = opts->scripts;
    c->adopted = c->in_tx = c->unprepared = 1;
    c->open_wake = -1;
    c->call = PG_ADOPTED;
    atomic_init(&c->cancelled, 0);
    c->wake_fd = sqlock_wake_make();
    if (c->wake_fd < 0) {
        rc = sqlock_error_set(err, SQLOCK_ESYS, 0, "no file descriptor is available");
        goto fail;
    }
    rc = receiver_find_default(c);
    if (rc != 0) {
        sqlock_error_set(err, rc, 0, "out of memory");
        goto fail;
    }
    *out_conn = c;
    return 0;
fail:
    pg_close(c);
    return rc;
}

/* ---- states ---------------------------------------------------------------------------------- */

/* libpq says ACTIVE until an answer has been read to its end: half-read, in COPY, or sent and never
 * read. In a pipeline it cannot know the state. */
sqlock_tx_state pg_native_state(const PGconn *pg)
{
#ifdef LIBPQ_HAS_PIPELINING
    if (PQpipelineStatus(pg) != PQ_PIPELINE_OFF)
        return SQLOCK_TX_UNKNOWN;
#endif
    switch (PQtransactionStatus(pg)) {
    case PQTRANS_IDLE:
        return SQLOCK_TX_IDLE;
    case PQTRANS_INTRANS:
        return SQLOCK_TX_ACTIVE;
    case PQTRANS_INERROR:
        return SQLOCK_TX_FAILED;
    case PQTRANS_ACTIVE:
    case PQTRANS_UNKNOWN:
        break;
    }
    return SQLOCK_TX_UNKNOWN;
}

static sqlock_tx_state adopted_state(void *conn)
{
    struct pg_conn *c = conn;

    return c->broken ? SQLOCK_TX_UNKNOWN : pg_native_state(c->pg);
}

static int adopted_fail_state(struct pg_conn *c, const struct pg_call *call)
{
    static const char *const why[] = {
        [SQLOCK_TX_UNKNOWN] = "an answer has not been read, or there is a pipeline",
        [SQLOCK_TX_IDLE] = "no transaction is open",
        [SQLOCK_TX_ACTIVE] = "",
        [SQLOCK_TX_FAILED] = "the transaction has failed",
    };

    if (c->broken || PQstatus(c->pg) != CONNECTION_OK)
        return pg_fail_ended(c, call);
    return sqlock_error_set(call->err, SQLOCK_ESTATE, 0, "%s", why[adopted_state(c)]);
}

/* ---- a call ---------------------------------------------------------------------------------- */

/* A notice that comes while none of our statements runs belongs to the application: the server's
 * last words to an idle session. */
static void adopted_take_notice(void *conn, const PGresult *res)
{
    struct pg_conn *c = conn;

    pg_take_notice(c, res);
    if (!c->under_way)
        c->default_receiver(NULL, res);
}

/* A receiver of the application's own stays in its place, see receiver_find_default(). */
int pg_adopted_enter(struct pg_conn *c, const struct pg_call *call, int failed_too)
{
    sqlock_tx_state state = adopted_state(c);

    if (state != SQLOCK_TX_ACTIVE && !(failed_too && state == SQLOCK_TX_FAILED))
        return adopted_fail_state(c, call);
    c->cut = c->soft_cut = 0;
    c->blocking = !PQisnonblocking(c->pg);
    if (PQsetnonblocking(c->pg, 1) != 0)
        return pg_fail_lost(c, call);
    c->muted = PQsetNoticeReceiver(c->pg, NULL, NULL) == c->default_receiver;
    if (c->muted)
        PQsetNoticeReceiver(c->pg, adopted_take_notice, c);
    return 0;
}

/* On a connection that broke meanwhile the mode cannot be set. PQreset() makes it a blocking one.
 */
void pg_adopted_leave(struct pg_conn *c)
{
    if (c->muted)
        PQsetNoticeReceiver(c->pg, c->default_receiver, NULL);
    if (c->blocking)
        PQsetnonblocking(c->pg, 0);
    c->muted = c->blocking = c->firm = 0;
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* The server itself ends a statement that would wait for too long. A client could do that only over
 * another connection, and does not know who listens there. The limits are set after the savepoint,
 * so an undo takes them back. Otherwise they are restored before the release. The server's limit
 * for a whole statement holds for that release too, so it is not as short as the limit for a wait
 * may be. */
#define LIMIT_MS_LEAST 500
#define LIMIT_MS_MOST  INT32_MAX

/* A shorter limit of the application's stays. */
#define LIMIT_SQL(name)                                                                            \
    "SELECT s.was, pg_catalog.set_config('" name                                                   \
    "', CASE WHEN s.was OPERATOR(pg_catalog.=) '0' OR s.was::interval OPERATOR(pg_catalog.>)"      \
    " '%d milliseconds'::interval THEN '%d' ELSE s.was END, true) AS now"                          \
    " FROM (SELECT pg_catalog.current_setting('" name "') AS was OFFSET 0) s"

static const char set_sql[] =
    "SAVEPOINT sqlock_adopted; SELECT l.was, l.now, a.was, a.now FROM (" LIMIT_SQL(
        "lock_timeout") ") l, (" LIMIT_SQL("statement_timeout") ") a";

/* Restores a setting: the default, if it was that. */
#define PUT_BACK_SQL(name)                                                                         \
    "CASE WHEN pg_catalog.set_config('" name "', NULL, true) OPERATOR(pg_catalog.<>) '%s'"         \
    " THEN pg_catalog.set_config('" name "', '%s', true) END"

static const char release_sql[] = "SELECT " PUT_BACK_SQL("lock_timeout") ", " PUT_BACK_SQL(
    "statement_timeout") "; RELEASE SAVEPOINT sqlock_adopted";
static const char undo_sql[] =
    "ROLLBACK TO SAVEPOINT sqlock_adopted; RELEASE SAVEPOINT sqlock_adopted";

/* The server writes its limits as a number with a unit. */
static int limit_take(const PGresult *res, int col, char was[24], int64_t ms, int64_t *out_us)
{
    const char *before = PQgetvalue(res, 0, col);

    if (strlen(before) >= 24 ||
        strspn(before, "0123456789abcdefghijklmnopqrstuvwxyz") != strlen(before))
        return -1;
    memcpy(was, before, strlen(before) + 1);
    *out_us = strcmp(before, PQgetvalue(res, 0, col + 1)) != 0 ? ms * 1000 : 0;
    return 0;
}

static int savepoint_set(struct pg_conn *c, const struct pg_call *call)
{
    int64_t left = (call->deadline - sqlock_now_us()) / 1000 + 1;
    int lock_ms = left > LIMIT_MS_MOST ? LIMIT_MS_MOST : left > 1 ? (int)left : 1;
    int all_ms = lock_ms > LIMIT_MS_LEAST ? lock_ms : LIMIT_MS_LEAST;
    char sql[sizeof set_sql + 48];
    struct pg_limits limits;
    PGresult *res = NULL;
    int rc;

    snprintf(sql, sizeof sql, set_sql, lock_ms, lock_ms, all_ms, all_ms);
    rc = pg_command(c, call, sql, &res);
    if (rc == 0 && (PQntuples(res) != 1 || PQnfields(res) != 4 ||
                    limit_take(res, 0, limits.lock_was, lock_ms, &limits.lock_us) != 0 ||
                    limit_take(res, 2, limits.all_was, all_ms, &limits.all_us) != 0))
        rc =
            sqlock_error_set(call->err, SQLOCK_ECORRUPT, 0, "the server's timeouts cannot be read");
    PQclear(res);
    if (rc == 0)
        c->limits = limits;
    return rc;
}

/* Whatever became of the statement, the settings have no limits of ours any more. */
static int savepoint_leave(struct pg_conn *c, const struct pg_call *call, sqlock_savepoint what)
{
    struct pg_limits was = c->limits;
    char sql[sizeof release_sql + 4 * sizeof was.all_was];
    int rc;

    if (what == SQLOCK_SAVEPOINT_UNDO || was.all_was[0] == '\0')
        snprintf(sql, sizeof sql, "%s",
                 what == SQLOCK_SAVEPOINT_UNDO ? undo_sql : strchr(release_sql, ';') + 2);
    else
        snprintf(sql, sizeof sql, release_sql, was.lock_was, was.lock_was, was.all_was,
                 was.all_was);
    rc = pg_command(c, call, sql, NULL);
    if (adopted_state(c) != SQLOCK_TX_FAILED)
        memset(&c->limits, 0, sizeof c->limits);
    return rc;
}

/* After a SET that failed after its savepoint, no savepoint must be left. */
static int adopted_savepoint(void *conn, sqlock_savepoint what, int64_t deadline, sqlock_error *err)
{
    struct pg_conn *c = conn;
    struct pg_call call = {deadline, 0, err};
    sqlock_error second;
    struct pg_call undo = {deadline, 0, &second};
    int rc = pg_adopted_enter(c, &call, what == SQLOCK_SAVEPOINT_UNDO);

    if (rc != 0)
        return rc;
    c->firm = 1;
    if (what != SQLOCK_SAVEPOINT_SET)
        rc = savepoint_leave(c, &call, what);
    else if ((rc = savepoint_set(c, &call)) != 0 && !c->broken)
        pg_command(c, &undo, undo_sql, NULL);
    pg_adopted_leave(c);
    return rc;
}

/* ---- a statement whose time is over ---------------------------------------------------------- */

/* A little later than it said, because the answer has to arrive; but not before. */
#define CLOSE_US INT64_C(50000)
#define EARLY_US INT64_C(2000)

/* The server uses its own clock, which may have been stepped. Then only its message shows the
 * reason, if it is in English. */
static int message_says_limit(const char *message)
{
    return message != NULL &&
           (strcmp(message, "canceling statement due to statement timeout") == 0 ||
            strcmp(message, "canceling statement due to lock timeout") == 0);
}

int pg_adopted_limited(const struct pg_conn *c, const char *state, const char *message)
{
    int64_t limit = strcmp(state, "55P03") == 0   ? c->limits.lock_us
                    : strcmp(state, "57014") == 0 ? c->limits.all_us
                                                  : 0;

    return c->adopted && limit > 0 &&
           (sqlock_now_us() >= c->sent + limit - EARLY_US || message_says_limit(message));
}

/* A wait that the server is just ending gets a little more time; after that the whole statement is
 * cancelled. For a statement that the server ends by itself we only wait. So we do for savepoints,
 * which wait for no other session. When pg_send_cancel() returns 0, the cancel has been sent: it
 * cannot hit a later statement, because we send that only after this one's end has been read. */
int pg_adopted_cut(struct pg_conn *c, int code)
{
    int64_t now = sqlock_now_us();
    int was_soft = c->soft_cut;

    c->cut = code;
    c->soft_cut = !was_soft && code == SQLOCK_ETIMEOUT && c->limits.lock_us > 0 &&
                  c->sent + c->limits.lock_us <= now + CLOSE_US;
    c->cut_until = now + (c->soft_cut ? CLOSE_US : CUT_US);
    if (c->soft_cut || c->firm ||
        (c->limits.all_us > 0 && c->sent + c->limits.all_us <= now + CLOSE_US))
        return 0;
    return pg_send_cancel(c->pg, c->cut_until);
}

/* What the server may still send must not reach the application. Nothing blocks here: the socket is
 * at its end. */
void pg_adopted_sever(struct pg_conn *c)
{
    PGresult *res = NULL;

    if (PQsocket(c->pg) >= 0)
        shutdown(PQsocket(c->pg), SHUT_RDWR);
    while ((res = PQgetResult(c->pg)) != NULL)
        PQclear(res);
    while (PQstatus(c->pg) == CONNECTION_OK && PQconsumeInput(c->pg))
        ;
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* Whether the server reads the bytes of our texts as we mean them: our names of tables are UTF-8.
 */
static int client_speaks_utf8(const PGconn *pg)
{
    const char *client = PQparameterStatus(pg, "client_encoding");
    const char *server = PQparameterStatus(pg, "server_encoding");

    if (client == NULL || server == NULL)
        return 0;
    return strcmp(client, "UTF8") == 0 || strcmp(server, "SQL_ASCII") == 0 ||
           (strcmp(client, "SQL_ASCII") == 0 && strcmp(server, "UTF8") == 0);
}

static int text_is_ascii(const char *text)
{
    while (*text != '\0')
        if ((unsigned char)*text++ > 127)
            return 0;
    return 1;
}

/* Values are binary and need no encoding. But a schema's name may have letters that are not ASCII.
 */
int pg_adopted_reads(struct pg_conn *c, const struct pg_call *call, const char *sql)
{
    if (!c->adopted || text_is_ascii(sql) || client_speaks_utf8(c->pg))
        return 0;
    return sqlock_error_set(call->err, SQLOCK_EREFUSED, 0,
                            "the name of the schema is not ASCII, and client_encoding is %s",
                            PQparameterStatus(c->pg, "client_encoding"));
}

void pg_adopted_text(const struct pg_conn *c, char *text)
{
    if (!c->adopted || client_speaks_utf8(c->pg))
        return;
    for (; *text != '\0'; text++)
        if ((unsigned char)*text > 127)
            *text = '?';
}

/* ---- the table ------------------------------------------------------------------------------- */

static int adopted_run(void *conn, sqlock_stmt stmt, const sqlock_value *values, int64_t deadline,
                       sqlock_rows *rows, sqlock_error *err)
{
    return pg_run(conn, NULL, stmt, values, 1, deadline, rows, err);
}

static void adopted_cancel(void *conn)
{
    pg_cancel(conn, PG_ADOPTED);
}

const sqlock_adopter pg_adopter = {
    .size = sizeof(sqlock_adopter),
    .flags = SQLOCK_ADOPT_SPOILS,
    .adopt = adopted_make,
    .close = pg_close,
    .tx_state = adopted_state,
    .savepoint = adopted_savepoint,
    .run = adopted_run,
    .run_script = pg_run_script,
    .cancel = adopted_cancel,
};
