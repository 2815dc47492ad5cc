/* Calls in the application's transaction: each is one line of the table at the end. */
#include "tests/counted/scene.h"

static const sqlock_row *row_at(const struct scene *s, int id)
{
    static sqlock_column key;
    static sqlock_row row;

    key = (sqlock_column){"id", sqlock_int(id), NULL};
    row = (sqlock_row){sizeof row, s->place.schema, "app_row", &key, 1};
    return &row;
}

/* Of two rows the call's is the one that the application has not changed. */
static const sqlock_row *row_of_call(const struct scene *s)
{
    return row_at(s, s->row + 1);
}

/* ---- adopt, guard, rows ---------------------------------------------------------------------- */

static int adopt(struct scene *s, sqlock_error *err)
{
    sqlock_adopt_opts o = {.size = sizeof o};
    int rc;

    sqlock_conn_free(s->conn);
    s->conn = NULL;
    faulty_app(s->app);
    s->q->app->offer(s->app, &o);
    rc = sqlock_adopt(s->m, o.native, o.native_size, o.library, &s->conn, err);
    assert_true((s->conn != NULL) == (rc == 0));
    return rc;
}

static int guard(struct scene *s, sqlock_error *err)
{
    return sqlock_guard(s->lock, s->conn, err);
}

static void check_guarded(struct scene *s, int rc)
{
    assert_true(rc != SQLOCK_ELOST && rc != SQLOCK_EBUSY && rc != SQLOCK_EGUARDED);
    assert_true(is_ours(s, s->lock));
    if (rc != 0)
        assert_int_equal(sqlock_lock_state(s->lock), SQLOCK_HELD);
}

enum { UNTOLD = 99 };

static int row_lock(struct scene *s, sqlock_error *err)
{
    sqlock_row_opts o = SQLOCK_ROW_OPTS_INIT;
    sqlock_blocker blocker = {.size = sizeof blocker, .sessions = 7};
    int outcome = UNTOLD, rc;

    o.outcomes = &outcome;
    o.wait_ms = 0;
    o.blocker = &blocker;
    rc = sqlock_row_lock(s->conn, row_of_call(s), 1, &o, err);
    assert_int_equal(blocker.sessions, 0); /* nobody is in its way */
    assert_int_equal(sqlock_row_blocker(s->conn, &blocker), 0);
    if (outcome != UNTOLD) /* not tried for want of memory */
        assert_int_equal(outcome, rc);
    return rc;
}

static void check_locked(struct scene *s, int rc)
{
    (void)s;
    assert_true(rc <= 0 && rc != SQLOCK_EBUSY && rc != SQLOCK_EREFUSED);
}

static int row_lock_in_time(struct scene *s, sqlock_error *err)
{
    sqlock_row_opts o = SQLOCK_ROW_OPTS_INIT;

    o.wait_ms = 2000;
    return sqlock_row_lock(s->conn, row_of_call(s), 1, &o, err);
}

static int name_lock(struct scene *s, sqlock_error *err)
{
    sqlock_row_opts o = SQLOCK_ROW_OPTS_INIT;

    return sqlock_name_lock(s->conn, s->name, &o, err);
}

/* ---- compare and set ------------------------------------------------------------------------- */

static sqlock_row_version expected(int64_t version)
{
    return (sqlock_row_version){sizeof(sqlock_row_version), 0, "version", sqlock_int(version),
                                sqlock_null()};
}

static int cas_update(struct scene *s, sqlock_error *err)
{
    sqlock_column set = {"n", sqlock_int(77), NULL};
    sqlock_row_version version = expected(1);
    int rc = sqlock_cas_update(s->conn, row_of_call(s), &version, &set, 1, err);

    s->number = rc >= 0 ? version.found.i : 0;
    return rc;
}

/* A failure that does not end the transaction has changed nothing: it goes on without. */
static void check_updated(struct scene *s, int rc)
{
    assert_true(rc <= 0);
    assert_int_equal(app_value(s, "n", s->row + 1), rc == 0 ? 77 : 10);
    assert_int_equal(app_value(s, "version", s->row + 1), rc == 0 ? s->number : 1);
}

