/* The schema in SQLite: what migrations make of an empty file. */
#include "tests/lib/lite.h"
#include "tests/schema/schema.h"

#include <ctype.h>
#include <pthread.h>
#include <sqlite3.h>
#include <sqlock/driver.h>
#include <sqlock/sqlite.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static sqlock_error err;

extern const sqlock_dialect sqlock_sqlite_dialect;

const struct damage place_damages[] = {
    {"noted ON {prefix}broken (noted)", "noted ON {prefix}broken (token)", false},
    {"min_reader INTEGER NOT NULL", "min_reader INTEGER", true},
    {"fence_floor INTEGER", "fence_floor ANY", true},
    {"ttl INTEGER NOT NULL DEFAULT 0", "ttl INTEGER NOT NULL DEFAULT 1", false},
    {"CHECK (length(ns) <= 63)", "CHECK (length(ns) <= 64)", false},
    {"kind INTEGER NOT NULL DEFAULT 0", "kind INTEGER NOT NULL DEFAULT 1", false},
    {"PRIMARY KEY (ns, name)", "PRIMARY KEY (name, ns)", true},
    {"STRICT, WITHOUT ROWID", "STRICT", false},
    {"CHECK ((owner IS NULL) = (exp IS NULL))", "CHECK (1)", false},
    {",\n    CHECK ((owner IS NULL) = (exp IS NULL))", "", true},
    {"PRIMARY KEY (ns, name),\n    CHECK", "PRIMARY KEY (ns, name), UNIQUE (owner),\n    CHECK",
     true},
    {"owner BLOB CHECK", "owner BLOB NOT NULL CHECK", true},
    {"next_ticket", "next_tickets", true},
    {"CREATE TABLE {row} (", "CREATE INDEX i ON {prefix}lock (exp); CREATE TABLE {row} (", false},
    {"value BLOB NOT NULL", "value BLOB", true},
    {"length(value) <= 65536", "length(value) <= 65535", false},
    {"version INTEGER NOT NULL CHECK (version > 0)", "version INTEGER NOT NULL", true},
    {"VALUES (1, 0, 4, 0, 'file', 0)", "VALUES (1, 0, 4, 0, 'file', 7)", false},
    {NULL, NULL, false}};

struct place place_new(void)
{
    struct place p = {
        .driver = sqlock_driver_sqlite(), .dialect = &sqlock_sqlite_dialect, .prefix = "sqlock_"};

    snprintf(p.url, sizeof p.url, "sqlite:%s/a b.db", temp_dir());
    return p;
}

static const char *path_of(const struct place *p)
{
    return p->url + strlen("sqlite:");
}

bool place_keeps_checks(void)
{
    return true;
}

void place_exec_text(const struct place *p, const char *sql)
{
    lite_exec_at(path_of(p), textf("BEGIN IMMEDIATE; %s\n; COMMIT", sql));
}

int64_t place_number_text(const struct place *p, const char *sql)
{
    return lite_number_at(path_of(p), sql);
}

/* A statement without its comments and its layout. */
static void put_normal(FILE *f, const char *sql)
{
    int blank = 0;

    for (; *sql; sql++) {
        if (sql[0] == '-' && sql[1] == '-')
            sql += strcspn(sql, "\n") - 1;
        else if (isspace((unsigned char)*sql))
            blank = 1;
        else {
            if (blank)
                fputc(' ', f);
            blank = 0;
            fputc(*sql, f);
        }
    }
    fputc('\n', f);
}

static void put_rows(FILE *f, sqlite3 *db, const char *sql)
{
    sqlite3_stmt *stmt = NULL;

    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK)
        fail_msg("%s\n%s", sql, sqlite3_errmsg(db));
    while (sqlite3_step(stmt) == SQLITE_ROW)
        for (int i = 0; i < sqlite3_column_count(stmt); i++) {
            const char *text = (const char *)sqlite3_column_text(stmt, i);

            fprintf(f, "%s: ", sqlite3_column_name(stmt, i));
            put_normal(f, text ? text : "NULL");
        }
    sqlite3_finalize(stmt);
}

const char *const place_end_lease = NULL;

bool place_has_locks(const struct place *p)
{
    return place_number(p, "SELECT count(*) FROM sqlite_master WHERE name = '{prefix}lock'") == 1;
}

bool place_pipe(const struct place *p, const char *sql)
{
    return pipe_to("sqlite3", textf("sqlite3 -bail '%s' >/dev/null", path_of(p)), sql);
}

