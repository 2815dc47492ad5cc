/* Reaping: what ran out is cleared, what nobody used for long is pruned, and nothing else is
 * touched (P2, P3, P10). */
#include "tests/drivers/suite_guest.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define HOUR_MS INT64_C(3600000)

/* ---- small steps ----------------------------------------------------------------------------- */

/* Without waiting for anything that ran out, or for the clock to pass. */
static sqlock_reap_opts at_once(void)
{
    sqlock_reap_opts o = SQLOCK_REAP_OPTS_INIT;

    o.grace_ms = 0;
    o.pause_ms = 0;
    return o;
}

static sqlock_reap_report reap(sqlock *m, const sqlock_reap_opts *o)
{
    sqlock_reap_report r = {.size = sizeof r};
    sqlock_error err = {0};

    assert_ok(sqlock_reap(m, o, &r, &err), &err);
    return r;
}

static void age(struct world *w, int64_t ms)
{
    w->q->age(&w->place, ms);
}

/* A holder that died: its handle is freed, its row stays held until its lease runs out. */
static int64_t abandon(sqlock *m, const char *name)
{
    sqlock_lock *lock = take_for(m, name, 600000, SQLOCK_NO_RENEW);
    int64_t token = sqlock_lock_token(lock);

    sqlock_lock_free(lock);
    return token;
}

static int64_t token_of(sqlock *m, const char *name)
{
    sqlock_lock *lock = take(m, name);
    int64_t token = sqlock_lock_token(lock);

    give(lock);
    return token;
}

struct count {
    int rows, held;
};

static int count_one(const sqlock_info *info, void *user)
{
    struct count *c = user;

    c->rows++;
    c->held += info->held;
    return 0;
}

static struct count count_rows(sqlock *m)
{
    sqlock_list_opts o = SQLOCK_LIST_OPTS_INIT;
    struct count c = {0, 0};
    sqlock_error err = {0};

    o.flags = SQLOCK_LIST_FREE;
    assert_ok(sqlock_list(m, &o, count_one, &c, &err), &err);
    return c;
}

/* ---- clearing -------------------------------------------------------------------------------- */

static void test_reap_clears_what_ran_out_and_nothing_else(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
    sqlock_reap_opts o = at_once();
    int64_t token = abandon(m, "dead");

    abandon(m, "dead too");
    give(take(m, "free"));
    age(w, HOUR_MS);
    sqlock_lock *lock = take_for(m, "alive", 600000, 0);
    sqlock_reap_report r = reap(m, &o);

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
    sqlock_error err = {0};
    assert_ok(sqlock_renew(lock, &err), &err);
    assert_int_equal(token_of(m, "dead"), token + 1);
    give(lock);

    r = reap(m, &o);
    assert_int_equal(r.cleared, 0);
    assert_int_equal(r.oldest_ms, 0);
}

static void test_reap_leaves_what_ran_out_within_the_grace(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
    sqlock_reap_opts o = at_once();

    abandon(m, "dead");
    age(w, HOUR_MS);
    o.grace_ms = HOUR_MS;
    assert_int_equal(reap(m, &o).cleared, 0);
    o.grace_ms = HOUR_MS / 2;
    assert_int_equal(reap(m, &o).cleared, 1);
}

/* No page's end and no namespace's hides anything. */
static void test_reap_goes_over_pages_and_namespaces(void **state)
{
    struct world *w = world(state);
    sqlock_reap_opts o = at_once();
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
    o.batch = 7;
    sqlock_reap_report r = reap(managers[1], &o);
    assert_int_equal(r.cleared, 60);
    assert_int_equal(r.seen, 75);
    for (int i = 0; i < 3; i++)
        assert_int_equal(count_rows(managers[i]).held, 0);
}

static void test_late_holder_finds_its_row_free_or_taken_but_never_its_own(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL), *other = open_manager(w, NULL);
    sqlock_reap_opts o = at_once();
    sqlock_error err = {0};
    sqlock_lock *late = take_for(m, "nightly", 600000, SQLOCK_NO_RENEW);

    age(w, HOUR_MS);
    assert_int_equal(reap(other, &o).cleared, 1);
    assert_code(SQLOCK_ELOST, sqlock_renew(late, &err), &err);
    sqlock_lock *next = take(other, "nightly");
    assert_between(sqlock_lock_token(late) + 1, sqlock_lock_token(next), SQLOCK_TOKEN_MAX);
    assert_code(SQLOCK_ELOST, sqlock_release(late, &err), &err);
    assert_int_equal(sqlock_is_held(next), 1);
    assert_ok(sqlock_renew(next, &err), &err);
    sqlock_lock_free(late);
    give(next);
}

