/* What each request does. They decide as the statements in schema/postgres/statements.sql do, line
 * by line; where those lock a row, the database's one mutex does. */
#include "fake.h"

#include <stdio.h>
#include <string.h>

/* Where the values of a request stand; the lists are in driver.h. */
enum { V_NS = 0, V_NAME = 1, V_OWNER = 2 };
enum { ACQUIRE_TTL = 3, ACQUIRE_NOT_AFTER = 4, ACQUIRE_GRACE = 5, ACQUIRE_LABEL = 6 };
enum { RENEW_TOKEN = 3, RENEW_TTL = 4, RENEW_NOT_AFTER = 5 };
enum { RELEASE_TOKEN = 3, WITHDRAW_NOT_AFTER = 3, BREAK_TOKEN = 2 };
enum { LEASE_TTL = 3 };

/* ---- requests about one lock ---------------------------------------------------------------- */

static int is_owner(const struct fake_state *s, const sqlock_value *owner)
{
    return s->held && owner->len == SQLOCK_OWNER_SIZE &&
           memcmp(s->owner, owner->data, SQLOCK_OWNER_SIZE) == 0;
}

static int has_ended(const struct fake_state *s, const sqlock_value *owner)
{
    return s->has_ended && owner->len == SQLOCK_OWNER_SIZE &&
           memcmp(s->ended_owner, owner->data, SQLOCK_OWNER_SIZE) == 0;
}

static int has_withdrawn(const struct fake_state *s, const sqlock_value *owner)
{
    return s->has_withdrawn && owner->len == SQLOCK_OWNER_SIZE &&
           memcmp(s->withdrawn, owner->data, SQLOCK_OWNER_SIZE) == 0;
}

/* Remember how the grant in the row ended, so that its owner can be told. */
static void remember_end(struct fake_state *s, int why)
{
    s->has_ended = 1;
    memcpy(s->ended_owner, s->owner, SQLOCK_OWNER_SIZE);
    s->ended_token = s->token;
    s->ended_why = why;
}

void fake_end_grant(const struct fake_call *k, struct fake_row *row, int why)
{
    struct fake_state *s = fake_row_change(row);
    remember_end(s, why);
    s->held = 0;
    s->has_label = 0;
    s->idle_since = k->now;
}

/* Until then who was granted a lock by a commit that is missing may believe in it. */
static int64_t grace_end(const sqlock_fake *db, const sqlock_value *v)
{
    int64_t most = v[ACQUIRE_GRACE].i;
    if (most == 0)
        return 0;
    return db->lost_at + (db->longest < most ? db->longest : most);
}

static int acquire_outcome(const struct fake_call *k, const struct fake_state *s,
                           const sqlock_value *v)
{
    const sqlock_value *owner = &v[V_OWNER];
    if (s->kind != 0)
        return SQLOCK_OUT_KIND;
    if (fake_is_stranger(k->db))
        return SQLOCK_OUT_STRANGER;
    if (has_withdrawn(s, owner) || (s->ended_why == FAKE_ENDED_RELEASED && has_ended(s, owner)))
        return SQLOCK_OUT_RELEASED;
    if (s->held && !is_owner(s, owner) && s->exp > k->now)
        return SQLOCK_OUT_HELD;
    if (k->now > v[ACQUIRE_NOT_AFTER].i)
        return SQLOCK_OUT_LATE;
    int again = is_owner(s, owner) && s->exp > k->now;
    return k->now < grace_end(k->db, v) && !again ? SQLOCK_OUT_GRACE : SQLOCK_OUT_DONE;
}

/* Our own lease that still runs: the same request was sent again, and is the same grant. */
static int64_t next_token(const sqlock_fake *db, const struct fake_state *s, int again)
{
    if (again && s->token > db->fence_floor)
        return s->token;
    return (s->token > db->fence_floor ? s->token : db->fence_floor) + 1;
}

