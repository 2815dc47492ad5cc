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

#define LATE_US INT64_C(10000) /* a guardian that is this late is not merely slow */
#define LOOK_US INT64_C(200000)

struct waker {
    const struct plan *plan;
    pid_t guardian;  /* 0: it is dead */
    int64_t stop_us; /* when the command got TERM; 0: not yet */
};

/* Returns whether any process is left: the guardian, or its orphans. */
static bool waker_wait_all(struct waker *w)
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

static void waker_stop(struct waker *w, int64_t now)
{
    w->stop_us = now;
    if (getppid() != w->plan->locker)
        say(SAY_ERROR,
            "%s: the processes that held and guarded the lock died; the command is being stopped",
            w->plan->name);
    tree_signal(getpid(), SIGTERM);
    tree_signal(getpid(), SIGCONT);
}

/* When everything must be dead. The guardian does that; a little later, or without it, we do. */
static int64_t waker_kill_us(const struct waker *w)
{
    int64_t last = atomic_load(&w->plan->shared->last_us), polite;

    if (w->guardian > 0)
        return last < INT64_MAX - LATE_US ? last + LATE_US : last;
    polite = w->stop_us +
             (w->plan->on_lost == ON_LOST_KILL ? 0 : (int64_t)w->plan->kill_after_ms * 1000);
    return polite < last ? polite : last;
}

/* Sleep until then, or until a child ended or was stopped, or the locker died. */
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

static void waker_watch(struct waker *w)
{
    while (waker_wait_all(w)) {
        int64_t now = sqlock_now_us(), at;

        if (w->guardian == 0 && w->stop_us == 0)
            waker_stop(w, now);
        if (now >= (at = waker_kill_us(w))) {
            atomic_store(&w->plan->shared->killed, true);
            if (w->guardian > 0)
                kill(w->guardian, SIGCONT);
            tree_kill(w->guardian > 0 ? w->guardian : getpid());
            at = now + plan_again_us(now - at);
        }
        sleep_until(at);
    }
}

/* It has a session of its own, so that signals to the guardian's group or to the whole session do
 * not reach it. It leaves the old one after the guardian was forked, which stays in the terminal's
 * session. `pkill` and `ps` show it by another name. When the locker dies the kernel sends SIGCONT,
 * which wakes it if it was stopped. */
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
    waker_watch(&w);
    say_end();
    _exit(EXIT_DONE);
}
