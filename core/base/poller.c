/* Pollers, made of epoll. */
#include <assert.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/poller.h"

#define LOOK_MOST 64

int poller_make(void)
{
    int fd = epoll_create1(EPOLL_CLOEXEC);

    return fd < 0 ? SQLOCK_ESYS : fd;
}

int poller_add(int poller, int fd, int events, void *who)
{
    struct epoll_event e = {.data = {.ptr = who}};

    e.events = (events & POLLIN ? EPOLLIN : 0u) | (events & POLLOUT ? EPOLLOUT : 0u) |
               (events & POLLPRI ? EPOLLPRI : 0u);
    return epoll_ctl(poller, EPOLL_CTL_ADD, fd, &e) == 0 ? 0 : SQLOCK_ESYS;
}

void poller_remove(int poller, int fd)
{
    struct epoll_event ignored = {0};

    epoll_ctl(poller, EPOLL_CTL_DEL, fd, &ignored);
}

int poller_look(int poller, void **out_who, int most)
{
    struct epoll_event found[LOOK_MOST];
    int n = epoll_wait(poller, found, most < LOOK_MOST ? most : LOOK_MOST, 0);

    assert(most > 0);
    for (int i = 0; i < n; i++)
        out_who[i] = found[i].data.ptr;
    return n < 0 ? 0 : n;
}

void poller_close(int poller)
{
    if (poller >= 0)
        close(poller);
}
