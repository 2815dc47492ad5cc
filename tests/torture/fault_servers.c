/* Pairs and triples of servers, of which one takes over. Each promotion is a fault of its own. */
#include "tests/lib/check.h"
#include "tests/torture/cell.h"
#include "tests/torture/fault.h"

/* What another server has when it takes over. */
static bool lacks_commits(const struct cell *c)
{
    return !(c->fault->servers & SERVERS_SYNC);
}

/* The primary dies, after commits that nobody else has. */
static void lose_primary(struct cell *c)
{
    cell_hurt(c);
    if (lacks_commits(c)) {
        followers_stall(c);
        cell_nap(c, 20, c->lease_ms / 2);
    }
    engine_kill(&c->engine);
    cell_nap(c, 0, 100);
}

static void recover(struct cell *c)
{
    cell_healed(c);
    followers_await_grant(c);
    cell_nap(c, c->lease_ms / 2, 2 * c->lease_ms);
}

static void fail_over(struct cell *c, int to)
{
    lose_primary(c);
    followers_promote(c, to);
    recover(c);
}

void strike_fail_over(struct cell *c)
{
    fail_over(c, 0);
    followers_rebuild(c, 0);
}

/* The third has what the first had sent it, and nothing of the second. */
void strike_promote_twice(struct cell *c)
{
    fail_over(c, 0);
    fail_over(c, 1);
    followers_rebuild(c, 0);
    followers_rebuild(c, 1);
}

/* The first has all that it had when it died, and nothing of the second. */
void strike_fail_back(struct cell *c)
{
    fail_over(c, 0);
    lose_primary(c);
    followers_fail_back(c, 0);
    recover(c);
    followers_rebuild(c, 0);
}

/* ---- both alive ------------------------------------------------------------------------------ */

/* Clients of the old server are killed; those who were started since reach the new one. */
static void move_clients(struct cell *c, int first, int step)
{
    for (int i = first; i < CELL_CLIENTS; i += step)
        if (c->clients[i].side != c->side) {
            cell_client_kill(&c->clients[i]);
            cell_client_start(c, &c->clients[i]);
        }
}

/* Some clients are parted from the rest with the follower, which is promoted for them. Later the
 * old server dies with all who were left there. */
void strike_split(struct cell *c)
{
    cell_hurt(c);
    followers_stall(c);
    cell_nap(c, 20, c->lease_ms / 2);
    followers_promote(c, 0);
    c->side++;
    cell_healed(c);
    move_clients(c, 0, 2);
    followers_await_grant(c);
    cell_nap(c, c->lease_ms, 4 * c->lease_ms);
    cell_hurt_by(c, 1);
    engine_kill(&c->others[0]);
    move_clients(c, 0, 1);
    cell_healed(c);
    cell_nap(c, c->lease_ms / 2, 2 * c->lease_ms);
    followers_rebuild(c, 0);
}

/* ---- a frozen one ---------------------------------------------------------------------------- */

/* It takes connections and answers nothing, until whoever promoted the other one ends it. */
void strike_freeze(struct cell *c)
{
    cell_hurt(c);
    engine_pause(&c->engine, true);
    cell_nap(c, 0, 100);
    followers_promote(c, 0);
    followers_await_grant(c);
    cell_nap(c, c->lease_ms, 3 * c->lease_ms);
    engine_kill(&c->others[0]);
    cell_healed(c);
    cell_nap(c, c->lease_ms / 2, 2 * c->lease_ms);
    followers_rebuild(c, 0);
}
