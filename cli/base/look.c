#include <sqlock/admin.h>

#include "cli/base/look.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cli/base/shown.h"
#include "cli/base/text.h"

enum { CLOSE_MS = 250, FOUND_MAX = 8 * SQLOCK_LABEL_MAX + 192 };

/* It outlives main(): a thread that hangs may go on with it. */
static struct {
    bool runs;
    pthread_t thread;
    int fd;
    sqlock *m;
    char *names[LOOK_NAMES];
    int n;
    char found[FOUND_MAX];
} look;

/* Those who hold one name. */
struct holders {
    const char *name;
    int n;
    sqlock_holder first;
    bool is_seat; /* the first one's */
};

/* Of this process, or of the script that it takes locks for. */
static bool is_of(const char *label, pid_t process)
{
    char host[256], here[256] = "";
    const char *rest;
    int64_t pid;

    gethostname(here, sizeof here - 1);
    return text_label(label, &pid, host, &rest) && pid == process && strcmp(host, here) == 0;
}

/* Of several names this run holds some already. */
static int holders_add(const sqlock_info *info, void *user)
{
    struct holders *h = user;

    if (strcmp(info->name, h->name) != 0)
        return 1; /* shared holders and slots stand behind their lock */
    if (!info->held || info->holder.left_ms <= 0 ||
        (look.n > 1 && is_of(info->holder.label, getpid())))
        return 0;
    if (h->n++ == 0) {
        h->first = info->holder;
        h->is_seat = info->slot >= 0;
    }
    return 0;
}

static int place_each(const sqlock_waiter *waiter, void *user)
{
    int64_t *place = user;

    if (!is_of(waiter->label, getpid()) && !is_of(waiter->label, getppid()))
        return 0;
    *place = waiter->place;
    return 1;
}

/* Of one name the request knows its place, unless it is next when the holders have gone. */
static void add_place(const char *name)
{
    const size_t used = strlen(look.found), room = sizeof look.found - used;
    int64_t place = -1;

    if (sqlock_list_waiters(look.m, name, place_each, &place, NULL) < 0)
        return;
    if (place == 0)
        snprintf(look.found + used, room, ", next in line");
    else if (place > 0 && look.n > 1)
        snprintf(look.found + used, room, ", place %lld in the queue", (long long)place);
}

static void add_holders(const struct holders *h)
{
    char held[TEXT_DURATION], others[32] = "";
    char *label = shown_text(h->first.label, strlen(h->first.label)),
         *name = shown_text(h->name, strlen(h->name));

    if (h->n > 1)
        snprintf(others, sizeof others, ", and %d more", h->n - 1);
    if (label != NULL && name != NULL)
        snprintf(look.found, sizeof look.found, "%s%s%s held by %s for %s%s",
                 look.n > 1 ? ", of which \"" : ",", look.n > 1 ? name : "",
                 look.n > 1 ? "\" is" : "", *label != '\0' ? label : "someone",
                 text_span(held, h->first.held_ms), others);
    free(label);
    free(name);
}

/* The first name that others hold. */
static void *look_main(void *unused)
{
    sqlock_list_opts opts = SQLOCK_LIST_OPTS_INIT;
    int rc = 0;

    for (int i = 0; rc >= 0 && look.found[0] == '\0' && i < look.n; i++) {
        struct holders h = {.name = look.names[i]};

        opts.prefix = h.name;
        rc = sqlock_list(look.m, &opts, holders_add, &h, NULL);
        if (rc >= 0 && h.n > 0)
            add_holders(&h);
        else if (rc >= 0 && look.n == 1)
            snprintf(look.found, sizeof look.found,
                     ", which no one holds: a transaction may guard it");
        if (h.n > 0 && (h.is_seat || look.n > 1))
            add_place(h.name);
    }
    eventfd_write(look.fd, 1);
    return unused;
}

static void free_names(void)
{
    while (look.n > 0)
        free(look.names[--look.n]);
}

static bool copy_names(const char *const *names, int n)
{
    for (look.n = 0; look.n < n; look.n++)
        if ((look.names[look.n] = strdup(names[look.n])) == NULL)
            return false;
    return true;
}

/* Signals are for the thread that waits. */
bool look_start(sqlock *m, const char *const *names, int n)
{
    sigset_t all, ours;

    if (look.runs || (look.fd = eventfd(0, EFD_CLOEXEC)) < 0)
        return false;
    look.m = m;
    look.found[0] = '\0';
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &ours);
    look.runs = copy_names(names, n) && pthread_create(&look.thread, NULL, look_main, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &ours, NULL);
    if (!look.runs) {
        free_names();
        close(look.fd);
    }
    return look.runs;
}

int look_fd(void)
{
    return look.fd;
}

const char *look_take(void)
{
    pthread_join(look.thread, NULL);
    free_names();
    close(look.fd);
    look.runs = false;
    return look.found;
}

void look_close(sqlock *m, bool goes_on)
{
    struct pollfd done = {.fd = look.fd, .events = POLLIN};

    if (look.runs && !goes_on && poll(&done, 1, CLOSE_MS) <= 0)
        return;
    if (look.runs)
        look_take();
    sqlock_close(m);
}

int look_exit(int code)
{
    if (look.runs) {
        fflush(NULL);
        _exit(code);
    }
    return code;
}
