/* What locking costs: on PostgreSQL one round trip and one prepared statement for a request, and a
 * few statements and two connections for the renewals of a thousand leases (P7). The proxy counts
 * what goes to the server: a request is what a client sends before it hears the answer. On SQLite
 * one transaction, as its trace tells. */
#include "tests/faults/faults.h"

#include <string.h>

#ifdef TEST_HAVE_POSTGRES
#include "tests/lib/pq.h"
#include <libpq-fe.h>
#endif
#ifdef TEST_HAVE_SQLITE
#include <sqlite3.h>
#endif

static sqlock_error err;

#define NAME "nightly"

/* ---- one request ----------------------------------------------------------------------------- */

enum { PAIRS = 50, ROUND_TRIPS_OF_THE_FIRST_REFUSAL = 2 };

static sqlock *warm(void)
{
    sqlock *m;

    stage_proxied();
    m = stage_open_cut();
    for (int i = 0; i < 3; i++) {
        sqlock_lock *lock = held(m, NAME, 30000, NULL);

        assert_ok(sqlock_renew(lock, &err), &err);
        lock_give(lock);
    }
    return m;
}

/* A refusal takes a second statement, which says why. From the second one in a row on they travel
 * together. */
TEST(test_busy_try_and_renewal_cost_one_round_trip_each)
{
    sqlock *m = warm();
    sqlock_lock *lock = held(m, NAME, 30000, NULL), *none = NULL;
    int before = proxy_requests(stage.proxy);

    assert_code(SQLOCK_EBUSY, take(m, NAME, 30000, 0, NULL, &none, &err), &err);
    assert_int_equal(proxy_requests(stage.proxy), before + ROUND_TRIPS_OF_THE_FIRST_REFUSAL);
    before = proxy_requests(stage.proxy);
    for (int i = 0; i < PAIRS; i++) {
        assert_code(SQLOCK_EBUSY, take(m, NAME, 30000, 0, NULL, &none, &err), &err);
        assert_ok(sqlock_renew(lock, &err), &err);
    }
    assert_int_equal(proxy_requests(stage.proxy), before + 2 * PAIRS);
    lock_give(lock);
}

/* No row, the row, the grant; and the release. */
TEST(test_first_use_of_a_name_costs_three_round_trips)
{
    sqlock *m = warm();
    int before;

    lock_draw(m, "first");
    before = proxy_requests(stage.proxy);
    for (int i = 0; i < PAIRS; i++)
        lock_draw(m, textf("new %d", i));
    assert_int_equal(proxy_requests(stage.proxy), before + (3 + 1) * PAIRS);
}

#ifdef TEST_HAVE_POSTGRES
/* The session's settings with the checks, and meta. */
TEST(test_opening_costs_two_round_trips_behind_the_login)
{
    int begun;

    warm(); /* the server is known */
    begun = proxy_requests(stage.proxy);
    stage_open_cut();
    /* the login is one, or two where TLS is asked for */
    assert_between(1 + 2, proxy_requests(stage.proxy) - begun, 2 + 2);
}

/* Nothing is prepared for a single use. */
TEST(test_first_pair_of_a_manager_costs_two_round_trips)
{
    sqlock *m;
    int begun;

    lock_draw(warm(), NAME);
    m = stage_open_cut();
    begun = proxy_requests(stage.proxy);
    lock_draw(m, NAME);
    assert_int_equal(proxy_requests(stage.proxy), begun + 2);
}

/* The manager's connections, so that the server can be asked what they have prepared. */
static PGconn *sessions[4];
static int n_sessions;

static int connect_kept(void *url, void **out_native, sqlock_error *out_err)
{
    (void)out_err;
    *out_native = sessions[n_sessions++] = pq_open(url);
    return 0;
}

static int64_t prepared(const char *like)
{
    int64_t n = 0;

    for (int i = 0; i < n_sessions; i++)
        n += pq_number(sessions[i],
                       "SELECT count(*) FROM pg_prepared_statements WHERE name LIKE '%s'", like);
    return n;
}