static int grant(struct fake_call *k, struct fake_row *row, const sqlock_value *v)
{
    const sqlock_value *label = &v[ACQUIRE_LABEL];
    int has_label = label->type == SQLOCK_BYTES;
    int again = is_owner(&row->now, &v[V_OWNER]) && row->now.exp > k->now;
    int64_t token = next_token(k->db, &row->now, again);
    if (token > SQLOCK_TOKEN_MAX)
        return sqlock_error_db(k->err, "23514", 0, 0, "the tokens of this name are used up");
    if (v[V_OWNER].len != SQLOCK_OWNER_SIZE || (has_label && label->len > SQLOCK_LABEL_MAX))
        return sqlock_error_db(k->err, "23514", 0, 0, "an owner or label has a wrong length");

    struct fake_state *s = fake_row_change(row);
    if (s->held && !again)
        remember_end(s, FAKE_ENDED_TAKEN);
    s->held = 1;
    memcpy(s->owner, v[V_OWNER].data, SQLOCK_OWNER_SIZE);
    s->token = token;
    s->exp = k->now + v[ACQUIRE_TTL].i;
    s->since = again ? s->since : k->now;
    s->has_label = has_label;
    s->label_len = has_label ? label->len : 0;
    if (s->label_len > 0)
        memcpy(s->label, label->data, label->len);
    return 0;
}

/* A missing row is made whatever comes of the request, as the statements do. */
static int run_acquire(struct fake_call *k, const sqlock_value *v)
{
    struct fake_row *row = fake_row_find(k->db, &v[V_NS], &v[V_NAME]);
    int rc = row != NULL ? 0 : fake_row_make(k, &v[V_NS], &v[V_NAME], &row);
    if (rc != 0)
        return rc;
    int outcome = acquire_outcome(k, &row->now, v);
    if (outcome == SQLOCK_OUT_DONE)
        rc = grant(k, row, v);
    if (rc != 0)
        return rc;
    if (outcome == SQLOCK_OUT_GRACE) {
        fake_start_row(k, outcome);
        fake_put_int(k, row->now.token);
        fake_put_int(k, grace_end(k->db, v) - k->now);
        fake_put_int(k, k->now);
        return 0;
    }
    fake_put_lease(k, outcome, &row->now);
    fake_put_holder(k, &row->now);
    return 0;
}

/* No transaction of anybody's can guard a row here: never a row. */
static int run_guarded(struct fake_call *k, const sqlock_value *v)
{
    (void)k;
    (void)v;
    return 0;
}

static int renew_outcome(const struct fake_call *k, const struct fake_state *s,
                         const sqlock_value *v)
{
    if (s == NULL)
        return SQLOCK_OUT_GONE;
    if (s->kind != 0)
        return SQLOCK_OUT_KIND;
    int ours = is_owner(s, &v[V_OWNER]) && s->token == v[RENEW_TOKEN].i;
    if (k->now > v[RENEW_NOT_AFTER].i)
        return SQLOCK_OUT_LATE;
    if (ours && s->exp > k->now)
        return SQLOCK_OUT_DONE;
    if (ours)
        return SQLOCK_OUT_EXPIRED;
    if (has_ended(s, &v[V_OWNER]) && s->ended_token == v[RENEW_TOKEN].i)
        return 4 + s->ended_why;
    return SQLOCK_OUT_TAKEN;
}

/* exp is set, not raised: after the clock was put back, a raised one would last as long as the
 * step. */
static int run_renew(struct fake_call *k, const sqlock_value *v)
{
    struct fake_row *row = fake_row_find(k->db, &v[V_NS], &v[V_NAME]);
    struct fake_state *s = row != NULL ? &row->now : NULL;
    int outcome = renew_outcome(k, s, v);
    if (outcome == SQLOCK_OUT_DONE)
        fake_row_change(row)->exp = k->now + v[RENEW_TTL].i;
    fake_put_lease(k, outcome, s);
    return 0;
}

static int release_outcome(const struct fake_state *s, const sqlock_value *v, int *out_apply)
{
    int64_t token = v[RELEASE_TOKEN].i;
    if (s == NULL)
        return SQLOCK_OUT_GONE;
    if (s->kind != 0)
        return SQLOCK_OUT_KIND;
    if (is_owner(s, &v[V_OWNER]) && s->token == token) {
        *out_apply = 1;
        return SQLOCK_OUT_DONE;
    }
    if (has_ended(s, &v[V_OWNER]) && s->ended_token == token)
        return s->ended_why == FAKE_ENDED_RELEASED ? SQLOCK_OUT_DONE : 4 + s->ended_why;
    return SQLOCK_OUT_TAKEN;
}

