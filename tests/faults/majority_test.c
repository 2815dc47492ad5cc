/* A majority of databases of several makers (recipes/majority.h), while each of them in turn falls
 * silent, is cut off, slow, restored from a copy, or has leases that end an hour early. A proxy
 * does the first three to a server; of a file they are locks. The copy is that of our tables.
 * Programs take names of it, and write down when they held them, by their own clock: no two at
 * once, and tokens in that order. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>
#include <sqlock/mysql.h>
#include <sqlock/sqlite.h>

#include "recipes/majority.h"
#include "tests/faults/faults.h"
#include "tests/lib/dice.h"
#include "tests/lib/lite.h"
#include "tests/lib/my.h"
#include "tests/lib/mysql_quirks.h"
#include "tests/lib/postgres_quirks.h"
#include "tests/lib/sqlite_quirks.h"

enum { MEMBERS_MOST = 4, PROGRAMS = 3, WORKERS = 6, NAMES = 6, CLAIMS_MOST = 200000 };
enum { LEASE_MS = 2000, REQUEST_MS = 400, WINDOW_MS = 500 };

/* ---- the history ----------------------------------------------------------------------------- */

/* A name was held from one look at the clock to another one, at least. */
struct claim {
    int name;
    int64_t from_us, until_us, token;
    size_t members; /* that held it at the end */
};

static struct {
    struct claim claims[CLAIMS_MOST];
    atomic_size_t n;
} history;

static void claim(struct claim c)
{
    size_t i = atomic_fetch_add(&history.n, 1);

    if (i < CLAIMS_MOST)
        history.claims[i] = c;
}

static int by_token(const void *a, const void *b)
{
    const struct claim *x = a, *y = b;

    if (x->name != y->name)
        return x->name - y->name;
    return (x->token > y->token) - (x->token < y->token);
}

/* How many claims begin before one with a smaller token ends, or have the same token. Sorts them.
 */
static int violations(struct claim *claims, size_t n)
{
    int64_t until_us = 0;
    int found = 0;

    qsort(claims, n, sizeof *claims, by_token);
    for (size_t i = 0; i < n; i++) {
        const struct claim *c = &claims[i], *before = i > 0 ? c - 1 : NULL;

        if (before == NULL || before->name != c->name)
            until_us = 0;
        else if (before->token == c->token)
            found++;
        found += c->from_us < until_us;
        until_us = c->until_us > until_us ? c->until_us : until_us;
    }
    return found;
}

TEST(test_checker_finds_what_overlaps_and_what_falls)
{
    struct claim good[] = {{0, 10, 20, 5, 2}, {0, 20, 30, 6, 2}, {1, 12, 14, 5, 2}};
    struct claim two[] = {{0, 10, 30, 5, 2}, {0, 20, 25, 6, 2}, {0, 31, 32, 7, 2}};
    struct claim falls[] = {{0, 10, 20, 6, 2}, {0, 20, 30, 5, 2}};
    struct claim same[] = {{0, 10, 20, 6, 2}, {0, 20, 30, 6, 2}};

    assert_int_equal(violations(good, 3), 0);
    assert_int_equal(violations(two, 3), 1);
    assert_int_equal(violations(falls, 2), 1);
    assert_int_equal(violations(same, 2), 1);
}

/* ---- members --------------------------------------------------------------------------------- */

struct member {
    const struct quirks *q;
    struct place at;
    struct proxy *proxy;  /* NULL: SQLite */
    struct sqlite3 *lite; /* who locks the file */
    struct db db;
};

static struct {
    struct member members[MEMBERS_MOST];
    size_t n, quorum;
    sqlock *managers[PROGRAMS][MEMBERS_MOST];
    struct majority sets[PROGRAMS];
} here;

static void begin_member(const struct quirks *q)
{
    struct member *x = &here.members[here.n++];

    need_driver(q->name);
    q->make(&x->at);
    x->q = q;
    x->db = (struct db){.driver = q->driver(), .url = x->at.url, .schema = x->at.schema};
    db_migrate(x->db);
    x->db.request_ms = REQUEST_MS;
    x->db.lease_ms = LEASE_MS;
    if (q == &postgres_quirks) {
        x->proxy = proxy_start_pg();
        x->db.url = proxy_url(x->proxy);
    } else if (q == &mysql_quirks) {
        x->proxy = proxy_start_unix(my_socket_path());
        x->db.url = textf("mysql://root@localhost/%s?socket=%s/.s.PGSQL.5432", x->at.schema,
                          proxy_dir(x->proxy));
    } else {
        x->lite = lite_open(x->at.url + strlen("sqlite:"));
    }
}

