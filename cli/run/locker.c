/* The locker: takes the lock, sends the guardian each new deadline, and releases the lock when
 * nothing of the command is alive. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/base/connect.h"
#include "cli/base/fds.h"
#include "cli/base/look.h"
#include "cli/base/nested.h"
#include "cli/base/say.h"
#include "cli/base/text.h"
#include "cli/cli.h"
#include "cli/run/locker.h"
#include "cli/run/status.h"
#include "cli/run/tree.h"

/* ---- taking it ------------------------------------------------------------------------------- */

/* The library did not do it. Returns the exit code after saying why. Who stands for election says
 * it once, and tries again. */
static int refused(struct locker *l, const sqlock_error *err)
{
    sqlock_error shown = *err;
    int code;

    l->outcome->again =
        l->plan->lead && lead_may_try_again(err->code, err) && !setup_is_wrong(err->code, err);
    if (l->outcome->again && l->plan->failing) {
        error_for_shell(&shown);
        say(SAY_MORE, "%s; trying again", shown.text);
        return exit_of(err->code);
    }
    code = fail_with(err->code, err);
    if (l->outcome->again)
        say(SAY_NOTE, "%s: trying again, each second", l->plan->name);
    l->plan->failing = l->outcome->again;
    return code;
}

/* While nothing is held, signals end the process as they would any other. */
static int open_database(struct locker *l)
{
    sqlock_error err;
    sigset_t ours;
    int rc;

    sigprocmask(SIG_SETMASK, &l->plan->signals.before, &ours);
    rc = database_try(l->plan->cli, l->plan->grant.label, &l->m, &err);
    sigprocmask(SIG_SETMASK, &ours, NULL);
    return err.code != 0 ? refused(l, &err) : rc;
}

/* Of several names, the error says which one is busy. */
static void say_busy(const struct locker *l, const sqlock_holder *holder, const sqlock_error *err)
{
    sqlock_error shown = *err;

    if (l->plan->n_names == 1) {
        grant_say_busy(l->plan->cli, l->plan->name, holder, err);
        return;
    }
    error_for_shell(&shown);
    say_code(grant_file_was_locked(err) ? SAY_ERROR : SAY_NOTE, sqlock_code_name(err->code),
             "%s: busy: %s", l->plan->name, shown.text);
}

static int take_refused(struct locker *l, int rc, int caught, const sqlock_holder *holder,
                        const sqlock_error *err)
{
    if (caught != 0) {
        l->outcome->word = "signal";
        return EXIT_SIGNAL + caught;
    }
    if (rc == SQLOCK_EBUSY || rc == SQLOCK_EGUARDED) {
        if ((rc = nested_busy(&l->plan->grant)) != 0)
            return rc;
        l->outcome->word = "busy";
        say_busy(l, holder, err);
        return grant_file_was_locked(err) ? EXIT_BUSY : l->plan->busy_exit;
    }
    if (rc == SQLOCK_EDEADLOCK)
        l->outcome->word = "deadlock";
    if (rc == SQLOCK_ECANCELLED) {
        say(SAY_ERROR, "the guardian process died; the command was not started");
        l->outcome->again = l->plan->lead;
        return EXIT_INTERNAL;
    }
    return refused(l, err);
}

/* True: the lock is held. Otherwise *out_code is the exit code, which may be 0 (-E 0). */
static bool take_lock(struct locker *l, int *out_code)
{
    sqlock_holder holder = {.size = sizeof holder};
    sqlock_error err = {0};
    int rc, caught;

    if (l->plan->grant.wait_ms != 0 && (*out_code = held_nested(l->plan, l->m)) != 0)
        return false;
    rc = held_take(&l->held, l->m, l->plan, l->guardian_fd, &holder, &caught, &err);
    l->held_us = sqlock_now_us();
    l->outcome->waited_us = l->held_us - l->begun_us;
    if (rc != 0) {
        *out_code = take_refused(l, rc, caught, &holder, &err);
        return false;
    }
    for (int i = 0; i < l->held.n; i++) {
        l->outcome->tokens[i] = sqlock_lock_token(l->held.locks[i]);
        l->outcome->slots[i] = sqlock_lock_slot(l->held.locks[i]);
        say(SAY_MORE, "%s: held, token %lld", l->plan->names[i].text,
            (long long)l->outcome->tokens[i]);
    }
    l->outcome->n_tokens = l->held.n;
    l->plan->failing = false;
    l->state = SQLOCK_HELD;
    return true;
}

