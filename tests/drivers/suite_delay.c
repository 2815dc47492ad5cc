/* A delay after a loss (recipes/delay.h): who follows a holder that lost its lock waits before it
 * begins. */
#define SUITE_NEEDS REGISTERS
#include <sqlock/admin.h>
#include <sqlock/register.h>

#include "recipes/delay.h"
#include "tests/drivers/suite.h"

#define NAME "printer"

enum { LONG_MS = 600000, SHORT_MS = 700 };

/* What a test must not wait for: it would take longer than this. */
#define assert_at_once(call) assert_takes(0, patience_ms(30000), call)
#define assert_waits(call)   assert_takes(SHORT_MS, SHORT_MS + patience_ms(30000), call)

static struct delay begin(sqlock *m, int32_t delay_ms)
{
    struct delay d;

    ok(delay_acquire(&d, m, NAME, NULL, delay_ms, &said));
    keep(d.lock);
    return d;
}

static void end(struct delay *d)
{
    forget(d->lock);
    ok(delay_release(d, &said));
    assert_null(d->lock);
}

/* Its holder ends as if it had been killed; an operator sees to it that no one waits for its lease.
 */
static void die(struct delay *d, sqlock *by)
{
    int64_t token = sqlock_lock_token(d->lock);

    drop(d->lock);
    ok(sqlock_break(by, NAME, token, &said));
}

static void write_register(sqlock *m, const char *text)
{
    int64_t version = 0;
    size_t len = 0;

    ok(sqlock_register_get(m, NAME, NULL, 0, &len, &version, &said));
    ok(sqlock_register_set(m, NAME, text, strlen(text), version, NULL, &said));
}

/* ---- whether it waits ------------------------------------------------------------------------ */

TEST(test_holder_behind_a_release_begins_at_once, m, other)
{
    struct delay d;

    assert_at_once(d = begin(m, LONG_MS)); /* the first one of all */
    assert_int_equal(d.after_loss, 0);
    end(&d);
    assert_at_once(d = begin(other, LONG_MS));
    assert_int_equal(d.after_loss, 0);
    end(&d);
}

TEST(test_holder_behind_a_broken_one_waits_while_it_holds_the_lock, m, other)
{
    struct delay d = begin(m, LONG_MS);
    sqlock_lock *lock = d.lock;

    ok(sqlock_break(other, NAME, sqlock_lock_token(lock), &said));
    assert_waits(d = begin(other, SHORT_MS));
    assert_int_equal(d.after_loss, 1);
    assert_int_equal(try_once(m, NAME), SQLOCK_EBUSY);
    end(&d);
    assert_at_once(d = begin(m, LONG_MS)); /* and the next one not */
    assert_int_equal(d.after_loss, 0);
    end(&d);
}

/* It renews its lease in the delay. */
TEST(test_holder_behind_a_lease_that_ran_out_waits_longer_than_its_own_lease, m, other)
{
    sqlock_acquire_opts opts = wait_opts(30000, 400, 0);
    struct delay d;

    ok(delay_acquire(&d, m, NAME, &opts, LONG_MS, &said));
    sqlock_lock_free(d.lock); /* its lease runs out */
    opts.lease_ms = 1500;
    assert_takes(2500, 2500 + patience_ms(30000),
                 ok(delay_acquire(&d, other, NAME, &opts, 2500, &said)));
    assert_int_equal(d.after_loss, 1);
    ok(delay_release(&d, &said));
}

/* ---- who dies where -------------------------------------------------------------------------- */

/* Between its grant and its note it had not begun: its predecessor's end counts. */
TEST(test_holder_that_died_before_its_note_is_passed_over, m, other)
{
    struct delay d = begin(m, LONG_MS), dead = {.lock = NULL};

    end(&d);
    dead.lock = take(m, NAME);
    die(&dead, other);
    assert_at_once(d = begin(other, LONG_MS));
    assert_int_equal(d.after_loss, 0);
    die(&d, m);
    dead.lock = take(m, NAME); /* as if it had died in its delay */
    die(&dead, other);
    assert_waits(d = begin(other, SHORT_MS));
    assert_int_equal(d.after_loss, 1);
    end(&d);
}

