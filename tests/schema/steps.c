/* Migrators that are killed, meet each other, or take the schema away from programs at work. */
#include "tests/schema/tap.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- killed ------------------------------------------------------------------------------------
 */

struct victim {
    struct place place;
    int version;
    unsigned flags;
    long kill_after;
};

static int migrate_to_the_death(void *arg)
{
    struct victim *v = arg;
    struct tap *tap;
    struct place p = place_tapped(&v->place, &tap);
    sqlock_open_opts o = place_opts(&p);
    sqlock_error err;

    tap->kill_after = v->kill_after;
    if (sqlock_migrate_to(p.driver, p.url, &o, v->version, v->flags, NULL, &err) == 0)
        return 0;
    print_error("%s\n", err.text);
    return 97;
}

/* False: it came to its end alive. */
static bool is_killed(struct victim *v)
{
    int result = child_wait(child_start(migrate_to_the_death, v), patience_ms(20000));

    if (result != 0) {
        assert_int_equal(result, -SIGKILL);
        place_forget_migrator(&v->place);
    }
    return result != 0;
}

static void assert_catalogue(const struct place *p, const char *expected)
{
    char *found = place_catalogue(p);

    assert_string_equal(found, expected);
    free(found);
}

char *place_tables(const struct place *p)
{
    static const char *const before[] = {"fence_floor=", "fence_floor: "};
    char *text = place_catalogue(p);

    for (int i = 0; i < 2; i++) {
        char *at = strstr(text, before[i]);

        if (at) {
            at += strlen(before[i]);
            memmove(at, at + strspn(at, "0123456789"), strlen(at + strspn(at, "0123456789")) + 1);
        }
    }
    return text;
}

static void assert_tables(const struct place *p, const char *expected)
{
    char *found = place_tables(p);

    assert_string_equal(found, expected);
    free(found);
}

static void kill_on_the_way_up(struct place (*library)(const struct place *), const char *expected)
{
    struct victim v = {.version = SQLOCK_SCHEMA_LATEST};
    sqlock_error err;

    do {
        struct place p = place_new();
        sqlock_open_opts o = place_opts(&p);

        v.place = library(&p);
        if (!is_killed(&v))
            break;
        place_migrate(&v.place);
        assert_catalogue(&p, expected);
        assert_ok(sqlock_migration_verify(v.place.driver, p.url, &o, &err), &err);
        assert_true(place_use(&v.place, "x") > 0);
        v.kill_after++;
    } while (1);
    print_message("killed after each of %ld calls\n", v.kill_after);
    assert_true(v.kill_after > (long)v.place.dialect->migrations[0].n_up);
}

static struct place as_it_is(const struct place *p)
{
    return *p;
}

/* The way up must end in what tables.sql says, wherever it was cut off before. */
void test_a_migrator_killed_after_any_statement_is_just_run_again(void **state)
{
    struct place by_hand = place_new(), grown = place_new();
    char *expected;

    (void)state;
    place_build(&by_hand, NULL);
    expected = place_catalogue(&by_hand);
    kill_on_the_way_up(as_it_is, expected);
    free(expected);
    grown = place_grown(&grown);
    assert_int_equal(place_migrate(&grown), 4);
    expected = place_catalogue(&grown);
    kill_on_the_way_up(place_grown, expected);
    free(expected);
}

/* What is there before, and what must be there after the way down, on the same place. */
static int64_t prepare_for_down(const struct place *p)
{
    int64_t token = 0;

    place_migrate(p);
    for (int i = 0; i < 12;
         i++) /* more than migrators have come, for whom the table has a row too */
        token = place_use(p, "x");
    return token;
}

static int go_down(const struct place *p, int version, unsigned flags, int *out_applied,
                   sqlock_error *err)
{
    sqlock_open_opts o = place_opts(p);

    return sqlock_migrate_to(p->driver, p->url, &o, version, SQLOCK_MIGRATE_DOWN | flags,
                             out_applied, err);
}