/* ---- pruning --------------------------------------------------------------------------------- */

static void test_reap_prunes_long_idle_rows_and_tokens_go_on_rising(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
    sqlock_reap_opts o = at_once();
    int64_t token = 0, high = 0;

    for (int i = 0; i < 5; i++)
        high = token_of(m, "busy once");
    token = token_of(m, "idle");
    age(w, 3 * HOUR_MS);
    give(take(m, "fresh"));
    o.idle_ms = SQLOCK_REAP_IDLE_MIN_MS;
    sqlock_reap_report r = reap(m, &o);
    assert_int_equal(r.pruned, 2);
    assert_int_equal(r.cleared, 0);
    assert_int_equal(count_rows(m).rows, 1);
    assert_between(high + 1, token_of(m, "busy once"), SQLOCK_TOKEN_MAX);
    assert_between(token + 1, token_of(m, "idle"), SQLOCK_TOKEN_MAX);
    assert_int_equal(reap(m, &o).pruned, 0);
}

/* P2: each page has a largest token of its own, and the floor is that of all. */
static void test_reap_of_smaller_tokens_leaves_the_floor_where_it_is(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
    sqlock_reap_opts o = at_once();
    int64_t high = 0;

    for (int i = 0; i < 5; i++)
        high = token_of(m, "busy once");
    token_of(m, "calm");
    age(w, 3 * HOUR_MS);
    o.idle_ms = SQLOCK_REAP_IDLE_MIN_MS;
    o.batch = 1;
    assert_int_equal(reap(m, &o).pruned, 2);
    assert_between(high + 1, token_of(m, "busy once"), SQLOCK_TOKEN_MAX);
}

/* What ran out is cleared first, and is pruned only when it has been free for long. */
static void test_reap_does_not_prune_what_it_just_cleared(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
    sqlock_reap_opts o = at_once();
    int64_t token = abandon(m, "dead");

    o.idle_ms = SQLOCK_REAP_IDLE_MIN_MS;
    age(w, 30 * 24 * HOUR_MS);
    sqlock_reap_report r = reap(m, &o);
    assert_int_equal(r.cleared, 1);
    assert_int_equal(r.pruned, 0);
    age(w, 3 * HOUR_MS);
    assert_int_equal(reap(m, &o).pruned, 1);
    assert_between(token + 1, token_of(m, "dead"), SQLOCK_TOKEN_MAX);
}

static void test_reap_keeps_idle_rows_when_it_is_told_to(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
    sqlock_reap_opts o = at_once();

    give(take(m, "idle"));
    age(w, 365 * 24 * HOUR_MS);
    o.idle_ms = SQLOCK_REAP_KEEP;
    assert_int_equal(reap(m, &o).pruned, 0);
    assert_int_equal(reap(m, NULL).pruned, 1); /* the default: 7 days */
}

/* ---- limits, a dry run, a cancel ------------------------------------------------------------- */

static void test_reap_stops_at_its_limits(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
    sqlock_reap_opts o = at_once();
    sqlock_reap_report r;
    char name[32];

    for (int j = 0; j < 10; j++) {
        snprintf(name, sizeof name, "job/%d", j);
        abandon(m, name);
    }
    age(w, HOUR_MS);
    o.limit = 0;
    r = reap(m, &o);
    assert_int_equal(r.cleared + r.seen, 0);
    assert_int_equal(r.more, 1);
    o.limit = SQLOCK_REAP_NO_LIMIT;
    o.max_ms = 0;
    r = reap(m, &o);
    assert_int_equal(r.cleared + r.seen, 0);
    assert_int_equal(r.more, 1);
    o.max_ms = SQLOCK_REAP_NO_LIMIT;
    o.limit = 3;
    r = reap(m, &o);
    assert_int_equal(r.cleared, 3);
    assert_int_equal(r.more, 1);
    assert_int_equal(count_rows(m).held, 7);
    o.limit = SQLOCK_REAP_NO_LIMIT;
    o.batch = 1;
    o.max_ms = 60;
    o.pause_ms = 50;
    r = reap(m, &o);
    assert_between(1, r.cleared, 6);
    assert_int_equal(r.more, 1);
    o.max_ms = SQLOCK_REAP_NO_LIMIT;
    o.pause_ms = 0;
    r = reap(m, &o);
    assert_int_equal(r.more, 0);
    assert_int_equal(count_rows(m).held, 0);
}

