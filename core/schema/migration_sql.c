/* Migrations as text, for a database's own client program. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include <sqlock/migrate.h>

#include "core/engine/arguments.h"
#include "core/engine/call.h"
#include "core/schema/migrator.h"

struct script {
    const sqlock_dialect *dialect;
    struct texts *texts;
    sqlock_write_fn write;
    void *user;
    sqlock_error *err;
};

/* A text that grows. data is NULL once memory was short. */
struct text {
    char *data;
    size_t len, size;
};

static void text_add(struct text *t, const char *data, size_t len)
{
    char *grown;

    if (t->data == NULL)
        return;
    if (t->len + len + 1 > t->size) {
        t->size = (t->len + len + 1) * 2;
        if ((grown = sqlock_mem_resize(t->data, t->size)) == NULL)
            sqlock_mem_free(t->data);
        t->data = grown;
        if (grown == NULL)
            return;
    }
    assert(t->len + len < t->size);
    memcpy(t->data + t->len, data, len);
    t->len += len;
    t->data[t->len] = '\0';
}

static void text_add_value(struct text *t, const sqlock_value *value)
{
    char number[24];
    const char *data = value->data;

    if (value->type == SQLOCK_INT) {
        snprintf(number, sizeof number, "%lld", (long long)value->i);
        text_add(t, number, strlen(number));
        return;
    }
    text_add(t, "'", 1);
    for (size_t i = 0; i < value->len; i++)
        text_add(t, data[i] == '\'' ? "''" : data + i, data[i] == '\'' ? 2 : 1);
    text_add(t, "'", 1);
}

/* The parameter (from 0) whose place is at p, or -1. Also the place's length. placed counts the
 * positional ones (?). */
static int sql_param_at(const sqlock_step *step, const char *p, size_t *placed, size_t *out_len)
{
    size_t digits = strspn(p + 1, "0123456789");
    int number = 0;

    *out_len = 1 + digits;
    if (*p == '?' && step->order != NULL)
        return *placed < step->n_order ? step->order[(*placed)++] : -1;
    if ((*p != '$' && *p != '?') || digits == 0 || digits > 2)
        return -1;
    for (size_t i = 1; i <= digits; i++)
        number = number * 10 + (p[i] - '0');
    return number - 1;
}

/* A step of a request, with its parameters written into it. This comes before the schema's name is
 * written, because that name may look like a parameter. NULL: out of memory. */
static char *sql_fill(const sqlock_script *request, const sqlock_step *step,
                      const sqlock_value *values)
{
    struct text t = {.data = sqlock_mem_alloc(64), .size = 64};
    size_t placed = 0, len;
    int quoted = 0;

    for (const char *p = step->sql; *p != '\0'; p += len) {
        int param = quoted ? -1 : sql_param_at(step, p, &placed, &len);

        quoted ^= *p == '\'';
        if (param >= 0 && param < request->n_params)
            text_add_value(&t, &values[param]);
        else
            text_add(&t, p, len = 1);
    }
    return t.data;
}

/* ---- writing --------------------------------------------------------------------------------- */

static int sql_put(struct script *s, const char *text)
{
    return s->write(text, strlen(text), s->user);
}

static int sql_put_statement(struct script *s, const char *sql)
{
    char *text = texts_more(s->texts, sql);
    int rc;

    if (text == NULL)
        return error_nomem(s->err);
    if ((rc = sql_put(s, text)) == 0)
        rc = sql_put(s, ";\n\n");
    sqlock_mem_free(text);
    return rc;
}

static int sql_put_request(struct script *s, sqlock_stmt stmt, const sqlock_value *values)
{
    const sqlock_script *request = &s->dialect->scripts[stmt];
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < request->n_steps; i++) {
        char *sql = sql_fill(request, &request->steps[i], values);

        rc = sql != NULL ? sql_put_statement(s, sql) : error_nomem(s->err);
        sqlock_mem_free(sql);
    }
    return rc;
}

static int sql_put_migration(struct script *s, const sqlock_migration *migration, int down)
{
    const char *const *sql = down ? migration->down : migration->up;
    size_t n = down ? migration->n_down : migration->n_up;
    sqlock_value record[] = {
        value_int(migration->version),
        value_bytes(migration->name, strlen(migration->name)),
        value_bytes(migration->checksum, strlen(migration->checksum)),
        value_int(1),
    };
    char title[128];
    int rc;

    snprintf(title, sizeof title, "-- %03d_%s%s\n\n", migration->version, migration->name,
             down ? ", down" : "");
    rc = sql_put(s, title);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = sql_put_statement(s, sql[i]);
    if (rc == 0 && !down) /* a migration down removes its record itself */
        rc = sql_put_request(s, SQLOCK_STMT_MIGRATE_RECORD, record);
    return rc;
}

/* Versions count from 1 without a gap. */
static int sql_put_all(struct script *s, int from, int to)
{
    int rc = 0;

    assert(from >= 0 && (size_t)from <= s->dialect->n_migrations);
    assert(to >= 0 && (size_t)to <= s->dialect->n_migrations);
    for (int v = from + 1; rc == 0 && v <= to; v++)
        rc = sql_put_migration(s, &s->dialect->migrations[v - 1], 0);
    for (int v = from; rc == 0 && v > to; v--)
        rc = sql_put_migration(s, &s->dialect->migrations[v - 1], 1);
    return rc;
}

static int sql_put_in_transaction(struct script *s, int from, int to)
{
    const sqlock_script *around = &s->dialect->scripts[SQLOCK_STMT_MIGRATE_AROUND];
    int rc;

    if ((rc = sql_put_statement(s, around->steps[0].sql)) == 0 &&
        (rc = sql_put_all(s, from, to)) == 0)
        rc = sql_put_statement(s, around->steps[1].sql);
    return rc;
}

/* ---- the verb -------------------------------------------------------------------------------- */

static int sql_write_all(struct script *s, const sqlock_driver *table, int from, int to,
                         unsigned flags)
{
    int whole = table->caps & SQLOCK_CAP_TX_DDL && !(flags & SQLOCK_SQL_BARE), rc;

    if ((rc = texts_has(s->texts, SQLOCK_STMT_MIGRATE_AROUND, s->err)) != 0 || from == to)
        return rc;
    return whole ? sql_put_in_transaction(s, from, to) : sql_put_all(s, from, to);
}

int sqlock_migration_sql(const sqlock_driver *driver, const sqlock_open_opts *opts, int from,
                         int to, unsigned flags, sqlock_write_fn write, void *user,
                         sqlock_error *err)
{
    UNCANCELLED;
    sqlock_error failure = {0};
    struct script s = {.write = write, .user = user, .err = &failure};
    sqlock_driver table;
    sqlock_open_opts o;
    int rc = 0;

    if (flags & ~SQLOCK_SQL_BARE)
        rc = sqlock_error_set(&failure, SQLOCK_EINVAL, 0, "unknown flags 0x%x", flags);
    if (rc == 0 && (rc = check_open_opts(opts, &o, &failure)) == 0 &&
        (rc = check_table(driver, &table, &failure)) == 0 &&
        (rc = check_version(table.dialect, &from, 0, &failure)) == 0 &&
        (rc = check_version(table.dialect, &to, 0, &failure)) == 0 &&
        (rc = texts_render(table.dialect, o.schema, o.prefix, &s.texts, &failure)) == 0) {
        s.dialect = table.dialect;
        rc = sql_write_all(&s, &table, from, to, flags);
    }
    texts_free(s.texts);
    if (failure.code != 0)
        error_prefix(&failure, "migration sql");
    error_give(err, &failure);
    return rc;
}
