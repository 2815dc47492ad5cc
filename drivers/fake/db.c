/* The database: its clock, its rows, its schema, and what a test does to it from outside. */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- the clock and the server --------------------------------------------------------------- */

int64_t fake_clock(const sqlock_fake *db)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000 + db->clock_offset;
}

void fake_identity(const sqlock_fake *db, char out[32])
{
    (void)snprintf(out, 32, "fake/%d", db->number);
}

int fake_is_stranger(const sqlock_fake *db)
{
    char server[32];
    fake_identity(db, server);
    return strcmp(db->meta_server, server) != 0;
}

/* ---- rows ----------------------------------------------------------------------------------- */

int fake_bytes_order(const unsigned char *a, size_t a_len, const sqlock_value *b)
{
    size_t shorter = a_len < b->len ? a_len : b->len;
    int order = shorter > 0 ? memcmp(a, b->data, shorter) : 0;
    return order != 0 ? order : (a_len > b->len) - (a_len < b->len);
}

int fake_key_order(const struct fake_row *row, const sqlock_value *ns, const sqlock_value *name)
{
    int order = fake_bytes_order(row->ns, row->ns_len, ns);
    return order != 0 ? order : fake_bytes_order(row->name, row->name_len, name);
}

size_t fake_row_place(const sqlock_fake *db, const sqlock_value *ns, const sqlock_value *name)
{
    size_t low = 0;
    size_t high = db->n_rows;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (fake_key_order(db->rows[mid], ns, name) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

struct fake_row *fake_row_find(const sqlock_fake *db, const sqlock_value *ns,
                               const sqlock_value *name)
{
    size_t at = fake_row_place(db, ns, name);
    int found = at < db->n_rows && fake_key_order(db->rows[at], ns, name) == 0;
    return found ? db->rows[at] : NULL;
}

static int rows_grow(sqlock_fake *db)
{
    if (db->n_rows < db->max_rows)
        return 0;
    size_t max = db->max_rows > 0 ? db->max_rows * 2 : 16;
    struct fake_row **rows = sqlock_mem_resize(db->rows, max * sizeof *rows);
    if (rows == NULL)
        return SQLOCK_ENOMEM;
    db->rows = rows;
    db->max_rows = max;
    return 0;
}

int fake_row_make(struct fake_call *k, const sqlock_value *ns, const sqlock_value *name,
                  struct fake_row **out)
{
    sqlock_fake *db = k->db;
    if (ns->len > SQLOCK_NAMESPACE_MAX || name->len < 1 || name->len > SQLOCK_NAME_MAX)
        return sqlock_error_db(k->err, "23514", 0, 0, "a namespace or name is too long or empty");

    struct fake_row *row = rows_grow(db) == 0 ? sqlock_mem_alloc(sizeof *row) : NULL;
    if (row == NULL)
        return sqlock_error_set(k->err, SQLOCK_ENOMEM, 0, "no memory for a row");
    row->ns_len = ns->len;
    row->name_len = name->len;
    if (ns->len > 0)
        memcpy(row->ns, ns->data, ns->len);
    memcpy(row->name, name->data, name->len);
    row->now = (struct fake_state){.there = 1, .token = db->fence_floor, .idle_since = k->now};
    row->has_before = 1;

    size_t at = fake_row_place(db, ns, name);
    memmove(db->rows + at + 1, db->rows + at, (db->n_rows - at) * sizeof *db->rows);
    db->rows[at] = row;
    db->n_rows++;
    *out = row;
    return 0;
}

static void row_delete(sqlock_fake *db, size_t at)
{
    sqlock_mem_free(db->rows[at]);
    db->n_rows--;
    memmove(db->rows + at, db->rows + at + 1, (db->n_rows - at) * sizeof *db->rows);
}

void fake_floor_raise(sqlock_fake *db, int64_t token)
{
    if (db->fence_floor < token)
        db->fence_floor = token;
}

void fake_row_vanish(sqlock_fake *db, const sqlock_value *ns, const sqlock_value *name)
{
    size_t at = fake_row_place(db, ns, name);
    if (at == db->n_rows || fake_key_order(db->rows[at], ns, name) != 0)
        return;
    fake_floor_raise(db, db->rows[at]->now.token);
    row_delete(db, at);
}

struct fake_state *fake_row_change(struct fake_row *row)
{
    row->before = row->now;
    row->has_before = 1;
    return &row->now;
}

/* ---- migrations ----------------------------------------------------------------------------- */

int64_t fake_version(const sqlock_fake *db, const struct fake_conn *conn)
{
    return conn != NULL && conn->tx.open && conn->tx.has_version ? conn->tx.version : db->version;
}

const struct fake_ledger *fake_ledger_of(const sqlock_fake *db, const struct fake_conn *conn)
{
    return conn != NULL && conn->tx.open && conn->tx.has_version ? &conn->tx.ledger : &db->ledger;
}

/* Where version and records are changed from here on: the transaction's own copy, or the database.
 */
static struct fake_ledger *ledger_change(sqlock_fake *db, struct fake_conn *conn, int64_t version)
{
    if (conn == NULL || !conn->tx.open) {
        db->version = version;
        return &db->ledger;
    }
    if (!conn->tx.has_version)
        conn->tx.ledger = db->ledger;
    conn->tx.has_version = 1;
    conn->tx.version = version;
    return &conn->tx.ledger;
}

static void text_take(char *out, size_t size, const sqlock_value *value)
{
    (void)snprintf(out, size, "%.*s", (int)value->len, (const char *)value->data);
}

int fake_record_put(struct fake_call *k, const sqlock_value *version, const sqlock_value *name,
                    const sqlock_value *checksum, int done)
{
    int64_t before = fake_version(k->db, k->conn);
    struct fake_ledger *ledger =
        ledger_change(k->db, k->conn, done && version->i > before ? version->i : before);
    size_t at = 0;
    while (at < ledger->n && ledger->record[at].version < version->i)
        at++;
    if (at == ledger->n || ledger->record[at].version != version->i) {
        if (ledger->n == FAKE_RECORDS_MAX)
            return sqlock_error_db(k->err, "53100", 0, 0, "the fake database is full of records");
        memmove(ledger->record + at + 1, ledger->record + at,
                (ledger->n++ - at) * sizeof *ledger->record);
    }
    ledger->record[at].version = version->i;
    ledger->record[at].applied = k->now;
    text_take(ledger->record[at].name, sizeof ledger->record[at].name, name);
    text_take(ledger->record[at].checksum, sizeof ledger->record[at].checksum, checksum);
    return 0;
}

static void version_down(sqlock_fake *db, struct fake_conn *conn, int64_t version)
{
    struct fake_ledger *ledger = ledger_change(db, conn, version);
    while (ledger->n > 0 && ledger->record[ledger->n - 1].version > version)
        ledger->n--;
}

/* The tables are built in: CREATE lets them be seen, DROP empties and hides the locks. VERSION is
 * what the way down of a later migration says. */
int fake_db_exec(struct fake_conn *conn, const char *sql, sqlock_error *err)
{
    if (strncmp(sql, "CREATE ", 7) == 0) {
        conn->tx.created = 1;
    } else if (strncmp(sql, "DROP ", 5) == 0) {
        conn->tx.dropped = 1;
        conn->tx.created = 0;
        version_down(conn->db, conn, 0);
    } else if (strncmp(sql, "VERSION ", 8) == 0) {
        version_down(conn->db, conn, strtol(sql + 8, NULL, 10));
    } else {
        return sqlock_error_db(err, "42601", 0, 0,
                               "the fake database knows CREATE, DROP and VERSION only");
    }
    return 0;
}

/* Tokens go on rising after the lock table went and came again: their floor stays in meta. */
void fake_db_commit(struct fake_conn *conn)
{
    sqlock_fake *db = conn->db;

    while (conn->tx.dropped && db->n_rows > 0) {
        fake_floor_raise(db, db->rows[db->n_rows - 1]->now.token);
        row_delete(db, db->n_rows - 1);
    }
    db->has_locks = conn->tx.created || (db->has_locks && !conn->tx.dropped);
    db->ledger = *fake_ledger_of(db, conn);
    db->version = fake_version(db, conn);
    for (size_t i = 0; db->version < 3 && i < db->n_rows; i++)
        memset(db->rows[i]->now.broken, 0, sizeof db->rows[i]->now.broken);
    if (db->version < 2) /* their tables went with the way down */
        fake_registers_free(db);
}

/* ---- the database from outside -------------------------------------------------------------- */

void fake_enter(sqlock_fake *db)
{
    pthread_mutex_lock(&db->mutex);
    fake_pending_run_due(db);
}

void fake_leave(sqlock_fake *db)
{
    pthread_mutex_unlock(&db->mutex);
}

static void born_migrated(sqlock_fake *db)
{
    for (size_t i = 0; i < sqlock_fake_dialect.n_migrations; i++) {
        const sqlock_migration *m = &sqlock_fake_dialect.migrations[i];
        struct fake_record *r = &db->ledger.record[db->ledger.n++];

        db->version = r->version = m->version;
        r->applied = fake_clock(db);
        (void)snprintf(r->name, sizeof r->name, "%s", m->name);
        (void)snprintf(r->checksum, sizeof r->checksum, "%s", m->checksum);
    }
}

sqlock_fake *sqlock_fake_new(void)
{
    sqlock_fake *db = sqlock_mem_alloc(sizeof *db);
    if (db == NULL)
        return NULL;
    if (pthread_mutex_init(&db->mutex, NULL) != 0) {
        sqlock_mem_free(db);
        return NULL;
    }
    db->number = 1;
    born_migrated(db);
    db->min_reader = 4;
    db->longest = SQLOCK_LEASE_DEFAULT_MS * INT64_C(1000); /* somebody has been here before */
    db->has_locks = 1;
    return db;
}

void sqlock_fake_free(sqlock_fake *db)
{
    if (db == NULL)
        return;
    fake_pending_forget_all(db);
    fake_faults_free(db);
    while (db->n_rows > 0)
        row_delete(db, db->n_rows - 1);
    sqlock_mem_free(db->rows);
    fake_registers_free(db);
    pthread_mutex_destroy(&db->mutex);
    sqlock_mem_free(db);
}

void sqlock_fake_step_clock(sqlock_fake *db, int64_t ms)
{
    fake_enter(db);
    db->clock_offset += ms * 1000;
    fake_leave(db);
}

/* What was committed last had not reached the new server. Its meta row had. */
void sqlock_fake_failover(sqlock_fake *db)
{
    fake_enter(db);
    fake_pending_forget_all(db);
    for (size_t i = db->n_rows; i > 0; i--) {
        struct fake_row *row = db->rows[i - 1];
        if (!row->has_before)
            continue;
        row->now = row->before;
        row->has_before = 0;
        if (!row->now.there)
            row_delete(db, i - 1);
    }
    fake_registers_go_back(db);
    db->number++;
    fake_cut_all(db);
    fake_leave(db);
}

long sqlock_fake_seen(sqlock_fake *db, int stmt)
{
    long n = 0;

    fake_enter(db);
    for (int i = 0; i < SQLOCK_STMT_COUNT; i++)
        n += stmt == -1 || stmt == i ? db->seen[i] : 0;
    fake_leave(db);
    return n;
}
