/* Compares a row of the application, and changes it. */
#include <assert.h>

#include "core/transaction/compare.h"

#include <string.h>

#include "core/base/random.h"
#include "core/base/text.h"
#include "core/engine/arguments.h"

/* The limit of a new row's random first version. Half of the column's range is left to count in. Up
 * to 2^53 every language can distinguish two versions. */
#define START_MOST (INT64_C(1) << 52)

/* ---- arguments ------------------------------------------------------------------------------- */

/* Some databases treat A and a as equal. */
static int column_is_named(const char *a, const char *b)
{
    for (; *a != '\0' && text_lower(*a) == text_lower(*b); a++, b++)
        ;
    return text_lower(*a) == text_lower(*b);
}

static int column_refuse(const sqlock_column *c, const char *why, sqlock_error *err)
{
    char shown[80];

    return sqlock_error_set(err, SQLOCK_EINVAL, 0, "the column \"%s\" %s",
                            text_show(shown, sizeof shown, c->name, strlen(c->name)), why);
}

/* A comment that is not closed would swallow the rest of the statement, with the version and the
 * row's key. Some databases end it with the text or the line, and would change every row. */
static int expression_has_comment(const sqlock_dialect *d, const char *expression)
{
    return strstr(expression, "--") != NULL || strstr(expression, "/*") != NULL ||
           (d->quote == '`' && strchr(expression, '#') != NULL);
}

/* With `?` one more parameter would take the value of the next. With `$1` it would take the value
 * of another. */
static int expression_has_parameter(const sqlock_dialect *d, const char *expression)
{
    const char *p = expression;

    while ((p = strchr(p, d->placeholder)) != NULL)
        if (d->placeholder == '?' || (*++p >= '0' && *p <= '9'))
            return 1;
    return 0;
}

/* A `;` would end the statement. */
static int expression_check(const struct compare *c, const sqlock_column *set, sqlock_error *err)
{
    const sqlock_dialect *d = c->conn->m->driver->dialect;

    if (set->expression[strspn(set->expression, " \t\n")] == '\0')
        return column_refuse(set, "has an empty expression", err);
    if (strchr(set->expression, ';') != NULL)
        return column_refuse(set, "has an expression with a ; in it", err);
    if (expression_has_parameter(d, set->expression))
        return column_refuse(set,
                             d->placeholder == '?' ? "has an expression with a ? in it"
                                                   : "has an expression with a $1 in it",
                             err);
    if (expression_has_comment(d, set->expression))
        return column_refuse(set, "has an expression with a comment in it", err);
    return 0;
}

static int column_check_value(const sqlock_column *set, sqlock_error *err)
{
    switch (set->value.type) {
    case SQLOCK_NULL:
    case SQLOCK_INT:
        return 0;
    case SQLOCK_BYTES:
    case SQLOCK_TEXT:
        return set->value.data != NULL ? 0 : column_refuse(set, "has a value without data", err);
    default:
        return column_refuse(set, "has a value of an unknown type", err);
    }
}

static int compare_check_set(const struct compare *c, size_t i, sqlock_error *err)
{
    const sqlock_column *set = &c->set[i];
    int rc = table_check_name(set->name, "a column", err);

    if (rc != 0)
        return rc;
    if (column_is_named(set->name, c->column))
        return column_refuse(set, "is the version, which sqlock sets itself", err);
    for (size_t k = 0; k < c->row->n_key; k++)
        if (column_is_named(set->name, c->row->key[k].name))
            return column_refuse(set, "is part of the key, which cannot change", err);
    for (size_t k = 0; k < i; k++)
        if (strcmp(set->name, c->set[k].name) == 0)
            return column_refuse(set, "is set twice", err);
    return set->expression != NULL ? expression_check(c, set, err) : column_check_value(set, err);
}

