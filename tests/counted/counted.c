/* The loops: each call, with each fault at its first point, its second ... until there is none. */
#include "tests/counted/scene.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/counted/fault.h"

enum { POINTS_MAX = 5000 };

/* On SQLite and the fake driver there is no link to break: their driver says so. */
static const struct plan plans[] = {
    {"a statement fails", "fake sqlite postgres mysql", AT_REQUESTS, FAULT_ERROR, false},
    {"a request is lost", "fake sqlite", AT_REQUESTS, FAULT_LOSE_REQUEST, false},
    {"a reply is lost", "fake sqlite", AT_REQUESTS, FAULT_LOSE_REPLY, false},
    {"the link breaks before a packet", "postgres mysql", AT_WIRE, FAULT_LOSE_REQUEST, false},
    {"the link breaks after a packet", "postgres mysql", AT_WIRE, FAULT_LOSE_REPLY, false},
    {"the rest of a packet fails", "mysql", AT_PACKETS, FAULT_ERROR, false},
    {"a step finds no memory", "sqlite", AT_WIRE, FAULT_ERROR, false},
    {"the disk fails before a step", "sqlite", AT_WIRE, FAULT_LOSE_REQUEST, false},
    {"the disk fails after a commit", "sqlite", AT_WIRE, FAULT_LOSE_REPLY, false},
    {"an allocation fails", "fake sqlite postgres mysql", AT_MEMORY, FAULT_ERROR, false},
    {"a thread or descriptor is refused", "fake sqlite postgres mysql", AT_SYSTEM, FAULT_ERROR,
     false},
    {"memory is used up", "fake sqlite postgres mysql", AT_MEMORY, FAULT_ERROR, true},
    {"the database is gone for good", "fake sqlite postgres mysql", AT_REQUESTS, FAULT_LOSE_REQUEST,
     true},
    {"the process is killed before a step", "sqlite", AT_WIRE, FAULT_DIE_BEFORE, false},
    {"the process is killed after a step", "sqlite", AT_WIRE, FAULT_DIE_AFTER, false},
    {"the process is killed before a packet", "postgres mysql", AT_WIRE, FAULT_DIE_BEFORE, false},
    {"the process is killed after a packet", "postgres mysql", AT_WIRE, FAULT_DIE_AFTER, false},
};
enum { PLANS = sizeof plans / sizeof *plans };

const struct call *const call_tables[] = {lease_calls,   many_calls,   manager_calls,
                                          adopted_calls, schema_calls, NULL};

/* A test: one call with one kind of fault. */
struct trial {
    const struct quirks *q;
    const struct call *call;
    const struct plan *plan;
    char name[200];
};

static struct place shared; /* the group's */
static bool shared_made;
static int numbers; /* of scenes so far */

static bool kills(const struct plan *plan)
{
    return plan->fault == FAULT_DIE_BEFORE || plan->fault == FAULT_DIE_AFTER;
}

/* ---- what is left behind --------------------------------------------------------------------- */

static int descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    assert_non_null(dir);
    while (readdir(dir) != NULL)
        n++;
    closedir(dir);
    return n;
}

/* ---- places ---------------------------------------------------------------------------------- */

/* A database in memory is made for each point, for its rows are counted with the memory. */
static bool wants_own(const struct trial *t)
{
    return (t->call->needs & OWN_PLACE) || !t->q->between_processes;
}

static void begin_place(const struct trial *t, struct place *p)
{
    struct scene s = {.q = t->q};
    sqlock_open_opts o;
    sqlock_error err;

    if (!wants_own(t)) {
        if (!shared_made)
            place_begin(t->q, &shared);
        shared_made = true;
        *p = shared;
        return;
    }
    memset(p, 0, sizeof *p);
    t->q->make(p);
    s.place = *p;
    o = scene_opts(&s);
    if (!(t->call->needs & NEEDS_BARE))
        assert_ok(sqlock_migrate(t->q->driver(), p->url, &o, NULL, &err), &err);
}

