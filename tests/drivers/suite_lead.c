/* Leader election (recipes/lead.h): of many one leads, and another one follows. */
#define SUITE_NEEDS REGISTERS
#include <sqlock/admin.h>
#include <sqlock/register.h>

#include "recipes/lead.h"
#include "tests/drivers/suite.h"

#define NAME "scheduler"

/* A program that stands for election, and what it does as the leader. */
struct candidate {
    pthread_t thread;
    sqlock *m;
    sqlock_acquire_opts opts;
    atomic_int leads, times; /* now; so far */
    atomic_int resigns;      /* it ends its time as the leader, and what with; -1: not yet */
    atomic_int ends;         /* and so it does when the test ends */
    atomic_llong token;
    int code;
    sqlock_error err;
};

static atomic_int leaders, most_leaders;

static int lead(sqlock_lock *lock, void *user)
{
    struct candidate *c = user;
    int now = atomic_fetch_add(&leaders, 1) + 1;

    if (now > most_leaders)
        most_leaders = now;
    c->token = sqlock_lock_token(lock);
    c->times++;
    c->leads = 1;
    while (sqlock_is_held(lock) && !c->ends && c->resigns < 0 &&
           !lead_is_asked_to_resign(lock, c->m))
        sleep_ms(10);
    c->leads = 0;
    leaders--;
    now = c->resigns;
    c->resigns = -1;
    return now < 0 ? LEAD_AGAIN : now;
}

static void *campaign(void *arg)
{
    struct candidate *c = arg;

    c->code = lead_campaign(c->m, NAME, &c->opts, lead, c, &c->err);
    return NULL;
}

static void begin(struct candidate *c, sqlock *m)
{
    *c = (struct candidate){.m = m, .opts = wait_opts(0, 3000, 0), .resigns = -1};
    ok(sqlock_cancel_new(&c->opts.cancel, &said));
    assert_int_equal(pthread_create(&c->thread, NULL, campaign, c), 0);
}

static void end(struct candidate *c)
{
    sqlock_cancel_fire(c->opts.cancel);
    c->ends = 1;
    pthread_join(c->thread, NULL);
    sqlock_cancel_free(c->opts.cancel);
    check_code(SQLOCK_ECANCELLED, c->code, &c->err, "lead_campaign", __FILE__, __LINE__);
}

#define await(what) assert_soon(what, patience_ms(15000))

static int count_one(const sqlock_waiter *waiter, void *user)
{
    (void)waiter;
    ++*(int *)user;
    return 0;
}

/* One leads, and another one stands in the queue. Who resigns then is not the next leader. */
static bool one_waits(sqlock *m)
{
    int n = 0;

    ok(sqlock_list_waiters(m, NAME, count_one, &n, &said));
    return n == 1;
}

static void begin_two(struct candidate *one, struct candidate *two, sqlock *m, sqlock *other)
{
    leaders = most_leaders = 0;
    begin(one, m);
    await(one->leads);
    begin(two, other);
    await(one_waits(m));
}

TEST_IF(LIBRARY_THREADS | QUEUES, test_next_in_line_leads_when_the_leader_resigns, m, other)
{
    struct candidate one, two;

    begin_two(&one, &two, m, other);
    for (int i = 1; i <= 2; i++) {
        one.resigns = LEAD_AGAIN;
        await(two.leads && one_waits(m));
        assert_true(two.token > one.token);
        two.resigns = LEAD_AGAIN;
        await(one.leads && one_waits(m));
    }
    assert_int_equal(most_leaders, 1);
    end(&two);
    end(&one);
}

TEST_IF(LIBRARY_THREADS | QUEUES, test_P6_leader_whose_lock_is_broken_stands_again, m, other)
{
    struct candidate one, two;

    begin_two(&one, &two, m, other);
    ok(sqlock_break(other, NAME, one.token, &said));
    await(two.leads && !one.leads && one_waits(m));
    two.resigns = LEAD_AGAIN;
    await(one.leads);
    assert_int_equal(one.times, 2);
    end(&one);
    end(&two);
}

