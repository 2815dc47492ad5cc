/* Migrators that are killed, meet each other, or take the schema away from programs at work. */
#include "tests/schema/schema.h"

#include <signal.h>

static sqlock_error err;

/* One in a process of its own. */
struct migrator {
    struct place place;
    int version;
    unsigned flags;
    long kill_after;  /* calls; -1: it lives */
    int64_t begin_us; /* not before */
    pid_t child;
};

static int migrate_in_child(void *arg)
{
    struct migrator *v = arg;
    int applied = -1;
    struct tap *tap;
    struct place p = place_tapped(&v->place, &tap);

    tap->kill_after = v->kill_after;
    while (now_us() < v->begin_us)
        continue;
    if (migrate_to(&p, v->version, v->flags, &applied, &err) == 0)
        return applied;
    print_error("%s\n", err.text);
    return 97;
}

/* ---- killed ---------------------------------------------------------------------------------- */

/* False: it came to its end alive. */
static bool is_killed(struct migrator *v)
{
    int result = child_wait(child_start(migrate_in_child, v), patience_ms(20000));

    if (result >= 0) {
        assert_between(0, result, 4);
        return false;
    }
    assert_int_equal(result, -SIGKILL);
    place_forget_migrator(&v->place);
    return true;
}

static struct place as_it_is(const struct place *p)
{
    return *p;
}

/* A new place for each of a migrator's calls, behind which it is killed; then `check`, with the
 * token that `prepare` drew before. How many calls that were. */
static long kill_after_each(struct migrator v, struct place (*library)(const struct place *),
                            int64_t (*prepare)(const struct place *),
                            void (*check)(const struct place *, int64_t token))
{
    for (;; v.kill_after++) {
        struct place p = place_new();
        int64_t token;

        v.place = library(&p);
        token = prepare != NULL ? prepare(&p) : 0;
        if (!is_killed(&v)) {
            print_message("killed after each of %ld calls\n", v.kill_after);
            return v.kill_after;
        }
        check(&v.place, token);
    }
}

static char *expected; /* what is in the database in the end */

/* All or nothing of a call, where it is one transaction. */
static void check_up_again(const struct place *p, int64_t token)
{
    const int applied = place_migrate(p);

    if (p->driver->caps & SQLOCK_CAP_TX_DDL)
        assert_true(applied == 0 || applied == (int)p->dialect->n_migrations);
    assert_ok(verify_code(p, &err), &err);
    if (token == 0) /* else it was there before, and went down */
        assert_catalogue(p, expected);
    assert_true(place_use(p, "x") > token);
}

/* The way up must end in what tables.sql says, wherever it was cut off before. */
TEST(test_a_migrator_killed_after_any_statement_is_just_run_again)
{
    const struct migrator v = {.version = SQLOCK_SCHEMA_LATEST};
    struct place by_hand = place_new(), grown = place_new();
    const long calls = (long)by_hand.dialect->migrations[0].n_up;

    place_build(&by_hand, NULL);
    expected = place_catalogue(&by_hand);
    assert_true(kill_after_each(v, as_it_is, NULL, check_up_again) > calls);
    grown = place_grown(&grown);
    assert_int_equal(place_migrate(&grown), 4);
    expected = place_catalogue(&grown);
    assert_true(kill_after_each(v, place_grown, NULL, check_up_again) > calls);
}

/* The schema of this library, and its last token. */
static int64_t prepare_for_down(const struct place *p)
{
    int64_t token = 0;

    place_migrate(p);
    /* more than migrators have come, for whom the table has a row too */
    for (int i = 0; i < 12; i++)
        token = place_use(p, "x");
    return token;
}

static int64_t prepare_grown(const struct place *p)
{
    struct place grown = place_grown(p);

    return prepare_for_down(&grown);
}

static char *down_tables(void)
{
    struct place p = place_new();

    p = place_grown(&p);
    prepare_for_down(&p);
    assert_ok(go_down(&p, 0, 0, NULL, &err), &err);
    return place_tables(&p);
}

static void check_down_again(const struct place *p, int64_t token)
{
    assert_ok(go_down(p, 0, 0, NULL, &err), &err);
    assert_tables(p, expected);
    place_migrate(p);
    assert_true(place_use(p, "x") > token);
}

