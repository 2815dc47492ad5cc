/* What acquire and release cost on MariaDB and MySQL: requests, changes, and how the server finds
 * the rows. What becomes of a session's prepared statements. And that their answers carry the
 * clock. */
#include <mysql.h>

#include <sqlock/mysql.h>

#include "tests/drivers/suite.h"
#include "tests/lib/my.h"
#include "tests/lib/mysql_quirks.h"
#include "tests/lib/proxy.h"

extern const sqlock_dialect sqlock_mysql_dialect;

enum { PAIRS = 20, LONG_MS = 60000 };

static const char *database, *socket_path;
static MYSQL *sessions[4];
static int n_sessions;

static int connect_kept(void *flags, void **out_native, sqlock_error *out_err)
{
    MYSQL *my = mysql_init(NULL);

    (void)out_err;
    mysql_options(my, MYSQL_OPT_NONBLOCK, NULL);
    assert_non_null(mysql_real_connect(my, NULL, "root", "", database, 0, socket_path,
                                       CLIENT_MULTI_STATEMENTS | *(unsigned long *)flags));
    *out_native = sessions[n_sessions++] = my;
    return 0;
}

/* The manager's sessions stay known, so that they can be asked. */
static sqlock *open_kept_by(const sqlock_driver *driver, unsigned long *flags)
{
    sqlock_open_opts opts = SQLOCK_OPEN_OPTS_INIT;
    sqlock *m = NULL;
    char url[400];

    database = my_database_new();
    socket_path = my_socket_path();
    n_sessions = 0;
    snprintf(url, sizeof url, "mysql://root@localhost/%s?socket=%s", database, socket_path);
    ok(sqlock_migrate(sqlock_driver_mysql(), url, NULL, NULL, &said));
    opts.connect = connect_kept;
    opts.request_ms = LONG_MS;
    opts.connect_user = flags;
    ok(sqlock_open(driver, NULL, &opts, &m, &said));
    return m;
}

static sqlock *open_kept(unsigned long *flags)
{
    return open_kept_by(sqlock_driver_mysql(), flags);
}

static void pair(sqlock *m, const char *name)
{
    sqlock_acquire_opts opts = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL;

    opts.flags = SQLOCK_NO_RENEW;
    opts.wait_ms = opts.lease_ms = LONG_MS;
    ok(sqlock_acquire(m, name, &opts, &lock, &said));
    ok(sqlock_release(lock, &said));
    sqlock_lock_free(lock);
}

/* ---- cost ------------------------------------------------------------------------------------ */

TEST(test_acquire_and_release_are_one_request_each)
{
    struct proxy *p = proxy_start_unix(my_socket_path());
    sqlock *m = NULL;
    char url[400];
    int before;

    database = my_database_new();
    snprintf(url, sizeof url, "mysql://root@localhost/%s?socket=%s/.s.PGSQL.5432", database,
             proxy_dir(p));
    ok(sqlock_migrate(sqlock_driver_mysql(), url, NULL, NULL, &said));
    ok(sqlock_open(sqlock_driver_mysql(), url, NULL, &m, &said));
    pair(m, "often");
    pair(m, "often");
    before = proxy_requests(p);
    for (int i = 0; i < PAIRS; i++)
        pair(m, "often");
    assert_int_equal(proxy_requests(p) - before, 2 * PAIRS);
    sqlock_close(m);
    proxy_stop(p);
}

/* ---- plans ----------------------------------------------------------------------------------- */

/* The first statement with tables and values in it. What stands before it in a comment is left out.
 */
