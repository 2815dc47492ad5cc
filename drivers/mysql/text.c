/* A step's text with its values.
 *
 * Integers are written in decimal and bytes as X'hex', which no character set, sql_mode or quoting
 * rule touches. A statement that the session keeps is prepared and executed by texts, too: the
 * first time in one packet. The non-blocking calls of both client libraries only know texts. */
#include <string.h>

#include "mysql.h"

#define EACH "/*each "
#define END  "/*end*/"
#define NEXT ";\n"

#define TX_BEGIN "START TRANSACTION;\n"
#define TX_END   ";\nCOMMIT"

/* Where the text goes. Without memory it is only measured. */
struct sink {
    char *at;
    size_t len;
};

static void text_put(struct sink *out, const char *text, size_t len)
{
    if (out->at != NULL)
        memcpy(out->at + out->len, text, len);
    out->len += len;
}

static void text_put_word(struct sink *out, const char *word)
{
    text_put(out, word, strlen(word));
}

static void text_put_hex(struct sink *out, const unsigned char *data, size_t len)
{
    static const char digits[] = "0123456789abcdef";

    text_put(out, "X'", 2);
    for (size_t i = 0; out->at != NULL && i < len; i++) {
        out->at[out->len + 2 * i] = digits[data[i] >> 4];
        out->at[out->len + 2 * i + 1] = digits[data[i] & 15];
    }
    out->len += 2 * len;
    text_put(out, "'", 1);
}

/* snprintf() took a quarter of the CPU that renewals cost this process. */
static void text_put_int(struct sink *out, int64_t i)
{
    char digits[20];
    size_t at = sizeof digits;
    uint64_t rest = i < 0 ? -(uint64_t)i : (uint64_t)i;

    do
        digits[--at] = (char)('0' + rest % 10);
    while ((rest /= 10) > 0);
    if (i < 0)
        digits[--at] = '-';
    text_put(out, digits + at, sizeof digits - at);
}

/* A text of the application's is written by its bytes too, in the character set in which the server
 * reads the session's statements. So it stays what it is, and is a text, not bytes. */
static void text_put_value(struct sink *out, const sqlock_value *v, const char *charset)
{
    if (v->type == SQLOCK_TEXT) {
        text_put(out, "_", 1);
        text_put_word(out, charset);
        text_put(out, " ", 1);
    }
    if (v->type == SQLOCK_BYTES || v->type == SQLOCK_TEXT)
        text_put_hex(out, v->data, v->len);
    else if (v->type == SQLOCK_NULL)
        text_put(out, "NULL", 4);
    else
        text_put_int(out, v->i);
}

const char *my_find(const char *from, const char *end, char what)
{
    for (;;) {
        const char *found = memchr(from, what, (size_t)(end - from));
        const char *name = memchr(from, '`', (size_t)((found != NULL ? found : end) - from));

        if (found == NULL || name == NULL)
            return found;
        if ((name = memchr(name + 1, '`', (size_t)(end - name - 1))) == NULL)
            return NULL;
        from = name + 1;
    }
}

/* A piece of the step for request number r. Its first placeholder has the number `at` in the step.
 * Returns the number of the next one. */
static size_t text_put_piece(struct sink *out, const char *from, const char *end,
                             const uint8_t *order, size_t at, const struct my_batch *b, size_t r)
{
    sqlock_value index = {SQLOCK_INT, (int64_t)r, NULL, 0};
    const char *mark;

    for (; (mark = my_find(from, end, '?')) != NULL; from = mark + 1, at++) {
        size_t which = order != NULL ? order[at] : at;
        int by_number = order != NULL && which == SQLOCK_ORDER_INDEX;

        text_put(out, from, (size_t)(mark - from));
        text_put_value(out, by_number ? &index : &b->values[r * b->n_params + which], b->charset);
    }
    text_put(out, from, (size_t)(end - from));
    return at;
}

static void text_put_step(struct sink *out, const sqlock_step *step, const struct my_batch *b)
{
    const char *s = step->sql, *each;
    size_t at = 0, next = 0;

    /* a text that core made has no order: there such a comment is part of a name */
    while (step->order != NULL && (each = strstr(s, EACH)) != NULL) {
        const char *separator = each + strlen(EACH), *body = strstr(separator, "*/"), *end;

        if (body == NULL || (end = strstr(body, END)) == NULL)
            break;
        at = text_put_piece(out, s, each, step->order, at, b, 0);
        for (size_t r = 0; r < b->n; r++) {
            if (r > 0)
                text_put(out, separator, (size_t)(body - separator));
            next = text_put_piece(out, body + 2, end, step->order, at, b, r);
        }
        at = next;
        s = end + strlen(END);
    }
    text_put_piece(out, s, s + strlen(s), step->order, at, b, 0);
}

char *my_text(const sqlock_step *step, const struct my_batch *b, size_t *out_len)
{
    struct sink out = {NULL, 0};

    text_put_step(&out, step, b);
    if ((out.at = sqlock_mem_alloc(out.len + 1)) == NULL)
        return NULL;
    out.len = 0;
    text_put_step(&out, step, b);
    *out_len = out.len;
    return out.at;
}

/* As it stands in a literal. Without memory: no longer than that. */
static void text_put_escaped(struct sink *out, MYSQL *my, const char *sql, unsigned long len)
{
    out->len +=
        out->at != NULL ? mysql_real_escape_string(my, out->at + out->len, sql, len) : 2 * len + 1;
}

