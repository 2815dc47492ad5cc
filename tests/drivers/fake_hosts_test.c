/* P2, P4, P6, P8 on fake servers: several hosts in one URL, of which one grants at a time. Which
 * one is asked, for how long, and what becomes of leases when another one takes over. */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <sqlock/fake.h>

#include "tests/lib/check.h"

enum { HOSTS = 3, VISITS = 64 };
#define NAME "nightly"

/* ---- servers ----------------------------------------------------------------------------------
 * Each host is a fake server of its own, behind a driver that may refuse, be silent, or say that it
 * is a replica. */

static int64_t real_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * INT64_C(1000000) + t.tv_nsec / 1000;
}

enum mood { PRIMARY, REFUSES, SILENT, REPLICA, HALF_SILENT, DENIES, READ_ONLY, SLOW };

static struct host {
    sqlock_fake *db, *own;
    atomic_int mood;
    atomic_int links; /* that are open */
} hosts[HOSTS];

static struct {
    uint32_t n;
    int64_t each_us;
    atomic_int visits; /* hosts that were connected to, in their order */
    atomic_int visited[VISITS];
    atomic_llong spent_us[VISITS]; /* what each was given */
} net;

struct link {
    uint32_t host;
    void *conn;
    int wake;
    atomic_int cut;
};

static int hang(int wake, int64_t until)
{
    struct pollfd p = {.fd = wake, .events = POLLIN};

    while (sqlock_now_us() < until)
        if (poll(&p, wake >= 0, 5) > 0)
            return SQLOCK_ECANCELLED;
    return SQLOCK_ETIMEOUT;
}

static int no_answer(int code, unsigned flags, sqlock_error *err)
{
    return code == SQLOCK_ECANCELLED ? sqlock_error_set(err, code, flags, "cancelled")
                                     : sqlock_error_set(err, code, flags, "no answer");
}

static int net_hosts(const char *url, sqlock_hosts *out, sqlock_error *err)
{
    (void)url;
    (void)err;
    out->n = net.n;
    out->each_us = net.each_us;
    return 0;
}

static int refuse(enum mood mood, const sqlock_conn_opts *o, int64_t deadline, sqlock_error *err)
{
    int rc;

    switch (mood) {
    case REFUSES:
        return sqlock_error_db(err, "08001", 0, 0, "connection refused");
    case DENIES:
        return sqlock_error_db(err, "28P01", 0, 0, "wrong password");
    case SLOW:
        rc = hang(o->wake_fd,
                  sqlock_now_us() + 700000 < deadline ? sqlock_now_us() + 700000 : deadline + 1);
        return rc == SQLOCK_ETIMEOUT && sqlock_now_us() < deadline
                   ? 0
                   : sqlock_error_db(err, "08001", 0, 0, "no connection before the deadline");
    case SILENT:
        rc = hang(o->wake_fd, deadline);
        return rc == SQLOCK_ECANCELLED
                   ? no_answer(rc, 0, err)
                   : sqlock_error_db(err, "08001", 0, 0, "no connection before the deadline");
    default:
        return 0;
    }
}

static int net_open(const sqlock_conn_opts *o, int64_t deadline, void **out, sqlock_error *err)
{
    uint32_t host = o->host > 0 ? o->host - 1 : 0;
    int at = atomic_fetch_add(&net.visits, 1), rc;
    sqlock_conn_opts own = *o;
    struct link *l;

    if (at < VISITS) {
        atomic_store(&net.visited[at], (int)host);
        atomic_store(&net.spent_us[at], deadline - sqlock_now_us());
    }
    if ((rc = refuse((enum mood)atomic_load(&hosts[host].mood), o, deadline, err)) != 0)
        return rc;
    own.url = NULL;
    own.connect = sqlock_fake_connect;
    own.connect_user = hosts[host].db;
    if ((l = sqlock_mem_alloc(sizeof *l)) == NULL)
        return sqlock_error_set(err, SQLOCK_ENOMEM, 0, "out of memory");
    l->host = host;
    l->wake = sqlock_wake_make();
    if ((rc = sqlock_driver_fake()->open(&own, deadline, &l->conn, err)) != 0) {
        sqlock_wake_close(l->wake);
        sqlock_mem_free(l);
        return rc;
    }
    atomic_fetch_add(&hosts[host].links, 1);
    *out = l;
    return 0;
}