static int run_release(struct fake_call *k, const sqlock_value *v)
{
    struct fake_row *row = fake_row_find(k->db, &v[V_NS], &v[V_NAME]);
    struct fake_state *s = row != NULL ? &row->now : NULL;
    int apply = 0;
    int outcome = release_outcome(s, v, &apply);
    if (apply)
        fake_end_grant(k, row, FAKE_ENDED_RELEASED);
    fake_put_lease(k, outcome, s);
    return 0;
}

static int run_lease(struct fake_call *k, const sqlock_value *v)
{
    const struct fake_row *row = fake_row_find(k->db, &v[V_NS], &v[V_NAME]);
    const struct fake_state *s = row != NULL ? &row->now : NULL;

    if (s != NULL && s->kind == 0 && is_owner(s, &v[V_OWNER]) && s->token == v[RELEASE_TOKEN].i)
        fake_put_lease(k, SQLOCK_OUT_DONE, s);
    return 0;
}

/* Whatever this owner asked for is stopped from now on, granted already or not. */
static void bury(const struct fake_call *k, struct fake_row *row, const sqlock_value *owner)
{
    struct fake_state *s = fake_row_change(row);

    s->has_withdrawn = 1;
    memcpy(s->withdrawn, owner->data, SQLOCK_OWNER_SIZE);
    if (!s->held)
        s->idle_since = k->now; /* or the pruner takes the row, and this with it */
}

static int run_withdraw(struct fake_call *k, const sqlock_value *v)
{
    const sqlock_value *owner = &v[V_OWNER];
    struct fake_row *row = fake_row_find(k->db, &v[V_NS], &v[V_NAME]);
    int rc = row != NULL ? 0 : fake_row_make(k, &v[V_NS], &v[V_NAME], &row);
    if (rc != 0)
        return rc;
    if (owner->len != SQLOCK_OWNER_SIZE)
        return sqlock_error_db(k->err, "23514", 0, 0, "an owner has a wrong length");

    int ours = is_owner(&row->now, owner);
    if (ours && row->now.kind == 0)
        fake_end_grant(k, row, FAKE_ENDED_RELEASED);
    if (row->now.kind == 0)
        bury(k, row, owner);
    ours = ours || has_ended(&row->now, owner);
    fake_put_lease(k,
                   row->now.kind != 0                  ? SQLOCK_OUT_KIND
                   : ours                              ? SQLOCK_OUT_DONE
                   : k->now <= v[WITHDRAW_NOT_AFTER].i ? SQLOCK_OUT_EARLY
                                                       : SQLOCK_OUT_NEVER,
                   &row->now);
    return 0;
}

static int break_outcome(const struct fake_state *s, int64_t token)
{
    if (s == NULL)
        return SQLOCK_OUT_GONE;
    if (s->kind != 0)
        return SQLOCK_OUT_KIND;
    if (s->held && s->token == token)
        return SQLOCK_OUT_DONE;
    if (s->ended_token == token)
        return 4 + s->ended_why;
    return s->token > token ? SQLOCK_OUT_TAKEN : SQLOCK_OUT_NEVER;
}

static int run_break(struct fake_call *k, const sqlock_value *v)
{
    struct fake_row *row = fake_row_find(k->db, &v[V_NS], &v[V_NAME]);
    struct fake_state *s = row != NULL ? &row->now : NULL;
    int outcome = break_outcome(s, v[BREAK_TOKEN].i);
    if (outcome == SQLOCK_OUT_DONE)
        fake_end_grant(k, row, FAKE_ENDED_BROKEN);
    fake_put_lease(k, outcome, s);
    return 0;
}

/* The table of notes comes with the third migration. */
static int check_notes(const struct fake_call *k)
{
    if (fake_version(k->db, k->conn) >= 3)
        return 0;
    return sqlock_error_db(k->err, "42P01", 0, 0, "the table does not exist");
}

static int has_note(const struct fake_state *s, int64_t token)
{
    for (size_t i = 0; i < FAKE_BROKEN_MAX; i++)
        if (s->broken[i] == token)
            return 1;
    return 0;
}

static void note(struct fake_state *s, int64_t token)
{
    memmove(s->broken + 1, s->broken, sizeof s->broken - sizeof *s->broken);
    s->broken[0] = token;
}

