#include "cli/run/waker.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlock/sqlock.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/base/fds.h"
#include "cli/run/plan.h"

#define LOOK_MS     200            /* due_us may become an earlier one */
#define LATE_US     INT64_C(10000) /* who is as late as that is not merely slow */
#define SEEK_MS     50
#define SEEN_NOBODY 5 /* looks in a row: one that just calls exec has no environment */
#define QUICK_LOOKS 200
#define NEWEST      64

/* Until then, or until a parent has died: the kernel tells that by SIGUSR1. */
static void wait_ms(int64_t ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigtimedwait(&set, NULL, &time);
}

/* ---- a guardian that is stopped ----------------------------------------------------------------
 */

/* SIGCONT does nothing to a process that runs: so it needs no look whether it is stopped, and is
 * sent again and again as long as nothing happens. Returns when the guardian is dead. */
static void wake(pid_t guardian, const _Atomic int64_t *due_us)
{
    while (getppid() == guardian) {
        int64_t due = atomic_load(due_us), left;

        left = due == INT64_MAX ? LOOK_MS : (due + LATE_US - sqlock_now_us()) / 1000 + 1;
        if (left > 0) {
            wait_ms(left < LOOK_MS ? left : LOOK_MS);
        } else {
            kill(guardian, SIGCONT);
            wait_ms(1);
        }
    }
}

/* ---- nobody else is left -----------------------------------------------------------------------
 */

/* In what a process was started with: at its end, where run has put it. */
static bool has_owner(int pid, const char *owner)
{
    static char text[2 << 20]; /* more is not given to a process */
    char path[64], word[64];
    size_t used = 0;
    ssize_t n;
    int fd;

    snprintf(path, sizeof path, "/proc/%d/environ", pid);
    snprintf(word, sizeof word, "SQLOCK_OWNER=%s", owner);
    if ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
        return false;
    while (used < sizeof text && (n = read(fd, text + used, sizeof text - used)) > 0)
        used += (size_t)n;
    close(fd);
    return memmem(text, used, word, strlen(word) + 1) != NULL;
}

/* Its number may be a stranger's by now: so first a descriptor, which means one process for good,
 * and then the look. */
static bool end_if_owned(int pid, const char *owner, int signal)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    bool owned = fd >= 0 && has_owner(pid, owner);

    if (owned && signal != 0)
        syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0);
    if (fd >= 0)
        close(fd);
    return owned;
}

/* Send it to all of the command's; 0: only count them. */
static int for_all(const char *owner, int signal)
{
    DIR *dir = opendir("/proc");
    const struct dirent *entry;
    int n = 0;

    while (dir != NULL && (entry = readdir(dir)) != NULL)
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
            n += end_if_owned(atoi(entry->d_name), owner, signal);
    if (dir != NULL)
        closedir(dir);
    return n;
}

/* The same for the newest processes of this machine only, many times a millisecond: one that forks
 * and ends, and whose child does the same, is gone before a look at all of them comes to it. */
static int for_newest(const char *owner)
{
    FILE *file = fopen("/proc/loadavg", "re");
    int last = 0, n = 0;

    if (file == NULL)
        return 0;
    if (fscanf(file, "%*s %*s %*s %*s %d", &last) != 1)
        last = 0;
    fclose(file);
    for (int pid = last; pid > 1 && pid > last - NEWEST; pid--)
        n += end_if_owned(pid, owner, SIGKILL);
    return n;
}

/* The locker, if it lives, guards now: orphans of the guardian are its children, and so are we.
 * Without it they are anybody's, and only what they were given tells them. Stopped first, or who is
 * killed late could start others meanwhile. */
static void avenge(pid_t locker, const char *owner)
{
    for (int nobody = 0; nobody < SEEN_NOBODY;) {
        bool alone = getppid() != locker;
        int n = for_all(owner, alone ? SIGSTOP : 0);

        for (int i = 0; alone && i < QUICK_LOOKS; i++)
            n += for_newest(owner);
        if (alone)
            for_all(owner, SIGKILL);
        nobody = n == 0 ? nobody + 1 : 0;
        wait_ms(alone ? 1 : SEEK_MS);
    }
}

/* ---- its life ----------------------------------------------------------------------------------
 */

/* A session of its own: what stops the guardian's whole group does not stop it. `pkill` and `ps`
 * know it by another name than the two others. It inherits that every signal is blocked, and keeps
 * nothing open. */
static void live(pid_t guardian, const struct plan *plan, const char *owner,
                 const _Atomic int64_t *due_us)
{
    char keep[40] = "";

    if (owner != NULL)
        snprintf(keep, sizeof keep, "%s", owner);
    prctl(PR_SET_PDEATHSIG, SIGUSR1, 0, 0, 0);
    setsid();
    plan_show_as(plan, "lock-waker");
    fds_silence();
    fds_close_others(NULL, 0);
    close(STDERR_FILENO);
    wake(guardian, due_us);
    if (keep[0] != '\0')
        avenge(plan->locker, keep);
    _exit(0);
}

void waker_start(struct waker *w, const struct plan *plan, const char *owner)
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
        live(guardian, plan, owner, w->due_us);
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
