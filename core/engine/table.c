/* Tables of the application's: what is found by a unique key touches one row. Without such an index
 * a statement would read the table, and on some servers lock all of it, and a plan of a small table
 * proves nothing; so the catalogue is asked. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/engine/catalogue.h"
#include "core/engine/table.h"

enum { NAME_MAX_BYTES = 256 }; /* 64 characters on MySQL; what else is too long is not there */

/* ---- arguments ------------------------------------------------------------------------------ */

static int has_control(const char *name)
{
    for (; *name != '\0'; name++)
        if ((unsigned char)*name < 0x20 || *name == 0x7F)
            return 1;
    return 0;
}

int table_check_name(const char *name, const char *what, sqlock_error *err)
{
    size_t len = name != NULL ? strnlen(name, NAME_MAX_BYTES + 1) : 0;
    char shown[80];

    if (len == 0)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "the name of %s is missing", what);
    if (len > NAME_MAX_BYTES || !text_is_utf8(name, len) || has_control(name))
        return sqlock_error_set(err, SQLOCK_EINVAL, 0,
                                "the name of %s \"%s\" is not 1 to %d bytes of UTF-8 without "
                                "control characters",
                                what, text_show(shown, sizeof shown, name, len), NAME_MAX_BYTES);
    return 0;
}

static int check_value(const sqlock_column *c, sqlock_error *err)
{
    const sqlock_value *v = &c->value;
    const char *why = NULL;
    char shown[80];

    if (c->expression != NULL)
        why = "is an expression";
    else if (v->type == SQLOCK_NULL)
        why = "is NULL";
    else if (v->type != SQLOCK_INT && v->type != SQLOCK_BYTES && v->type != SQLOCK_TEXT)
        why = "is of an unknown type";
    else if (v->type != SQLOCK_INT && v->data == NULL)
        why = "has no data";
    if (why == NULL)
        return 0;
    return sqlock_error_set(err, SQLOCK_EINVAL, 0, "the value of the key's column \"%s\" %s",
                            text_show(shown, sizeof shown, c->name, strlen(c->name)), why);
}

static int check_key(const sqlock_row *row, sqlock_error *err)
{
    int rc = 0;

    if (row->key == NULL || row->n_key == 0 || row->n_key > SQLOCK_KEY_MAX)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "a key has 1 to %d columns", SQLOCK_KEY_MAX);
    for (size_t i = 0; i < row->n_key && rc == 0; i++) {
        rc = table_check_name(row->key[i].name, "a key's column", err);
        for (size_t k = 0; rc == 0 && k < i; k++)
            if (strcmp(row->key[i].name, row->key[k].name) == 0)
                rc = sqlock_error_set(err, SQLOCK_EINVAL, 0, "a column is twice in the key");
        if (rc == 0)
            rc = check_value(&row->key[i], err);
    }
    return rc;
}

int table_check(const sqlock_row *row, sqlock_error *err)
{
    int rc;

    if (row == NULL || row->size != sizeof *row)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0,
                                "a row is NULL, or its size is not sizeof(sqlock_row)");
    if ((row->schema != NULL && (rc = table_check_name(row->schema, "a schema", err)) != 0) ||
        (rc = table_check_name(row->table, "a table", err)) != 0)
        return rc;
    return check_key(row, err);
}

/* ---- what is remembered -----------------------------------------------------------------------
 */

/* A yes of the catalogue's. There are not many; the oldest one goes. */
struct known {
    struct known *next;
    struct table_key key;
    struct table_version kind;
    size_t len;
    char what[]; /* schema, table, the version's column and the key's, each with its NUL */
};

enum { KNOWN_MAX = 32 };

static size_t put_part(char *out, size_t at, const char *text)
{
    size_t n = strlen(text) + 1;

    if (out != NULL)
        memcpy(out + at, text, n);
    return at + n;
}

