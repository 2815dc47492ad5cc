#include "tests/counted/scene.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "tests/counted/fault.h"

struct faulty {
    void *real;
    void *app; /* of an adopted one: the application's side of it */
    bool in_tx;
};

static const struct quirks *quirks;
static const sqlock_driver *real;
static sqlock_driver table;
static sqlock_adopter adopter;
static void *next_app;
static atomic_int opened;

void faulty_app(void *app)
{
    next_app = app;
}

int faulty_open(void)
{
    return atomic_load(&opened);
}

/* ---- what fails ------------------------------------------------------------------------------ */

static int lost(sqlock_error *err, unsigned flags)
{
    return sqlock_error_db(err, "08006", 0, SQLOCK_RECONNECT | flags, "a fault: the link broke");
}

/* A statement that fails leaves no transaction of the library's; an application's is left as it is,
 * or as the database leaves it. */
static int refuse(struct faulty *c, sqlock_error *err)
{
    sqlock_error second;

    if (c->app != NULL && quirks->app->fails_whole)
        quirks->app->exec(c->app, "this fails");
    if (c->in_tx)
        real->rollback(c->real, sqlock_now_us() + 10000000, &second);
    c->in_tx = false;
    return sqlock_error_db(err, "XX000", 0, 0, "a fault: the statement failed");
}

/* Before the request. 0: go on, and *fault tells what comes behind it. The link of an application's
 * connection really breaks, and the driver finds that out; where there is no server there is no
 * link, and a statement fails. */
static int before(struct faulty *c, enum fault *fault, sqlock_error *err)
{
    *fault = fault_at(AT_REQUESTS);
    if (*fault == FAULT_DIE_BEFORE)
        fault_die();
    if (c->app != NULL && *fault == FAULT_LOSE_REQUEST && quirks->app->kill != NULL) {
        quirks->app->kill(c->app);
        *fault = FAULT_NONE;
    }
    if (*fault == FAULT_ERROR || (c->app != NULL && *fault == FAULT_LOSE_REQUEST))
        return refuse(c, err);
    return *fault == FAULT_LOSE_REQUEST ? lost(err, 0) : 0;
}

/* Behind it, when it was done. An application's link breaks on the wire (wire.c). */
static int behind(struct faulty *c, enum fault fault, int rc, unsigned flags, sqlock_error *err)
{
    if (fault == FAULT_DIE_AFTER)
        fault_die();
    if (fault != FAULT_LOSE_REPLY || rc != 0 || c->app != NULL)
        return rc;
    fault_lost();
    return lost(err, flags);
}

/* The rest of a slot: the real one's call, with the fault before it or behind it, into rc. */
#define THROUGH(call, flags)                                                                       \
    enum fault fault;                                                                              \
    int rc = before(c, &fault, err);                                                               \
                                                                                                   \
    if (rc != 0)                                                                                   \
        return rc;                                                                                 \
    rc = behind(c, fault, (call), (flags), err)

/* ---- the slots ------------------------------------------------------------------------------- */

static int faulty_open_slot(const sqlock_conn_opts *opts, int64_t deadline, void **out_conn,
                            sqlock_error *err)
{
    struct faulty *c = calloc(1, sizeof *c);
    enum fault fault;
    int rc = before(c, &fault, err);

    *out_conn = NULL;
    if (rc == 0)
        rc = real->open(opts, deadline, &c->real, err);
    if (rc == 0 && fault == FAULT_DIE_AFTER)
        fault_die();
    if (rc == 0 && fault == FAULT_LOSE_REPLY) {
        real->close(c->real);
        rc = lost(err, 0);
    }
    if (rc != 0) {
        free(c);
        return rc;
    }
    atomic_fetch_add(&opened, 1);
    *out_conn = c;
    return 0;
}

static int adopted_make(const sqlock_adopt_opts *opts, void **out_conn, sqlock_error *err)
{
    struct faulty *c = calloc(1, sizeof *c);
    int rc = real->adopter->adopt(opts, &c->real, err);

    c->app = next_app;
    *out_conn = rc == 0 ? c : NULL;
    if (rc != 0)
        free(c);
    return rc;
}

static void faulty_close(void *conn)
{
    struct faulty *c = conn;

    real->close(c->real);
    atomic_fetch_sub(&opened, 1);
    free(c);
}

static void adopted_close(void *conn)
{
    struct faulty *c = conn;

    real->adopter->close(c->real);
    free(c);
}

