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