static char *down_catalogue(void)
{
    struct place p = place_new();
    sqlock_error err;

    p = place_grown(&p);
    prepare_for_down(&p);
    assert_ok(go_down(&p, 0, 0, NULL, &err), &err);
    return place_tables(&p);
}

void test_a_way_down_killed_after_any_statement_is_just_run_again(void **state)
{
    struct victim v = {.flags = SQLOCK_MIGRATE_DOWN};
    char *expected = down_catalogue();
    sqlock_error err;

    (void)state;
    do {
        struct place p = place_new();
        int64_t token;

        v.place = place_grown(&p);
        token = prepare_for_down(&v.place);
        if (!is_killed(&v))
            break;
        assert_ok(go_down(&v.place, 0, 0, NULL, &err), &err);
        assert_tables(&p, expected);
        place_migrate(&v.place);
        assert_true(place_use(&v.place, "x") > token);
        v.kill_after++;
    } while (1);
    free(expected);
    assert_true(v.kill_after > 7); /* statements of both ways down */
}

/* ... and one way up that was cut off is taken back whole, not only what it has recorded. */
void test_a_way_down_takes_back_what_a_killed_migrator_began(void **state)
{
    struct victim v = {.version = SQLOCK_SCHEMA_LATEST};
    char *expected = down_catalogue();
    sqlock_error err;

    (void)state;
    do {
        struct place p = place_new();

        v.place = place_grown(&p);
        prepare_for_down(&p); /* the first migration, and tokens */
        if (!is_killed(&v))
            break;
        assert_ok(go_down(&v.place, 0, 0, NULL, &err), &err);
        assert_tables(&p, expected);
        v.kill_after++;
    } while (1);
    free(expected);
    assert_true(v.kill_after > 4);
}

void test_P2_up_again_after_a_way_down_that_was_killed(void **state)
{
    struct place model = place_new();
    struct victim v = {.flags = SQLOCK_MIGRATE_DOWN};
    sqlock_error err;

    (void)state;
    model = place_grown(&model);
    place_migrate(&model);
    do {
        struct place p = place_new();
        sqlock_open_opts o = place_opts(&p);
        int64_t token;

        v.place = place_grown(&p);
        token = prepare_for_down(&v.place);
        if (!is_killed(&v))
            break;
        place_migrate(&v.place);
        assert_ok(sqlock_migration_verify(v.place.driver, p.url, &o, &err), &err);
        assert_true(place_use(&v.place, "x") > token);
        v.kill_after++;
    } while (1);
    assert_true(v.kill_after > 7);
}

/* ---- at once -----------------------------------------------------------------------------------
 */

struct mover {
    struct place place;
    bool down;
    int gate[2];
};

static int move_in_child(void *arg)
{
    struct mover *s = arg;
    sqlock_open_opts o = place_opts(&s->place);
    sqlock_error err;
    char byte;
    int rc;

    close(s->gate[1]);
    if (read(s->gate[0], &byte, 1) != 0)
        return 98;
    rc = sqlock_migrate_to(s->place.driver, s->place.url, &o, s->down ? 0 : SQLOCK_SCHEMA_LATEST,
                           s->down ? SQLOCK_MIGRATE_DOWN : 0, NULL, &err);
    if (rc == 0)
        return 0;
    print_error("%s\n", err.text);
    return 97;
}

void test_migrators_up_and_down_at_once_leave_a_whole_schema(void **state)
{
    (void)state;
    for (int round = 0; round < 6; round++) {
        struct place p = place_new();
        sqlock_open_opts o = place_opts(&p);
        struct mover s = {.place = place_grown(&p)};
        int64_t token;
        pid_t child[4];
        sqlock_error err;

        token = prepare_for_down(&s.place);
        assert_int_equal(pipe(s.gate), 0);
        for (int i = 0; i < 4; i++) {
            s.down = (i + round) % 2;
            child[i] = child_start(move_in_child, &s);
        }
        close(s.gate[0]);
        close(s.gate[1]);
        for (int i = 0; i < 4; i++)
            assert_int_equal(child_wait(child[i], patience_ms(30000)), 0);
        place_migrate(&s.place);
        assert_ok(sqlock_migration_verify(s.place.driver, p.url, &o, &err), &err);
        assert_true(place_use(&s.place, "x") > token);
    }
}