static void net_close(void *conn)
{
    struct link *l = conn;

    atomic_fetch_sub(&hosts[l->host].links, 1);
    sqlock_driver_fake()->close(l->conn);
    sqlock_wake_close(l->wake);
    sqlock_mem_free(l);
}

/* Its clock is ahead by so much; 0: it does not tell its time. */
static atomic_llong replica_ahead_us;

static int is_replica(sqlock_rows *rows)
{
    static const char detail[] = "the server is a replica";
    int64_t ahead = atomic_load(&replica_ahead_us);

    sqlock_rows_add(rows, 0);
    sqlock_rows_put_int(rows, 0);
    sqlock_rows_put_int(rows, SQLOCK_OUT_READONLY);
    for (int i = 2; i < SQLOCK_COL_DETAIL; i++)
        sqlock_rows_put_int(rows, i == SQLOCK_COL_NOW && ahead != 0 ? real_us() + ahead : 0);
    return sqlock_rows_put_bytes(rows, detail, sizeof detail - 1);
}

static int writes(sqlock_stmt stmt)
{
    return stmt != SQLOCK_STMT_HANDSHAKE && stmt != SQLOCK_STMT_LEASE;
}

static int net_run(void *conn, sqlock_stmt stmt, const sqlock_value *values, size_t n,
                   int64_t deadline, sqlock_rows *rows, sqlock_error *err)
{
    struct link *l = conn;
    enum mood mood = (enum mood)atomic_load(&hosts[l->host].mood);
    int rc;

    if (mood == REPLICA && stmt == SQLOCK_STMT_HANDSHAKE)
        return is_replica(rows);
    if (mood == READ_ONLY && writes(stmt))
        return sqlock_error_db(err, "25006", 0, 0, "read-only transaction");
    if (mood == SILENT || (mood == HALF_SILENT && writes(stmt))) {
        rc = hang(l->wake, deadline);
        sqlock_wake_clear(l->wake);
        return no_answer(rc, SQLOCK_RECONNECT | SQLOCK_MAYBE, err);
    }
    rc = sqlock_driver_fake()->run(l->conn, stmt, values, n, deadline, rows, err);
    sqlock_wake_clear(l->wake);
    return rc;
}

static void net_cancel(void *conn)
{
    struct link *l = conn;

    sqlock_wake_set(l->wake);
    sqlock_driver_fake()->cancel(l->conn);
}

static int net_exec(void *conn, const char *sql, int64_t deadline, sqlock_error *err)
{
    return sqlock_driver_fake()->exec(((struct link *)conn)->conn, sql, deadline, err);
}

static int net_begin(void *conn, int64_t deadline, sqlock_error *err)
{
    return sqlock_driver_fake()->begin(((struct link *)conn)->conn, deadline, err);
}

static int net_commit(void *conn, int64_t deadline, sqlock_error *err)
{
    return sqlock_driver_fake()->commit(((struct link *)conn)->conn, deadline, err);
}

static int net_rollback(void *conn, int64_t deadline, sqlock_error *err)
{
    return sqlock_driver_fake()->rollback(((struct link *)conn)->conn, deadline, err);
}

static const sqlock_driver *driver(void)
{
    static sqlock_driver d;

    d = *sqlock_driver_fake();
    d.caps |= SQLOCK_CAP_HOSTS;
    d.open = net_open;
    d.close = net_close;
    d.run = net_run;
    d.exec = net_exec;
    d.begin = net_begin;
    d.commit = net_commit;
    d.rollback = net_rollback;
    d.cancel = net_cancel;
    d.hosts = net_hosts;
    return &d;
}

