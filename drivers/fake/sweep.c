/* The requests that go through many rows: list, sweep, and what a sweep's finds are sent back for.
 * They decide as the statements in schema/postgres/statements.sql do, line by line. */
#include "fake.h"

enum { V_NS = 0, V_NAME = 1, V_AFTER = 1 };
enum { LIST_PREFIX = 2, LIST_FREE = 3, LIST_LIMIT = 4 };
enum { SWEEP_OWN = 2, SWEEP_GRACE = 3, SWEEP_IDLE = 4, SWEEP_LIMIT = 5 };
enum { REAP_TO_NS = 2, REAP_TO = 3, REAP_OWN = 4, REAP_CUT = 5, REAP_LIMIT = 6 };
enum { PRUNE_CUT = 2, PRUNE_FLOOR = 3 };

int fake_run_list(struct fake_call *k, const sqlock_value *v)
{
    const sqlock_value *prefix = &v[LIST_PREFIX];
    int64_t left = v[LIST_LIMIT].i;

    for (size_t i = fake_row_place(k->db, &v[V_NS], &v[V_AFTER]); i < k->db->n_rows && left > 0;
         i++) {
        const struct fake_row *row = k->db->rows[i];
        if (fake_bytes_order(row->ns, row->ns_len, &v[V_NS]) != 0)
            break;
        if (fake_bytes_order(row->name, row->name_len, &v[V_AFTER]) == 0 ||
            row->name_len < prefix->len || fake_bytes_order(row->name, prefix->len, prefix) != 0 ||
            row->now.kind != 0 || (v[LIST_FREE].i != 1 && !row->now.held))
            continue;
        fake_put_lease(k, SQLOCK_OUT_DONE, &row->now);
        fake_put_holder(k, &row->now);
        fake_put_bytes_or_null(k, 1, row->name, row->name_len);
        fake_put_bytes_or_null(k, row->now.held, row->now.owner, SQLOCK_OWNER_SIZE);
        left--;
    }
    return 0;
}

/* ---- reaping -------------------------------------------------------------------------------- */

static int ran_out(const struct fake_call *k, const struct fake_state *s, int64_t cut)
{
    return s->kind == 0 && s->held && s->exp <= cut && s->exp <= k->now;
}

static int is_idle(const struct fake_call *k, const struct fake_state *s, int64_t cut)
{
    return s->kind == 0 && !s->held && s->idle_since <= cut && s->idle_since <= k->now;
}

static void put_swept(struct fake_call *k, int outcome, int64_t token, int64_t age,
                      const struct fake_row *row)
{
    fake_start_row(k, outcome);
    fake_put_int(k, token);
    fake_put_int(k, -age);
    fake_put_int(k, k->now);
    fake_put_int_or_null(k, 0, 0);
    fake_put_int_or_null(k, 0, 0);
    fake_put_bytes_or_null(k, row != NULL, row != NULL ? row->name : NULL,
                           row != NULL ? row->name_len : 0);
    fake_put_bytes_or_null(k, row != NULL, row != NULL ? row->ns : NULL,
                           row != NULL ? row->ns_len : 0);
}

int fake_run_sweep(struct fake_call *k, const sqlock_value *v)
{
    int64_t n = 0;
    const struct fake_row *last = NULL;

    for (size_t i = fake_row_place(k->db, &v[V_NS], &v[V_AFTER]);
         i < k->db->n_rows && n < v[SWEEP_LIMIT].i; i++) {
        const struct fake_row *row = k->db->rows[i];
        const struct fake_state *s = &row->now;
        if (fake_bytes_order(row->ns, row->ns_len, &v[SWEEP_OWN]) == 0 ||
            fake_key_order(row, &v[V_NS], &v[V_AFTER]) == 0)
            continue;
        last = row;
        n++;
        if (ran_out(k, s, k->now - v[SWEEP_GRACE].i))
            put_swept(k, SQLOCK_OUT_EXPIRED, s->token, k->now - s->exp, row);
        else if (is_idle(k, s, k->now - v[SWEEP_IDLE].i))
            put_swept(k, SQLOCK_OUT_IDLE, s->token, k->now - s->idle_since, row);
    }
    put_swept(k, SQLOCK_OUT_DONE, n, 0, last);
    return 0;
}

int fake_run_reap(struct fake_call *k, const sqlock_value *v)
{
    int64_t n = 0;

    for (size_t i = fake_row_place(k->db, &v[V_NS], &v[V_NAME]);
         i < k->db->n_rows && n < v[REAP_LIMIT].i; i++) {
        struct fake_row *row = k->db->rows[i];
        if (fake_key_order(row, &v[REAP_TO_NS], &v[REAP_TO]) > 0)
            break;
        if (fake_bytes_order(row->ns, row->ns_len, &v[REAP_OWN]) == 0 ||
            !ran_out(k, &row->now, v[REAP_CUT].i))
            continue;
        fake_end_grant(k, row, FAKE_ENDED_REAPED);
        n++;
    }
    fake_start_row(k, SQLOCK_OUT_DONE);
    fake_put_int(k, n);
    return 0;
}

int fake_run_prune(struct fake_call *k, const sqlock_value *v)
{
    const struct fake_row *row = fake_row_find(k->db, &v[V_NS], &v[V_NAME]);

    fake_floor_raise(k->db, v[PRUNE_FLOOR].i);
    if (row == NULL || !is_idle(k, &row->now, v[PRUNE_CUT].i) ||
        row->now.token > k->db->fence_floor)
        return 0;
    fake_put_lease(k, SQLOCK_OUT_DONE, &row->now);
    fake_row_vanish(k->db, &v[V_NS], &v[V_NAME]);
    return 0;
}
