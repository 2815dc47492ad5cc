#include "cli/run/waker.h"

#include <signal.h>
#include <sqlock/sqlock.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/base/fds.h"
#include "cli/base/say.h"
#include "cli/cli.h"
#include "cli/run/plan.h"
#include "cli/run/tree.h"

#define LATE_US INT64_C(10000) /* a guardian that is as late as that is not merely slow */
#define LOOK_US INT64_C(200000)

struct waker {
    const struct plan *plan;
    pid_t guardian;  /* 0: it is dead */
    int64_t stop_us; /* when the command was told to end; 0: not yet */
};

/* Returns whether there is anybody left: the guardian, or orphans of it. */
static bool wait_all(struct waker *w)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0)
        if (pid == w->guardian && WIFSTOPPED(status))
            kill(pid, SIGCONT);
        else if (pid == w->guardian)
            w->guardian = 0;
    return pid == 0;
}

static void stop(struct waker *w, int64_t now)
{
    w->stop_us = now;
    if (getppid() != w->plan->locker)
        say(SAY_ERROR,
            "%s: the processes that held and guarded the lock died; the command is being stopped",
            w->plan->name);
    tree_signal(getpid(), SIGTERM);
    tree_signal(getpid(), SIGCONT);
}

/* When everything must be dead: by the guardian, but for a guardian that does nothing. */
static int64_t kill_us(const struct waker *w)
{
    int64_t last = atomic_load(&w->plan->shared->last_us), polite;

    if (w->guardian > 0)
        return last < INT64_MAX - LATE_US ? last + LATE_US : last;
    polite =
        w->stop_us + (w->plan->on_lost == ON_LOST_KILL ? 0 : (int64_t)w->plan->grace_ms * 1000);
    return polite < last ? polite : last;
}

/* Until then, until a child has ended or was stopped, or until the locker has died. */
static void sleep_until(int64_t at_us)
{
    int64_t us = at_us - sqlock_now_us();
    struct timespec time = {0};
    sigset_t set;

    us = us < LOOK_US ? us : LOOK_US;
    time.tv_nsec = us > 0 ? us * 1000 : 0;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGCONT);
    sigtimedwait(&set, NULL, &time);
}

static void watch(struct waker *w)
{
    while (wait_all(w)) {
        int64_t now = sqlock_now_us(), at;

        if (w->guardian == 0 && w->stop_us == 0)
            stop(w, now);
        if (now >= (at = kill_us(w))) {
            if (w->guardian > 0)
                kill(w->guardian, SIGCONT);
            tree_kill(w->guardian > 0 ? w->guardian : getpid());
            at = now + plan_again_us(now - at);
        }
        sleep_until(at);
    }
}

/* A session of its own: what is done to the guardian's group or to the whole session leaves it
 * alone. But not before the guardian has begun, which stays in that of the terminal. `pkill` and
 * `ps` know it by another name than the two others. When the locker dies the kernel sends SIGCONT,
 * which wakes it, if it was stopped. */
void waker_run(const struct plan *plan, int locker_fd)
{
    struct waker w = {.plan = plan};
    int keep[] = {say_fd()};

    plan_show_as(plan, "lock-waker");
    if (!tree_adopt() || (w.guardian = fork()) < 0)
        _exit(EXIT_INTERNAL);
    if (w.guardian == 0)
        guardian_run(plan, locker_fd);
    atomic_store(&plan->shared->guardian, w.guardian);
    prctl(PR_SET_PDEATHSIG, SIGCONT, 0, 0, 0);
    setsid();
    fds_silence();
    fds_close_others(keep, 1);
    watch(&w);
    say_end();
    _exit(EXIT_DONE);
}
