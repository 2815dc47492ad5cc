/* The database: its clock, its tables, and what a test does to it from outside. */
#include "fake.h"

#include <stdio.h>
#include <time.h>

/* ---- the clock ------------------------------------------------------------------------------ */

int64_t fake_clock(const sqlock_fake *db)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000 + db->clock_offset;
}

static void sql_clock_us(sqlite3_context *context, int n, sqlite3_value **none)
{
    const sqlock_fake *db = sqlite3_user_data(context);
    (void)n;
    (void)none;
    sqlite3_result_int64(context, db->sql_now);
}

static void sql_commit(sqlite3_context *context, int n, sqlite3_value **none)
{
    const sqlock_fake *db = sqlite3_user_data(context);
    (void)n;
    (void)none;
    sqlite3_result_int64(context, db->commits);
}

/* The lock's name, of a row that may be one of its seats: that has a NUL and three bytes behind it.
 */
static void sql_lock(sqlite3_context *context, int n, sqlite3_value **name)
{
    const char *bytes = sqlite3_value_blob(*name);
    int len = sqlite3_value_bytes(*name);

    (void)n;
    if (len > 4 && bytes[len - 4] == '\0')
        len -= 4;
    sqlite3_result_blob(context, bytes, len, SQLITE_TRANSIENT);
}

static void sql_clock_ms(sqlite3_context *context, int n, sqlite3_value **none)
{
    const sqlock_fake *db = sqlite3_user_data(context);
    (void)n;
    (void)none;
    sqlite3_result_int64(context, db->sql_now / 1000);
}

/* ---- statements ----------------------------------------------------------------------------- */

int fake_exec(sqlock_fake *db, const char *sql, sqlock_error *err)
{
    int result = sqlite3_exec(db->sql, sql, NULL, NULL, NULL);
    return result == SQLITE_OK || err == NULL ? result : fake_sql_error(db, result, err);
}

/* ---- tables --------------------------------------------------------------------------------- */

/* before_... holds what each row was before its last change. For a row that this change made, it
 * holds only the key. */
#define WATCH(t)                                                                                   \
    "DROP TABLE IF EXISTS before_" t ";"                                                           \
    "CREATE TABLE before_" t " AS SELECT * FROM sqlock_" t " WHERE 0;"                             \
    "CREATE UNIQUE INDEX key_of_" t " ON before_" t " (ns, name);"                                 \
    "CREATE TRIGGER IF NOT EXISTS made_" t " AFTER INSERT ON sqlock_" t " BEGIN"                   \
    "  DELETE FROM before_" t " WHERE ns = NEW.ns AND name = NEW.name;"                            \
    "  INSERT INTO before_" t " (ns, name) VALUES (NEW.ns, NEW.name);"                             \
    "END;"                                                                                         \
    "CREATE TRIGGER IF NOT EXISTS changed_" t " BEFORE UPDATE ON sqlock_" t " BEGIN"               \
    "  DELETE FROM before_" t " WHERE ns = OLD.ns AND name = OLD.name;"                            \
    "  INSERT INTO before_" t " SELECT * FROM sqlock_" t                                           \
    "  WHERE ns = OLD.ns AND name = OLD.name;"                                                     \
    "END;"                                                                                         \
    "CREATE TRIGGER IF NOT EXISTS gone_" t " AFTER DELETE ON sqlock_" t " BEGIN"                   \
    "  DELETE FROM before_" t " WHERE ns = OLD.ns AND name = OLD.name;"                            \
    "END;"
#define GO_BACK(t, was_there)                                                                      \
    "DELETE FROM sqlock_" t " WHERE (ns, name) IN (SELECT ns, name FROM before_" t ");"            \
    "INSERT INTO sqlock_" t " SELECT * FROM before_" t " WHERE " was_there ";"                     \
    "DELETE FROM before_" t ";"

/* A lock's seats have rows beside its own, and one commit changes several. So before_lock holds all
 * rows of a lock as they were before its last commit, whose number is in last_commit. */
/* clang-format off */
#define IN_LOCK(row)                                                                               \
    "ns = " row ".ns AND name >= fake_lock(" row ".name)"                                          \
    " AND name < CAST(fake_lock(" row ".name) || x'01' AS BLOB)"                                   \
    " AND fake_lock(name) = fake_lock(" row ".name)"
#define WATCH_LOCK(what, row)                                                                      \
    "CREATE TRIGGER IF NOT EXISTS lock_" what " BEFORE " what " ON sqlock_lock WHEN NOT EXISTS ("  \
    "  SELECT 1 FROM last_commit"                                                                  \
    "  WHERE ns = " row ".ns AND lock = fake_lock(" row ".name) AND number = fake_commit()) BEGIN" \
    "  DELETE FROM before_lock WHERE " IN_LOCK(row) ";"                                            \
    "  INSERT INTO before_lock SELECT * FROM sqlock_lock WHERE " IN_LOCK(row) ";"                  \
    "  DELETE FROM last_commit WHERE ns = " row ".ns AND lock = fake_lock(" row ".name);"          \
    "  INSERT INTO last_commit VALUES (" row ".ns, fake_lock(" row ".name), fake_commit());"       \
    "END;"
/* clang-format on */
static const char watch_lock[] =
    "DROP TABLE IF EXISTS before_lock;"
    "CREATE TABLE before_lock AS SELECT * FROM sqlock_lock WHERE 0;"
    "CREATE UNIQUE INDEX key_of_lock ON before_lock (ns, name);"
    "DROP TABLE IF EXISTS last_commit;"
    "CREATE TABLE last_commit (ns, lock, number, PRIMARY KEY (ns, lock)) WITHOUT ROWID;"
    "CREATE TRIGGER IF NOT EXISTS lock_gone AFTER DELETE ON sqlock_lock BEGIN"
    "  DELETE FROM before_lock WHERE ns = OLD.ns AND name = OLD.name;"
    "END;" WATCH_LOCK("INSERT", "NEW") WATCH_LOCK("UPDATE", "OLD");
