#include "cli/base/signals.h"

#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

static const int handed_on[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

bool signals_take(struct signals *s)
{
    sigset_t set, blocked;
    struct sigaction action;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof handed_on / sizeof *handed_on; i++)
        if (sigaction(handed_on[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            sigaddset(&set, handed_on[i]);
    blocked = set;
    sigaddset(&blocked, SIGPIPE);
    sigprocmask(SIG_BLOCK, &blocked, &s->before);
    s->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return s->fd >= 0;
}

void signals_hear_children(struct signals *s)
{
    const struct sigaction action = {.sa_handler = SIG_DFL};

    sigaction(SIGCHLD, &action, &s->child_before);
}

void signals_restore(const struct signals *s)
{
    sigaction(SIGCHLD, &s->child_before, NULL);
    sigprocmask(SIG_SETMASK, &s->before, NULL);
}

int signals_next(struct signals *s, bool *out_by_terminal)
{
    struct signalfd_siginfo info;

    if (read(s->fd, &info, sizeof info) != (ssize_t)sizeof info)
        return 0;
    if (out_by_terminal != NULL)
        *out_by_terminal = info.ssi_code == SI_KERNEL;
    return (int)info.ssi_signo;
}
