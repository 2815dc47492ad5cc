/* The guardian. It learns each new deadline, and acts by itself when no new one comes. So nothing
 * of the command is alive when the lease ends, even if the locker was killed, stopped or cut off.
 * It has one thread, and no descriptor of a database. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sqlock/sqlock.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/base/fds.h"
#include "cli/base/say.h"
#include "cli/cli.h"
#include "cli/run/plan.h"
#include "cli/run/tree.h"
#include "cli/run/wire.h"

#define CONT_US 100000
#define CONTS   100 /* a renewal that delays the locker's stop takes less than 10 s */

enum phase { IDLE, RUNNING, TERM, KILL, GONE };

struct guardian {
    const struct plan *plan;
    int locker_fd, signals_fd, timer_fd;
    int error_fd; /* until exec has worked or failed, else -1 */
    enum phase phase;
    enum cause cause;
    pid_t command;
    int status; /* of waitpid(); -1: it runs */
    bool alone; /* the locker is dead */
    bool stopped_it, complained;
    int left_behind;
    int64_t deadline_us; /* of the lease */
    int64_t max_end_us;  /* of --max-time */
    int64_t stop_us;     /* when TERM was sent */
    bool start_due;
    struct order start;  /* if it is due */
    enum cause stop_due; /* the locker said so, maybe before the start */
    bool lost;     /* and that the lock is lost: maybe while it is stopped for another cause */
    sigset_t kept; /* signals for the command, which came before its start */
    int conts;     /* so many times SIGCONT is sent to the locker, at that time the next one */
    int64_t cont_us;
};

/* ---- times ----------------------------------------------------------------------------------- */

/* When KILL must come, whatever else happens. */
static int64_t guardian_kill_us(const struct guardian *g)
{
    bool lost = g->lost || g->cause == CAUSE_DEADLINE || g->cause == CAUSE_ALONE;
    int64_t last = g->deadline_us - plan_slack_us(g->plan);
    int64_t after = lost && g->plan->on_lost == ON_LOST_KILL ? 0 : g->plan->kill_after_ms;
    int64_t polite = g->stop_us + after * 1000;

    return g->plan->on_lost == ON_LOST_WARN || polite < last ? polite : last;
}

/* When it must act even if nothing arrives; INT64_MAX: never. */
static int64_t guardian_next_us(const struct guardian *g, int64_t now)
{
    int64_t next = INT64_MAX;

    switch (g->phase) {
    case RUNNING:
        if (g->plan->on_lost != ON_LOST_WARN)
            next = g->deadline_us - plan_slack_us(g->plan) - plan_kill_after_us(g->plan);
        return next < g->max_end_us ? next : g->max_end_us;
    case TERM:
        return guardian_kill_us(g);
    case KILL:
        return now + plan_again_us(now - guardian_kill_us(g));
    default:
        return next;
    }
}

static int64_t guardian_wake_us(const struct guardian *g)
{
    int64_t next = guardian_next_us(g, sqlock_now_us());

    return g->phase == RUNNING && g->conts > 0 && g->cont_us < next ? g->cont_us : next;
}

static void deadline_set(struct guardian *g, int64_t deadline_us)
{
    g->deadline_us = deadline_us;
    atomic_store(&g->plan->shared->last_us, g->plan->on_lost == ON_LOST_WARN
                                                ? INT64_MAX
                                                : deadline_us - plan_slack_us(g->plan));
}