TEST(test_a_way_down_killed_after_any_statement_is_just_run_again)
{
    const struct migrator v = {.flags = SQLOCK_MIGRATE_DOWN};

    expected = down_tables();
    /* statements of both ways down */
    assert_true(kill_after_each(v, place_grown, prepare_grown, check_down_again) > 7);
}

/* ... and one way up that was cut off is taken back whole, not only what it has recorded. */
TEST(test_a_way_down_takes_back_what_a_killed_migrator_began)
{
    const struct migrator v = {.version = SQLOCK_SCHEMA_LATEST};

    expected = down_tables();
    assert_true(kill_after_each(v, place_grown, prepare_for_down, check_down_again) > 4);
}

/* Of the first migration too, before it is recorded. */
static void check_down_from_nothing(const struct place *p, __attribute__((unused)) int64_t token)
{
    assert_ok(go_down(p, 0, 0, NULL, &err), &err);
}

TEST(test_a_way_down_goes_on_where_the_first_way_up_was_killed)
{
    const struct migrator v = {.version = SQLOCK_SCHEMA_LATEST};

    assert_true(kill_after_each(v, as_it_is, NULL, check_down_from_nothing) > 4);
}

TEST(test_P2_up_again_after_a_way_down_that_was_killed)
{
    const struct migrator v = {.flags = SQLOCK_MIGRATE_DOWN};

    assert_true(kill_after_each(v, place_grown, prepare_grown, check_up_again) > 7);
}

/* ---- at once --------------------------------------------------------------------------------- */

/* How many migrations all of them applied. */
static int migrate_at_once(struct migrator *migrators, int n)
{
    int64_t begin_us = now_us() + 20000;
    int applied = 0;

    for (int i = 0; i < n; i++) {
        migrators[i].kill_after = -1;
        migrators[i].begin_us = begin_us;
        migrators[i].child = child_start(migrate_in_child, &migrators[i]);
    }
    for (int i = 0; i < n; i++) {
        int result = child_wait(migrators[i].child, patience_ms(30000));

        assert_between(0, result, 4);
        applied += result;
    }
    return applied;
}

TEST(test_migrators_at_once_do_the_work_once)
{
    for (int round = 0; round < 8; round++) {
        struct migrator m = {.place = place_new(), .version = SQLOCK_SCHEMA_LATEST};
        struct migrator migrators[3] = {m, m, m};

        assert_int_equal(migrate_at_once(migrators, 3), (int)m.place.dialect->n_migrations);
        assert_true(place_use(&m.place, "x") > 0);
    }
}

TEST(test_migrators_up_and_down_at_once_leave_a_whole_schema)
{
    for (int round = 0; round < 6; round++) {
        struct place p = place_new(), grown = place_grown(&p);
        struct migrator migrators[4];
        int64_t token = prepare_for_down(&grown);

        for (int i = 0; i < 4; i++) {
            bool down = (i + round) % 2;

            migrators[i] = (struct migrator){.place = grown,
                                             .version = down ? 0 : SQLOCK_SCHEMA_LATEST,
                                             .flags = down ? SQLOCK_MIGRATE_DOWN : 0};
        }
        migrate_at_once(migrators, 4);
        check_up_again(&grown, token);
    }
}

/* ---- programs at work ------------------------------------------------------------------------ */

TEST(test_going_down_is_refused_while_a_lock_is_held)
{
    struct place p = place_migrated();
    char *before;
    sqlock_lock *lock = NULL, *other = NULL;
    sqlock *m = place_open(&p);

    lock = lock_take(m, "nightly", 1000, SQLOCK_NO_RENEW); /* a slow disk grants no shorter one */
    sqlock_lock_free(lock);
    sleep_ms(1050);
    assert_ok(go_down(&p, 0, 0, NULL, &err), &err); /* it has run out */
    place_migrate(&p);
    lock = lock_take(m, "nightly", 0, 0);
    before = place_catalogue(&p);
    assert_code(SQLOCK_EBUSY, go_down(&p, 0, SQLOCK_MIGRATE_DRY_RUN, NULL, &err), &err);
    assert_error(SQLOCK_EBUSY, "nightly", go_down(&p, 0, 0, NULL, &err), &err);
    assert_catalogue(&p, before);
    assert_ok(sqlock_renew(lock, &err), &err);
    assert_ok(go_down(&p, 0, SQLOCK_MIGRATE_HELD, NULL, &err), &err);
    assert_code(SQLOCK_ESCHEMA, sqlock_renew(lock, &err), &err);
    assert_code(SQLOCK_ESCHEMA, sqlock_acquire(m, "other", NULL, &other, &err), &err);
    sqlock_lock_free(lock);
    sqlock_close(m);
}

