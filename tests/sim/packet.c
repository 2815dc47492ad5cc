/* Packets: requests and answers, which arrive later, twice, or never. */
#include <stdlib.h>
#include <string.h>

#include "tests/sim/packet.h"

static size_t packet_values(sqlock_stmt stmt, size_t n)
{
    return n * sqlock_driver_fake()->dialect->scripts[stmt].n_params;
}

struct packet *packet_new(struct wire *w, sqlock_stmt stmt, const sqlock_value *values, size_t n)
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
void packet_happened(void *arg)
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

void packet_leave(struct packet *p)
{
    p->wire->sent = NULL;
    p->wire = NULL;
    if (p->happenings == 0)
        packet_free(p);
}

/* ---- what becomes of them -------------------------------------------------------------------- */

/* Now and then it takes twice as long: less than what a wait spares for its last answer. */
int64_t one_way(void)
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
        server_runs(p);
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

void packet_send(struct packet *p)
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