static void test_dry_run_counts_and_changes_nothing(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
    sqlock_reap_opts o = at_once();

    abandon(m, "dead");
    give(take(m, "idle"));
    age(w, 5 * HOUR_MS);
    o.idle_ms = SQLOCK_REAP_IDLE_MIN_MS;
    o.flags = SQLOCK_REAP_DRY_RUN;
    for (int i = 0; i < 2; i++) {
        sqlock_reap_report r = reap(m, &o);
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

struct reaper {
    sqlock *m;
    sqlock_reap_opts o;
    sqlock_reap_report r;
    sqlock_error err;
    pthread_t thread;
    int code;
};

static void *reaper_main(void *arg)
{
    struct reaper *r = arg;

    r->r.size = sizeof r->r;
    r->code = sqlock_reap(r->m, &r->o, &r->r, &r->err);
    return NULL;
}

/* One that works for long: row by row, with pauses. */
static void reaper_start(struct reaper *r, struct world *w, int rows)
{
    sqlock_open_opts oo = SQLOCK_OPEN_OPTS_INIT;
    char name[32];

    oo.lease_ms = patience_ms(1500);
    sqlock *m = open_manager(w, &oo);
    for (int j = 0; j < rows; j++) {
        snprintf(name, sizeof name, "job/%03d", j);
        abandon(m, name);
    }
    age(w, HOUR_MS);
    r->m = m;
    r->o = at_once();
    r->o.batch = 1;
    r->o.pause_ms = 100;
    assert_int_equal(pthread_create(&r->thread, NULL, reaper_main, r), 0);
    assert_soon(spy_runs(SQLOCK_STMT_REAP) > 0, patience_ms(5000));
}

static void test_second_reaper_goes_away_quietly(void **state)
{
    struct world *w = world(state);
    sqlock_open_opts oo = SQLOCK_OPEN_OPTS_INIT;
    sqlock_reap_opts o = at_once();
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

static void test_reap_can_be_cancelled(void **state)
{
    struct world *w = world(state);
    struct reaper r = {0};
    sqlock_error err = {0};
    sqlock_cancel *cancel = NULL;
    sqlock_reap_opts o = at_once();

    assert_ok(sqlock_cancel_new(&cancel, &err), &err);
    sqlock *m = open_manager(w, NULL);
    char name[32];
    for (int j = 0; j < 3; j++) {
        snprintf(name, sizeof name, "job/%d", j);
        abandon(m, name);
    }
    age(w, HOUR_MS);
    r.m = m;
    r.o = o;
    r.o.batch = 1;
    r.o.pause_ms = 60000;
    r.o.cancel = cancel;
    assert_int_equal(pthread_create(&r.thread, NULL, reaper_main, &r), 0);
    assert_soon(count_rows(m).held == 2, patience_ms(5000));
    sqlock_cancel_fire(cancel);
    pthread_join(r.thread, NULL);
    assert_code(SQLOCK_ECANCELLED, r.code, &r.err);
    assert_int_equal(r.r.cleared, 1);         /* the report tells what was done */
    assert_int_equal(reap(m, &o).cleared, 2); /* its lease was given back */
    r.o.flags = SQLOCK_REAP_DRY_RUN;
    assert_code(SQLOCK_ECANCELLED, sqlock_reap(m, &r.o, NULL, &err), &err);
    sqlock_cancel_free(cancel);
}

/* ---- its own lease and its arguments --------------------------------------------------------- */

static void test_reapers_own_lease_meets_no_users_name(void **state)
{
    static const char *const spaces[] = {"", "sqlock", "reap"};
    struct world *w = world(state);
    sqlock_open_opts oo = SQLOCK_OPEN_OPTS_INIT;
    sqlock_reap_opts o = at_once();

    o.idle_ms = SQLOCK_REAP_IDLE_MIN_MS;
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++) {
        oo.ns = spaces[i];
        sqlock *m = open_manager(w, &oo);
        sqlock_lock *lock = take(m, "reap");
        sqlock_reap_report r = reap(m, &o);
        assert_int_equal(r.ran, 1);
        assert_int_equal(r.seen, i + 1);
        assert_int_equal(count_rows(m).rows, 1);
        give(lock);
    }
}

static void test_reap_checks_its_arguments_before_any_request(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
    sqlock_error err = {0};
    sqlock_reap_opts o = at_once();
    sqlock_reap_report r = {0};
    long before = spy_runs(-1);

    assert_code(SQLOCK_EINVAL, sqlock_reap(NULL, NULL, NULL, &err), &err);
    assert_code(SQLOCK_EINVAL, sqlock_reap(m, NULL, &r, &err), &err);
    o.idle_ms = SQLOCK_REAP_IDLE_MIN_MS - 1;
    assert_code(SQLOCK_EINVAL, sqlock_reap(m, &o, NULL, &err), &err);
    assert_non_null(strstr(err.text, "reap: idle_ms"));
    assert_int_equal(spy_runs(-1), before);
}

/* A program that was built with an older header gets as much as it knows. */
static void test_report_is_filled_as_far_as_the_caller_knows_it(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
    sqlock_reap_report r;
    sqlock_error err = {0};

    give(take(m, "one"));
    memset(&r, 0x55, sizeof r);
    r.size = offsetof(sqlock_reap_report, pruned);
    assert_ok(sqlock_reap(m, NULL, &r, &err), &err);
    assert_int_equal(r.size, offsetof(sqlock_reap_report, pruned));
    assert_int_equal(r.ran, 1);
    assert_int_equal(r.cleared, 0);
    assert_true(r.pruned == INT64_C(0x5555555555555555));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_reap_clears_what_ran_out_and_nothing_else),
    cmocka_unit_test(test_reap_leaves_what_ran_out_within_the_grace),
    cmocka_unit_test(test_reap_goes_over_pages_and_namespaces),
    cmocka_unit_test(test_late_holder_finds_its_row_free_or_taken_but_never_its_own),
    cmocka_unit_test(test_reap_prunes_long_idle_rows_and_tokens_go_on_rising),
    cmocka_unit_test(test_reap_of_smaller_tokens_leaves_the_floor_where_it_is),
    cmocka_unit_test(test_reap_does_not_prune_what_it_just_cleared),
    cmocka_unit_test(test_reap_keeps_idle_rows_when_it_is_told_to),
    cmocka_unit_test(test_reap_stops_at_its_limits),
    cmocka_unit_test(test_dry_run_counts_and_changes_nothing),
    cmocka_unit_test(test_second_reaper_goes_away_quietly),
    cmocka_unit_test(test_reap_can_be_cancelled),
    cmocka_unit_test(test_reapers_own_lease_meets_no_users_name),
    cmocka_unit_test(test_reap_checks_its_arguments_before_any_request),
    cmocka_unit_test(test_report_is_filled_as_far_as_the_caller_knows_it),
};
PART(suite_reap, tests);

/* ---- past the library ------------------------------------------------------------------------ */

static void execute(struct world *w, const char *format)
{
    char sql[512], table[128];
    const char *at = strstr(format, "{lock}");

    snprintf(table, sizeof table, "%s%ssqlock_lock", w->place.schema ? w->place.schema : "",
             w->place.schema ? "." : "");
    snprintf(sql, sizeof sql, "%.*s%s%s", (int)(at - format), format, table, at + 6);
    w->q->execute(&w->place, sql);
}

/* The row is swept away while the holder still believes in it: it is told why. */
static void test_holder_learns_that_it_was_reaped(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL), *other = open_manager(w, NULL);
    sqlock_reap_opts o = at_once();
    sqlock_error err = {0};
    sqlock_lock *lock = take_for(m, "nightly", 600000, SQLOCK_NO_RENEW);
    sqlock_lock *released = take_for(m, "weekly", 600000, SQLOCK_NO_RENEW);

    age(w, HOUR_MS);
    assert_int_equal(reap(other, &o).cleared, 2);
    assert_code(SQLOCK_ELOST, sqlock_renew(lock, &err), &err);
    assert_int_equal(sqlock_lock_why(lock), SQLOCK_WHY_REAPED);
    assert_code(SQLOCK_ELOST, sqlock_release(released, &err), &err);
    assert_int_equal(sqlock_lock_why(released), SQLOCK_WHY_REAPED);
    sqlock_lock_free(lock);
    sqlock_lock_free(released);
}

