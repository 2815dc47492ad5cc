/* The first statements on every connection. */
#include <assert.h>
#include <string.h>

#include "core/engine/call.h"
#include "core/engine/handshake.h"
#include "core/engine/hosts.h"
#include "core/engine/server.h"
#include "core/sql/requests.h"

int handshake_schema_version(const sqlock_driver *driver)
{
    const sqlock_dialect *d = driver->dialect;

    return d->n_migrations > 0 ? d->migrations[d->n_migrations - 1].version : 0;
}

/* The generation of this library: the rules by which it draws tokens and reads rows. A schema's
 * min_reader is the generation that it is for. A migration raises it if older libraries would be
 * wrong after it. Libraries that draw tokens by other rules must not grant next to this one, so
 * both older and newer ones are refused. Before generation 4 this was the version of the newest
 * known schema. */
#define GENERATION 4

/* What the server says about itself: fine, a replica, forgetful after a crash, or unfit. */
static int handshake_check_server(const sqlock_rows *rows, sqlock_error *err)
{
    int outcome = (int)rows_int(rows, 0, SQLOCK_COL_OUTCOME, SQLOCK_OUT_NONE);
    size_t len;
    const char *detail = rows_bytes(rows, 0, SQLOCK_COL_DETAIL, &len);

    detail = detail != NULL ? detail : "";
    switch (outcome) {
    case SQLOCK_OUT_DONE:
        return 0;
    case SQLOCK_OUT_READONLY: /* until a switchover is over */
        return sqlock_error_set(err, SQLOCK_EREADONLY, SQLOCK_RETRY,
                                "this server cannot hold locks: %s", detail);
    case SQLOCK_OUT_WEAK:
        return sqlock_error_set(err, SQLOCK_EREFUSED, 0,
                                "this server may lose commits in a crash, and then repeat tokens: "
                                "%s (SQLOCK_OPEN_ACCEPT_WEAK accepts that)",
                                detail);
    case SQLOCK_OUT_UNFIT:
        return sqlock_error_set(err, SQLOCK_EREFUSED, 0, "locks are not safe on this server: %s",
                                detail);
    case SQLOCK_OUT_DENIED:
        return sqlock_error_db(err, "42501", 0, 0, detail);
    default:
        return sqlock_error_set(err, SQLOCK_ECORRUPT, 0, "unknown outcome %d", outcome);
    }
}

int handshake_generation(int version, int needs, sqlock_error *err)
{
    if (needs > GENERATION)
        return sqlock_error_set(err, SQLOCK_ESCHEMA, 0,
                                "the schema (version %d) is too new: it needs a library of "
                                "generation %d, this one is generation %d",
                                version, needs, GENERATION);
    if (needs < GENERATION)
        return sqlock_error_set(err, SQLOCK_ESCHEMA, 0,
                                "the schema needs a library that draws tokens in another way "
                                "(generation %d, this one is generation %d)",
                                needs, GENERATION);
    return 0;
}

static int handshake_check_schema(const sqlock *m, const sqlock_rows *rows, sqlock_error *err)
{
    int found = (int)rows_int(rows, 0, SQLOCK_COL_VERSION, 0);
    int needs = (int)rows_int(rows, 0, SQLOCK_COL_MIN_READER, 0);
    const char *schema = texts_schema(m->texts);
    char table[64];

    if (found < request_kind(SQLOCK_STMT_HANDSHAKE)->since)
        return sqlock_error_set(err, SQLOCK_ESCHEMA, 0,
                                "no sqlock tables (%s) in %s%s%s: run the migrations",
                                texts_table(m->texts, "lock", table, sizeof table),
                                schema != NULL ? "schema \"" : "this database",
                                schema != NULL ? schema : "", schema != NULL ? "\"" : "");
    return handshake_generation(found, needs, err);
}

/* The manager has met another server, which drew tokens above all of this server's. So this server
 * was the primary before. Either it still believes that it is, or it is primary again, without a
 * restart and without the other server's commits. */
static int handshake_is_overtaken(sqlock *m, const sqlock_rows *rows)
{
    int64_t above = rows_int(rows, 0, SQLOCK_COL_ABOVE, INT64_MAX);
    int is;

    mutex_lock(&m->mu);
    is = above < m->above;
    mutex_unlock(&m->mu);
    return is;
}

/* The meta table knows this server as the last one that granted. */
static int handshake_is_known(sqlock *m, const sqlock_rows *rows)
{
    return rows_int(rows, 0, SQLOCK_COL_SAME, 0) != 0 && !handshake_is_overtaken(m, rows);
}

static void handshake_note_above(sqlock *m, const sqlock_rows *rows)
{
    int64_t above = rows_int(rows, 0, SQLOCK_COL_ABOVE, 0);

    mutex_lock(&m->mu);
    m->above = above > m->above ? above : m->above;
    mutex_unlock(&m->mu);
}

