/* Requests: the statements of the dialect, run in the database in memory. */
#include "fake.h"

#include <string.h>

/* ---- errors --------------------------------------------------------------------------------- */

int fake_sql_error(sqlock_fake *db, int result, sqlock_error *err)
{
    const char *text = sqlite3_errmsg(db->sql);
    const char *sqlstate = "XX000";

    if ((result & 0xff) == SQLITE_NOMEM)
        sqlstate = "53200";
    else if ((result & 0xff) == SQLITE_CONSTRAINT)
        sqlstate = result == SQLITE_CONSTRAINT_CHECK ? "23514" : "23000";
    else if (strncmp(text, "no such table", 13) == 0)
        sqlstate = "42P01";
    return sqlock_error_db(err, sqlstate, result, 0, text);
}

/* ---- one statement -------------------------------------------------------------------------- */

static int stmt_bind_one(sqlite3_stmt *stmt, int at, const sqlock_value *v, int is_text)
{
    const void *data = v->data != NULL ? v->data : "";

    if (v->type == SQLOCK_INT)
        return sqlite3_bind_int64(stmt, at, v->i);
    if (v->type == SQLOCK_NULL)
        return sqlite3_bind_null(stmt, at);
    return is_text ? sqlite3_bind_text64(stmt, at, data, v->len, SQLITE_STATIC, SQLITE_UTF8)
                   : sqlite3_bind_blob64(stmt, at, data, v->len, SQLITE_STATIC);
}

/* "b:ns i:ttl": the next word of a list of parameters. */
static const char *params_next(const char *param)
{
    const char *blank = strchr(param, ' ');
    return blank != NULL ? blank + 1 : "";
}

/* A step need not use the last ones. */
static int stmt_bind(sqlite3_stmt *stmt, const char *params, const sqlock_value *v)
{
    const int used = sqlite3_bind_parameter_count(stmt);
    int result = SQLITE_OK;

    for (int i = 0; result == SQLITE_OK && i < used; i++, params = params_next(params))
        result = stmt_bind_one(stmt, i + 1, &v[i], *params == 't');
    return result;
}

static int row_put_column(sqlock_rows *rows, sqlite3_stmt *stmt, int col)
{
    switch (sqlite3_column_type(stmt, col)) {
    case SQLITE_NULL:
        return sqlock_rows_put_null(rows);
    case SQLITE_INTEGER:
        return sqlock_rows_put_int(rows, sqlite3_column_int64(stmt, col));
    default: {
        const void *data = sqlite3_column_blob(stmt, col);
        return sqlock_rows_put_bytes(rows, data != NULL ? data : "",
                                     (size_t)sqlite3_column_bytes(stmt, col));
    }
    }
}

static int row_put(const struct fake_call *k, size_t request, sqlite3_stmt *stmt)
{
    int rc = k->rows != NULL ? sqlock_rows_add(k->rows, request) : 0;

    for (int col = 0; k->rows != NULL && rc == 0 && col < sqlite3_column_count(stmt); col++)
        rc = row_put_column(k->rows, stmt, col);
    return rc == 0 ? 0 : sqlock_error_set(k->err, rc, 0, "no memory for the answer");
}

static int step_run(const struct fake_call *k, size_t request, size_t step, int *out_answered)
{
    const sqlock_script *script = &sqlock_fake_dialect.scripts[k->stmt];
    sqlite3_stmt **stmt = &k->db->steps[k->stmt][step];
    int rc = 0, result = SQLITE_OK;

    if (*stmt == NULL)
        result = sqlite3_prepare_v3(k->db->sql, script->steps[step].sql, -1,
                                    SQLITE_PREPARE_PERSISTENT, stmt, NULL);
    if (result != SQLITE_OK)
        return fake_sql_error(k->db, result, k->err);
    result = stmt_bind(*stmt, script->params, fake_values_of(k, request));
    while (rc == 0 && (result == SQLITE_OK || result == SQLITE_ROW)) {
        result = sqlite3_step(*stmt);
        *out_answered |= result == SQLITE_ROW;
        rc = result == SQLITE_ROW ? row_put(k, request, *stmt) : 0;
    }
    if (rc == 0 && result != SQLITE_DONE)
        rc = fake_sql_error(k->db, result, k->err);
    sqlite3_reset(*stmt);
    sqlite3_clear_bindings(*stmt); /* they point into the caller's values */
    return rc;
}

