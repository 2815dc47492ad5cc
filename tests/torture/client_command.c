/* A client that runs the command: `run` with a child that beats, and acquire, renew and release as
 * a script uses them. */
#include "tests/torture/client_hand.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fcntl.h>

#include "tests/torture/client.h"

enum {
    SAID_MAX = 1024,
    ARGS_MAX = 24,
    BEAT_MS = 3,
    SETTLES = 5,
    PAUSE_MS = 100,       /* at most, between two: a command is many times the work of a call */
    HELD_THREADS = 100000 /* the threads of `held` are told from a client's by it */
};

extern char **environ;

struct said {
    int code; /* minus the signal that ended it */
    char text[SAID_MAX];
};

/* ---- running it -------------------------------------------------------------------------------
 */

/* All that it and its children write, until the last of them has ended. */
static void read_said(int fd, char text[SAID_MAX])
{
    char rest[256];
    size_t used = 0;
    ssize_t n;

    for (;;) {
        n = used < SAID_MAX - 1 ? read(fd, text + used, SAID_MAX - 1 - used)
                                : read(fd, rest, sizeof rest);
        if (n <= 0 && errno != EINTR)
            break;
        if (n > 0 && used < SAID_MAX - 1)
            used += (size_t)n;
    }
    text[used] = '\0';
}

static int spawn(char *const argv[], int out_fd, pid_t *out)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none;
    int rc;

    sigemptyset(&none);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, out_fd, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, out_fd, STDERR_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    rc = posix_spawn(out, argv[0], &files, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return rc;
}

static void execute(char *const argv[], struct said *out)
{
    int ends[2], status = 0, rc;
    pid_t child = -1;

    *out = (struct said){.code = 127};
    if (pipe2(ends, O_CLOEXEC) != 0)
        return;
    rc = spawn(argv, ends[1], &child);
    close(ends[1]);
    if (rc == 0) {
        read_said(ends[0], out->text);
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            ;
        out->code = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
    }
    close(ends[0]);
}

static int code_of(int status)
{
    switch (status) {
    case 0:
        return 0;
    case 1: /* renew and release: no such grant */
    case 76:
        return SQLOCK_ELOST;
    case 69:
        return SQLOCK_EUNREACH;
    case 75:
        return SQLOCK_EBUSY;
    case 79:
        return SQLOCK_EUNSURE;
    default:
        return SQLOCK_EDB;
    }
}

/* --allow may name what it ends with: "74". */
static void explain(struct hand *h, const struct said *said, const char *verb)
{
    int code = code_of(said->code);
    sqlock_error err = {.native = said->code};
    char number[16];

    snprintf(number, sizeof number, "%d", said->code);
    if (code != SQLOCK_EDB || plan_lists(h->crew->plan.allow, number))
        return;
    snprintf(err.text, sizeof err.text, "it ended with %d: %.200s", said->code, said->text);
    hand_explain(h, code, &err, verb);
}

static const char *ttl(const struct hand *h, int32_t *out_ms, char out[16])
{
    *out_ms = h->crew->plan.lease_ms;
    snprintf(out, 16, "%" PRId32 "ms", *out_ms);
    return out;
}

/* sqlock -q -U URL VERB --ttl TTL ..., the rest ends with NULL. */
static void command(struct hand *h, const char *verb, const char *const rest[], struct said *out)
{
    const char *argv[ARGS_MAX] = {TEST_COMMAND, "-q", "-U", h->crew->plan.url};
    size_t n = 4;

    if (h->crew->plan.open_flags & SQLOCK_OPEN_UNPREPARED)
        argv[n++] = "--unprepared";
    if (h->crew->plan.open_flags & SQLOCK_OPEN_ACCEPT_WEAK)
        argv[n++] = "--accept-weak";
    argv[n++] = verb;
    for (size_t i = 0; rest[i] != NULL && n < ARGS_MAX - 1; i++)
        argv[n++] = rest[i];
    execute((char *const *)argv, out);
    explain(h, out, verb);
}

/* ---- run --------------------------------------------------------------------------------------
 */

static void run(struct hand *h, uint32_t name)
{
    const bool slow = hand_dares(h, CHANCE_LONG);
    char self[4096] = "", text[16], life[16], process[16], asked[32], work[16], wait[16] = "-n";
    int32_t lease_ms;
    struct said said;

    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        return;
    ttl(h, &lease_ms, life);
    snprintf(process, sizeof process, "%" PRIu32, h->crew->plan.process);
    snprintf(asked, sizeof asked, "%" PRId64, sqlock_now_us());
    snprintf(work, sizeof work, "%" PRId32,
             slow ? lease_ms + lease_ms / 4 : (int32_t)dice_below(&h->dice, 10));
    if (dice_below(&h->dice, 2) == 0)
        snprintf(wait, sizeof wait, "-w%dms", (int)dice_between(&h->dice, 1, 500));
    hand_ask(h, V_RUN, name, 0);
    command(h, "run",
            (const char *const[]){wait, "--ttl", life, "-k", "100ms", hand_name_text(name, text),
                                  self, "held", "--folder", h->crew->plan.folder, "--process",
                                  process, "--asked", asked, "--work-ms", work, NULL},
            &said);
    hand_answer(h, code_of(said.code), 0, 0);
}

/* ---- acquire, renew, release ------------------------------------------------------------------
 */

