#include "tests/counted/scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/counted/fault.h"

/* ---- what others see ------------------------------------------------------------------------- */

bool is_ours(struct scene *s, sqlock_lock *lock)
{
    struct row row = row_of(s->others, sqlock_lock_name(lock));

    return row.held && memcmp(row.owner, sqlock_lock_owner(lock), sizeof row.owner) == 0;
}

static int64_t app_number(const struct quirks *q, void *app, const char *sql)
{
    char *text = q->app->ask(app, sql);
    int64_t n = text != NULL ? strtoll(text, NULL, 10) : -1;

    free(text);
    return n;
}

int64_t app_value(struct scene *s, const char *column, int row)
{
    void *app = s->q->app->connect(&s->place);
    int64_t n = app_number(s->q, app, textf("SELECT %s FROM app_row WHERE id = %d", column, row));

    s->q->app->close(app);
    return n;
}

/* ---- before ---------------------------------------------------------------------------------- */

/* A request is short, for some faults are waited for so long, as the lease of a migrator that is
 * gone; but DDL takes its time. */
sqlock_open_opts scene_opts(const struct scene *s)
{
    int has_ddl = s->call == NULL || (s->call->needs & NO_MANAGERS);
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;

    o.connect = s->place.connect;
    o.connect_user = s->place.connect_user;
    o.schema = s->place.schema;
    o.request_ms = patience_ms(has_ddl ? 3000 : 1000);
    o.lease_ms = LEASE_MS;
    o.label = "counted";
    return o;
}

sqlock_acquire_opts take_opts(int32_t wait_ms)
{
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;

    o.wait_ms = wait_ms;
    return o;
}

static void __attribute__((format(printf, 3, 4)))
app_do(const struct quirks *q, void *app, const char *format, ...)
{
    char sql[200];
    va_list ap;

    va_start(ap, format);
    vsnprintf(sql, sizeof sql, format, ap);
    va_end(ap);
    if (!q->app->exec(app, sql))
        fail_msg("the application's statement failed: %s", sql);
}

void place_begin(const struct quirks *q, struct place *p)
{
    struct scene s = {.q = q};
    sqlock_open_opts o;
    sqlock_error err;
    void *app;

    memset(p, 0, sizeof *p);
    q->make(p);
    s.place = *p;
    o = scene_opts(&s);
    assert_ok(sqlock_migrate(q->driver(), p->url, &o, NULL, &err), &err);
    if (q->app == NULL)
        return;
    app = q->app->connect(p);
    app_do(q, app,
           "CREATE TABLE app_row (id INTEGER PRIMARY KEY, n INTEGER NOT NULL, version BIGINT, "
           "fence BIGINT)");
    q->app->close(app);
}

static sqlock *open_others(const struct scene *s)
{
    sqlock_open_opts o = scene_opts(s);
    sqlock_error err;
    sqlock *m = NULL;

    o.label = "others";
    o.request_ms = patience_ms(10000);
    assert_ok(sqlock_open(s->q->driver(), s->place.url, &o, &m, &err), &err);
    return m;
}

/* The application has changed one row of two, and goes on after the call. */
static void begin_app(struct scene *s)
{
    sqlock_adopt_opts o = {.size = sizeof o};
    sqlock_error err;

    s->app = s->q->app->connect(&s->place);
    app_do(s->q, s->app, "INSERT INTO app_row VALUES (%d, 10, 1, NULL)", s->row);
    app_do(s->q, s->app, "INSERT INTO app_row VALUES (%d, 10, 1, NULL)", s->row + 1);
    faulty_app(s->app);
    s->q->app->offer(s->app, &o);
    assert_ok(sqlock_adopt(s->m, o.native, o.native_size, o.library, &s->conn, &err), &err);
    app_do(s->q, s->app, "%s", s->q->app->begins[0]);
    app_do(s->q, s->app, "UPDATE app_row SET n = n + 1 WHERE id = %d", s->row);
}

static void begin_dead(struct scene *s)
{
    sqlock_acquire_opts o = take_opts(0);
    sqlock_lock *lock = NULL;
    sqlock_error err;

    for (int i = 0; i < 2; i++) {
        assert_ok(sqlock_acquire(s->others, textf("%s/%d", s->name, i), &o, &lock, &err), &err);
        if (i == 1)
            assert_ok(sqlock_release(lock, &err), &err);
        sqlock_lock_free(lock);
    }
    s->q->age(&s->place, SQLOCK_REAP_IDLE_MIN_MS + 1000);
}

