/* The end of a grant: what the command ended with, and whether the lock was held until then. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

#include "cli/base/connect.h"
#include "cli/base/say.h"
#include "cli/cli.h"
#include "cli/run/locker.h"

int ending_of_command(struct locker *l)
{
    struct outcome *o = l->outcome;
    bool was_stopped = l->end.cause != CAUSE_NONE && l->end.ended_by_us;

    if (l->end.left_behind > 0)
        say(SAY_NOTE, "%s: terminated %d leftover %s", l->plan->name, (int)l->end.left_behind,
            l->end.left_behind == 1 ? "process" : "processes");
    if (l->guardian_died && l->end.kind != REPORT_ENDED && l->start_error == 0)
        return EXIT_INTERNAL;
    if (l->start_error == ETIME) {
        o->word = "lost";
        say(SAY_ERROR, "%s: the lease ended before the command could be started", l->plan->name);
        return EXIT_LOST;
    }
    if (l->start_error != 0) {
        o->word = "not-started";
        say(SAY_ERROR, "%s: %s", l->plan->command[0], strerror(l->start_error));
        return l->start_error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUNNABLE;
    }
    o->has_child = true;
    o->child_status = l->end.value;
    l->must_end |= l->hung_up && status_code(l->end.value) == EXIT_SIGNAL + SIGHUP;
    if (was_stopped && l->end.cause == CAUSE_MAX_TIME) {
        o->word = "max-time";
        say(SAY_NOTE, "%s: --max-time reached; the command was stopped", l->plan->name);
        return EXIT_MAX_TIME;
    }
    if (was_stopped && l->end.cause == CAUSE_RESIGNED) {
        o->word = "resigned";
        return status_code(l->end.value);
    }
    if (was_stopped) {
        o->word = "lost";
        if (l->end.cause == CAUSE_DEADLINE)
            say(SAY_ERROR, "%s: cannot renew the lease; the command was stopped before it ends",
                l->plan->name);
        return EXIT_LOST;
    }
    o->word = "ended";
    return status_code(l->end.value);
}

/* A command that ended well may still have run without the lock for a part of the time. */
int ending_release(struct locker *l, int code)
{
    sqlock_error err = {0};
    bool held = held_all(&l->held);
    int rc = held_release(&l->held, &err);

    if (rc == SQLOCK_ELOST || (rc != 0 && !held)) {
        if (l->outcome->has_child && strcmp(l->outcome->word, "ended") == 0) {
            l->outcome->word = "lost";
            error_for_shell(&err);
            say(SAY_ERROR, "%s: the lock was lost before the command ended: %s", l->plan->name,
                err.text);
            code = l->plan->on_lost == ON_LOST_WARN ? code : EXIT_LOST;
        }
    } else if (rc != 0) {
        error_for_shell(&err);
        say(SAY_ERROR, "%s; the lease will end by itself", err.text);
    }
    return code;
}

bool ending_waits(struct locker *l)
{
    const int64_t end = l->held_us + l->plan->least_ms * INT64_C(1000);
    struct pollfd signalled = {.fd = l->plan->signals.fd, .events = POLLIN};
    int64_t left;

    if (l->plan->least_ms == 0 || !l->outcome->has_child || l->must_end || !held_all(&l->held))
        return true;
    while ((left = (end - sqlock_now_us()) / 1000) > 0 && held_all(&l->held))
        if (poll(&signalled, 1, left < 500 ? (int)left : 500) > 0 &&
            signals_next(&l->plan->signals, NULL) != 0)
            break;
    if (held_all(&l->held))
        return true;
    say(SAY_NOTE, "%s: lock lost before --at-least was over: %s",
        sqlock_lock_name(held_worst(&l->held)),
        sqlock_why_name(sqlock_lock_why(held_worst(&l->held))));
    return false;
}

bool ending_again(const struct locker *l)
{
    const char *word = l->outcome->word;
    bool by_itself = strcmp(word, "ended") == 0 || strcmp(word, "max-time") == 0;
    bool not_started = strcmp(word, "not-started") == 0;

    /* Else it was lost, it resigned, or the guardian was killed. */
    return l->plan->lead && !l->must_end && !not_started && (!by_itself || l->plan->again);
}
