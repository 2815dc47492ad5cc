/* Clients that die, or sleep. */
#include <signal.h>
#include <sqlock/sqlock.h>
#include <string.h>

#include "tests/lib/check.h"
#include "tests/torture/fault.h"

enum { MOMENT_MS = 1000, SLEEPERS = 3 };

/* A client that is at this very point, as far as its history tells: it is killed a moment later, so
 * that some die before the server heard of it, some after. NULL: the moment did not come. */
static struct client *catch (struct cell *c, bool asks, int verb)
{
    int64_t end_us = now_us() + MOMENT_MS * INT64_C(1000);
    struct client *who;

    do {
        who = cell_victim(c);
        for (int i = 0; i < 50; i++)
            if (cell_client_is_at(c, who, asks, verb))
                return who;
        sleep_ms(1);
    } while (now_us() < end_us);
    return NULL;
}

static void kill_one(struct cell *c, bool asks, int verb)
{
    struct client *who = catch (c, asks, verb);

    if (!who)
        return;
    cell_hurt(c);
    cell_client_kill(who);
    cell_healed(c);
    cell_nap(c, 0, 50);
    cell_client_start(c, who);
}

void strike_kill_holder(struct cell *c)
{
    kill_one(c, false, V_ACQUIRE);
}

void strike_kill_asker(struct cell *c)
{
    kill_one(c, true, c->fault->verb);
}

/* Acquire, release, guarded write: all of them write. */
void strike_kill_writer(struct cell *c)
{
    static const int verbs[] = {V_ACQUIRE, V_RELEASE, V_GUARDED};

    kill_one(c, true, verbs[dice_below(&c->dice, 3)]);
}

void strike_kill_all(struct cell *c)
{
    cell_hurt(c);
    for (int i = 0; i < CELL_CLIENTS; i++)
        cell_client_kill(&c->clients[i]);
    cell_healed(c);
    cell_nap(c, 0, 50);
    for (int i = 0; i < CELL_CLIENTS; i++)
        cell_client_start(c, &c->clients[i]);
}

static void note_freeze(struct cell *c, const struct client *who, int64_t from_us)
{
    if (c->n_freezes < CELL_FREEZES)
        c->freezes[c->n_freezes++] = (struct check_freeze){who->process, from_us, sqlock_now_us()};
}

/* Those that hold something are the ones to stop; the others look on, and take it over. */
void strike_stop_client(struct cell *c)
{
    struct client *who[SLEEPERS] = {NULL};
    int64_t from_us[SLEEPERS] = {0};

    who[0] = catch (c, false, V_ACQUIRE);
    if (!who[0])
        return;
    cell_hurt(c);
    for (int i = 0; i < SLEEPERS; i++) {
        if (!who[i])
            who[i] = catch (c, false, V_ACQUIRE);
        for (int k = 0; k < i; k++)
            if (who[i] == who[k])
                who[i] = NULL;
        if (!who[i])
            continue;
        kill(who[i]->pid, SIGSTOP);
        from_us[i] = sqlock_now_us();
    }
    cell_nap(c, c->lease_ms * 11 / 10, c->lease_ms * 15 / 10);
    for (int i = 0; i < SLEEPERS; i++)
        if (who[i]) {
            note_freeze(c, who[i], from_us[i]);
            kill(who[i]->pid, SIGCONT);
        }
    cell_healed(c);
}