char *place_catalogue(const struct place *p)
{
    sqlite3 *db = lite_open(path_of(p));
    char *out = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&out, &size);

    assert_non_null(f);
    put_rows(f, db, "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name");
    put_rows(f, db,
             "SELECT m.name, c.cid, c.name, c.type, c.\"notnull\", c.dflt_value, c.pk, c.hidden "
             "FROM sqlite_master m, pragma_table_xinfo(m.name) c WHERE m.type = 'table' "
             "ORDER BY m.name, c.cid");
    put_rows(
        f, db,
        "SELECT m.name, i.seq, i.name, i.\"unique\", i.origin, i.partial, c.seqno, c.cid, c.name, "
        "c.\"desc\", c.coll, c.key FROM sqlite_master m, pragma_index_list(m.name) i, "
        "pragma_index_xinfo(i.name) c WHERE m.type = 'table' ORDER BY m.name, i.seq, c.seqno");
    put_rows(f, db,
             "SELECT name, type, ncol, wr, strict FROM pragma_table_list WHERE schema = 'main' "
             "ORDER BY name");
    if (sqlite3_table_column_metadata(db, "main", "sqlock_meta", NULL, NULL, NULL, NULL, NULL,
                                      NULL) == SQLITE_OK)
        put_rows(f, db,
                 place_fill(p, "SELECT id, min_reader, inc, server, fence_floor FROM {meta}"));
    fclose(f);
    sqlite3_close(db);
    return kept(out);
}

/* ---- SQLite alone ---------------------------------------------------------------------------- */

TEST(test_there_is_no_schema_but_main)
{
    struct place p = place_new();

    p.schema = "other";
    assert_code(SQLOCK_EINVAL, migrate_code(&p, &err), &err);
    p.schema = "main";
    assert_ok(migrate_code(&p, &err), &err);
}

/* ---- the journal of a file that is made, and of one that is given ---------------------------- */

/* NULL: it went well. */
static atomic_bool migrates;

static void *migrate_beside(void *arg)
{
    sqlock_error said = {0};

    atomic_store(&migrates, true);
    return migrate_code(arg, &said) == 0 ? NULL : "failed";
}

static bool is_wal(const struct place *p)
{
    return place_number(p, "SELECT journal_mode = 'wal' FROM pragma_journal_mode") == 1;
}

TEST(test_file_that_migrating_makes_is_in_WAL_mode)
{
    struct place p = place_new();

    place_migrate(&p);
    assert_true(is_wal(&p));
    assert_true(place_use(&p, "x") > 0);
}

TEST(test_empty_file_counts_as_made)
{
    struct place p = place_new();
    FILE *f = fopen(path_of(&p), "w");

    assert_non_null(f);
    fclose(f);
    place_migrate(&p);
    assert_true(is_wal(&p));
}

TEST(test_migrating_leaves_the_journal_mode_of_a_file_that_is_given)
{
    static const char *const modes[] = {"DELETE", "WAL"};

    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        struct place p = place_new();

        lite_exec_at(path_of(&p), textf("PRAGMA journal_mode = %s; CREATE TABLE t (a)", modes[i]));
        place_migrate(&p);
        assert_int_equal(is_wal(&p), i == 1);
        assert_true(place_use(&p, "x") > 0);
    }
}

/* Its connection notices that the file is in another mode now. */
TEST(test_application_that_has_the_empty_file_open_goes_on)
{
    struct place p = place_new();
    sqlite3 *app = NULL;

    assert_int_equal(sqlite3_open(path_of(&p), &app), SQLITE_OK);
    assert_int_equal(sqlite3_exec(app, "SELECT count(*) FROM sqlite_master", NULL, NULL, NULL),
                     SQLITE_OK);
    place_migrate(&p);
    assert_true(is_wal(&p));
    assert_int_equal(
        sqlite3_exec(app, "CREATE TABLE t (a); INSERT INTO t VALUES (1)", NULL, NULL, NULL),
        SQLITE_OK);
    assert_true(place_use(&p, "x") > 0);
    sqlite3_close(app);
}