static int setup(void **state)
{
    (void)state;
    memset(&net, 0, sizeof net);
    net.n = HOSTS;
    for (int i = 0; i < HOSTS; i++) {
        hosts[i].db = hosts[i].own = sqlock_fake_new();
        atomic_store(&hosts[i].mood, PRIMARY);
        atomic_store(&hosts[i].links, 0);
    }
    return 0;
}

static sqlock *managers[4];
static size_t n_managers;

static int teardown(void **state)
{
    (void)state;
    while (n_managers > 0)
        sqlock_close(managers[--n_managers]);
    for (int i = 0; i < HOSTS; i++)
        sqlock_fake_free(hosts[i].own);
    return 0;
}

static void mood(int host, enum mood m)
{
    atomic_store(&hosts[host].mood, (int)m);
}

/* Its links are cut, and it stays as it is. */
static void cut(int host)
{
    sqlock_fake_down(hosts[host].db, 1);
    sqlock_fake_down(hosts[host].db, 0);
}

static int visits(void)
{
    return atomic_load(&net.visits);
}

static int visited(int i)
{
    return atomic_load(&net.visited[i]);
}

static int try_open(int32_t request_ms, sqlock **out, sqlock_error *err)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    int rc;

    o.request_ms = request_ms;
    o.connections = 3;
    *out = NULL;
    memset(err, 0, sizeof *err);
    rc = sqlock_open(driver(), "fake://h1,h2,h3", &o, out, err);
    if (rc == 0)
        managers[n_managers++] = *out;
    return rc;
}

static sqlock *open_with(int32_t request_ms)
{
    sqlock_error err;
    sqlock *m;

    assert_ok(try_open(request_ms, &m, &err), &err);
    return m;
}

static sqlock_acquire_opts opts(int32_t wait_ms, int32_t lease_ms, unsigned flags)
{
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;

    o.wait_ms = wait_ms;
    o.lease_ms = lease_ms;
    o.flags = flags;
    return o;
}

static sqlock_lock *take_with(sqlock *m, const sqlock_acquire_opts *o)
{
    sqlock_lock *lock = NULL;
    sqlock_error err = {0};

    assert_ok(sqlock_acquire(m, NAME, o, &lock, &err), &err);
    return lock;
}

static void give(sqlock_lock *lock)
{
    sqlock_error err = {0};

    assert_ok(sqlock_release(lock, &err), &err);
    sqlock_lock_free(lock);
}

