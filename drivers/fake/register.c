/* Registers, and the rows that transactions lock by name. They decide as the statements in
 * schema/postgres/statements.sql do, line by line. */
#include "fake.h"

#include <string.h>

enum { V_NS = 0, V_NAME = 1, SET_VALUE = 2, SET_EXPECTED = 3, SET_WRITER = 4, SET_NOT_AFTER = 5 };
enum { VALUE_MAX = 65536 };

/* Where the register's address stands, or would. */
static struct fake_register **find(struct fake_register **all, const sqlock_value *ns,
                                   const sqlock_value *name)
{
    while (*all != NULL && (fake_bytes_order((*all)->ns, (*all)->ns_len, ns) != 0 ||
                            fake_bytes_order((*all)->name, (*all)->name_len, name) != 0))
        all = &(*all)->next;
    return all;
}

static void drop(struct fake_register **at)
{
    struct fake_register *gone = *at;

    *at = gone->next;
    sqlock_mem_free(gone->now.data);
    sqlock_mem_free(gone->before.data);
    sqlock_mem_free(gone);
}

static int make(struct fake_call *k, struct fake_register **at, const sqlock_value *ns,
                const sqlock_value *name)
{
    if (ns->len > SQLOCK_NAMESPACE_MAX || name->len < 1 || name->len > SQLOCK_NAME_MAX)
        return sqlock_error_db(k->err, "23514", 0, 0, "a namespace or name is too long or empty");

    struct fake_register *r = sqlock_mem_alloc(sizeof *r);
    if (r == NULL)
        return sqlock_error_set(k->err, SQLOCK_ENOMEM, 0, "no memory for a row");
    r->ns_len = ns->len;
    r->name_len = name->len;
    if (ns->len > 0)
        memcpy(r->ns, ns->data, ns->len);
    memcpy(r->name, name->data, name->len);
    r->has_before = 1;
    *at = r;
    return 0;
}

/* The tables come with the second migration. */
static int check_version(struct fake_call *k)
{
    if (fake_version(k->db, k->conn) >= 2)
        return 0;
    return sqlock_error_db(k->err, "42P01", 0, 0, "the table does not exist");
}

int fake_run_ensure(struct fake_call *k, const sqlock_value *v)
{
    struct fake_register **at = find(&k->db->named, &v[V_NS], &v[V_NAME]);
    int rc = check_version(k);

    if (rc == 0 && *at == NULL)
        rc = make(k, at, &v[V_NS], &v[V_NAME]);
    if (rc != 0)
        return rc;
    (*at)->now.there = 1;
    fake_start_row(k, SQLOCK_OUT_DONE);
    return 0;
}

static void put_version(struct fake_call *k, int outcome, int64_t version)
{
    fake_start_row(k, outcome);
    fake_put_int(k, version);
    fake_put_int_or_null(k, 0, 0);
    fake_put_int(k, k->now);
}

int fake_run_register_get(struct fake_call *k, const sqlock_value *v)
{
    const struct fake_register *r = *find(&k->db->registers, &v[V_NS], &v[V_NAME]);
    int rc = check_version(k);

    if (rc != 0)
        return rc;
    put_version(k, r != NULL ? SQLOCK_OUT_DONE : SQLOCK_OUT_GONE, r != NULL ? r->now.version : 0);
    if (r != NULL)
        fake_put_bytes_or_null(k, 1, r->now.len > 0 ? (const void *)r->now.data : "", r->now.len);
    return 0;
}

static int set_outcome(const struct fake_call *k, const struct fake_register *r,
                       const sqlock_value *v)
{
    int64_t expected = v[SET_EXPECTED].i;
    if (r != NULL && memcmp(r->now.writer, v[SET_WRITER].data, SQLOCK_OWNER_SIZE) == 0)
        return SQLOCK_OUT_RELEASED; /* done before */
    if (r != NULL && r->now.version != expected)
        return SQLOCK_OUT_CONFLICT;
    if (r == NULL && expected != 0)
        return SQLOCK_OUT_GONE;
    if (fake_is_stranger(k->db))
        return SQLOCK_OUT_STRANGER;
    return k->now > v[SET_NOT_AFTER].i ? SQLOCK_OUT_LATE : SQLOCK_OUT_DONE;
}

static int64_t next_version(const struct fake_call *k, const struct fake_value *now)
{
    int64_t floor = k->db->fence_floor;
    if (!now->there)
        return k->now > floor ? k->now : floor + 1;
    return (now->version > floor ? now->version : floor) + 1;
}

static int change(struct fake_call *k, struct fake_register **at, const sqlock_value *v)
{
    const sqlock_value *value = &v[SET_VALUE];
    struct fake_value next = {.there = 1, .len = value->len};
    int rc = 0;

    if (value->len > VALUE_MAX)
        return sqlock_error_db(k->err, "23514", 0, 0, "a value is too long");
    if (*at == NULL && (rc = make(k, at, &v[V_NS], &v[V_NAME])) != 0)
        return rc;
    if (value->len > 0 && (next.data = sqlock_mem_alloc(value->len)) == NULL) {
        if (!(*at)->now.there)
            drop(at);
        return sqlock_error_set(k->err, SQLOCK_ENOMEM, 0, "no memory for a value");
    }
    if (value->len > 0)
        memcpy(next.data, value->data, value->len);
    next.version = next_version(k, &(*at)->now);
    memcpy(next.writer, v[SET_WRITER].data, SQLOCK_OWNER_SIZE);
    sqlock_mem_free((*at)->before.data);
    (*at)->before = (*at)->now;
    (*at)->has_before = 1;
    (*at)->now = next;
    return 0;
}

int fake_run_register_set(struct fake_call *k, const sqlock_value *v)
{
    struct fake_register **at = find(&k->db->registers, &v[V_NS], &v[V_NAME]);
    int outcome, rc = check_version(k);

    if (rc != 0)
        return rc;
    if (v[SET_WRITER].len != SQLOCK_OWNER_SIZE)
        return sqlock_error_db(k->err, "23514", 0, 0, "a writer has a wrong length");
    outcome = set_outcome(k, *at, v);
    if (outcome == SQLOCK_OUT_DONE && (rc = change(k, at, v)) != 0)
        return rc;
    put_version(k, outcome == SQLOCK_OUT_RELEASED ? SQLOCK_OUT_DONE : outcome,
                *at != NULL ? (*at)->now.version : 0);
    return 0;
}

void fake_register_vanish(sqlock_fake *db, const sqlock_value *ns, const sqlock_value *name)
{
    struct fake_register **at = find(&db->registers, ns, name);

    if (*at != NULL)
        drop(at);
}

static void go_back(struct fake_register **at)
{
    while (*at != NULL) {
        struct fake_register *r = *at;

        if (r->has_before) {
            sqlock_mem_free(r->now.data);
            r->now = r->before;
            r->before.data = NULL;
            r->has_before = 0;
        }
        if (r->now.there)
            at = &r->next;
        else
            drop(at);
    }
}

void fake_registers_go_back(sqlock_fake *db)
{
    go_back(&db->registers);
    go_back(&db->named);
}

void fake_registers_free(sqlock_fake *db)
{
    while (db->registers != NULL)
        drop(&db->registers);
    while (db->named != NULL)
        drop(&db->named);
}
