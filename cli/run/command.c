/* The command's process. It looks as if the shell itself had started it, with the lock in its
 * environment. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "cli/base/fds.h"
#include "cli/base/url.h"
#include "cli/cli.h"
#include "cli/run/plan.h"
#include "cli/run/wire.h"

/* Words behind those that the variable has, with a blank between. */
static void add_word(const char *variable, const char *word)
{
    const char *before = getenv(variable);
    char *all;

    if (asprintf(&all, "%s%s%s", before != NULL ? before : "", before != NULL ? " " : "", word) < 0)
        return;
    setenv(variable, all, 1);
    free(all);
}

static void set_number(const char *variable, int64_t number)
{
    char text[32];

    snprintf(text, sizeof text, "%lld", (long long)number);
    setenv(variable, text, 1);
}

/* Of one lock. Of several the first one's, and tokens and slots of all. */
static void command_grants(const struct plan *plan, const struct order *order)
{
    const struct order_grant *first = &order->grants[0];

    setenv("SQLOCK_NAME", plan->names[0].text, 1);
    setenv("SQLOCK_OWNER", first->owner, 1);
    set_number("SQLOCK_TOKEN", first->token);
    unsetenv("SQLOCK_TOKENS"); /* of a run around this one */
    unsetenv("SQLOCK_SLOTS");
    unsetenv("SQLOCK_SLOT");
    if (first->slot >= 0)
        set_number("SQLOCK_SLOT", first->slot);
    for (int i = 0; i < order->n; i++) {
        const struct order_grant *grant = &order->grants[i];
        char number[32];

        snprintf(number, sizeof number, "%lld", (long long)grant->token);
        add_word("SQLOCK_TOKENS", number);
        snprintf(number, sizeof number, "%lld", (long long)grant->slot);
        add_word("SQLOCK_SLOTS", grant->slot >= 0 ? number : "-");
        /* The owners of all runs around this command, so that a nested one does not wait for them.
         */
        add_word("SQLOCK_OUTER", grant->owner);
    }
}

static void command_environment(const struct plan *plan, const struct order *order)
{
    const char *url = url_for_command(plan->cli, plan->keep_url);

    if (url != NULL)
        setenv("SQLOCK_URL", url, 1);
    else
        unsetenv("SQLOCK_URL"); /* which may be empty */
    command_grants(plan, order);
    setenv("SQLOCK_HELD", "1", 1);
}

/* Restore what we changed. Our own descriptors close themselves at exec. */
static void command_restore(const struct plan *plan)
{
    for (int fd = 0; fd < 3; fd++)
        if (fds_was_closed(fd))
            close(fd);
    if (plan->status_fd_given > 2)
        close(plan->status_fd_given);
    signals_restore(&plan->signals);
}

static void command_become(const struct plan *plan, const struct order *order, pid_t guardian,
                           int error_fd)
{
    int error;

    /* Back to the locker's group, which is the shell's job. So the command gets what the terminal
     * sends (Ctrl-C, Ctrl-Z), and may read from it. */
    setpgid(0, plan->group);
    /* If all the others are killed at once, only the kernel is left to end it. It does so also when
     * the guardian alone is killed. */
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != guardian)
        _exit(EXIT_INTERNAL);
    command_environment(plan, order);
    command_restore(plan);
    execvp(plan->command[0], plan->command);
    error = errno;
    if (write(error_fd, &error, sizeof error) < 0)
        _exit(EXIT_INTERNAL);
    _exit(EXIT_NOT_RUNNABLE);
}

pid_t command_start(const struct plan *plan, const struct order *order, int *out_error_fd)
{
    pid_t guardian = getpid(), child;
    int ends[2], error;

    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return -errno;
    child = fork();
    error = errno;
    if (child == 0)
        command_become(plan, order, guardian, ends[1]);
    close(ends[1]);
    if (child < 0) {
        close(ends[0]);
        return -error;
    }
    *out_error_fd = ends[0];
    return child;
}
