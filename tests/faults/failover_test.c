/* P2, P6, P7, P8: one of two servers takes over from the other, and the URL names both. On
 * PostgreSQL with a synchronous standby, and on MariaDB with a replica. */
#include "tests/faults/faults.h"
#include "tests/lib/pair.h"

enum { LEASE_MS = 9000 };
#define NAME "nightly"

static struct pair *pair;
static sqlock *m;

static int teardown(__attribute__((unused)) void **state)
{
    sqlock_close(m);
    m = NULL;
    pair_stop(pair);
    pair = NULL;
    return 0;
}

/* A manager on a pair that was migrated. */
static void begin(enum pair_kind kind)
{
    struct db db;

    pair = pair_start(kind);
    db = db_of(pair_url(pair));
    db_migrate(db);
    db.request_ms = 2000;
    m = db_open(db);
}

static sqlock_lock *take_within(const char *name, int32_t wait_ms)
{
    sqlock_lock *lock = NULL;
    sqlock_error err;

    assert_ok(take(m, name, LEASE_MS, wait_ms, NULL, &lock, &err), &err);
    return lock;
}

/* It is renewed on the new server: under the token that it had, and never told as lost. */
static void goes_on(sqlock_lock *lock, int64_t token)
{
    int64_t deadline = sqlock_lock_deadline_us(lock);

    assert_soon(sqlock_lock_deadline_us(lock) > deadline || !sqlock_is_held(lock), LEASE_MS);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_HELD);
    assert_int_equal(sqlock_lock_token(lock), token);
}

/* A test on each kind of pair. */
#define ON_BOTH(test)                                                                              \
    TEST(test_##test##_postgres)                                                                   \
    {                                                                                              \
        test(PAIR_POSTGRES);                                                                       \
    }                                                                                              \
    TEST(test_##test##_mariadb)                                                                    \
    {                                                                                              \
        test(PAIR_MARIADB);                                                                        \
    }

static void P7_a_lease_outlives_a_primary_that_is_frozen(enum pair_kind kind)
{
    sqlock_lock *lock;
    int64_t token;

    begin(kind);
    lock = take_within(NAME, 0);
    token = sqlock_lock_token(lock);
    pair_await(pair);
    pair_freeze(pair);
    pair_promote(pair);
    goes_on(lock, token);
    lock_give(lock);
    lock = take_within(NAME, patience_ms(5000));
    assert_true(sqlock_lock_token(lock) > token);
    lock_give(lock);
}
ON_BOTH(P7_a_lease_outlives_a_primary_that_is_frozen)

/* ---- a primary that is killed, and commits that are lost ------------------------------------- */

static void part(enum pair_kind kind)
{
    if (kind == PAIR_MARIADB) {
        server_exec(&pair->servers[1], "STOP SLAVE");
        return;
    }
    server_set(&pair->servers[0], "synchronous_standby_names", "");
    server_cut(&pair->servers[1]);
}

static void P6_P7_a_killed_primary_ends_what_it_alone_had_committed(enum pair_kind kind)
{
    sqlock_lock *kept, *lost, *other;
    int64_t token, kept_token;

    begin(kind);
    kept = take_within("kept", 0);
    kept_token = sqlock_lock_token(kept);
    lock_give(take_within(NAME, 0));
    pair_await(pair);
    part(kind);
    lost = take_within(NAME, 0);
    token = sqlock_lock_token(lost);
    pair_kill(pair);
    pair_promote(pair);
    other = take_within("another", patience_ms(10000)); /* it finds the new server */
    assert_soon(sqlock_lock_state(lost) == SQLOCK_LOST, patience_ms(1000));
    assert_true(sqlock_now_us() < sqlock_lock_deadline_us(lost));
    assert_int_equal(sqlock_lock_why(lost), SQLOCK_WHY_FORGOTTEN);
    sqlock_lock_free(lost);
    goes_on(kept, kept_token);
    lock_give(kept);
    lock_give(other);
    lost = take_within(NAME, patience_ms(5000));
    assert_true(sqlock_lock_token(lost) > token);
    lock_give(lost);
}
ON_BOTH(P6_P7_a_killed_primary_ends_what_it_alone_had_committed)

/* ---- a primary without its standby ----------------------------------------------------------- */

/* Its commits wait for a standby that will never answer: it says handshake, and nothing else. */
TEST(test_P8_a_primary_whose_commits_hang_stops_no_one)
{
    sqlock_lock *lock;

    begin(PAIR_POSTGRES);
    lock_give(take_within(NAME, 0));
    server_cut(&pair->servers[1]);
    pair_promote(pair);
    lock = take_within("another", patience_ms(6000));
    assert_int_equal(server_number(&pair->servers[1],
                                   "SELECT count(*) FROM sqlock_lock WHERE owner IS NOT NULL AND "
                                   "name = 'another'::bytea"),
                     1);
    lock_give(lock);
}

TEST_MAIN_EACH(NULL, teardown)
