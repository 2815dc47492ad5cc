#include "tests/drivers/suite_in_transaction.h"

struct guest g;

void *app_connect(void)
{
    void *app = g.side->connect(&g.w->place);

    assert_non_null(app);
    assert_in_range(g.w->n_apps, 0, WORLD_APPS - 1);
    g.w->apps[g.w->n_apps++] = app;
    return app;
}

void app_exec_all(void *app, const char *const *sql)
{
    for (; *sql; sql++)
        if (!g.side->exec(app, *sql))
            fail_msg("the application's statement failed: %s", *sql);
}

static struct later {
    pthread_t thread;
    int32_t ms;
    void (*what)(void *arg);
    void *arg;
    const char *sql;
    bool running, failed;
} later;

static void *do_it(void *arg)
{
    (void)arg;
    sleep_ms(later.ms);
    later.what(later.arg);
    return NULL;
}

void do_later(int32_t ms, void (*what)(void *arg), void *arg)
{
    later.ms = ms;
    later.what = what;
    later.arg = arg;
    later.failed = false;
    assert_int_equal(pthread_create(&later.thread, NULL, do_it, NULL), 0);
    later.running = true;
}

static void exec_it(void *app)
{
    later.failed = !g.side->exec(app, later.sql);
}

void exec_later(int32_t ms, void *app, const char *sql)
{
    later.sql = sql;
    do_later(ms, exec_it, app);
}

static void join_later(void)
{
    if (later.running)
        pthread_join(later.thread, NULL);
    later.running = false;
}

void await_later(void)
{
    join_later();
    if (later.failed)
        fail_msg("the application's statement failed: %s", later.sql);
}

void assert_restart(int rc, const sqlock_error *err)
{
    int expected = SQLOCK_ETXRESTART;

    if (rc == SQLOCK_ETXGONE && strcmp(g.w->q->name, "mysql") == 0 &&
        app_number(g.app,
                   "SELECT COUNT(*) FROM information_schema.global_variables WHERE "
                   "variable_name = 'innodb_snapshot_isolation' AND variable_value = 'ON'") == 1)
        expected = SQLOCK_ETXGONE;
    assert_code(expected, rc, err);
}

void be_impatient(void *app)
{
    if (g.side->impatient)
        app_exec(app, g.side->impatient);
}

void *app_connect_impatient(void)
{
    void *app = app_connect();

    be_impatient(app);
    return app;
}

int64_t app_number(void *app, const char *sql)
{
    char *text = g.side->ask(app, sql);
    int64_t number = text ? strtoll(text, NULL, 10) : -1;

    free(text);
    return number;
}

void quote_name(char *out, const char *name)
{
    char q = g.driver->dialect->quote;

    *out++ = q;
    for (; *name != '\0'; *out++ = *name++)
        if (*name == q)
            *out++ = q;
    *out++ = q;
    *out = '\0';
}

int64_t seen_by(void *app)
{
    return app_number(app, "SELECT n FROM app_row WHERE id = 1");
}

int adopt(void *app, void **out_conn)
{
    sqlock_adopt_opts o = {.size = sizeof o, .scripts = g.scripts};

    g.side->offer(app, &o);
    return g.adopter->adopt(&o, out_conn, &said);
}

sqlock_conn *adopted(sqlock *m, void *app)
{
    sqlock_adopt_opts o = {.size = sizeof o};
    sqlock_conn *conn = NULL;

    g.side->offer(app, &o);
    ok(sqlock_adopt(m, o.native, o.native_size, o.library, &conn, &said));
    assert_in_range(g.n_conns, 0, GUEST_CONNS - 1);
    return g.conns[g.n_conns++] = conn;
}

void let_go(sqlock_conn *conn)
{
    size_t i = 0;

    while (i < g.n_conns && g.conns[i] != conn)
        i++;
    assert_in_range(i, 0, g.n_conns - 1);
    g.conns[i] = g.conns[--g.n_conns];
    sqlock_conn_free(conn);
}

void still_says(char *before, char *(*tell)(void *app))
{
    char *now = before ? tell(g.app) : NULL;

    if (before)
        assert_string_equal(before, now);
    free(before);
    free(now);
}

void go_in(void *app, const struct way *way)
{
    if (way->before)
        app_exec(app, way->before);
    if (way->begin)
        app_exec(app, way->begin);
}

bool go_out(void *app, const struct way *way, const char *end)
{
    bool ended = g.side->exec(app, end);

    if (!ended)
        app_exec(app, "ROLLBACK");
    if (way->after)
        app_exec(app, way->after);
    return ended;
}

static void free_adopted(void)
{
    join_later(); /* an assertion that failed may have jumped over that */
    if (g.conn)
        g.adopter->close(g.conn);
    for (size_t i = 0; i < g.n_conns; i++)
        sqlock_conn_free(g.conns[i]);
    rows_free(g.rows);
    memset(&g, 0, sizeof g);
}

