/* P2, P10: four clients fight for one name, some of them die holding it, a reaper clears and prunes
 * its row as soon as it can, and in the middle the server is killed and comes back. Tokens only
 * rise, and no deadlock reaches a caller. */
#include "tests/faults/faults.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/private.h"
#include "tests/lib/undo.h"

enum { CLIENTS = 4, LEASE = 200, GRANTS_MAX = 20000, ENOUGH = 40 };
#define NAME "nightly"

/* A server that can be killed and started again. */
struct server {
    const sqlock_driver *(*driver)(void);
    const char *(*url)(void); /* skips the test where there is none */
    void (*restart)(void);
};

struct grant {
    int64_t token, sent, got;
};

static struct {
    pthread_mutex_t mutex;
    int stop, deadlocks;
    size_t n;
    struct grant grants[GRANTS_MAX];
    int64_t cleared, pruned;
    sqlock_error err; /* the first that nothing explains */
} book = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static struct worker {
    pthread_t thread;
    bool runs;
    unsigned seed;
    sqlock *m;
} workers[CLIENTS + 1];

/* ---- what is noted ------------------------------------------------------------------------------
 */

static int stopped(void)
{
    int stop;

    pthread_mutex_lock(&book.mutex);
    stop = book.stop;
    pthread_mutex_unlock(&book.mutex);
    return stop;
}

static size_t grants(void)
{
    size_t n;

    pthread_mutex_lock(&book.mutex);
    n = book.n;
    pthread_mutex_unlock(&book.mutex);
    return n;
}

/* A server that is killed explains that it cannot be reached, is silent, or loses a reply; and what
 * a lost reply leaves in doubt, a later call finds lost. */
static void note_failure(const sqlock_error *err)
{
    int explained = err->code == SQLOCK_EUNREACH || err->code == SQLOCK_ETIMEOUT ||
                    err->code == SQLOCK_EUNSURE || err->code == SQLOCK_ELOST ||
                    err->code == SQLOCK_EBUSY;

    pthread_mutex_lock(&book.mutex);
    book.deadlocks += strcmp(err->sqlstate, "40P01") == 0 || strcmp(err->sqlstate, "40001") == 0;
    if (!explained && book.err.code == 0)
        book.err = *err;
    pthread_mutex_unlock(&book.mutex);
}

static void note_grant(int64_t token, int64_t sent)
{
    pthread_mutex_lock(&book.mutex);
    if (book.n < GRANTS_MAX)
        book.grants[book.n++] = (struct grant){token, sent, now_us()};
    pthread_mutex_unlock(&book.mutex);
}

/* Pairs of grants with one token, or with tokens in another order than the grants: one had its
 * answer before the other asked. */
static int faults(void)
{
    int n = 0;

    for (size_t i = 0; i < book.n; i++)
        for (size_t j = 0; j < book.n; j++) {
            const struct grant *a = &book.grants[i], *b = &book.grants[j];

            n += (i < j && a->token == b->token) || (a->got < b->sent && a->token > b->token);
        }
    return n;
}

/* ---- who works ----------------------------------------------------------------------------------
 */

/* One in four dies with the lock: the next has to wait for the lease's end, and takes over. */
static void *client(void *arg)
{
    struct worker *w = arg;

    while (!stopped()) {
        sqlock_acquire_opts opts = SQLOCK_ACQUIRE_OPTS_INIT;
        sqlock_error err = {0};
        sqlock_lock *lock = NULL;
        int64_t sent = now_us();

        opts.lease_ms = LEASE;
        opts.wait_ms = 2000;
        opts.flags = SQLOCK_NO_RENEW;
        if (sqlock_acquire(w->m, NAME, &opts, &lock, &err) != 0)
            note_failure(&err);
        else
            note_grant(sqlock_lock_token(lock), sent);
        if (lock && rand_r(&w->seed) % 4 != 0 && sqlock_release(lock, &err) != 0)
            note_failure(&err);
        sqlock_lock_free(lock);
        sleep_ms(rand_r(&w->seed) % 4); /* so that the row is idle at times */
    }
    return NULL;
}

static void *reaper(void *arg)
{
    struct worker *w = arg;
    sqlock_reap_opts opts = SQLOCK_REAP_OPTS_INIT;

    opts.grace_ms = 0;
    opts.pause_ms = 0;
    while (!stopped()) {
        sqlock_reap_report r = {.size = sizeof r};
        sqlock_error err = {0};

        if (sqlock_reap(w->m, &opts, &r, &err) != 0)
            note_failure(&err);
        pthread_mutex_lock(&book.mutex);
        book.cleared += r.cleared;
        book.pruned += r.pruned;
        pthread_mutex_unlock(&book.mutex);
        sleep_ms(1);
    }
    return NULL;
}