static int compare_check(const struct compare *c, sqlock_error *err)
{
    int rc = table_check(c->row, err);

    if (rc == 0)
        rc = table_check_name(c->column, "the version's column", err);
    for (size_t k = 0; rc == 0 && k < c->row->n_key; k++)
        if (column_is_named(c->column, c->row->key[k].name))
            rc = sqlock_error_set(err, SQLOCK_EINVAL, 0, "the version's column is part of the key");
    if (rc == 0 && c->n_set > 0 && c->set == NULL)
        rc = sqlock_error_set(err, SQLOCK_EINVAL, 0, "set is NULL");
    for (size_t i = 0; rc == 0 && i < c->n_set; i++)
        rc = compare_check_set(c, i, err);
    return rc;
}

/* A new row must not get a version that an old row of its key had. Chance makes that unlikely. A
 * clock would not, because it can be set back. */
static int compare_draw_start(struct compare *c, sqlock_error *err)
{
    int64_t half = c->table.kind.most / 2;
    uint64_t drawn = 0;

    if (random_bytes(&drawn, sizeof drawn) != 0)
        return sqlock_error_set(err, SQLOCK_ESYS, 0, "no random bytes available");
    drawn %= (uint64_t)time_min(half > 0 ? half : 1, START_MOST);
    assert(drawn < (uint64_t)START_MOST);
    c->start = sqlock_int((int64_t)drawn + 1);
    return 0;
}

/* With a single writer, reading the catalogue needs the write lock, too. */
static int compare_open_table(struct compare *c, sqlock_error *err)
{
    int rc;

    for (int n = 0;; n++) {
        rc = table_open_version(c->conn, c->row, c->column, c->deadline, &c->table, err);
        if (rc == 0 || !adopted_was_busy(err) || (rc = adopted_retry(n, c->deadline, err)) != 0)
            return rc;
    }
}

int compare_open(struct compare *c, sqlock_error *err)
{
    int rc;

    if (c->conn == NULL)
        return adopted_check(NULL, err);
    if ((rc = compare_check(c, err)) != 0 || (rc = adopted_check(c->conn, err)) != 0)
        return rc;
    c->deadline = sqlock_now_us() + c->conn->m->request_us;
    rc = compare_open_table(c, err);
    return rc == 0 ? compare_draw_start(c, err) : rc;
}

/* ---- words ----------------------------------------------------------------------------------- */

static void put_name(struct template *m, const void *arg)
{
    template_name(m, arg);
}

static void put_value(struct template *m, const void *arg)
{
    template_value(m, arg);
}

static void put_assigned(struct template *m, const sqlock_column *set)
{
    if (set->expression != NULL)
        template_text(m, set->expression);
    else
        template_value(m, &set->value);
}

/* Assignments, each with a comma after it. */
static void put_set(struct template *m, const void *arg)
{
    const struct compare *c = arg;

    for (size_t i = 0; i < c->n_set; i++) {
        template_name(m, c->set[i].name);
        template_text(m, " = ");
        put_assigned(m, &c->set[i]);
        template_text(m, ", ");
    }
}

static void put_arbiter(struct template *m, const void *arg)
{
    const struct compare *c = arg;

    for (size_t i = 0; i < c->row->n_key; i++) {
        template_text(m, i > 0 ? ", " : "");
        template_name(m, c->row->key[i].name);
    }
}

/* The columns of a new row: first the key, then the others. */
static void put_names(struct template *m, const void *arg)
{
    const struct compare *c = arg;

    put_arbiter(m, c);
    for (size_t i = 0; i < c->n_set; i++) {
        template_text(m, ", ");
        template_name(m, c->set[i].name);
    }
}

static void put_values(struct template *m, const void *arg)
{
    const struct compare *c = arg;

    for (size_t i = 0; i < c->row->n_key; i++) {
        template_text(m, i > 0 ? ", " : "");
        template_value(m, &c->row->key[i].value);
    }
    for (size_t i = 0; i < c->n_set; i++) {
        template_text(m, ", ");
        put_assigned(m, &c->set[i]);
    }
}