void begin_app(struct world *w)
{
    g.w = w;
    at_end(g.w, free_adopted);
    g.side = g.w->q->app;
    g.driver = g.w->q->driver();
    assert_non_null(g.adopter = g.driver->adopter);
    assert_non_null(g.rows = rows_new());
    g.app = app_connect();
    app_exec(g.app, "CREATE TABLE app_row (id INTEGER PRIMARY KEY, n INTEGER NOT NULL)");
    app_exec(g.app, "INSERT INTO app_row VALUES (1, 10)");
}

void begin_adopted(struct world *w)
{
    begin_app(w);
    ok(adopt(g.app, &g.conn));
}

void begin_in_transaction(struct world *w)
{
    begin_adopted(w);
    app_exec(g.app, g.side->begins[0]);
}

void end_adopted(void)
{
    if (g.conn)
        g.adopter->close(g.conn);
    g.conn = NULL;
}

void assert_in_the_middle(void)
{
    void *conn = NULL;

    assert_int_equal(g.adopter->tx_state(g.conn), SQLOCK_TX_UNKNOWN);
    says(SQLOCK_ESTATE, run(OUR_READ));
    says(SQLOCK_ESTATE, point(SQLOCK_SAVEPOINT_SET));
    says(SQLOCK_ESTATE, adopt(g.app, &conn));
    assert_null(conn);
}

void begin_at(const char *url)
{
    g.w->place.url = url;
    g.app = app_connect();
    end_adopted();
    ok(adopt(g.app, &g.conn));
    app_exec(g.app, g.side->begins[0]);
}

static void prepare_step(const char *sql, uint16_t flags)
{
    g.step = (sqlock_step){.sql = sql, .flags = flags};
    g.scripts[SQLOCK_STMT_GUARDED] = (sqlock_script){
        .name = "test", .params = "", .n_steps = 1, .flags = SQLOCK_REQ_READS, .steps = &g.step};
    rows_clear(g.rows);
}

int run_until(const char *sql, int64_t deadline)
{
    prepare_step(sql, strncmp(sql, "SELECT", 6) != 0 ? SQLOCK_STEP_WRITE : 0);
    return g.adopter->run(g.conn, SQLOCK_STMT_GUARDED, NULL, deadline, g.rows, &said);
}

int run_own(void *conn, const char *sql)
{
    prepare_step(sql, 0);
    return g.driver->run(conn, NULL, SQLOCK_STMT_GUARDED, NULL, 1, soon(), g.rows, &said);
}

int64_t soon(void)
{
    return sqlock_now_us() + patience_ms(10000) * INT64_C(1000);
}

int run(const char *sql)
{
    return run_until(sql, soon());
}

int ask(const char *sql, const sqlock_value *values, uint8_t n)
{
    char text[512];
    size_t len = 0;
    int number = 0;
    sqlock_script script = {.name = "asked", .n_params = n, .n_steps = 1, .steps = &g.step};

    for (; *sql; sql++) {
        assert_in_range(len, 0, sizeof text - 4);
        if (*sql == '?' && g.driver->dialect->placeholder == '$')
            len += (size_t)snprintf(text + len, sizeof text - len, "$%d", ++number);
        else
            text[len++] = *sql;
    }
    text[len] = '\0';
    g.step = (sqlock_step){.sql = text};
    rows_clear(g.rows);
    return g.adopter->run_script(g.conn, &script, values, soon(), g.rows, &said);
}

int point(sqlock_savepoint what)
{
    return g.adopter->savepoint(g.conn, what, soon(), &said);
}

void point_ok(sqlock_savepoint what)
{
    ok(point(what));
    assert_int_equal(g.adopter->tx_state(g.conn), SQLOCK_TX_ACTIVE);
}

void undo_failed(void)
{
    assert_int_equal(said.flags & (SQLOCK_RECONNECT | SQLOCK_MAYBE), 0);
    assert_int_equal(g.adopter->tx_state(g.conn),
                     g.side->fails_whole ? SQLOCK_TX_FAILED : SQLOCK_TX_ACTIVE);
    point_ok(SQLOCK_SAVEPOINT_UNDO);
}

void be_adopted(void)
{
    point_ok(SQLOCK_SAVEPOINT_SET);
    ok(run(OUR_READ));
    assert_int_equal(rows_int(g.rows, 0, SQLOCK_COL_OUTCOME, -1), 1);
    ok(run(OUR_WRITE));
    point_ok(SQLOCK_SAVEPOINT_RELEASE);
    point_ok(SQLOCK_SAVEPOINT_SET);
    assert_true(run(OUR_WRONG) < 0);
    undo_failed();
}