/* Two managers may do this at the same time. The row's lock lets one of them do it, and only
 * once. */
static int handshake_reincarnate(sqlock *m, struct conn *c, sqlock_op *op, const sqlock_rows *rows,
                                 int64_t deadline, sqlock_error *err)
{
    size_t len;
    const void *server = rows_bytes(rows, 0, SQLOCK_COL_SERVER, &len);
    sqlock_value values[3];
    struct answer answer;
    int rc;

    assert(c->busy);
    if (server == NULL)
        return sqlock_error_set(err, SQLOCK_ECORRUPT, 0, "the server did not report its identity");
    values[0] = value_bytes(server, len);
    values[1] = value_int((m->flags & SQLOCK_OPEN_LIFT_TOKENS) != 0);
    mutex_lock(&m->mu);
    values[2] = value_int(m->above);
    mutex_unlock(&m->mu);
    rc = call_one(m, c, op, SQLOCK_STMT_REINCARNATE, values, deadline, &answer, err);
    if (rc != 0 || answer.outcome != SQLOCK_OUT_BEHIND)
        return rc;
    return sqlock_error_set(err, SQLOCK_EREFUSED, SQLOCK_RETRY,
                            "the server was started with a clock that is %lld.%03d s behind the "
                            "last token: tokens would repeat (SQLOCK_OPEN_LIFT_TOKENS lifts them)",
                            (long long)(answer.left / 1000000), (int)(answer.left / 1000 % 1000));
}

/* Record the length of the longest lease, for a server that takes over. */
static int handshake_keep_longest(sqlock *m, struct conn *c, sqlock_op *op, const sqlock_rows *rows,
                                  int64_t deadline, sqlock_error *err)
{
    int64_t known = rows_int(rows, 0, SQLOCK_COL_LONGEST, INT64_MAX), needed;
    sqlock_value value;
    struct answer answer;

    mutex_lock(&m->mu);
    if (known == INT64_MAX) /* this server does not keep it */
        m->longest = known;
    needed = m->longest;
    mutex_unlock(&m->mu);
    if (needed <= known)
        return 0;
    value = value_int(needed);
    return call_one(m, c, op, SQLOCK_STMT_LONGEST, &value, deadline, &answer, err);
}

static int place_is_ascii(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] > 127)
            return 0;
    return 1;
}

/* The schema that this connection uses by default. The texts leave it to the connection, and an
 * application's own connection may have another. It may have another character set, too, so only an
 * ASCII name is certain to mean the same there. */
static void handshake_note_place(sqlock *m, const sqlock_rows *rows)
{
    size_t len;
    const char *place = rows_bytes(rows, 0, SQLOCK_COL_PLACE, &len);

    if (place == NULL || len >= sizeof m->place || !place_is_ascii(place, len))
        return;
    mutex_lock(&m->mu);
    memcpy(m->place, place, len);
    m->place[len] = '\0';
    mutex_unlock(&m->mu);
}

/* A guard is useless on another server than ours, or in another database. */
static void handshake_note_running(sqlock *m, const struct conn *c, const sqlock_rows *rows)
{
    char running[sizeof m->running] = "";
    size_t len;
    const char *name = rows_bytes(rows, 0, SQLOCK_COL_RUNNING, &len);

    if (m->driver->running != NULL)
        m->driver->running(c->native, running, sizeof running);
    else if (name != NULL && len < sizeof running)
        memcpy(running, name, len);
    mutex_lock(&m->mu);
    memcpy(m->running, running, sizeof running);
    mutex_unlock(&m->mu);
}

static int handshake_note_server(sqlock *m, struct conn *c, const sqlock_rows *rows,
                                 sqlock_error *err)
{
    size_t len;
    const void *id = rows_bytes(rows, 0, SQLOCK_COL_SERVER, &len);

    return id != NULL ? server_note(m, c, id, len, err) : 0;
}

/* When a handshake was sent, and when its answer was received. */
struct handshake_times {
    int64_t sent, received;
};

/* The clock of this connection's server is the manager's from now on. A replica's clock never is,
 * nor that of another server that was refused. */
static void handshake_note_clock(sqlock *m, struct conn *c, const sqlock_rows *rows,
                                 const struct handshake_times *when)
{
    int64_t now = rows_int(rows, 0, SQLOCK_COL_NOW, 0);

    mutex_lock(&m->mu);
    c->accepted = 1;
    if (now != 0)
        manager_saw_clock(m, when->sent, when->received, now);
    mutex_unlock(&m->mu);
}

