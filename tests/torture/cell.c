#include "tests/torture/cell.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/check.h"
#include "tests/torture/client.h"
#include "tests/torture/fault.h"

enum {
    LEASE_MS = 400,
    CALM_MS = 2000,
    CALM_MOST_MS = 12000,
    LONGER = 10,
    BESIDE_OTHERS = 4,
    SLACK_MS = 2000,
    SKIPPED = 77
};

/* ---- what goes wrong, and time --------------------------------------------------------------- */

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

void cell_hurt_by(struct cell *c, int64_t harm)
{
    c->now.verb = V_FAULT;
    c->now.name = fault_number(c->fault);
    c->now.value = harm;
    history_invoke(c->history, &c->now);
}

void cell_hurt(struct cell *c)
{
    cell_hurt_by(c, c->fault->harm);
}

void cell_healed(struct cell *c)
{
    history_return(c->history, &c->now);
    c->events++;
}

/* ---- set up ---------------------------------------------------------------------------------- */

/* Beside the command, where the build is: a violation is looked at later. That of the same seed,
 * which failed before, is kept: to run it again may not make it come again. */
static bool make_folder(struct cell *c)
{
    const char *slash = strrchr(TEST_COMMAND, '/');

    snprintf(c->folder, sizeof c->folder, "%.*s/histories/%s-%s-%" PRIu64,
             (int)(slash - TEST_COMMAND), TEST_COMMAND, c->kind->name, c->fault->word, c->seed);
    return (rename(c->folder, text("%s.%" PRId64, c->folder, (int64_t)time(NULL))) == 0 ||
            errno == ENOENT) &&
           shell("mkdir -p '%s'", c->folder);
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

static unsigned wanted(const struct cell *c)
{
    unsigned wants = c->fault->wants;

    if (c->fault->servers)
        wants |= ENGINE_FOLLOWED;
    if (c->fault->servers && c->kind->unprepared)
        wants |= ENGINE_FRONTED;
    return wants;
}

/* False: why is told, or in c->engine.why. */
static bool set_up(struct cell *c)
{
    const char *problem = NULL;
    sqlock_error err = {0};

    if (!make_folder(c) || (c->history = history_open(c->folder, 0)) < 0)
        problem = text("%s: %s", c->folder, strerror(errno));
    else if (!engine_start(&c->engine, c->kind, wanted(c)))
        problem = "the database did not start";
    else if (sqlock_migrate(engine_driver(&c->engine), c->engine.url, NULL, NULL, &err) != 0)
        problem = err.text;
    else if (!client_tables(c->engine.url, CELL_NAMES))
        problem = "the application's tables could not be made";
    if (problem && !c->engine.why[0])
        cell_problem(c, "%s", problem);
    if (problem)
        return false;
    if (c->fault->proxied)
        put_proxy_between(c);
    return !c->fault->servers || (followers_start(c) && front_start(c));
}

static void tear_down(struct cell *c)
{
    for (int i = 0; i < CELL_CLIENTS; i++)
        cell_client_kill(&c->clients[i]);
    front_stop(c);
    if (c->fault->servers)
        engine_kill(&c->engine); /* it would wait for those that follow it */
    followers_stop(c);
    engine_stop(&c->engine);
    proxy_stop(c->proxy);
    c->proxy = NULL;
    close(c->history);
}

/* ---- the work -------------------------------------------------------------------------------- */

/* The short form runs beside other programs, on machines of any speed. How many grants there are in
 * all says whether it has done enough. */
static int64_t least_rate(const struct cell *c)
{
    int64_t rate = c->kind->family == FAMILY_SQLITE ? 200 : 300;

    if (c->fault->proxied || c->kind->unprepared || c->fault->servers)
        rate = 100;
    if (c->share > 1)
        rate /= BESIDE_OTHERS;
    return rate / c->share / patience_ms(1);
}

static int least_events(const struct cell *c)
{
    return c->fault->servers ? CELL_FAILOVERS_MIN : CELL_EVENTS_MIN;
}

/* Grants so far, and how long it took from the first question on. */
static int64_t grants_so_far(const struct cell *c, int64_t *out_us)
{
    struct event *events = NULL;
    int64_t n = history_read(c->folder, &events), grants = 0;

    for (int64_t i = 0; i < n; i++)
        grants +=
            (events[i].verb == V_ACQUIRE || events[i].verb == V_SETTLE) && event_ok(&events[i]);
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

static int64_t least_grants(const struct cell *c)
{
    return CELL_GRANTS_MIN / (c->share > 1 ? 2 : 1);
}

static bool is_enough(const struct cell *c)
{
    int64_t passed_us = 0;

    return c->events >= least_events(c) &&
           grants_so_far(c, &passed_us) >= least_grants(c) * 11 / 10;
}

static int32_t cell_slack_ms(const struct cell *c)
{
    return SLACK_MS + c->kind->unseen_ms;
}

/* Where they take long, or the machine is busy, it may take some times as long. */
static void strike(struct cell *c)
{
    int64_t tail_us = (c->lease_ms + cell_slack_ms(c)) * INT64_C(1000);
    int64_t begun_us = now_us();
    int64_t span_us = (int64_t)c->seconds * 1000000 - tail_us - CALM_MS * INT64_C(1000);

    while (!c->problem[0]) {
        int64_t passed_us = now_us() - begun_us;

        if (passed_us > LONGER * span_us || (passed_us > span_us && is_enough(c)))
            break;
        cell_nap(c, c->fault->gap_ms / 2, c->fault->gap_ms * 3 / 2);
        c->fault->strike(c);
        cell_clients_look_after(c);
    }
}

static void work(struct cell *c)
{
    if (cell_clients_start(c)) {
        have_peace(c);
        strike(c);
        engine_forget(&c->engine);
        sleep_ms(CELL_COMMAND_LEASE_MS + cell_slack_ms(c) + 300);
    }
    cell_clients_end(c);
}

/* ---- the verdict ----------------------------------------------------------------------------- */

static void judge(struct cell *c, FILE *say)
{
    struct check_row rows[CELL_NAMES];
    struct event *events = NULL;
    struct check_rules rules = {.folder = c->folder,
                                .engine = c->kind->name,
                                .fault = c->fault->word,
                                .seed = c->seed,
                                .lease_ms = CELL_COMMAND_LEASE_MS,
                                .slack_ms = cell_slack_ms(c),
                                .min_rate = least_rate(c),
                                .min_grants = least_grants(c),
                                .min_faults = least_events(c),
                                .rows = rows,
                                .n_rows = CELL_NAMES,
                                .freezes = c->freezes,
                                .n_freezes = c->n_freezes};
    int64_t n;

    for (int i = 0; i < CELL_NAMES; i++)
        rows[i] = (struct check_row){CHECK_NOT_READ, CHECK_NOT_READ, CHECK_NOT_READ, CHECK_NOT_READ,
                                     CHECK_NOT_READ};
    if (!client_final(c->engine.url, CELL_NAMES, rows))
        cell_problem(c, "what clients wrote cannot be read");
    n = history_read(c->folder, &events);
    if (check_rules_save(&rules) != 0 || n < 0 ||
        check_history(&rules, events, n, &c->verdict, say) < 0)
        cell_problem(c, "the history could not be checked");
    free(events);
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
                      .frozen = v->frozen,
                      .late = v->found[RULE_STALE] + v->found[RULE_GUARD],
                      .refused = v->late_refused,
                      .clock_steps = v->clock_steps,
                      .violations = v->violations,
                      .overlaps = v->lost_overlaps,
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
    fprintf(say, "%s %s seed %" PRIu64 ": %s%s%" PRId64 " frozen; ", c->kind->name, c->fault->word,
            c->seed, c->problem, c->problem[0] ? "; " : "", c->verdict.frozen);
    if (c->fault->servers)
        fprintf(say, "the first grant %" PRId64 " ms after a promotion at the latest; ",
                c->longest_us / 1000);
    check_print(&c->verdict, say);
    if (c->problem[0] || c->verdict.violations)
        fprintf(say,
                "the history is in %s\n"
                "again: make torture CELL=\"%s %s\" SEED=%" PRIu64 "\n",
                c->folder, c->kind->name, c->fault->word, c->seed);
    else
        shell("rm -rf '%s'", c->folder);
}

int cell_run(struct cell *c, struct total *out, FILE *say)
{
    int64_t begun_us = now_us();
    bool fine, broke = false;

    c->lease_ms = LEASE_MS;
    c->side = 1;
    c->history = -1;
    c->dice = dice_of(c->seed);
    fine = set_up(c);
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
        broke = c->verdict.violations > 0 && engine_clock_broke(&c->engine);
    }
    tear_down(c);
    say_end(c, say);
    if (broke) {
        fprintf(say, "that proves nothing: the server has aborted under libfaketime\n");
        return CELL_BROKE;
    }
    /* Too little load, or a client that failed, is no proof: nothing to be added. */
    out->violations -= c->verdict.found[RULE_LOAD];
    if ((c->problem[0] || c->verdict.violations) && out->violations <= 0)
        out->date[0] = '\0';
    return c->problem[0] || c->verdict.violations ? 1 : 0;
}