/* Write what tells a row's table and key; NULL: only measure. */
static size_t put_what(const struct table *t, char *out)
{
    const sqlock_row *row = t->row;
    size_t at = put_part(out, put_part(out, 0, row->schema), row->table);

    at = put_part(out, at, t->version != NULL ? t->version : "");
    for (size_t i = 0; i < row->n_key; i++)
        at = put_part(out, at, row->key[i].name);
    return at;
}

static struct known *remembered(sqlock_conn *c, const struct known *wanted)
{
    for (struct known *k = c->known; k != NULL; k = k->next)
        if (k->len == wanted->len && memcmp(k->what, wanted->what, k->len) == 0)
            return k;
    return NULL;
}

static struct known *known_new(const struct table *t)
{
    size_t len = put_what(t, NULL);
    struct known *k = sqlock_mem_alloc(sizeof *k + len);

    if (k != NULL)
        k->len = put_what(t, k->what);
    return k;
}

static void keep(sqlock_conn *c, struct known *k)
{
    struct known **last = &c->known;
    size_t n = 0;

    k->next = c->known;
    c->known = k;
    for (; *last != NULL && n < KNOWN_MAX; n++)
        last = &(*last)->next;
    sqlock_mem_free(*last);
    *last = NULL;
}

void table_forget(sqlock_conn *c)
{
    for (struct known *next; c->known != NULL; c->known = next) {
        next = c->known->next;
        sqlock_mem_free(c->known);
    }
}

/* ---- the catalogue ----------------------------------------------------------------------------
 */

static const char *cell(const sqlock_rows *rows, size_t row, size_t column)
{
    size_t len;

    return rows_bytes(rows, row, column, &len);
}

static int same_text(const char *a, const char *b)
{
    return a != NULL && b != NULL && strcmp(a, b) == 0;
}

static const sqlock_column *column_of(const sqlock_row *row, const char *name)
{
    for (size_t i = 0; i < row->n_key; i++)
        if (same_text(name, row->key[i].name))
            return &row->key[i];
    return NULL;
}

/* How many rows from this one on tell of the same index. */
static size_t index_rows(const sqlock_rows *rows, size_t at)
{
    const char *name = cell(rows, at, SQLOCK_COL_KEY);
    size_t n = 0;

    while (at + n < sqlock_rows_count(rows) && same_text(cell(rows, at + n, SQLOCK_COL_KEY), name))
        n++;
    return n;
}

static int is_the_key(const sqlock_rows *rows, size_t at, size_t n, const sqlock_row *row)
{
    if (n != row->n_key)
        return 0;
    for (size_t i = 0; i < n; i++)
        if (column_of(row, cell(rows, at + i, SQLOCK_COL_COLUMN)) == NULL)
            return 0;
    return 1;
}

/* The first row of the index on exactly the key's columns; the number of rows: there is none. */
static size_t find_key(const sqlock_rows *rows, const sqlock_row *row)
{
    size_t at = 0;

    for (size_t n; at < sqlock_rows_count(rows); at += n) {
        if ((n = index_rows(rows, at)) == 0) /* a table without any */
            return sqlock_rows_count(rows);
        if (is_the_key(rows, at, n, row))
            break;
    }
    return at;
}

static int is_within(const sqlock_value *v, unsigned char top)
{
    const unsigned char *p = v->data;

    for (size_t i = 0; i < v->len; i++)
        if (p[i] > top)
            return 0;
    return 1;
}

/* UTF-8 takes four bytes from F0 on. */
static int fits(const char *letters, const sqlock_value *v)
{
    if (v->type == SQLOCK_INT)
        return strchr(letters, 'i') != NULL;
    if (v->type == SQLOCK_BYTES)
        return strchr(letters, 'b') != NULL;
    return strchr(letters, 't') != NULL || (strchr(letters, 'm') != NULL && is_within(v, 0xEF)) ||
           (strchr(letters, 'a') != NULL && is_within(v, 0x7F));
}