/* ---- programs at work --------------------------------------------------------------------------
 */

void test_going_down_is_refused_while_a_lock_is_held(void **state)
{
    struct place p = place_new();
    char *before, *after;
    sqlock_lock *lock = NULL, *other = NULL;
    sqlock_error err;
    sqlock *m;

    (void)state;
    place_migrate(&p);
    m = place_open(&p);
    assert_ok(sqlock_acquire(m, "nightly", NULL, &lock, &err), &err);
    before = place_catalogue(&p);
    assert_code(SQLOCK_EBUSY, go_down(&p, 0, SQLOCK_MIGRATE_DRY_RUN, NULL, &err), &err);
    assert_code(SQLOCK_EBUSY, go_down(&p, 0, 0, NULL, &err), &err);
    assert_non_null(strstr(err.text, "nightly"));
    after = place_catalogue(&p);
    assert_string_equal(before, after);
    assert_ok(sqlock_renew(lock, &err), &err);
    assert_ok(go_down(&p, 0, SQLOCK_MIGRATE_HELD, NULL, &err), &err);
    assert_code(SQLOCK_ESCHEMA, sqlock_renew(lock, &err), &err);
    assert_code(SQLOCK_ESCHEMA, sqlock_acquire(m, "other", NULL, &other, &err), &err);
    sqlock_lock_free(lock);
    sqlock_close(m);
    free(before);
    free(after);
}

