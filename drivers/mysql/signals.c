/* SIGPIPE belongs to the application. When they are first used, both client libraries make the
 * whole process ignore it for good, and every program that it starts would inherit that. So the
 * driver restores the signal's action. OpenSSL's write() to a server that is gone raises the
 * signal. So it is blocked while the libraries work, only in the calling thread. */
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

/* Not only the first time: if a program ends the library, the next use starts it anew. If another
 * thread sets the action just at that moment, the library overwrites it. Nothing can prevent
 * that. */
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

/* For a write, the kernel names the process itself as the sender. */
static int signal_is_foreign(const siginfo_t *info)
{
    return info->si_code == SI_QUEUE ||
           (info->si_code == SI_USER && info->si_pid != 0 && info->si_pid != getpid());
}

/* A SIGPIPE that has come meanwhile is from our write, unless another process has sent it: then it
 * is sent again to this process. One that was pending before stays: the application blocks it, and
 * waits for it. */
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
