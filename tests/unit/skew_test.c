/* What is known of the server's clock: never more than is true. The test is the server. */
#include <string.h>

#include "core/model/skew.h"
#include "tests/lib/check.h"
#include "tests/lib/dice.h"

#define GRAIN   2000 /* what skew.c grants to clocks that tell milliseconds */
#define STEPS   100000
#define PPM_MAX 500
#define HOUR    INT64_C(3600000000)

/* A server whose clock runs a little too fast or too slow, differently after each request. */
struct world {
    struct dice *dice;
    struct skew known;
    int64_t now;    /* our clock */
    int64_t offset; /* server's clock - ours */
    int64_t ppm;
    int64_t rest; /* of the drift: millionths of a microsecond */
    int coarse;   /* the server tells milliseconds */
};

struct reply {
    int64_t sent, received, server, jumped;
};

static void pass(struct world *w, int64_t us)
{
    w->rest += us * w->ppm;
    w->now += us;
    w->offset += w->rest / 1000000;
    w->rest %= 1000000;
}

static struct world new_world(struct dice *d)
{
    return (struct world){.dice = d,
                          .now = dice_between(d, 0, 1000 * HOUR),
                          .offset = dice_between(d, -1000 * HOUR, INT64_C(1800000000000000)),
                          .ppm = dice_between(d, -PPM_MAX, PPM_MAX),
                          .coarse = dice_below(d, 2) == 0};
}

/* Quick as a rule, now and then slow; the answer's clock is read somewhere on the way. */
static int64_t delay(struct dice *d)
{
    int64_t most = dice_below(d, 10) == 0 ? 1000000 : 2000;

    return dice_between(d, 0, dice_below(d, 3) == 0 ? 0 : most / 2);
}

static struct reply ask(struct world *w)
{
    struct reply r = {.sent = w->now};

    pass(w, delay(w->dice));
    r.server = w->now + w->offset;
    r.server -= w->coarse ? r.server % 1000 : 0;
    pass(w, delay(w->dice));
    r.received = w->now;
    r.jumped = skew_learn(&w->known, r.sent, r.received, r.server);
    return r;
}

static void idle(struct world *w)
{
    static const int64_t most[] = {1000, 1000000, 60000000, 6 * HOUR};

    w->ppm = dice_between(w->dice, -PPM_MAX, PPM_MAX);
    pass(w, dice_between(w->dice, 0, most[dice_below(w->dice, 4)]));
}

static void check_latest(const struct world *w)
{
    struct world later = *w;

    assert_true(skew_server_latest(&w->known, w->now) >= w->now + w->offset);
    later.ppm = dice_between(w->dice, -PPM_MAX, PPM_MAX);
    pass(&later, dice_between(w->dice, 0, 6 * HOUR));
    assert_true(skew_server_latest(&w->known, later.now) >= later.now + later.offset);
}

static void check_bounds(const struct world *w, const struct reply *r)
{
    const struct skew *k = &w->known;

    assert_true(k->known);
    assert_between(k->lo - GRAIN, w->offset, k->hi + GRAIN);
    assert_between(0, k->hi - k->lo, r->received - r->sent); /* nor less than it could be */
}

/* ---- without jumps --------------------------------------------------------------------------- */

TEST(test_bounds_contain_the_truth_and_nothing_alarms_without_a_jump)
{
    struct dice d = dice_new("skew, drift only");
    struct world w = new_world(&d);

    for (int i = 0; i < STEPS; i++) {
        struct reply r = ask(&w);

        assert_int_equal(r.jumped, 0);
        check_bounds(&w, &r);
        check_latest(&w);
        idle(&w);
        if (dice_below(&d, 1000) == 0)
            w = new_world(&d);
    }
}

TEST(test_nothing_is_known_before_the_first_answer)
{
    struct skew s = {0};

    assert_true(skew_server_latest(&s, 0) == INT64_MAX);
    assert_true(skew_server_latest(&s, 1000000) == INT64_MAX);
    assert_int_equal(skew_learn(&s, 1000, 3000, 500000), 0);
    assert_int_equal(s.lo, 497000);
    assert_int_equal(s.hi, 499000);
    assert_true(skew_server_latest(&s, INT64_MAX) == INT64_MAX);
}

TEST(test_quick_answer_narrows_what_a_slow_one_left_open)
{
    struct skew s = {0};

    skew_learn(&s, 0, 5000000, 1000000);
    assert_int_equal(s.hi - s.lo, 5000000);
    skew_learn(&s, 6000000, 6000100, 6000050);
    assert_int_equal(s.hi - s.lo, 100);
    /* and a slow one does not widen it beyond what clocks may run apart */
    skew_learn(&s, 7000000, 12000000, 9500000);
    assert_true(s.hi - s.lo < 20000);
}