TEST_IF(LIBRARY_THREADS | QUEUES, test_leader_hands_over_on_request, m, other)
{
    struct candidate one, two;
    sqlock *by = open_manager(w, NULL);
    sqlock_info leader = {.size = sizeof leader};
    int64_t version = 0, token;
    size_t len = 0;

    assert_int_equal(lead_ask_to_resign(by, NAME, NULL, &said), SQLOCK_ABSENT);
    begin_two(&one, &two, m, other);
    token = one.token;
    ok(lead_ask_to_resign(by, NAME, &leader, &said));
    assert_int_equal(leader.holder.token, token);
    await(two.leads && one_waits(m));
    assert_true(two.token > token);
    sleep_ms(50);
    assert_int_equal(two.leads, 1); /* it was not asked */
    ok(lead_ask_to_resign(by, NAME, NULL, &said));
    ok(lead_ask_to_resign(by, NAME, NULL, &said));
    await(one.times == 2);
    ok(sqlock_register_get(by, NAME, NULL, 0, &len, &version, &said));
    ok(sqlock_register_set(by, NAME, "mine", 4, version, NULL, &said));
    says(SQLOCK_ECORRUPT, lead_ask_to_resign(by, NAME, NULL, &said));
    end(&one);
    end(&two);
}

TEST_IF(LIBRARY_THREADS, test_campaign_ends_as_its_leader_says, m)
{
    struct candidate one;

    begin(&one, m);
    await(one.leads);
    one.resigns = LEAD_END;
    pthread_join(one.thread, NULL);
    sqlock_cancel_free(one.opts.cancel);
    assert_int_equal(one.code, 0);
    assert_true(is_free(m, NAME));
}

static void begin_and_lead(struct candidate *c, sqlock *m)
{
    begin(c, m);
    await(c->leads);
}

/* Else it would send requests as fast as it can. */
TEST_IF(LIBRARY_THREADS, test_campaign_pauses_after_a_grant_that_never_came, m)
{
    struct candidate one;

    spy_end_owners(1);
    assert_takes(900, patience_ms(15000), begin_and_lead(&one, m));
    assert_int_equal(one.times, 1);
    end(&one);
}

/* An owner is granted the lock once, and a campaign needs it again and again. */
CORE_TEST(test_campaign_of_an_owner_is_refused, m)
{
    unsigned char owner[SQLOCK_OWNER_SIZE] = "0123456789abcde";
    sqlock_acquire_opts opts = wait_opts(0, 0, 0);
    struct candidate one = {.m = m, .resigns = LEAD_END};

    opts.owner = owner;
    says(SQLOCK_EINVAL, lead_campaign(m, NAME, &opts, lead, &one, &said));
    opts.owner = NULL;
    says(SQLOCK_EINVAL, lead_campaign(m, NAME, &opts, NULL, &one, &said));
    opts.mode = SQLOCK_SHARED; /* several would lead */
    says(SQLOCK_EINVAL, lead_campaign(m, NAME, &opts, lead, &one, &said));
    assert_int_equal(one.times, 0);
    assert_int_equal(spy_requests(SQLOCK_STMT_ACQUIRE), 0);
}

/* It would hold its other locks, and wait again. */
CORE_TEST(test_campaign_that_closes_a_circle_ends, m)
{
    sqlock_error err = {.flags = SQLOCK_RETRY};

    (void)m;
    assert_int_equal(lead_may_try_again(SQLOCK_EDEADLOCK, &err), 0);
    assert_int_equal(lead_may_try_again(SQLOCK_EBUSY, &err), 1);
}

CORE_TEST(test_campaign_for_a_wrong_name_ends, m)
{
    sqlock_error err = {0};

    assert_int_equal(lead_campaign(m, "", NULL, lead, NULL, &err), SQLOCK_EINVAL);
    assert_int_equal(err.code, SQLOCK_EINVAL);
}