static void assert_says(const sqlock_error *err, const char *words)
{
    if (strstr(err->text, words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", err->text, words);
}

/* ---- which host is asked, and for how long ----------------------------------------------------
 */

static void test_P8_a_silent_first_host_takes_its_share_alone(void **state)
{
    int64_t begun = now_us(), took;

    (void)state;
    mood(0, SILENT);
    open_with(1500);
    took = now_us() - begun;
    assert_between(400000, took, 500000 + patience_ms(300) * INT64_C(1000));
    assert_int_equal(visits(), 2);
    assert_int_equal(visited(1), 1);
}

static void test_P8_each_has_a_part_of_what_is_left(void **state)
{
    sqlock_error err;
    sqlock *m;

    (void)state;
    mood(0, SILENT);
    mood(1, SILENT);
    mood(2, REFUSES);
    assert_code(SQLOCK_EUNREACH, try_open(1500, &m, &err), &err);
    assert_between(450000, atomic_load(&net.spent_us[0]), 500000);
    assert_between(400000, atomic_load(&net.spent_us[1]), 500000);
    assert_between(350000, atomic_load(&net.spent_us[2]), 500000);
}

/* What a host that refuses has left over is for those that only needed longer. */
static void test_P8_a_slow_host_has_what_others_left(void **state)
{
    (void)state;
    mood(0, SLOW); /* 700 ms */
    mood(1, REFUSES);
    mood(2, REPLICA);
    open_with(1500);
    assert_int_equal(visits(), 4);
    assert_int_equal(visited(3), 0);
}

static void test_P8_the_urls_time_for_each_host_is_kept(void **state)
{
    int64_t begun = now_us();

    (void)state;
    net.each_us = 200000;
    mood(0, SILENT);
    mood(1, SILENT);
    open_with(5000);
    assert_between(350000, now_us() - begun, 400000 + patience_ms(500) * INT64_C(1000));
}

static void test_one_host_has_all_of_the_time(void **state)
{
    sqlock_error err;
    sqlock *m;

    (void)state;
    net.n = 1;
    mood(0, SILENT);
    assert_code(SQLOCK_EUNREACH, try_open(400, &m, &err), &err);
    assert_int_equal(visits(), 1);
    assert_between(380000, atomic_load(&net.spent_us[0]), 400000);
    assert_null(strstr(err.text, "host 1"));
}

static void test_the_host_that_answered_last_is_asked_first(void **state)
{
    sqlock_acquire_opts o = opts(0, 0, SQLOCK_NO_RENEW);
    sqlock *m;

    (void)state;
    mood(0, REFUSES);
    m = open_with(1000);
    mood(0, SILENT);
    cut(1);
    give(take_with(m, &o));
    assert_int_equal(visits(), 3);
    assert_int_equal(visited(0), 0);
    assert_int_equal(visited(1), 1);
    assert_int_equal(visited(2), 1);
}

static void test_P16_a_replica_is_passed_over(void **state)
{
    sqlock_acquire_opts o = opts(0, 0, SQLOCK_NO_RENEW);

    (void)state;
    mood(0, REPLICA);
    mood(1, REFUSES);
    give(take_with(open_with(1000), &o));
    assert_int_equal(sqlock_fake_seen(hosts[2].db, SQLOCK_STMT_ACQUIRE), 1);
}

static void test_P18_what_another_host_would_repeat_ends_the_walk(void **state)
{
    sqlock_error err;
    sqlock *m;

    (void)state;
    mood(0, DENIES);
    assert_code(SQLOCK_EDENIED, try_open(1000, &m, &err), &err);
    assert_string_equal(err.sqlstate, "28P01");
    assert_says(&err, "host 1: wrong password");
    assert_int_equal(visits(), 1);
}

static void test_P18_all_failures_are_told(void **state)
{
    sqlock_error err;
    sqlock *m;

    (void)state;
    mood(0, REPLICA);
    mood(1, REFUSES);
    mood(2, REPLICA);
    assert_code(SQLOCK_EUNREACH, try_open(1000, &m, &err), &err);
    assert_true(err.flags & SQLOCK_RETRY);
    assert_string_equal(err.sqlstate, "08001");
    assert_says(&err, "host 1: no locks can be taken here: the server is a replica; host 2: "
                      "connection refused");
    mood(1, REPLICA);
    assert_code(SQLOCK_EREADONLY, try_open(1000, &m, &err), &err);
    assert_true(err.flags & SQLOCK_RETRY);
}

/* Between the end of one primary and the promotion of the next there are replicas alone. */
static void *promote(void *arg)
{
    sleep_ms(300);
    mood(*(int *)arg, PRIMARY);
    return NULL;
}

static void test_P8_a_wait_outlasts_the_time_without_a_primary(void **state)
{
    sqlock_acquire_opts o = opts(patience_ms(10000), 0, SQLOCK_NO_RENEW);
    sqlock *m = open_with(1000);
    pthread_t thread;
    int next = 2;

    (void)state;
    for (int i = 0; i < HOSTS; i++)
        mood(i, REPLICA);
    cut(0);
    assert_int_equal(pthread_create(&thread, NULL, promote, &next), 0);
    give(take_with(m, &o));
    pthread_join(thread, NULL);
    assert_int_equal(sqlock_fake_seen(hosts[2].db, SQLOCK_STMT_ACQUIRE), 1);
}

/* ---- requests ---------------------------------------------------------------------------------
 */

/* A primary that waits for its standby answers handshake, and no request that writes. */
static void test_P8_a_host_that_answers_no_request_is_left_after_it(void **state)
{
    sqlock_acquire_opts o = opts(0, 0, SQLOCK_NO_RENEW);
    sqlock *m = open_with(2000);
    int64_t begun;

    (void)state;
    mood(0, HALF_SILENT);
    begun = now_us();
    give(take_with(m, &o));
    assert_between(500000, now_us() - begun, 1000000 + patience_ms(500) * INT64_C(1000));
    assert_int_equal(sqlock_fake_seen(hosts[1].db, SQLOCK_STMT_ACQUIRE), 1);
}

static void test_a_server_that_has_become_read_only_is_left(void **state)
{
    sqlock_acquire_opts o = opts(0, 0, SQLOCK_NO_RENEW);
    sqlock *m = open_with(1000);

    (void)state;
    give(take_with(m, &o));
    mood(0, READ_ONLY);
    give(take_with(m, &o));
    assert_int_equal(sqlock_fake_seen(hosts[1].db, SQLOCK_STMT_ACQUIRE), 1);
}

/* ---- another server ---------------------------------------------------------------------------
 */

enum { LEASE_MS = 3000 };

static atomic_int told_at_risk, told_held, told_lost;

static void note_event(sqlock_lock *lock, sqlock_state s, void *user)
{
    (void)lock;
    (void)user;
    atomic_fetch_add(s == SQLOCK_AT_RISK ? &told_at_risk
                     : s == SQLOCK_HELD  ? &told_held
                                         : &told_lost,
                     1);
}

static sqlock_acquire_opts watched(unsigned flags)
{
    sqlock_acquire_opts o = opts(0, LEASE_MS, flags);

    atomic_store(&told_at_risk, 0);
    atomic_store(&told_held, 0);
    atomic_store(&told_lost, 0);
    o.on_event = note_event;
    return o;
}

/* The second host has what the first one had, but for the last change of each row: the grant, or a
 * renewal behind it. It is another server. */
static void replicate(sqlock_lock *lock, bool has_it)
{
    sqlock_error err = {0};

    if (has_it)
        assert_ok(sqlock_renew(lock, &err), &err);
    hosts[1].db = hosts[0].db;
    sqlock_fake_failover(hosts[1].db);
}

static void promote_second(sqlock_lock *lock, bool has_it)
{
    mood(0, REFUSES);
    replicate(lock, has_it);
}

/* A request of another name finds the new server, long before the next renewal. */
static void ask_for_another_name(sqlock *m)
{
    sqlock_acquire_opts o = opts(patience_ms(2000), 0, SQLOCK_NO_RENEW);
    sqlock_lock *lock = NULL;
    sqlock_error err = {0};

    assert_ok(sqlock_acquire(m, "another", &o, &lock, &err), &err);
    give(lock);
}

static void test_P2_a_lease_that_the_new_server_has_goes_on(void **state)
{
    sqlock_acquire_opts o = watched(0);
    sqlock *m = open_with(1000);
    sqlock_lock *lock = take_with(m, &o);
    int64_t token = sqlock_lock_token(lock), begun;

    (void)state;
    promote_second(lock, true);
    begun = now_us();
    ask_for_another_name(m);
    assert_soon(atomic_load(&told_held) == 1, patience_ms(500));
    assert_true(now_us() - begun < LEASE_MS / 3 * 1000 || patience_ms(1) > 1);
    assert_int_equal(atomic_load(&told_lost), 0);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_HELD);
    assert_int_equal(sqlock_lock_token(lock), token);
    give(lock);
}

/* Whether it is still ours, only that one knows; it was granted to last until its deadline. */
static void test_P6_a_lease_is_at_risk_until_the_new_server_confirms_it(void **state)
{
    sqlock_acquire_opts o = watched(0);
    sqlock *m = open_with(1000);
    sqlock_lock *lock = take_with(m, &o);

    (void)state;
    promote_second(lock, true);
    sqlock_fake_fault(hosts[1].db, SQLOCK_STMT_RENEW, SQLOCK_FAULT_STALL, 0, 1, 300);
    ask_for_another_name(m);
    assert_soon(atomic_load(&told_at_risk) == 1, 200);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_AT_RISK);
    assert_true(sqlock_is_held(lock));
    assert_soon(atomic_load(&told_held) == 1, patience_ms(1000));
    give(lock);
}

