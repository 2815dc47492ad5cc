/* Values and rows in PostgreSQL's binary format.
 *
 * The driver names all types, so the server never guesses. A parameter that a step does not use has
 * no type to guess, and a name that looks like a number must stay bytes. */
#include <assert.h>
#include <endian.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "postgres.h"

enum {
    OID_BOOL = 16,
    OID_BYTEA = 17,
    OID_INT8 = 20,
    OID_INT2 = 21,
    OID_INT4 = 23,
    OID_BYTEA_ARRAY = 1001,
    OID_INT8_ARRAY = 1016,
    OID_VOID = 2278
};

int pg_params_types(const sqlock_script *script, Oid **out)
{
    const char *spec = script->params; /* "b:ns i:ttl" */
    Oid *types;

    if (script->n_params == 0)
        return 0;
    if (script->n_params >= PG_PARAMS_MAX)
        return SQLOCK_EINVAL;
    if ((types = sqlock_mem_alloc((script->n_params + 1) * sizeof *types)) == NULL)
        return SQLOCK_ENOMEM;
    for (int i = 0; i < script->n_params; i++) {
        const char *blank = strchr(spec, ' ');

        types[i] = spec[0] == 'i' ? OID_INT8 : OID_BYTEA;
        if (blank == NULL && i + 1 < script->n_params) {
            sqlock_mem_free(types);
            return SQLOCK_EINVAL;
        }
        spec = blank != NULL ? blank + 1 : spec;
    }
    types[script->n_params] = OID_BOOL;
    *out = types;
    return 0;
}

static int value_fits(const sqlock_value *v, Oid type)
{
    if (v->type == SQLOCK_INT)
        return type == OID_INT8;
    if (v->type == SQLOCK_BYTES)
        return type == OID_BYTEA && v->len <= INT_MAX / 2;
    return v->type == SQLOCK_NULL;
}

/* It touches no more of the arrays than it needs: they are large. */
int pg_params_one(struct pg_params *p, const Oid *types, const sqlock_value *values, int n)
{
    p->values = values;
    p->n = n;
    p->n_owned = 0;
    p->types = types;
    for (int i = 0; i < n; i++) {
        const sqlock_value *v = &values[i];

        if (!value_fits(v, types[i]))
            return SQLOCK_EINVAL;
        p->formats[i] = 1;
        if (v->type == SQLOCK_INT) {
            p->ints[i] = htobe64((uint64_t)v->i);
            p->data[i] = (const char *)&p->ints[i];
            p->lens[i] = (int)sizeof p->ints[i];
        } else {
            p->data[i] = v->type == SQLOCK_BYTES ? v->data : NULL;
            p->lens[i] = (int)v->len;
        }
    }
    return 0;
}

void pg_params_add_lazy(struct pg_params *p, int lazy)
{
    int i = p->n++;

    if (p->types == p->other_types)
        p->other_types[i] = OID_BOOL;
    assert(p->types[i] == OID_BOOL);
    p->data[i] = lazy ? "\1" : "\0";
    p->lens[i] = p->formats[i] = 1;
}

static char *array_put_int32(char *out, int32_t i)
{
    uint32_t be = htobe32((uint32_t)i);

    memcpy(out, &be, sizeof be);
    return out + sizeof be;
}

static char *array_put_element(char *out, const sqlock_value *v)
{
    uint64_t be;

    switch (v->type) {
    case SQLOCK_NULL:
        break;
    case SQLOCK_INT:
        be = htobe64((uint64_t)v->i);
        out = array_put_int32(out, (int32_t)sizeof be);
        memcpy(out, &be, sizeof be);
        return out + sizeof be;
    case SQLOCK_BYTES:
    case SQLOCK_TEXT:
        out = array_put_int32(out, (int32_t)v->len);
        memcpy(out, v->data, v->len);
        return out + v->len;
    }
    return array_put_int32(out, -1);
}

/* An array of one dimension: dimensions, whether it has NULLs, type, length, first index, and each
 * element after its length. values points to the first value; stride is the distance to the
 * next. */
static int array_build(const sqlock_value *values, size_t stride, size_t n, Oid type, char **out,
                       int *out_len)
{
    size_t size = 5 * sizeof(int32_t);
    int nulls = 0;
    char *p;

    for (size_t i = 0; i < n; i++) {
        const sqlock_value *v = &values[i * stride];

        if (!value_fits(v, type))
            return SQLOCK_EINVAL;
        nulls |= v->type == SQLOCK_NULL;
        size += sizeof(int32_t) + (v->type == SQLOCK_BYTES ? v->len : sizeof v->i);
        if (size > INT_MAX / 2)
            return SQLOCK_EINVAL;
    }
    *out = p = sqlock_mem_alloc(size);
    if (p == NULL)
        return SQLOCK_ENOMEM;
    p = array_put_int32(p, 1);
    p = array_put_int32(p, nulls);
    p = array_put_int32(p, (int32_t)type);
    p = array_put_int32(p, (int32_t)n);
    p = array_put_int32(p, 1);
    for (size_t i = 0; i < n; i++)
        p = array_put_element(p, &values[i * stride]);
    *out_len = (int)(p - *out);
    return 0;
}

