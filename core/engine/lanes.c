/* Coroutines of managers without threads: requests of event loops, renewals, work of callers. */
#include <assert.h>
#include <poll.h>

#include "core/base/poller.h"
#include "core/engine/checks.h"
#include "core/engine/hearing.h"
#include "core/engine/lanes.h"
#include "core/engine/queue.h"
#include "core/engine/renewals.h"

#define LANES_KEPT 8 /* idle, for the next requests */

/* The poller has a descriptor only while a lane waits for it: a client library may close it at any
 * other time, and a server that says good-bye would make it readable for ever. */
static void lane_watch(struct lane *lane)
{
    struct coroutine *flow = &lane->flow;
    int poller = lane->m->loop->poller;

    assert(lane->fds[0] < 0 && lane->fds[1] < 0);
    if (flow->fd >= 0 && poller_add(poller, flow->fd, flow->events, lane) == 0)
        lane->fds[0] = flow->fd;
    if (flow->wake_fd >= 0 && poller_add(poller, flow->wake_fd, POLLIN, lane) == 0)
        lane->fds[1] = flow->wake_fd;
}

static void lane_unwatch(struct lane *lane)
{
    for (int i = 0; i < 2; i++) {
        if (lane->fds[i] >= 0)
            poller_remove(lane->m->loop->poller, lane->fds[i]);
        lane->fds[i] = -1;
    }
}

/* A descriptor that the poller could not take is looked at in each step. */
int lane_is_ready(const struct lane *lane, int64_t now)
{
    const struct coroutine *flow = &lane->flow;
    int unwatched = (flow->fd >= 0 && lane->fds[0] < 0) || (flow->wake_fd >= 0 && lane->fds[1] < 0);

    return lane->ready || unwatched || atomic_load(&flow->woken) || flow->until <= now ||
           lane->m->stopping;
}

/* Its coroutine has ended. */
static void lane_free(struct lane *lane)
{
    coroutine_free(&lane->flow);
    list_remove(&lane->in_loop);
    sqlock_mem_free(lane);
}

void lane_run(struct lane *lane)
{
    sqlock *m = lane->m;
    int ended;

    lane->ready = 0;
    mutex_unlock(&m->mu);
    lane_unwatch(lane);
    atomic_store(&lane->flow.woken, 0);
    ended = coroutine_resume(&lane->flow);
    if (!ended)
        lane_watch(lane);
    mutex_lock(&m->mu);
    if (ended)
        lane_free(lane);
}

int lane_renewals_due(sqlock *m, int64_t now)
{
    return renewals_due(m) <= now || checks_due(m) <= now || renewals_mend_due(m) <= now ||
           queue_due(m) <= now;
}

/* In the worker's order. m->mu is held. */
static void lane_drive_renewals(struct lane *lane)
{
    sqlock *m = lane->m;
    int64_t now;

    while (!m->stopping && lane_renewals_due(m, now = sqlock_now_us())) {
        if (renewals_due(m) <= now)
            renewals_run(m);
        else if (checks_due(m) <= now)
            checks_run(m);
        else if (queue_due(m) <= now)
            queue_run(m);
        else
            renewals_mend(m);
    }
    lane->is_renewals = m->loop->renewing = 0;
}

/* Until renewals or others need the connection. */
static void lane_hear(struct lane *lane)
{
    hearing_run(lane->m, TIME_NEVER);
    lane->hears = lane->m->loop->hearing = 0;
}

/* Once it is done, the caller's frame may be gone. m->mu is held, and released meanwhile. */
static void lane_do(struct lane *lane)
{
    struct work *work = lane->work;

    mutex_unlock(&lane->m->mu);
    work->run(work->arg);
    mutex_lock(&lane->m->mu);
    lane->work = NULL;
    work->done = 1;
    if (work->wake_fd >= 0)
        sqlock_wake_set(work->wake_fd);
}

/* From the lanes at work to the idle ones. m->mu is held, and released during the rest. Returns 0
 * if there is no more work for this lane. */
static int lane_rest(struct lane *lane)
{
    struct loop *loop = lane->m->loop;

    list_remove(&lane->in_loop);
    loop->n_lanes--;
    if (loop->n_idle >= LANES_KEPT || lane->m->stopping)
        return 0;
    list_append(&loop->idle, &lane->in_loop);
    loop->n_idle++;
    mutex_unlock(&lane->m->mu);
    coroutine_wait(&lane->flow, -1, 0, -1, TIME_NEVER);
    mutex_lock(&lane->m->mu);
    return lane->is_renewals || lane->hears || lane->op != NULL || lane->work != NULL;
}

static void lane_main(void *arg)
{
    struct lane *lane = arg;

    mutex_lock(&lane->m->mu);
    do {
        if (lane->is_renewals)
            lane_drive_renewals(lane);
        else if (lane->hears)
            lane_hear(lane);
        else if (lane->work != NULL)
            lane_do(lane);
        else
            ops_drive(lane->op, &lane->op);
    } while (lane_rest(lane));
    mutex_unlock(&lane->m->mu);
}

/* NULL: no memory. */
static struct lane *lane_new(sqlock *m)
{
    struct lane *lane = sqlock_mem_alloc(sizeof *lane);

    if (lane == NULL)
        return NULL;
    if (coroutine_make(&lane->flow, lane_main, lane, m->loop->wake_fd) != 0) {
        sqlock_mem_free(lane);
        return NULL;
    }
    lane->m = m;
    lane->fds[0] = lane->fds[1] = -1;
    list_init(&lane->in_loop);
    return lane;
}

struct lane *lane_start(sqlock *m)
{
    struct loop *loop = m->loop;
    struct lane *lane = NULL;

    if (loop->n_idle > 0) {
        lane = LIST_MEMBER(loop->idle.next, struct lane, in_loop);
        list_remove(&lane->in_loop);
        loop->n_idle--;
    } else if ((lane = lane_new(m)) == NULL)
        return NULL;
    lane->ready = 1;
    list_append(&loop->lanes, &lane->in_loop);
    loop->n_lanes++;
    return lane;
}

void lanes_end_idle(sqlock *m)
{
    struct loop *loop = m->loop;

    while (loop->n_idle > 0) {
        loop->n_idle--;
        lane_run(LIST_MEMBER(loop->idle.next, struct lane, in_loop));
    }
}
