/* What PostgreSQL's driver says on connections that it opens by itself, while it ends a statement
 * on the application's. Whoever stalls a link may sit on it: he takes what comes after, and asks
 * for a password. */
#include <poll.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <sqlock/postgres.h>

#include "tests/drivers/suite_in_transaction.h"
#include "tests/lib/pg.h"
#include "tests/lib/postgres_app.h"
#include "tests/lib/postgres_quirks.h"
#include "tests/lib/proxy.h"

#define PASSWORD "swordfish"

enum { REQUEST = 8, CANCEL = 16 }; /* bytes of a request for encryption, of one to cancel */

/* Takes every connection to a path, and remembers all that it is told. */
static struct thief {
    pthread_t thread;
    int fd;
    atomic_int stop, met;
    _Atomic int64_t first_met; /* when */
    char said[4096];
    size_t n;
} thief;

static int hear(int fd)
{
    struct pollfd wait = {fd, POLLIN, 0};
    ssize_t n = 0;

    if (poll(&wait, 1, 500) == 1)
        n = recv(fd, thief.said + thief.n, sizeof thief.said - thief.n, 0);
    thief.n += n > 0 ? (size_t)n : 0;
    return n > 0 ? (int)n : 0;
}

/* No encryption here, whoever asks; and your password, please. */
static void *steal(void *arg)
{
    static const char wants_password[] = {'R', 0, 0, 0, 8, 0, 0, 0, 3};
    struct pollfd wait = {thief.fd, POLLIN, 0};

    while (!thief.stop) {
        int fd = poll(&wait, 1, 20) == 1 ? accept(thief.fd, NULL, NULL) : -1;

        if (fd < 0)
            continue;
        if (thief.met++ == 0)
            thief.first_met = sqlock_now_us();
        for (int n; (n = hear(fd)) > 0;)
            send(fd, wants_password, n == REQUEST ? 0 : sizeof wants_password, MSG_NOSIGNAL);
        close(fd);
    }
    return arg;
}

static void thief_start(const struct proxy *p)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    memset(&thief, 0, sizeof thief);
    snprintf(a.sun_path, sizeof a.sun_path, "%s/.s.PGSQL.5432", proxy_dir(p));
    unlink(a.sun_path);
    thief.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(thief.fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(thief.fd, 8), 0);
    assert_int_equal(pthread_create(&thief.thread, NULL, steal, NULL), 0);
}

static void thief_stop(void)
{
    thief.stop = 1;
    pthread_join(thief.thread, NULL);
    close(thief.fd);
}

/* The application in a transaction, on a link whose next connections are the thief's. */
static struct proxy *begin_watched(struct world *w)
{
    struct proxy *proxy = proxy_start_pg();

    begin_adopted(w);
    begin_at(proxy_url(proxy));
    proxy_refuse(proxy, 1);
    setenv("PGPASSWORD", PASSWORD, 1);
    thief_start(proxy);
    return proxy;
}

static void end_watched(struct proxy *proxy)
{
    thief_stop();
    unsetenv("PGPASSWORD");
    end_adopted();
    proxy_stop(proxy);
}

static void never_said(const char *word)
{
    if (word != NULL && strlen(word) > 1)
        assert_null(memmem(thief.said, thief.n, word, strlen(word)));
}

/* Our savepoint, behind which the server's limits leave so much time; then a statement, for which
 * the driver waits longer. The time between them is for a server that is late. */
static int run_limited(struct proxy *proxy, const char *sql, int32_t limit_ms, int32_t more_ms,
                       proxy_mode mode)
{
    int64_t limit = sqlock_now_us() + limit_ms * INT64_C(1000);

    ok(g.adopter->savepoint(g.conn, SQLOCK_SAVEPOINT_SET, limit, &said));
    proxy_mode_set(proxy, mode);
    says(SQLOCK_ETIMEOUT, run_until(sql, limit + more_ms * INT64_C(1000)));
    return sqlock_now_us() >= limit;
}

static void server_ends(struct proxy *proxy, const char *sql, int32_t limit_ms)
{
    assert_true(run_limited(proxy, sql, limit_ms, patience_ms(10000), PROXY_PASS));
    assert_int_equal(thief.met, 0);
    undo_failed();
}

/* Row 1 is another transaction's. */
static struct proxy *begin_watched_behind(struct world *w)
{
    struct proxy *proxy = begin_watched(w);

    g.w->place.url = pg_url();
    app_exec(app_connect(), "BEGIN", "UPDATE app_row SET n = 0 WHERE id = 1");
    return proxy;
}

TEST(test_statement_whose_time_is_over_needs_no_other_connection)
{
    struct proxy *proxy = begin_watched_behind(w);

    server_ends(proxy, OUR_WRITE, 100);
    server_ends(proxy, OUR_WRITE, 700);
    server_ends(proxy, g.side->slow, 700);
    assert_true(run_limited(proxy, g.side->slow, 700, patience_ms(1000), PROXY_HOLD));
    assert_int_equal(thief.met, 0);
    end_watched(proxy);
}

static void pass_again(void *proxy)
{
    proxy_mode_set(proxy, PROXY_PASS);
}

/* The server's answer is on its way, perhaps. */
TEST(test_wait_that_the_server_is_ending_is_not_cancelled_at_once)
{
    struct proxy *proxy = begin_watched_behind(w);
    int64_t limit = sqlock_now_us() + 100000, until = limit + 100000;

    ok(g.adopter->savepoint(g.conn, SQLOCK_SAVEPOINT_SET, limit, &said));
    proxy_mode_set(proxy, PROXY_HOLD_DOWN);
    do_later(600, pass_again, proxy);
    says(SQLOCK_ETIMEOUT, run_until(OUR_WRITE, until));
    await_later();
    assert_true(thief.met == 0 || thief.first_met >= until + 50000);
    end_watched(proxy);
}

/* The key of this very session, perhaps; never a name or a password. */
TEST(test_cancel_says_no_name_and_no_password)
{
    struct proxy *proxy = begin_watched(w);
    int rc;

    point_ok(SQLOCK_SAVEPOINT_SET);
    do_later(200, g.adopter->cancel, g.conn);
    rc = run(g.side->slow);
    await_later();
    says(SQLOCK_ECANCELLED, rc);
    sleep_ms(100);
    assert_true(thief.met > 0);
    never_said(PASSWORD);
    never_said(PQuser(native(g.app)));
    never_said(PQdb(native(g.app)));
    never_said("user");
    assert_in_range(thief.n, REQUEST, REQUEST + CANCEL);
    end_watched(proxy);
}

TEST_MAIN_ON(postgres)