/* What is kept of a step: its last statement under a name of its own, and what stands before it. Of
 * a transaction, and of several statements, that is a compound statement. */
#define REST "_rest"

struct kept {
    const char *first, *rest;
    size_t first_len, rest_len; /* rest_len: 0 if there is none */
    size_t n_values;            /* of first */
    int in_transaction, is_compound;
};

int my_step_is_transaction(const sqlock_step *step)
{
    return strncmp(step->sql, TX_BEGIN, strlen(TX_BEGIN)) == 0;
}

static struct kept kept_of(const sqlock_step *step)
{
    struct kept k = {.first = step->sql, .in_transaction = my_step_is_transaction(step)};
    const char *end = step->sql + strlen(step->sql), *at;

    if (k.in_transaction) {
        k.first += strlen(TX_BEGIN);
        end -= strlen(TX_END);
    }
    for (at = k.first; (at = my_next_statement(at)) != NULL && at < end; k.rest = at)
        k.is_compound = k.rest != NULL;
    k.is_compound |= k.in_transaction;
    k.rest_len = k.rest != NULL ? (size_t)(end - k.rest) : 0;
    k.first_len = (size_t)((k.rest != NULL ? k.rest - strlen(NEXT) : end) - k.first);
    for (at = k.first; (at = my_find(at, k.first + k.first_len, '?')) != NULL; at++)
        k.n_values++;
    return k;
}

static void text_put_prepare_one(struct sink *out, const char *name, const char *which,
                                 const char *sql, size_t len, int is_compound, MYSQL *keeps)
{
    text_put_word(out, "PREPARE ");
    text_put_word(out, name);
    text_put_word(out, which);
    text_put_word(out, " FROM '");
    text_put_word(out, is_compound ? "BEGIN NOT ATOMIC " : "");
    text_put_escaped(out, keeps, sql, (unsigned long)len);
    text_put_word(out, is_compound ? "; END'" NEXT : "'" NEXT);
}

static void text_put_prepare(struct sink *out, const sqlock_step *step, const char *name,
                             MYSQL *keeps)
{
    const struct kept k = kept_of(step);

    text_put_prepare_one(out, name, "", k.first, k.first_len, k.is_compound, keeps);
    if (k.rest_len > 0)
        text_put_prepare_one(out, name, REST, k.rest, k.rest_len, 0, keeps);
}

static void text_put_execute_one(struct sink *out, const sqlock_step *step, size_t from, size_t to,
                                 const struct my_batch *b, const char *name, const char *which)
{
    text_put_word(out, "EXECUTE ");
    text_put_word(out, name);
    text_put_word(out, which);
    for (size_t i = from; i < to; i++) {
        text_put_word(out, i == from ? " USING " : ", ");
        text_put_value(out, &b->values[step->order[i]], b->charset);
    }
}

static void text_put_execute(struct sink *out, const sqlock_step *step, const struct my_batch *b,
                             const char *name)
{
    const struct kept k = kept_of(step);

    text_put_word(out, k.in_transaction ? TX_BEGIN : "");
    text_put_execute_one(out, step, 0, k.n_values, b, name, "");
    text_put_word(out, k.rest_len > 0 ? NEXT : "");
    if (k.rest_len > 0)
        text_put_execute_one(out, step, k.n_values, step->n_order, b, name, REST);
    text_put_word(out, k.in_transaction ? TX_END : "");
}

static void text_put_kept(struct sink *out, const sqlock_step *step, const struct my_batch *b,
                          const char *name, MYSQL *keeps)
{
    if (keeps != NULL)
        text_put_prepare(out, step, name, keeps);
    text_put_execute(out, step, b, name);
}

char *my_text_execute(const sqlock_step *step, const struct my_batch *b, const char *name,
                      MYSQL *keeps, size_t *out_len)
{
    struct sink out = {NULL, 0};

    text_put_kept(&out, step, b, name, keeps);
    if ((out.at = sqlock_mem_alloc(out.len + 1)) == NULL)
        return NULL;
    out.len = 0;
    text_put_kept(&out, step, b, name, keeps);
    *out_len = out.len;
    return out.at;
}

static void text_put_in_transaction(struct sink *out, const struct my_part *part)
{
    sqlock_step step = *part->step;
    int own = my_step_is_transaction(&step);

    if (own)
        step.sql += strlen(TX_BEGIN);
    text_put_step(out, &step, &part->batch);
    if (own)
        out->len -= strlen(TX_END);
}

static void text_put_together(struct sink *out, const struct my_part *parts, size_t n, MYSQL *my)
{
    for (size_t i = 0; i < n; i++)
        if (parts[i].keep)
            text_put_prepare(out, parts[i].step, parts[i].name, my);
    text_put_word(out, TX_BEGIN);
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            text_put_word(out, NEXT);
        if (parts[i].name != NULL)
            text_put_execute(out, parts[i].step, &parts[i].batch, parts[i].name);
        else
            text_put_in_transaction(out, &parts[i]);
    }
    text_put(out, TX_END, strlen(TX_END) + 1);
}

char *my_text_together(const struct my_part *parts, size_t n, MYSQL *my, size_t *out_len)
{
    struct sink out = {NULL, 0};

    text_put_together(&out, parts, n, my);
    if ((out.at = sqlock_mem_alloc(out.len)) == NULL)
        return NULL;
    out.len = 0;
    text_put_together(&out, parts, n, my);
    *out_len = out.len - 1;
    return out.at;
}
