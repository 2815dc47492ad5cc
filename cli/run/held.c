#include "cli/run/held.h"

#include <poll.h>
#include <pthread.h>
#include <sqlock/import.h>
#include <sqlock/many.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cli/base/look.h"
#include "cli/base/nested.h"
#include "cli/base/say.h"
#include "cli/base/text.h"
#include "cli/run/wire.h"

_Static_assert((int)PLAN_NAMES <= (int)LOOK_NAMES, "a look knows fewer names than a run");

/* ---- taking them ----------------------------------------------------------------------------- */

static int take_one(struct held *held, sqlock *m, struct plan *plan, sqlock_acquire_opts *opts,
                    int other_fd, int *out_signal, sqlock_error *err)
{
    int rc;

    opts->mode = plan->names[0].mode;
    rc = grant_take(m, plan->names[0].text, opts, &plan->signals, other_fd, &held->locks[0],
                    out_signal, err);
    if (rc != 0)
        sqlock_scope_end(&held->locks[0]); /* still unsure: give back what may have been granted */
    return rc;
}

/* The wait for several names ends by a cancel. This thread fires it. */
struct watch {
    struct plan *plan;
    struct grant_line line;
    int other_fd, over_fd; /* over: the wait has ended */
    sqlock_cancel *cancel;
    int signal;
    bool fired;
};

static void *watch_main(void *arg)
{
    struct watch *w = arg;
    struct pollfd fds[] = {{.fd = w->over_fd, .events = POLLIN},
                           {.fd = w->plan->signals.fd, .events = POLLIN},
                           {.fd = w->other_fd, .events = POLLIN},
                           {.fd = -1, .events = POLLIN}};

    grant_line_begin(&w->line);
    while (fds[0].revents == 0) {
        int n;

        fds[3].fd = grant_line_fd(&w->line);
        n = poll(fds, 4, grant_line_limit_ms(&w->line));
        grant_line_step(&w->line, n > 0 && fds[3].revents != 0);
        if (n <= 0 || fds[0].revents != 0)
            continue;
        if ((w->signal = signals_next(&w->plan->signals, NULL)) == 0 && fds[2].revents == 0)
            continue;
        w->fired = true;
        sqlock_cancel_fire(w->cancel);
        break;
    }
    return NULL;
}

static int watch_start(struct watch *w, pthread_t *out_thread, sqlock_error *err)
{
    int rc = sqlock_cancel_new(&w->cancel, err);

    if (rc != 0)
        return rc;
    if ((w->over_fd = eventfd(0, EFD_CLOEXEC)) < 0 ||
        pthread_create(out_thread, NULL, watch_main, w) != 0) {
        if (w->over_fd >= 0)
            close(w->over_fd);
        sqlock_cancel_free(w->cancel);
        snprintf(err->text, sizeof err->text, "no file descriptor or thread available");
        return err->code = SQLOCK_ESYS;
    }
    return 0;
}

static void watch_end(struct watch *w, pthread_t thread)
{
    eventfd_write(w->over_fd, 1);
    pthread_join(thread, NULL);
    close(w->over_fd);
    sqlock_cancel_free(w->cancel);
}

static int take_all(struct held *held, sqlock *m, struct plan *plan, sqlock_acquire_opts *opts,
                    int other_fd, int *out_signal, sqlock_error *err)
{
    const char *names[PLAN_NAMES];
    struct watch w = {.plan = plan,
                      .line = {.m = m, .name = plan->name, .names = names, .n = plan->n_names},
                      .other_fd = other_fd};
    int64_t modes[PLAN_NAMES], begun = sqlock_now_us();
    pthread_t thread;
    int rc;

    for (int i = 0; i < plan->n_names; i++) {
        names[i] = plan->names[i].text;
        modes[i] = plan->names[i].mode;
    }
    if ((rc = watch_start(&w, &thread, err)) != 0)
        return rc;
    opts->modes = modes;
    opts->cancel = w.cancel;
    rc = sqlock_acquire_all(m, names, (size_t)plan->n_names, opts, held->locks, err);
    watch_end(&w, thread);
    *out_signal = w.signal;
    if (!w.fired)
        return rc;
    /* They may have been granted before the cancel. */
    if (rc == 0 && sqlock_end_each(held->locks, (size_t)plan->n_names, NULL, err) != 0)
        say(SAY_ERROR, "%s; the lease will end by itself", err->text);
    if (w.signal != 0)
        grant_say_given_up(plan->name, w.signal, (sqlock_now_us() - begun) / 1000);
    return SQLOCK_ECANCELLED;
}

int held_take(struct held *held, sqlock *m, struct plan *plan, int other_fd, sqlock_holder *holder,
              int *out_signal, sqlock_error *err)
{
    sqlock_acquire_opts opts = SQLOCK_ACQUIRE_OPTS_INIT;
    int rc;

    *out_signal = 0;
    opts.wait_ms = plan->grant.wait_ms;
    opts.lease_ms = plan->grant.lease_ms;
    opts.holder = holder;
    opts.actor = plan->grant.actor;
    rc = plan->n_names == 1 ? take_one(held, m, plan, &opts, other_fd, out_signal, err)
                            : take_all(held, m, plan, &opts, other_fd, out_signal, err);
    held->n = rc == 0 ? plan->n_names : 0;
    return rc;
}

int held_nested(struct plan *plan, sqlock *m)
{
    int code = 0;

    for (int i = 0; code == 0 && i < plan->n_names; i++)
        code = nested_look(m, plan->names[i].text, plan->names[i].mode, &plan->grant);
    return code;
}

/* ---- while they are held --------------------------------------------------------------------- */

bool held_all(const struct held *held)
{
    for (int i = 0; i < held->n; i++)
        if (!sqlock_is_held(held->locks[i]))
            return false;
    return held->n > 0;
}

int64_t held_deadline_us(const struct held *held)
{
    int64_t first = INT64_MAX;

    for (int i = 0; i < held->n; i++) {
        int64_t deadline = sqlock_lock_deadline_us(held->locks[i]);

        first = deadline < first ? deadline : first;
    }
    return first;
}

sqlock_lock *held_worst(const struct held *held)
{
    sqlock_lock *worst = held->locks[0];

    for (int i = 1; i < held->n; i++)
        if (sqlock_lock_state(held->locks[i]) > sqlock_lock_state(worst))
            worst = held->locks[i];
    return worst;
}

bool held_renew(const struct held *held)
{
    bool renewed = true;

    for (int i = 0; i < held->n; i++)
        renewed &= sqlock_renew(held->locks[i], NULL) == 0;
    return renewed;
}

void held_fill(const struct held *held, struct order *order)
{
    order->n = held->n;
    for (int i = 0; i < held->n; i++) {
        order->grants[i].token = sqlock_lock_token(held->locks[i]);
        order->grants[i].slot = sqlock_lock_slot(held->locks[i]);
        text_owner(order->grants[i].owner, sqlock_lock_owner(held->locks[i]));
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

int held_release(struct held *held, sqlock_error *err)
{
    int codes[PLAN_NAMES] = {0}, rc;

    if (held->n == 1)
        return sqlock_release(held->locks[0], err);
    rc = sqlock_end_each(held->locks, (size_t)held->n, codes, err);
    for (int i = 0; i < held->n; i++)
        if (codes[i] == SQLOCK_ELOST)
            return SQLOCK_ELOST;
    return rc;
}

void held_free(struct held *held)
{
    for (int i = 0; i < held->n; i++)
        sqlock_lock_free(held->locks[i]);
    held->n = 0;
}