static void fire_cancel(void *cancel)
{
    sqlock_cancel_fire(cancel);
}

/* The reply is lost, and at once the call is cancelled: so it cannot ask again. */
static void begin_unsure(struct scene *s)
{
    static const struct plan lose = {"", "", AT_REQUESTS, FAULT_LOSE_REPLY, false};
    sqlock_acquire_opts o = take_opts(0);
    sqlock_lock *warm = NULL;
    sqlock_cancel *cancel = NULL;
    sqlock_error err;

    assert_ok(sqlock_acquire(s->m, textf("%s/warm", s->name), &o, &warm, &err), &err);
    assert_ok(sqlock_release(warm, &err), &err);
    sqlock_lock_free(warm);
    assert_ok(sqlock_cancel_new(&cancel, &err), &err);
    o.cancel = cancel;
    fault_arm(&lose, 1);
    fault_print(fire_cancel, cancel);
    assert_code(SQLOCK_EUNSURE, sqlock_acquire(s->m, s->name, &o, &s->lock, &err), &err);
    assert_true(fault_disarm());
    sqlock_cancel_free(cancel);
}

static void scene_name(struct scene *s, const struct quirks *q, const struct place *p,
                       const struct call *call, int number)
{
    memset(s, 0, sizeof *s);
    s->q = q;
    s->call = call;
    s->driver = faulty_driver(q);
    s->place = *p;
    s->opts = scene_opts(s);
    s->row = 2 * number;
    snprintf(s->name, sizeof s->name, "counted/%d", number);
}

static void scene_prepare(struct scene *s)
{
    sqlock_acquire_opts o = take_opts(0);
    sqlock_error err;
    int rc;

    if (s->call->needs & NO_MANAGERS)
        return;
    s->others = open_others(s);
    if (s->call->needs & NEEDS_DEAD)
        begin_dead(s);
    if (s->call->needs & NEEDS_REGISTER)
        assert_ok(sqlock_register_set(s->others, s->name, OLD_VALUE, strlen(OLD_VALUE), 0,
                                      &s->number, &err),
                  &err);
    if (s->call->needs & NEEDS_OTHERS)
        assert_ok(sqlock_acquire(s->others, s->name, &o, &s->theirs, &err), &err);
    if (s->call->needs & NEEDS_NOTHING)
        return;
    rc = sqlock_open(s->driver, s->place.url, &s->opts, &s->m, &err);
    /* With so short a time an opening may take too long on a loaded machine. */
    for (int i = 0; i < 4 && rc != 0 && (err.flags & SQLOCK_RETRY); i++)
        rc = sqlock_open(s->driver, s->place.url, &s->opts, &s->m, &err);
    assert_ok(rc, &err);
    if (s->call->needs & NEEDS_LOCK)
        assert_ok(sqlock_acquire(s->m, s->name, &o, &s->lock, &err), &err);
    if (s->call->needs & NEEDS_SECOND)
        assert_ok(sqlock_acquire(s->m, textf("%s/and", s->name), &o, &s->second, &err), &err);
    if (s->call->needs & NEEDS_UNSURE)
        begin_unsure(s);
    if (s->call->needs & NEEDS_APP)
        begin_app(s);
}

void scene_begin(struct scene *s, const struct quirks *q, const struct place *p,
                 const struct call *call, int number)
{
    scene_name(s, q, p, call, number);
    scene_prepare(s);
}

void scene_after_death(struct scene *s, const struct quirks *q, const struct place *p,
                       const struct call *call, int number)
{
    scene_name(s, q, p, call, number);
    if (!(call->needs & NO_MANAGERS))
        s->others = open_others(s);
}

/* ---- after ----------------------------------------------------------------------------------- */

static void judge_code(int rc, const sqlock_error *err)
{
    if (rc >= 0)
        return;
    assert_string_not_equal(sqlock_code_name(rc), "SQLOCK_?");
    assert_int_equal(err->code, rc);
    assert_true(err->text[0] != '\0');
    if (rc == SQLOCK_EUNSURE)
        assert_true(err->flags & SQLOCK_MAYBE);
}

