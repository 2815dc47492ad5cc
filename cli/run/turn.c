#include "cli/run/turn.h"

#include "cli/base/connect.h"
#include "cli/base/say.h"
#include "cli/cli.h"
#include "cli/run/plan.h"
#include "cli/run/status.h"

bool turn_is_due(const struct plan *plan, sqlock *m, struct once *once, struct outcome *outcome,
                 int *out_code)
{
    sqlock_error err = {0};
    int rc;

    if (plan->every_ms == 0)
        return true;
    rc = once_look(once, m, plan->name, once_period(plan->every_ms), &err);
    if (rc == 0 || ((rc == ONCE_DONE || rc == ONCE_AHEAD) && plan->again))
        return true;
    if (rc == ONCE_DONE) {
        outcome->word = "done";
        say(SAY_MORE, "%s: this period's run is done", plan->name);
        *out_code = 0;
    } else if (rc == ONCE_AHEAD) {
        say(SAY_ERROR, "%s: %s (--again runs it, and sets that right)", plan->name, err.text);
        *out_code = EXIT_SETUP;
    } else {
        *out_code = fail_with(rc, &err);
    }
    return false;
}

int turn_note(const struct plan *plan, struct once *once, sqlock_lock *lock, bool signalled)
{
    sqlock_error err = {0};
    int rc;

    if (plan->every_ms == 0)
        return 0;
    if (signalled) {
        say(SAY_NOTE, "%s: a signal ended the command, so its run is not written down", plan->name);
        return 0;
    }
    rc = once_note(once, lock, &err);
    if (rc == SQLOCK_ELOST) {
        say(SAY_ERROR, "%s: the lock was lost, so this run is not written down: it may run again",
            plan->name);
        return 0;
    }
    if (rc == 0)
        return 0;
    say(SAY_ERROR, "%s: the command ended well, but that is not written down: it will run again",
        plan->name);
    return fail_with(rc, &err);
}
