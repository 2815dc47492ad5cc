/* The machine of the simulation: the files of core/base that touch the operating system, once more.
 * Every function of theirs must be here. Otherwise the linker takes their object too, and says that
 * there are two of each. */
#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/base/alarm.h"
#include "core/base/process.h"
#include "core/base/random.h"
#include "core/base/thread.h"
#include "tests/sim/sim.h"

/* ---- clock.c --------------------------------------------------------------------------------- */

/* A reading takes time, and a task may be left right after it. */
int64_t sqlock_now_us(void)
{
    int64_t now = world.now;

    if (task_me() == NULL)
        return now;
    world.now++;
    task_may_switch();
    return now;
}

void sqlock_sleep_us(int64_t us)
{
    if (us > 0)
        task_sleep(us);
}

#define SERVER_EPOCH INT64_C(1700000000000000)

int64_t machine_server_clock(void)
{
    return SERVER_EPOCH + world.now + world.now / 1000000 * world.server_ppm + world.server_offset;
}

/* The linker leads clock_gettime() here: the fake database reads its clock by itself. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *out);
int __real_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
    if (clock != CLOCK_REALTIME || world.db == NULL)
        return __real_clock_gettime(clock, out);
    out->tv_sec = (time_t)(machine_server_clock() / 1000000);
    out->tv_nsec = (long)(machine_server_clock() % 1000000) * 1000;
    return 0;
}

/* ---- random.c -------------------------------------------------------------------------------- */

int random_bytes(void *out, size_t len)
{
    unsigned char *at = out;

    while (len-- > 0)
        *at++ = (unsigned char)dice_below(&world.chance, 256);
    return 0;
}

uint32_t sqlock_random_below(uint32_t below)
{
    return below < 2 ? 0 : (uint32_t)dice_below(&world.chance, below);
}

/* ---- process.c ------------------------------------------------------------------------------- */

int64_t sqlock_process_id(void)
{
    return 1;
}

void process_name(long pid, char *out, unsigned long size)
{
    const struct process *p = task_process();

    snprintf(out, size, "%ld@sim", pid > 0 ? pid : (long)(p != NULL ? p->number : 0));
}

/* ---- mem.c: memory belongs to a process, and goes with it -------------------------------------
 */

struct piece {
    struct link in_process;
    size_t size;
    max_align_t data[];
};

static struct process nobodys; /* of the server */

static struct process *machine_process(void)
{
    struct process *p = task_process();

    return p != NULL ? p : &nobodys;
}

void *sqlock_mem_alloc(size_t size)
{
    struct piece *piece = calloc(1, sizeof *piece + size);

    if (piece == NULL)
        return NULL;
    piece->size = size;
    list_init(&piece->in_process);
    list_append(&machine_process()->memory, &piece->in_process);
    return piece->data;
}

static struct piece *piece_of(void *p)
{
    return (struct piece *)(void *)((char *)p - offsetof(struct piece, data));
}

void sqlock_mem_free(void *p)
{
    if (p == NULL)
        return;
    list_remove(&piece_of(p)->in_process);
    free(piece_of(p));
}

void *sqlock_mem_resize(void *p, size_t size)
{
    void *bigger = sqlock_mem_alloc(size);

    if (p != NULL && bigger != NULL) {
        memcpy(bigger, p, piece_of(p)->size < size ? piece_of(p)->size : size);
        sqlock_mem_free(p);
    }
    return bigger;
}

/* ---- wake.c, alarm.c: descriptors, which only the simulation knows -----------------------------
 */

enum { HANDLES_MAX = 1024, HANDLE_FIRST = 100 };

static struct handle {
    struct link in_process;
    bool open, set;
    int64_t at; /* of an alarm; otherwise TIME_NEVER */
} handles[HANDLES_MAX];

static struct handle *handle_of(int fd)
{
    if (fd < 0)
        return NULL;
    assert(fd >= HANDLE_FIRST && fd < HANDLE_FIRST + HANDLES_MAX);
    assert(handles[fd - HANDLE_FIRST].open); /* somebody uses a descriptor that is closed */
    return &handles[fd - HANDLE_FIRST];
}

int sqlock_wake_make(void)
{
    int i = 0;

    while (i < HANDLES_MAX && handles[i].open)
        i++;
    if (i == HANDLES_MAX)
        return SQLOCK_ESYS;
    handles[i] = (struct handle){.open = true, .at = TIME_NEVER};
    list_init(&handles[i].in_process);
    list_append(&machine_process()->handles, &handles[i].in_process);
    return i + HANDLE_FIRST;
}

void sqlock_wake_set(int fd)
{
    struct handle *h = handle_of(fd);

    if (h != NULL && !h->set) {
        h->set = true;
        task_wake(h);
    }
}

void sqlock_wake_clear(int fd)
{
    struct handle *h = handle_of(fd);

    if (h != NULL)
        h->set = false;
}

