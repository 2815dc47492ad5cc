#include "crew.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct {
    pid_t owner;       /* the parent: workers leave folder and processes alone */
    char folder[200];  /* "" when there is none */
    char path[256];    /* of the database in it */
    struct crew *crew; /* that is at work */
} mine;

static volatile sig_atomic_t interrupted;

/* ---- the end --------------------------------------------------------------------------------- */

static void remove_folder(void)
{
    DIR *dir = mine.folder[0] != '\0' ? opendir(mine.folder) : NULL;
    char path[512];

    if (dir == NULL)
        return;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", mine.folder, e->d_name);
        if (e->d_name[0] != '.')
            unlink(path);
    }
    closedir(dir);
    rmdir(mine.folder);
}

/* Workers first: one that still runs could make a file again. */
static void clean_up(void)
{
    if (getpid() != mine.owner)
        return;
    for (int i = 0; mine.crew != NULL && i < mine.crew->size; i++)
        if (mine.crew->pid[i] > 0) {
            kill(mine.crew->pid[i], SIGKILL);
            waitpid(mine.crew->pid[i], NULL, 0);
        }
    remove_folder();
}

void die(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    fputs("demo: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    if (mine.owner != getpid())
        _exit(3);
    exit(1);
}

static void on_signal(int sig)
{
    interrupted = sig;
}

static void catch_signals(void (*handler)(int))
{
    const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], &action, NULL);
}

/* ---- time ------------------------------------------------------------------------------------ */

int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

void pause_ms(int ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};

    while (!interrupted && nanosleep(&t, &t) != 0 && errno == EINTR)
        ;
    if (interrupted)
        die("interrupted");
}

/* ---- folder and processes -------------------------------------------------------------------- */

const char *crew_folder(void)
{
    const char *tmp = getenv("TMPDIR");

    mine.owner = getpid();
    snprintf(mine.folder, sizeof mine.folder, "%s/sqlock-demo-XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(mine.folder) == NULL) {
        mine.folder[0] = '\0';
        die("no temporary folder: %s", strerror(errno));
    }
    snprintf(mine.path, sizeof mine.path, "%s/shop.db", mine.folder);
    atexit(clean_up);
    catch_signals(on_signal);
    return mine.path;
}

static void *share(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        die("no shared memory: %s", strerror(errno));
    return p;
}

/* However the parent ends, the kernel ends the worker too. A parent that ended before prctl() was
 * called is noticed by asking who the parent is. */
static void run_worker(struct crew *c, int me, crew_work_fn work, const char *path)
{
    catch_signals(SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != mine.owner)
        _exit(3);
    work(c, me, path);
    _exit(0);
}

static void end_worker(struct crew *c, int worker, int status)
{
    c->pid[worker] = 0;
    c->status[worker] = status;
}

/* Take notice of workers that have ended. Returns how many are left. */
static int look(struct crew *c)
{
    int left = 0;
    int status;

    for (int i = 0; i < c->size; i++)
        if (c->pid[i] > 0 && waitpid(c->pid[i], &status, WNOHANG) == c->pid[i])
            end_worker(c, i, status);
        else
            left += c->pid[i] > 0;
    return left;
}

void crew_start(struct crew *c, int size, crew_work_fn work, const char *path)
{
    const int64_t patience = now_ms() + CREW_PATIENCE_MS;
    int ready;

    memset(c, 0, sizeof *c);
    c->note = share(CREW_MAX * sizeof *c->note);
    c->go = share(2 * sizeof *c->go);
    c->stuck = c->go + 1;
    fflush(NULL); /* or each worker would have a copy of what is not printed yet */
    mine.crew = c;
    for (; c->size < size; c->size++) {
        c->pid[c->size] = fork();
        if (c->pid[c->size] == 0)
            run_worker(c, c->size, work, path);
        if (c->pid[c->size] < 0)
            die("fork: %s", strerror(errno));
    }
    do {
        pause_ms(1);
        if (look(c) < size || now_ms() > patience)
            die("a worker did not get ready");
        ready = 0;
        for (int i = 0; i < size; i++)
            ready += atomic_load(&c->note[i].ready);
    } while (ready < size);
    atomic_store(c->go, 1);
}

void crew_wait_go(struct crew *c, int me)
{
    atomic_store(&c->note[me].ready, 1);
    while (!atomic_load(c->go))
        pause_ms(1);
}

void crew_kill(struct crew *c, int worker)
{
    int status = 0;

    kill(c->pid[worker], SIGKILL);
    if (waitpid(c->pid[worker], &status, 0) != c->pid[worker])
        die("waitpid: %s", strerror(errno));
    end_worker(c, worker, status);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        c->status[worker] = 0; /* as it should be */
}

int crew_wait_end(struct crew *c)
{
    const int64_t patience = now_ms() + CREW_PATIENCE_MS;
    int failed = 0;

    while (look(c) > 0) {
        pause_ms(2);
        if (now_ms() > patience)
            die("the sale does not come to an end");
    }
    for (int i = 0; i < c->size; i++)
        failed += c->status[i] != 0;
    munmap(c->go, 2 * sizeof *c->go);
    mine.crew = NULL;
    return failed;
}