static void end_place(const struct trial *t, struct place *p)
{
    if (wants_own(t))
        t->q->drop(p);
}

static int drop_shared(void **state)
{
    const struct quirks *q = *state;

    if (shared_made)
        q->drop(&shared);
    shared_made = false;
    return 0;
}

/* ---- a call that fails ----------------------------------------------------------------------- */

/* A busy machine, or its disk, may take all the time that a request has: a second. Once in a test.
 */
static int excused;

static bool is_excused(int rc)
{
    return rc == SQLOCK_ETIMEOUT && excused++ == 0;
}

/* Whether the fault happened. */
static bool fail_once(const struct trial *t, const struct place *p, int n)
{
    sqlock_error err = {0};
    struct scene s;
    bool fired;
    int rc;

    scene_begin(&s, t->q, p, t->call, ++numbers);
    fault_arm(t->plan, n);
    rc = t->call->make(&s, &err);
    fired = fault_disarm();
    if (!fired && is_excused(rc))
        fired = true; /* as if by a fault: the next point is tried */
    if (!fired && !(t->call->ends_with == SQLOCK_ECANCELLED && rc == SQLOCK_EUNSURE))
        assert_code(t->call->ends_with, rc, &err);
    scene_judge(&s, rc, &err);
    scene_end(&s);
    scene_heal(&s);
    return fired;
}

/* ---- a process that is killed in a call ------------------------------------------------------ */

struct victim {
    const struct trial *t;
    const struct place *place;
    int number, n;
};

static int execute(void *arg)
{
    const struct victim *v = arg;

    execl("/proc/self/exe", v->t->q->name, v->t->call->name, v->t->plan->name,
          textf("%d", v->number), textf("%d", v->n), v->place->url, v->place->schema, (char *)NULL);
    return 99;
}

static bool kill_once(const struct trial *t, const struct place *p, int n)
{
    struct victim v = {t, p, ++numbers, n};
    struct scene s;
    int end = child_wait(child_start(execute, &v), patience_ms(30000));

    if (end != 0 && end != -9)
        fail_msg("the process ended with %d", end);
    if (end == 0)
        return false;
    scene_after_death(&s, t->q, p, t->call, v.number);
    if (t->call->heal != NULL)
        t->call->heal(&s);
    scene_heal(&s);
    return true;
}

static const struct call *call_named(const char *name)
{
    for (const struct call *const *table = call_tables; *table != NULL; table++)
        for (const struct call *c = *table; c->name != NULL; c++)
            if (strcmp(c->name, name) == 0)
                return c;
    return NULL;
}

static const struct plan *plan_named(const char *name)
{
    for (int i = 0; i < PLANS; i++)
        if (strcmp(plans[i].name, name) == 0)
            return &plans[i];
    return NULL;
}

/* NAME PLAN NUMBER N URL SCHEMA. It ends here, or with 0 when the call has no such point. */
static int be_killed(const struct quirks *q, int argc, char **argv)
{
    const struct plan *plan = plan_named(argv[2]);
    struct place p = {.url = argv[5], .schema = argc > 6 ? argv[6] : NULL};
    sqlock_error err = {0};
    struct scene s;

    scene_begin(&s, q, &p, call_named(argv[1]), atoi(argv[3]));
    fault_arm(plan, atoi(argv[4]));
    s.call->make(&s, &err);
    if (fault_disarm()) { /* in a thread of the library, which kills the process just now */
        sleep_ms(10000);
        return 98;
    }
    scene_end(&s);
    sqlock_close(s.others);
    return 0;
}

/* ---- the loops ------------------------------------------------------------------------------- */

static bool one_point(const struct trial *t, int n)
{
    struct place p;
    long memory;
    int files;
    bool fired;

    if (!wants_own(t))
        begin_place(t, &p); /* the shared one stays */
    memory = memory_live();
    files = descriptors();
    if (wants_own(t))
        begin_place(t, &p);
    fired = kills(t->plan) ? kill_once(t, &p, n) : fail_once(t, &p, n);
    end_place(t, &p);
    assert_int_equal(memory_live(), memory);
    assert_int_equal(descriptors(), files);
    return fired;
}