/* ---- the guardian ---------------------------------------------------------------------------- */

/* This never blocks: a guardian that does not read has been stopped. Returns whether it was sent.
 * If a deadline was not, the guardian acts earlier, and the next one comes soon. */
static bool order_send(struct locker *l, enum order_kind kind, int signal)
{
    struct order o = {
        .kind = (int32_t)kind, .signal = signal, .deadline_us = held_deadline_us(&l->held)};

    if (kind == ORDER_START)
        held_fill(&l->held, &o);
    if (send(l->guardian_fd, &o, sizeof o, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)sizeof o)
        return false;
    l->known_us = o.deadline_us;
    return true;
}

/* Orders that must arrive are tried until they are sent. */
static void send_due(struct locker *l)
{
    if (l->start_due)
        l->start_due = !order_send(l, ORDER_START, 0);
    if (l->start_due)
        return; /* the command need not know what came before it */
    if (l->stop_due)
        l->stop_due = !order_send(l, ORDER_STOP, 0);
    if (l->resign_due)
        l->resign_due = !order_send(l, ORDER_RESIGN, 0);
    for (int signal = 1; signal < NSIG; signal++)
        if (sigismember(&l->signals_due, signal) == 1 && order_send(l, ORDER_SIGNAL, signal))
            sigdelset(&l->signals_due, signal);
}

/* Wake them if someone has stopped one: they must be able to act. Without a waker the guardian is
 * our child. Other children are left alone: a shell may have started some, and then replaced itself
 * by us. */
static void wake_helpers(struct locker *l)
{
    pid_t pid = l->waker > 0 ? l->waker : atomic_load(&l->plan->shared->guardian);
    int status;

    if (waitpid(pid, &status, WNOHANG | WUNTRACED) != pid)
        return;
    if (WIFSTOPPED(status)) {
        kill(pid, SIGCONT);
    } else if (pid == l->waker) {
        l->waker = 0;
        l->waker_done = WIFEXITED(status);
    }
}

/* As without us: Ctrl-Z stops the command, so the job is stopped, and the shell goes on. While we
 * are stopped we cannot renew, so renew just before. */