static sqlock *open_kept(void)
{
    struct db db;

    stage_proxied();
    db = (struct db){.driver = watched_driver(),
                     .connect = connect_kept,
                     .connect_user = textf("%s", proxy_url(stage.proxy)),
                     .schema = stage.at.schema};
    n_sessions = 0;
    return db_open(db);
}

/* What travels together is prepared together, and its first row is the answer. */
TEST(test_refusals_that_travel_with_their_reasons_are_prepared_anew_and_end_in_a_grant)
{
    sqlock *m = open_kept(), *other = stage_open();
    sqlock_lock *lock = held(other, NAME, 30000, NULL), *mine = NULL;
    int64_t token = sqlock_lock_token(lock);
    int before;

    for (int i = 0; i < 3; i++)
        assert_code(SQLOCK_EBUSY, take(m, NAME, 30000, 0, NULL, &mine, &err), &err);
    for (int i = 0; i < n_sessions; i++)
        pq_exec(sessions[i], "DEALLOCATE ALL");
    assert_code(SQLOCK_EBUSY, take(m, NAME, 30000, 0, NULL, &mine, &err), &err);
    assert_says(&err, "held by");
    lock_give(lock);
    before = proxy_requests(stage.proxy);
    assert_ok(take(m, NAME, 30000, 0, NULL, &mine, &err), &err);
    assert_int_equal(proxy_requests(stage.proxy), before + 1);
    assert_int_equal(sqlock_lock_token(mine), token + 1);
    lock_give(mine);
    sqlock_close(m);
}

/* The first time makes the row, and prepares nothing. The second time prepares the grant, and the
 * look for reasons, which goes along because the last one was necessary. */
TEST(test_acquire_and_release_are_one_prepared_statement_each)
{
    sqlock *m = open_kept();
    int before;

    lock_draw(m, NAME);
    lock_draw(m, NAME);
    before = proxy_requests(stage.proxy);
    for (int i = 0; i < PAIRS; i++)
        lock_draw(m, NAME);
    before = proxy_requests(stage.proxy) - before;
    assert_int_equal(prepared("sqlock_acquire_%"), 2);
    assert_int_equal(prepared("sqlock_release_%"), 1);
    sqlock_close(m);
    assert_int_equal(before, 2 * PAIRS);
}

/* Contention is certain while a foreign transaction keeps the row: busy, by nobody who can be seen,
 * and with pauses (P9, P18). */
TEST(test_wait_for_a_locked_row_is_busy_and_costs_little)
{
    sqlock *m = warm();
    sqlock_acquire_opts opts = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_holder holder = {.size = sizeof holder, .token = 99};
    sqlock_lock *none = NULL;
    PGconn *c = pq_open(pg_url());
    int64_t begun, took;
    int before, rc, tried;

    pq_exec(c, "BEGIN; UPDATE %s.sqlock_lock SET waiters = 0", stage.at.schema);
    opts.wait_ms = 1000;
    opts.holder = &holder;
    before = proxy_requests(stage.proxy);
    begun = sqlock_now_us();
    rc = sqlock_acquire(m, NAME, &opts, &none, &err);
    took = sqlock_now_us() - begun;
    before = proxy_requests(stage.proxy) - before;
    opts.wait_ms = 0;
    tried = sqlock_acquire(m, NAME, &opts, &none, NULL);
    PQfinish(c);
    print_message("1 s before a locked row: %d requests\n", before);
    assert_code(SQLOCK_EBUSY, rc, &err);
    assert_int_equal(tried, SQLOCK_EBUSY);
    assert_between(900 * MS, took, 1000 * MS + patience_ms(300) * MS);
    assert_between(4, before, 60); /* without pauses it would be hundreds */
    assert_says(&err, "locked the lock's row");
    assert_int_equal(holder.token, 0);
    assert_string_equal(holder.label, "");
}

