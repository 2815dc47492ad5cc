/* Tasks, which are threads to the engine: one runs at a time, and the seed decides which. Time
 * stands still while one runs, except that each reading of the clock takes a microsecond. If none
 * can run, time jumps to what comes next. */
#undef _FORTIFY_SOURCE /* it takes a jump to another stack for a mistake */
#include <inttypes.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#include "tests/sim/sim.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

enum { STACK_BYTES = 256 * 1024, TASKS_MAX = 256 };

enum task_state { TASK_READY, TASK_WAITS, TASK_OVER };

struct task {
    uint32_t number;
    struct process *process;
    enum task_state state;
    const void *on[2]; /* what it sleeps on */
    int64_t until;
    void *(*body)(void *arg);
    void *arg;
    bool started;
    ucontext_t first; /* for its start; later it is entered by a jump */
    jmp_buf here;
    void *stack;
};

static struct task *tasks[TASKS_MAX];
static struct task *ready[TASKS_MAX];
static int n_tasks, n_ready;
static int64_t next_until; /* no task that waits goes on before that */
static struct task *me;
static uint32_t last_number;
static jmp_buf scheduler;
static void *spare_stacks[TASKS_MAX];
static int n_spare;

/* ---- events ---------------------------------------------------------------------------------- */

struct happening {
    struct happening *next;
    int64_t at;
    void (*happen)(void *arg);
    void *arg;
};

static struct happening *events; /* by time; of equal times, who came first */

void event_at(int64_t at, void (*happen)(void *arg), void *arg)
{
    struct happening **place = &events, *e = malloc(sizeof *e);

    if (e == NULL)
        abort();
    *e = (struct happening){NULL, at, happen, arg};
    while (*place != NULL && (*place)->at <= at)
        place = &(*place)->next;
    e->next = *place;
    *place = e;
}

static void events_happen(void)
{
    while (events != NULL && events->at <= world.now) {
        struct happening *e = events;

        events = e->next;
        e->happen(e->arg);
        free(e);
    }
}

void tasks_reset(void (*forget)(void *arg))
{
    while (events != NULL) {
        struct happening *e = events;

        events = e->next;
        forget(e->arg);
        free(e);
    }
    last_number = 0;
}

/* ---- stacks ---------------------------------------------------------------------------------- */

#ifdef __SANITIZE_ADDRESS__
static const void *scheduler_stack;
static size_t scheduler_stack_size;

static void stack_leave(void **keep, const struct task *to)
{
    __sanitizer_start_switch_fiber(keep, to != NULL ? to->stack : scheduler_stack,
                                   to != NULL ? STACK_BYTES : scheduler_stack_size);
}

static void stack_arrive(void *kept)
{
    const void *from;
    size_t size;

    __sanitizer_finish_switch_fiber(kept, &from, &size);
    if (scheduler_stack == NULL) {
        scheduler_stack = from;
        scheduler_stack_size = size;
    }
}
#else
static void stack_leave(void **keep, const struct task *to)
{
    (void)keep;
    (void)to;
}

static void stack_arrive(void *kept)
{
    (void)kept;
}
#endif

static void *stack_new(void)
{
    void *stack = n_spare > 0 ? spare_stacks[--n_spare] : malloc(STACK_BYTES);

    if (stack == NULL)
        abort();
    return stack;
}

/* From a task to the scheduler, which comes back here later. */
static void task_yield(void)
{
    void *kept = NULL;

    if (_setjmp(me->here) == 0) {
        stack_leave(&kept, NULL);
        _longjmp(scheduler, 1);
    }
    stack_arrive(kept);
}

static void task_begin(void)
{
    stack_arrive(NULL);
    me->body(me->arg);
    me->state = TASK_OVER;
    task_wake(me);
    stack_leave(NULL, NULL);
    _longjmp(scheduler, 1);
}

/* ---- a task ---------------------------------------------------------------------------------- */

struct task *task_me(void)
{
    return me;
}

struct process *task_process(void)
{
    return me != NULL ? me->process : NULL;
}

struct task *task_start(struct process *process, void *(*body)(void *arg), void *arg)
{
    struct task *t = calloc(1, sizeof *t);

    if (t == NULL || n_tasks == TASKS_MAX || getcontext(&t->first) != 0)
        abort();
    t->number = ++last_number;
    t->process = process;
    t->body = body;
    t->arg = arg;
    t->stack = stack_new();
    t->first.uc_stack.ss_sp = t->stack;
    t->first.uc_stack.ss_size = STACK_BYTES;
    makecontext(&t->first, task_begin, 0);
    tasks[n_tasks++] = t;
    ready[n_ready++] = t;
    trace('s', t->number, process != NULL ? process->number : 0);
    return t;
}

bool task_is_over(const struct task *task)
{
    return task->state == TASK_OVER;
}

