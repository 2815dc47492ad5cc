/* Reaping: what ran out is cleared, what nobody uses is pruned, nothing else (P2, P3, P10). */
#include "tests/drivers/suite_reap.h"
#include "tests/drivers/suite_seats.h"

/* ---- clearing -------------------------------------------------------------------------------- */

TEST(test_reap_clears_what_ran_out_and_nothing_else, m)
{
    int64_t token = abandon(m, "dead");

    abandon(m, "dead too");
    give(take(m, "free"));
    age(w, HOUR_MS);
    sqlock_lock *lock = take_for(m, "alive", 600000, 0);
    sqlock_reap_report r = reap_now(m);

    assert_int_equal(r.ran, 1);
    assert_int_equal(r.more, 0);
    assert_int_equal(r.cleared, 2);
    assert_int_equal(r.pruned, 0);
    assert_int_equal(r.seen, 4);
    assert_between(1, r.batches, 2);
    assert_between(HOUR_MS - 600000, r.oldest_ms, HOUR_MS - 600000 + patience_ms(60000));
    assert_between(1, r.longest_us, r.duration_us);
    assert_int_equal(count_rows(m).rows, 4);
    assert_int_equal(count_rows(m).held, 1);
    ok(sqlock_renew(lock, &said));
    assert_true(token_of(m, "dead") > token);
    give(lock);

    r = reap_now(m);
    assert_int_equal(r.cleared, 0);
    assert_int_equal(r.oldest_ms, 0);
}

TEST(test_reap_leaves_what_ran_out_within_the_grace, m)
{
    abandon(m, "dead");
    age(w, HOUR_MS);
    assert_int_equal(reap_with(m, with.grace_ms = HOUR_MS).cleared, 0);
    assert_int_equal(reap_with(m, with.grace_ms = HOUR_MS / 2).cleared, 1);
}

/* No page's end and no namespace's hides anything. */
TEST(test_reap_goes_over_pages_and_namespaces)
{
    sqlock_open_opts oo = SQLOCK_OPEN_OPTS_INIT;
    sqlock *managers[3];
    char name[32];

    for (int i = 0; i < 3; i++) {
        oo.ns = i == 0 ? "" : i == 1 ? "a" : "zzz";
        managers[i] = open_manager(w, &oo);
        for (int j = 0; j < 25; j++) {
            snprintf(name, sizeof name, "job/%d", j);
            if (j % 5 == 0)
                give(take(managers[i], name));
            else
                abandon(managers[i], name);
        }
    }
    age(w, HOUR_MS);
    sqlock_reap_report r = reap_with(managers[1], with.batch = 7);
    assert_int_equal(r.cleared, 60);
    assert_int_equal(r.seen, 75);
    for (int i = 0; i < 3; i++)
        assert_int_equal(count_rows(managers[i]).held, 0);
}

/* ---- pruning --------------------------------------------------------------------------------- */

TEST(test_reap_prunes_long_idle_rows_and_tokens_go_on_rising, m)
{
    int64_t token = 0, high = 0;

    for (int i = 0; i < 5; i++)
        high = token_of(m, "busy once");
    token = token_of(m, "idle");
    age(w, 3 * HOUR_MS);
    give(take(m, "fresh"));
    sqlock_reap_report r = reap_idle(m);
    assert_int_equal(r.pruned, 2);
    assert_int_equal(r.cleared, 0);
    assert_int_equal(count_rows(m).rows, 1);
    assert_between(high + 1, token_of(m, "busy once"), SQLOCK_TOKEN_MAX);
    assert_between(token + 1, token_of(m, "idle"), SQLOCK_TOKEN_MAX);
    assert_int_equal(reap_idle(m).pruned, 0);
}

/* P2: each page has a largest token of its own, and the floor is that of all. */
TEST(test_reap_of_smaller_tokens_leaves_the_floor_where_it_is, m)
{
    int64_t high = 0;

    for (int i = 0; i < 5; i++)
        high = token_of(m, "busy once");
    token_of(m, "calm");
    age(w, 3 * HOUR_MS);
    assert_int_equal(reap_with(m, with.idle_ms = SQLOCK_REAP_IDLE_MIN_MS, with.batch = 1).pruned,
                     2);
    assert_between(high + 1, token_of(m, "busy once"), SQLOCK_TOKEN_MAX);
}