/* Only the making of a name's row was pending, which is no grant: nothing is unsure. */
TEST(test_name_whose_row_could_not_be_made_is_not_unsure)
{
    sqlock *m = warm();
    sqlock_lock *none = NULL;
    PGconn *c = pq_open(pg_url());
    int rc;

    pq_exec(c,
            "BEGIN; INSERT INTO %s.sqlock_lock (ns, name, token, idle_since) "
            "VALUES ('', 'new', 1, 1)",
            stage.at.schema);
    rc = take(m, "new", 30000, 300, NULL, &none, &err);
    PQfinish(c);
    assert_code(SQLOCK_ETIMEOUT, rc, &err);
    assert_null(none);
    assert_false(err.flags & SQLOCK_MAYBE);
}

/* Every reply comes after half of the lease: that may keep nobody from the lock (P5, P8). */
TEST(test_grants_that_are_always_late_are_given_back)
{
    sqlock *m = warm(), *direct = stage_open();
    sqlock_lock *none = NULL;
    int64_t begun = sqlock_now_us();

    proxy_delay(stage.proxy, 100);
    assert_code(SQLOCK_ETIMEOUT, take(m, NAME, 200, SQLOCK_WAIT_FOREVER, NULL, &none, &err), &err);
    assert_null(none);
    assert_between(0, sqlock_now_us() - begun, patience_ms(3000) * MS);
    assert_says(&err, "too slow for a lease of 200 ms");
    assert_int_equal(row_of(direct, NAME).held, 0);
    proxy_delay(stage.proxy, 0);
}
#endif

/* ---- a thousand leases ----------------------------------------------------------------------- */

enum { LEASES = 1000, LEASE = 2000, BATCHES_A_SECOND = 8 };

static sqlock_lock *locks[LEASES];
static int64_t tokens[LEASES];

static int connections(const char *who)
{
    return (int)pg_number("SELECT count(*) FROM pg_stat_activity WHERE application_name = '%s'",
                          who);
}

static void take_all(sqlock *m, struct events *events)
{
    for (int i = 0; i < LEASES; i++) {
        locks[i] = held(m, textf("lease %04d", i), LEASE, events);
        tokens[i] = sqlock_lock_token(locks[i]);
    }
}

static void all_are_held(void)
{
    int n = 0;

    for (int i = 0; i < LEASES; i++)
        n += sqlock_lock_state(locks[i]) == SQLOCK_HELD && sqlock_lock_token(locks[i]) == tokens[i];
    assert_int_equal(n, LEASES);
    assert_int_equal(pg_number("SELECT count(*) FROM %s.sqlock_lock WHERE owner IS NOT NULL AND "
                               "exp > date_part('epoch', clock_timestamp()) * 1000000",
                               stage.at.schema),
                     LEASES);
}

TEST(test_thousand_leases_are_renewed_together_on_two_connections)
{
    struct events events = {0};
    char *who;
    int requests, renewals, renewed, most = 0;
    int64_t end;
    sqlock *m;

    stage_proxied();
    who = textf("%.30s", stage.at.schema);
    m = stage_open_at(textf("%s&application_name=%s", proxy_url(stage.proxy), who));
    take_all(m, &events);
    all_are_held();
    wait_renewed(locks[0]); /* the renewals' connection is open and knows its statements */
    wait_renewed(locks[0]);

    requests = proxy_requests(stage.proxy);
    renewals = atomic_load(&watch.begun[SQLOCK_STMT_RENEW]);
    renewed = atomic_load(&watch.locks[SQLOCK_STMT_RENEW]);
    for (end = sqlock_now_us() + 2 * LEASE * MS; sqlock_now_us() < end; sleep_ms(100)) {
        int n = connections(who);

        most = n > most ? n : most;
    }
    requests = proxy_requests(stage.proxy) - requests;
    renewals = atomic_load(&watch.begun[SQLOCK_STMT_RENEW]) - renewals;
    renewed = atomic_load(&watch.locks[SQLOCK_STMT_RENEW]) - renewed;
    print_message("%d leases of %d ms, %d ms long: %d renewals in %d statements, %d requests\n",
                  LEASES, LEASE, 2 * LEASE, renewed, renewals, requests);
    assert_between(1, most, 2);
    assert_between(2, renewals, BATCHES_A_SECOND * 2 * LEASE / 1000);
    /* Each is one round trip; one may be under way at either end, and one is prepared if renewals
     * of a single lease come only now. */
    assert_between(renewals - 1, requests, renewals + 2);
    assert_true(renewed >= 4 * LEASES); /* all of them, again and again */
    assert_int_equal(atomic_load(&events.n_lost), 0);
    all_are_held();
    for (int i = 0; i < LEASES; i++)
        sqlock_lock_free(locks[i]);
}