/* A program that tries to get the lock before each call of the migrator's. */
struct program {
    sqlock *m;
    int64_t largest; /* token that it was given */
    int grants, refusals, odd;
};

static void try_to_acquire(void *user, long call)
{
    struct program *g = user;
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL;
    int rc;

    (void)call;
    o.wait_ms = 0;
    rc = sqlock_acquire(g->m, "x", &o, &lock, &err);
    if (rc == 0) {
        g->grants++;
        if (sqlock_lock_token(lock) <= g->largest)
            g->odd++;
        g->largest = sqlock_lock_token(lock);
        sqlock_scope_end(&lock);
    } else {
        g->refusals++;
        if (rc != SQLOCK_EBUSY && rc != SQLOCK_EGUARDED && rc != SQLOCK_ESCHEMA &&
            rc != SQLOCK_ETIMEOUT && rc != SQLOCK_EUNSURE && !(err.flags & SQLOCK_RETRY)) {
            print_error("%s\n", err.text);
            g->odd++;
        }
    }
    sqlock_scope_end(&lock);
}

/* A program asks for a lock before every call of a way down. True: after the next way up a token
 * comes that it was given before. */
static bool tokens_repeat_over_down(struct place p)
{
    struct place tapped;
    struct program g = {.largest = 0};
    sqlock_open_opts o = place_opts(&p);
    sqlock_lock *lock = NULL;
    struct tap *tap;

    place_migrate(&p);
    o.request_ms = 150; /* what is locked is refused after that; others load the machine */
    assert_soon(sqlock_open(p.driver, p.url, &o, &g.m, &err) == 0, patience_ms(20000));
    place_use(&p, "x");
    place_exec(&p, "UPDATE {lock} SET token = 4503599627370496"); /* ahead of any clock */
    try_to_acquire(&g, 0);
    tapped = place_tapped(&p, &tap);
    tap->before = try_to_acquire;
    tap->user = &g;
    assert_ok(go_down(&tapped, 0, SQLOCK_MIGRATE_HELD, NULL, &err), &err);
    assert_code(SQLOCK_ESCHEMA, sqlock_acquire(g.m, "x", NULL, &lock, &err), &err);
    place_migrate(&p);
    sqlock_close(g.m);
    print_message("%d grants, %d refusals\n", g.grants, g.refusals);
    assert_true(g.grants > 1 && g.odd == 0);
    return place_use(&p, "x") <= g.largest;
}

/* The twin keeps everything but the floor. */
static struct place forgetful(const struct place *p)
{
    static const char *const down[] = {
        "UPDATE {meta} SET version = 0 WHERE id = 1", "DELETE FROM {migration} WHERE version = 1",
        "DROP TABLE IF EXISTS {waiter}", "DROP TABLE IF EXISTS {client}", "DROP TABLE {lock}"};
    static sqlock_migration only;
    sqlock_dialect dialect = *p->dialect;

    only = p->dialect->migrations[0];
    only.down = down;
    only.n_down = sizeof down / sizeof *down;
    dialect.migrations = &only;
    dialect.n_migrations = 1;
    return place_with(p, &dialect);
}

TEST(test_P2_no_token_repeats_whoever_acquires_during_the_way_down)
{
    struct place p = place_new(), twin = place_new();

    assert_false(tokens_repeat_over_down(p));
    assert_true(tokens_repeat_over_down(forgetful(&twin)));
}

/* ---- a newer library ------------------------------------------------------------------------- */