static int faulty_run(void *conn, const sqlock_call *call, sqlock_stmt stmt,
                      const sqlock_value *values, size_t n, int64_t deadline, sqlock_rows *rows,
                      sqlock_error *err)
{
    struct faulty *c = conn;
    size_t had = sqlock_rows_count(rows);
    unsigned doubt = SQLOCK_LEAVES_DOUBT(real->dialect->scripts[stmt].flags) ? SQLOCK_MAYBE : 0;
    THROUGH(real->run(c->real, call, stmt, values, n, deadline, rows, err), doubt);

    if (rc != 0)
        sqlock_rows_cut(rows, had);
    return rc;
}

static int adopted_run(void *conn, sqlock_stmt stmt, const sqlock_value *values, int64_t deadline,
                       sqlock_rows *rows, sqlock_error *err)
{
    struct faulty *c = conn;
    size_t had = sqlock_rows_count(rows);
    THROUGH(real->adopter->run(c->real, stmt, values, deadline, rows, err), 0);

    if (rc != 0)
        sqlock_rows_cut(rows, had);
    return rc;
}

static int adopted_run_script(void *conn, const sqlock_script *script, const sqlock_value *values,
                              int64_t deadline, sqlock_rows *rows, sqlock_error *err)
{
    struct faulty *c = conn;
    size_t had = sqlock_rows_count(rows);
    THROUGH(real->adopter->run_script(c->real, script, values, deadline, rows, err), 0);

    if (rc != 0)
        sqlock_rows_cut(rows, had);
    return rc;
}

static int adopted_savepoint(void *conn, sqlock_savepoint what, int64_t deadline, sqlock_error *err)
{
    struct faulty *c = conn;
    THROUGH(real->adopter->savepoint(c->real, what, deadline, err), 0);

    return rc;
}

/* Both come and go by chance, so they are no points. */
static int faulty_listen(void *conn, const unsigned char client[16], int64_t deadline,
                         sqlock_error *err)
{
    struct faulty *c = conn;

    return real->listen(c->real, client, deadline, err);
}

static int faulty_hear(void *conn, const sqlock_call *call, int64_t deadline, sqlock_rows *rows,
                       sqlock_error *err)
{
    struct faulty *c = conn;

    return real->hear(c->real, call, deadline, rows, err);
}

static int faulty_exec(void *conn, const char *sql, int64_t deadline, sqlock_error *err)
{
    struct faulty *c = conn;
    THROUGH(real->exec(c->real, sql, deadline, err), SQLOCK_MAYBE);

    return rc;
}

static int in_tx_after(struct faulty *c, int rc, bool in_tx)
{
    c->in_tx = rc == 0 && in_tx;
    return rc;
}

/* begin, commit and rollback. */
static int faulty_tx(struct faulty *c, int (*slot)(void *, int64_t, sqlock_error *), bool in_tx,
                     unsigned flags, int64_t deadline, sqlock_error *err)
{
    THROUGH(in_tx_after(c, slot(c->real, deadline, err), in_tx), flags);

    return rc;
}

static int faulty_begin(void *conn, int64_t deadline, sqlock_error *err)
{
    return faulty_tx(conn, real->begin, true, 0, deadline, err);
}

static int faulty_commit(void *conn, int64_t deadline, sqlock_error *err)
{
    return faulty_tx(conn, real->commit, false, SQLOCK_MAYBE, deadline, err);
}

static int faulty_rollback(void *conn, int64_t deadline, sqlock_error *err)
{
    return faulty_tx(conn, real->rollback, false, 0, deadline, err);
}

static void faulty_cancel(void *conn, uint64_t call)
{
    real->cancel(((struct faulty *)conn)->real, call);
}

static void adopted_cancel(void *conn)
{
    real->adopter->cancel(((struct faulty *)conn)->real);
}

static sqlock_tx_state adopted_tx_state(void *conn)
{
    return real->adopter->tx_state(((struct faulty *)conn)->real);
}

const sqlock_driver *faulty_driver(const struct quirks *q)
{
    quirks = q;
    real = q->driver();
    atomic_store(&opened, 0);
    table = *real;
    table.open = faulty_open_slot;
    table.close = faulty_close;
    table.run = faulty_run;
    table.listen = faulty_listen;
    table.hear = faulty_hear;
    table.exec = faulty_exec;
    table.begin = faulty_begin;
    table.commit = faulty_commit;
    table.rollback = faulty_rollback;
    table.cancel = faulty_cancel;
    if (real->adopter != NULL) {
        adopter = *real->adopter;
        adopter.adopt = adopted_make;
        adopter.close = adopted_close;
        adopter.tx_state = adopted_tx_state;
        adopter.savepoint = adopted_savepoint;
        adopter.run = adopted_run;
        adopter.run_script = adopted_run_script;
        adopter.cancel = adopted_cancel;
        table.adopter = &adopter;
    }
    return &table;
}