/* ---- expressions of the version -------------------------------------------------------------- */

/* The steps of the blocks version_integer and version_timestamp. */
enum { EXPRESSION_READ, EXPRESSION_NEXT, EXPRESSION_FIRST };

static void put_column(struct template *m, const void *arg)
{
    const struct compare *c = arg;

    template_column(m, c->row->table, c->column);
}

static void put_expression(struct template *m, const struct compare *c, size_t which)
{
    sqlock_stmt block =
        c->table.kind.is_timestamp ? SQLOCK_STMT_VERSION_TIMESTAMP : SQLOCK_STMT_VERSION_INTEGER;
    const sqlock_script *texts = &texts_scripts(c->conn->texts)[block];
    const struct template_word words[] = {{"{column}", put_column, c},
                                          {"{start}", put_value, &c->start}};

    assert(which < texts->n_steps);
    template_from(m, texts->steps[which].sql, words, sizeof words / sizeof *words);
}

static void put_version(struct template *m, const void *arg)
{
    put_expression(m, arg, EXPRESSION_READ);
}

static void put_next(struct template *m, const void *arg)
{
    put_expression(m, arg, EXPRESSION_NEXT);
}

static void put_first(struct template *m, const void *arg)
{
    put_expression(m, arg, EXPRESSION_FIRST);
}

/* ---- statements ------------------------------------------------------------------------------ */

static int compare_run_step(struct compare *c, sqlock_stmt block, size_t step, sqlock_rows *rows,
                            sqlock_error *err)
{
    const struct template_word words[] = {{"{name}", put_name, c->column},
                                          {"{version}", put_version, c},
                                          {"{expected}", put_value, &c->expected},
                                          {"{next}", put_next, c},
                                          {"{first}", put_first, c},
                                          {"{set}", put_set, c},
                                          {"{arbiter}", put_arbiter, c},
                                          {"{names}", put_names, c},
                                          {"{values}", put_values, c},
                                          {"{there}", put_value, &c->there},
                                          {"{seen}", put_value, &c->found},
                                          {"{token}", put_value, &c->token}};
    int rc;

    for (int n = 0;; n++) {
        rows_clear(rows);
        rc = table_run(&c->table, block, step, words, sizeof words / sizeof *words, c->deadline,
                       rows, err);
        if (rc == 0 || !adopted_was_busy(err))
            return rc;
        if ((rc = adopted_retry(n, c->deadline, err)) != 0)
            return rc;
    }
}

/* A failure after a step that writes leaves the row changed. */
int compare_run(struct compare *c, sqlock_stmt block, sqlock_error *err)
{
    const sqlock_script *script = &texts_scripts(c->conn->texts)[block];
    sqlock_rows *rows = rows_new();
    int rc = rows != NULL ? texts_has(c->conn->texts, block, err) : error_nomem(err);
    int wrote = 0;

    assert(c->table.conn == c->conn); /* compare_open() was called */
    c->outcome = SQLOCK_OUT_NONE;
    c->there = sqlock_int(0);
    c->found = sqlock_null();
    for (size_t i = 0; rc == 0 && c->outcome == SQLOCK_OUT_NONE && i < script->n_steps; i++) {
        rc = compare_run_step(c, block, i, rows, err);
        if (rc != 0 && wrote)
            rc = adopted_half_done(err);
        wrote = wrote || script->steps[i].flags & SQLOCK_STEP_WRITE;
        if (rc != 0 || sqlock_rows_count(rows) == 0)
            continue;
        c->outcome = (int)rows_int(rows, 0, SQLOCK_COL_OUTCOME, SQLOCK_OUT_NONE);
        c->there = sqlock_int(1);
        c->found = rows_number(rows, 0, SQLOCK_COL_SEEN);
    }
    rows_free(rows);
    return rc;
}