TEST(test_down_takes_back_what_up_made)
{
    struct place p = place_migrated(), grown = place_grown(&p), older;
    int applied = -1;
    char *first, *one, *two;

    one = place_tables(&p);
    assert_int_equal(place_migrate(&grown), 1);
    two = place_tables(&p);
    assert_string_not_equal(one, two);
    assert_ok(go_down(&grown, 3, 0, &applied, &err), &err);
    assert_int_equal(applied, 1);
    assert_tables(&p, one);
    assert_ok(go_down(&p, 2, 0, &applied, &err), &err);
    assert_int_equal(applied, 1);
    older = place_older(&p);
    assert_int_equal(place_migrate(&older), 0);
    first = place_tables(&p);
    assert_string_not_equal(first, one);
    assert_int_equal(place_migrate(&grown), 2);
    assert_tables(&p, two);
    assert_ok(go_down(&grown, 0, 0, &applied, &err), &err);
    assert_int_equal(applied, 4);
    assert_int_equal(place_migrate(&older), 2);
    assert_tables(&p, first);
    assert_int_equal(place_migrate(&p), 1);
    assert_tables(&p, one);
}

/* The release before the newest migration, with a lease held all the time. */
TEST(test_P20_an_older_library_goes_on_through_a_migration_and_back)
{
    struct place p = place_new(), older = place_older(&p), grown;
    sqlock_lock *lock = NULL, *theirs = NULL;
    int64_t token = 0;
    sqlock *m, *n;

    place_migrate(&older);
    m = place_open(&older);
    lock = lock_take(m, "held", 0, 0);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(place_migrate(&p), 1);
        assert_ok(sqlock_renew(lock, &err), &err);
        assert_true(place_use(&older, "x") > token);
        token = place_use(&p, "x");
        assert_ok(go_down(&p, 2, SQLOCK_MIGRATE_HELD, NULL, &err), &err);
        assert_ok(sqlock_renew(lock, &err), &err);
        assert_true(place_use(&older, "x") > token);
        token = place_use(&p, "x");
    }
    /* To a newer library the lock is as busy; and its migration is not ours to take back. */
    place_migrate(&p);
    grown = place_grown(&p);
    place_migrate(&grown);
    n = place_open(&grown);
    assert_code(SQLOCK_EBUSY, lock_try(n, "held", 0, &theirs, &err), &err);
    assert_error(SQLOCK_ESCHEMA, "version 4", go_down(&p, 0, 0, NULL, &err), &err);
    lock_give(lock);
    sqlock_close(m);
    sqlock_close(n);
}

/* A lock is broken, whatever the schema, and the next one gets it. */
static void break_one(sqlock *m)
{
    sqlock_lock *lock = lock_take(m, "x", 0, SQLOCK_NO_RENEW);

    assert_ok(sqlock_break(m, "x", sqlock_lock_token(lock), &err), &err);
    lock_draw(m, "x");
    sqlock_lock_free(lock);
}

/* Connections that are there already find out. */
TEST(test_P20_breaks_are_noted_as_soon_and_as_long_as_the_schema_has_a_place)
{
    struct place p = place_new();
    sqlock *m;

    assert_ok(migrate_to(&p, 2, 0, NULL, &err), &err);
    m = place_open(&p);
    for (int round = 0; round < 2; round++) {
        break_one(m);
        place_migrate(&p);
        break_one(m);
        assert_int_equal(place_number(&p, "SELECT count(*) FROM {broken}"), 1);
        assert_ok(go_down(&p, 2, 0, NULL, &err), &err);
    }
    break_one(m);
    sqlock_close(m);
}

/* All that leases need is there from 001 on: programs may be upgraded before the schema is. */
TEST(test_P20_a_newer_library_works_on_an_older_schema)
{
    struct place p = place_new();
    sqlock_reap_report r = {.size = sizeof r};
    sqlock_lock *lock = NULL;
    sqlock *m;

    assert_ok(migrate_to(&p, 1, 0, NULL, &err), &err);
    m = place_open(&p);
    lock = lock_take(m, "x", 0, 0);
    assert_ok(sqlock_renew(lock, &err), &err);
    assert_int_equal(list_count(m, 0), 1);
    assert_ok(sqlock_break(m, "x", sqlock_lock_token(lock), &err), &err);
    sqlock_lock_free(lock);
    place_exec(&p, "UPDATE {lock} SET idle_since = 1 WHERE owner IS NULL");
    assert_ok(sqlock_reap(m, NULL, &r, &err), &err);
    assert_true(r.pruned > 0);
    lock_draw(m, "x");
    sqlock_close(m);
}
