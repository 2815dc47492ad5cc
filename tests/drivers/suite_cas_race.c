/* P13: many who change one row at once, and none of whose changes may be lost. The twin reads and
 * writes in the same steps, but does not compare, and loses some. */
#include <sqlock/cas.h>
#include <sqlock/retry.h>

#include "tests/drivers/suite_guest.h"

enum { CLIENTS = 6, ADDED = 12 };

/* One who adds 1 to the row's n, ADDED times. */
struct client {
    void *app;
    sqlock_conn *conn;
    const struct way *way;
    int conflicts, restarts, failed;
    bool compares;
};

/* What a transaction that began from old data would write over. */
static int write_it(struct client *c, int64_t n, int64_t version, sqlock_error *err)
{
    sqlock_column key = {"id", sqlock_int(1), NULL}, set = {"n", sqlock_int(n + 1), NULL};
    sqlock_row row = {sizeof row, g.w->place.schema, "app_count", &key, 1};
    sqlock_row_version v = {sizeof v, 0, "version", sqlock_int(version), sqlock_null()};
    char sql[128];

    if (c->compares)
        return sqlock_cas_update(c->conn, &row, &v, &set, 1, err);
    snprintf(sql, sizeof sql, "UPDATE app_count SET n = %d, version = version + 1 WHERE id = 1",
             (int)n + 1);
    return g.side->exec(c->app, sql) ? 0 : SQLOCK_EBUSY;
}

/* Read outside of the transaction, as who shows a form and waits for its answer. */
static int add_one(const sqlock_attempt *attempt, void *user, sqlock_error *err)
{
    struct client *c = user;
    int64_t version = app_number(c->app, "SELECT version FROM app_count WHERE id = 1");
    int64_t n = app_number(c->app, "SELECT n FROM app_count WHERE id = 1");
    int rc;

    (void)attempt;
    if (version < 0 || n < 0)
        return SQLOCK_EBUSY;
    sleep_ms(1);
    if (!g.side->exec(c->app, c->way->begin))
        return SQLOCK_EBUSY;
    rc = write_it(c, n, version, err);
    c->conflicts += rc == SQLOCK_CONFLICT;
    c->restarts += rc == SQLOCK_ETXRESTART;
    if (rc == 0 && !g.side->exec(c->app, "COMMIT"))
        rc = SQLOCK_EBUSY;
    if (rc != 0)
        g.side->exec(c->app, "ROLLBACK");
    return rc;
}

static void *add_all(void *arg)
{
    struct client *c = arg;
    sqlock_retry_opts o = SQLOCK_RETRY_OPTS_INIT;

    o.attempts = 1000;
    o.base_ms = 2;
    o.cap_ms = 50;
    o.total_ms = patience_ms(60000);
    for (int i = 0; i < ADDED; i++)
        if (sqlock_retry(NULL, add_one, c, &o, &said) != 0) {
            fprintf(stderr, "not added: %s\n", said.text);
            c->failed++;
        }
    return NULL;
}

/* What they made of the row together; the conflicts that they met. */
static int64_t race(const struct way *way, bool compares, int *out_conflicts)
{
    struct client clients[CLIENTS];
    sqlock *m = open_manager(g.w, NULL);

    app_exec(g.app, "UPDATE app_count SET n = 0, version = 1 WHERE id = 1");
    *out_conflicts = 0;
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = (struct client){.way = way, .compares = compares};
        clients[i].app = g.side->connect(&g.w->place);
        clients[i].conn = adopted(m, clients[i].app);
        if (way->before)
            app_exec(clients[i].app, way->before);
    }
    run_threads(CLIENTS, clients, sizeof *clients, add_all);
    for (int i = 0; i < CLIENTS; i++) {
        *out_conflicts += clients[i].conflicts + clients[i].restarts;
        let_go(clients[i].conn);
        g.side->close(clients[i].app);
        assert_int_equal(clients[i].failed, 0);
    }
    close_manager(g.w, m);
    return app_number(g.app, "SELECT n FROM app_count WHERE id = 1");
}

static void begin_race(struct world *w)
{
    begin_app(w);
    app_exec(g.app, "CREATE TABLE app_count (id INTEGER PRIMARY KEY, n INTEGER NOT NULL, "
                    "version BIGINT NOT NULL)");
    app_exec(g.app, "INSERT INTO app_count VALUES (1, 0, 1)");
}

TEST_AFTER(begin_race, test_no_change_is_lost_between_many_who_compare_and_set)
{
    int conflicts;

    for (const struct way *way = g.side->ways; way->name; way++) {
        if (way->begin == NULL) /* one that reads here has a transaction already */
            continue;
        assert_int_equal(race(way, true, &conflicts), CLIENTS * ADDED);
        assert_true(conflicts > 0); /* they did meet */
        assert_int_equal(app_number(g.app, "SELECT version FROM app_count"), 1 + CLIENTS * ADDED);
    }
}

TEST_AFTER(begin_race, test_twin_that_does_not_compare_loses_changes)
{
    int conflicts;

    assert_true(race(&g.side->ways[0], false, &conflicts) < CLIENTS * ADDED);
    assert_int_equal(app_number(g.app, "SELECT version FROM app_count"), 1 + CLIENTS * ADDED);
}
