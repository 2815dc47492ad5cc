/* The application's own transactions: under a guard, under a row lock, and by compare and set. A
 * transaction that could not be begun is not noted: nobody was asked for anything. */
#include "tests/torture/client_hand.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include <sqlock/cas.h>
#include <sqlock/rows.h>

void rows_disconnect(struct hand *h)
{
    sqlock_conn_free(h->conn);
    h->conn = NULL;
    if (h->native != NULL)
        h->crew->app->close(h->native);
    h->native = NULL;
}

static bool connected(struct hand *h)
{
    const struct app *app = h->crew->app;
    sqlock_error err = {0};
    int rc;

    if (h->native != NULL)
        return true;
    if ((h->native = app->connect(h->crew->plan.url)) == NULL) {
        hand_nap(20);
        return false;
    }
    if ((rc = app->adopt(h->m, h->native, &h->conn, &err)) == 0)
        return true;
    hand_explain(h, rc, &err, "adopt");
    rows_disconnect(h);
    return false;
}

/* A statement of the application's own; what is said of it is explained like an answer. */
__attribute__((format(printf, 3, 4))) static int run(struct hand *h, int64_t *out,
                                                     const char *format, ...)
{
    sqlock_error err = {0};
    char sql[256];
    va_list args;
    int rc;

    va_start(args, format);
    vsnprintf(sql, sizeof sql, format, args);
    va_end(args);
    if ((rc = h->crew->app->exec(h->native, sql, out)) == SQLOCK_EDB) {
        h->crew->app->said(h->native, err.text);
        hand_explain(h, rc, &err, sql);
    }
    return rc;
}

static bool begin(struct hand *h, bool strict)
{
    const struct app *app = h->crew->app;
    int rc;

    if (!connected(h))
        return false;
    rc = app->exec(h->native, strict ? app->begin_strict : app->begin, NULL);
    if (rc == SQLOCK_EUNREACH)
        rows_disconnect(h);
    return rc == 0;
}

/* The end of a transaction in which rc was the last answer: what is to be noted. A connection that
 * is not as it should be is closed, which ends the transaction too. */
static int end(struct hand *h, int rc)
{
    const struct app *app = h->crew->app;
    bool gone = rc == SQLOCK_EUNREACH;

    if (rc == 0)
        rc = app->commit(h->native);
    if (rc == SQLOCK_EUNSURE)
        gone = true;
    else if (rc != 0 && !gone)
        gone = app->exec(h->native, "ROLLBACK", NULL) != 0;
    if (gone)
        rows_disconnect(h);
    return rc;
}

/* An answer of the library on the connection. */
static int judge(struct hand *h, int rc, const sqlock_error *err, const char *what)
{
    if (rc == SQLOCK_ETXGONE && (err->flags & SQLOCK_RECONNECT))
        rc = SQLOCK_EUNREACH;
    hand_explain(h, rc, err, what);
    return rc;
}

/* ---- under a guard --------------------------------------------------------------------------- */

/* The lease may run out between a look at it and the guard: then it is lost, or under SQLite
 * unsure, which the guard refuses. */
static int guard(struct hand *h, sqlock_lock *lock)
{
    sqlock_error err = {0};
    int rc = sqlock_guard(lock, h->conn, &err);

    if (rc == SQLOCK_ESTATE && sqlock_lock_state(lock) == SQLOCK_UNSURE)
        return rc;
    return judge(h, rc, &err, "guard");
}

void rows_guarded(struct hand *h, sqlock_lock *lock, uint32_t name, enum guarded_way way)
{
    const int64_t token = sqlock_lock_token(lock);
    int64_t n = 0, commit_us = 0;
    int rc;

    if (sqlock_lock_state(lock) == SQLOCK_UNSURE || !begin(h, hand_dares(h, CHANCE_STRICT)))
        return;
    hand_fetch(h, V_GUARDED, name, token);
    rc = guard(h, lock);
    if (rc == 0)
        rc = run(h, NULL,
                 "UPDATE torture_guarded SET n = n + 1, token = %" PRId64 " WHERE name = %" PRIu32,
                 token, name);
    if (rc == 0)
        rc = run(h, &n, "SELECT n FROM torture_guarded WHERE name = %" PRIu32, name);
    if (rc == 0 && way == GUARDED_SLOWLY)
        hand_oversleep(h);
    if (rc == 0 && way == GUARDED_RELEASED)
        lease_release_beside(h, lock, name);
    if (rc == 0)
        commit_us = sqlock_now_us();
    rc = end(h, rc);
    hand_answer(h, rc, commit_us, n);
}