static int cas_conflict(struct scene *s, sqlock_error *err)
{
    sqlock_column set = {"n", sqlock_int(77), NULL};
    sqlock_row_version version = expected(5);
    int rc = sqlock_cas_update(s->conn, row_of_call(s), &version, &set, 1, err);

    assert_true(rc != 0);
    if (rc == SQLOCK_CONFLICT)
        assert_int_equal(version.found.i, 1);
    return rc;
}

static void check_unchanged(struct scene *s, int rc)
{
    assert_true(rc == SQLOCK_CONFLICT || rc < 0);
    assert_int_equal(app_value(s, "n", s->row + 1), 10);
    assert_int_equal(app_value(s, "version", s->row + 1), 1);
}

static int cas_delete(struct scene *s, sqlock_error *err)
{
    sqlock_row_version version = expected(1);

    return sqlock_cas_delete(s->conn, row_of_call(s), &version, err);
}

static void check_deleted(struct scene *s, int rc)
{
    assert_true(rc <= 0);
    assert_int_equal(app_value(s, "n", s->row + 1), rc == 0 ? -1 : 10);
}

/* Numbers below zero are nobody's. */
static int cas_insert(struct scene *s, sqlock_error *err)
{
    sqlock_column set = {"n", sqlock_int(5), NULL};
    sqlock_row_version version = expected(0);

    return sqlock_cas_insert(s->conn, row_at(s, -1 - s->row), &version, &set, 1, err);
}

static void check_inserted(struct scene *s, int rc)
{
    assert_true(rc <= 0);
    assert_int_equal(app_value(s, "n", -1 - s->row), rc == 0 ? 5 : -1);
}

static int fence(struct scene *s, sqlock_error *err)
{
    return sqlock_fence(s->conn, row_of_call(s), "fence", 12, err);
}

static void check_fenced(struct scene *s, int rc)
{
    assert_true(rc <= 0 && rc != SQLOCK_ELOST);
    assert_int_equal(app_value(s, "fence", s->row + 1), rc == 0 ? 12 : -1);
}

/* The transaction died with its process. */
static void heal_app(struct scene *s)
{
    assert_int_equal(app_value(s, "n", s->row), 10);
    assert_int_equal(app_value(s, "n", s->row + 1), 10);
    assert_int_equal(app_value(s, "version", s->row + 1), 1);
    assert_int_equal(app_value(s, "fence", s->row + 1), -1);
    assert_int_equal(app_value(s, "n", -1 - s->row), -1);
}

const struct call adopted_calls[] = {
    {"adopt", "sqlock_adopt sqlock_conn_free", NEEDS_APP, 0, 0, adopt, NULL, heal_app},
    {"guard", "sqlock_guard", NEEDS_APP | NEEDS_GUARDS | NEEDS_LOCK, 1, 0, guard, check_guarded,
     heal_app},
    {"locking a row that is free", "sqlock_row_lock sqlock_row_blocker", NEEDS_APP | NEEDS_GUARDS,
     1, 0, row_lock, check_locked, heal_app},
    {"locking a row in time", "sqlock_row_lock", NEEDS_APP | NEEDS_GUARDS, 1, 0, row_lock_in_time,
     check_locked, heal_app},
    {"locking a name", "sqlock_name_lock", NEEDS_APP | NEEDS_GUARDS, 1, 0, name_lock, check_locked,
     heal_app},
    {"cas update", "sqlock_cas_update", NEEDS_APP, 1, 0, cas_update, check_updated, heal_app},
    {"cas update of another version", "sqlock_cas_update", NEEDS_APP, 1, SQLOCK_CONFLICT,
     cas_conflict, check_unchanged, heal_app},
    {"cas delete", "sqlock_cas_delete", NEEDS_APP, 1, 0, cas_delete, check_deleted, heal_app},
    {"cas insert", "sqlock_cas_insert", NEEDS_APP, 1, 0, cas_insert, check_inserted, heal_app},
    {"fence", "sqlock_fence", NEEDS_APP, 1, 0, fence, check_fenced, heal_app},
    {0},
};
