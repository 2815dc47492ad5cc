/* Tables of the application: checks of rows, what is remembered of tables, and statements about
 * them. */
#include <assert.h>
#include <string.h>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/transaction/table.h"

enum { NAME_MAX_BYTES = 256 }; /* 64 characters on MySQL; a longer name cannot exist */

/* ---- arguments ------------------------------------------------------------------------------- */

static int name_has_control(const char *name)
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
    if (len > NAME_MAX_BYTES || !text_is_utf8(name, len) || name_has_control(name))
        return sqlock_error_set(err, SQLOCK_EINVAL, 0,
                                "the name of %s \"%s\" is not 1 to %d bytes of UTF-8 without "
                                "control characters",
                                what, text_show(shown, sizeof shown, name, len), NAME_MAX_BYTES);
    return 0;
}

static int table_check_value(const sqlock_column *c, sqlock_error *err)
{
    const sqlock_value *v = &c->value;
    const char *why = NULL;
    char shown[80];

    if (c->expression != NULL)
        why = "is an expression";
    else if (v->type == SQLOCK_NULL)
        why = "is NULL";
    else if (v->type != SQLOCK_INT && v->type != SQLOCK_BYTES && v->type != SQLOCK_TEXT)
        why = "has an unknown type";
    else if (v->type != SQLOCK_INT && v->data == NULL)
        why = "has no data";
    if (why == NULL)
        return 0;
    return sqlock_error_set(err, SQLOCK_EINVAL, 0, "the value of the key's column \"%s\" %s",
                            text_show(shown, sizeof shown, c->name, strlen(c->name)), why);
}

static int table_check_key(const sqlock_row *row, sqlock_error *err)
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
            rc = table_check_value(&row->key[i], err);
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
    return table_check_key(row, err);
}

/* ---- what is remembered ---------------------------------------------------------------------- */

/* A positive answer of the catalogue. There are not many, and the oldest is dropped. */
struct known {
    struct known *next;
    struct table_key key;
    struct table_version kind;
    size_t len;
    char what[]; /* schema, table, the version's column and the key's columns, each with its NUL */
};

enum { KNOWN_MAX = 32 };

static size_t known_put_part(char *out, size_t at, const char *text)
{
    size_t n = strlen(text) + 1;

    if (out != NULL)
        memcpy(out + at, text, n);
    return at + n;
}

/* Write what identifies a row's table and key. With out NULL it only measures. */
static size_t known_put_what(const struct table *t, char *out)
{
    const sqlock_row *row = t->row;
    size_t at = known_put_part(out, known_put_part(out, 0, row->schema), row->table);

    at = known_put_part(out, at, t->version != NULL ? t->version : "");
    for (size_t i = 0; i < row->n_key; i++)
        at = known_put_part(out, at, row->key[i].name);
    return at;
}

static struct known *table_remembered(sqlock_conn *c, const struct known *wanted)
{
    for (struct known *k = c->known; k != NULL; k = k->next)
        if (k->len == wanted->len && memcmp(k->what, wanted->what, k->len) == 0)
            return k;
    return NULL;
}

static struct known *known_new(const struct table *t)
{
    size_t len = known_put_what(t, NULL);
    struct known *k = sqlock_mem_alloc(sizeof *k + len);

    if (k != NULL)
        k->len = known_put_what(t, k->what);
    assert(k == NULL || k->len == len);
    return k;
}

static void table_keep(sqlock_conn *c, struct known *k)
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

/* ---- opening --------------------------------------------------------------------------------- */

static int table_look_up_once(struct table *t, int64_t deadline, sqlock_error *err)
{
    struct known *k = known_new(t), *old;
    int rc = 0;

    if (k == NULL)
        return error_nomem(err);
    if ((old = table_remembered(t->conn, k)) != NULL) {
        t->key = old->key;
        t->kind = old->kind;
    } else {
        rc = table_look_up(t, deadline, err);
    }
    if (old != NULL || rc != 0) {
        sqlock_mem_free(k);
        return rc;
    }
    k->key = t->key;
    k->kind = t->kind;
    table_keep(t->conn, k);
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
    rc = row->schema != NULL ? table_look_up_once(out, deadline, err)
                             : table_look_up(out, deadline, err);
    return rc == 0 ? table_check_fit(out, err) : rc;
}

/* ---- statements ------------------------------------------------------------------------------ */

static void put_table(struct template *m, const void *arg)
{
    const sqlock_row *row = arg;

    if (row->schema != NULL) {
        template_name(m, row->schema);
        template_text(m, ".");
    }
    template_name(m, row->table);
}

/* The condition compares as the index does. A coarser collation of the column, or another operator,
 * could match several rows. */
static void put_match(struct template *m, const void *arg)
{
    const struct table *t = arg;
    const sqlock_row *row = t->row;

    for (size_t i = 0; i < row->n_key; i++) {
        template_text(m, i > 0 ? " AND " : "");
        template_column(m, row->table, row->key[i].name);
        template_text(m, " ");
        template_text(m, t->key.equals[i][0] != '\0' ? t->key.equals[i] : "=");
        template_text(m, " ");
        template_value(m, &row->key[i].value);
        if (t->key.compares[i][0] != '\0') {
            template_text(m, " COLLATE ");
            template_name(m, t->key.compares[i]);
        }
    }
}

static void put_key(struct template *m, const void *arg)
{
    template_name(m, arg);
}

static int template_error(const struct template *m, sqlock_error *err)
{
    if (m->failed == SQLOCK_EINVAL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "there are more than %d values",
                                TEMPLATE_VALUES);
    return error_nomem(err);
}

int table_run(const struct table *t, sqlock_stmt block, size_t step,
              const struct template_word *words, size_t n_words, int64_t deadline,
              sqlock_rows *rows, sqlock_error *err)
{
    const sqlock_script *texts = &texts_scripts(t->conn->texts)[block];
    struct template_word all[3 + TABLE_WORDS] = {
        {"{table}", put_table, t->row}, {"{match}", put_match, t}, {"{key}", put_key, t->key.name}};
    struct template m;
    int rc;

    assert(n_words <= TABLE_WORDS);
    if ((rc = texts_has(t->conn->texts, block, err)) != 0)
        return rc;
    if (n_words > 0)
        memcpy(&all[3], words, n_words * sizeof *words);
    assert(step < texts->n_steps);
    template_begin(&m, t->conn->m->driver->dialect);
    template_from(&m, texts->steps[step].sql, all, 3 + n_words);
    if (m.failed) {
        rc = template_error(&m, err);
    } else {
        uint8_t hears = t->cancellable ? SQLOCK_STEP_HEARS : 0;
        sqlock_step one = {.sql = m.sql, .flags = texts->steps[step].flags | hears};
        sqlock_script script = {.name = texts->name,
                                .params = "",
                                .n_params = (uint8_t)m.n_values,
                                .n_steps = 1,
                                .steps = &one};

        rc = adopted_script(t->conn, &script, m.values, deadline, rows, err);
    }
    template_end(&m);
    return rc;
}