/* ---- under a row lock ------------------------------------------------------------------------ */

/* Mostly named: where it is not, the catalogue is asked each time. */
static const char *schema(struct hand *h)
{
    return dice_below(&h->dice, 100) == 0 ? NULL : h->crew->app->schema;
}

/* Names with an even number by the application's row, the others by a row of the library's. */
static int lock_row(struct hand *h, uint32_t name)
{
    sqlock_column key = {"name", sqlock_int(name), NULL};
    sqlock_row row = {sizeof row, schema(h), "torture_rows", &key, 1};
    sqlock_row_opts opts = SQLOCK_ROW_OPTS_INIT;
    sqlock_error err = {0};
    int rc;

    opts.wait_ms = dice_below(&h->dice, 2) == 0 ? 0 : (int32_t)dice_between(&h->dice, 1, 200);
    opts.cancel = h->crew->cancel;
    rc = name % 2 == 0 ? sqlock_row_lock(h->conn, &row, 1, &opts, &err)
                       : sqlock_name_lock(h->conn, text("n%" PRIu32, name), &opts, &err);
    return judge(h, rc, &err, name % 2 == 0 ? "row lock" : "name lock");
}

/* The number that was read is written as a literal: whoever wrote in between would be lost. */
void rows_row_lock(struct hand *h)
{
    const uint32_t name = hand_name(h);
    const bool strict = hand_dares(h, CHANCE_STRICT);
    int64_t n = 0;
    int rc;

    if (!begin(h, strict))
        return;
    hand_fetch(h, V_ROW_LOCK, name, 0);
    rc = lock_row(h, name);
    if (rc == 0)
        rc = run(h, &n, "SELECT n FROM torture_rows WHERE name = %" PRIu32 "%s", name,
                 strict ? h->crew->app->strict_read : "");
    if (rc == 0) {
        hand_nap((int64_t)dice_below(&h->dice, 2));
        n++;
        rc = run(h, NULL, "UPDATE torture_rows SET n = %" PRId64 " WHERE name = %" PRIu32, n, name);
    }
    rc = end(h, rc);
    hand_answer(h, rc, 0, n);
}

/* ---- compare and set ------------------------------------------------------------------------- */

static int change(struct hand *h, uint32_t name, int64_t expected, int64_t *out_version)
{
    sqlock_column key = {"name", sqlock_int(name), NULL};
    sqlock_column set = {"n", sqlock_null(), "n + 1"};
    sqlock_row row = {sizeof row, schema(h), "torture_cas", &key, 1};
    sqlock_row_version version = {
        .size = sizeof version, .column = "version", .expected = sqlock_int(expected)};
    sqlock_error err = {0};
    int rc = sqlock_cas_update(h->conn, &row, &version, &set, 1, &err);

    if (rc == 0)
        *out_version = version.found.i;
    return judge(h, rc, &err, "compare and set");
}

/* The version is read before the transaction, so that no snapshot is older than the comparison. */
void rows_cas(struct hand *h)
{
    const uint32_t name = hand_name(h);
    int64_t expected = 0, version = 0;
    int rc;

    if (!connected(h))
        return;
    rc = run(h, &expected, "SELECT version FROM torture_cas WHERE name = %" PRIu32, name);
    if (rc == SQLOCK_EUNREACH)
        rows_disconnect(h);
    if (rc != 0 || !begin(h, hand_dares(h, CHANCE_STRICT)))
        return;
    hand_fetch(h, V_CAS, name, expected);
    rc = end(h, change(h, name, expected, &version));
    hand_answer(h, rc, 0, version);
}
