/* What the catalogue says about a table. A statement that finds its row by a unique key touches
 * only that row. Without such an index it would read the whole table, and on some servers lock it.
 * The plan for a small table proves nothing, so this reads the catalogue. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"
#include "core/transaction/catalogue.h"
#include "core/transaction/table.h"

static const char *look_cell(const sqlock_rows *rows, size_t row, size_t column)
{
    size_t len;

    return rows_bytes(rows, row, column, &len);
}

static int text_is_same(const char *a, const char *b)
{
    return a != NULL && b != NULL && strcmp(a, b) == 0;
}

static const sqlock_column *key_column_of(const sqlock_row *row, const char *name)
{
    for (size_t i = 0; i < row->n_key; i++)
        if (text_is_same(name, row->key[i].name))
            return &row->key[i];
    return NULL;
}

/* How many rows, from this one on, are about the same index. */
static size_t index_count_rows(const sqlock_rows *rows, size_t at)
{
    const char *name = look_cell(rows, at, SQLOCK_COL_KEY);
    size_t n = 0;

    while (at + n < sqlock_rows_count(rows) &&
           text_is_same(look_cell(rows, at + n, SQLOCK_COL_KEY), name))
        n++;
    return n;
}

static int index_is_key(const sqlock_rows *rows, size_t at, size_t n, const sqlock_row *row)
{
    if (n != row->n_key)
        return 0;
    for (size_t i = 0; i < n; i++)
        if (key_column_of(row, look_cell(rows, at + i, SQLOCK_COL_COLUMN)) == NULL)
            return 0;
    return 1;
}

/* The first row about the index on exactly the key's columns, or the number of rows if there is
 * none. */
static size_t index_find_key(const sqlock_rows *rows, const sqlock_row *row)
{
    size_t at = 0;

    for (size_t n; at < sqlock_rows_count(rows); at += n) {
        if ((n = index_count_rows(rows, at)) == 0) /* the table has no index */
            return sqlock_rows_count(rows);
        if (index_is_key(rows, at, n, row))
            break;
    }
    return at;
}

static int bytes_are_within(const sqlock_value *v, unsigned char top)
{
    const unsigned char *p = v->data;

    for (size_t i = 0; i < v->len; i++)
        if (p[i] > top)
            return 0;
    return 1;
}

/* In UTF-8, bytes from F0 on begin characters of four bytes. */
static int look_fits(const char *letters, const sqlock_value *v)
{
    if (v->type == SQLOCK_INT)
        return strchr(letters, 'i') != NULL;
    if (v->type == SQLOCK_BYTES)
        return strchr(letters, 'b') != NULL;
    return strchr(letters, 't') != NULL ||
           (strchr(letters, 'm') != NULL && bytes_are_within(v, 0xEF)) ||
           (strchr(letters, 'a') != NULL && bytes_are_within(v, 0x7F));
}

int table_check_fit(const struct table *t, sqlock_error *err)
{
    const sqlock_row *row = t->row;
    char shown[80];

    for (size_t i = 0; i < row->n_key; i++)
        if (!look_fits(t->key.fits[i], &row->key[i].value))
            return sqlock_error_set(
                err, SQLOCK_EREFUSED, 0,
                "the value of \"%s\" has another type than its column: the whole table would be "
                "read and locked",
                text_show(shown, sizeof shown, row->key[i].name, strlen(row->key[i].name)));
    return 0;
}

static int look_refuse(const sqlock_row *row, const char *why, sqlock_error *err)
{
    char shown[80];

    return sqlock_error_set(err, SQLOCK_EREFUSED, 0, "table \"%s\": %s",
                            text_show(shown, sizeof shown, row->table, strlen(row->table)), why);
}

static void look_take_key(const sqlock_rows *rows, size_t at, const sqlock_row *row,
                          struct table_key *out)
{
    const char *schema = look_cell(rows, at, SQLOCK_COL_WHERE);

