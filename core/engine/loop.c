/* Managers without threads, which an event loop drives step by step. */
#include <assert.h>
#include <poll.h>

#include "core/base/alarm.h"
#include "core/base/poller.h"
#include "core/engine/checks.h"
#include "core/engine/hearing.h"
#include "core/engine/lanes.h"
#include "core/engine/loop.h"
#include "core/engine/queue.h"
#include "core/engine/renewals.h"

#define LANES_MOST   256 /* requests under way, with those that wait for a connection */
#define LANES_URGENT 32  /* beside them, for what waits for no lock */
#define READY_MOST   64
#define ROUNDS_MOST  100   /* of one step: then the application has its turn */
#define STOP_LOOK_US 10000 /* without a descriptor that says so: look at least so often */

/* ---- a step ---------------------------------------------------------------------------------- */

static struct work *loop_take_work(struct loop *loop)
{
    struct work *work = LIST_MEMBER(loop->works.next, struct work, in_loop);

    list_remove(&work->in_loop);
    return work;
}

/* When an op is due that a lane is left for. Waits for locks may not take all of them. */
static int64_t loop_op_due(const sqlock *m)
{
    int n = m->loop->n_lanes;

    return n < LANES_MOST                  ? ops_due(m)
           : n < LANES_MOST + LANES_URGENT ? ops_urgent_due(m)
                                           : TIME_NEVER;
}

/* Start what is due. An op that a lane drives is due for nothing else. */
static void loop_start_lanes(sqlock *m)
{
    struct loop *loop = m->loop;
    int64_t now = sqlock_now_us();
    struct lane *lane;

    while (loop->works.next != &loop->works && loop->n_lanes < LANES_MOST + LANES_URGENT &&
           (lane = lane_start(m)) != NULL)
        lane->work = loop_take_work(loop);
    if (!loop->renewing && lane_renewals_due(m, now) && (lane = lane_start(m)) != NULL)
        lane->is_renewals = loop->renewing = 1;
    if (!loop->hearing && !loop->renewing && hearing_due(m) <= now &&
        (lane = lane_start(m)) != NULL)
        lane->hears = loop->hearing = 1;
    while (loop_op_due(m) <= now && (lane = lane_start(m)) != NULL)
        ops_take(m, &lane->op);
}

static void loop_look(struct loop *loop)
{
    void *found[READY_MOST];
    int n = poller_look(loop->poller, found, READY_MOST);

    for (int i = 0; i < n; i++)
        if (found[i] != NULL) /* NULL: the loop's own descriptors */
            ((struct lane *)found[i])->ready = 1;
}

/* Returns 1 if something was done, so that there may be more to do. */
static int loop_round(sqlock *m)
{
    struct loop *loop = m->loop;
    int64_t now = sqlock_now_us();
    int did = 0;

    timer_tick(m);
    if (!m->stopping)
        loop_start_lanes(m);
    loop_look(loop);
    for (struct link *at = loop->lanes.next, *next; at != &loop->lanes; at = next) {
        struct lane *lane = LIST_MEMBER(at, struct lane, in_loop);

        next = at->next; /* only a step starts and ends lanes, and this is the only one */
        if (!lane_is_ready(lane, now))
            continue;
        lane_run(lane);
        did = 1;
    }
    return did;
}

/* When there is something to do next. */
static int64_t loop_due(sqlock *m)
{
    struct loop *loop = m->loop;
    int64_t due = time_min(timer_due(m), loop_op_due(m));

    if (!loop->renewing)
        due =
            time_min(time_min(due, renewals_due(m)), time_min(checks_due(m), renewals_mend_due(m)));
    if (!loop->renewing)
        due = time_min(time_min(due, queue_due(m)), loop->hearing ? TIME_NEVER : hearing_due(m));
    LIST_EACH(at, &loop->lanes)
    {
        due = time_min(due, LIST_MEMBER(at, struct lane, in_loop)->flow.until);
    }
    return due;
}

static void loop_set_alarm(struct loop *loop, int64_t at)
{
    if (at == loop->until)
        return;
    loop->until = at;
    alarm_set(loop->alarm, at);
}

static void loop_step(sqlock *m)
{
    struct loop *loop = m->loop;
    int rounds = ROUNDS_MOST;

    assert(mutex_is_mine(&m->mu) && !loop->stepping);
    loop->stepping = 1;
    loop->stepper = thread_self();
    loop->woken = 0;
    sqlock_wake_clear(loop->wake_fd);
    while (rounds > 0 && loop_round(m))
        rounds--;
    loop_set_alarm(loop, rounds > 0 ? loop_due(m) : 0);
    loop->stepping = 0;
    cond_wake_all(&loop->stepped);
}

int loop_is_mine(const sqlock *m)
{
    return (m->loop->stepping && thread_is_me(m->loop->stepper)) ||
           (m->loop->reporting && thread_is_me(m->timer));
}

