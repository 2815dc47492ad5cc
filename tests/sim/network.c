/* Links, and the driver that a client has for them. */
#include "tests/sim/packet.h"

/* As drivers do: a request that leaves no doubt sets no flag. */
static unsigned wire_doubt(const struct wire *w)
{
    uint8_t flags = sqlock_driver_fake()->dialect->scripts[w->sent->stmt].flags;

    return SQLOCK_LEAVES_DOUBT(flags) ? SQLOCK_MAYBE : 0;
}

static int wire_fail(struct wire *w, unsigned flags, const char *text, sqlock_error *err)
{
    w->dead = true;
    return sqlock_error_db(err, "08006", 0, flags | SQLOCK_RECONNECT, text);
}

static int wire_give_up(struct wire *w, const sqlock_call *call, int code, const char *text,
                        sqlock_error *err)
{
    if (call->flags & SQLOCK_CALL_PAUSES)
        return SQLOCK_NOT_YET;
    w->dead = true;
    return sqlock_error_set(err, code, wire_doubt(w) | SQLOCK_RECONNECT, "%s", text);
}

static int rows_copy(const sqlock_rows *from, sqlock_rows *to)
{
    int rc = 0;

    for (size_t row = 0; rc == 0 && row < from->n_rows; row++) {
        size_t end = row + 1 < from->n_rows ? from->rows[row + 1].first : from->n_cells;

        rc = sqlock_rows_add(to, from->rows[row].request);
        for (size_t i = from->rows[row].first; rc == 0 && i < end; i++) {
            const struct rows_cell *cell = &from->cells[i];

            if (cell->type == SQLOCK_INT)
                rc = sqlock_rows_put_int(to, cell->i);
            else if (cell->type == SQLOCK_NULL)
                rc = sqlock_rows_put_null(to);
            else
                rc = sqlock_rows_put_bytes(to, from->bytes + cell->i, cell->len);
        }
    }
    return rc;
}

/* As the real drivers: what has arrived counts, whatever else has happened. No other task runs
 * between the look and the sleep. */
static int wire_await(struct wire *w, const sqlock_call *call, int64_t deadline, sqlock_rows *rows,
                      sqlock_error *err)
{
    struct packet *p = w->sent;

    for (;;) {
        if (p->arrived && p->rc == 0)
            return rows_copy(&p->rows, rows);
        if (p->arrived) {
            *err = p->err;
            return p->rc;
        }
        if (w->cut && !w->silent)
            return wire_fail(w, wire_doubt(w), "the link broke while the request ran", err);
        if (w->cancelled == call->number)
            return wire_give_up(w, call, SQLOCK_ECANCELLED, "cancelled while the request ran", err);
        if (world.now >= deadline)
            return wire_give_up(w, call, SQLOCK_ETIMEOUT, "no answer in time", err);
        task_wait(w, NULL, deadline);
    }
}

static int wire_run(void *conn, const sqlock_call *call, sqlock_stmt stmt,
                    const sqlock_value *values, size_t n, int64_t deadline, sqlock_rows *rows,
                    sqlock_error *err)
{
    struct wire *w = conn;
    int rc;

    task_may_switch();
    if (w->dead)
        return wire_fail(w, 0, "the link is gone", err);
    if (w->sent == NULL) {
        if (w->cancelled == call->number)
            return sqlock_error_set(err, SQLOCK_ECANCELLED, 0, "cancelled before it was sent");
        if (sqlock_now_us() >= deadline)
            return sqlock_error_set(err, SQLOCK_ETIMEOUT, 0, "no time was left to send it");
        w->sent = packet_new(w, stmt, values, n);
        packet_send(w->sent);
    }
    rc = wire_await(w, call, deadline, rows, err);
    if (rc != SQLOCK_NOT_YET)
        packet_leave(w->sent);
    return rc;
}

static void wire_cancel(void *conn, uint64_t call)
{
    struct wire *w = conn;

    w->cancelled = call;
    task_wake(w);
}

