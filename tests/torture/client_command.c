/* A client that runs the command: `run` with a child that beats, and acquire, renew and release as
 * a script uses them. */
#include "tests/torture/client_hand.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    SAID_MAX = 1024,
    BEAT_MS = 3,
    SETTLES = 5,
    PAUSE_MS = 100,       /* at most, between two: a command is many times the work of a call */
    HELD_THREADS = 100000 /* the threads of `held` are told from a client's by it */
};

struct said {
    int status; /* minus the signal that ended it */
    int code;   /* sqlock's, for that */
    char text[SAID_MAX];
};

/* ---- running it ------------------------------------------------------------------------------ */

/* By the shell; all that it and its children write, until the last of them has ended. */
static void execute(const char *line, struct said *out)
{
    FILE *f = popen(line, "re");
    char rest[256];
    int status;

    *out = (struct said){.status = 127};
    if (f == NULL)
        return;
    out->text[fread(out->text, 1, SAID_MAX - 1, f)] = '\0';
    while (fread(rest, 1, sizeof rest, f) > 0)
        ;
    status = pclose(f);
    out->status = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static int code_of(int status)
{
    static const int codes[][2] = {{0, 0},
                                   {1, SQLOCK_ELOST}, /* renew and release: no such grant */
                                   {76, SQLOCK_ELOST},
                                   {69, SQLOCK_EUNREACH},
                                   {75, SQLOCK_EBUSY},
                                   {79, SQLOCK_EUNSURE}};

    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i][0] == status)
            return codes[i][1];
    return SQLOCK_EDB;
}

/* `sqlock -q -U URL`, and a verb with more words. --allow may name what it ends with: "74". */
__attribute__((format(printf, 3, 4))) static int command(struct hand *h, struct said *out,
                                                         const char *format, ...)
{
    const struct plan *p = &h->crew->plan;
    char words[TEXT_SIZE];
    sqlock_error err = {0};
    va_list args;

    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    execute(text("exec %s -q -U '%s' %s %s </dev/null 2>&1", TEST_COMMAND, p->url,
                 p->open_flags & SQLOCK_OPEN_UNPREPARED ? "--unprepared" : "", words),
            out);
    out->code = code_of(out->status);
    if (out->code == SQLOCK_EDB && !plan_lists(p->allow, text("%d", out->status))) {
        err.native = out->status;
        snprintf(err.text, sizeof err.text, "it ended with %d: %.200s", out->status, out->text);
        hand_explain(h, out->code, &err, words);
    }
    return out->code;
}

static void run(struct hand *h, uint32_t name)
{
    const struct plan *p = &h->crew->plan;
    const bool slow = hand_dares(h, CHANCE_LONG);
    const int64_t work_ms = slow ? p->lease_ms * 5 / 4 : (int64_t)dice_below(&h->dice, 10);
    const bool waits = dice_below(&h->dice, 2) == 0;
    const int64_t wait_ms = dice_between(&h->dice, 1, 500);
    char self[1024] = "";
    struct said said;

    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        return;
    hand_fetch(h, V_RUN, name, 0);
    command(h, &said,
            "run %s --ttl %" PRId64 "ms -k 100ms n%" PRIu32
            " %s held --folder %s --process %" PRId64 " --asked %" PRId64 " --work-ms %" PRId64,
            waits ? text("-w%" PRId64 "ms", wait_ms) : "-n", p->lease_ms, name, self, p->folder,
            p->process, h->at->invoke_us, work_ms);
    hand_answer(h, said.code, 0, 0);
}

/* ---- acquire, renew, release ----------------------------------------------------------------- */

struct grant {
    uint32_t name;
    char owner[64];
    int64_t token;
};

/* What is left at least of a lease that was asked for at that moment. */
static int64_t deadline_of(const struct hand *h, int64_t sent_us)
{
    return sent_us + h->crew->plan.lease_ms * 900;
}

/* It has printed the grant. */
static bool is_granted(struct hand *h, const struct said *said, struct grant *g, int64_t sent_us)
{
    if (said->code != 0 || sscanf(said->text, "%63s %" SCNd64, g->owner, &g->token) != 2)
        return false;
    h->at->token = g->token;
    hand_answer(h, 0, deadline_of(h, sent_us), 0);
    return true;
}

/* It has printed the owner alone. */
static bool settle(struct hand *h, struct grant *g, int64_t sent_us)
{
    struct said said;

    for (int i = 0; i < SETTLES && !atomic_load(&h->crew->failed); i++) {
        hand_fetch(h, V_SETTLE, g->name, 0);
        command(h, &said, "acquire -n --ttl %" PRId64 "ms --owner %s n%" PRIu32,
                h->crew->plan.lease_ms, g->owner, g->name);
        if (is_granted(h, &said, g, sent_us))
            return true;
        if (said.code == SQLOCK_EBUSY || said.code == SQLOCK_ELOST) {
            hand_answer(h, SQLOCK_ELOST, 0, SQLOCK_WHY_NOT_GRANTED);
            return false;
        }
        hand_answer(h, said.code, 0, 0);
    }
    return false;
}

static bool acquire(struct hand *h, struct grant *g)
{
    struct said said;
    int64_t sent_us;

    hand_fetch(h, V_ACQUIRE, g->name, 0);
    sent_us = h->at->invoke_us;
    command(h, &said, "acquire -n --ttl %" PRId64 "ms n%" PRIu32, h->crew->plan.lease_ms, g->name);
    if (is_granted(h, &said, g, sent_us))
        return true;
    hand_answer(h, said.code, 0, 0);
    return said.code == SQLOCK_EUNSURE && sscanf(said.text, "%63s", g->owner) == 1 &&
           settle(h, g, sent_us);
}

static void script(struct hand *h, uint32_t name)
{
    struct grant g = {.name = name};
    struct said said;

    if (!acquire(h, &g))
        return;
    if (hand_dares(h, CHANCE_RENEW)) {
        int64_t sent_us;

        hand_fetch(h, V_RENEW, name, g.token);
        sent_us = h->at->invoke_us;
        command(h, &said, "renew --ttl %" PRId64 "ms n%" PRIu32 " %s %" PRId64,
                h->crew->plan.lease_ms, name, g.owner, g.token);
        hand_answer(h, said.code, said.code == 0 ? deadline_of(h, sent_us) : 0, 0);
    }
    if (hand_dares(h, CHANCE_FORGET))
        return;
    hand_fetch(h, V_RELEASE, name, g.token);
    command(h, &said, "release n%" PRIu32 " %s %" PRId64, name, g.owner, g.token);
    hand_answer(h, said.code, 0, 0);
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

/* ---- its child ------------------------------------------------------------------------------- */

static void note(int history, struct event *e, int verb, int64_t sent_us)
{
    e->verb = verb;
    history_invoke(history, e);
    if (sent_us > 0)
        e->invoke_us = sent_us;
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
    if ((history = history_open(p.folder, (uint32_t)p.process)) < 0)
        return 2;
    e.process = (uint32_t)p.process;
    e.name = (uint32_t)strtoul(name + 1, NULL, 10);
    e.token = strtoll(token, NULL, 10);
    note(history, &e, V_ACQUIRE, p.sent_us);
    e.value = 0;
    end_us = sqlock_now_us() + p.work_ms * 1000;
    do {
        note(history, &e, V_BEAT, 0);
        hand_nap(BEAT_MS);
    } while (sqlock_now_us() < end_us);
    close(history);
    return 0;
}