/* Not within the step: another thread that waits for the manager does not wait for a callback. */
static int loop_report(sqlock *m)
{
    int did;

    if (m->loop->reporting || m->stopping)
        return 0;
    m->loop->reporting = 1;
    m->timer = thread_self();
    did = timer_report(m);
    m->loop->reporting = 0;
    return did;
}

void loop_wake(sqlock *m, int64_t at)
{
    assert(mutex_is_mine(&m->mu));
    if (at >= m->loop->until || m->loop->stepping || m->loop->woken)
        return;
    m->loop->woken = 1;
    sqlock_wake_set(m->loop->wake_fd);
}

void loop_go_on(sqlock *m)
{
    do
        if (!m->loop->stepping)
            loop_step(m);
    while (loop_report(m));
}

int64_t loop_next(const sqlock *m)
{
    return m->loop->woken ? 0 : m->loop->until;
}

int loop_descriptor(const sqlock *m)
{
    return m->loop->poller;
}

static void loop_sleep(sqlock *m, int wake_fd, int64_t until)
{
    int poller = m->loop->poller;

    mutex_unlock(&m->mu);
    sqlock_wait_fd(poller, POLLIN, wake_fd, until);
    mutex_lock(&m->mu);
}

void loop_pump(sqlock *m, int wake_fd, int64_t until)
{
    assert(mutex_is_mine(&m->mu) && !loop_is_mine(m));
    if (m->loop->stepping) {
        cond_wait_until(&m->loop->stepped, &m->mu, until);
        return;
    }
    loop_sleep(m, wake_fd, until);
    loop_go_on(m);
}

void loop_do(sqlock *m, void (*run)(void *arg), void *arg)
{
    struct work work = {.run = run, .arg = arg, .wake_fd = sqlock_wake_make()};

    list_init(&work.in_loop);
    mutex_lock(&m->mu);
    list_append(&m->loop->works, &work.in_loop);
    loop_wake(m, 0);
    while (!work.done)
        loop_pump(m, work.wake_fd, work.wake_fd >= 0 ? TIME_NEVER : sqlock_now_us() + STOP_LOOK_US);
    mutex_unlock(&m->mu);
    sqlock_wake_close(work.wake_fd);
}

int loop_blocks(sqlock *m)
{
    int mine;

    if (m->loop == NULL || coroutine_running() != NULL)
        return 0;
    mutex_lock(&m->mu);
    mine = loop_is_mine(m);
    mutex_unlock(&m->mu);
    return !mine;
}

void loop_let_others(sqlock *m)
{
    struct coroutine *me = m->loop != NULL ? coroutine_running() : NULL;
    int others = 0;

    if (me == NULL)
        return;
    LIST_EACH(at, &m->loop->lanes)
    {
        others += LIST_MEMBER(at, struct lane, in_loop)->ready;
    }
    if (others == 0)
        return;
    mutex_unlock(&m->mu);
    coroutine_wait(me, -1, 0, -1, 0);
    mutex_lock(&m->mu);
}

/* ---- its life -------------------------------------------------------------------------------- */

int loop_make(sqlock *m, sqlock_error *err)
{
    struct loop *loop = sqlock_mem_alloc(sizeof *loop);

    if (loop == NULL)
        return error_nomem(err);
    m->loop = loop;
    list_init(&loop->lanes);
    list_init(&loop->works);
    list_init(&loop->idle);
    cond_init(&loop->stepped);
    loop->until = TIME_NEVER;
    loop->poller = poller_make();
    loop->wake_fd = sqlock_wake_make();
    loop->alarm = alarm_make();
    if (loop->poller >= 0 && loop->wake_fd >= 0 && loop->alarm >= 0 &&
        poller_add(loop->poller, loop->wake_fd, POLLIN, NULL) == 0 &&
        poller_add(loop->poller, loop->alarm, POLLIN, NULL) == 0)
        return 0;
    return sqlock_error_set(err, SQLOCK_ESYS, SQLOCK_RETRY, "no file descriptor available");
}

void loop_free(sqlock *m)
{
    struct loop *loop = m->loop;

    if (loop == NULL)
        return;
    assert(loop->n_lanes == 0 && loop->n_idle == 0 && !loop->stepping);
    alarm_close(loop->alarm);
    sqlock_wake_close(loop->wake_fd);
    poller_close(loop->poller);
    cond_free(&loop->stepped);
    sqlock_mem_free(loop);
}

void loop_stop(sqlock *m)
{
    while (m->loop->stepping)
        cond_wait_until(&m->loop->stepped, &m->mu, TIME_NEVER);
    while (m->loop->n_lanes > 0) {
        loop_step(m);
        if (m->loop->n_lanes > 0)
            loop_sleep(m, -1, sqlock_now_us() + STOP_LOOK_US);
    }
    lanes_end_idle(m);
}
