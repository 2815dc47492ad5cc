/* The processes of a cell: clients of library and command, from start to end. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/check.h"
#include "tests/torture/cell.h"
#include "tests/torture/client.h"
#include "tests/torture/fault.h"

#define GRACE_MS "60000" /* as long as the longest lease, which is known */

enum { THREADS = 4, START_MS = 20000, END_MS = 20000 };

/* ---- processes ------------------------------------------------------------------------------- */

pid_t cell_shell(struct cell *c, const char *line)
{
    pid_t parent = getpid(), child = fork();

    if (child < 0)
        fail_msg("fork: %s", strerror(errno));
    if (child > 0)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(99);
    close_range(3, ~0U, 0);
    engine_env(&c->engine);
    execl("/bin/sh", "sh", "-c", line, (char *)NULL);
    _exit(127);
}

pid_t cell_again(struct cell *c, const char *words, const char *err_path)
{
    return cell_shell(
        c, text("exec /proc/%d/exe %s </dev/null >>'%s' 2>&1", (int)getpid(), words, err_path));
}

/* ---- clients --------------------------------------------------------------------------------- */

static const char *path_of(const struct cell *c, const struct client *who, const char *end)
{
    return text("%s/%" PRIu32 ".%s", c->folder, who->process, end);
}

/* A pooler's sessions cannot be set up: one in which locks are not safe is refused, and rightly;
 * and what has no time for another try says why the last one failed. */
static const char *allowed(const struct cell *c)
{
    if (c->kind->unprepared && strcmp(c->fault->word, "serializable") == 0)
        return "SQLOCK_EREFUSED SQLOCK_EDB 78 70";
    return c->fault->allow ? c->fault->allow : "";
}

/* A number is never used twice: a thread's history has one order. */
void cell_client_start(struct cell *c, struct client *who)
{
    const char *more = c->fault->mix ? c->fault->mix : "", *less = c->kind->mix ? c->kind->mix : "";
    const bool sides = (c->fault->servers & SERVERS_SIDES) != 0;
    const bool grace = (c->fault->servers & SERVERS_GRACE) != 0;

    who->process = ++c->processes;
    who->side = c->side;
    who->pid = cell_again(
        c,
        text("client --folder '%s' --url '%s' --process %" PRIu32 " --seed %" PRIu64 " --names %d "
             "--lease %d --threads %d --mix '%s %s' --allow '%s' --seconds 100000%s%s%s%s",
             c->folder, c->engine.client_url, who->process, c->seed % 1000000007, CELL_NAMES,
             who->command ? CELL_COMMAND_LEASE_MS : c->lease_ms, who->command ? 1 : THREADS, more,
             less, /* the last word about a thing counts */
             allowed(c), who->command ? " --command" : "",
             c->kind->unprepared ? " --unprepared" : "", grace ? " --grace " GRACE_MS : "",
             sides ? text(" --side %d", c->side) : ""),
        path_of(c, who, "err"));
}

void cell_client_kill(struct client *who)
{
    if (!who->pid)
        return;
    kill(who->pid, SIGKILL);
    waitpid(who->pid, NULL, 0);
    who->pid = 0;
}

/* Not of those that run the command: their holders are processes of their own. */
struct client *cell_victim(struct cell *c)
{
    struct client *who;

    do
        who = &c->clients[dice_below(&c->dice, CELL_CLIENTS)];
    while (who->command);
    return who;
}

bool cell_client_is_at(const struct cell *c, const struct client *who, bool asks, int verb)
{
    int fd = open(path_of(c, who, "history"), O_RDONLY | O_CLOEXEC), outcome = 0;
    char tail[257] = "", kind = 0, word[32] = "", *line, *end;
    struct stat st;
    ssize_t n;

    if (fd < 0)
        return false;
    n = fstat(fd, &st) == 0
            ? pread(fd, tail, sizeof tail - 1, st.st_size > 256 ? st.st_size - 256 : 0)
            : -1;
    close(fd);
    end = n > 0 ? strrchr(tail, '\n') : NULL;
    if (!end)
        return false;
    *end = '\0';
    line = strrchr(tail, '\n');
    line = line ? line + 1 : tail;
    return sscanf(line, "%c %*u %*u %*u %31s %d", &kind, word, &outcome) == 3 &&
           kind == (asks ? 'I' : 'R') && strcmp(word, history_verb_word(verb)) == 0 && outcome == 0;
}

static bool has_begun(const struct cell *c, const struct client *who)
{
    struct stat st;

    return stat(path_of(c, who, "history"), &st) == 0 && st.st_size > 0;
}

/* Where the clock is stepped in the clients, the command sees the true one; it has no grace. */
static bool has_command(const struct cell *c)
{
    return !((c->fault->wants & ENGINE_CLOCK) && c->kind->family == FAMILY_SQLITE) &&
           !(c->fault->servers & SERVERS_GRACE);
}

bool cell_clients_start(struct cell *c)
{
    int64_t end_us = now_us() + START_MS * INT64_C(1000);

    for (int i = 0; i < CELL_CLIENTS; i++) {
        c->clients[i].command = i == CELL_CLIENTS - 1 && has_command(c);
        cell_client_start(c, &c->clients[i]);
    }
    for (int i = 0; i < CELL_CLIENTS; i++)
        while (!has_begun(c, &c->clients[i])) {
            if (now_us() > end_us) {
                cell_problem(c, "client %" PRIu32 " has asked for nothing", c->clients[i].process);
                return false;
            }
            sleep_ms(5);
        }
    return true;
}

static void end_client(struct cell *c, struct client *who, int64_t end_us)
{
    int status = 0;

    if (!who->pid)
        return;
    while (waitpid(who->pid, &status, WNOHANG) == 0) {
        if (now_us() > end_us) {
            cell_problem(c, "client %" PRIu32 " does not end", who->process);
            cell_client_kill(who);
            return;
        }
        sleep_ms(5);
    }
    who->pid = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return;
    shell("cat '%s' >&2", path_of(c, who, "err")); /* what it says when it ends with a failure */
    cell_problem(c, "client %" PRIu32 " ended with %s %d", who->process,
                 WIFSIGNALED(status) ? "signal" : "code",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

/* One that ended by itself was told something that nothing explains. */
void cell_clients_look_after(struct cell *c)
{
    for (int i = 0; i < CELL_CLIENTS; i++) {
        siginfo_t info = {0};
        id_t id = (id_t)c->clients[i].pid;

        if (id && waitid(P_PID, id, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid)
            end_client(c, &c->clients[i], now_us());
    }
}

void cell_clients_end(struct cell *c)
{
    int64_t end_us = now_us() + END_MS * INT64_C(1000);

    for (int i = 0; i < CELL_CLIENTS; i++)
        if (c->clients[i].pid)
            kill(c->clients[i].pid, SIGTERM);
    for (int i = 0; i < CELL_CLIENTS; i++)
        end_client(c, &c->clients[i], end_us);
}