static void test_P6_a_lease_that_the_new_server_has_not_is_lost_at_once(void **state)
{
    sqlock_acquire_opts o = watched(0);
    sqlock *m = open_with(1000);
    sqlock_lock *lock = take_with(m, &o);

    (void)state;
    promote_second(lock, false);
    ask_for_another_name(m);
    assert_soon(sqlock_lock_state(lock) == SQLOCK_LOST, patience_ms(500));
    assert_true(sqlock_now_us() < sqlock_lock_deadline_us(lock));
    assert_int_equal(sqlock_lock_why(lock), SQLOCK_WHY_FORGOTTEN);
    assert_soon(atomic_load(&told_lost) == 1, patience_ms(500));
    sqlock_lock_free(lock);
}

/* Nobody renews it, and nobody is asked to. */
static void test_P6_a_lease_that_is_not_renewed_is_looked_at(void **state)
{
    sqlock_acquire_opts o = watched(SQLOCK_NO_RENEW);
    sqlock *m = open_with(1000);
    sqlock_lock *lock = take_with(m, &o);
    int64_t deadline = sqlock_lock_deadline_us(lock);
    long renewals;

    (void)state;
    promote_second(lock, true);
    renewals = sqlock_fake_seen(hosts[1].db, SQLOCK_STMT_RENEW);
    ask_for_another_name(m);
    assert_soon(atomic_load(&told_held) == 1, patience_ms(500));
    assert_int_equal(sqlock_fake_seen(hosts[1].db, SQLOCK_STMT_RENEW), renewals);
    /* the renewal before it was lost with the old server */
    assert_between(deadline - 20000, sqlock_lock_deadline_us(lock), deadline + 2000);
    give(lock);
    lock = take_with(m, &o);
    mood(2, PRIMARY);
    mood(1, REFUSES);
    cut(1);
    sqlock_fake_failover(hosts[2].db);
    sqlock_fake_failover(hosts[2].db);
    ask_for_another_name(m);
    assert_soon(sqlock_lock_state(lock) == SQLOCK_LOST, patience_ms(500));
    assert_int_equal(sqlock_lock_why(lock), SQLOCK_WHY_FORGOTTEN);
    sqlock_lock_free(lock);
}