static void begin_programs(size_t quorum)
{
    for (int p = 0; p < PROGRAMS; p++) {
        struct majority *set = &here.sets[p];

        *set = (struct majority){.n = here.n, .quorum = quorum, .slow_ms = REQUEST_MS / 2};
        for (size_t i = 0; i < here.n; i++)
            set->members[i] = here.managers[p][i] = db_open(here.members[i].db);
    }
}

/* Whatever was done to them. */
static void heal(struct member *x)
{
    if (x->proxy == NULL) {
        lite_exec(x->lite, "COMMIT");
        return;
    }
    proxy_refuse(x->proxy, 0);
    proxy_delay(x->proxy, 0);
    proxy_mode_set(x->proxy, PROXY_PASS);
}

enum hurt { STOPPED, CUT_OFF, SLOW, HURTS };

/* A file is neither cut off nor slow, but another program may lock it. */
static void hurt(struct member *x, enum hurt how)
{
    if (x->proxy == NULL) {
        lite_exec(x->lite, how == STOPPED ? "BEGIN EXCLUSIVE" : "BEGIN IMMEDIATE");
    } else if (how == STOPPED) {
        proxy_mode_set(x->proxy, PROXY_HOLD);
    } else if (how == CUT_OFF) {
        proxy_refuse(x->proxy, 1);
        proxy_cut(x->proxy);
    } else {
        proxy_delay(x->proxy, REQUEST_MS / 4);
    }
}

/* Only its rows; what was committed since is gone. */
static void keep_copy(const struct member *x)
{
    const char *s = x->proxy != NULL ? textf("%s.", x->at.schema) : "";

    x->q->execute(&x->at, textf("CREATE TABLE %skept_lock AS SELECT * FROM %ssqlock_lock", s, s));
    x->q->execute(&x->at,
                  textf("CREATE TABLE %skept_register AS SELECT * FROM %ssqlock_register", s, s));
}

static void restore_copy(const struct member *x)
{
    const char *s = x->proxy != NULL ? textf("%s.", x->at.schema) : "";

    x->q->execute(&x->at,
                  textf("BEGIN %s; DELETE FROM %ssqlock_lock; DELETE FROM %ssqlock_register; "
                        "INSERT INTO %ssqlock_lock SELECT * FROM %skept_lock; "
                        "INSERT INTO %ssqlock_register SELECT * FROM %skept_register; COMMIT",
                        x->proxy != NULL ? textf("; LOCK TABLE %ssqlock_lock, %ssqlock_register IN "
                                                 "ACCESS EXCLUSIVE MODE",
                                                 s, s)
                                         : "IMMEDIATE",
                        s, s, s, s, s, s));
}

/* ---- those who hold it ----------------------------------------------------------------------- */

struct worker {
    pthread_t thread;
    struct majority *set;
    struct dice dice;
    int code; /* of a call that ended as it must not */
    sqlock_error err;
};

static struct worker workers[WORKERS];
static int n_started;
static atomic_int stop;

static void await_workers(void)
{
    stop = 1;
    while (n_started > 0)
        pthread_join(workers[--n_started].thread, NULL);
}

static int is_expected(int rc)
{
    return rc == 0 || rc == SQLOCK_EBUSY || rc == SQLOCK_EGUARDED || rc == SQLOCK_ETIMEOUT ||
           rc == SQLOCK_EUNREACH || rc == SQLOCK_ELOST || rc == SQLOCK_EUNSURE || rc == SQLOCK_EDB;
}

static void hold_for(struct worker *x, majority_lock *lock, int name)
{
    const int64_t from_us = now_us();
    struct claim c = {name, from_us, from_us, majority_token(lock), 0};

    for (int64_t left = dice_between(&x->dice, 0, 3); left >= 0; left--) {
        const int64_t before_us = now_us();

        if (!majority_is_held(lock))
            break;
        c.until_us = before_us;
        if (left > 0)
            sleep_ms(1);
        if (dice_below(&x->dice, 100) == 0)
            majority_mend(lock, NULL);
    }
    c.members = majority_count(lock);
    claim(c);
}

static void *work(void *arg)
{
    static const char *const names[NAMES] = {"a", "b", "c", "d", "e", "f"};
    struct worker *x = arg;
    sqlock_acquire_opts opts = SQLOCK_ACQUIRE_OPTS_INIT;

    opts.wait_ms = 300;
    while (!stop && is_expected(x->code)) {
        const int name = (int)dice_below(&x->dice, NAMES);
        majority_lock *lock = NULL;

        x->code = majority_acquire(x->set, names[name], &opts, &lock, &x->err);
        if (x->code == 0) {
            hold_for(x, lock, name);
            x->code = majority_end(&lock, &x->err);
        }
    }
    return NULL;
}

static void begin_workers(void)
{
    struct dice seeds = dice_new("majority");

    memset(&history, 0, sizeof history);
    stop = 0;
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){.set = &here.sets[i % PROGRAMS],
                                     .dice = dice_of(dice_below(&seeds, UINT64_MAX))};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
        n_started++;
    }
}