static int run_break_noted(struct fake_call *k, const sqlock_value *v)
{
    int64_t token = v[BREAK_TOKEN].i;
    struct fake_row *row = fake_row_find(k->db, &v[V_NS], &v[V_NAME]);
    struct fake_state *s = row != NULL ? &row->now : NULL;
    int outcome = break_outcome(s, token), rc = check_notes(k);
    if (rc != 0)
        return rc;
    if (outcome == SQLOCK_OUT_DONE) {
        fake_end_grant(k, row, FAKE_ENDED_BROKEN);
        note(s, token);
    } else if (outcome == SQLOCK_OUT_TAKEN && has_note(s, token)) {
        outcome = SQLOCK_OUT_BROKEN;
    }
    fake_put_lease(k, outcome, s);
    return 0;
}

static int run_was_broken(struct fake_call *k, const sqlock_value *v)
{
    const struct fake_row *row = fake_row_find(k->db, &v[V_NS], &v[V_NAME]);
    int rc = check_notes(k);
    if (rc == 0 && row != NULL && has_note(&row->now, v[BREAK_TOKEN].i))
        fake_start_row(k, SQLOCK_OUT_BROKEN);
    return rc;
}

/* ---- requests about the schema and the server ----------------------------------------------- */

static int run_migrate_version(struct fake_call *k, const sqlock_value *v)
{
    (void)v;
    fake_start_row(k, SQLOCK_OUT_DONE);
    fake_put_int(k, fake_version(k->db, k->conn));
    fake_put_int(k, k->db->min_reader);
    fake_put_int(k, k->now);
    return 0;
}

static int run_handshake(struct fake_call *k, const sqlock_value *v)
{
    char server[32];
    fake_identity(k->db, server);
    (void)run_migrate_version(k, v);
    fake_put_int(k, !fake_is_stranger(k->db));
    fake_put_bytes_or_null(k, 1, server, strlen(server));
    fake_put_bytes_or_null(k, 0, NULL, 0);
    fake_put_bytes_or_null(k, 0, NULL, 0);
    fake_put_int(k, k->db->longest);
    fake_put_int(k, k->db->fence_floor);
    return 0;
}

static int run_longest(struct fake_call *k, const sqlock_value *v)
{
    if (k->db->longest < v[0].i)
        k->db->longest = v[0].i;
    fake_start_row(k, SQLOCK_OUT_DONE);
    return 0;
}

static void put_floor(struct fake_call *k, int outcome, int64_t above)
{
    fake_start_row(k, outcome);
    fake_put_int(k, k->db->fence_floor);
    fake_put_int_or_null(k, outcome == SQLOCK_OUT_BEHIND, above - k->now);
    fake_put_int(k, k->now);
}

/* No row: somebody else was quicker. */
static int run_reincarnate(struct fake_call *k, const sqlock_value *v)
{
    sqlock_fake *db = k->db;
    int64_t above = v[2].i > db->fence_floor ? v[2].i : db->fence_floor;
    if (v[0].len >= sizeof db->meta_server)
        return sqlock_error_db(k->err, "22001", 0, 0, "the server's identity is too long");
    if (above == db->fence_floor && fake_bytes_order((const unsigned char *)db->meta_server,
                                                     strlen(db->meta_server), &v[0]) == 0)
        return 0;
    if (k->now <= above && v[1].i == 0) {
        put_floor(k, SQLOCK_OUT_BEHIND, above);
        return 0;
    }
    db->fence_floor = k->now > above ? k->now : above + FAKE_LIFT;
    if (db->meta_server[0] != '\0')
        db->lost_at = k->now;
    (void)snprintf(db->meta_server, sizeof db->meta_server, "%.*s", (int)v[0].len,
                   (const char *)v[0].data);
    put_floor(k, SQLOCK_OUT_DONE, above);
    return 0;
}

/* The lock itself was waited for where waiting is done (conn.c). */
static int run_migrate_lock(struct fake_call *k, const sqlock_value *v)
{
    (void)v;
    fake_start_row(k, SQLOCK_OUT_DONE);
    return 0;
}