static void suspend_too(struct locker *l)
{
    int64_t left;
    sigset_t set;
    char span[TEXT_DURATION];

    if (!l->has_terminal)
        return;
    if (!held_renew(&l->held))
        say(SAY_MORE, "%s: cannot renew the lease before it is suspended", l->plan->name);
    order_send(l, ORDER_DEADLINE, 0);
    left = (l->known_us - plan_slack_us(l->plan) - plan_kill_after_us(l->plan) - sqlock_now_us()) /
           1000;
    if (l->plan->on_lost == ON_LOST_WARN)
        say(SAY_NOTE, "%s: suspended; the lock is lost unless it is resumed within %s",
            l->plan->name, text_span(span, left));
    else
        say(SAY_NOTE, "%s: suspended; will be terminated unless resumed within %s", l->plan->name,
            text_span(span, left));
    sigemptyset(&set);
    sigaddset(&set, SIGTSTP);
    /* The kernel ignores this if no shell could wake us. */
    kill(getpid(), SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    sigprocmask(SIG_BLOCK, &set, NULL);
    l->suspended = true;
    sigaddset(&l->signals_due, SIGCONT);
    send_due(l);
}

/* If the guardian ended with unread orders, an error (ECONNRESET) comes before its last report. */
static void hear_guardian(struct locker *l)
{
    struct report r;
    ssize_t n;

    do {
        n = recv(l->guardian_fd, &r, sizeof r, MSG_DONTWAIT);
        if (n != (ssize_t)sizeof r)
            continue;
        if (r.kind == REPORT_STARTED)
            l->started = true;
        else if (r.kind == REPORT_NOT_STARTED)
            l->start_error = r.value;
        else if (r.kind == REPORT_STOPPED)
            suspend_too(l);
        else if (r.kind == REPORT_ENDED)
            l->end = r;
    } while (n > 0 || (n < 0 && (errno == ECONNRESET || errno == EINTR)));
    if (n == 0)
        l->guardian_died = true;
}

/* ---- while the command runs ------------------------------------------------------------------ */

/* Say how the locks are, when that changes. A lost one stops the command. */
static void notice_state(struct locker *l)
{
    sqlock_lock *lock = held_worst(&l->held);
    sqlock_state state = sqlock_lock_state(lock);
    char span[TEXT_DURATION];

    if (state == l->state)
        return;
    l->state = state;
    if (state == SQLOCK_LOST && l->plan->on_lost != ON_LOST_WARN) {
        l->stop_due = true;
        send_due(l);
    }
    if (state == SQLOCK_AT_RISK)
        say(SAY_NOTE, "%s: cannot renew the lease, which ends in %s", sqlock_lock_name(lock),
            text_span(span, (sqlock_lock_deadline_us(lock) - sqlock_now_us()) / 1000));
    else if (state == SQLOCK_LOST)
        say(SAY_ERROR, "%s: lock lost: %s%s; %s", sqlock_lock_name(lock),
            sqlock_why_name(sqlock_lock_why(lock)),
            l->suspended ? " while the command was suspended" : "",
            l->plan->on_lost == ON_LOST_WARN ? "the command goes on without it"
                                             : "the command is being stopped");
}

static void hand_on_signals(struct locker *l)
{
    bool by_terminal;
    int signal;

    /* What the terminal sends goes to the whole job, so the command has it already, if it has been
     * started. But only the first process of the session learns that the terminal was closed. */
    while ((signal = signals_next(&l->plan->signals, &by_terminal)) != 0) {
        l->must_end |= signal != SIGUSR1 && signal != SIGUSR2 && signal != SIGHUP;
        l->hung_up |= signal == SIGHUP;
        if (!by_terminal || !l->started || (signal == SIGHUP && getsid(0) == getpid()))
            sigaddset(&l->signals_due, signal);
    }
}

/* The lock is kept until the command has ended. */
static void resign(struct locker *l)
{
    say(SAY_NOTE, "%s: requested to resign; the command is being stopped", l->plan->name);
    l->resign_due = true;
}

/* The library renews by itself. This passes each new deadline on, also an earlier one: the server's
 * clock has jumped, and the guardian must not use the old deadline when this process is stopped or
 * killed. */
static void watch_command(struct locker *l)
{
    int tick_ms = l->plan->grant.lease_ms / 30;
    struct pollfd fds[3 + PLAN_NAMES] = {{.fd = l->guardian_fd, .events = POLLIN},
                                         {.fd = l->plan->signals.fd, .events = POLLIN},
                                         {.fd = l->resigning.asked_fd, .events = POLLIN}};
    int n = 3;

    for (int i = 0; i < l->held.n; i++)
        fds[n++] = (struct pollfd){.fd = sqlock_lock_fd(l->held.locks[i], NULL), .events = POLLIN};
    tick_ms = tick_ms < 5 ? 5 : tick_ms > 500 ? 500 : tick_ms;
    while (l->end.kind != REPORT_ENDED && !l->guardian_died) {
        poll(fds, (nfds_t)n, tick_ms);
        if (fds[2].revents != 0)
            resign(l);
        for (int i = 2; i < n; i++)
            if (fds[i].revents != 0)
                fds[i].fd = -1; /* it stays readable */
        hear_guardian(l);
        hand_on_signals(l);
        send_due(l);
        notice_state(l);
        if (held_deadline_us(&l->held) != l->known_us) {
            l->suspended = false;
            order_send(l, ORDER_DEADLINE, 0);
        }
        wake_helpers(l);
        say_again();
    }
}

/* The guardian was killed. Its orphans go to the next subreaper: the waker, or us if that is dead
 * too. They get TERM once, and then KILL from both: the waker is woken if it is stopped, but
 * someone may stop it again and again. */
static void guard_instead(struct locker *l)
{
    int64_t last = held_deadline_us(&l->held) - plan_slack_us(l->plan);
    int64_t polite = sqlock_now_us() + (int64_t)l->plan->kill_after_ms * 1000, now;
    bool sent_term = false;

    last = polite < last ? polite : last;
    say(SAY_ERROR, "%s: the guardian process was killed; the command is being stopped",
        l->plan->name);
    for (;;) {
        pid_t root, pid = 0;

        wake_helpers(l);
        while (l->waker == 0 && (pid = waitpid(-1, NULL, WNOHANG)) > 0)
            continue;
        if (l->waker_done || (pid < 0 && errno == ECHILD))
            return;
        root = l->waker > 0 ? l->waker : getpid();
        if (l->waker == 0 && !sent_term) {
            sent_term = true;
            tree_signal(root, SIGTERM);
            tree_signal(root, SIGCONT);
        }
        now = sqlock_now_us();
        if (now >= last)
            tree_kill(root);
        poll(NULL, 0, now < last ? 5 : (int)(plan_again_us(now - last) / 1000));
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

static int run_command(struct locker *l)
{
    static const int of_terminal[] = {SIGTSTP, SIGTTIN, SIGTTOU};
    const struct timespec at_once = {0};
    sigset_t set, before;
    int tty = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY), code;

    /* The job is stopped when the command is; until then we go on renewing. */
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof of_terminal / sizeof *of_terminal; i++)
        sigaddset(&set, of_terminal[i]);
    sigprocmask(SIG_BLOCK, &set, &before);
    if ((l->has_terminal = tty >= 0))
        close(tty);
    if (l->plan->lead && !resigning_start(&l->resigning, l->m, l->held.locks[0])) {
        say(SAY_ERROR, "no file descriptor or thread available");
        return ending_release(l, EXIT_INTERNAL);
    }
    l->start_due = true;
    send_due(l);
    watch_command(l);
    if (l->guardian_died && l->end.kind != REPORT_ENDED)
        guard_instead(l);
    if ((code = ending_of_command(l)) == 0)
        code = turn_note(l->plan, &l->once, l->held.locks[0], l->must_end);
    if (ending_waits(l))
        code = ending_release(l, code);
    else if (l->held.n > 1)
        held_release(&l->held, NULL); /* those that were not lost */
    l->outcome->held_us = sqlock_now_us() - l->held_us;
    l->outcome->again = ending_again(l);
    resigning_end(&l->resigning);
    /* What the terminal sent meanwhile was for the command. */
    while (sigtimedwait(&set, NULL, &at_once) > 0)
        continue;
    sigprocmask(SIG_SETMASK, &before, NULL);
    return code;
}

/* It ends when the guardian has ended. */
static void wait_for_waker(const struct locker *l)
{
    int status;
    pid_t pid;

    if (l->waker == 0)
        return;
    while ((pid = waitpid(l->waker, &status, WUNTRACED)) < 0 ? errno == EINTR : WIFSTOPPED(status))
        if (pid > 0)
            kill(pid, SIGCONT);
}

int locker_run(struct plan *plan, int guardian_fd, pid_t waker, struct outcome *outcome)
{
    struct locker l = {.plan = plan,
                       .guardian_fd = guardian_fd,
                       .waker = waker,
                       .begun_us = sqlock_now_us(),
                       .resigning.asked_fd = -1,
                       .outcome = outcome};
    int keep[] = {guardian_fd, plan->signals.fd, plan->status_fd, say_fd()}, code;

    /* We must not keep a pipe open that the command reads or writes; but the next command of a
     * leader needs it. */
    if (!plan->lead) {
        fds_silence();
        fds_close_others(keep, sizeof keep / sizeof *keep);
    }
    sigemptyset(&l.signals_due);
    if ((code = open_database(&l)) == 0 && take_lock(&l, &code))
        code = turn_is_due(plan, l.m, &l.once, outcome, &code) ? run_command(&l)
                                                               : ending_release(&l, code);
    outcome->exit = code;
    if (!outcome->again || outcome->n_tokens > 0)
        status_write(plan, outcome);
    held_free(&l.held);
    look_close(l.m, outcome->again);
    close(guardian_fd);
    wait_for_waker(&l);
    return code;
}