void test_going_down_is_not_held_up_by_locks_that_ran_out(void **state)
{
    struct place p = place_new();
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL;
    sqlock_error err;
    sqlock *m;

    (void)state;
    place_migrate(&p);
    m = place_open(&p);
    o.flags = SQLOCK_NO_RENEW;
    o.lease_ms = SQLOCK_LEASE_MIN_MS;
    assert_ok(sqlock_acquire(m, "nightly", &o, &lock, &err), &err);
    sleep_ms(150);
    assert_ok(go_down(&p, 0, 0, NULL, &err), &err);
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
    sqlock_error err;
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

bool tokens_repeat_over_down(struct place p)
{
    struct place tapped;
    struct program g = {.largest = 0};
    sqlock_open_opts o = place_opts(&p);
    sqlock_lock *lock = NULL;
    struct tap *tap;
    sqlock_error err;

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
    static const char *const down[] = {"UPDATE {meta} SET version = 0 WHERE id = 1",
                                       "DELETE FROM {migration} WHERE version = 1",
                                       "DROP TABLE {lock}"};
    static sqlock_migration only;
    sqlock_dialect dialect = *p->dialect;

    only = p->dialect->migrations[0];
    only.down = down;
    only.n_down = 3;
    dialect.migrations = &only;
    dialect.n_migrations = 1;
    return place_with(p, &dialect);
}

void test_P2_no_token_repeats_whoever_acquires_during_the_way_down(void **state)
{
    struct place p = place_new(), twin = place_new();

    (void)state;
    assert_false(tokens_repeat_over_down(p));
    assert_true(tokens_repeat_over_down(forgetful(&twin)));
}

/* ---- a newer library ---------------------------------------------------------------------------
 */

void test_down_takes_back_what_up_made(void **state)
{
    struct place p = place_new(), grown = place_grown(&p), older;
    int applied = -1;
    char *first, *one, *two;
    sqlock_error err;

    (void)state;
    place_migrate(&p);
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
    free(first);
    free(one);
    free(two);
}

void test_P20_an_older_library_goes_on_while_a_newer_one_migrates(void **state)
{
    struct place p = place_new(), grown = place_grown(&p);
    sqlock_acquire_opts once = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL, *theirs = NULL;
    sqlock_error err;
    sqlock *m, *n;

    (void)state;
    once.wait_ms = 0;
    place_migrate(&p);
    m = place_open(&p);
    assert_ok(sqlock_acquire(m, "x", NULL, &lock, &err), &err);
    place_migrate(&grown);
    assert_ok(sqlock_renew(lock, &err), &err);
    n = place_open(&grown);
    assert_code(SQLOCK_EBUSY, sqlock_acquire(n, "x", &once, &theirs, &err), &err);
    assert_ok(sqlock_release(lock, &err), &err);
    assert_true(place_use(&p, "x") < place_use(&grown, "x"));
    assert_true(place_use(&grown, "x") < place_use(&p, "x"));
    /* It cannot take back what it does not know. */
    assert_code(SQLOCK_ESCHEMA, go_down(&p, 0, 0, NULL, &err), &err);
    assert_non_null(strstr(err.text, "version 4"));
    sqlock_lock_free(lock);
    sqlock_close(m);
    sqlock_close(n);
}

/* The release before the newest migration, with a lease held all the time. */
void test_P20_an_older_library_goes_on_through_a_migration_and_back(void **state)
{
    struct place p = place_new(), older = place_older(&p);
    sqlock_lock *lock = NULL;
    int64_t token = 0;
    sqlock_error err;
    sqlock *m;

    (void)state;
    place_migrate(&older);
    m = place_open(&older);
    assert_ok(sqlock_acquire(m, "held", NULL, &lock, &err), &err);
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
    assert_ok(sqlock_release(lock, &err), &err);
    sqlock_lock_free(lock);
    sqlock_close(m);
}

/* A lock is broken, whatever the schema, and the next one gets it. */
static void break_one(sqlock *m)
{
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL, *next = NULL;
    sqlock_error err;

    o.flags = SQLOCK_NO_RENEW;
    assert_ok(sqlock_acquire(m, "x", &o, &lock, &err), &err);
    assert_ok(sqlock_break(m, "x", sqlock_lock_token(lock), &err), &err);
    assert_ok(sqlock_acquire(m, "x", &o, &next, &err), &err);
    assert_ok(sqlock_release(next, &err), &err);
    sqlock_lock_free(next);
    sqlock_lock_free(lock);
}

/* Connections that are there already find out. */
void test_P20_breaks_are_noted_as_soon_and_as_long_as_the_schema_has_a_place(void **state)
{
    struct place p = place_new();
    sqlock_open_opts o = place_opts(&p);
    sqlock_error err;
    sqlock *m;

    (void)state;
    assert_ok(sqlock_migrate_to(p.driver, p.url, &o, 2, 0, NULL, &err), &err);
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

static int count_names(const sqlock_info *info, void *user)
{
    (void)info;
    ++*(int *)user;
    return 0;
}

/* All that leases need is there from 001 on: programs may be upgraded before the schema is. */
void test_P20_a_newer_library_works_on_an_older_schema(void **state)
{
    struct place p = place_new();
    sqlock_open_opts o = place_opts(&p);
    sqlock_reap_report r = {.size = sizeof r};
    sqlock_lock *lock = NULL;
    sqlock_error err;
    int names = 0;
    sqlock *m;

    (void)state;
    assert_ok(sqlock_migrate_to(p.driver, p.url, &o, 1, 0, NULL, &err), &err);
    m = place_open(&p);
    assert_ok(sqlock_acquire(m, "x", NULL, &lock, &err), &err);
    assert_ok(sqlock_renew(lock, &err), &err);
    assert_ok(sqlock_list(m, NULL, count_names, &names, &err), &err);
    assert_int_equal(names, 1);
    assert_ok(sqlock_break(m, "x", sqlock_lock_token(lock), &err), &err);
    sqlock_lock_free(lock);
    place_exec(&p, "UPDATE {lock} SET idle_since = 1 WHERE owner IS NULL");
    assert_ok(sqlock_reap(m, NULL, &r, &err), &err);
    assert_true(r.pruned > 0);
    assert_ok(sqlock_acquire(m, "x", NULL, &lock, &err), &err);
    assert_ok(sqlock_release(lock, &err), &err);
    sqlock_lock_free(lock);
    sqlock_close(m);
}
