#include "tests/lib/check.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* cmocka catches these to fail the test; in a child they must end it. */
static const int caught[] = {SIGFPE, SIGILL, SIGSEGV, SIGBUS, SIGSYS};

/* Those that nobody has waited for so far. */
static pid_t children[64];
static size_t n_children;

static void remember(pid_t child)
{
    if (n_children < sizeof children / sizeof *children)
        children[n_children++] = child;
}

static void forget(pid_t child)
{
    for (size_t i = 0; i < n_children; i++)
        if (children[i] == child)
            children[i--] = children[--n_children];
}

/* What cmocka says when it aborts ends without a newline, but then comes a result. */
static void end_line(int signum)
{
    (void)signum;
    if (write(STDERR_FILENO, "\n", 1) < 0)
        return;
}

pid_t child_start(int (*fn)(void *arg), void *arg)
{
    pid_t parent = getpid();
    pid_t child;

    fflush(NULL);
    child = fork();
    if (child < 0)
        fail_msg("fork: %s", strerror(errno));
    if (child > 0) {
        remember(child);
        return child;
    }
    n_children = 0; /* they are the parent's */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(99);
    for (size_t i = 0; i < sizeof caught / sizeof *caught; i++)
        signal(caught[i], SIG_DFL);
    signal(SIGABRT, end_line); /* abort() takes it away when this returns */
    /* Otherwise a failed assertion would jump back into the parent's test, here in the child. */
    setenv("CMOCKA_TEST_ABORT", "1", 1);
    _exit(fn(arg));
}

int child_wait(pid_t child, int limit_ms)
{
    int64_t end_us = now_us() + (int64_t)limit_ms * 1000;
    bool late = false;
    pid_t got = 0;
    int status = 0;

    while ((got = waitpid(child, &status, WNOHANG)) == 0 && !late) {
        late = now_us() > end_us;
        if (late) {
            kill(child, SIGKILL);
            got = waitpid(child, &status, 0);
            break;
        }
        sleep_ms(1);
    }
    forget(child);
    if (got != child)
        fail_msg("waitpid: %s", strerror(errno));
    if (late)
        fail_msg("the child was not done after %d ms", limit_ms);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

bool child_ended(pid_t child)
{
    siginfo_t info = {0};

    if (waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) != 0)
        fail_msg("waitid: %s", strerror(errno));
    return info.si_pid == child;
}

void child_end_all(void)
{
    while (n_children > 0) {
        pid_t child = children[--n_children];

        if (waitpid(child, NULL, WNOHANG) != 0) /* it has ended, or somebody else waited for it */
            continue;
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
}

static pid_t parent_of(const char *pid)
{
    char path[300], line[512] = "";
    const char *end;
    int parent = 0;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%s/stat", pid);
    f = fopen(path, "r");
    if (f && fgets(line, sizeof line, f) && (end = strrchr(line, ')')) != NULL)
        sscanf(end + 1, " %*c %d", &parent);
    if (f)
        fclose(f);
    return (pid_t)parent;
}

void child_signal_all_of(pid_t parent, int signal)
{
    DIR *dir = opendir("/proc");

    for (struct dirent *entry; dir && (entry = readdir(dir)) != NULL;) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

        if (pid > 0 && parent_of(entry->d_name) == parent)
            kill(pid, signal);
    }
    if (dir)
        closedir(dir);
}
