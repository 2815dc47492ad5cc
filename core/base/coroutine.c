/* Coroutines, made of ucontext. swapcontext() keeps a signal mask for each side, so a mask that a
 * client library changes around its calls never reaches the application's code. The other way a
 * coroutine runs with the mask of the thread that resumes it. */
#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/coroutine.h"

/* Sanitizers follow stacks, and have to know of a switch. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define COROUTINE_ASAN
#elif __has_feature(thread_sanitizer)
#define COROUTINE_TSAN
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define COROUTINE_ASAN
#elif defined(__SANITIZE_THREAD__)
#define COROUTINE_TSAN
#endif
#ifdef COROUTINE_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef COROUTINE_TSAN
#include <sanitizer/tsan_interface.h>
#endif

/* A page is taken when it is first touched. Client libraries with TLS need some 30 KB. */
#define STACK_SIZE (256 * 1024)

/* Stands at the upper end of its stack. A page at the lower end cannot be accessed. */
struct coroutine_stack {
    ucontext_t inside, outside;
    char *low;
    void (*body)(void *);
    void *arg;
    int ended;
#ifdef COROUTINE_ASAN
    void *fake_inside, *fake_outside;
    const void *outside_low;
    size_t outside_size;
#endif
#ifdef COROUTINE_TSAN
    void *fiber_inside, *fiber_outside;
#endif
};

static _Thread_local struct coroutine *running;

/* Not inlined: a coroutine may go on in another thread, whose variable has another address. */
__attribute__((noinline)) struct coroutine *coroutine_running(void)
{
    return running;
}

static __attribute__((noinline)) void coroutine_set_running(struct coroutine *c)
{
    running = c;
}

/* Otherwise signals that this thread blocks could come while the coroutine runs. SIGPIPE stays
 * blocked in the midst of a client library's call. */
static void coroutine_take_mask(struct coroutine_stack *s)
{
    int in_call = sigismember(&s->inside.uc_sigmask, SIGPIPE);

    pthread_sigmask(SIG_SETMASK, NULL, &s->inside.uc_sigmask);
    if (in_call)
        sigaddset(&s->inside.uc_sigmask, SIGPIPE);
}

static void coroutine_enter(struct coroutine_stack *s)
{
    coroutine_take_mask(s);
#ifdef COROUTINE_ASAN
    __sanitizer_start_switch_fiber(&s->fake_outside, s->low, STACK_SIZE - sizeof *s);
#endif
#ifdef COROUTINE_TSAN
    s->fiber_outside = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(s->fiber_inside, 0);
#endif
    swapcontext(&s->outside, &s->inside);
#ifdef COROUTINE_ASAN
    __sanitizer_finish_switch_fiber(s->fake_outside, NULL, NULL);
#endif
}

static void coroutine_leave(struct coroutine_stack *s)
{
#ifdef COROUTINE_ASAN
    /* NULL: its stack will not be used again */
    __sanitizer_start_switch_fiber(s->ended ? NULL : &s->fake_inside, s->outside_low,
                                   s->outside_size);
#endif
#ifdef COROUTINE_TSAN
    __tsan_switch_to_fiber(s->fiber_outside, 0);
#endif
    swapcontext(&s->inside, &s->outside);
#ifdef COROUTINE_ASAN
    __sanitizer_finish_switch_fiber(s->fake_inside, &s->outside_low, &s->outside_size);
#endif
}

/* makecontext() passes integers, so a pointer comes in two halves. */
static void coroutine_main(unsigned high, unsigned low)
{
    struct coroutine_stack *s =
        (struct coroutine_stack *)(((uintptr_t)high << 16 << 16) | (uintptr_t)low);

#ifdef COROUTINE_ASAN
    __sanitizer_finish_switch_fiber(NULL, &s->outside_low, &s->outside_size);
#endif
    s->body(s->arg);
    s->ended = 1;
    coroutine_leave(s); /* for good */
}

int coroutine_make(struct coroutine *c, void (*body)(void *), void *arg, int notify_fd)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *low = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    struct coroutine_stack *s;
    uintptr_t at;

    if (low == MAP_FAILED)
        return SQLOCK_ENOMEM;
    mprotect(low, page, PROT_NONE); /* an overflow ends the program in place of harming others */
    s = (struct coroutine_stack *)(void *)(low + STACK_SIZE - (sizeof *s + 63) / 64 * 64);
    s->low = low;
    s->body = body;
    s->arg = arg;
    getcontext(&s->inside);
    s->inside.uc_stack.ss_sp = low;
    s->inside.uc_stack.ss_size = (size_t)((char *)s - low);
    s->inside.uc_link = NULL;
    at = (uintptr_t)s;
    makecontext(&s->inside, (void (*)(void))coroutine_main, 2, (unsigned)(at >> 16 >> 16),
                (unsigned)at);
#ifdef COROUTINE_TSAN
    s->fiber_inside = __tsan_create_fiber(0);
#endif
    *c = (struct coroutine){.fd = -1, .wake_fd = -1, .notify_fd = notify_fd, .stack = s};
    return 0;
}

int coroutine_resume(struct coroutine *c)
{
    struct coroutine *outer = coroutine_running();

    assert(c != outer && !c->stack->ended);
    coroutine_set_running(c);
    coroutine_enter(c->stack);
    coroutine_set_running(outer);
    return c->stack->ended;
}

void coroutine_free(struct coroutine *c)
{
#ifdef COROUTINE_TSAN
    __tsan_destroy_fiber(c->stack->fiber_inside);
#endif
    munmap(c->stack->low, STACK_SIZE);
    c->stack = NULL;
}

void coroutine_wait(struct coroutine *c, int fd, int events, int wake_fd, int64_t until)
{
    assert(c == coroutine_running());
    c->fd = fd;
    c->events = events;
    c->wake_fd = wake_fd;
    c->until = until;
    coroutine_leave(c->stack);
    c->fd = c->wake_fd = -1;
}