/* The bounds are true at the moment when the server read its clock, which may have been as early as
 * `sent`. A request of request_ms' default, with the whole delay on the way back, on a server that
 * runs fast by NTP's limit: 2.5 ms since then. */
TEST(test_bounds_of_a_slow_answer_count_from_when_it_was_sent)
{
    struct world w = {.ppm = PPM_MAX};
    struct reply r = {.sent = w.now, .server = w.now + w.offset};

    pass(&w, 5000000);
    r.received = w.now;
    skew_learn(&w.known, r.sent, r.received, r.server);
    assert_between(w.now + w.offset, skew_server_latest(&w.known, w.now), INT64_MAX);
}

/* ---- jumps ----------------------------------------------------------------------------------- */

static int64_t random_jump(struct dice *d)
{
    static const int64_t most[] = {1000, 100000, 10000000, HOUR};

    return dice_between(d, 1, most[dice_below(d, 4)]);
}

/* What a jump must exceed to be certain: both answers' uncertainty, and what drift explains. */
static int64_t hidden_at_most(const struct skew *before, const struct reply *r, int64_t since)
{
    int64_t width = before->hi - before->lo, passed = r->received - since;

    return width + (r->received - r->sent) + passed / 1000 + passed * PPM_MAX / 1000000 + 3 * GRAIN;
}

TEST(test_jump_forward_is_found_and_never_overstated)
{
    struct dice d = dice_new("skew, jumps forward");
    struct world w = new_world(&d);
    struct reply last = ask(&w);
    int64_t untold = 0; /* jumps that hide in the uncertainty so far */
    int found = 0, due = 0;

    for (int i = 0; i < STEPS; i++) {
        struct skew before = w.known;
        struct reply r;
        int64_t jump = dice_below(&d, 3) == 0 ? random_jump(&d) : 0, drift;

        idle(&w);
        w.offset += jump;
        r = ask(&w);
        drift = (r.received - last.sent) * PPM_MAX / 1000000 + 1;
        if (untold == 0 && jump > hidden_at_most(&before, &r, last.sent)) {
            due++;
            assert_true(r.jumped > 0);
        }
        untold += jump;
        assert_between(0, r.jumped, untold == 0 ? 0 : untold + drift + (w.coarse ? 1000 : 0));
        if (r.jumped > 0) {
            found++;
            untold = 0;
            check_bounds(&w, &r);
        }
        last = r;
        /* begin anew before what is hidden adds up */
        if (untold > 0 || dice_below(&d, 1000) == 0) {
            w = new_world(&d);
            last = ask(&w);
            untold = 0;
        }
    }
    assert_true(found >= due && due > STEPS / 100);
}

TEST(test_steps_backward_do_not_alarm)
{
    struct dice d = dice_new("skew, steps backward");
    struct world w = new_world(&d);

    for (int i = 0; i < STEPS; i++) {
        struct reply r;

        idle(&w);
        if (dice_below(&d, 3) == 0)
            w.offset -= random_jump(&d);
        r = ask(&w);
        assert_int_equal(r.jumped, 0);
        check_latest(&w);
        if (dice_below(&d, 1000) == 0)
            w = new_world(&d);
    }
}

/* Two connections. C's request is answered by the server, but its reply is slow; the server's clock
 * jumps; B asks, is answered, and the jump is told. Then C's reply arrives, which is older than the
 * jump. Taken for a step backward, it makes the next answer tell the same jump again: leases that
 * were granted after the jump lose 60 s that their rows still have. */
TEST(test_answer_from_before_a_jump_does_not_report_the_jump_twice)
{
    const int64_t jump = 60000000;
    struct skew s = {0};
    int64_t told = 0;

    told += skew_learn(&s, 0, 1000, 500);
    assert_int_equal(told, 0);
    /* C: sent at 900000, read at 950000, received last; the clock jumps at 1000000 */
    told += skew_learn(&s, 1010000, 1011000, 1010500 + jump); /* B */
    assert_between(jump - 10000, told, jump + 10000);
    told += skew_learn(&s, 900000, 1200000, 950000); /* C */
    told += skew_learn(&s, 1300000, 1301000, 1300500 + jump);
    assert_between(jump - 10000, told, jump + 10000);
}

/* The same, seen by the request that is sent next: its not_after would lie a minute in the past. */
TEST(test_answer_from_before_a_jump_does_not_hide_it)
{
    const int64_t jump = 60000000;
    struct skew s = {0};

    skew_learn(&s, 0, 1000, 500);
    skew_learn(&s, 1010000, 1011000, 1010500 + jump);
    skew_learn(&s, 900000, 1200000, 950000);
    assert_between(1200000 + jump, skew_server_latest(&s, 1200000), INT64_MAX);
}

TEST_MAIN_EACH(NULL, NULL)
