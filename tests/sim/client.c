/* Clients: processes that open a manager, and let tasks use locks of it, until they end or are
 * killed. */
#include <stdlib.h>

#include "tests/sim/hand.h"

static bool crew_works(const struct crew *c)
{
    for (int i = 0; i < c->n_hands; i++)
        if (!task_is_over(c->hands[i].task))
            return true;
    return false;
}

/* It ends waits now and then, and all of them at last. */
static void *canceller_main(void *arg)
{
    struct crew *c = arg;

    while (crew_works(c)) {
        for (int i = 0; world.over && i < c->n_hands; i++)
            hand_cancel(&c->hands[i]);
        hand_cancel(&c->hands[dice_below(&world.chance, (uint64_t)c->n_hands)]);
        task_sleep(chance_between(1, world.over ? SIM_SECOND : 20 * SIM_SECOND));
    }
    return NULL;
}

/* The server may just be away. */
static bool crew_opens(struct crew *c)
{
    sqlock_open_opts opts = SQLOCK_OPEN_OPTS_INIT;
    struct event e = {.invoke_us = 0};
    int rc;

    opts.connect = network_connect;
    opts.connect_user = c->process;
    opts.connections = c->connections;
    opts.request_ms = c->request_ms;
    opts.grace_ms = world.grace_ms;
    opts.lease_ms = 1000;
    do {
        sqlock_error err = {0};

        e.invoke_us = sqlock_now_us();
        rc = sqlock_open(network_driver(), NULL, &opts, &c->m, &err);
        if (rc != 0 && record_in_peace(&e))
            record_breach(NULL, "in peace no manager could be opened: %s", err.text);
        if (rc != 0)
            task_sleep(100000);
    } while (rc != 0 && !world.over);
    return rc == 0;
}

static void crew_tells(const struct crew *c)
{
    struct event e = {.process = c->process->number, .thread = SIM_HANDS, .verb = V_LEASE};

    e.value = c->lease_ms;
    record_return(record_invoke(&e), &e);
    e.verb = V_SLOTS;
    e.name = SIM_SLOTS;
    e.value = world.slots;
    if (world.kinds)
        record_return(record_invoke(&e), &e);
}

static void crew_runs(struct crew *c)
{
    struct task *canceller;

    for (int i = 0; i < c->n_hands; i++) {
        struct hand *h = &c->hands[i];

        h->crew = c;
        h->now.process = c->process->number;
        h->now.thread = (uint32_t)i;
        h->beside.process = h->now.process;
        h->beside.thread = SIM_HANDS + 1 + (uint32_t)i;
        h->task = task_start(c->process, hand_main, h);
    }
    canceller = task_start(c->process, canceller_main, c);
    task_join(canceller);
    for (int i = 0; i < c->n_hands; i++)
        task_join(c->hands[i].task);
}

static void *process_main(void *arg)
{
    struct crew *c = arg;
    struct process *p = c->process;
    long left;

    crew_tells(c);
    if (crew_opens(c))
        crew_runs(c);
    sqlock_close(c->m);
    left = network_links(p) + machine_end(p);
    if (left != 0)
        record_breach(NULL, "process %u left %ld links, descriptors or pieces of memory behind",
                      p->number, left);
    p->alive = false;
    p->crew = NULL;
    free(c);
    return NULL;
}

void client_start(struct process *process)
{
    static const int32_t leases_ms[] = {400, 1000, 2000, 5000};
    struct crew *c = calloc(1, sizeof *c);

    if (c == NULL)
        abort();
    machine_begin(process);
    process->number = world.next_number++;
    process->alive = true;
    process->crew = c;
    process->calm_since = world.now;
    c->process = process;
    c->lease_ms = leases_ms[dice_below(&world.chance, 4)];
    c->request_ms = (int32_t)chance_between(1000, 2000);
    c->n_hands = (int)chance_between(1, SIM_HANDS);
    c->connections = chance_of(600) ? 2 : (int)chance_between(3, 6);
    task_start(process, process_main, c);
}

void client_kill(struct process *process)
{
    process->alive = false;
    tasks_kill(process);
    network_drop(process);
    machine_end(process);
    free(process->crew);
    process->crew = NULL;
}