static char *explained(const sqlock_script *s, const sqlock_step *step)
{
    static char out[8192];
    const char *at = strncmp(step->sql, "/*", 2) == 0 ? strstr(step->sql, "*/") + 2 : step->sql;
    size_t len = (size_t)snprintf(out, sizeof out, "EXPLAIN ");

    for (int n = 0; *at != '\0' && *at != ';'; at++) {
        const char *param = s->params, *put = NULL;

        if (*at == '?') {
            for (int i = 0; i < step->order[n]; i++)
                param = strchr(param, ' ') + 1;
            put = *param == 'b' ? "X'6a6f62'" : "1";
            n++;
        } else if (strncmp(at, "{lock}", 6) == 0 || strncmp(at, "{meta}", 6) == 0) {
            put = at[1] == 'l' ? "sqlock_lock" : "sqlock_meta";
            at += 5;
        }
        len += (size_t)snprintf(out + len, sizeof out - len, put != NULL ? "%s" : "%.1s",
                                put != NULL ? put : at);
    }
    return out;
}

static void is_by_key(const char *column, const char *cell, const char *sql)
{
    if (strcmp(column, "key") == 0 && strcmp(cell, "PRIMARY") != 0)
        fail_msg("it goes by the key '%s': %s", cell, sql);
    if (strcmp(column, "rows") == 0 && atoi(cell) > 1)
        fail_msg("it reads %s rows: %s", cell, sql);
    if (strcmp(column, "Extra") == 0 && (strstr(cell, "temporary") || strstr(cell, "filesort")))
        fail_msg("%s: %s", cell, sql);
}

/* If a condition is false already for a row that was read by its key, the plan says only that. */
static void finds_by_key(MYSQL *my, const char *sql)
{
    MYSQL_RES *res;
    MYSQL_ROW row;
    unsigned n;

    if (mysql_query(my, sql) != 0)
        fail_msg("%s: %s", mysql_error(my), sql);
    assert_non_null(res = mysql_store_result(my));
    n = mysql_num_fields(res);
    while ((row = mysql_fetch_row(res)) != NULL)
        for (unsigned i = 0; strstr(row[n - 1], "after reading const tables") == NULL && i < n; i++)
            is_by_key(mysql_fetch_fields(res)[i].name, row[i] != NULL ? row[i] : "", sql);
    mysql_free_result(res);
}

/* Also in a table of a few rows, where the server would rather read all of them. */
TEST(test_statements_of_most_requests_go_by_key_and_make_no_table)
{
    static const sqlock_stmt often[] = {SQLOCK_STMT_ACQUIRE, SQLOCK_STMT_RELEASE};
    unsigned long none = 0;
    sqlock *m;
    int n = 0;

    if (!my_is_mariadb())
        skip();
    m = open_kept(&none);
    pair(m, "job");
    pair(m, "another");
    pair(m, "third");
    for (size_t k = 0; k < sizeof often / sizeof *often; k++) {
        const sqlock_script *s = &sqlock_mysql_dialect.scripts[often[k]];

        for (int i = 0; i < s->n_steps; i++)
            if (s->steps[i].flags & (SQLOCK_STEP_NOWAIT | SQLOCK_STEP_GIVES_NOW)) {
                finds_by_key(sessions[0], explained(s, &s->steps[i]));
                n++;
            }
    }
    assert_int_equal(n, 3);
    sqlock_close(m);
}

/* ---- prepared statements --------------------------------------------------------------------- */

static void go_on_without(sqlock_stmt stmt, const char *which)
{
    unsigned long none = 0;
    sqlock *m = open_kept(&none);
    char sql[64];

    pair(m, "often");
    pair(m, "often");
    snprintf(sql, sizeof sql, "DEALLOCATE PREPARE sqlock_%d_0%s", stmt, which);
    assert_int_equal(mysql_query(sessions[0], sql) == 0, my_is_mariadb());
    pair(m, "often");
    pair(m, "often");
    assert_int_equal(n_sessions, 1);
    sqlock_close(m);
}

/* The last one is lost when the lock was just granted. */
TEST(test_session_that_loses_its_prepared_statements_goes_on)
{
    go_on_without(SQLOCK_STMT_RELEASE, "");
    go_on_without(SQLOCK_STMT_ACQUIRE, "");
    go_on_without(SQLOCK_STMT_ACQUIRE, "_rest");
}