static void task_make_ready(struct task *t)
{
    t->state = TASK_READY;
    t->on[0] = t->on[1] = NULL;
    ready[n_ready++] = t;
}

void task_wait(const void *on, const void *or_on, int64_t until)
{
    if (until <= world.now) {
        task_may_switch();
        return;
    }
    me->state = TASK_WAITS;
    me->on[0] = on;
    me->on[1] = or_on;
    me->until = until;
    next_until = time_min(next_until, until);
    task_yield();
}

void task_sleep(int64_t us)
{
    task_wait(NULL, NULL, world.now + us);
}

void task_wake(const void *on)
{
    for (int i = 0; i < n_tasks; i++)
        if (tasks[i]->state == TASK_WAITS && (tasks[i]->on[0] == on || tasks[i]->on[1] == on))
            task_make_ready(tasks[i]);
}

/* How long this task is kept waiting by the machine: hardly ever, or often where it is busy. */
static int64_t task_stall(void)
{
    const struct process *p = me->process;

    if (p == NULL)
        return 0;
    if (p->busy_until > world.now && dice_below(&world.chance, 200) == 0)
        return chance_between(1, dice_below(&world.chance, 10) == 0 ? 3 * SIM_SECOND : 20000);
    return dice_below(&world.chance, 4000) == 0 ? chance_between(1, 3000) : 0;
}

void task_may_switch(void)
{
    int64_t stall;

    if (me == NULL || dice_below(&world.chance, (uint64_t)world.switch_one_in) != 0)
        return;
    if ((stall = task_stall()) > 0) {
        task_wait(NULL, NULL, world.now + stall);
    } else if (n_ready > 0) {
        ready[n_ready++] = me;
        task_yield();
    }
}

/* ---- the scheduler --------------------------------------------------------------------------- */

static void task_remove(int at)
{
    struct task *t = tasks[at];

    for (int i = 0; i < n_ready; i++)
        if (ready[i] == t)
            ready[i--] = ready[--n_ready];
    tasks[at] = tasks[--n_tasks];
    spare_stacks[n_spare++] = t->stack;
    free(t);
}

/* Whoever joins a task is the last to know of it. */
void task_join(struct task *task)
{
    int at = 0;

    while (task->state != TASK_OVER)
        task_wait(task, NULL, TIME_NEVER);
    while (tasks[at] != task)
        at++;
    task_remove(at);
}

void tasks_kill(const struct process *process)
{
    for (int i = 0; i < n_tasks;)
        if (tasks[i]->process == process)
            task_remove(i);
        else
            i++;
}

/* Those whose time has come. */
static void tasks_rouse(void)
{
    int64_t next = TIME_NEVER;

    for (int i = 0; i < n_tasks; i++)
        if (tasks[i]->state == TASK_WAITS && tasks[i]->until <= world.now)
            task_make_ready(tasks[i]);
        else if (tasks[i]->state == TASK_WAITS)
            next = time_min(next, tasks[i]->until);
    next_until = next;
}

/* A task of a process that is paused goes on with it. */
static bool task_pause(struct task *t)
{
    if (t->process == NULL || t->process->paused_until <= world.now)
        return false;
    t->state = TASK_WAITS;
    t->until = t->process->paused_until;
    next_until = time_min(next_until, t->until);
    return true;
}

static void task_enter(struct task *t)
{
    void *kept = NULL;

    trace('t', t->number, world.now);
    me = t;
    if (_setjmp(scheduler) == 0) {
        stack_leave(&kept, t);
        if (t->started)
            _longjmp(t->here, 1);
        t->started = true;
        setcontext(&t->first);
    }
    stack_arrive(kept);
    me = NULL;
}

static struct task *tasks_pick(void)
{
    uint64_t at = n_ready > 1 ? dice_below(&world.chance, (uint64_t)n_ready) : 0;
    struct task *t = ready[at];

    ready[at] = ready[--n_ready];
    return t;
}

/* None is left behind for the next world. */
static bool tasks_are_stuck(void)
{
    int n = 0;

    while (n_tasks > 0) {
        n += tasks[0]->state != TASK_OVER;
        task_remove(0);
    }
    if (n > 0)
        fprintf(stderr, "seed %" PRIu64 ": %d tasks sleep for ever, at %" PRId64 "\n", world.seed,
                n, world.now);
    return n > 0;
}

bool tasks_run(void)
{
    next_until = 0;
    for (;;) {
        int64_t next;
        struct task *t;

        events_happen();
        if (next_until <= world.now)
            tasks_rouse();
        if (n_ready > 0) {
            if (!task_pause(t = tasks_pick()))
                task_enter(t);
            continue;
        }
        next = time_min(next_until, events != NULL && n_tasks > 0 ? events->at : TIME_NEVER);
        if (next == TIME_NEVER)
            break;
        world.now = time_max(world.now, next);
    }
    return !tasks_are_stuck();
}
