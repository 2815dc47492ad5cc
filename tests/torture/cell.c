#include "tests/torture/cell.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/check.h"
#include "tests/torture/client.h"
#include "tests/torture/fault.h"

enum {
    LEASE_MS = 400,
    COMMAND_LEASE_MS = 1000, /* clients that run the command need longer ones */
    SECONDS = 16,
    CALM_MS = 2000,
    CALM_MOST_MS = 12000,
    LONGER = 4,
    THREADS = 4,
    START_MS = 20000,
    END_MS = 20000,
    SLACK_MS = 2000,
    ARGS_MAX = 40,
    SKIPPED = 77
};

/* ---- what goes wrong, and time ----------------------------------------------------------------
 */

void cell_problem(struct cell *c, const char *format, ...)
{
    char text[sizeof c->problem];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "%s %s seed %" PRIu64 ": %s\n", c->kind->name, c->fault->word, c->seed, text);
    if (!c->problem[0])
        memcpy(c->problem, text, sizeof text);
}

void cell_nap(struct cell *c, int32_t least_ms, int32_t most_ms)
{
    sleep_ms(dice_between(&c->dice, least_ms, most_ms));
}

void cell_hurt(struct cell *c)
{
    c->now.verb = V_FAULT;
    c->now.name = fault_number(c->fault);
    c->now.value = c->fault->harm;
    history_invoke(c->history, &c->now);
}

void cell_healed(struct cell *c)
{
    history_return(c->history, &c->now);
    c->events++;
}

/* ---- processes --------------------------------------------------------------------------------
 */

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

static pid_t run(struct cell *c, char *const argv[], const char *err_path)
{
    pid_t parent = getpid();
    pid_t child = fork();

    if (child == 0)
        become(c, argv, err_path, parent);
    if (child < 0)
        fail_msg("fork: %s", strerror(errno));
    return child;
}

pid_t cell_again(struct cell *c, const char *const words[], const char *err_path)
{
    char self[] = "/proc/self/exe";
    char *argv[ARGS_MAX] = {self};

    for (int i = 0; words[i]; i++)
        argv[i + 1] = (char *)(uintptr_t)words[i];
    return run(c, argv, err_path);
}

