/* A client: its start, its threads and its end. */
#include <sqlock/admin.h>

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/pump.h"
#include "tests/torture/client_hand.h"

enum { REQUEST_MS = 2000 };

/* ---- what is asked and answered -------------------------------------------------------------- */

void hand_fetch(struct hand *h, int verb, uint32_t name, int64_t token)
{
    h->at->verb = verb;
    h->at->name = name;
    h->at->token = token;
    h->at->outcome = 0;
    h->at->deadline_us = h->at->value = 0;
    history_invoke(h->crew->history, h->at);
}

void hand_answer(struct hand *h, int outcome, int64_t deadline_us, int64_t value)
{
    h->at->outcome = outcome;
    h->at->deadline_us = deadline_us;
    h->at->value = value;
    history_return(h->crew->history, h->at);
}

/* What needs no explanation by --allow: busy, lost, unsure, away. */
#define EXPLAINED                                                                                  \
    "SQLOCK_EBUSY SQLOCK_ELOST SQLOCK_EUNSURE SQLOCK_EGUARDED SQLOCK_ECANCELLED SQLOCK_ETIMEOUT "  \
    "SQLOCK_ETXGONE SQLOCK_ETXRESTART SQLOCK_EUNREACH"

static void fail(struct crew *c)
{
    atomic_store(&c->failed, true);
    atomic_store(&c->over, true);
}

static bool explain(struct crew *c, uint32_t thread, int code, const sqlock_error *err,
                    const char *what)
{
    if (code == 0 || code == SQLOCK_CONFLICT || plan_lists(EXPLAINED, sqlock_code_name(code)) ||
        plan_lists(c->plan.allow, sqlock_code_name(code)))
        return true;
    fprintf(stderr,
            "client %" PRId64 " (seed %" PRId64 ", thread %" PRIu32
            "): nothing explains that %s said %s: %s [%s %ld]\n",
            c->plan.process, c->plan.seed, thread, what, sqlock_code_name(code), err->text,
            err->sqlstate, err->native);
    fail(c);
    return false;
}

bool hand_explain(struct hand *h, int code, const sqlock_error *err, const char *what)
{
    return explain(h->crew, h->now.thread, code, err, what);
}

bool hand_done(struct hand *h, int rc, const sqlock_error *err, int64_t deadline_us, int64_t value)
{
    hand_answer(h, rc, deadline_us, value);
    return hand_explain(h, rc, err, history_verb_word(h->at->verb));
}

/* ---- choices --------------------------------------------------------------------------------- */

bool hand_dares(struct hand *h, enum client_mix chance)
{
    return (int)dice_below(&h->dice, 1000) < h->crew->plan.mix[chance];
}

/* The last one, if it is not the only one. */
static bool has_slots(const struct plan *p)
{
    return p->names > 1;
}

uint32_t hand_names(const struct hand *h)
{
    return (uint32_t)h->crew->plan.names - has_slots(&h->crew->plan);
}

uint32_t hand_name(struct hand *h)
{
    return (uint32_t)dice_below(&h->dice, hand_names(h));
}

void hand_nap(int64_t ms)
{
    struct timespec left = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};

    while (nanosleep(&left, &left) != 0)
        ;
}

void hand_sleep(struct hand *h, int64_t ms)
{
    int64_t end_us = sqlock_now_us() + ms * 1000, left_ms;

    while (!atomic_load(&h->crew->over) && (left_ms = (end_us - sqlock_now_us() + 999) / 1000) > 0)
        hand_nap(left_ms < 20 ? left_ms : 20);
}

void hand_oversleep(struct hand *h)
{
    hand_sleep(h, h->crew->plan.lease_ms + dice_between(&h->dice, 1, h->crew->plan.lease_ms / 4));
}

/* ---- threads --------------------------------------------------------------------------------- */

