/* The schema in SQLite: what migrations make of an empty file. */
#include "tests/lib/lite.h"
#include "tests/schema/schema.h"

#include <ctype.h>
#include <sqlite3.h>
#include <sqlock/sqlite.h>
#include <stdio.h>
#include <string.h>

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

TEST(test_migrating_leaves_the_journal_mode_of_a_WAL_file)
{
    struct place p = place_new();

    lite_exec_at(path_of(&p), "PRAGMA journal_mode = WAL");
    place_migrate(&p);
    assert_int_equal(place_number(&p, "SELECT journal_mode = 'wal' FROM pragma_journal_mode"), 1);
    assert_true(place_use(&p, "x") > 0);
}

TEST_MAIN_EACH(NULL, NULL)
