#include "tests/lib/check.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
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

#ifdef __SANITIZE_ADDRESS__
/* At a fork another thread may be within the sanitizer's allocator, and that of GCC 12 does not
 * know forks: such a child waits for ever at its first allocation there. The allocator has a lock
 * for each class of sizes, and blocks in store that need no lock, at most 64 KiB or 512 of a class.
 * So the child takes more than those of each class before it does anything else. One that does not
 * get through is ended and forked again. */
enum {
    ALLOCATOR_LIMIT_MS = 2000,
    LARGEST_CLASS = 1 << 17,
    IN_STORE = 1 << 16,
    MOST_IN_STORE = 512,
    QUARANTINE = 1 << 21
};

static void allocator_try_class(size_t size)
{
    static void *blocks[MOST_IN_STORE + 1];
    size_t n = IN_STORE / size < MOST_IN_STORE ? IN_STORE / size : MOST_IN_STORE;

    for (size_t i = 0; i <= n; i++)
        blocks[i] = malloc(size);
    for (size_t i = 0; i <= n; i++)
        free(blocks[i]);
}

static void allocator_try(int done)
{
    for (size_t size = 16; size <= LARGEST_CLASS; size += size < 256 ? 16 : size / 8 / 16 * 16)
        allocator_try_class(size);
    for (size_t freed = 0; freed < QUARANTINE; freed += LARGEST_CLASS)
        free(malloc(LARGEST_CLASS));
    if (write(done, "", 1) != 1)
        _exit(98);
    close(done);
}

static pid_t fork_and_allocate(void)
{
    for (;;) {
        struct pollfd allocated = {.events = POLLIN};
        int done[2], got;
        pid_t child;

        if (pipe(done) != 0)
            return -1;
        child = fork();
        if (child == 0) {
            close(done[0]);
            allocator_try(done[1]);
            return 0;
        }
        close(done[1]);
        allocated.fd = done[0];
        got = child < 0 ? 1 : poll(&allocated, 1, ALLOCATOR_LIMIT_MS);
        close(done[0]);
        if (got != 0)
            return child;
        print_error("the child was forked within an allocation: another is forked\n");
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
}
#else
static pid_t fork_and_allocate(void)
{
    return fork();
}
#endif

pid_t child_start(int (*fn)(void *arg), void *arg)
{
    pid_t parent = getpid();
    pid_t child;

    fflush(NULL);
    child = fork_and_allocate();
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

/* Of /proc/PID/stat, what follows the program's name; "" if there is no such process. */
static const char *read_state(const char *pid, char *line, int size)
{
    const char *end = NULL;
    char path[300];
    FILE *f;

    snprintf(path, sizeof path, "/proc/%s/stat", pid);
    f = fopen(path, "re");
    if (f && fgets(line, size, f))
        end = strrchr(line, ')');
    if (f)
        fclose(f);
    return end ? end + 1 : "";
}

/* Does it hang, turn in a circle, or has it had no processor? What does it wait in? */
static void show_state(pid_t child)
{
    char pid[20], line[512], in[512] = "", path[40], state = '?';
    unsigned long user = 0, kernel = 0;
    FILE *f;

    snprintf(pid, sizeof pid, "%d", (int)child);
    sscanf(read_state(pid, line, sizeof line),
           " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &state, &user, &kernel);
    snprintf(path, sizeof path, "/proc/%s/syscall", pid);
    if ((f = fopen(path, "re")) != NULL) {
        if (fgets(in, sizeof in, f) == NULL)
            in[0] = '\0';
        fclose(f);
    }
    print_error("the child is in state %c after %lu ticks of a processor, %lu in the kernel; "
                "system call and stack: %s\n",
                state, user + kernel, kernel, in);
}

/* A machine that stands still for a while, as a virtual one may, lets the child stand still too. So
 * what counts is the time in which this process could look, not the time that went by. */
int child_wait(pid_t child, int limit_ms)
{
    int64_t left_us = (int64_t)limit_ms * 1000, before_us = now_us();
    bool late;
    pid_t got;
    int status = 0;

    while ((got = waitpid(child, &status, WNOHANG)) == 0 && left_us > 0) {
        int64_t turn_us;

        sleep_ms(1);
        turn_us = now_us() - before_us;
        before_us += turn_us;
        left_us -= turn_us < 20000 ? turn_us : 20000;
    }
    late = got == 0;
    if (late) {
        show_state(child);
        kill(child, SIGKILL);
        got = waitpid(child, &status, 0);
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
    char line[512];
    int parent = 0;

    sscanf(read_state(pid, line, sizeof line), " %*c %d", &parent);
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