static int teardown(void **state)
{
    (void)state;
    pthread_mutex_lock(&book.mutex);
    book.stop = 1;
    pthread_mutex_unlock(&book.mutex);
    for (int i = 0; i <= CLIENTS; i++) {
        if (workers[i].runs)
            pthread_join(workers[i].thread, NULL);
        sqlock_close(workers[i].m);
    }
    memset(workers, 0, sizeof workers);
    return 0;
}

/* ---- a reaper that waits for nothing -----------------------------------------------------------
 */

static const sqlock_driver *real;
static sqlock_driver eager;
static sqlock_dialect eager_dialect;
static sqlock_script eager_scripts[SQLOCK_STMT_COUNT];

/* Rows are pruned as soon as they are free, not after hours. */
static int eager_run(void *conn, sqlock_stmt stmt, const sqlock_value *values, size_t n,
                     int64_t deadline, sqlock_rows *rows, sqlock_error *err)
{
    enum { SWEEP_IDLE = 4, PRUNE_CUT = 2, MOST = 8 };
    sqlock_value copy[MOST];
    size_t n_params = real->dialect->scripts[stmt].n_params;

    if ((stmt == SQLOCK_STMT_SWEEP || stmt == SQLOCK_STMT_PRUNE) && n == 1 && n_params <= MOST) {
        memcpy(copy, values, n_params * sizeof *copy);
        if (stmt == SQLOCK_STMT_SWEEP)
            copy[SWEEP_IDLE].i = 0;
        else
            copy[PRUNE_CUT].i = INT64_MAX;
        values = copy;
    }
    return real->run(conn, stmt, values, n, deadline, rows, err);
}

static const sqlock_driver *eager_driver(const sqlock_driver *of)
{
    real = of;
    eager = *of;
    eager.run = eager_run;
    return &eager;
}

/* Replace the first `from` in a step of the prune statement. */
static void damage(size_t step, const char *from, const char *to)
{
    static char texts[4][4096];
    static sqlock_step steps[4];
    const sqlock_script *prune = &eager_scripts[SQLOCK_STMT_PRUNE];
    const char *at = strstr(prune->steps[step].sql, from);

    assert_non_null(at);
    assert_true(prune->n_steps <= 4);
    memcpy(steps, prune->steps, prune->n_steps * sizeof *steps);
    snprintf(texts[step], sizeof texts[step], "%.*s%s%s", (int)(at - steps[step].sql),
             steps[step].sql, to, at + strlen(from));
    steps[step].sql = texts[step];
    eager_scripts[SQLOCK_STMT_PRUNE].steps = steps;
}

/* Wrong: the row goes, and what it knew with it. */
static const sqlock_driver *forgetful_driver(const sqlock_driver *of)
{
    eager_driver(of);
    eager_dialect = *of->dialect;
    memcpy(eager_scripts, of->dialect->scripts, sizeof eager_scripts);
    eager_dialect.scripts = eager_scripts;
    eager.dialect = &eager_dialect;
    damage(0, "m.fence_floor OPERATOR(pg_catalog.<) $4", "m.fence_floor < 0");
    damage(1, "OPERATOR(pg_catalog.<=) m.fence_floor", ">= 0");
    return &eager;
}

/* ---- the fight ---------------------------------------------------------------------------------
 */

static void start(struct worker *w, void *(*body)(void *), const sqlock_driver *driver,
                  const char *url)
{
    sqlock_open_opts opts = SQLOCK_OPEN_OPTS_INIT;
    sqlock_error err = {0};

    opts.request_ms = 2000;
    opts.lease_ms = 1000; /* of the reaper, so that its end holds no other up for long */
    w->seed = 7u + (unsigned)(w - workers);
    assert_ok(sqlock_open(driver, url, &opts, &w->m, &err), &err);
    assert_int_equal(pthread_create(&w->thread, NULL, body, w), 0);
    w->runs = true;
}