/* What ran out is cleared first, and is pruned only when it has been free for long. */
TEST(test_reap_does_not_prune_what_it_just_cleared, m)
{
    int64_t token = abandon(m, "dead");

    age(w, 30 * 24 * HOUR_MS);
    sqlock_reap_report r = reap_idle(m);
    assert_int_equal(r.cleared, 1);
    assert_int_equal(r.pruned, 0);
    age(w, 3 * HOUR_MS);
    assert_int_equal(reap_idle(m).pruned, 1);
    assert_between(token + 1, token_of(m, "dead"), SQLOCK_TOKEN_MAX);
}

/* The seats go first. Then the row says that there are none, and is idle from then on. */
TEST_IF(QUEUES, test_reap_prunes_what_was_shared, m)
{
    static const int64_t modes[] = {SQLOCK_SHARED, SQLOCK_SLOTS(2)};

    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        sqlock_lock *lock = sit(m, "door", modes[i]);
        int64_t token = sqlock_lock_token(lock);

        give(lock);
        age(w, 3 * HOUR_MS);
        assert_int_equal(reap_idle(m).pruned, 1);
        age(w, 3 * HOUR_MS);
        assert_int_equal(
            reap_with(m, with.idle_ms = SQLOCK_REAP_IDLE_MIN_MS, with.flags = SQLOCK_REAP_DRY_RUN)
                .pruned,
            0);
        assert_int_equal(reap_idle(m).pruned, 0);
        age(w, 3 * HOUR_MS);
        assert_int_equal(reap_idle(m).pruned, 1);
        assert_int_equal(count_rows(m).rows, 0);
        assert_between(token + 1, token_of(m, "door"), SQLOCK_TOKEN_MAX);
    }
}

TEST_IF(QUEUES, test_reap_leaves_a_row_whose_seat_is_taken, m, other)
{
    sqlock_acquire_opts opts = mode_opts(SQLOCK_SHARED, 0);
    sqlock_lock *lock = NULL;

    opts.lease_ms = SQLOCK_LEASE_MAX_MS;
    ok(sqlock_acquire(m, "door", &opts, &lock, &said));
    for (int i = 0; i < 3; i++) {
        age(w, 3 * HOUR_MS);
        assert_int_equal(reap_idle(other).pruned, 0);
        assert_int_equal(try_mode(other, "door", SQLOCK_EXCLUSIVE), SQLOCK_EBUSY);
    }
    give(keep(lock));
}

TEST(test_reap_keeps_idle_rows_when_it_has_to, m)
{
    give(take(m, "idle"));
    age(w, 365 * 24 * HOUR_MS);
    assert_int_equal(reap_with(m, with.idle_ms = SQLOCK_REAP_KEEP).pruned, 0);
    assert_int_equal(reap(m, NULL).pruned, 1); /* the default: 7 days */
}

/* ---- limits, a dry run, a cancel ------------------------------------------------------------- */

CORE_TEST(test_reap_stops_at_its_limits, m)
{
    sqlock_reap_report r;

    abandon_jobs(m, 10);
    age(w, HOUR_MS);
    for (int i = 0; i < 2; i++) {
        r = i ? reap_with(m, with.limit = 0) : reap_with(m, with.max_ms = 0);
        assert_int_equal(r.cleared + r.seen, 0);
        assert_int_equal(r.more, 1);
    }
    r = reap_with(m, with.limit = 3);
    assert_int_equal(r.cleared, 3);
    assert_int_equal(r.more, 1);
    assert_int_equal(count_rows(m).held, 7);
    r = reap_with(m, with.batch = 1, with.max_ms = 300, with.pause_ms = 250);
    assert_between(1, r.cleared, 6);
    assert_int_equal(r.more, 1);
    assert_int_equal(reap_with(m, with.batch = 1).more, 0);
    assert_int_equal(count_rows(m).held, 0);
}