/* Its links stay open, and say nothing: it must not use up the lease. */
static void test_P7_a_lease_outlives_a_server_that_falls_silent(void **state)
{
    sqlock_acquire_opts o = watched(0);
    sqlock *m = open_with(1000);
    sqlock_lock *lock = take_with(m, &o);
    sqlock_error err = {0};
    int64_t deadline;

    (void)state;
    assert_ok(sqlock_renew(lock, &err), &err); /* which the second host is to miss */
    mood(0, SILENT);
    replicate(lock, false);
    deadline = sqlock_lock_deadline_us(lock);
    assert_soon(sqlock_lock_deadline_us(lock) > deadline, patience_ms(LEASE_MS));
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_HELD);
    assert_int_equal(atomic_load(&told_lost), 0);
    assert_int_equal(atomic_load(&hosts[0].links), 0);
    give(lock);
}

/* After a move each lease is asked for: the one that is not renewed by itself, too. */
static void test_P7_a_check_that_hangs_costs_no_other_lease(void **state)
{
    sqlock_acquire_opts o = opts(0, 60000, SQLOCK_NO_RENEW), quick = watched(0);
    sqlock *m = open_with(patience_ms(8000));
    sqlock_lock *slow = NULL, *lock = take_with(m, &quick);
    sqlock_error err = {0};

    (void)state;
    assert_ok(sqlock_acquire(m, "slow", &o, &slow, &err), &err);
    assert_ok(sqlock_renew(slow, &err), &err);
    sqlock_fake_fault(hosts[0].db, SQLOCK_STMT_LEASE, SQLOCK_FAULT_STALL, 0, 1, 20000);
    promote_second(lock, true);
    ask_for_another_name(m);
    sleep_ms(2 * LEASE_MS);
    assert_int_equal(atomic_load(&told_lost), 0);
    assert_true(sqlock_is_held(lock));
    sqlock_lock_free(slow);
    give(lock);
}

