/* The network and the server: what is sent arrives later, twice, or never. The server is the fake
 * database, without its own faults. It runs each request at once when that arrives. */
#include <stdlib.h>
#include <string.h>

#include "core/sql/rows.h"
#include "tests/sim/sim.h"

/* A connection, as its client has it. */
struct wire {
    struct link in_process;
    struct process *process;
    int64_t server_start; /* of the server at its other end */
    bool cut;             /* the client learns of it by its next request; */
    bool silent;          /* or by no answer */
    bool dead;            /* it knows */
    uint64_t cancelled;   /* the number of a call */
    struct packet *sent;  /* the request under way; also while its call pauses */
};

/* A request on its way, and the answer on its way back. It outlives its client. */
struct packet {
    int happenings;    /* of the future that name it */
    struct wire *wire; /* NULL: no one waits for the answer any more */
    struct process *process;
    uint32_t number; /* of the process at that time */
    int64_t server_start;
    bool lost_reply, silent, refused, again, ran, arrived;
    int64_t back_us;
    sqlock_stmt stmt;
    size_t n;
    int rc;
    sqlock_error err;
    sqlock_rows rows;
    sqlock_value values[];
};

/* ---- packets --------------------------------------------------------------------------------- */

static size_t packet_values(sqlock_stmt stmt, size_t n)
{
    return n * sqlock_driver_fake()->dialect->scripts[stmt].n_params;
}

/* The caller's values end with its call. */
static struct packet *packet_new(struct wire *w, sqlock_stmt stmt, const sqlock_value *values,
                                 size_t n)
{
    size_t n_values = packet_values(stmt, n), bytes = 0;
    struct packet *p;
    char *at;

    for (size_t i = 0; i < n_values; i++)
        bytes += values[i].type == SQLOCK_BYTES ? values[i].len : 0;
    if ((p = calloc(1, sizeof *p + n_values * sizeof *values + bytes)) == NULL)
        abort();
    at = (char *)(p->values + n_values);
    for (size_t i = 0; i < n_values; i++) {
        p->values[i] = values[i];
        if (values[i].type != SQLOCK_BYTES)
            continue;
        if (values[i].len > 0)
            memcpy(at, values[i].data, values[i].len);
        p->values[i].data = at;
        at += values[i].len;
    }
    p->wire = w;
    p->process = w->process;
    p->number = w->process->number;
    p->server_start = w->server_start;
    p->stmt = stmt;
    p->n = n;
    rows_init(&p->rows);
    return p;
}

static void packet_free(struct packet *p)
{
    rows_end(&p->rows);
    free(p);
}

/* When its last happening is over and no client waits, no one needs it. */
static void packet_happened(void *arg)
{
    struct packet *p = arg;

    if (--p->happenings == 0 && p->wire == NULL)
        packet_free(p);
}

static void packet_at(struct packet *p, int64_t at, void (*happen)(void *arg))
{
    p->happenings++;
    event_at(at, happen, p);
}

/* The client waits no more. */
static void packet_leave(struct packet *p)
{
    p->wire->sent = NULL;
    p->wire = NULL;
    if (p->happenings == 0)
        packet_free(p);
}

/* ---- events ---------------------------------------------------------------------------------- */

/* Now and then it takes twice as long: less than what a wait spares for its last answer. */
static int64_t one_way(void)
{
    int64_t least = world.weather.least_us, most = world.weather.most_us;

    return chance_between(least, chance_of(20) ? 2 * most : most);
}

/* The other end has reset the connection. */
static void reset_comes(void *arg)
{
    struct packet *p = arg;

    trace('x', p->number, p->stmt);
    if (p->wire != NULL) {
        p->wire->cut = true;
        task_wake(p->wire);
    }
    packet_happened(p);
}

static bool is_same_process(const struct packet *p)
{
    return p->process->alive && p->process->number == p->number;
}