/* So many more grants of each name, on so many members at least. */
static bool have_gone_on(size_t since, size_t n, size_t members)
{
    size_t all = history.n, found[NAMES] = {0};

    for (size_t i = since; i < all && i < CLAIMS_MOST; i++)
        found[history.claims[i].name] += history.claims[i].members >= members;
    for (int name = 0; name < NAMES; name++)
        if (found[name] < n)
            return false;
    return true;
}

static void end_workers(void)
{
    await_workers();
    for (int i = 0; i < WORKERS; i++)
        if (!is_expected(workers[i].code))
            assert_ok(workers[i].code, &workers[i].err);
    assert_in_range(history.n, 1, CLAIMS_MOST);
    printf("majority: %zu grants\n", (size_t)history.n);
    assert_int_equal(violations(history.claims, history.n), 0);
}

static int teardown(void **state)
{
    (void)state;
    await_workers();
    for (size_t i = 0; i < here.n; i++) {
        struct member *x = &here.members[i];

        for (int p = 0; p < PROGRAMS; p++)
            sqlock_close(here.managers[p][i]);
        proxy_stop(x->proxy);
        if (x->lite != NULL)
            sqlite3_close(x->lite);
        if (x->q != NULL)
            x->q->drop(&x->at);
    }
    memset(&here, 0, sizeof here);
    return 0;
}

/* SQLOCK_TEST_ROUNDS of the faults; else one. */
static int rounds(void)
{
    const char *n = getenv("SQLOCK_TEST_ROUNDS");

    return n != NULL ? atoi(n) : 1;
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* Past its holder, so that this member is lost while it is hurt. */
static bool is_broken(size_t i)
{
    sqlock_info info = {.size = sizeof info};
    sqlock *m = here.managers[1][i];

    return sqlock_find(m, "always", &info, NULL) == 0 &&
           (!info.held || sqlock_break(m, "always", info.holder.token, NULL) == 0);
}

/* Beside them one program holds a name all the time. */
TEST(test_P1_majority_of_three_makers_survives_each_of_them)
{
    sqlock_acquire_opts opts = SQLOCK_ACQUIRE_OPTS_INIT;
    majority_lock *lock = NULL;
    sqlock_error err;

    begin_member(&postgres_quirks);
    begin_member(&mysql_quirks);
    begin_member(&sqlite_quirks);
    begin_programs(0);
    opts.lease_ms = 20000;
    opts.renew_ms = 300;
    assert_ok(majority_acquire(&here.sets[0], "always", &opts, &lock, &err), &err);
    begin_workers();
    for (int i = 0; i < rounds() * (int)here.n * HURTS; i++) {
        struct member *x = &here.members[i % (int)here.n];
        const size_t since = history.n;

        assert_soon(is_broken((size_t)(x - here.members)), patience_ms(10000));
        hurt(x, (enum hurt)(i / (int)here.n % HURTS));
        sleep_ms(WINDOW_MS);
        assert_soon(have_gone_on(since, 3, 2), patience_ms(20000));
        heal(x);
        assert_soon(majority_count(lock) == 2, patience_ms(10000));
        assert_true(majority_is_held(lock));
        assert_soon(majority_mend(lock, NULL) == 0, patience_ms(10000));
        assert_int_equal(majority_count(lock), 3);
    }
    end_workers();
    assert_ok(majority_end(&lock, &err), &err);
}

/* A fault counts until its member has taken part in grants of each name again, and those of before
 * have ended. */
TEST(test_P1_quorum_of_three_of_four_survives_a_restore_and_a_clock)
{
    begin_member(&postgres_quirks);
    begin_member(&mysql_quirks);
    begin_member(&sqlite_quirks);
    begin_member(&sqlite_quirks);
    begin_programs(3);
    begin_workers();
    assert_soon(have_gone_on(0, 10, 4), patience_ms(20000));
    for (size_t i = 0; i < here.n; i++)
        if (here.members[i].q != &mysql_quirks)
            keep_copy(&here.members[i]);
    for (int i = 0; i < rounds() * (int)here.n * 2; i++) {
        struct member *x = &here.members[i % (int)here.n];
        size_t since = history.n;

        assert_soon(have_gone_on(since, 4, 3), patience_ms(20000));
        since = history.n;
        if (i % 2 == 0 || x->q == &mysql_quirks)
            x->q->age(&x->at, 3600000);
        else
            restore_copy(x);
        sleep_ms(LEASE_MS / 4);
        assert_soon(have_gone_on(since, 4, 4), patience_ms(20000));
    }
    end_workers();
}

TEST_MAIN_EACH(NULL, teardown)