static void test_call(void **state)
{
    struct trial *t = *state;
    int64_t begun = now_us();
    int n = 0;

    excused = 0;
    do
        printf("point %d of %s\n", ++n, t->name);
    while (one_point(t, n) && n < POINTS_MAX);
    assert_true(n < POINTS_MAX);
    printf("%d points in %d ms: %s\n", n - 1, (int)((now_us() - begun) / 1000), t->name);
    if (t->plan->level == AT_REQUESTS || t->plan->level == AT_WIRE)
        assert_true(n > t->call->least);
    else if (t->plan->level == AT_MEMORY)
        assert_true(n > (t->call->least > 0));
}

/* What make check has no time for. On servers it tries what their own SQL and wire may make of a
 * fault: all else is the core's, and is tried on the fake driver and on SQLite. */
static bool takes_long(const struct quirks *q, const struct call *c, const struct plan *plan)
{
    if (plan->lasts)
        return true;
    if (q->app == NULL || q->app->kill == NULL)
        return false;
    if (kills(plan) || plan->level == AT_MEMORY || plan->level == AT_SYSTEM)
        return true;
    if (c->needs & (OWN_PLACE | NEEDS_NOTHING | OF_THE_CORE))
        return true;
    /* Only the application's transaction goes on behind a statement that failed; and it is gone
     * with its link, whether a packet arrived or not. */
    if (c->needs & NEEDS_APP)
        return plan->level == AT_WIRE && plan->fault != FAULT_LOSE_REPLY;
    return plan->level == AT_REQUESTS;
}

static bool fits(const struct quirks *q, const struct call *c, const struct plan *plan)
{
    if ((c->needs & NEEDS_APP) && q->app == NULL)
        return false;
    if ((c->needs & NO_MANAGERS) && q->born_migrated)
        return false;
    if ((c->needs & NEEDS_GUARDS) && q->guards != NULL && !q->guards())
        return false;
    if ((c->needs & NEEDS_QUEUE) && q->driver()->dialect->scripts[SQLOCK_STMT_WAITERS].n_steps == 0)
        return false;
    if (takes_long(q, c, plan) && getenv("SQLOCK_TEST_COUNTED") == NULL)
        return false;
    return is_word(plan->on, q->name);
}

static size_t fill(const struct quirks *q, struct trial *tests, struct CMUnitTest *run)
{
    size_t n = 0;

    for (const struct call *const *table = call_tables; *table != NULL; table++)
        for (const struct call *c = *table; c->name != NULL; c++)
            for (int k = 0; k < PLANS; k++)
                if (fits(q, c, &plans[k])) {
                    tests[n] = (struct trial){.q = q, .call = c, .plan = &plans[k]};
                    snprintf(tests[n].name, sizeof tests[n].name, "test_%s_when_%s", c->name,
                             plans[k].name);
                    for (char *at = tests[n].name; *at != '\0'; at++)
                        *at = *at == ' ' ? '_' : *at == '\'' ? '_' : *at;
                    run[n] = (struct CMUnitTest){
                        .name = tests[n].name, .test_func = test_call, .initial_state = &tests[n]};
                    n++;
                }
    return n;
}

int counted_run(const struct quirks *q, int argc, char **argv)
{
    static struct trial tests[64 * PLANS];
    static struct CMUnitTest run[64 * PLANS];
    size_t n;
    int failed, code = 0;

    if (q->missing != NULL && q->missing(&code))
        return code;
    if (argc > 5)
        return be_killed(q, argc, argv);
    if (!test_wants(q->name)) {
        printf("SKIP: %s is not among the drivers to test\n", q->name);
        return 0;
    }
    n = fill(q, tests, run);
    failed = _cmocka_run_group_tests(q->name, run, n, NULL, NULL);
    drop_shared((void *[]){(void *)(uintptr_t)q});
    return failed == 0 ? 0 : 1;
}
