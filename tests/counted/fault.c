#include "tests/counted/fault.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sqlock/driver.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct {
    const struct plan *plan; /* NULL: not armed */
    int left;                /* points until it happens */
    bool fired;
    void (*tell)(void *user);
    void *user;
} now;

void fault_arm(const struct plan *plan, int n)
{
    pthread_mutex_lock(&mu);
    now.plan = plan;
    now.left = n;
    now.fired = false;
    pthread_mutex_unlock(&mu);
}

bool fault_disarm(void)
{
    bool fired;

    pthread_mutex_lock(&mu);
    now.plan = NULL;
    now.tell = NULL;
    fired = now.fired;
    pthread_mutex_unlock(&mu);
    return fired;
}

void fault_print(void (*fn)(void *user), void *user)
{
    pthread_mutex_lock(&mu);
    now.tell = fn;
    now.user = user;
    pthread_mutex_unlock(&mu);
}

void fault_lost(void)
{
    void (*tell)(void *user);
    void *user;

    pthread_mutex_lock(&mu);
    tell = now.tell;
    user = now.user;
    now.tell = NULL;
    pthread_mutex_unlock(&mu);
    if (tell != NULL)
        tell(user);
}

enum fault fault_at(enum level level)
{
    enum fault fault = FAULT_NONE;

    pthread_mutex_lock(&mu);
    if (now.plan != NULL && now.plan->level == level && now.left > 0 && --now.left == 0) {
        fault = now.plan->fault;
        now.left = now.plan->lasts;
        now.fired = true;
    }
    pthread_mutex_unlock(&mu);
    return fault;
}

void fault_die(void)
{
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

/* ---- memory ----------------------------------------------------------------------------------
 * The library's allocator, in the place of core/base/mem.c: this file's object is linked before the
 * library, so the library's own is left out. It counts what is given out and not given back. */

static atomic_long live;

long memory_live(void)
{
    return atomic_load(&live);
}

void *sqlock_mem_alloc(size_t size)
{
    void *p = fault_at(AT_MEMORY) == FAULT_NONE ? calloc(1, size) : NULL;

    atomic_fetch_add(&live, p != NULL);
    return p;
}

void *sqlock_mem_resize(void *old, size_t size)
{
    void *p = fault_at(AT_MEMORY) == FAULT_NONE ? realloc(old, size) : NULL;

    atomic_fetch_add(&live, p != NULL && old == NULL);
    return p;
}

void sqlock_mem_free(void *p)
{
    atomic_fetch_sub(&live, p != NULL);
    free(p);
}

/* ---- threads, descriptors --------------------------------------------------------------------
 * The library finds these functions here, and they hand on to the real ones. */

/* POSIX lets a function's address pass through a void *; C does not. */
void find_real(const char *name, void *out, size_t size)
{
    void *found = dlsym(RTLD_NEXT, name);

    memcpy(out, &found, size);
}

/* A function of two arguments that makes a descriptor, or refuses to. */
#define DESCRIPTOR(name, type)                                                                     \
    int name(type what, int flags)                                                                 \
    {                                                                                              \
        int (*real)(type, int);                                                                    \
                                                                                                   \
        find_real(#name, &real, sizeof real);                                                      \
        if (fault_at(AT_SYSTEM) == FAULT_NONE)                                                     \
            return real(what, flags);                                                              \
        errno = EMFILE;                                                                            \
        return -1;                                                                                 \
    }

DESCRIPTOR(eventfd, unsigned)
DESCRIPTOR(timerfd_create, clockid_t)

int pthread_create(pthread_t *out, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

    find_real("pthread_create", &real, sizeof real);
    return fault_at(AT_SYSTEM) == FAULT_NONE ? real(out, attr, fn, arg) : EAGAIN;
}