/* Another program makes tables in a new file, and migrating meets its transaction. */
static bool is_wal_beside_a_maker(void)
{
    struct place p = place_new();
    sqlite3 *app = NULL;
    pthread_t thread;
    void *code = NULL;
    bool wal;

    assert_int_equal(sqlite3_open(path_of(&p), &app), SQLITE_OK);
    sqlite3_busy_timeout(app, 5000); /* the migrator may just be reading */
    assert_int_equal(sqlite3_exec(app, "BEGIN IMMEDIATE; CREATE TABLE t (a)", NULL, NULL, NULL),
                     SQLITE_OK);
    atomic_store(&migrates, false);
    pthread_create(&thread, NULL, migrate_beside, &p);
    while (!atomic_load(&migrates))
        sqlock_sleep_us(1000);
    sqlock_sleep_us(200000); /* by then it has met the transaction */
    assert_int_equal(sqlite3_exec(app, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    pthread_join(thread, &code);
    assert_null(code);
    wal = is_wal(&p);
    sqlite3_close(app);
    return wal;
}

/* Migrating waits for the other program, and the file is one that is given. No transaction can
 * change the mode. So a commit in the very moment between the look and the change is overlooked:
 * harmless, and not three times in a row. */
TEST(test_file_that_another_program_is_making_stays_as_it_is)
{
    int tries = 0;

    while (is_wal_beside_a_maker())
        assert_int_not_equal(++tries, 3);
}

TEST(test_several_that_make_the_file_at_once_make_one_in_WAL_mode)
{
    enum { THREADS = 4, ROUNDS = 10 };

    for (int round = 0; round < ROUNDS; round++) {
        struct place p = place_new();
        pthread_t threads[THREADS];
        void *codes[THREADS];

        for (int i = 0; i < THREADS; i++)
            pthread_create(&threads[i], NULL, migrate_beside, &p);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], &codes[i]);
        for (int i = 0; i < THREADS; i++)
            assert_null(codes[i]);
        assert_true(is_wal(&p));
    }
}

/* The memory that WAL needs cannot be had: a folder has the name of its file. */
TEST(test_file_that_cannot_have_WAL_does_without)
{
    struct place p = place_new();

    assert_int_equal(mkdir(textf("%s-shm", path_of(&p)), 0700), 0);
    place_migrate(&p);
    assert_true(place_use(&p, "x") > 0);
    assert_int_equal(rmdir(textf("%s-shm", path_of(&p))), 0);
    assert_false(is_wal(&p));
}

/* ---- how rows are found ---------------------------------------------------------------------- */

/* NULL: by their keys alone, and without a table of SQLite's own to sort in. Otherwise what is
 * done instead. */
static char *slow_part(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *stmt = NULL;
    char *out = NULL;

    if (sqlite3_prepare_v2(db, textf("EXPLAIN QUERY PLAN %s", sql), -1, &stmt, NULL) != SQLITE_OK)
        fail_msg("%s\n%s", sql, sqlite3_errmsg(db));
    while (sqlite3_step(stmt) == SQLITE_ROW) {
        const char *does = (const char *)sqlite3_column_text(stmt, 3);

        if (strstr(does, "TEMP B-TREE") || strstr(does, "AUTOMATIC") ||
            (strncmp(does, "SCAN", 4) == 0 && strcmp(does, "SCAN CONSTANT ROW") != 0 &&
             strncmp(does, "SCAN (subquery", 14) != 0))
            out = textf("%s", does);
    }
    sqlite3_finalize(stmt);
    return out;
}

TEST(test_requests_find_their_rows_by_key)
{
    static const sqlock_stmt hot[] = {
        SQLOCK_STMT_ACQUIRE,      SQLOCK_STMT_RENEW, SQLOCK_STMT_RELEASE, SQLOCK_STMT_WITHDRAW,
        SQLOCK_STMT_BREAK_NOTED,  SQLOCK_STMT_PRUNE, SQLOCK_STMT_GUARD,   SQLOCK_STMT_ENSURE,
        SQLOCK_STMT_REGISTER_SET, SQLOCK_STMT_QUEUE, SQLOCK_STMT_LEAVE};
    struct place p = place_migrated();
    sqlite3 *db = lite_open(path_of(&p));

    for (size_t i = 0; i < sizeof hot / sizeof *hot; i++) {
        const sqlock_script *script = &p.dialect->scripts[hot[i]];

        for (int step = 0; step < script->n_steps; step++) {
            char *slow = slow_part(db, place_fill(&p, script->steps[step].sql));

            if (slow != NULL)
                fail_msg("%s, step %d: %s", script->name, step + 1, slow);
        }
    }
    assert_non_null(slow_part(db, "SELECT 1 FROM sqlock_lock WHERE name = x'61'"));
    assert_non_null(slow_part(db, "SELECT 1 FROM sqlock_lock WHERE ns = x'' ORDER BY exp"));
    sqlite3_close(db);
}

TEST_MAIN_EACH(NULL, NULL)
