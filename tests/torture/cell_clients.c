/* The processes of a cell: clients of the library and of the command, from their start to their
 * end. */
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

enum { THREADS = 4, START_MS = 20000, END_MS = 20000, ARGS_MAX = 40 };

/* ---- processes ------------------------------------------------------------------------------- */

static void become(struct cell *c, char *const argv[], const char *err_path, pid_t parent)
{
    int err = open(err_path, O_WRONLY | O_CREAT | O_APPEND, 0666);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (err < 0 || getppid() != parent || dup2(c->pipe[0], 0) < 0 || dup2(err, 1) < 0 ||
        dup2(err, 2) < 0)
        _exit(99);
    close_range(3, ~0U, 0);
    engine_env(&c->engine);
    execv(argv[0], argv);
    _exit(127);
}

pid_t cell_again(struct cell *c, const char *const words[], const char *err_path)
{
    char *argv[ARGS_MAX] = {text("/proc/self/exe")};
    pid_t parent = getpid(), child;

    for (int i = 0; words[i]; i++)
        argv[i + 1] = (char *)(uintptr_t)words[i];
    if ((child = fork()) == 0)
        become(c, argv, err_path, parent);
    if (child < 0)
        fail_msg("fork: %s", strerror(errno));
    return child;
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
    const int lease_ms = who->command ? CELL_COMMAND_LEASE_MS : c->lease_ms;
    const char *words[ARGS_MAX] = {
        "client",
        "--folder",
        c->folder,
        "--url",
        c->engine.client_url,
        "--process",
        text("%" PRIu32, ++c->processes),
        "--seed",
        text("%" PRIu64, c->seed % 1000000007),
        "--names",
        text("%d", CELL_NAMES),
        "--lease",
        text("%d", lease_ms),
        "--threads",
        text("%d", who->command ? 1 : THREADS),
        "--mix",
        text("%s %s", more, less), /* the last word about a thing counts */
        "--allow",
        allowed(c),
        "--seconds",
        "100000"};
    int n = 21;

    who->process = c->processes;
    who->side = c->side;
    if (who->command)
        words[n++] = "--command";
    if (c->kind->unprepared)
        words[n++] = "--unprepared";
    if (c->fault->servers & SERVERS_GRACE) {
        words[n++] = "--grace";
        words[n++] = GRACE_MS;
    }
    if (c->fault->servers & SERVERS_SIDES) {
        words[n++] = "--side";
        words[n++] = text("%d", c->side);
    }
    who->pid = cell_again(c, words, path_of(c, who, "err"));
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

/* Where the clock is stepped in the clients, the command would see the true one; nor does it ask
 * for a grace. */
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
    put_file(path_of(c, who, "err"), stderr); /* what it says when it ends with a failure */
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