static void reap(struct hand *h)
{
    sqlock_reap_opts opts = SQLOCK_REAP_OPTS_INIT;
    sqlock_reap_report report = {.size = sizeof report};
    sqlock_error err = {0};
    int rc;

    opts.grace_ms = 0;
    opts.pause_ms = 0;
    opts.cancel = h->crew->cancel;
    hand_fetch(h, V_REAP, 0, 0);
    rc = sqlock_reap(h->m, &opts, &report, &err);
    hand_done(h, rc, &err, 0, report.cleared + report.pruned);
}

static void step(struct hand *h)
{
    static void (*const steps[])(struct hand *) = {
        [STEP_ROW_LOCK] = rows_row_lock, [STEP_CAS] = rows_cas, [STEP_REAP] = reap};
    const int *weights = h->crew->plan.mix;
    int sum = 0, at, i = 0;

    for (int k = 0; k < STEP_COUNT; k++)
        sum += weights[k];
    at = (int)dice_below(&h->dice, sum > 0 ? (uint64_t)sum : 1);
    while (i < STEP_COUNT - 1 && at >= weights[i])
        at -= weights[i++];
    if (i <= STEP_LOOP)
        lease_take(h, i);
    else
        steps[i](h);
}

static void *hand_main(void *arg)
{
    struct hand *h = arg;

    while (!atomic_load(&h->crew->over))
        if (h->crew->plan.command)
            command_step(h);
        else
            step(h);
    rows_disconnect(h);
    return NULL;
}

/* ---- managers -------------------------------------------------------------------------------- */

static volatile sig_atomic_t ordered_to_end;

static void on_term(int number)
{
    (void)number;
    ordered_to_end = 1;
}

/* Whether the client shall end: it is told so by then, by SIGTERM or by the time. */
static bool is_over(struct crew *c, int32_t wait_ms)
{
    if (!atomic_load(&c->over))
        hand_nap(wait_ms);
    if (ordered_to_end || sqlock_now_us() >= c->end_us)
        atomic_store(&c->over, true);
    return atomic_load(&c->over);
}

static void close_one(sqlock *m)
{
    pump_stop(m);
    sqlock_close(m);
}

/* The database may just be away. */
static bool open_one(struct crew *c, int connections, bool stepped, bool durable, sqlock **out_m)
{
    sqlock_open_opts opts = SQLOCK_OPEN_OPTS_INIT;
    int rc;

    opts.flags = (unsigned)c->plan.open_flags | (durable ? SQLOCK_OPEN_DURABLE_RELEASE : 0);
    opts.connections = connections;
    opts.request_ms = REQUEST_MS;
    opts.grace_ms = (int32_t)c->plan.grace_ms;
    opts.lease_ms = 1000; /* of reapers: the end of one holds no other up for long */
    do {
        sqlock_error err = {0};

        rc = stepped ? pump_open(c->app->driver(), c->plan.url, &opts, out_m, &err)
                     : sqlock_open(c->app->driver(), c->plan.url, &opts, out_m, &err);
        if (!explain(c, 0, rc, &err, "open"))
            return false;
    } while (rc != 0 && !is_over(c, 20));
    return rc == 0;
}

/* What client libraries allocate for as long as a process lives is nothing that is left behind. */
static void *warm_up(void *arg)
{
    struct crew *c = arg;
    sqlock *m = NULL;

    if (!c->plan.command)
        open_one(c, 2, false, false, &m);
    close_one(m);
    return NULL;
}

/* One for all threads, one for each, or something between. A third of them have no threads, and
 * another third, of either, releases on the disk only. */
static bool open_managers(struct crew *c, struct dice *dice)
{
    const int64_t threads = c->plan.threads;

    c->n_managers = dice_below(dice, 2) == 0 ? 1 : dice_between(dice, 1, threads);
    for (int64_t i = 0; i < c->n_managers; i++) {
        int hands = (int)((threads + c->n_managers - 1) / c->n_managers);
        int connections =
            dice_below(dice, 4) == 0 ? (int)dice_between(dice, 2, hands + 1) : hands + 1;

        if (!open_one(c, connections, dice_below(dice, 3) == 0, dice_below(dice, 3) == 0,
                      &c->managers[i]))
            return false;
    }
    return true;
}