/* Between its note and its release its work was over. */
TEST(test_holder_that_died_before_its_release_is_waited_for_no_more, m, other)
{
    struct delay d = begin(m, LONG_MS);

    write_register(m, textf("closed %lld", (long long)sqlock_lock_token(d.lock)));
    die(&d, other);
    assert_at_once(d = begin(other, LONG_MS));
    end(&d);
}

/* It does not know yet that it has lost the lock, and says that its work is over. */
TEST(test_former_holder_does_not_close_for_its_successor, m, other)
{
    struct delay former = begin(m, LONG_MS), d;
    int64_t version = 0, now = 0;
    size_t len = 0;

    ok(sqlock_break(other, NAME, sqlock_lock_token(former.lock), &said));
    d = begin(other, 0);
    ok(sqlock_register_get(m, NAME, NULL, 0, &len, &version, &said));
    forget(former.lock);
    says(SQLOCK_ELOST, delay_release(&former, &said));
    ok(sqlock_register_get(m, NAME, NULL, 0, &len, &now, &said));
    assert_int_equal(now, version);
    die(&d, m);
    assert_waits(d = begin(m, SHORT_MS));
    end(&d);
}

static int32_t delay_of_thread = LONG_MS;

static void *begin_in_thread(void *arg)
{
    struct waiter *t = arg;
    struct delay d;

    t->code = delay_acquire(&d, t->m, NAME, &t->opts, delay_of_thread, &t->err);
    t->ended = 1;
    if (t->code == 0 && delay_release(&d, &t->err) != 0)
        t->code = t->err.code;
    return NULL;
}

/* One that has lost the lock is followed by one that waits on a thread. Returns the token of the
 * first. */
static int64_t start_delay(struct waiter *t, sqlock *m, sqlock *other)
{
    struct delay d = begin(m, LONG_MS);
    const int64_t former = sqlock_lock_token(d.lock);
    sqlock_info info = {.size = sizeof info};
    long looks;

    die(&d, other);
    looks = spy_runs(SQLOCK_STMT_REGISTER_GET);
    assert_int_equal(pthread_create(&t->thread, NULL, begin_in_thread, t), 0);
    assert_soon(sqlock_find(m, NAME, &info, NULL) == 0 && info.held &&
                    spy_runs(SQLOCK_STMT_REGISTER_GET) > looks,
                patience_ms(15000));
    return former;
}

static void await_end(struct waiter *t, int code)
{
    assert_soon(t->ended, patience_ms(15000));
    pthread_join(t->thread, NULL);
    check_code(code, t->code, &t->err, "delay_acquire", __FILE__, __LINE__);
}

TEST(test_cancel_ends_the_delay_and_the_loss_is_not_forgotten, m, other)
{
    struct waiter t = {.m = other, .opts = wait_opts(30000, 0, 0)};
    struct delay d;

    ok(sqlock_cancel_new(&t.opts.cancel, &said));
    start_delay(&t, m, other);
    sqlock_cancel_fire(t.opts.cancel);
    await_end(&t, SQLOCK_ECANCELLED);
    sqlock_cancel_free(t.opts.cancel);
    assert_true(is_free(m, NAME));
    assert_waits(d = begin(m, SHORT_MS));
    end(&d);
}

TEST(test_lock_that_is_lost_in_the_delay_ends_it, m, other)
{
    struct waiter t = {.m = other, .opts = wait_opts(30000, 600, 0)};
    struct delay d;

    start_delay(&t, m, other);
    ok(sqlock_break(m, NAME, token_in_the_row(m, NAME), &said));
    await_end(&t, SQLOCK_ELOST);
    assert_waits(d = begin(m, SHORT_MS));
    end(&d);
}

/* ---- the register ---------------------------------------------------------------------------- */

TEST(test_lost_reply_of_a_note_is_settled, m, other)
{
    struct delay d;

    spy_lose_reply(SQLOCK_STMT_REGISTER_SET);
    assert_at_once(d = begin(m, LONG_MS));
    spy_lose_reply(SQLOCK_STMT_REGISTER_SET);
    end(&d);
    assert_at_once(d = begin(other, LONG_MS));
    die(&d, m);
    spy_lose_reply(SQLOCK_STMT_REGISTER_SET);
    assert_waits(d = begin(m, SHORT_MS));
    end(&d);
}

