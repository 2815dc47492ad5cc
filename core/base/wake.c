/* Descriptors that wake a thread from poll(). */
#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/coroutine.h"

int sqlock_wake_make(void)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    return fd < 0 ? SQLOCK_ESYS : fd;
}

void sqlock_wake_set(int fd)
{
    uint64_t one = 1;

    while (write(fd, &one, sizeof one) < 0 && errno == EINTR)
        continue;
}

void sqlock_wake_clear(int fd)
{
    uint64_t count;

    while (read(fd, &count, sizeof count) < 0 && errno == EINTR)
        continue;
}

void sqlock_wake_close(int fd)
{
    if (fd >= 0)
        close(fd);
}

/* Milliseconds for poll(). They are rounded up, so that poll() does not return early. They are ten
 * seconds at most, because poll's clock stands still while the machine sleeps and ours does not. */
static int wake_poll_ms(int64_t deadline)
{
    int64_t left = deadline - sqlock_now_us();

    if (left <= 0)
        return 0;
    return left > 10 * INT64_C(1000000) ? 10 * 1000 : (int)((left + 999) / 1000);
}

int sqlock_wait_fd(int fd, int events, int wake_fd, int64_t deadline)
{
    struct pollfd fds[2] = {{fd, (short)events, 0}, {wake_fd, POLLIN, 0}};
    struct coroutine *me = coroutine_running();

    for (;;) {
        /* poll ignores negative descriptors */
        int n = poll(fds, 2, me != NULL ? 0 : wake_poll_ms(deadline));

        if (n < 0 && errno != EINTR)
            return SQLOCK_ESYS;
        if (n > 0 && fds[1].revents != 0)
            return 2;
        if (n > 0)
            return 1;
        if (sqlock_now_us() >= deadline)
            return 0;
        if (me != NULL)
            coroutine_wait(me, fd, events, wake_fd, deadline);
    }
}