/* ---- connections ----------------------------------------------------------------------------- */

int network_connect(void *user, void **out_native, sqlock_error *err)
{
    (void)user;
    *out_native = NULL;
    return sqlock_error_set(err, SQLOCK_EINVAL, 0, "the driver connects by itself");
}

/* 0, or what came before the answer of the other end. */
static int wire_answered(int64_t at, int wake_fd, int64_t deadline, sqlock_error *err)
{
    int woken = sqlock_wait_fd(-1, 0, wake_fd, time_min(at, deadline));

    if (woken == 2)
        return sqlock_error_set(err, SQLOCK_ECANCELLED, 0, "cancelled while connecting");
    if (world.now < at)
        return sqlock_error_db(err, "08001", 0, 0, "no answer from the server");
    return 0;
}

static int wire_open(const sqlock_conn_opts *opts, int64_t deadline, void **out_conn,
                     sqlock_error *err)
{
    struct process *process = opts->connect_user;
    bool unheard = process->mute_until > world.now || process->deaf_until > world.now ||
                   world.frozen_until > world.now || chance_of(world.weather.lose_request / 2);
    int64_t at = unheard ? TIME_NEVER : world.now + 2 * one_way();
    struct wire *w;
    int rc = wire_answered(at, opts->wake_fd, deadline, err);

    trace('o', process->number, rc);
    if (rc != 0)
        return rc;
    if (world.down_until > world.now)
        return sqlock_error_db(err, "08001", 0, 0, "the server refuses connections");
    if ((w = sqlock_mem_alloc(sizeof *w)) == NULL)
        return sqlock_error_set(err, SQLOCK_ENOMEM, 0, "no memory for a connection");
    w->process = process;
    w->server_start = world.server_start;
    list_init(&w->in_process);
    list_append(&process->wires, &w->in_process);
    *out_conn = w;
    return 0;
}

static void wire_close(void *conn)
{
    struct wire *w = conn;

    if (w->sent != NULL)
        packet_leave(w->sent);
    list_remove(&w->in_process);
    sqlock_mem_free(w);
}

void network_drop(struct process *process)
{
    while (process->wires.next != &process->wires)
        wire_close(LIST_MEMBER(process->wires.next, struct wire, in_process));
}

long network_links(const struct process *process)
{
    long n = 0;

    LIST_EACH(at, &process->wires)
    {
        n++;
    }
    return n;
}

void network_breaks(bool silently)
{
    for (uint32_t i = 0; i < world.n_processes; i++)
        LIST_EACH(at, &world.processes[i].wires)
        {
            struct wire *w = LIST_MEMBER(at, struct wire, in_process);

            w->cut = true;
            w->silent = silently;
            task_wake(w);
        }
}

void network_heals(void)
{
    for (uint32_t i = 0; i < world.n_processes; i++)
        LIST_EACH(at, &world.processes[i].wires)
        {
            LIST_MEMBER(at, struct wire, in_process)->silent = false;
        }
}

/* ---- the driver ------------------------------------------------------------------------------ */

/* Migrations are none of this. */
static int wire_exec(void *conn, const char *sql, int64_t deadline, sqlock_error *err)
{
    (void)conn;
    (void)sql;
    (void)deadline;
    return sqlock_error_set(err, SQLOCK_EREFUSED, 0, "no migrations in the simulation");
}

static int wire_transaction(void *conn, int64_t deadline, sqlock_error *err)
{
    return wire_exec(conn, NULL, deadline, err);
}

const sqlock_driver *network_driver(void)
{
    static sqlock_driver driver;

    driver = *sqlock_driver_fake();
    driver.name = "sim";
    driver.open = wire_open;
    driver.close = wire_close;
    driver.run = wire_run;
    driver.exec = wire_exec;
    driver.begin = driver.commit = driver.rollback = wire_transaction;
    driver.cancel = wire_cancel;
    return &driver;
}
