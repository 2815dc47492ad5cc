/* The three processes of one grant: the locker, which is this one, and its helpers. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/base/say.h"
#include "cli/base/url.h"
#include "cli/cli.h"
#include "cli/run/plan.h"
#include "cli/run/status.h"
#include "cli/run/waker.h"

void plan_show_as(const struct plan *plan, const char *what)
{
    char *begin = plan->cli->argv[0], *end = plan->cli->argv[plan->cli->argc - 1];

    end += strlen(end);
    memset(begin, 0, (size_t)(end - begin));
    snprintf(begin, (size_t)(end - begin), "%s %s", what, plan->name);
    prctl(PR_SET_NAME, what, 0, 0, 0);
}

static int start_helpers(struct plan *plan, int *out_fd, pid_t *out_pid)
{
    sigset_t all, ours;
    int ends[2];
    void *page =
        mmap(NULL, sizeof *plan->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    sigfillset(&all);
    if (page == MAP_FAILED || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return EXIT_INTERNAL;
    plan->shared = page;
    atomic_init(&plan->shared->last_us, INT64_MAX);
    sigprocmask(SIG_SETMASK, &all, &ours);
    *out_pid = fork();
    if (*out_pid == 0) {
        close(ends[0]);
        waker_run(plan, ends[1]);
    }
    sigprocmask(SIG_SETMASK, &ours, NULL);
    close(ends[1]);
    *out_fd = ends[0];
    return *out_pid > 0 ? 0 : EXIT_INTERNAL;
}

int plan_run(struct plan *plan, struct outcome *outcome)
{
    pid_t waker;
    int fd, code;

    *outcome = (struct outcome){.word = "error"};
    if ((code = url_find(plan->cli)) != 0) { /* the guardian passes it on to the command */
        outcome->exit = code;
        status_write(plan, outcome);
        return code;
    }
    if (start_helpers(plan, &fd, &waker) != 0) {
        say(SAY_ERROR, "no file descriptor or process available");
        return EXIT_INTERNAL;
    }
    code = locker_run(plan, fd, waker, outcome);
    munmap(plan->shared, sizeof *plan->shared);
    return code;
}