struct grant {
    uint32_t name;
    char text[16], life[16], owner[64], token_text[32];
    int64_t token;
    int32_t lease_ms;
};

/* What is left at least of a lease that was asked for at that moment. */
static int64_t deadline_of(const struct grant *g, int64_t asked_us)
{
    return asked_us + (g->lease_ms - g->lease_ms / 10) * INT64_C(1000);
}

static bool read_grant(const struct said *said, struct grant *g)
{
    if (sscanf(said->text, "%63s %" SCNd64, g->owner, &g->token) != 2)
        return false;
    snprintf(g->token_text, sizeof g->token_text, "%" PRId64, g->token);
    return true;
}

/* It has printed the owner alone. */
static bool settle(struct hand *h, struct grant *g, int64_t asked_us)
{
    struct said said = {.code = 79};

    for (int i = 0; i < SETTLES && code_of(said.code) != 0 && code_of(said.code) != SQLOCK_EBUSY &&
                    code_of(said.code) != SQLOCK_ELOST && !atomic_load(&h->crew->failed);
         i++) {
        hand_ask(h, V_SETTLE, g->name, 0);
        command(h, "acquire",
                (const char *const[]){"-n", "--ttl", g->life, "--owner", g->owner, g->text, NULL},
                &said);
        if (said.code == 0 && read_grant(&said, g)) {
            h->at->token = g->token;
            hand_answer(h, 0, deadline_of(g, asked_us), 0);
        } else if (code_of(said.code) == SQLOCK_EBUSY || code_of(said.code) == SQLOCK_ELOST) {
            hand_answer(h, SQLOCK_ELOST, 0, SQLOCK_WHY_NOT_GRANTED);
        } else {
            hand_answer(h, code_of(said.code), 0, 0);
        }
    }
    return said.code == 0;
}

static bool acquire(struct hand *h, struct grant *g)
{
    struct said said;
    int64_t asked_us;
    int rc;

    hand_ask(h, V_ACQUIRE, g->name, 0);
    asked_us = h->at->invoke_us;
    command(h, "acquire", (const char *const[]){"-n", "--ttl", g->life, g->text, NULL}, &said);
    rc = code_of(said.code);
    if (rc == 0 && read_grant(&said, g)) {
        h->at->token = g->token;
        hand_answer(h, 0, deadline_of(g, asked_us), 0);
        return true;
    }
    hand_answer(h, rc, 0, 0);
    return rc == SQLOCK_EUNSURE && sscanf(said.text, "%63s", g->owner) == 1 &&
           settle(h, g, asked_us);
}

static void renew(struct hand *h, struct grant *g)
{
    struct said said;
    int64_t asked_us;
    int rc;

    hand_ask(h, V_RENEW, g->name, g->token);
    asked_us = h->at->invoke_us;
    command(h, "renew",
            (const char *const[]){"--ttl", g->life, g->text, g->owner, g->token_text, NULL}, &said);
    rc = code_of(said.code);
    hand_answer(h, rc, rc == 0 ? deadline_of(g, asked_us) : 0, 0);
}

static void release(struct hand *h, struct grant *g)
{
    struct said said;

    hand_ask(h, V_RELEASE, g->name, g->token);
    command(h, "release", (const char *const[]){g->text, g->owner, g->token_text, NULL}, &said);
    hand_answer(h, code_of(said.code), 0, 0);
}

static void script(struct hand *h, uint32_t name)
{
    struct grant g = {.name = name};

    hand_name_text(name, g.text);
    ttl(h, &g.lease_ms, g.life);
    if (!acquire(h, &g))
        return;
    if (hand_dares(h, CHANCE_RENEW))
        renew(h, &g);
    if (!hand_dares(h, CHANCE_FORGET))
        release(h, &g);
}

void command_step(struct hand *h)
{
    const uint32_t name = hand_name(h);

    hand_nap((int64_t)dice_below(&h->dice, PAUSE_MS));
    if (dice_below(&h->dice, 4) == 0)
        script(h, name);
    else
        run(h, name);
}

/* ---- its child --------------------------------------------------------------------------------
 */

static void note(int history, struct event *e, int verb, int64_t asked_us)
{
    e->verb = verb;
    history_invoke(history, e);
    if (asked_us > 0)
        e->invoke_us = asked_us;
    history_return(history, e);
}

int client_held(int argc, char **argv)
{
    const char *name = getenv("SQLOCK_NAME"), *token = getenv("SQLOCK_TOKEN");
    struct event e = {.thread = HELD_THREADS + (uint32_t)getpid(), .value = 3};
    struct plan p;
    int64_t end_us;
    int history;

    if (name == NULL || *name != 'n' || token == NULL || !plan_read(&p, argc, argv)) {
        fprintf(stderr, "held: SQLOCK_NAME and SQLOCK_TOKEN are not those of a grant\n");
        return 2;
    }
    if ((history = history_open(p.folder, p.process)) < 0)
        return 2;
    e.process = p.process;
    e.name = (uint32_t)strtoul(name + 1, NULL, 10);
    e.token = strtoll(token, NULL, 10);
    note(history, &e, V_ACQUIRE, p.asked_us);
    e.value = 0;
    end_us = sqlock_now_us() + (int64_t)p.work_ms * 1000;
    do {
        note(history, &e, V_BEAT, 0);
        hand_nap(BEAT_MS);
    } while (sqlock_now_us() < end_us);
    close(history);
    return 0;
}