/* P20: what a later version keeps in the table. */
static void test_reap_leaves_rows_of_kinds_and_queues_that_it_does_not_know(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
    sqlock_reap_opts o = at_once();

    o.idle_ms = SQLOCK_REAP_IDLE_MIN_MS;
    abandon(m, "held");
    give(take(m, "free"));
    execute(w, "UPDATE {lock} SET kind = 7");
    age(w, 30 * 24 * HOUR_MS);
    sqlock_reap_report r = reap(m, &o);
    assert_int_equal(r.cleared + r.pruned, 0);
    execute(w, "UPDATE {lock} SET kind = 0, waiters = 1");
    r = reap(m, &o);
    assert_int_equal(r.cleared, 1);
    assert_int_equal(r.pruned, 0);
    execute(w, "UPDATE {lock} SET waiters = 0, next_ticket = 3");
    age(w, 30 * 24 * HOUR_MS);
    assert_int_equal(reap(m, &o).pruned, 0);
    execute(w, "UPDATE {lock} SET next_ticket = 0");
    assert_int_equal(reap(m, &o).pruned, 2);
}

/* The row of its own lease is as old as any, and stays: its tokens need no floor. */
static void test_reaper_never_prunes_its_own_row(void **state)
{
    struct world *w = world(state);
    sqlock *m = open_manager(w, NULL);
    sqlock_reap_opts o = at_once();

    o.idle_ms = SQLOCK_REAP_IDLE_MIN_MS;
    for (int i = 0; i < 2; i++) {
        sqlock_reap_report r = reap(m, &o);
        assert_int_equal(r.pruned + r.seen, 0);
        age(w, 30 * 24 * HOUR_MS);
    }
    /* NULL is refused: the statement fails unless the row is that of the third grant */
    reap(m, &o);
    execute(w, "UPDATE {lock} SET token = CASE WHEN token = 3 THEN 3 ELSE NULL END "
               "WHERE length(name) = 4");
}

