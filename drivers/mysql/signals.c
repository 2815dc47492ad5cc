/* SIGPIPE is the application's. Both client libraries set it to be ignored when they are first
 * used, in the whole process and for good, and every program that it starts would inherit that. So
 * it is put back; and since OpenSSL's write() to a server that is gone raises it, it is blocked
 * while they work, in the thread that calls them alone. */
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "mysql.h"

static pthread_once_t library_once = PTHREAD_ONCE_INIT;
static void library_init(void)
{
    mysql_library_init(0, NULL, NULL);
}

/* Not only the first time: who ends the library has it begin anew. What another thread sets within
 * the first instants of that the library overwrites; nobody can help it. */
MYSQL *my_init(void)
{
    struct sigaction before, now;
    MYSQL *my;

    sigaction(SIGPIPE, NULL, &before);
    pthread_once(&library_once, library_init);
    my = mysql_init(NULL);
    sigaction(SIGPIPE, NULL, &now);
    if (now.sa_handler == SIG_IGN && before.sa_handler != SIG_IGN)
        sigaction(SIGPIPE, &before, NULL);
    return my;
}

static void sigset_only_sigpipe(sigset_t *out)
{
    sigemptyset(out);
    sigaddset(out, SIGPIPE);
}

void my_quiet_begin(struct my_quiet *q)
{
    sigset_t pipe;

    sigset_only_sigpipe(&pipe);
    pthread_sigmask(SIG_BLOCK, &pipe, &q->before);
    sigemptyset(&q->pending);
    if (sigismember(&q->before, SIGPIPE))
        sigpending(&q->pending);
}

/* The kernel names a write's own process as the sender. */
static int signal_is_foreign(const siginfo_t *info)
{
    return info->si_code == SI_QUEUE ||
           (info->si_code == SI_USER && info->si_pid != 0 && info->si_pid != getpid());
}

/* A SIGPIPE that has come meanwhile is our write's, but if somebody sent it to the process, which
 * gets it back. One that was pending before stays: the application blocks it, and waits for it. */
void my_quiet_end(const struct my_quiet *q)
{
    const struct timespec now = {0, 0};
    siginfo_t info;
    sigset_t pipe;

    sigset_only_sigpipe(&pipe);
    if (!sigismember(&q->pending, SIGPIPE) && sigtimedwait(&pipe, &info, &now) == SIGPIPE &&
        signal_is_foreign(&info))
        syscall(SYS_rt_sigqueueinfo, getpid(), SIGPIPE, &info);
    if (!sigismember(&q->before, SIGPIPE))
        pthread_sigmask(SIG_UNBLOCK, &pipe, NULL);
}