int pg_params_array(struct pg_params *p, const Oid *types, const sqlock_value *values, int n_params,
                    size_t n)
{
    p->values = values;
    p->n = n_params;
    p->n_owned = 0;
    p->types = p->other_types;
    for (int i = 0; i < n_params; i++) {
        char *array = NULL;
        int rc = array_build(values + i, (size_t)n_params, n, types[i], &array, &p->lens[i]);

        if (rc != 0)
            return rc;
        p->data[i] = p->owned[p->n_owned++] = array;
        p->formats[i] = 1;
        p->other_types[i] = types[i] == OID_BYTEA ? OID_BYTEA_ARRAY : OID_INT8_ARRAY;
    }
    return 0;
}

/* As text, which libpq reads up to its NUL. */
static int params_put_text(struct pg_params *p, int i, const sqlock_value *v)
{
    char *text;

    if (v->len > INT_MAX / 2 || memchr(v->data, '\0', v->len) != NULL)
        return SQLOCK_EINVAL;
    if ((text = sqlock_mem_alloc(v->len + 1)) == NULL)
        return SQLOCK_ENOMEM;
    memcpy(text, v->data, v->len);
    p->data[i] = p->owned[p->n_owned++] = text;
    return 0;
}

/* A parameter without a type gets the type of the column beside it. Digits and text fit whatever a
 * quoted literal would fit. Bytes are the type's binary form: those of a bytea, a uuid, a text. */
int pg_params_loose(struct pg_params *p, const sqlock_value *values, int n)
{
    int rc = 0;

    p->values = values;
    p->n = p->n_owned = 0;
    p->types = p->other_types;
    if (n > PG_PARAMS_MAX)
        return SQLOCK_EINVAL;
    for (; rc == 0 && p->n < n; p->n++) {
        int i = p->n;
        const sqlock_value *v = &values[i];

        p->other_types[i] = 0;
        p->data[i] = NULL;
        p->lens[i] = 0;
        p->formats[i] = v->type == SQLOCK_BYTES;
        if (v->type == SQLOCK_INT) {
            snprintf(p->decimals[i], sizeof p->decimals[i], "%" PRId64, v->i);
            p->data[i] = p->decimals[i];
        } else if (v->type == SQLOCK_TEXT) {
            rc = params_put_text(p, i, v);
        } else if (v->type == SQLOCK_BYTES) {
            if (v->len > INT_MAX / 2)
                return SQLOCK_EINVAL;
            p->data[i] = v->data;
            p->lens[i] = (int)v->len;
        }
    }
    return rc;
}

void pg_params_free(struct pg_params *p)
{
    while (p->n_owned > 0)
        sqlock_mem_free(p->owned[--p->n_owned]);
}

/* A big-endian signed integer of 1, 2, 4 or 8 bytes. */
static int64_t cell_read_int(const char *data, int len)
{
    uint64_t eight;
    uint32_t four;
    uint16_t two;

    switch (len) {
    case sizeof eight:
        memcpy(&eight, data, sizeof eight);
        return (int64_t)be64toh(eight);
    case sizeof four:
        memcpy(&four, data, sizeof four);
        return (int32_t)be32toh(four);
    case sizeof two:
        memcpy(&two, data, sizeof two);
        return (int16_t)be16toh(two);
    default: /* a boolean */
        return len == 1 ? (signed char)data[0] : 0;
    }
}

static int cell_take(const PGresult *res, int row, int col, sqlock_rows *rows)
{
    const char *data = PQgetvalue(res, row, col);
    int len = PQgetlength(res, row, col);

    if (len == 0 && PQgetisnull(res, row, col))
        return sqlock_rows_put_null(rows);
    switch (PQftype(res, col)) {
    case OID_BOOL:
    case OID_INT2:
    case OID_INT4:
    case OID_INT8:
        return sqlock_rows_put_int(rows, cell_read_int(data, len));
    case OID_VOID:
        return sqlock_rows_put_null(rows);
    default:
        return sqlock_rows_put_bytes(rows, data, (size_t)len);
    }
}

int pg_rows_take(const PGresult *res, sqlock_rows *rows, size_t request)
{
    int n_rows = PQntuples(res);
    int n_cols = PQnfields(res);

    for (int row = 0; row < n_rows; row++) {
        if (sqlock_rows_add(rows, request) != 0)
            return SQLOCK_ENOMEM;
        for (int col = 0; col < n_cols; col++)
            if (cell_take(res, row, col, rows) != 0)
                return SQLOCK_ENOMEM;
    }
    return 0;
}
