#include "cli/run/waker.h"

#include <poll.h>
#include <signal.h>
#include <sqlock/sqlock.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/base/fds.h"

#define LOOK_MS 200            /* due_us may become an earlier one */
#define LATE_US INT64_C(10000) /* who is as late as that is not merely slow */

static int wait_ms(int64_t left_us)
{
    int64_t ms = left_us / 1000 + 1;

    return ms < 1 ? 1 : ms < LOOK_MS ? (int)ms : LOOK_MS;
}

/* SIGCONT does nothing to a process that runs: so it needs no look whether it is stopped, and is
 * sent again and again as long as nothing happens. */
static void wake(pid_t guardian, const _Atomic int64_t *due_us) __attribute__((noreturn));
static void wake(pid_t guardian, const _Atomic int64_t *due_us)
{
    for (;;) {
        int64_t due = atomic_load(due_us), now = sqlock_now_us();

        if (due == INT64_MAX)
            poll(NULL, 0, LOOK_MS);
        else if (now < due + LATE_US)
            poll(NULL, 0, wait_ms(due + LATE_US - now));
        else if (kill(guardian, SIGCONT) != 0)
            _exit(0);
        else
            poll(NULL, 0, 1);
    }
}

/* A session of its own: what stops the guardian's whole group does not stop it. It inherits that
 * every signal is blocked, and keeps nothing open. */
static void live(pid_t guardian, const _Atomic int64_t *due_us)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != guardian)
        _exit(0);
    setsid();
    prctl(PR_SET_NAME, "lock-waker", 0, 0, 0);
    fds_silence();
    fds_close_others(NULL, 0);
    close(STDERR_FILENO);
    wake(guardian, due_us);
}

void waker_start(struct waker *w)
{
    pid_t guardian = getpid();
    void *page =
        mmap(NULL, sizeof *w->due_us, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    w->pid = 0;
    w->due_us = NULL;
    if (page == MAP_FAILED)
        return;
    w->due_us = page;
    atomic_init(w->due_us, INT64_MAX);
    w->pid = fork();
    if (w->pid == 0)
        live(guardian, w->due_us);
    if (w->pid < 0)
        w->pid = 0;
}

void waker_tell(const struct waker *w, int64_t due_us)
{
    if (w->due_us != NULL)
        atomic_store(w->due_us, due_us);
}

void waker_end(struct waker *w)
{
    if (w->pid == 0)
        return;
    kill(w->pid, SIGKILL);
    waitpid(w->pid, NULL, 0);
    w->pid = 0;
}