/* ---- a client -------------------------------------------------------------------------------- */

static void note_own(struct crew *c, uint32_t op, int verb, int64_t name, int64_t value)
{
    struct event e = {.process = (uint32_t)c->plan.process,
                      .thread = 2 * CLIENT_THREADS_MAX,
                      .op = op,
                      .name = (uint32_t)name,
                      .verb = verb,
                      .value = value};

    history_invoke(c->history, &e);
    history_return(c->history, &e);
}

static void work(struct crew *c, struct hand *hands)
{
    const uint32_t process = (uint32_t)c->plan.process;
    uint32_t started = 0;

    /* For the checker: how far ahead deadlines may lie, who has slots, and whose tokens these are.
     */
    note_own(c, 0, V_LEASE, 0, c->plan.lease_ms);
    if (has_slots(&c->plan))
        note_own(c, 1, V_SLOTS, c->plan.names - 1, CLIENT_SLOTS);
    if (c->plan.side)
        note_own(c, 2, V_SIDE, 0, c->plan.side);
    for (; started < c->plan.threads; started++) {
        struct hand *h = &hands[started];

        *h = (struct hand){
            .crew = c,
            .now = {.process = process, .thread = started},
            .beside = {.process = process, .thread = CLIENT_THREADS_MAX + started},
            .at = &h->now,
            .m = c->plan.command ? NULL : c->managers[started % c->n_managers],
            .dice = dice_of(((uint64_t)c->plan.seed * 1009 + process) * 1013 + started + 1)};
        if (pthread_create(&h->thread, NULL, hand_main, h) != 0) {
            perror("client: a thread");
            fail(c);
            break;
        }
    }
    while (!is_over(c, 10))
        ;
    sqlock_cancel_fire(c->cancel);
    while (started > 0)
        pthread_join(hands[--started].thread, NULL);
}

static void *run(void *arg)
{
    struct crew *c = arg;
    struct dice dice = dice_of((uint64_t)(c->plan.seed * 1009 + c->plan.process));
    struct hand *hands = calloc((size_t)c->plan.threads, sizeof *hands);
    sqlock_error err = {0};

    if (hands == NULL || sqlock_cancel_new(&c->cancel, &err) != 0)
        fail(c);
    else if (c->plan.command || open_managers(c, &dice))
        work(c, hands);
    for (uint32_t i = 0; i < CLIENT_THREADS_MAX; i++)
        close_one(c->managers[i]);
    sqlock_cancel_free(c->cancel);
    free(hands);
    return NULL;
}

/* In a thread of its own: what malloc() keeps for a thread is given back when that ends. */
static void run_aside(struct crew *c, void *(*what)(void *))
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, what, c) == 0) {
        pthread_join(thread, NULL);
        return;
    }
    perror("client: a thread");
    fail(c);
}

int client_main(int argc, char **argv)
{
    struct crew c = {0};

    if (!plan_read(&c.plan, argc, argv) || c.plan.url == NULL ||
        (c.app = app_of(c.plan.url)) == NULL)
        return 2;
    c.before = left_begin();
    c.end_us = sqlock_now_us() + c.plan.seconds * 1000000;
    if ((c.history = history_open(c.plan.folder, (uint32_t)c.plan.process)) < 0) {
        perror(c.plan.folder);
        return 2;
    }
    signal(SIGTERM, on_term);
    run_aside(&c, warm_up);
    c.before.bytes = left_now().bytes;
    if (!atomic_load(&c.over))
        run_aside(&c, run);
    close(c.history);
    if (!left_nothing(&c.before, c.plan.threads, stderr)) {
        fprintf(stderr, "client %" PRId64 " (seed %" PRId64 ") left that behind\n", c.plan.process,
                c.plan.seed);
        return 1;
    }
    return atomic_load(&c.failed) ? 1 : 0;
}

int client_dispatch(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "client") == 0)
        return client_main(argc - 2, argv + 2);
    if (argc > 1 && strcmp(argv[1], "held") == 0)
        return client_held(argc - 2, argv + 2);
    return -1;
}
