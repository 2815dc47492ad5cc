/* An event loop for tests' managers without threads: a thread of the test's for each. */
#include "tests/lib/pump.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include <sqlock/async.h>
#include <sqlock/driver.h>

#include "tests/lib/check.h"

struct pump {
    sqlock *m;
    int stop; /* readable: end */
    pid_t process;
    pthread_t thread;
    struct pump *next;
};

static struct pump *pumps;
static pthread_mutex_t pumps_mutex = PTHREAD_MUTEX_INITIALIZER;

/* No pump makes a step while the process forks: the address sanitizer of gcc 12 has a lock for its
 * memory, and a child that was forked while another thread had that waits for it for ever. */
static atomic_int forking, stepping; /* threads that do so */
static _Thread_local bool steps;     /* it may fork itself, by a callback */

static void before_fork(void)
{
    forking++;
    while (stepping > (steps ? 1 : 0))
        sleep_ms(1);
}

static void after_fork(void)
{
    forking--;
}

static void after_fork_in_child(void)
{
    forking = stepping = 0;
    steps = false;
}

static void pump_step(sqlock *m)
{
    for (stepping++; forking > 0; stepping++) {
        stepping--;
        sleep_ms(1);
    }
    steps = true;
    sqlock_loop_step(m);
    steps = false;
    stepping--;
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

static void *pump_main(void *arg)
{
    struct pump *p = arg;
    struct pollfd fds[2] = {{sqlock_loop_fd(p->m), POLLIN, 0}, {p->stop, POLLIN, 0}};

    while (poll(fds, 2, -1) < 0 || fds[1].revents == 0)
        pump_step(p->m);
    return NULL;
}

void pump_start(sqlock *m)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct pump *p = calloc(1, sizeof *p);

    pthread_once(&once, watch_forks);
    *p = (struct pump){.m = m, .stop = sqlock_wake_make(), .process = getpid()};
    pthread_mutex_lock(&pumps_mutex);
    p->next = pumps;
    pumps = p;
    pthread_mutex_unlock(&pumps_mutex);
    assert_int_equal(pthread_create(&p->thread, NULL, pump_main, p), 0);
}

int pump_open(const sqlock_driver *driver, const char *url, const sqlock_open_opts *opts,
              sqlock **out_m, sqlock_error *err)
{
    sqlock_op *op = NULL;
    int rc = sqlock_open_start(driver, url, opts, out_m, &op, err);

    if (rc != 0)
        return rc;
    if ((rc = sqlock_op_finish(op, NULL, err)) == 0) {
        pump_start(*out_m);
        return 0;
    }
    sqlock_close(*out_m);
    *out_m = NULL;
    return rc;
}

static struct pump *pump_take(const sqlock *m)
{
    struct pump **at = &pumps, *p;

    pthread_mutex_lock(&pumps_mutex);
    while (*at != NULL && (*at)->m != m)
        at = &(*at)->next;
    if ((p = *at) != NULL)
        *at = p->next;
    pthread_mutex_unlock(&pumps_mutex);
    return p;
}

/* A parent's pump does not run in a child. */
void pump_stop(const sqlock *m)
{
    struct pump *p = pump_take(m);

    if (p == NULL)
        return;
    if (p->process == getpid()) {
        sqlock_wake_set(p->stop);
        pthread_join(p->thread, NULL);
    }
    sqlock_wake_close(p->stop);
    free(p);
}