/* Somebody took its lease away: it stops, says so, and what it did is done. */
static void test_reaper_that_lost_its_lease_stops(void **state)
{
    struct world *w = world(state);
    struct reaper r = {0};

    reaper_start(&r, w, 200);
    execute(w, "UPDATE {lock} SET owner = NULL, exp = NULL, ended_why = 2, ended_token = token, "
               "ended_owner = owner WHERE length(ns) = 7");
    pthread_join(r.thread, NULL);
    assert_code(SQLOCK_ELOST, r.code, &r.err);
    assert_between(1, r.r.cleared, 199);
    assert_int_equal(count_rows(r.m).held, 200 - r.r.cleared);
}

static const struct CMUnitTest sql_tests[] = {
    cmocka_unit_test(test_holder_learns_that_it_was_reaped),
    cmocka_unit_test(test_reap_leaves_rows_of_kinds_and_queues_that_it_does_not_know),
    cmocka_unit_test(test_reaper_never_prunes_its_own_row),
    cmocka_unit_test(test_reaper_that_lost_its_lease_stops),
};
PART(suite_reap_sql, sql_tests);

/* ---- beside an application's transaction ------------------------------------------------------
 */

/* Seen under load: a second reaper whose every look met the first one's transactions said that the
 * lock is guarded. */
static void test_reaper_whose_lease_is_locked_goes_away_quietly(void **state)
{
    sqlock_reap_opts o = at_once();

    begin_app(state);
    sqlock *m = open_manager(g.w, NULL);
    assert_int_equal(reap(m, &o).ran, 1); /* the lease has its row now */
    app_exec(g.app, g.side->begins[0]);
    app_exec(g.app, g.driver->dialect->placeholder == '$' /* as a guard does it */
                        ? "SELECT 1 FROM sqlock_lock FOR KEY SHARE"
                        : "SELECT token FROM sqlock_lock FORCE INDEX (nt) LOCK IN SHARE MODE");
    assert_int_equal(reap(m, &o).ran, 0);
    app_exec(g.app, "ROLLBACK");
    assert_int_equal(reap(m, &o).ran, 1);
}

static const struct CMUnitTest locked_tests[] = {
    cmocka_unit_test(test_reaper_whose_lease_is_locked_goes_away_quietly),
};
PART(suite_reap_locked, locked_tests);