void sqlock_wake_close(int fd)
{
    struct handle *h = handle_of(fd);

    if (h == NULL)
        return;
    h->open = false;
    list_remove(&h->in_process);
}

static bool handle_is_ready(const struct handle *h)
{
    return h != NULL && (h->set || h->at <= world.now);
}

int sqlock_wait_fd(int fd, int events, int wake_fd, int64_t deadline)
{
    const struct handle *a = handle_of(fd), *b = handle_of(wake_fd);

    (void)events;
    for (;;) {
        task_may_switch();
        if (handle_is_ready(b))
            return 2;
        if (handle_is_ready(a))
            return 1;
        if (world.now >= deadline)
            return 0;
        task_wait(a, b, time_min(deadline, a != NULL ? a->at : TIME_NEVER));
    }
}

int alarm_make(void)
{
    return sqlock_wake_make();
}

void alarm_set(int fd, int64_t at)
{
    struct handle *h = handle_of(fd);

    if (h == NULL)
        return;
    h->at = at;
    task_wake(h);
}

void alarm_wait(int fd, int wake_fd)
{
    sqlock_wait_fd(fd, POLLIN, wake_fd, TIME_NEVER);
    sqlock_wake_clear(wake_fd);
}

void alarm_close(int fd)
{
    sqlock_wake_close(fd);
}

/* ---- thread.c -------------------------------------------------------------------------------- */

bool mutex_is_mine(const mutex *m)
{
    return atomic_load(&m->owner) == (uintptr_t)task_me();
}

int mutex_init(mutex *m)
{
    memset(&m->native, 0, sizeof m->native);
    atomic_init(&m->owner, 0);
    return 0;
}

void mutex_free(mutex *m)
{
    assert(atomic_load(&m->owner) == 0);
    (void)m;
}

static void mutex_take(mutex *m)
{
    while (atomic_load(&m->owner) != 0)
        task_wait(m, NULL, TIME_NEVER);
    atomic_store(&m->owner, (uintptr_t)task_me());
}

void mutex_lock(mutex *m)
{
    assert(task_me() != NULL && !mutex_is_mine(m));
    task_may_switch();
    mutex_take(m);
}

void mutex_unlock(mutex *m)
{
    assert(mutex_is_mine(m));
    atomic_store(&m->owner, 0);
    task_wake(m);
    task_may_switch();
}

int cond_init(cond *c)
{
    memset(c, 0, sizeof *c);
    return 0;
}

void cond_free(cond *c)
{
    (void)c;
}

void cond_wake_all(cond *c)
{
    task_wake(c);
}

/* No task runs between the unlocking and the sleep, so no wake-up is missed. It returns early as
 * seldom as the real one: after ten seconds. */
void cond_wait_until(cond *c, mutex *m, int64_t deadline)
{
    assert(mutex_is_mine(m));
    if (deadline <= world.now)
        return;
    atomic_store(&m->owner, 0);
    task_wake(m);
    task_wait(c, NULL, time_min(deadline, world.now + 10 * SIM_SECOND));
    mutex_take(m);
}

int thread_start(thread *t, void *(*body)(void *), void *arg)
{
    _Static_assert(sizeof *t == sizeof(struct task *), "a thread is the address of a task");
    struct task *task = task_start(task_process(), body, arg);

    memcpy(t, &task, sizeof task);
    return 0;
}

static struct task *thread_task(thread t)
{
    struct task *task;

    memcpy(&task, &t, sizeof task);
    return task;
}

void thread_join(thread t)
{
    task_join(thread_task(t));
}

thread thread_self(void)
{
    struct task *task = task_me();
    thread t;

    memcpy(&t, &task, sizeof task);
    return t;
}

bool thread_is_me(thread t)
{
    return thread_task(t) == task_me();
}

int cancel_hold(void)
{
    return 0;
}

void cancel_put_back(const int *before)
{
    (void)before;
}

void cancel_let(int before, void (*work)(void *arg), void (*dropped)(void *arg), void *arg)
{
    (void)before;
    (void)dropped;
    work(arg);
}

/* ---- the end of a process ---------------------------------------------------------------------
 */

void machine_begin(struct process *process)
{
    process = process != NULL ? process : &nobodys;
    list_init(&process->memory);
    list_init(&process->handles);
    list_init(&process->wires);
}

long machine_end(struct process *process)
{
    long n = 0;

    process = process != NULL ? process : &nobodys;
    for (; process->memory.next != &process->memory; n++)
        sqlock_mem_free(LIST_MEMBER(process->memory.next, struct piece, in_process)->data);
    for (; process->handles.next != &process->handles; n++) {
        struct handle *h = LIST_MEMBER(process->handles.next, struct handle, in_process);

        h->open = false;
        list_remove(&h->in_process);
    }
    return n;
}