/* No handle says what is not so. */
static void judge_lock(struct scene *s, sqlock_lock *lock)
{
    sqlock_state state = sqlock_lock_state(lock);
    sqlock_error err = {0};
    int rc;

    if (state == SQLOCK_UNSURE) { /* the world is well again: it can be settled */
        rc = sqlock_settle(lock, patience_ms(10000), &err);
        state = sqlock_lock_state(lock);
        if (state == SQLOCK_UNSURE)
            check_code(0, rc, &err, "sqlock_settle", __FILE__, __LINE__);
    }
    if (state == SQLOCK_HELD || state == SQLOCK_AT_RISK) {
        assert_true(is_ours(s, lock));
        assert_int_equal(sqlock_lock_token(lock), row_of(s->others, sqlock_lock_name(lock)).token);
        assert_true(sqlock_is_held(lock));
        assert_in_range(sqlock_lock_deadline_us(lock), sqlock_now_us(),
                        sqlock_now_us() + LEASE_MS * INT64_C(1000));
    } else {
        assert_false(is_ours(s, lock));
        assert_false(sqlock_is_held(lock));
        assert_true((state == SQLOCK_LOST) == (sqlock_lock_why(lock) != SQLOCK_WHY_NONE));
    }
}

/* The application ends its transaction as the code tells it to. */
static void judge_app(struct scene *s, int rc)
{
    const struct adopt_app *side = s->q->app;
    int64_t expected = 10;

    if (rc == SQLOCK_ETXGONE) {
        side->exec(s->app, "ROLLBACK"); /* there may be nobody to hear it */
    } else if (rc == SQLOCK_ETXRESTART) {
        app_do(s->q, s->app, "ROLLBACK");
    } else {
        app_do(s->q, s->app, "UPDATE app_row SET n = n + 1 WHERE id = %d", s->row);
        app_do(s->q, s->app, "COMMIT");
        expected = 12;
    }
    sqlock_conn_free(s->conn);
    side->close(s->app);
    s->conn = s->app = NULL;
    assert_int_equal(app_value(s, "n", s->row), expected);
}

/* Whatever failed was of that one call. */
static void judge_manager(struct scene *s)
{
    sqlock_acquire_opts o = take_opts(patience_ms(5000));
    sqlock_lock *lock = NULL;
    sqlock_error err;

    assert_ok(sqlock_acquire(s->m, textf("%s/next", s->name), &o, &lock, &err), &err);
    assert_ok(sqlock_renew(lock, &err), &err);
    assert_ok(sqlock_release(lock, &err), &err);
    sqlock_lock_free(lock);
}

void scene_judge(struct scene *s, int rc, const sqlock_error *err)
{
    s->err = err;
    judge_code(rc, err);
    if (s->app != NULL)
        judge_app(s, rc);
    if (s->call->check != NULL)
        s->call->check(s, rc);
    if (s->lock != NULL && s->others != NULL)
        judge_lock(s, s->lock);
    if (s->second != NULL)
        judge_lock(s, s->second);
    if (s->m != NULL)
        judge_manager(s);
}

void scene_end(struct scene *s)
{
    sqlock_conn_free(s->conn);
    if (s->app != NULL)
        s->q->app->close(s->app);
    sqlock_lock_free(s->lock);
    sqlock_lock_free(s->second);
    sqlock_lock_free(s->theirs);
    sqlock_close(s->m);
    sqlock_cancel_free(s->cancel);
    s->m = NULL;
    s->lock = s->second = s->theirs = NULL;
    s->cancel = NULL;
    s->app = NULL;
    s->conn = NULL;
}

/* A server needs a moment to notice that a session has lost its link, and a guard stands until
 * then. */
void scene_heal(struct scene *s)
{
    sqlock_acquire_opts o = take_opts(patience_ms(2000));
    struct row row;
    sqlock_lock *lock = NULL;
    sqlock_error err;

    if (s->others == NULL)
        s->others = open_others(s);
    row = row_of(s->others, s->name);
    assert_in_range(row.n, 0, 1);
    assert_true(row.left_ms <= LEASE_MS || !row.held);
    if (row.held && row.left_ms > 0)
        s->q->age(&s->place, LEASE_MS + 1);
    assert_ok(sqlock_acquire(s->others, s->name, &o, &lock, &err), &err);
    assert_true(sqlock_lock_token(lock) > row.token);
    assert_ok(sqlock_release(lock, &err), &err);
    sqlock_lock_free(lock);
    sqlock_close(s->others);
    s->others = NULL;
}