    snprintf(out->schema, sizeof out->schema, "%s", schema != NULL ? schema : "");
    snprintf(out->name, sizeof out->name, "%s", look_cell(rows, at, SQLOCK_COL_KEY));
    out->instant = (int)rows_int(rows, at, SQLOCK_COL_INSTANT, 0);
    for (size_t i = 0; i < row->n_key; i++) {
        const sqlock_column *c = key_column_of(row, look_cell(rows, at + i, SQLOCK_COL_COLUMN));
        const char *letters = look_cell(rows, at + i, SQLOCK_COL_FITS);
        const char *compares = look_cell(rows, at + i, SQLOCK_COL_COMPARES);
        const char *equals = look_cell(rows, at + i, SQLOCK_COL_EQUALS);

        assert(c != NULL); /* index_is_key() said so */
        snprintf(out->fits[c - row->key], sizeof out->fits[0], "%s",
                 letters != NULL ? letters : "");
        snprintf(out->compares[c - row->key], sizeof out->compares[0], "%s",
                 compares != NULL ? compares : "");
        snprintf(out->equals[c - row->key], sizeof out->equals[0], "%s",
                 equals != NULL ? equals : "");
    }
}

static int look_judge(const sqlock_rows *rows, const sqlock_row *row, struct table_key *out,
                      sqlock_error *err)
{
    const char *detail = look_cell(rows, 0, SQLOCK_COL_DETAIL);
    size_t at;

    if (sqlock_rows_count(rows) == 0)
        return look_refuse(row, "it does not exist, or this user may not see it", err);
    if (rows_int(rows, 0, SQLOCK_COL_OUTCOME, 0) != SQLOCK_OUT_DONE)
        return look_refuse(row, detail != NULL ? detail : "it cannot be used", err);
    at = index_find_key(rows, row);
    if (at == sqlock_rows_count(rows))
        return look_refuse(row,
                           "no unique index on exactly the key's columns (valid, not deferred, not "
                           "partial, of whole columns): the whole table would be read and locked",
                           err);
    if (strlen(look_cell(rows, at, SQLOCK_COL_KEY)) >= sizeof out->name)
        return look_refuse(row, "the name of its index is too long", err);
    look_take_key(rows, at, row, out);
    return 0;
}

static sqlock_value look_name_value(const char *name)
{
    return name != NULL ? sqlock_bytes(name, strlen(name)) : sqlock_null();
}

static int look_judge_version(const sqlock_rows *rows, struct table *t, sqlock_error *err)
{
    const char *detail = look_cell(rows, 0, SQLOCK_COL_DETAIL);
    char why[160], shown[80];

    text_show(shown, sizeof shown, t->version, strlen(t->version));
    if (sqlock_rows_count(rows) == 0)
        detail = "does not exist";
    else if (rows_int(rows, 0, SQLOCK_COL_OUTCOME, 0) != SQLOCK_OUT_DONE)
        detail = detail != NULL ? detail : "cannot be used";
    else
        detail = NULL;
    t->kind.is_timestamp = (int)rows_int(rows, 0, SQLOCK_COL_TIMESTAMP, 0);
    t->kind.most = rows_int(rows, 0, SQLOCK_COL_MOST, 0);
    if (detail == NULL)
        return 0;
    snprintf(why, sizeof why, "the column \"%s\" %s", shown, detail);
    return look_refuse(t->row, why, err);
}

int table_look_up(struct table *t, int64_t deadline, sqlock_error *err)
{
    sqlock_value values[] = {look_name_value(t->row->schema), look_name_value(t->row->table),
                             look_name_value(t->version)};
    sqlock_rows *rows = rows_new();
    int rc;

    if (rows == NULL)
        return error_nomem(err);
    rc = catalogue_send(t->conn, SQLOCK_STMT_TABLE_KEY, values, 2, deadline, rows, err);
    if (rc == 0)
        rc = look_judge(rows, t->row, &t->key, err);
    rows_clear(rows);
    if (rc == 0 && t->version != NULL &&
        (rc = catalogue_send(t->conn, SQLOCK_STMT_TABLE_VERSION, values, 3, deadline, rows, err)) ==
            0)
        rc = look_judge_version(rows, t, err);
    rows_free(rows);
    return rc;
}
