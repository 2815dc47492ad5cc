/* An application that talks to SQLite. */
#ifdef TEST_HAVE_SQLITE
#include "tests/lib/sqlite_app.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *app_connect(const struct place *p)
{
    struct sqlite_app_conn *a = calloc(1, sizeof *a);

    assert_non_null(a);
    assert_int_equal(sqlite3_open(p->url + sizeof "sqlite:" - 1, &a->db), SQLITE_OK);
    sqlite3_busy_timeout(a->db, 4321);
    return a;
}

static void app_close(void *app)
{
    struct sqlite_app_conn *a = app;

    sqlite3_finalize(a->reading);
    sqlite3_finalize(a->prepared);
    assert_int_equal(sqlite3_close(a->db), SQLITE_OK); /* BUSY: somebody left a statement in it */
    free(a);
}

static void app_offer(void *app, sqlock_adopt_opts *opts)
{
    struct sqlite_app_conn *a = app;

    opts->native = a->db;
    opts->library = (void (*)(void))sqlite3_libversion_number;
}

static bool app_exec(void *app, const char *sql)
{
    struct sqlite_app_conn *a = app;

    return sqlite3_exec(a->db, sql, NULL, NULL, NULL) == SQLITE_OK;
}

static char *app_fetch(void *app, const char *sql)
{
    struct sqlite_app_conn *a = app;
    sqlite3_stmt *stmt = NULL;
    const unsigned char *text = NULL;
    char *out = NULL;

    assert_int_equal(sqlite3_prepare_v2(a->db, sql, -1, &stmt, NULL), SQLITE_OK);
    if (sqlite3_step(stmt) == SQLITE_ROW)
        text = sqlite3_column_text(stmt, 0);
    if (text != NULL)
        out = strdup((const char *)text);
    sqlite3_finalize(stmt);
    return out;
}

/* A handler of the application's own is in sqlite_adopt_test.c: only a wait tells it. */
static char *app_settings(void *app)
{
    static const char names[] =
        "analysis_limit automatic_index busy_timeout cache_size cache_spill cell_size_check "
        "checkpoint_fullfsync defer_foreign_keys foreign_keys fullfsync "
        "ignore_check_constraints journal_mode journal_size_limit legacy_alter_table "
        "locking_mode max_page_count mmap_size query_only read_uncommitted "
        "recursive_triggers reverse_unordered_selects secure_delete synchronous temp_store "
        "trusted_schema wal_autocheckpoint writable_schema";
    struct sqlite_app_conn *a = app;
    char all[2000] = "", pragma[60];

    for (const char *name = names; *name != '\0'; name += strspn(name, " ")) {
        const size_t len = strlen(all);
        const int n = (int)strcspn(name, " ");
        char *value;

        snprintf(pragma, sizeof pragma, "PRAGMA %.*s", n, name);
        value = app_fetch(a, pragma);
        snprintf(all + len, sizeof all - len, "%.*s %s\n", n, name, value != NULL ? value : "?");
        free(value);
        name += n;
    }
    for (sqlite3_stmt *s = sqlite3_next_stmt(a->db, NULL); s != NULL;
         s = sqlite3_next_stmt(a->db, s)) {
        const size_t len = strlen(all);

        snprintf(all + len, sizeof all - len, "prepared: %s\n", sqlite3_sql(s));
    }
    return strdup(all);
}

/* Not sqlite3_changes(): the driver's README says that nothing gives it back. */
static char *app_last(void *app)
{
    struct sqlite_app_conn *a = app;
    char *text = NULL;

    assert_true(asprintf(&text, "row %lld", (long long)sqlite3_last_insert_rowid(a->db)) > 0);
    return text;
}

static void app_start_reading(void *app)
{
    struct sqlite_app_conn *a = app;
    const char *sql = "SELECT id FROM app_row UNION ALL VALUES (2), (3)";

    assert_int_equal(sqlite3_prepare_v2(a->db, sql, -1, &a->reading, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(a->reading), SQLITE_ROW);
}

static int app_read_rest(void *app)
{
    struct sqlite_app_conn *a = app;
    int n = 0;

    while (sqlite3_step(a->reading) == SQLITE_ROW)
        n++;
    if (sqlite3_finalize(a->reading) != SQLITE_OK)
        n = -1;
    a->reading = NULL;
    return n;
}

static void app_prepare(void *app)
{
    struct sqlite_app_conn *a = app;

    assert_int_equal(sqlite3_prepare_v2(a->db, "SELECT 42", -1, &a->prepared, NULL), SQLITE_OK);
}

static int64_t app_run_prepared(void *app)
{
    struct sqlite_app_conn *a = app;
    int64_t number =
        sqlite3_step(a->prepared) == SQLITE_ROW ? sqlite3_column_int64(a->prepared, 0) : -1;

    sqlite3_reset(a->prepared);
    return number;
}

static const char *const begins[] = {"BEGIN", "BEGIN IMMEDIATE", "SAVEPOINT app", NULL};

static const struct way ways[] = {{"deferred", NULL, "BEGIN", NULL},
                                  {"immediate", NULL, "BEGIN IMMEDIATE", NULL},
                                  {"a savepoint", NULL, "SAVEPOINT app", NULL},
                                  {0}};

const struct adopt_app sqlite_app = {
    APP_FUNCTIONS,
    .begins = begins,
    .alone = "BEGIN EXCLUSIVE",
    .ways = ways,
    .table_of_types =
        "CREATE TABLE app_types (t TEXT PRIMARY KEY, s INTEGER, b INTEGER, n NUMERIC, o BLOB)",
    .impatient = "PRAGMA busy_timeout = 400",
    .says_locked = true};
#endif