/* A request that hangs makes the manager look at the next host, which is not the one that grants.
 */
static void test_P4_a_replicas_clock_ends_no_lease(void **state)
{
    sqlock_acquire_opts o = watched(0), once = opts(0, 0, SQLOCK_NO_RENEW);
    sqlock *m = open_with(600);
    sqlock_lock *lock = take_with(m, &o), *none = NULL;
    sqlock_error err = {0};

    (void)state;
    mood(1, REPLICA);
    mood(2, REPLICA);
    atomic_store(&replica_ahead_us, 20 * LEASE_MS * INT64_C(1000));
    sqlock_fake_fault(hosts[0].db, SQLOCK_STMT_ACQUIRE, SQLOCK_FAULT_STALL, 0, 1, 1000);
    once.wait_ms = patience_ms(3000);
    assert_ok(sqlock_acquire(m, "another", &once, &none, &err), &err);
    give(none);
    assert_true(visits() > 1);
    atomic_store(&replica_ahead_us, 0);
    assert_int_equal(atomic_load(&told_lost), 0);
    assert_true(sqlock_is_held(lock));
    give(lock);
}

static void test_all_connections_are_to_one_server(void **state)
{
    sqlock_acquire_opts o = opts(0, 0, 0);
    sqlock *m = open_with(1000);
    sqlock_lock *first = take_with(m, &o), *second = NULL;
    sqlock_error err = {0};

    (void)state;
    assert_int_equal(atomic_load(&hosts[0].links), 2);
    sqlock_fake_failover(hosts[1].db);
    mood(0, READ_ONLY); /* its links are well */
    o.flags = SQLOCK_NO_RENEW;
    assert_ok(sqlock_acquire(m, "second", &o, &second, &err), &err);
    assert_int_equal(atomic_load(&hosts[0].links), 0);
    give(second);
    sqlock_lock_free(first);
}

/* An opening that the old server answers when another one has been found. */
struct late {
    sqlock *m;
    int rc;
};

static void *acquire_late(void *arg)
{
    struct late *l = arg;
    sqlock_acquire_opts o = opts(patience_ms(3000), 0, SQLOCK_NO_RENEW);
    sqlock_lock *lock = NULL;

    l->rc = sqlock_acquire(l->m, "late", &o, &lock, NULL);
    if (l->rc == 0)
        l->rc = sqlock_release(lock, NULL);
    sqlock_lock_free(lock);
    return NULL;
}

static void test_P2_an_older_server_that_answers_late_is_not_believed(void **state)
{
    struct late late;
    pthread_t thread;
    long asked;

    (void)state;
    net.n = 2;
    sqlock_fake_failover(hosts[1].db);
    late.m = open_with(2000);
    cut(0);
    mood(0, SLOW);
    asked = sqlock_fake_seen(hosts[0].db, SQLOCK_STMT_ACQUIRE);
    assert_int_equal(pthread_create(&thread, NULL, acquire_late, &late), 0);
    assert_soon(visits() == 2, patience_ms(2000));
    sleep_ms(50);
    mood(0, REFUSES);
    cut(1);
    ask_for_another_name(late.m);
    mood(0, PRIMARY);
    pthread_join(thread, NULL);
    assert_int_equal(late.rc, 0);
    assert_int_equal(sqlock_fake_seen(hosts[0].db, SQLOCK_STMT_ACQUIRE), asked);
    assert_true(sqlock_fake_seen(hosts[1].db, SQLOCK_STMT_ACQUIRE) >= 2);
}