static int handshake_send(sqlock *m, struct conn *c, sqlock_op *op, sqlock_rows *rows,
                          struct handshake_times *when, int64_t deadline, sqlock_error *err)
{
    sqlock_value accept_weak = value_int((m->flags & SQLOCK_OPEN_ACCEPT_WEAK) != 0);
    int rc;

    mutex_lock(&m->mu);
    c->accepted = 0;
    mutex_unlock(&m->mu);
    rc = call_rows(m, c, op, SQLOCK_STMT_HANDSHAKE, &accept_weak, 1, deadline, rows, &when->sent,
                   err);
    when->received = sqlock_now_us();
    if (rc == 0 && sqlock_rows_count(rows) == 0)
        rc = sqlock_error_set(err, SQLOCK_ECORRUPT, 0, "the meta table has no row");
    if (rc == 0)
        rc = handshake_check_server(rows, err);
    if (rc == 0)
        rc = handshake_check_schema(m, rows, err);
    return rc;
}

#define ROUNDS 3 /* other managers may be quicker, and the server may change again */

int handshake(sqlock *m, struct conn *c, sqlock_op *op, int last_resort, int64_t deadline,
              sqlock_error *err)
{
    sqlock_rows *rows = rows_new();
    struct handshake_times when;
    int same = 0, rc;

    assert(c->native != NULL);
    if (rows == NULL)
        return error_nomem(err);
    rc = handshake_send(m, c, op, rows, &when, deadline, err);
    if (rc == 0 && !last_resort && handshake_is_overtaken(m, rows)) {
        sqlock_error_set(err, SQLOCK_EUNREACH, SQLOCK_RETRY | SQLOCK_RECONNECT,
                         "another server has taken over from this one");
        rc = HOST_OVERTAKEN;
    }
    for (int i = 0; rc == 0 && i < ROUNDS && !(same = handshake_is_known(m, rows)); i++) {
        rc = handshake_reincarnate(m, c, op, rows, deadline, err);
        if (rc == 0)
            rc = handshake_send(m, c, op, rows, &when, deadline, err);
    }
    if (rc == 0 && !same)
        rc = sqlock_error_set(err, SQLOCK_EUNREACH, SQLOCK_RETRY | SQLOCK_RECONNECT,
                              "the server keeps changing");
    if (rc == 0)
        rc = handshake_note_server(m, c, rows, err);
    if (rc == 0)
        handshake_note_clock(m, c, rows, &when);
    if (rc == 0)
        handshake_note_above(m, rows);
    if (rc == 0)
        handshake_note_place(m, rows);
    if (rc == 0)
        handshake_note_running(m, c, rows);
    if (rc == 0)
        c->schema = (int)rows_int(rows, 0, SQLOCK_COL_VERSION, 0);
    if (rc == 0)
        rc = handshake_keep_longest(m, c, op, rows, deadline, err);
    rows_free(rows);
    return rc;
}

/* Privileges are not checked: the user that migrates may differ from the user that takes locks. */
int handshake_server(sqlock *m, struct conn *c, int64_t deadline, sqlock_error *err)
{
    sqlock_value accept_weak = value_int((m->flags & SQLOCK_OPEN_ACCEPT_WEAK) != 0);
    sqlock_error own = {0};
    sqlock_rows rows;
    int rc;

    rows_init(&rows);
    rc = call_rows(m, c, NULL, SQLOCK_STMT_HANDSHAKE, &accept_weak, 1, deadline, &rows, NULL, &own);
    if (rc == SQLOCK_ESCHEMA || (rc == SQLOCK_EDENIED && !(own.flags & SQLOCK_RECONNECT)))
        rc = 0;
    else if (rc != 0)
        error_give(err, &own);
    else if (sqlock_rows_count(&rows) > 0 &&
             rows_int(&rows, 0, SQLOCK_COL_OUTCOME, 0) != SQLOCK_OUT_DENIED)
        rc = handshake_check_server(&rows, err);
    rows_end(&rows);
    return rc;
}

/* A connection that was used before may be older than a migration. */
int handshake_serves(sqlock *m, struct conn *c, sqlock_op *op, sqlock_stmt stmt, int64_t deadline,
                     sqlock_error *err)
{
    int needed = request_kind(stmt)->since, rc;

    assert(c->busy && mutex_is_mine(&m->mu));
    if (c->schema >= needed)
        return 0;
    if ((rc = texts_has(m->texts, stmt, err)) != 0)
        return rc; /* no migration of this driver would help */
    if (c->used) {
        mutex_unlock(&m->mu);
        rc = handshake(m, c, op, 1, deadline, err);
        mutex_lock(&m->mu);
    }
    if (rc != 0 || c->schema >= needed)
        return rc;
    return sqlock_error_set(
        err, SQLOCK_ESCHEMA, 0,
        "the schema is version %d, and version %d is needed: run the migrations", c->schema,
        needed);
}