static void answer_comes(void *arg)
{
    struct packet *p = arg;
    bool heard = is_same_process(p) && p->process->deaf_until <= world.now;

    trace('a', p->number, p->stmt);
    if (heard && p->wire != NULL && p->server_start == world.server_start) {
        p->arrived = true;
        task_wake(p->wire);
    }
    packet_happened(p);
}

static void server_runs(struct packet *p, sqlock_rows *rows, sqlock_error *err)
{
    memset(err, 0, sizeof *err);
    world.requests += (int64_t)p->n;
    world.batched += p->n > 1 ? (int64_t)p->n : 0;
    p->rc = p->refused ? sqlock_error_db(err, "40001", 0, 0, "the server refused the request")
                       : sqlock_driver_fake()->run(world.session, NULL, p->stmt, p->values, p->n,
                                                   TIME_NEVER, rows, err);
    trace('r', p->stmt, p->rc);
}

/* What came twice has one answer, the first. */
static void server_runs_again(struct packet *p)
{
    sqlock_rows unread;
    sqlock_error unread_too;
    int rc = p->rc;

    rows_init(&unread);
    server_runs(p, &unread, &unread_too);
    rows_end(&unread);
    p->rc = rc;
}

static void request_comes(void *arg)
{
    struct packet *p = arg;

    if (world.frozen_until > world.now) {
        p->happenings--;
        packet_at(p, world.frozen_until + one_way(), request_comes);
        return;
    }
    trace('q', p->number, p->stmt);
    if (p->server_start != world.server_start) {
        if (!p->silent)
            packet_at(p, world.now + one_way(), reset_comes);
    } else if (p->ran) {
        server_runs_again(p);
    } else {
        server_runs(p, &p->rows, &p->err);
        p->ran = true;
        if (!p->lost_reply)
            packet_at(p, world.now + p->back_us, answer_comes);
        else if (!p->silent)
            packet_at(p, world.now + p->back_us, reset_comes);
    }
    packet_happened(p);
}

/* ---- sending --------------------------------------------------------------------------------- */

static int64_t late_us(void)
{
    return chance_of(world.weather.late) ? chance_between(1, world.weather.late_us) : 0;
}

/* All that will become of it is drawn here. */
static void packet_send(struct packet *p)
{
    const struct weather *w = &world.weather;
    int64_t arrives = world.now + one_way() + late_us();

    trace('p', p->number, p->stmt);
    p->silent = chance_of(w->silent) || p->wire->silent;
    p->lost_reply = chance_of(w->lose_reply);
    p->refused = chance_of(w->refuse);
    p->back_us = one_way() + late_us();
    if (p->process->mute_until > world.now)
        return;
    if (p->wire->cut || chance_of(w->lose_request)) {
        if (!p->silent)
            packet_at(p, world.now + 2 * one_way(), reset_comes);
        return;
    }
    packet_at(p, arrives, request_comes);
    if (chance_of(w->twice))
        packet_at(p, arrives + one_way() + late_us(), request_comes);
}

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

/* ---- the server ------------------------------------------------------------------------------ */

static bool server_connect(void)
{
    return sqlock_fake_connect(world.db, &world.session, NULL) == 0;
}

bool server_begin(void)
{
    machine_begin(NULL);
    world.db = sqlock_fake_new();
    return world.db != NULL && server_connect();
}

void server_end(void)
{
    tasks_reset(packet_happened);
    if (world.session != NULL)
        sqlock_driver_fake()->close(world.session);
    sqlock_fake_free(world.db);
    world.db = NULL;
    if (machine_end(NULL) != 0)
        record_breach(NULL, "the server left memory behind");
}

void server_crash(bool silently)
{
    world.server_start++;
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

void server_failover(void)
{
    server_crash(chance_of(500));
    sqlock_driver_fake()->close(world.session);
    sqlock_fake_failover(world.db);
    server_connect();
}

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