static int run_migrate_record(struct fake_call *k, const sqlock_value *v)
{
    return fake_record_put(k, &v[0], &v[1], &v[2], v[3].i == 1);
}

static int run_migrate_ledger(struct fake_call *k, const sqlock_value *v)
{
    const struct fake_ledger *ledger = fake_ledger_of(k->db, k->conn);
    (void)v;
    for (size_t i = 0; i < ledger->n; i++) {
        const struct fake_record *r = &ledger->record[i];
        fake_start_row(k, SQLOCK_OUT_DONE);
        fake_put_int(k, r->version);
        fake_put_bytes_or_null(k, 1, r->name, strlen(r->name));
        fake_put_bytes_or_null(k, 1, r->checksum, strlen(r->checksum));
        fake_put_int(k, r->applied);
    }
    return 0;
}

/* The tables are built in, so they are as they should be, or not there. */
static int run_migrate_differ(struct fake_call *k, const sqlock_value *v)
{
    static const char missing[] = "there is no table lock";
    (void)v;
    if (k->db->has_locks || (k->conn != NULL && k->conn->tx.created))
        return 0;
    fake_start_row(k, SQLOCK_OUT_DONE);
    fake_put_int(k, 0);
    fake_put_bytes_or_null(k, 1, missing, sizeof missing - 1);
    return 0;
}

/* Grants are refused from the commit on, and what was granted until then goes with the table: so
 * nothing has to be kept out before. */
static int run_migrate_close(struct fake_call *k, const sqlock_value *v)
{
    (void)k;
    (void)v;
    return 0;
}

static int run_migrate_held(struct fake_call *k, const sqlock_value *v)
{
    const struct fake_row *one = NULL;
    int64_t n = 0;

    for (size_t i = 0; i < k->db->n_rows; i++) {
        const struct fake_row *row = k->db->rows[i];
        if (!row->now.held || row->now.exp <= k->now ||
            fake_bytes_order(row->ns, row->ns_len, &v[0]) == 0)
            continue;
        one = row;
        n++;
    }
    if (one == NULL)
        return 0;
    fake_start_row(k, SQLOCK_OUT_DONE);
    fake_put_int(k, n);
    fake_put_bytes_or_null(k, 1, one->name, one->name_len);
    return 0;
}

/* Granted if free, run out, or this owner's; ttl 0 gives it back. */
static int run_migrate_lease(struct fake_call *k, const sqlock_value *v)
{
    struct fake_row *row = fake_row_find(k->db, &v[V_NS], &v[V_NAME]);
    if (row == NULL && fake_row_make(k, &v[V_NS], &v[V_NAME], &row) != 0)
        return k->err->code;
    int ours = is_owner(&row->now, &v[V_OWNER]) && row->now.exp > k->now;
    if (row->now.held && row->now.exp > k->now && !ours) {
        fake_put_lease(k, SQLOCK_OUT_HELD, &row->now);
        return 0;
    }
    struct fake_state *s = fake_row_change(row);
    if (v[LEASE_TTL].i == 0) {
        s->held = 0;
    } else {
        s->token += ours ? 0 : 1;
        s->held = 1;
        memcpy(s->owner, v[V_OWNER].data, SQLOCK_OWNER_SIZE);
        s->exp = k->now + v[LEASE_TTL].i;
        s->since = ours ? s->since : k->now;
        s->has_label = 0; /* nobody lists it */
    }
    fake_put_lease(k, SQLOCK_OUT_DONE, s);
    return 0;
}

/* A text that is written out and never run, or one for adopted connections, of which there are
 * none.
 */
static int run_never(struct fake_call *k, const sqlock_value *v)
{
    (void)v;
    return sqlock_error_db(k->err, "0A000", 0, 0, "this is not a request");
}

/* ---- running -------------------------------------------------------------------------------- */