/* The token of a grant that is given back, on whatever server can be found. */
static int64_t draw(sqlock *m)
{
    sqlock_acquire_opts o = opts(patience_ms(2000), 0, SQLOCK_NO_RENEW);
    sqlock_lock *lock = take_with(m, &o);
    int64_t token = sqlock_lock_token(lock);

    give(lock);
    return token;
}

static void switch_over(int from, int to)
{
    mood(from, REFUSES);
    mood(to, PRIMARY);
    cut(from);
}

/* Seen under Patroni 3.0.2, whose frozen leader woke up and took the key back from the new one: the
 * old primary, neither started anew nor rebuilt, grants again, and the new one's commits are gone.
 */
static void test_P2_a_primary_that_was_overtaken_goes_on_above_the_other(void **state)
{
    sqlock *m = open_with(1000), *fresh;
    int64_t first = draw(m), second, third;

    (void)state;
    mood(2, REFUSES);
    switch_over(0, 1);
    second = draw(m);
    assert_true(second > first);
    switch_over(1, 0);
    third = draw(m);
    assert_true(third > second);
    fresh = open_with(1000); /* who knows nothing of that profits from who does */
    assert_true(draw(fresh) > third);
}

/* ---- migrations -------------------------------------------------------------------------------
 */

static int migrate(int version, unsigned flags, sqlock_error *err)
{
    memset(err, 0, sizeof *err);
    return sqlock_migrate_to(driver(), "fake://h1,h2,h3", NULL, version, flags, NULL, err);
}

static void test_P16_migrations_go_where_locks_would(void **state)
{
    sqlock_error err;

    (void)state;
    mood(0, REPLICA);
    mood(1, REFUSES);
    assert_ok(migrate(SQLOCK_SCHEMA_LATEST, 0, &err), &err);
    assert_true(sqlock_fake_seen(hosts[2].db, SQLOCK_STMT_MIGRATE_VERSION) > 0);
    assert_int_equal(sqlock_fake_seen(hosts[0].db, -1), 0);
    mood(2, REPLICA);
    assert_code(SQLOCK_EUNREACH, migrate(SQLOCK_SCHEMA_LATEST, 0, &err), &err);
    assert_says(&err, "migrate: host 1: no locks can be taken here");
    mood(2, PRIMARY); /* the way down goes there, too */
    assert_ok(migrate(1, SQLOCK_MIGRATE_DOWN, &err), &err);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
    TEST(test_P8_a_silent_first_host_takes_its_share_alone),
    TEST(test_P8_each_has_a_part_of_what_is_left),
    TEST(test_P8_a_slow_host_has_what_others_left),
    TEST(test_P8_the_urls_time_for_each_host_is_kept),
    TEST(test_one_host_has_all_of_the_time),
    TEST(test_the_host_that_answered_last_is_asked_first),
    TEST(test_P16_a_replica_is_passed_over),
    TEST(test_P18_what_another_host_would_repeat_ends_the_walk),
    TEST(test_P18_all_failures_are_told),
    TEST(test_P8_a_wait_outlasts_the_time_without_a_primary),
    TEST(test_P8_a_host_that_answers_no_request_is_left_after_it),
    TEST(test_a_server_that_has_become_read_only_is_left),
    TEST(test_P2_a_lease_that_the_new_server_has_goes_on),
    TEST(test_P6_a_lease_is_at_risk_until_the_new_server_confirms_it),
    TEST(test_P6_a_lease_that_the_new_server_has_not_is_lost_at_once),
    TEST(test_P6_a_lease_that_is_not_renewed_is_looked_at),
    TEST(test_P7_a_lease_outlives_a_server_that_falls_silent),
    TEST(test_P7_a_check_that_hangs_costs_no_other_lease),
    TEST(test_P4_a_replicas_clock_ends_no_lease),
    TEST(test_all_connections_are_to_one_server),
    TEST(test_P2_an_older_server_that_answers_late_is_not_believed),
    TEST(test_P2_a_primary_that_was_overtaken_goes_on_above_the_other),
    TEST(test_P16_migrations_go_where_locks_would),
};

TEST_MAIN(tests)
