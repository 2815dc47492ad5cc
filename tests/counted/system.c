/* What the library asks of the operating system besides memory: descriptors and threads. The
 * library finds these functions here, and they hand on to the real ones. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include "tests/counted/fault.h"

/* POSIX lets a function's address pass through a void *; C does not. */
void find_real(const char *name, void *out, size_t size)
{
    void *found = dlsym(RTLD_NEXT, name);

    memcpy(out, &found, size);
}

int eventfd(unsigned count, int flags)
{
    int (*real)(unsigned, int);

    find_real("eventfd", &real, sizeof real);
    if (fault_at(AT_SYSTEM) == FAULT_NONE)
        return real(count, flags);
    errno = EMFILE;
    return -1;
}

int timerfd_create(clockid_t clock, int flags)
{
    int (*real)(clockid_t, int);

    find_real("timerfd_create", &real, sizeof real);
    if (fault_at(AT_SYSTEM) == FAULT_NONE)
        return real(clock, flags);
    errno = EMFILE;
    return -1;
}

int pthread_create(pthread_t *out, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

    find_real("pthread_create", &real, sizeof real);
    return fault_at(AT_SYSTEM) == FAULT_NONE ? real(out, attr, fn, arg) : EAGAIN;
}