static void wait_in_vain(sqlock *m)
{
    sqlock_acquire_opts opts = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL;

    opts.wait_ms = 200;
    says(SQLOCK_EBUSY, sqlock_acquire(m, "held", &opts, &lock, &said));
    sleep_ms(300); /* until its place is given up, and no session is in use */
}

/* A transaction is kept as one compound statement. */
TEST(test_session_that_loses_a_prepared_transaction_goes_on)
{
    for (int rest = 0; rest < 2; rest++) {
        unsigned long none = 0;
        sqlock *m = open_kept(&none);
        sqlock_lock *held = take_for(m, "held", LONG_MS, SQLOCK_NO_RENEW);
        const char *sql =
            textf("DEALLOCATE PREPARE sqlock_%d_1%s", SQLOCK_STMT_QUEUE, rest ? "_rest" : "");
        int lost = 0;

        wait_in_vain(m);
        for (int i = 0; i < n_sessions; i++)
            lost += mysql_query(sessions[i], sql) == 0;
        assert_int_equal(lost > 0, my_is_mariadb());
        wait_in_vain(m);
        give(held);
        sqlock_close(m);
    }
}

/* ---- the clock ------------------------------------------------------------------------------- */

/* The driver with one step changed: there the server's clock is @ahead seconds ahead. */
static struct {
    sqlock_driver driver;
    sqlock_dialect dialect;
    sqlock_script scripts[SQLOCK_STMT_COUNT];
    sqlock_step steps[8];
} ahead;

static const char *clock_ahead(const char *sql)
{
    static const char clock[] = "UTC_TIMESTAMP(6)";
    const char *text = "", *at;

    assert_non_null(strstr(sql, clock));
    for (; (at = strstr(sql, clock)) != NULL; sql = at + strlen(clock))
        text = textf("%s%.*s(%s + INTERVAL COALESCE(@ahead, 0) SECOND)", text, (int)(at - sql), sql,
                     clock);
    return textf("%s%s", text, sql);
}

static const sqlock_driver *driver_ahead(sqlock_stmt stmt, size_t step)
{
    sqlock_script *s = &ahead.scripts[stmt];

    ahead.driver = *sqlock_driver_mysql();
    ahead.dialect = *ahead.driver.dialect;
    ahead.driver.dialect = &ahead.dialect;
    memcpy(ahead.scripts, ahead.dialect.scripts, sizeof ahead.scripts);
    ahead.dialect.scripts = ahead.scripts;
    assert_in_range(s->n_steps, step + 1, sizeof ahead.steps / sizeof *ahead.steps);
    memcpy(ahead.steps, s->steps, s->n_steps * sizeof *s->steps);
    ahead.steps[step].sql = clock_ahead(ahead.steps[step].sql);
    s->steps = ahead.steps;
    return &ahead.driver;
}

/* P4: the clock has jumped, and only this step shows that: in the answer of a pair's acquire, or of
 * its release. */
static void ends_leases_that_it_passed(sqlock_stmt stmt, size_t step)
{
    unsigned long none = 0;
    sqlock *m = open_kept_by(driver_ahead(stmt, step), &none);
    sqlock_lock *held = take_for(m, "held", 20000, SQLOCK_NO_RENEW);

    pair(m, "often");
    pair(m, "often");
    assert_int_equal(n_sessions, 1);
    assert_int_equal(mysql_query(sessions[0], "SET @ahead = 30"), 0);
    assert_state(SQLOCK_HELD, held);
    pair(m, "often");
    assert_lost(held, SQLOCK_WHY_CLOCK);
    drop(held);
    sqlock_close(m);
}

/* MySQL grants by the third step. */
TEST(test_P4_clock_that_jumped_is_seen_in_a_grant)
{
    ends_leases_that_it_passed(SQLOCK_STMT_ACQUIRE, my_is_mariadb() ? 0 : 2);
}

TEST(test_P4_clock_that_jumped_is_seen_in_a_release)
{
    ends_leases_that_it_passed(SQLOCK_STMT_RELEASE, 0);
}

TEST_MAIN_ON(mysql)
