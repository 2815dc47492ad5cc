/* Alarms, made of a timerfd. */
#include <poll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "core/base/alarm.h"
#include "core/base/clock.h"

int alarm_make(void)
{
    int fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);

    return fd < 0 ? SQLOCK_ESYS : fd;
}

void alarm_set(int fd, int64_t at)
{
    struct itimerspec spec = {{0, 0}, {0, 0}};

    if (fd < 0)
        return;
    if (at == 0)
        spec.it_value.tv_nsec = 1; /* a time long past: the alarm fires at once */
    else if (at != TIME_NEVER) {
        spec.it_value.tv_sec = (time_t)(at / 1000000);
        spec.it_value.tv_nsec = (at % 1000000) * 1000 + 1; /* all zero would turn the alarm off */
    }
    timerfd_settime(fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

void alarm_wait(int fd, int wake_fd)
{
    struct pollfd fds[2] = {{fd, POLLIN, 0}, {wake_fd, POLLIN, 0}};

    poll(fds, 2, -1); /* after EINTR the caller looks and calls again */
    sqlock_wake_clear(wake_fd);
}

void alarm_close(int fd)
{
    if (fd >= 0)
        close(fd);
}
