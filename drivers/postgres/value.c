/* Values and rows in PostgreSQL's binary format.
 *
 * The driver names all types, so the server never guesses. A parameter that a step does not use has
 * no type to guess, and a name that looks like a number must stay bytes. */
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

/* The type of the parameter that spec ("b:ns i:ttl") starts with; the rest of spec, or NULL. */
static const char *params_next_type(const char *spec, Oid *out_oid)
{
    const char *blank = strchr(spec, ' ');

    *out_oid = spec[0] == 'i' ? OID_INT8 : OID_BYTEA;
    return blank != NULL ? blank + 1 : NULL;
}

/* n NULLs, if there is room for them. It does not touch the rest of the arrays, which are large. */
static int params_start(struct pg_params *p, int n)
{
    p->n = 0;
    if (n > PG_PARAMS_MAX)
        return SQLOCK_EINVAL;
    for (; p->n < n; p->n++) {
        p->types[p->n] = 0;
        p->data[p->n] = NULL;
        p->lens[p->n] = 0;
        p->formats[p->n] = 1;
        p->owned[p->n] = NULL;
    }
    return 0;
}

/* n NULLs of the types that the script names. */
static int params_typed(struct pg_params *p, const sqlock_script *script)
{
    const char *spec = script->params;
    int rc = params_start(p, script->n_params);

    for (int i = 0; rc == 0 && i < p->n; i++) {
        if (spec == NULL)
            return SQLOCK_EINVAL;
        spec = params_next_type(spec, &p->types[i]);
    }
    return rc;
}

static int value_fits(const sqlock_value *v, Oid type)
{
    switch (v->type) {
    case SQLOCK_NULL:
        return 1;
    case SQLOCK_INT:
        return type == OID_INT8;
    case SQLOCK_BYTES:
        return type == OID_BYTEA && v->len <= INT_MAX / 2;
    case SQLOCK_TEXT:
        return 0;
    }
    return 0;
}

int pg_params_one(struct pg_params *p, const sqlock_script *script, const sqlock_value *values)
{
    int rc = params_typed(p, script);

    for (int i = 0; rc == 0 && i < p->n; i++) {
        const sqlock_value *v = &values[i];

        if (!value_fits(v, p->types[i]))
            return SQLOCK_EINVAL;
        if (v->type == SQLOCK_INT) {
            p->ints[i] = htobe64((uint64_t)v->i);
            p->data[i] = (const char *)&p->ints[i];
            p->lens[i] = (int)sizeof p->ints[i];
        } else if (v->type == SQLOCK_BYTES) {
            p->data[i] = v->data;
            p->lens[i] = (int)v->len;
        }
    }
    return rc;
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

int pg_params_array(struct pg_params *p, const sqlock_script *script, const sqlock_value *values,
                    size_t n)
{
    int rc = params_typed(p, script);

    for (int i = 0; rc == 0 && i < p->n; i++) {
        rc = array_build(values + i, script->n_params, n, p->types[i], &p->owned[i], &p->lens[i]);
        p->data[i] = p->owned[i];
        p->types[i] = p->types[i] == OID_BYTEA ? OID_BYTEA_ARRAY : OID_INT8_ARRAY;
    }
    return rc;
}

/* As text, which libpq reads up to its NUL. */
static int params_put_text(struct pg_params *p, int i, const sqlock_value *v)
{
    if (v->len > INT_MAX / 2 || memchr(v->data, '\0', v->len) != NULL)
        return SQLOCK_EINVAL;
    p->owned[i] = sqlock_mem_alloc(v->len + 1);
    if (p->owned[i] == NULL)
        return SQLOCK_ENOMEM;
    memcpy(p->owned[i], v->data, v->len);
    p->data[i] = p->owned[i];
    return 0;
}

/* A parameter without a type gets the type of the column beside it. Digits and text fit whatever a
 * quoted literal would fit. Bytes are the type's binary form: those of a bytea, a uuid, a text. */
int pg_params_loose(struct pg_params *p, const sqlock_script *script, const sqlock_value *values)
{
    int rc = params_start(p, script->n_params);

    for (int i = 0; rc == 0 && i < p->n; i++) {
        const sqlock_value *v = &values[i];

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
    for (int i = 0; i < p->n; i++)
        sqlock_mem_free(p->owned[i]);
    p->n = 0;
}

/* A big-endian signed integer of 1, 2, 4 or 8 bytes. */
static int64_t cell_read_int(const char *data, int len)
{
    uint64_t v = len > 0 && (data[0] & 0x80) ? UINT64_MAX : 0;

    if (len == (int)sizeof v) { /* most are */
        memcpy(&v, data, sizeof v);
        return (int64_t)be64toh(v);
    }
    for (int i = 0; i < len; i++)
        v = v << 8 | (unsigned char)data[i];
    return (int64_t)v;
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
    int rc = 0;

    for (int row = 0; rc == 0 && row < n_rows; row++) {
        rc = sqlock_rows_add(rows, request);
        for (int col = 0; rc == 0 && col < n_cols; col++)
            rc = cell_take(res, row, col, rows);
    }
    return rc;
}
