#include "cli/run/lead.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cli/base/connect.h"
#include "cli/base/info.h"
#include "cli/base/output.h"
#include "cli/base/say.h"
#include "cli/base/shown.h"
#include "cli/cli.h"
#include "cli/run/plan.h"
#include "cli/run/status.h"

enum { LOOK_MS = 1000, PAUSE_MS = 1000 };

/* ---- elections ------------------------------------------------------------------------------- */

/* Not behind a time as the leader that others ended: then its place in the queue counts. Otherwise
 * a command that fails at once, or a database that is down, would keep this busy. Returns the
 * signal that came, or 0. */
static int pause_before(struct plan *plan, const struct outcome *last)
{
    struct pollfd signalled = {.fd = plan->signals.fd, .events = POLLIN};

    if (strcmp(last->word, "lost") == 0 || strcmp(last->word, "resigned") == 0)
        return 0;
    return poll(&signalled, 1, PAUSE_MS) > 0 ? signals_next(&plan->signals, NULL) : 0;
}

int lead_run(struct plan *plan)
{
    struct outcome outcome;
    int code, signal;

    do {
        code = plan_run(plan, &outcome);
        if (!outcome.again)
            return code;
        if (outcome.n_tokens > 0)
            say(SAY_MORE, "%s: leads no more, and stands for election again", plan->name);
    } while ((signal = pause_before(plan, &outcome)) == 0);
    return EXIT_SIGNAL + signal;
}

/* ---- resigning ------------------------------------------------------------------------------- */

static void *resigning_main(void *arg)
{
    struct resigning *r = arg;
    struct pollfd over = {.fd = r->over_fd, .events = POLLIN};

    while (poll(&over, 1, LOOK_MS) <= 0)
        if (lead_is_asked_to_resign(r->lock, r->m)) {
            eventfd_write(r->asked_fd, 1);
            break;
        }
    return NULL;
}

bool resigning_start(struct resigning *r, sqlock *m, sqlock_lock *lock)
{
    *r = (struct resigning){.m = m, .lock = lock};
    r->asked_fd = eventfd(0, EFD_CLOEXEC);
    r->over_fd = eventfd(0, EFD_CLOEXEC);
    if (r->asked_fd >= 0 && r->over_fd >= 0 &&
        pthread_create(&r->thread, NULL, resigning_main, r) == 0)
        return true;
    if (r->asked_fd >= 0)
        close(r->asked_fd);
    if (r->over_fd >= 0)
        close(r->over_fd);
    r->asked_fd = -1;
    return false;
}

void resigning_end(struct resigning *r)
{
    if (r->asked_fd < 0)
        return;
    eventfd_write(r->over_fd, 1);
    pthread_join(r->thread, NULL);
    close(r->asked_fd);
    close(r->over_fd);
    r->asked_fd = -1;
}

static int print_leader(const struct cli *cli, const sqlock_info *leader)
{
    char *name, *holder;

    if (cli->json)
        return output_json(info_json(leader));
    name = shown_cell(leader->name, leader->name_len, 0);
    holder = info_holder(leader);
    if (name != NULL && holder != NULL)
        printf("%s: requested to resign: %s, token %lld\n", name, holder,
               (long long)leader->holder.token);
    free(name);
    free(holder);
    return output_end();
}

int lead_resign(const struct plan *plan)
{
    sqlock_info leader = {.size = sizeof leader};
    sqlock_error err = {0};
    sqlock *m = NULL;
    int rc = database_open(plan->cli, NULL, &m);

    if (rc != 0)
        return rc;
    rc = lead_ask_to_resign(m, plan->name, &leader, &err);
    if (rc == SQLOCK_ABSENT) {
        say(SAY_ERROR, "%s: no one leads", plan->name);
        rc = EXIT_NO;
    } else if (rc != 0) {
        rc = fail_with(rc, &err);
    } else {
        rc = print_leader(plan->cli, &leader);
    }
    sqlock_close(m);
    return rc;
}
