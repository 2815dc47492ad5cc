#include "tests/counted/fault.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct {
    const struct plan *plan; /* NULL: not armed */
    int left;                /* points until it happens */
    bool fired;
    void (*tell)(void *user);
    void *user;
} now;

void fault_arm(const struct plan *plan, int n)
{
    pthread_mutex_lock(&mu);
    now.plan = plan;
    now.left = n;
    now.fired = false;
    pthread_mutex_unlock(&mu);
}

bool fault_disarm(void)
{
    bool fired;

    pthread_mutex_lock(&mu);
    now.plan = NULL;
    now.tell = NULL;
    fired = now.fired;
    pthread_mutex_unlock(&mu);
    return fired;
}

void fault_tell(void (*fn)(void *user), void *user)
{
    pthread_mutex_lock(&mu);
    now.tell = fn;
    now.user = user;
    pthread_mutex_unlock(&mu);
}

void fault_lost(void)
{
    void (*tell)(void *user);
    void *user;

    pthread_mutex_lock(&mu);
    tell = now.tell;
    user = now.user;
    now.tell = NULL;
    pthread_mutex_unlock(&mu);
    if (tell != NULL)
        tell(user);
}

enum fault fault_at(enum level level)
{
    enum fault fault = FAULT_NONE;

    pthread_mutex_lock(&mu);
    if (now.plan != NULL && now.plan->level == level && now.left > 0 && --now.left == 0) {
        fault = now.plan->fault;
        now.left = now.plan->lasts;
        now.fired = true;
    }
    pthread_mutex_unlock(&mu);
    return fault;
}

void fault_die(void)
{
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}
