/* An event loop whose manager has no thread, and a server that falls silent: no step waits for it
 * (P6, P8, P19). */
#include <poll.h>
#include <sqlock/async.h>
#include <string.h>

#include "tests/faults/faults.h"
#include "tests/lib/my.h"

/* What one step may take: much less than any of the waits here. */
#define STEP_MS 100

#define MYSQL_URL "mysql://root@localhost/%s?socket=%s%s"

static sqlock_error err;

static struct {
    struct db db; /* by way of the proxy */
    struct proxy *proxy;
    sqlock *m;
    int64_t longest_us;
} s;

static void begin_on_postgres(void)
{
    stage_proxied();
    s.proxy = stage.proxy;
    s.db = (struct db){.driver = stage.q->driver(),
                       .url = proxy_url(stage.proxy),
                       .schema = stage.at.schema,
                       .request_ms = 800};
}

static void begin_on_mysql(void)
{
    char *database = my_database_new();

    s.db = db_of(my_url());
    s.db.url = textf(MYSQL_URL, database, my_socket_path(), "");
    db_migrate(s.db);
    s.proxy = proxy_start_unix(my_socket_path());
    s.db.url = textf(MYSQL_URL, database, proxy_dir(s.proxy), "/.s.PGSQL.5432");
    s.db.request_ms = 800;
}

static int teardown(void **state)
{
    struct proxy *own = s.proxy != stage.proxy ? s.proxy : NULL;

    sqlock_close(s.m);
    proxy_stop(own);
    memset(&s, 0, sizeof s);
    return stage_teardown(state);
}

static void turn(int32_t ms)
{
    struct pollfd p = {sqlock_loop_fd(s.m), POLLIN, 0};
    int64_t begun;

    if (poll(&p, 1, ms) != 1)
        return;
    begun = sqlock_now_us();
    assert_int_equal(sqlock_loop_step(s.m), 0);
    if (sqlock_now_us() - begun > s.longest_us)
        s.longest_us = sqlock_now_us() - begun;
}

static int finish(sqlock_op *op, sqlock_lock **out_lock)
{
    for (int64_t end = sqlock_now_us() + patience_ms(20000) * MS;
         !sqlock_op_step(op) && sqlock_now_us() < end;)
        turn(50);
    assert_int_equal(sqlock_op_step(op), 1);
    return sqlock_op_finish(op, out_lock, &err);
}

static sqlock_op *open_start(void)
{
    sqlock_open_opts o = db_opts(s.db);
    sqlock_op *op = NULL;

    s.longest_us = 0;
    late_begin();
    assert_ok(sqlock_open_start(s.db.driver, s.db.url, &o, &s.m, &op, &err), &err);
    return op;
}

static void assert_no_step_waited(void)
{
    assert_between(0, s.longest_us, late_ms(STEP_MS) * MS);
}

/* Nothing comes, or only what the server says unasked, or the server hears and does not answer. */
static void opens_to_a_silent_server(proxy_mode silence)
{
    int64_t begun;
    sqlock_op *op;

    proxy_mode_set(s.proxy, silence);
    begun = sqlock_now_us();
    op = open_start();
    assert_int_not_equal(finish(op, NULL), 0);
    assert_true(err.flags & SQLOCK_RETRY);
    assert_between(700 * MS, sqlock_now_us() - begun, (800 + late_ms(300)) * MS);
    assert_no_step_waited();
}

/* Renewals get no answer: the loss comes on time, and requests end on time. */
static void holds_while_the_server_falls_silent(void)
{
    struct events events = {0};
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL, *none = NULL;
    sqlock_op *op = open_start(), *other = NULL;
    int64_t deadline, begun;

    assert_ok(finish(op, NULL), &err);
    o.lease_ms = 900;
    o.on_event = note_event;
    o.user = &events;
    assert_ok(sqlock_acquire_start(s.m, "nightly", &o, &op, &err), &err);
    assert_ok(finish(op, &lock), &err);
    proxy_mode_set(s.proxy, PROXY_HOLD_DOWN);
    deadline = sqlock_lock_deadline_us(lock);
    o = (sqlock_acquire_opts)SQLOCK_ACQUIRE_OPTS_INIT;
    o.wait_ms = 400;
    begun = sqlock_now_us();
    assert_ok(sqlock_acquire_start(s.m, "other", &o, &other, &err), &err);
    assert_int_not_equal(finish(other, &none), 0);
    assert_between(0, sqlock_now_us() - begun, (450 + late_ms(200)) * MS);
    while (atomic_load(&events.lost_at) == 0 && sqlock_now_us() < deadline + 5000 * MS)
        turn(50);
    assert_between(deadline, atomic_load(&events.lost_at), deadline + (int64_t)late_ms(100) * MS);
    assert_int_equal(sqlock_lock_state(lock), SQLOCK_LOST);
    assert_no_step_waited();
    begun = sqlock_now_us();
    sqlock_close(s.m);
    s.m = NULL;
    assert_between(0, sqlock_now_us() - begun, late_ms(500) * MS);
    sqlock_lock_free(lock);
    sqlock_lock_free(none);
}

#define SILENCE(server, how, silence)                                                              \
    TEST(test_##server##_that_##how##_from_the_start_delays_no_step)                               \
    {                                                                                              \
        begin_on_##server();                                                                       \
        opens_to_a_silent_server(silence);                                                         \
    }
SILENCE(postgres, is_cut_off, PROXY_HOLD)
SILENCE(postgres, hears_nothing, PROXY_HOLD_UP)
SILENCE(postgres, says_nothing, PROXY_HOLD_DOWN)
SILENCE(mysql, is_cut_off, PROXY_HOLD)
SILENCE(mysql, hears_nothing, PROXY_HOLD_UP)
SILENCE(mysql, says_nothing, PROXY_HOLD_DOWN)

TEST(test_postgres_that_falls_silent_delays_no_step)
{
    begin_on_postgres();
    holds_while_the_server_falls_silent();
}

TEST(test_mysql_that_falls_silent_delays_no_step)
{
    begin_on_mysql();
    holds_while_the_server_falls_silent();
}

TEST_MAIN_EACH(NULL, teardown)