static int check_fit(const struct table *t, sqlock_error *err)
{
    const sqlock_row *row = t->row;
    char shown[80];

    for (size_t i = 0; i < row->n_key; i++)
        if (!fits(t->key.fits[i], &row->key[i].value))
            return sqlock_error_set(
                err, SQLOCK_EREFUSED, 0,
                "the value of \"%s\" is of another kind than the column: the whole table would be "
                "read, and locked",
                text_show(shown, sizeof shown, row->key[i].name, strlen(row->key[i].name)));
    return 0;
}

static int refuse(const sqlock_row *row, const char *why, sqlock_error *err)
{
    char shown[80];

    return sqlock_error_set(err, SQLOCK_EREFUSED, 0, "table \"%s\": %s",
                            text_show(shown, sizeof shown, row->table, strlen(row->table)), why);
}

static void take_key(const sqlock_rows *rows, size_t at, const sqlock_row *row,
                     struct table_key *out)
{
    const char *schema = cell(rows, at, SQLOCK_COL_WHERE);

    snprintf(out->schema, sizeof out->schema, "%s", schema != NULL ? schema : "");
    snprintf(out->name, sizeof out->name, "%s", cell(rows, at, SQLOCK_COL_KEY));
    out->instant = (int)rows_int(rows, at, SQLOCK_COL_INSTANT, 0);
    for (size_t i = 0; i < row->n_key; i++) {
        const sqlock_column *c = column_of(row, cell(rows, at + i, SQLOCK_COL_COLUMN));
        const char *letters = cell(rows, at + i, SQLOCK_COL_FITS);

        snprintf(out->fits[c - row->key], sizeof out->fits[0], "%s",
                 letters != NULL ? letters : "");
    }
}

static int judge(const sqlock_rows *rows, const sqlock_row *row, struct table_key *out,
                 sqlock_error *err)
{
    const char *detail = cell(rows, 0, SQLOCK_COL_DETAIL);
    size_t at;

    if (sqlock_rows_count(rows) == 0)
        return refuse(row, "there is none, or this user may not know of it", err);
    if (rows_int(rows, 0, SQLOCK_COL_OUTCOME, 0) != SQLOCK_OUT_DONE)
        return refuse(row, detail != NULL ? detail : "it cannot be used", err);
    at = find_key(rows, row);
    if (at == sqlock_rows_count(rows))
        return refuse(row,
                      "there is no unique index on exactly the key's columns (valid, not deferred, "
                      "not partial, of whole columns): the table would be read, and locked",
                      err);
    if (strlen(cell(rows, at, SQLOCK_COL_KEY)) >= sizeof out->name)
        return refuse(row, "the name of its index is too long", err);
    take_key(rows, at, row, out);
    return 0;
}

static sqlock_value name_value(const char *name)
{
    return name != NULL ? sqlock_bytes(name, strlen(name)) : sqlock_null();
}

static int judge_version(const sqlock_rows *rows, struct table *t, sqlock_error *err)
{
    const char *detail = cell(rows, 0, SQLOCK_COL_DETAIL);
    char why[160], shown[80];

    text_show(shown, sizeof shown, t->version, strlen(t->version));
    if (sqlock_rows_count(rows) == 0)
        detail = "is not there";
    else if (rows_int(rows, 0, SQLOCK_COL_OUTCOME, 0) != SQLOCK_OUT_DONE)
        detail = detail != NULL ? detail : "cannot be used";
    else
        detail = NULL;
    t->kind.is_timestamp = (int)rows_int(rows, 0, SQLOCK_COL_TIMESTAMP, 0);
    t->kind.most = rows_int(rows, 0, SQLOCK_COL_MOST, 0);
    if (detail == NULL)
        return 0;
    snprintf(why, sizeof why, "the column \"%s\" %s", shown, detail);
    return refuse(t->row, why, err);
}

static int look_up(struct table *t, int64_t deadline, sqlock_error *err)
{
    sqlock_value values[] = {name_value(t->row->schema), name_value(t->row->table),
                             name_value(t->version)};
    sqlock_rows *rows = rows_new();
    int rc;

    if (rows == NULL)
        return error_nomem(err);
    rc = catalogue_ask(t->conn, SQLOCK_STMT_TABLE_KEY, values, 2, deadline, rows, err);
    if (rc == 0)
        rc = judge(rows, t->row, &t->key, err);
    rows_clear(rows);
    if (rc == 0 && t->version != NULL &&
        (rc = catalogue_ask(t->conn, SQLOCK_STMT_TABLE_VERSION, values, 3, deadline, rows, err)) ==
            0)
        rc = judge_version(rows, t, err);
    rows_free(rows);
    return rc;
}