static const struct request {
    int (*run)(struct fake_call *k, const sqlock_value *v);
    int needs_locks; /* the lock table */
} requests[SQLOCK_STMT_COUNT] = {
    [SQLOCK_STMT_HANDSHAKE] = {run_handshake, 0},
    [SQLOCK_STMT_REINCARNATE] = {run_reincarnate, 0},
    [SQLOCK_STMT_LONGEST] = {run_longest, 0},
    [SQLOCK_STMT_ACQUIRE] = {run_acquire, 1},
    [SQLOCK_STMT_GUARDED] = {run_guarded, 1},
    [SQLOCK_STMT_RENEW] = {run_renew, 1},
    [SQLOCK_STMT_RELEASE] = {run_release, 1},
    [SQLOCK_STMT_WITHDRAW] = {run_withdraw, 1},
    [SQLOCK_STMT_BREAK] = {run_break, 1},
    [SQLOCK_STMT_LIST] = {fake_run_list, 1},
    [SQLOCK_STMT_SWEEP] = {fake_run_sweep, 1},
    [SQLOCK_STMT_REAP] = {fake_run_reap, 1},
    [SQLOCK_STMT_PRUNE] = {fake_run_prune, 1},
    [SQLOCK_STMT_MIGRATE_LOCK] = {run_migrate_lock, 0},
    [SQLOCK_STMT_MIGRATE_VERSION] = {run_migrate_version, 0},
    [SQLOCK_STMT_MIGRATE_RECORD] = {run_migrate_record, 0},
    [SQLOCK_STMT_MIGRATE_LEDGER] = {run_migrate_ledger, 0},
    [SQLOCK_STMT_MIGRATE_DIFFER] = {run_migrate_differ, 0},
    [SQLOCK_STMT_MIGRATE_CLOSE] = {run_migrate_close, 1},
    [SQLOCK_STMT_MIGRATE_HELD] = {run_migrate_held, 1},
    [SQLOCK_STMT_MIGRATE_LEASE] = {run_migrate_lease, 1},
    [SQLOCK_STMT_MIGRATE_AROUND] = {run_never, 0},
    [SQLOCK_STMT_GUARD] = {run_never, 0},
    [SQLOCK_STMT_PROBE] = {run_guarded, 1},
    [SQLOCK_STMT_ENSURE] = {fake_run_ensure, 0},
    [SQLOCK_STMT_REGISTER_GET] = {fake_run_register_get, 0},
    [SQLOCK_STMT_REGISTER_SET] = {fake_run_register_set, 0},
    [SQLOCK_STMT_LEASE] = {run_lease, 1},
    [SQLOCK_STMT_BREAK_NOTED] = {run_break_noted, 1},
    [SQLOCK_STMT_WAS_BROKEN] = {run_was_broken, 1},
};

/* "b:ns i:ttl": bytes and integers as declared; only a label may be NULL. */
int fake_values_fit(sqlock_stmt stmt, const sqlock_value *values, size_t n)
{
    const sqlock_script *script = &sqlock_fake_dialect.scripts[stmt];

    for (size_t request = 0; request < n; request++) {
        const char *param = script->params;
        for (size_t i = 0; i < script->n_params; i++, values++) {
            sqlock_type wanted = *param == 'i' ? SQLOCK_INT : SQLOCK_BYTES;
            int may_be_null = strcmp(param, "b:label") == 0;
            if (values->type != wanted && !(may_be_null && values->type == SQLOCK_NULL))
                return 0;
            const char *blank = strchr(param, ' ');
            param = blank != NULL ? blank + 1 : "";
        }
    }
    return 1;
}

static int run_one(struct fake_call *k, const sqlock_value *v)
{
    const struct request *request = &requests[k->stmt];
    if (request->needs_locks && !k->db->has_locks)
        return sqlock_error_db(k->err, "42P01", 0, 0, "the lock table does not exist");
    int rc = request->run(k, v);
    if (rc == 0 && k->full != 0)
        rc = sqlock_error_set(k->err, SQLOCK_ENOMEM, SQLOCK_MAYBE, "no memory for the answer");
    return rc;
}

const sqlock_value *fake_values_of(const struct fake_call *k, size_t request)
{
    size_t n_params = sqlock_fake_dialect.scripts[k->stmt].n_params;
    return n_params > 0 ? k->values + request * n_params : NULL;
}

int fake_db_run(struct fake_call *k)
{
    k->db->seen[k->stmt] += (long)k->n;
    for (k->request = 0; k->request < k->n; k->request++) {
        int rc = run_one(k, fake_values_of(k, k->request));
        if (rc != 0) {
            k->err->flags |= k->request > 0 ? SQLOCK_MAYBE : 0;
            return rc;
        }
    }
    return 0;
}
