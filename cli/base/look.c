#include <sqlock/admin.h>

#include "cli/base/look.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cli/base/info.h"
#include "cli/base/text.h"

enum { CLOSE_MS = 250 };

/* It outlives main(): a thread that hangs may go on with it. */
static struct {
    bool runs;
    pthread_t thread;
    int fd;
    sqlock *m;
    char name[SQLOCK_NAME_MAX + 1];
    char found[4 * SQLOCK_LABEL_MAX + 64];
} look;

static void *look_main(void *unused)
{
    sqlock_info info = {.size = sizeof info};
    char held[TEXT_DURATION], *holder;

    if (sqlock_find(look.m, look.name, &info, NULL) == 0 && info.held &&
        (holder = info_holder(&info)) != NULL) {
        snprintf(look.found, sizeof look.found, ", held by %s for %s",
                 *holder != '\0' ? holder : "someone", text_span(held, info.holder.held_ms));
        free(holder);
    }
    eventfd_write(look.fd, 1);
    return unused;
}

/* Signals are for the thread that waits. */
bool look_start(sqlock *m, const char *name)
{
    sigset_t all, ours;

    if (look.runs || (look.fd = eventfd(0, EFD_CLOEXEC)) < 0)
        return false;
    look.m = m;
    snprintf(look.name, sizeof look.name, "%s", name);
    look.found[0] = '\0';
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &ours);
    look.runs = pthread_create(&look.thread, NULL, look_main, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &ours, NULL);
    if (!look.runs)
        close(look.fd);
    return look.runs;
}

int look_fd(void)
{
    return look.fd;
}

const char *look_take(void)
{
    pthread_join(look.thread, NULL);
    close(look.fd);
    look.runs = false;
    return look.found;
}

void look_close(sqlock *m, bool goes_on)
{
    struct pollfd done = {.fd = look.fd, .events = POLLIN};

    if (look.runs && !goes_on && poll(&done, 1, CLOSE_MS) <= 0)
        return;
    if (look.runs)
        look_take();
    sqlock_close(m);
}