/* ---- requests ------------------------------------------------------------------------------- */

static int param_is(const char *param, const char *name)
{
    return strlen(name) == strcspn(param, " ") && strncmp(param, name, strlen(name)) == 0;
}

/* Bytes and integers as declared; only a label and the next owner may be NULL. */
int fake_values_fit(sqlock_stmt stmt, const sqlock_value *values, size_t n)
{
    const sqlock_script *script = &sqlock_fake_dialect.scripts[stmt];

    for (size_t request = 0; request < n; request++) {
        const char *param = script->params;
        for (size_t i = 0; i < script->n_params; i++, values++, param = params_next(param)) {
            sqlock_type wanted = *param == 'i' ? SQLOCK_INT : SQLOCK_BYTES;
            int may_be_null = param_is(param, "b:label") || param_is(param, "b:next");
            if (values->type != wanted && !(may_be_null && values->type == SQLOCK_NULL))
                return 0;
        }
    }
    return 1;
}

const sqlock_value *fake_values_of(const struct fake_call *k, size_t request)
{
    size_t n_params = sqlock_fake_dialect.scripts[k->stmt].n_params;
    return n_params > 0 ? k->values + request * n_params : NULL;
}

/* Begins or ends a transaction. */
static int bracket_run(sqlock_fake *db, sqlite3_stmt **stmt, const char *sql, sqlock_error *err)
{
    int result = SQLITE_OK;

    if (*stmt == NULL)
        result = sqlite3_prepare_v3(db->sql, sql, -1, SQLITE_PREPARE_PERSISTENT, stmt, NULL);
    if (result == SQLITE_OK) {
        (void)sqlite3_step(*stmt);
        result = sqlite3_reset(*stmt);
    }
    return result == SQLITE_OK ? 0 : fake_sql_error(db, result, err);
}

int fake_db_run(struct fake_call *k)
{
    sqlock_fake *db = k->db;
    const size_t n_steps = sqlock_fake_dialect.scripts[k->stmt].n_steps;
    const sqlock_step *steps = sqlock_fake_dialect.scripts[k->stmt].steps;
    int alone = db->owner == NULL;

    db->seen[k->stmt] += (long)k->n;
    db->sql_now = k->now;
    db->commits++;
    int rc = alone ? bracket_run(db, &db->begin, "BEGIN", k->err) : 0;
    for (size_t request = 0; rc == 0 && request < k->n; request++) {
        int answered = 0;
        for (size_t step = 0; rc == 0 && !answered && step < n_steps; step++)
            if (!(steps[step].flags & SQLOCK_STEP_DURABLE))
                rc = step_run(k, request, step, &answered);
    }
    if (alone && rc == 0)
        rc = bracket_run(db, &db->commit, "COMMIT", k->err);
    if (alone && rc != 0)
        (void)fake_exec(db, "ROLLBACK", NULL);
    return rc;
}

/* ---- rows that vanish ----------------------------------------------------------------------- */

static void stmt_run_on_key(sqlock_fake *db, const char *sql, const sqlock_value *key)
{
    sqlite3_stmt *stmt = NULL;

    if (sqlite3_prepare_v2(db->sql, sql, -1, &stmt, NULL) == SQLITE_OK &&
        stmt_bind(stmt, "", key) == SQLITE_OK)
        (void)sqlite3_step(stmt);
    sqlite3_finalize(stmt);
}

void fake_vanish(sqlock_fake *db, const sqlock_value *key)
{
    stmt_run_on_key(db, "DELETE FROM sqlock_register WHERE ns = ?1 AND name = ?2", key);
    stmt_run_on_key(db,
                    "UPDATE sqlock_meta SET fence_floor = max(fence_floor, l.token)"
                    " FROM sqlock_lock l WHERE l.ns = ?1 AND l.name = ?2",
                    key);
    stmt_run_on_key(db, "DELETE FROM sqlock_lock WHERE ns = ?1 AND name = ?2", key);
}