static const char lock_goes_back[] =
    "DELETE FROM sqlock_lock WHERE (ns, fake_lock(name)) IN (SELECT ns, lock FROM last_commit);"
    "INSERT INTO sqlock_lock SELECT * FROM before_lock;"
    "DELETE FROM before_lock; DELETE FROM last_commit;";

static const struct {
    const char *watch, *go_back;
} tables[] = {{watch_lock, lock_goes_back},
              {WATCH("register"), GO_BACK("register", "version IS NOT NULL")},
              {WATCH("row"), GO_BACK("row", "0")}};

enum { TABLES = sizeof tables / sizeof *tables };

/* At an older version some tables are not there. */
void fake_watch_tables(sqlock_fake *db)
{
    for (int i = 0; i < TABLES; i++)
        (void)fake_exec(db, tables[i].watch, NULL);
}

static void tables_go_back(sqlock_fake *db)
{
    sqlite3_db_config(db->sql, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    for (int i = 0; i < TABLES; i++)
        (void)fake_exec(db, tables[i].go_back, NULL);
    sqlite3_db_config(db->sql, SQLITE_DBCONFIG_ENABLE_TRIGGER, 1, NULL);
}

/* Other programs have used the database before, with leases as long as they are by default. Since
 * the server after the first one was recorded (lost_at), commits may be missing. */
static const char server_table[] =
    "UPDATE sqlock_meta SET server = '';"
    "CREATE TABLE fake_server (server TEXT, longest INTEGER, lost_at INTEGER);"
    "INSERT INTO fake_server VALUES ('fake/1', %d * 1000, 0);"
    "CREATE TRIGGER took_over AFTER UPDATE OF server ON sqlock_meta WHEN OLD.server <> '' BEGIN"
    "  UPDATE fake_server SET lost_at = fake_us();"
    "END;";

static int database_migrate(sqlock_fake *db)
{
    int rc = fake_exec(db, "BEGIN", NULL);

    for (size_t i = 0; rc == 0 && i < sqlock_fake_dialect.n_migrations; i++) {
        const sqlock_migration *m = &sqlock_fake_dialect.migrations[i];

        for (int s = 0; rc == 0 && s < (int)m->n_up; s++)
            rc = fake_exec(db, m->up[s], NULL);
        char *record =
            sqlite3_mprintf("INSERT INTO sqlock_migration VALUES (%d, %Q, %Q, fake_ms());"
                            "UPDATE sqlock_meta SET version = %d",
                            m->version, m->name, m->checksum, m->version);
        rc = rc != 0 || record == NULL ? SQLOCK_ENOMEM : fake_exec(db, record, NULL);
        sqlite3_free(record);
    }
    char *server = sqlite3_mprintf(server_table, SQLOCK_LEASE_DEFAULT_MS);
    rc = rc != 0 || server == NULL ? SQLOCK_ENOMEM : fake_exec(db, server, NULL);
    sqlite3_free(server);
    if (rc == 0)
        fake_watch_tables(db);
    return rc != 0 ? rc : fake_exec(db, "COMMIT", NULL);
}

static int database_open(sqlock_fake *db)
{
    const int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;

    db->sql_now = fake_clock(db);
    if (sqlite3_open_v2(":memory:", &db->sql,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
                            SQLITE_OPEN_EXRESCODE,
                        NULL) != SQLITE_OK ||
        sqlite3_create_function(db->sql, "fake_us", 0, flags, db, sql_clock_us, NULL, NULL) != 0 ||
        sqlite3_create_function(db->sql, "fake_ms", 0, flags, db, sql_clock_ms, NULL, NULL) != 0 ||
        sqlite3_create_function(db->sql, "fake_commit", 0, flags, db, sql_commit, NULL, NULL) !=
            0 ||
        sqlite3_create_function(db->sql, "fake_lock", 1, flags, db, sql_lock, NULL, NULL) != 0)
        return SQLOCK_ENOMEM;
    return database_migrate(db);
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
    if (database_open(db) == 0)
        return db;
    sqlock_fake_free(db);
    return NULL;
}

void sqlock_fake_free(sqlock_fake *db)
{
    if (db == NULL)
        return;
    fake_pending_forget_all(db);
    fake_faults_free(db);
    for (int stmt = 0; stmt < SQLOCK_STMT_COUNT; stmt++)
        for (int step = 0; step < FAKE_STEPS_MAX; step++)
            sqlite3_finalize(db->steps[stmt][step]);
    sqlite3_finalize(db->begin);
    sqlite3_finalize(db->commit);
    sqlite3_close(db->sql);
    pthread_mutex_destroy(&db->mutex);
    sqlock_mem_free(db);
}

void sqlock_fake_step_clock(sqlock_fake *db, int64_t ms)
{
    fake_enter(db);
    db->clock_offset += ms * 1000;
    fake_leave(db);
}

/* The last commits had not reached the new server. Its meta row had. */
void sqlock_fake_failover(sqlock_fake *db)
{
    char sql[64];

    fake_enter(db);
    fake_pending_forget_all(db);
    fake_cut_all(db);
    tables_go_back(db);
    (void)snprintf(sql, sizeof sql, "UPDATE fake_server SET server = 'fake/%d'", ++db->number);
    (void)fake_exec(db, sql, NULL);
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