/* Something is written between the look and the note. By a former holder, whose work is over now,
 * or had not begun: this one begins when its own delay is over. By itself, and the reply was lost.
 * By a later holder: then it has lost the lock. */
TEST(test_note_that_changed_meanwhile_is_read_again, m, other)
{
    static const struct {
        const char *word;
        enum { FORMER, OWN, LATER } whose;
        int code;
    } met[] = {{"closed", FORMER, 0},
               {"open", FORMER, 0},
               {"open", OWN, 0},
               {"open", LATER, SQLOCK_ELOST},
               {"closed", LATER, SQLOCK_ELOST},
               {"opened", OWN, SQLOCK_ECORRUPT}};

    for (size_t i = 0; i < sizeof met / sizeof *met; i++) {
        struct waiter t = {.m = other, .opts = wait_opts(30000, 0, 0)};
        int64_t token;

        write_register(m, "");
        delay_of_thread = SHORT_MS;
        token = start_delay(&t, m, other);
        if (met[i].whose != FORMER)
            token = met[i].whose == OWN ? token_in_the_row(m, NAME) : SQLOCK_TOKEN_MAX;
        write_register(m, textf("%s %lld", met[i].word, (long long)token));
        await_end(&t, met[i].code);
        delay_of_thread = LONG_MS;
        assert_true(is_free(m, NAME));
    }
}

TEST(test_register_of_others_is_refused_by_a_delay, m)
{
    static const char *const texts[] = {
        "7",        "open",
        "open x",   "opened 7",
        "closed",   "closed 7 8",
        "open 7\n", "closed 7 ",
        "once 7 8", "open 7 and a text that is longer than any note, by far"};
    struct delay d;

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        size_t len = 0;
        int64_t version = 0, now = 0;

        write_register(m, texts[i]);
        ok(sqlock_register_get(m, NAME, NULL, 0, &len, &version, &said));
        says(SQLOCK_ECORRUPT, delay_acquire(&d, m, NAME, NULL, LONG_MS, &said));
        assert_non_null(strstr(said.text, "something else"));
        assert_null(d.lock);
        assert_true(is_free(m, NAME));
        ok(sqlock_register_get(m, NAME, NULL, 0, &len, &now, &said));
        assert_int_equal(now, version);
    }
    write_register(m, "");
    d = begin(m, LONG_MS);
    end(&d);
}

CORE_TEST(test_delay_that_could_not_be_kept_is_refused, m)
{
    sqlock_acquire_opts opts[] = {wait_opts(0, 0, 0), wait_opts(0, 0, 0), wait_opts(0, 0, 0),
                                  wait_opts(0, 0, SQLOCK_NO_RENEW)};
    struct delay d;

    opts[0].mode = SQLOCK_SHARED;
    opts[1].mode = SQLOCK_SLOTS(2);
    opts[2].max_hold_ms = 1000;
    for (int i = 0; i < 4; i++) {
        says(SQLOCK_EINVAL, delay_acquire(&d, m, NAME, &opts[i], 1000, &said));
        assert_null(d.lock);
    }
    says(SQLOCK_EINVAL, delay_acquire(&d, m, NAME, NULL, -1, &said));
    says(SQLOCK_EINVAL, delay_acquire(&d, m, "", NULL, 0, &said));
    opts[2].max_hold_ms = 1001;
    ok(delay_acquire(&d, m, NAME, &opts[2], 1000, &said));
    ok(delay_release(&d, &said));
}

TEST(test_lock_that_is_held_is_reported_and_no_note_is_written, m, other)
{
    sqlock_acquire_opts opts = wait_opts(0, 0, 0);
    struct delay d = begin(m, 0), refused;
    long sets = spy_runs(SQLOCK_STMT_REGISTER_SET);

    says(SQLOCK_EBUSY, delay_acquire(&refused, other, NAME, &opts, 0, &said));
    assert_null(refused.lock);
    assert_int_equal(spy_runs(SQLOCK_STMT_REGISTER_SET), sets);
    end(&d);
}