/* One that hangs is ended, and its code is that of a signal. */
int cell_command(struct cell *c, const char *const words[])
{
    int64_t end_us = now_us() + END_MS * INT64_C(1000);
    char *argv[ARGS_MAX] = {(char *)(uintptr_t)TEST_COMMAND, (char *)(uintptr_t) "-U",
                            c->engine.client_url};
    char path[300];
    int status = 0;
    int n = 3;
    pid_t child;

    if (c->kind->unprepared)
        argv[n++] = (char *)(uintptr_t) "--unprepared";
    for (int i = 0; words[i]; i++)
        argv[n++] = (char *)(uintptr_t)words[i];
    snprintf(path, sizeof path, "%s/command.log", c->folder);
    child = run(c, argv, path);
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (now_us() > end_us)
            kill(child, SIGKILL);
        sleep_ms(2);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* ---- clients ----------------------------------------------------------------------------------
 */

static void err_path(const struct cell *c, const struct client *who, char out[300])
{
    snprintf(out, 300, "%s/%" PRIu32 ".err", c->folder, who->process);
}

/* A number is never used twice: a thread's history has one order. */
void cell_client_start(struct cell *c, struct client *who)
{
    char process[16], seed[32], names[16], lease[16], threads[16], path[300], mix[200];
    const char *words[ARGS_MAX] = {"client",
                                   "--folder",
                                   c->folder,
                                   "--url",
                                   c->engine.client_url,
                                   "--process",
                                   process,
                                   "--seed",
                                   seed,
                                   "--names",
                                   names,
                                   "--lease",
                                   lease,
                                   "--threads",
                                   threads,
                                   "--mix",
                                   mix,
                                   "--allow",
                                   c->fault->allow,
                                   "--seconds",
                                   "100000"};
    const char *less = c->kind->mix ? c->kind->mix : "";
    int n = 21;

    who->process = ++c->processes;
    /* The last word about a thing counts. */
    snprintf(mix, sizeof mix, "%s%s%s", c->fault->mix, *c->fault->mix && *less ? " " : "", less);
    if (who->command)
        words[n++] = "--command";
    if (c->kind->unprepared)
        words[n++] = "--unprepared";
    snprintf(process, sizeof process, "%" PRIu32, who->process);
    snprintf(seed, sizeof seed, "%" PRIu64, c->seed % 1000000007);
    snprintf(names, sizeof names, "%d", CELL_NAMES);
    snprintf(lease, sizeof lease, "%" PRId32, who->command ? COMMAND_LEASE_MS : c->lease_ms);
    snprintf(threads, sizeof threads, "%d", who->command ? 1 : THREADS);
    err_path(c, who, path);
    who->pid = cell_again(c, words, path);
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

static void history_path(const struct cell *c, const struct client *who, char out[300])
{
    snprintf(out, 300, "%s/%" PRIu32 ".history", c->folder, who->process);
}

bool cell_client_is_at(const struct cell *c, const struct client *who, bool asks, int verb)
{
    char path[300], tail[257] = "", kind = 0, word[32] = "";
    char *line, *end;
    int outcome = 0, fd;
    struct stat st;
    ssize_t n;

    history_path(c, who, path);
    fd = open(path, O_RDONLY | O_CLOEXEC);
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
    char path[300];

    history_path(c, who, path);
    return stat(path, &st) == 0 && st.st_size > 0;
}

/* Where the clock is stepped in the clients, the command would see the true one. */
static bool clock_is_ours(const struct cell *c)
{
    return (c->fault->wants & ENGINE_CLOCK) && c->kind->family == FAMILY_SQLITE;
}

static bool start_clients(struct cell *c)
{
    int64_t end_us = now_us() + START_MS * INT64_C(1000);

    for (int i = 0; i < CELL_CLIENTS; i++) {
        c->clients[i].command = i == CELL_CLIENTS - 1 && !clock_is_ours(c);
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

/* What a client says on stderr when it ends with a failure. */
static void put_file(const char *path)
{
    char line[512];
    FILE *f = fopen(path, "r");

    while (f && fgets(line, sizeof line, f))
        fputs(line, stderr);
    if (f)
        fclose(f);
}

static void end_client(struct cell *c, struct client *who, int64_t end_us)
{
    char path[300];
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
    err_path(c, who, path);
    put_file(path);
    cell_problem(c, "client %" PRIu32 " ended with %s %d", who->process,
                 WIFSIGNALED(status) ? "signal" : "code",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

/* One that ended by itself was told something that nothing explains. */
static void look_after_clients(struct cell *c)
{
    for (int i = 0; i < CELL_CLIENTS; i++) {
        siginfo_t info = {0};
        id_t id = (id_t)c->clients[i].pid;

        if (id && waitid(P_PID, id, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid)
            end_client(c, &c->clients[i], now_us());
    }
}

static void end_clients(struct cell *c)
{
    int64_t end_us = now_us() + END_MS * INT64_C(1000);

    for (int i = 0; i < CELL_CLIENTS; i++)
        if (c->clients[i].pid)
            kill(c->clients[i].pid, SIGTERM);
    for (int i = 0; i < CELL_CLIENTS; i++)
        end_client(c, &c->clients[i], end_us);
}

/* ---- set up -----------------------------------------------------------------------------------
 */

static bool shell(const char *command, const char *folder)
{
    char text[600];

    snprintf(text, sizeof text, "%s '%s'", command, folder);
    return system(text) == 0;
}

/* Beside the command, where the build is: a violation is looked at later. */
static bool make_folder(struct cell *c)
{
    const char *slash = strrchr(TEST_COMMAND, '/');

    snprintf(c->folder, sizeof c->folder, "%.*s/histories/%s-%s-%" PRIu64,
             (int)(slash - TEST_COMMAND), TEST_COMMAND, c->kind->name, c->fault->word, c->seed);
    return shell("rm -rf", c->folder) && shell("mkdir -p", c->folder);
}

static void put_proxy_between(struct cell *c)
{
    char *url = c->engine.client_url;
    size_t size = sizeof c->engine.client_url;

    if (c->kind->family == FAMILY_POSTGRES) {
        c->proxy = proxy_start_url(c->engine.client_url);
        snprintf(url, size, "%s", proxy_url(c->proxy));
    } else {
        c->proxy = proxy_start_unix(strstr(url, "socket=") + strlen("socket="));
        snprintf(url, size, "mysql://root@localhost/test?socket=%s/.s.PGSQL.5432",
                 proxy_dir(c->proxy));
    }
}

static bool set_up(struct cell *c)
{
    sqlock_error err = {0};

    if (!make_folder(c) || pipe2(c->pipe, O_CLOEXEC) != 0 ||
        (c->history = history_open(c->folder, 0)) < 0) {
        cell_problem(c, "%s: %s", c->folder, strerror(errno));
        return false;
    }
    if (!engine_start(&c->engine, c->kind, c->fault->wants)) {
        if (!c->engine.why[0])
            cell_problem(c, "the database did not start");
        return false;
    }
    if (sqlock_migrate(c->kind->ops->driver(), c->engine.url, NULL, NULL, &err) != 0) {
        cell_problem(c, "%s", err.text);
        return false;
    }
    if (!client_tables(c->engine.url, CELL_NAMES)) {
        cell_problem(c, "the application's tables could not be made");
        return false;
    }
    if (c->fault->proxied)
        put_proxy_between(c);
    return true;
}

static void tear_down(struct cell *c)
{
    for (int i = 0; i < CELL_CLIENTS; i++)
        cell_client_kill(&c->clients[i]);
    engine_stop(&c->engine);
    proxy_stop(c->proxy);
    c->proxy = NULL;
    close(c->history);
    close(c->pipe[0]);
    close(c->pipe[1]);
}

/* ---- the work ---------------------------------------------------------------------------------
 */

static int64_t least_rate(const struct cell *c)
{
    int64_t rate = c->kind->family == FAMILY_SQLITE ? 200 : 300;

    if (c->fault->proxied || c->kind->unprepared)
        rate = 100;
    return rate / c->share / patience_ms(1);
}

/* Grants so far, and how long it took from the first question on. */
static int64_t grants_so_far(const struct cell *c, int64_t *out_us)
{
    struct event *events = NULL;
    int64_t n = history_read(c->folder, &events), grants = 0;

    for (int64_t i = 0; i < n; i++)
        grants += (events[i].verb == V_ACQUIRE || events[i].verb == V_SETTLE) &&
                  events[i].return_us != HISTORY_NOT_RETURNED && events[i].outcome == 0;
    *out_us = n > 0 ? sqlock_now_us() - events[0].invoke_us : 0;
    free(events);
    return grants;
}

/* A machine that others keep busy gets more time to show that the load is enough. */
static void have_peace(struct cell *c)
{
    int64_t end_us = now_us() + CALM_MOST_MS * INT64_C(1000), passed_us = 0;

    do
        sleep_ms(CALM_MS);
    while (grants_so_far(c, &passed_us) * 1000000 < least_rate(c) * passed_us * 11 / 10 &&
           now_us() < end_us);
}

static bool is_enough(const struct cell *c)
{
    int64_t passed_us = 0;

    return c->events >= CELL_EVENTS_MIN &&
           grants_so_far(c, &passed_us) >= CELL_GRANTS_MIN + CELL_GRANTS_MIN / 10;
}

/* Where they take long, or the machine is busy, it may take some times as long. */
static void strike(struct cell *c)
{
    int64_t tail_us = (c->lease_ms + SLACK_MS) * INT64_C(1000);
    int64_t begun_us = now_us();
    int64_t span_us = (int64_t)c->seconds * 1000000 - tail_us - CALM_MS * INT64_C(1000);

    while (!c->problem[0]) {
        int64_t passed_us = now_us() - begun_us;

        if (passed_us > LONGER * span_us || (passed_us > span_us && is_enough(c)))
            break;
        cell_nap(c, c->fault->gap_ms / 2, c->fault->gap_ms * 3 / 2);
        c->fault->strike(c);
        look_after_clients(c);
    }
}

static void work(struct cell *c)
{
    if (start_clients(c)) {
        have_peace(c);
        strike(c);
        for (int i = 0; i < ENGINE_SESSIONS; i++)
            engine_forget(&c->engine, i);
        sleep_ms(COMMAND_LEASE_MS + SLACK_MS + 300);
    }
    end_clients(c);
}

/* ---- the verdict ------------------------------------------------------------------------------
 */

static void read_rows(struct cell *c, struct check_row rows[CELL_NAMES])
{
    struct client_final finals[CELL_NAMES];

    if (!client_final(c->engine.url, CELL_NAMES, finals)) {
        cell_problem(c, "what clients wrote cannot be read");
        return;
    }
    for (int i = 0; i < CELL_NAMES; i++)
        rows[i] = (struct check_row){finals[i].guarded, finals[i].token, finals[i].row,
                                     finals[i].version, finals[i].changes};
}

static void judge(struct cell *c, FILE *say)
{
    struct check_row rows[CELL_NAMES];
    struct event *events = NULL;
    struct check_rules rules = {.folder = c->folder,
                                .engine = c->kind->name,
                                .fault = c->fault->word,
                                .seed = c->seed,
                                .lease_ms = COMMAND_LEASE_MS,
                                .slack_ms = SLACK_MS,
                                .min_rate = least_rate(c),
                                .min_grants = CELL_GRANTS_MIN,
                                .min_faults = CELL_EVENTS_MIN,
                                .rows = rows,
                                .n_rows = CELL_NAMES};
    int64_t n;

    for (int i = 0; i < CELL_NAMES; i++)
        rows[i] = (struct check_row){CHECK_NOT_READ, CHECK_NOT_READ, CHECK_NOT_READ, CHECK_NOT_READ,
                                     CHECK_NOT_READ};
    read_rows(c, rows);
    n = history_read(c->folder, &events);
    if (check_rules_save(&rules) != 0 || n < 0 ||
        check_history(&rules, events, n, &c->verdict, say) < 0)
        cell_problem(c, "the history could not be checked");
    else
        cell_count_frozen(c, events, n);
    free(events);
    if (c->late > 0)
        cell_problem(c, "%" PRId64 " late guarded writes were accepted", c->late);
}

static struct total total_of(const struct cell *c, int64_t begun_us)
{
    const struct check_verdict *v = &c->verdict;
    struct total t = {.seed = (int64_t)c->seed,
                      .seconds = (now_us() - begun_us) / 1000000,
                      .operations = v->operations,
                      .grants = v->grants,
                      .events = v->faults,
                      .unsure = v->unsure,
                      .settled = v->settled,
                      .frozen = c->frozen,
                      .late = c->late,
                      .refused = v->late_refused,
                      .clock_steps = v->clock_steps,
                      .violations = v->violations,
                      .cells = 1};
    time_t now = time(NULL);
    struct tm utc;

    strftime(t.date, sizeof t.date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    snprintf(t.engine, sizeof t.engine, "%s", c->kind->name);
    snprintf(t.version, sizeof t.version, "%s", c->engine.version);
    snprintf(t.fault, sizeof t.fault, "%s", c->fault->word);
    return t;
}

static void say_end(const struct cell *c, FILE *say)
{
    fprintf(say,
            "%s %s seed %" PRIu64 ": %" PRId64 " operations, %" PRId64 " grants (%" PRId64
            "/s in peace), %d faults, %" PRId64 " unsure, %" PRId64 " settled, %" PRId64
            " frozen, %" PRId64 " late, %" PRId64 " refused, %" PRId64 " violations%s%s\n",
            c->kind->name, c->fault->word, c->seed, c->verdict.operations, c->verdict.grants,
            c->verdict.rate, c->events, c->verdict.unsure, c->verdict.settled, c->frozen, c->late,
            c->verdict.late_refused, c->verdict.violations, c->problem[0] ? "; " : "", c->problem);
    if (c->problem[0] || c->verdict.violations)
        fprintf(say,
                "the history is in %s\n"
                "again: make torture CELL=\"%s %s\" SEED=%" PRIu64 "\n",
                c->folder, c->kind->name, c->fault->word, c->seed);
    else
        shell("rm -rf", c->folder);
}

int cell_run(struct cell *c, struct total *out, FILE *say)
{
    int64_t begun_us = now_us();
    bool fine = set_up(c);

    *out = (struct total){.cells = 0};
    if (!fine && c->engine.why[0]) {
        fprintf(say, "SKIP %s %s: %s\n", c->kind->name, c->fault->word, c->engine.why);
        tear_down(c);
        return SKIPPED;
    }
    if (fine) {
        work(c);
        cell_sweep(c);
        judge(c, say);
        *out = total_of(c, begun_us);
    }
    tear_down(c);
    say_end(c, say);
    /* Too little load, or a client that failed, is no proof: nothing to be added. */
    out->violations -= c->verdict.found[RULE_LOAD];
    if ((c->problem[0] || c->verdict.violations) && out->violations <= 0 && c->late == 0)
        out->date[0] = '\0';
    return c->problem[0] || c->verdict.violations ? 1 : 0;
}

struct cell cell_of(const struct engine_kind *kind, const struct fault_kind *fault, uint64_t seed)
{
    return (struct cell){.kind = kind,
                         .fault = fault,
                         .seed = seed,
                         .seconds = SECONDS,
                         .share = 1,
                         .lease_ms = LEASE_MS,
                         .dice = dice_of(seed),
                         .pipe = {-1, -1},
                         .history = -1};
}