static void fight(const struct server *server, const sqlock_driver *driver)
{
    const char *url = server->url();
    sqlock_error err = {0};
    size_t before;

    assert_ok(sqlock_migrate(server->driver(), url, NULL, NULL, &err), &err);
    book.stop = book.deadlocks = 0;
    book.n = 0;
    book.cleared = book.pruned = 0;
    book.err.code = 0;
    for (int i = 0; i < CLIENTS; i++)
        start(&workers[i], client, driver, url);
    start(&workers[CLIENTS], reaper, driver, url);
    assert_soon(grants() >= ENOUGH, patience_ms(30000));
    server->restart();
    before = grants();
    assert_soon(grants() >= before + ENOUGH, patience_ms(30000));
    teardown(NULL);
}

static void check_fight(const struct server *server)
{
    fight(server, eager_driver(server->driver()));
    print_message("%zu grants, %lld rows cleared, %lld pruned\n", book.n, (long long)book.cleared,
                  (long long)book.pruned);
    assert_ok(book.err.code, &book.err);
    assert_int_equal(book.deadlocks, 0);
    assert_true(book.pruned > 0);
    assert_int_equal(faults(), 0);
}

/* ---- the servers -------------------------------------------------------------------------------
 */

#ifdef TEST_HAVE_POSTGRES
#include <sqlock/postgres.h>

static void restart_postgres(void)
{
    private_kill();
    private_start();
}

static const struct server postgres = {sqlock_driver_postgres, private_url, restart_postgres};

static void test_tokens_rise_over_reaping_and_a_restart_of_postgres(void **state)
{
    (void)state;
    check_fight(&postgres);
    for (int i = 0; i == 0 || faults() == 0; i++) { /* wrong */
        assert_true(i < 5);
        private_exec("TRUNCATE sqlock_lock; UPDATE sqlock_meta SET fence_floor = 0");
        fight(&postgres, forgetful_driver(sqlock_driver_postgres()));
    }
}
#endif

#ifdef TEST_HAVE_MYSQL
#include <mysql.h>
#include <sqlock/mysql.h>

static char my_url[256];

static void my_tool(const char *what)
{
    char command[512];

    snprintf(command, sizeof command, "tests/tools/my.sh %s '%s'", what, my_url);
    if (system(command) != 0)
        fail_msg("%s failed", command);
}

static void stop_mysql(const char *what)
{
    (void)what;
    my_tool("stop");
}

static const char *mysql_url(void)
{
    FILE *f = NULL;

    if (!test_wants("mysql"))
        skip();
    if (my_url[0])
        return my_url;
    f = popen("tests/tools/my.sh start", "r");
    if (!f || !fgets(my_url, sizeof my_url, f))
        my_url[0] = '\0';
    if (f && pclose(f) != 0)
        my_url[0] = '\0';
    my_url[strcspn(my_url, "\n")] = '\0';
    if (!my_url[0]) {
        print_error("SKIP: no private MariaDB or MySQL: tests/tools/my.sh could not start one\n");
        if (test_strict())
            fail_msg("STRICT=1 asks for every test");
        skip();
    }
    undo_later(stop_mysql, my_url);
    return my_url;
}

static void restart_mysql(void)
{
    my_tool("crash");
}

/* Deadlocks that the server has seen since it was started; 0 where it does not count them. */
static long deadlocks_of_mysql(void)
{
    MYSQL *my = mysql_init(NULL);
    MYSQL_RES *res = NULL;
    MYSQL_ROW row;
    long n = 0;

    assert_non_null(my);
    assert_non_null(mysql_real_connect(my, NULL, "root", "", NULL, 0,
                                       strstr(my_url, "socket=") + sizeof "socket=" - 1, 0));
    assert_int_equal(mysql_query(my, "SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'"), 0);
    assert_non_null(res = mysql_store_result(my));
    if ((row = mysql_fetch_row(res)) != NULL)
        n = strtol(row[1], NULL, 10);
    mysql_free_result(res);
    mysql_close(my);
    return n;
}

static const struct server mysql = {sqlock_driver_mysql, mysql_url, restart_mysql};

static void test_tokens_rise_over_reaping_and_a_restart_of_mysql(void **state)
{
    (void)state;
    check_fight(&mysql);
    assert_int_equal(deadlocks_of_mysql(), 0); /* nor did any have to be hidden from a caller */
}
#endif

#define T(name) cmocka_unit_test_teardown(test_##name, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifdef TEST_HAVE_POSTGRES
        T(tokens_rise_over_reaping_and_a_restart_of_postgres),
#endif
#ifdef TEST_HAVE_MYSQL
        T(tokens_rise_over_reaping_and_a_restart_of_mysql),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL) == 0 ? 0 : 1;
}