TEST(test_dry_run_counts_and_changes_nothing, m)
{
    abandon(m, "dead");
    give(take(m, "idle"));
    age(w, 5 * HOUR_MS);
    for (int i = 0; i < 2; i++) {
        sqlock_reap_report r =
            reap_with(m, with.idle_ms = SQLOCK_REAP_IDLE_MIN_MS, with.flags = SQLOCK_REAP_DRY_RUN);
        assert_int_equal(r.ran, 1);
        assert_int_equal(r.cleared, 1);
        assert_int_equal(r.pruned, 1);
        assert_int_equal(r.seen, 2);
        assert_int_equal(r.batches, 0);
    }
    assert_int_equal(spy_runs(SQLOCK_STMT_REAP) + spy_runs(SQLOCK_STMT_PRUNE), 0);
    assert_int_equal(spy_runs(SQLOCK_STMT_ACQUIRE), 2);
    assert_int_equal(count_rows(m).rows, 2);
    assert_int_equal(count_rows(m).held, 1);
}

CORE_TEST(test_second_reaper_goes_away_quietly)
{
    sqlock_open_opts oo = SQLOCK_OPEN_OPTS_INIT;
    sqlock_reap_opts o = reap_at_once();
    struct reaper first = {0};

    oo.ns = "elsewhere"; /* the lease is the table's, not a namespace's */
    sqlock *m = open_manager(w, &oo);
    reaper_start(&first, w, 5);
    sqlock_reap_report r = reap(m, &o);
    assert_int_equal(r.ran, 0);
    assert_int_equal(r.cleared + r.seen + r.batches, 0);
    o.flags = SQLOCK_REAP_DRY_RUN;
    assert_int_equal(reap(m, &o).ran, 1);
    pthread_join(first.thread, NULL);
    assert_ok(first.code, &first.err);
    assert_int_equal(first.r.cleared, 5);
    o.flags = 0;
    assert_int_equal(reap(m, &o).ran, 1);
}

CORE_TEST(test_reap_can_be_cancelled)
{
    struct reaper r = {0};
    sqlock_cancel *cancel = NULL;
    sqlock_reap_opts o = reap_at_once();

    ok(sqlock_cancel_new(&cancel, &said));
    sqlock *m = open_manager(w, NULL);
    abandon_jobs(m, 3);
    age(w, HOUR_MS);
    r.m = m;
    r.o = o;
    r.o.batch = 1;
    r.o.pause_ms = 60000;
    r.o.cancel = cancel;
    assert_int_equal(pthread_create(&r.thread, NULL, reaper_main, &r), 0);
    assert_soon(count_rows(m).held == 2, patience_ms(5000));
    sleep_ms(patience_ms(200)); /* a commit may be seen before it is answered */
    sqlock_cancel_fire(cancel);
    pthread_join(r.thread, NULL);
    assert_code(SQLOCK_ECANCELLED, r.code, &r.err);
    assert_int_equal(r.r.cleared, 1);         /* the report tells what was done */
    assert_int_equal(reap(m, &o).cleared, 2); /* its lease was given back */
    r.o.flags = SQLOCK_REAP_DRY_RUN;
    says(SQLOCK_ECANCELLED, sqlock_reap(m, &r.o, NULL, &said));
    sqlock_cancel_free(cancel);
}

/* ---- its own lease and its arguments --------------------------------------------------------- */

TEST(test_reapers_own_lease_meets_no_users_name)
{
    static const char *const spaces[] = {"", "sqlock", "reap"};
    sqlock_open_opts oo = SQLOCK_OPEN_OPTS_INIT;

    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++) {
        oo.ns = spaces[i];
        sqlock *m = open_manager(w, &oo);
        sqlock_lock *lock = take(m, "reap");
        sqlock_reap_report r = reap_idle(m);
        assert_int_equal(r.ran, 1);
        assert_int_equal(r.seen, i + 1);
        assert_int_equal(count_rows(m).rows, 1);
        give(lock);
    }
}

CORE_TEST(test_reap_checks_its_arguments_before_any_request, m)
{
    sqlock_reap_opts o = reap_at_once();
    sqlock_reap_report r = {0};
    long before = spy_runs(-1);

    says(SQLOCK_EINVAL, sqlock_reap(NULL, NULL, NULL, &said));
    says(SQLOCK_EINVAL, sqlock_reap(m, NULL, &r, &said));
    o.idle_ms = SQLOCK_REAP_IDLE_MIN_MS - 1;
    says(SQLOCK_EINVAL, sqlock_reap(m, &o, NULL, &said));
    assert_non_null(strstr(said.text, "reap: idle_ms"));
    assert_int_equal(spy_runs(-1), before);
}