static int look_up_once(struct table *t, int64_t deadline, sqlock_error *err)
{
    struct known *k = known_new(t), *old;
    int rc = 0;

    if (k == NULL)
        return error_nomem(err);
    if ((old = remembered(t->conn, k)) != NULL) {
        t->key = old->key;
        t->kind = old->kind;
    } else {
        rc = look_up(t, deadline, err);
    }
    if (old != NULL || rc != 0) {
        sqlock_mem_free(k);
        return rc;
    }
    k->key = t->key;
    k->kind = t->kind;
    keep(t->conn, k);
    return 0;
}

int table_open(sqlock_conn *c, const sqlock_row *row, int64_t deadline, struct table *out,
               sqlock_error *err)
{
    return table_open_version(c, row, NULL, deadline, out, err);
}

int table_open_version(sqlock_conn *c, const sqlock_row *row, const char *version, int64_t deadline,
                       struct table *out, sqlock_error *err)
{
    int rc;

    memset(out, 0, sizeof *out);
    out->conn = c;
    out->row = row;
    out->version = version;
    rc = row->schema != NULL ? look_up_once(out, deadline, err) : look_up(out, deadline, err);
    return rc == 0 ? check_fit(out, err) : rc;
}

/* ---- statements -------------------------------------------------------------------------------
 */

static void put_table(struct made *m, const void *arg)
{
    const sqlock_row *row = arg;

    if (row->schema != NULL) {
        made_name(m, row->schema);
        made_text(m, ".");
    }
    made_name(m, row->table);
}

static void put_match(struct made *m, const void *arg)
{
    const sqlock_row *row = arg;

    for (size_t i = 0; i < row->n_key; i++) {
        made_text(m, i > 0 ? " AND " : "");
        made_column(m, row->table, row->key[i].name);
        made_text(m, " = ");
        made_value(m, &row->key[i].value);
    }
}

static void put_key(struct made *m, const void *arg)
{
    made_name(m, arg);
}

static int made_error(const struct made *m, sqlock_error *err)
{
    if (m->failed == SQLOCK_EINVAL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "there are more than %d values",
                                MADE_VALUES);
    return error_nomem(err);
}

int table_ask(const struct table *t, sqlock_stmt block, size_t step, const struct made_word *words,
              size_t n_words, int64_t deadline, sqlock_rows *rows, sqlock_error *err)
{
    const sqlock_script *texts = &rendered_scripts(t->conn->texts)[block];
    struct made_word all[3 + TABLE_WORDS] = {{"{table}", put_table, t->row},
                                             {"{match}", put_match, t->row},
                                             {"{key}", put_key, t->key.name}};
    struct made m;
    int rc;

    assert(n_words <= TABLE_WORDS);
    if ((rc = rendered_has(t->conn->texts, block, err)) != 0)
        return rc;
    if (n_words > 0)
        memcpy(&all[3], words, n_words * sizeof *words);
    made_begin(&m, t->conn->m->driver->dialect);
    made_from(&m, texts->steps[step].sql, all, 3 + n_words);
    if (m.failed) {
        rc = made_error(&m, err);
    } else {
        uint8_t hears = t->hurried ? SQLOCK_STEP_HEARS : 0;
        sqlock_step one = {.sql = m.sql, .flags = texts->steps[step].flags | hears};
        sqlock_script script = {.name = texts->name,
                                .params = "",
                                .n_params = (uint8_t)m.n_values,
                                .n_steps = 1,
                                .steps = &one};

        rc = guest_ask(t->conn, &script, m.values, deadline, rows, err);
    }
    made_end(&m);
    return rc;
}
