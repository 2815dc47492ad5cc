/* Networks that cut, hold, delay and dribble. */
#include "tests/lib/check.h"
#include "tests/torture/fault.h"

enum { CUT_MS = 2000 };

static void await_cut(struct cell *c, int before)
{
    int64_t end_us = now_us() + CUT_MS * INT64_C(1000);

    while (proxy_cuts(c->proxy) == before && now_us() < end_us)
        sleep_ms(1);
    cell_healed(c);
}

void strike_reset(struct cell *c)
{
    int before = proxy_cuts(c->proxy);

    cell_hurt(c);
    proxy_cut_after(c->proxy, dice_between(&c->dice, 0, 3000));
    await_cut(c, before);
}

void strike_cut_reply(struct cell *c)
{
    int before = proxy_cuts(c->proxy);

    cell_hurt(c);
    proxy_cut_reply(c->proxy, (int)dice_below(&c->dice, 8));
    await_cut(c, before);
}

/* Until all passes as before. */
static void endure(struct cell *c)
{
    cell_nap(c, c->lease_ms / 2, 2 * c->lease_ms);
    proxy_mode_set(c->proxy, PROXY_PASS);
    proxy_delay(c->proxy, 0);
    proxy_jitter(c->proxy, 0);
    proxy_dribble(c->proxy, 0, 0);
    cell_healed(c);
}

void strike_silence(struct cell *c)
{
    cell_hurt(c);
    proxy_mode_set(c->proxy, c->fault->mode);
    endure(c);
}

void strike_delay(struct cell *c)
{
    cell_hurt(c);
    proxy_delay(c->proxy, (int32_t)dice_between(&c->dice, 0, c->lease_ms / 8));
    proxy_jitter(c->proxy, (int32_t)dice_between(&c->dice, 1, c->lease_ms / 4));
    endure(c);
}

void strike_dribble(struct cell *c)
{
    cell_hurt(c);
    proxy_dribble(c->proxy, (int32_t)dice_between(&c->dice, 1, 16),
                  (int32_t)dice_between(&c->dice, 0, 2));
    endure(c);
}