/* ---- SQLite ---------------------------------------------------------------------------------- */

#ifdef TEST_HAVE_SQLITE

/* What the connections of a factory are asked, and what they compile. Each is used by one thread at
 * a time; the test looks when nobody is under way. */
static struct traced {
    atomic_int statements, begins, commits, compiled;
} traced;

static int on_statement(unsigned what, void *user, void *stmt, void *text)
{
    const char *sql = sqlite3_sql(stmt);
    (void)what, (void)user, (void)text;

    atomic_fetch_add(&traced.statements, 1);
    atomic_fetch_add(&traced.begins, strncmp(sql, "BEGIN IMMEDIATE", 15) == 0);
    atomic_fetch_add(&traced.commits, strncmp(sql, "COMMIT", 6) == 0);
    return 0;
}

/* Called for what a statement does while it is compiled, and not when it runs. */
static int on_compile(void *user, int what, const char *a, const char *b, const char *c,
                      const char *d)
{
    (void)user, (void)what, (void)a, (void)b, (void)c, (void)d;
    atomic_fetch_add(&traced.compiled, 1);
    return SQLITE_OK;
}

static int connect_traced(void *user, void **out_native, sqlock_error *out_err)
{
    sqlite3 *db = NULL;
    (void)out_err;

    if (sqlite3_open(user, &db) != SQLITE_OK)
        return SQLOCK_EUNREACH;
    sqlite3_trace_v2(db, SQLITE_TRACE_STMT, on_statement, NULL);
    sqlite3_set_authorizer(db, on_compile, NULL);
    *out_native = db;
    return 0;
}

static void assert_traced(int statements, int begins, int compiled)
{
    assert_int_equal(atomic_exchange(&traced.statements, 0), statements);
    assert_int_equal(atomic_exchange(&traced.begins, 0), begins);
    assert_int_equal(atomic_exchange(&traced.commits, 0), begins);
    assert_int_equal(atomic_exchange(&traced.compiled, 0), compiled);
}

static void forget_traced(void)
{
    memset(&traced, 0, sizeof traced);
}

static sqlock *traced_manager(void)
{
    struct db db = {.connect = connect_traced};

    stage_sqlite();
    db.driver = watched_driver();
    db.connect_user = (void *)(uintptr_t)stage_file();
    return db_open(db);
}

/* SQLite needs no network: what counts is the one transaction, whose commit is the cost. */
TEST(test_acquire_and_release_are_one_transaction_each_in_sqlite)
{
    sqlock *m = traced_manager();
    sqlock_lock *lock;

    lock_draw(m, NAME);
    lock_draw(m, NAME);
    assert_true(atomic_load(&traced.compiled) > 0);
    forget_traced();
    for (int i = 0; i < PAIRS; i++) {
        lock = held(m, NAME, 30000, NULL);
        /* look; begin, grant, answer, mode, commit: SQLite never keeps the mode compiled */
        assert_traced(6, 1, 1);
        lock_give(lock);
        assert_traced(5, 1, 1); /* begin, release, answer, mode, commit */
    }
    sqlock_close(m);
}

TEST(test_busy_try_is_one_reading_statement_in_sqlite)
{
    sqlock *m = traced_manager();
    sqlock_lock *lock = held(m, NAME, 30000, NULL), *none = NULL;

    take(m, NAME, 30000, 0, NULL, &none, &err);
    forget_traced();
    for (int i = 0; i < PAIRS; i++)
        assert_code(SQLOCK_EBUSY, take(m, NAME, 30000, 0, NULL, &none, &err), &err);
    assert_traced(PAIRS, 0, 0);
    lock_give(lock);
    sqlock_close(m);
}

#endif

TEST_MAIN_EACH(NULL, stage_teardown)