/* On the clock of the deadlines, which runs while the machine sleeps. */
static void timer_arm(struct guardian *g, int64_t at_us)
{
    struct itimerspec spec = {0};

    if (at_us != INT64_MAX) {
        at_us = at_us > 0 ? at_us : 1;
        spec.it_value.tv_sec = at_us / 1000000;
        spec.it_value.tv_nsec = at_us % 1000000 * 1000;
    }
    timerfd_settime(g->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

/* ---- the locker ------------------------------------------------------------------------------ */

static void report_send(struct guardian *g, enum report_kind kind, int value)
{
    struct report r = {.kind = (int32_t)kind,
                       .value = value,
                       .cause = (int32_t)g->cause,
                       .ended_by_us = g->stopped_it,
                       .left_behind = g->left_behind};

    if (!g->alone && send(g->locker_fd, &r, sizeof r, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        g->alone = true;
}

/* Close what only the command needs: a pipe must end when the command, its last writer, ends. */
static void close_files(struct guardian *g)
{
    int keep[] = {g->locker_fd, g->signals_fd, g->timer_fd, g->error_fd, say_fd()};

    fds_silence();
    fds_close_others(keep, sizeof keep / sizeof *keep);
}

/* Called when all messages of the locker have been read. The order may be too late: we were
 * stopped, or there was no room for it. */
static void guardian_start(struct guardian *g)
{
    int64_t now = sqlock_now_us();
    pid_t pid;

    g->start_due = false;
    g->max_end_us = g->plan->max_ms > 0 ? now + (int64_t)g->plan->max_ms * 1000 : INT64_MAX;
    g->phase = RUNNING;
    if (g->alone || now >= guardian_next_us(g, now)) {
        g->cause = g->alone ? CAUSE_ALONE : CAUSE_DEADLINE;
        report_send(g, REPORT_NOT_STARTED, ETIME);
        g->phase = GONE;
        return;
    }
    pid = command_start(g->plan, &g->start, &g->error_fd);
    if (pid < 0) {
        report_send(g, REPORT_NOT_STARTED, -pid);
        g->phase = GONE;
        return;
    }
    g->command = pid;
    for (int signal = 1; signal < SIGRTMIN; signal++)
        if (sigismember(&g->kept, signal) == 1)
            kill(pid, signal);
    close_files(g);
}

/* The end of the pipe without any data: exec has closed it. */
static void look_at_exec(struct guardian *g)
{
    int error = 0;
    ssize_t n = read(g->error_fd, &error, sizeof error);

    if (n < 0)
        return;
    close(g->error_fd);
    g->error_fd = -1;
    report_send(g, n == 0 ? REPORT_STARTED : REPORT_NOT_STARTED, error);
}

/* From the locker, or sent to the guardian itself. */
static void guardian_pass_on(struct guardian *g, int signal)
{
    if (g->command == 0)
        sigaddset(&g->kept, signal);
    else if (g->status == -1)
        kill(g->command, signal);
}

static void guardian_obey(struct guardian *g, const struct order *order)
{
    switch (order->kind) {
    case ORDER_START:
        g->start = *order;
        g->start_due = g->phase == IDLE;
        deadline_set(g, order->deadline_us);
        break;
    case ORDER_DEADLINE:
        deadline_set(g, order->deadline_us);
        break;
    case ORDER_SIGNAL:
        if (order->signal == SIGCONT) /* the locker has gone on */
            g->conts = 0;
        guardian_pass_on(g, order->signal);
        break;
    case ORDER_STOP:
        g->stop_due = CAUSE_LOST;
        g->lost = true;
        break;
    case ORDER_RESIGN:
        if (g->stop_due == CAUSE_NONE)
            g->stop_due = CAUSE_RESIGNED;
        break;
    default:
        break;
    }
}

static void listen_to_locker(struct guardian *g)
{
    struct order order;
    ssize_t n;

    while ((n = recv(g->locker_fd, &order, sizeof order, MSG_DONTWAIT)) == (ssize_t)sizeof order)
        guardian_obey(g, &order);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        g->alone = true;
}

/* Look now: since its last message it may have died, and its number may be a stranger's. */
static bool locker_lives(const struct guardian *g)
{
    char byte;
    ssize_t n = g->alone ? 0 : recv(g->locker_fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);

    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

/* ---- the command ----------------------------------------------------------------------------- */

/* TERM and CONT to all: a stopped process does not notice TERM without CONT. */
static void guardian_stop(struct guardian *g, enum cause cause)
{
    int n;

    g->cause = cause;
    g->stop_us = sqlock_now_us();
    g->stopped_it = g->status == -1;
    g->phase = TERM;
    if (guardian_kill_us(g) <= g->stop_us) {
        g->phase = KILL;
        return;
    }
    n = tree_signal(getpid(), SIGTERM);
    tree_signal(getpid(), SIGCONT);
    if (g->status != -1)
        g->left_behind = n;
}

/* The command has ended, by itself or because we were so late that the waker killed it. */
static void guardian_stop_rest(struct guardian *g)
{
    bool killed = WIFSIGNALED(g->status) && WTERMSIG(g->status) == SIGKILL &&
                  atomic_load(&g->plan->shared->killed);

    guardian_stop(g, killed ? CAUSE_DEADLINE : CAUSE_NONE);
    g->stopped_it = killed;
}

/* The locker stops itself when the command is stopped. If only the command is then continued, not
 * the whole job, continue the locker too, or it could not renew. It may be about to stop itself,
 * behind a renewal that takes long: so again, until it says that it has gone on. */
static void continue_locker(struct guardian *g, int64_t now)
{
    g->conts--;
    g->cont_us = now + CONT_US;
    if (locker_lives(g))
        kill(g->plan->locker, SIGCONT);
}

static void stopped_or_continued(struct guardian *g, int status)
{
    g->conts = 0;
    if (WIFSTOPPED(status)) {
        report_send(g, REPORT_STOPPED, WSTOPSIG(status));
        return;
    }
    g->conts = CONTS;
    continue_locker(g, sqlock_now_us());
}

/* Wait for every child that has ended, adopted orphans too. */
static void guardian_wait_all(struct guardian *g)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0) {
        if (WIFSTOPPED(status) || WIFCONTINUED(status)) {
            if (pid == g->command && g->phase == RUNNING)
                stopped_or_continued(g, status);
        } else if (pid == g->command) {
            g->status = status;
        }
    }
}

static bool is_none_left(void)
{
    siginfo_t info;

    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD;
}

/* The command's number is known, even if the tree could not be read. */
static void guardian_kill_all(struct guardian *g)
{
    int denied = tree_kill(getpid());

    if (g->status == -1)
        kill(g->command, SIGKILL);
    if (denied > 0 && !g->complained) {
        say(SAY_ERROR, "cannot kill %d %s of the command: owned by another user", denied,
            denied == 1 ? "process" : "processes");
        g->complained = true;
    }
}

/* Act on the time, the locker's messages and the command's end. */
static void guardian_decide(struct guardian *g)
{
    int64_t now;

    if (g->start_due)
        guardian_start(g);
    now = sqlock_now_us();
    if (g->phase == RUNNING && g->conts > 0 && now >= g->cont_us)
        continue_locker(g, now);
    if (g->phase == RUNNING) {
        if (g->status != -1)
            guardian_stop_rest(g);
        else if (g->alone && g->plan->on_lost != ON_LOST_WARN)
            guardian_stop(g, CAUSE_ALONE);
        else if (g->stop_due != CAUSE_NONE)
            guardian_stop(g, g->stop_due);
        else if (now >= g->max_end_us)
            guardian_stop(g, CAUSE_MAX_TIME);
        else if (now >= guardian_next_us(g, now))
            guardian_stop(g, CAUSE_DEADLINE);
    }
    if (g->phase == TERM && now >= guardian_kill_us(g))
        g->phase = KILL;
    if ((g->phase == TERM || g->phase == KILL) && is_none_left())
        g->phase = GONE;
    if (g->phase == KILL)
        guardian_kill_all(g);
    if (g->phase == IDLE && g->alone)
        g->phase = GONE;
}

/* A signal to the guardian itself is meant for the command. */
static void listen_to_signals(struct guardian *g)
{
    struct signalfd_siginfo info;

    while (read(g->signals_fd, &info, sizeof info) == (ssize_t)sizeof info)
        if (info.ssi_signo != SIGCHLD)
            guardian_pass_on(g, (int)info.ssi_signo);
}

static void listen_all(struct guardian *g)
{
    struct pollfd fds[] = {{.fd = g->alone ? -1 : g->locker_fd, .events = POLLIN},
                           {.fd = g->signals_fd, .events = POLLIN},
                           {.fd = g->timer_fd, .events = POLLIN},
                           {.fd = g->error_fd, .events = POLLIN}};
    uint64_t ticks;

    if (poll(fds, 4, -1) < 0)
        return;
    if (fds[0].revents != 0)
        listen_to_locker(g);
    if (fds[1].revents != 0)
        listen_to_signals(g);
    if (fds[2].revents != 0 && read(g->timer_fd, &ticks, sizeof ticks) < 0)
        return;
    if (fds[3].revents != 0)
        look_at_exec(g);
}

/* ---- its life -------------------------------------------------------------------------------- */

static bool guardian_prepare(struct guardian *g)
{
    static const int heard[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof heard / sizeof *heard; i++)
        sigaddset(&set, heard[i]);
    g->signals_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    g->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (g->timer_fd < 0)
        g->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    /* A process group of its own, so that Ctrl-Z does not stop it. */
    setpgid(0, 0);
    return g->signals_fd >= 0 && g->timer_fd >= 0 && tree_adopt();
}

static void say_end_alone(const struct guardian *g)
{
    if (g->cause == CAUSE_ALONE || (g->alone && g->command > 0))
        say(SAY_ERROR, "%s: the process that held the lock died; %s", g->plan->name,
            g->stopped_it ? "the command was terminated" : "the command has ended");
}

void guardian_run(const struct plan *plan, int locker_fd)
{
    struct guardian g = {.plan = plan, .locker_fd = locker_fd, .error_fd = -1, .status = -1};

    plan_show_as(plan, "lock-guardian");
    if (!guardian_prepare(&g)) {
        say(SAY_ERROR, "run needs Linux with /proc, and free file descriptors");
        _exit(EXIT_SETUP);
    }
    while (g.phase != GONE) {
        timer_arm(&g, guardian_wake_us(&g));
        listen_all(&g);
        guardian_wait_all(&g);
        guardian_decide(&g);
    }
    if (g.error_fd >= 0)
        look_at_exec(&g);
    if (g.command > 0)
        report_send(&g, REPORT_ENDED, g.status);
    say_end_alone(&g);
    say_end();
    _exit(EXIT_DONE);
}
