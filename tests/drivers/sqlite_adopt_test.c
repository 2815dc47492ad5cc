/* P14 on SQLite: what only SQLite does to a guest on an application's connection. The slots are
 * called by themselves; suite_adopt.c has what all drivers share. Each test that depends on the
 * journal is made with WAL and without. */
#include <sys/stat.h>
#include <unistd.h>

#include <sqlock/sqlite.h>

#include "tests/drivers/suite_in_transaction.h"
#include "tests/lib/sqlite_app.h"
#include "tests/lib/sqlite_quirks.h"

static int try_exec(void *app, const char *sql)
{
    return sqlite3_exec(native(app), sql, NULL, NULL, NULL);
}

/* The table has three rows, and no 7 in them. */
static void use_journal(const char *mode)
{
    char pragma[60];

    snprintf(pragma, sizeof pragma, "PRAGMA journal_mode = %s", mode);
    app_exec(g.app, pragma);
    app_exec(g.app, "DROP TABLE app_row;"
                    "CREATE TABLE app_row (id INTEGER PRIMARY KEY, n INTEGER CHECK (n <> 7));"
                    "INSERT INTO app_row VALUES (1, 10), (2, 20), (3, 30)");
}

/* Two connections of the application's without a busy timeout: g.app, adopted, and the other. */
static void *begin(struct world *w, const char *mode)
{
    void *other;

    begin_app(w);
    other = app_connect();
    sqlite3_busy_timeout(native(g.app), 0);
    sqlite3_busy_timeout(native(other), 0);
    use_journal(mode);
    ok(adopt(g.app, &g.conn));
    return other;
}

static int let_go_of(void *other, int count)
{
    if (count == 0)
        sleep_ms(1200);
    app_exec(other, "COMMIT");
    return 1;
}

/* P6: a guard that waited for the file has extended the lease from its end, not its beginning. */
TEST_AFTER(begin_app, test_guard_that_waited_extends_the_lease_from_its_answer)
{
    sqlock *m = open_manager(g.w, NULL);
    sqlock_lock *lock = take_for(m, "sale", 2000, SQLOCK_NO_RENEW);
    sqlock_conn *conn = adopted(m, g.app);
    void *other = app_connect();

    app_exec(other, "BEGIN IMMEDIATE");
    app_exec(g.app, "BEGIN");
    sqlite3_busy_handler(native(g.app), let_go_of, other);
    ok(sqlock_guard(lock, conn, &said));
    sleep_ms(1400); /* 2.6 s after it was sent */
    assert_state(SQLOCK_UNSURE, lock);
    app_exec(g.app, "ROLLBACK");
}

/* WAL at the end: a file leaves it only for its last connection. */
static const char *const journals[] = {"DELETE", "TRUNCATE", "MEMORY", "WAL"};
enum { JOURNALS = sizeof journals / sizeof *journals };

/* Our statement, kept, and another one, undone. */
static void write_and_undo(void)
{
    point_ok(SQLOCK_SAVEPOINT_SET);
    ok(run(OUR_WRITE));
    point_ok(SQLOCK_SAVEPOINT_RELEASE);
    point_ok(SQLOCK_SAVEPOINT_SET);
    ok(run(OUR_WRITE));
    point_ok(SQLOCK_SAVEPOINT_UNDO);
}

/* The request failed like this, and the transaction is as before. */
static void refused(const char *sql, int code, const char *sqlstate)
{
    says(code, run(sql));
    assert_string_equal(said.sqlstate, sqlstate);
    assert_int_equal(said.flags & (SQLOCK_MAYBE | SQLOCK_RECONNECT), 0);
    assert_int_equal(sqlock_rows_count(g.rows), 0);
    assert_int_equal(g.adopter->tx_state(g.conn), SQLOCK_TX_ACTIVE);
}

/* ---- statements of the application that are under way ---------------------------------------- */

static sqlite3_stmt *begin_reading(const char *sql)
{
    sqlite3_stmt *stmt = NULL;

    assert_int_equal(sqlite3_prepare_v2(native(g.app), sql, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    return stmt;
}

static int read_on(sqlite3_stmt *stmt)
{
    int n = 0, rc;

    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
        n++;
    assert_int_equal(rc, SQLITE_DONE);
    assert_int_equal(sqlite3_finalize(stmt), SQLITE_OK);
    return n;
}

/* Of the very table that we change and roll back under it. */
TEST(test_select_that_is_read_half_goes_on_after_our_undo)
{
    void *other = begin(w, "DELETE");

    for (size_t j = 0; j < JOURNALS; j++) {
        sqlite3_stmt *reading;

        use_journal(journals[j]);
        app_exec(g.app, "BEGIN");
        reading = begin_reading("SELECT id FROM app_row");
        write_and_undo();
        assert_int_equal(read_on(reading), 2);
        app_exec(g.app, "COMMIT");
        assert_int_equal(seen_by(other), 110);
    }
}

/* SQLite takes no savepoint beside a statement that writes and has not ended. */
TEST(test_writing_statement_at_a_row_refuses_the_savepoint)
{
    sqlite3_stmt *writing;
    void *other = begin(w, "WAL");

    app_exec(g.app, "BEGIN");
    writing = begin_reading("UPDATE app_row SET n = n + 1 RETURNING id");
    says(SQLOCK_ESTATE, point(SQLOCK_SAVEPOINT_SET));
    assert_non_null(strstr(said.text, "in progress"));
    assert_int_equal(said.flags, 0);
    assert_int_equal(g.adopter->tx_state(g.conn), SQLOCK_TX_ACTIVE);
    assert_int_equal(read_on(writing), 2);
    write_and_undo();
    app_exec(g.app, "COMMIT");
    assert_int_equal(seen_by(other), 111);
}

/* ---- what the application has set ------------------------------------------------------------ */

static int on_busy(void *user, int tries)
{
    ++*(int *)user;
    return tries < 2;
}

/* It cannot be read back, so it must not be replaced. It has its way with our statements too. */
TEST(test_busy_handler_of_the_application_stays)
{
    int calls = 0;
    void *other = begin(w, "WAL");

    sqlite3_busy_handler(native(g.app), on_busy, &calls);
    app_exec(other, "BEGIN IMMEDIATE");
    app_exec(g.app, "BEGIN");
    point_ok(SQLOCK_SAVEPOINT_SET);
    refused(OUR_WRITE, SQLOCK_EDB, "55P03");
    assert_int_equal(calls, 3);
    point_ok(SQLOCK_SAVEPOINT_UNDO);
    assert_int_equal(try_exec(g.app, "UPDATE app_row SET n = 0"), SQLITE_BUSY);
    assert_int_equal(calls, 6);
}

/* It can be read back: so it makes neither our deadline nor a cancel wait. */
TEST(test_busy_timeout_of_the_application_stays_and_delays_nothing)
{
    void *other = begin(w, "DELETE");
    int64_t begun;

    for (size_t j = 0; j < JOURNALS; j++) {
        use_journal(journals[j]);
        sqlite3_busy_timeout(native(g.app), 60000);
        app_exec(other, "BEGIN IMMEDIATE");
        app_exec(g.app, "BEGIN");
        begun = sqlock_now_us();
        point_ok(SQLOCK_SAVEPOINT_SET);
        refused(OUR_WRITE, SQLOCK_EDB, "55P03");
        assert_int_equal(said.flags, SQLOCK_RETRY);
        point_ok(SQLOCK_SAVEPOINT_UNDO);
        assert_between(0, sqlock_now_us() - begun, patience_ms(20000) * INT64_C(1000));
        assert_int_equal(app_number(g.app, "PRAGMA busy_timeout"), 60000);
        app_exec(other, "COMMIT");
        write_and_undo();
        assert_int_equal(app_number(g.app, "PRAGMA busy_timeout"), 60000);
        app_exec(g.app, "COMMIT");
        assert_int_equal(seen_by(other), 110);
    }
}

static int on_progress(void *user)
{
    ++*(int *)user;
    return 1;
}

/* SQLite ends the transaction of a writing statement that its application interrupts. */
TEST(test_progress_handler_stays_and_what_it_stops_is_reported)
{
    int calls = 0;

    begin(w, "WAL");
    app_exec(g.app, "BEGIN; UPDATE app_row SET n = 11 WHERE id = 1");
    point_ok(SQLOCK_SAVEPOINT_SET);
    sqlite3_progress_handler(native(g.app), 1, on_progress, &calls);
    says(SQLOCK_EDB, run(OUR_WRITE));
    assert_non_null(strstr(said.text, "by the application"));
    assert_true(calls > 0);
    calls = 0;
    assert_int_equal(try_exec(g.app, "SELECT count(*) FROM app_row"), SQLITE_INTERRUPT);
    assert_true(calls > 0);
    sqlite3_progress_handler(native(g.app), 0, NULL, NULL);
    assert_int_equal(g.adopter->tx_state(g.conn), SQLOCK_TX_IDLE);
    assert_int_equal(seen_by(g.app), 10);
}

struct authorizer {
    int denied; /* an action */
    int calls;
};

static int on_authorize(void *user, int action, const char *a, const char *b, const char *db,
                        const char *by)
{
    struct authorizer *z = user;

    (void)a, (void)b, (void)db, (void)by;
    z->calls++;
    return action == z->denied ? SQLITE_DENY : SQLITE_OK;
}

TEST(test_authorizer_stays_and_its_refusal_is_reported)
{
    struct authorizer z = {.denied = SQLITE_UPDATE};

    begin(w, "WAL");
    sqlite3_set_authorizer(native(g.app), on_authorize, &z);
    app_exec(g.app, "BEGIN");
    point_ok(SQLOCK_SAVEPOINT_SET);
    refused(OUR_WRITE, SQLOCK_EDENIED, "42501");
    ok(run(OUR_READ));
    point_ok(SQLOCK_SAVEPOINT_UNDO);
    z.denied = SQLITE_SAVEPOINT;
    says(SQLOCK_EDENIED, point(SQLOCK_SAVEPOINT_SET));
    z.denied = SQLITE_PRAGMA; /* then we read no setting, and change none */
    write_and_undo();
    z.calls = 0;
    app_exec(g.app, "COMMIT");
    assert_true(z.calls > 0);
}

/* Codes as fine as we need them, though the application has not asked for them. */
TEST(test_extended_result_codes_stay_off)
{
    begin(w, "WAL");
    app_exec(g.app, "BEGIN");
    point_ok(SQLOCK_SAVEPOINT_SET);
    refused("UPDATE main.app_row SET n = 7 WHERE id = 1", SQLOCK_EDB, "23514");
    assert_int_equal(said.native, SQLITE_CONSTRAINT_CHECK);
    point_ok(SQLOCK_SAVEPOINT_UNDO);
    assert_int_equal(try_exec(g.app, "UPDATE app_row SET n = 7"), SQLITE_CONSTRAINT);
}

/* ---- transactions that cannot go on ---------------------------------------------------------- */

/* It goes on reading, and only the application can end it. */
static void only_a_restart_helps(void)
{
    point_ok(SQLOCK_SAVEPOINT_SET);
    refused(OUR_WRITE, SQLOCK_EDB, "40001");
    assert_non_null(strstr(said.text, "restart"));
    point_ok(SQLOCK_SAVEPOINT_UNDO);
    assert_int_equal(seen_by(g.app), 10);
}

TEST(test_transaction_that_has_read_meets_a_writer_and_has_to_restart)
{
    void *other = begin(w, "DELETE");

    for (size_t j = 0; j < JOURNALS; j++) {
        use_journal(journals[j]);
        sqlite3_busy_timeout(native(g.app), 60000);
        app_exec(other, "BEGIN IMMEDIATE; UPDATE app_row SET n = 0 WHERE id = 1");
        app_exec(g.app, "BEGIN");
        assert_int_equal(seen_by(g.app), 10);
        only_a_restart_helps();
        app_exec(g.app, "ROLLBACK");
        app_exec(other, "COMMIT");
        app_exec(g.app, "BEGIN");
        write_and_undo();
        app_exec(g.app, "COMMIT");
        assert_int_equal(seen_by(other), 100);
    }
}

TEST(test_transaction_that_has_read_what_is_old_by_now_has_to_restart)
{
    void *other;
    other = begin(w, "WAL");
    app_exec(g.app, "BEGIN");
    assert_int_equal(seen_by(g.app), 10);
    app_exec(other, "UPDATE app_row SET n = 0 WHERE id = 1");
    only_a_restart_helps();
    assert_int_equal(said.code, SQLOCK_EDB);
}

TEST(test_transaction_that_a_full_disk_ended_is_reported)
{
    void *other = begin(w, "DELETE");

    for (size_t j = 0; j < JOURNALS; j++) {
        use_journal(journals[j]);
        app_exec(g.app, "PRAGMA max_page_count = 1");
        app_exec(g.app, "BEGIN; UPDATE app_row SET n = 11 WHERE id = 1");
        point_ok(SQLOCK_SAVEPOINT_SET);
        says(SQLOCK_EFULL, run("INSERT INTO main.app_row VALUES (60, zeroblob(90000))"));
        assert_int_equal(said.flags & (SQLOCK_MAYBE | SQLOCK_RECONNECT), 0);
        assert_int_equal(g.adopter->tx_state(g.conn), SQLOCK_TX_IDLE);
        /* What core must not do then is refused, and begins nothing. */
        says(SQLOCK_ESTATE, point(SQLOCK_SAVEPOINT_UNDO));
        says(SQLOCK_ESTATE, point(SQLOCK_SAVEPOINT_SET));
        says(SQLOCK_ESTATE, run(OUR_WRITE));
        assert_int_equal(g.adopter->tx_state(g.conn), SQLOCK_TX_IDLE);
        assert_int_equal(seen_by(other), 10);
    }
}

/* SQLite would say that it has rolled back, and leave our change where it is. */
TEST(test_connection_without_a_journal_is_refused)
{
    begin(w, "OFF");
    app_exec(g.app, "BEGIN");
    says(SQLOCK_EREFUSED, point(SQLOCK_SAVEPOINT_SET));
    assert_non_null(strstr(said.text, "journal_mode"));
    assert_int_equal(g.adopter->tx_state(g.conn), SQLOCK_TX_ACTIVE);
    app_exec(g.app, "COMMIT");
}

/* Its SQLSTATE would give up a connection of ours: a folder lies where the journal is to be. */
TEST(test_failed_read_does_not_spend_the_connection)
{
    char journal[4300];

    begin(w, "DELETE");
    snprintf(journal, sizeof journal, "%s-journal", database_file(g.app));
    app_exec(g.app, "BEGIN");
    point_ok(SQLOCK_SAVEPOINT_SET);
    assert_int_equal(mkdir(journal, 0700), 0);
    says(SQLOCK_EFULL, run(OUR_WRITE));
    assert_int_equal(said.native & 0xff, SQLITE_IOERR);
    assert_int_equal(said.flags & (SQLOCK_MAYBE | SQLOCK_RECONNECT), 0);
    assert_int_equal(g.adopter->tx_state(g.conn), SQLOCK_TX_IDLE);
    assert_int_equal(rmdir(journal), 0);
    app_exec(g.app, "BEGIN");
    write_and_undo();
    app_exec(g.app, "COMMIT");
}

/* ---- which connections ----------------------------------------------------------------------- */

TEST(test_file_that_was_replaced_is_reported)
{
    begin(w, "DELETE");
    assert_int_equal(unlink(database_file(g.app)), 0);
    app_exec(g.app, "BEGIN");
    says(SQLOCK_EDB, run(OUR_WRITE));
    assert_int_equal(said.flags, SQLOCK_RECONNECT);
    assert_non_null(strstr(said.text, "replaced"));
}

TEST(test_connection_that_can_only_read_is_reported)
{
    begin(w, "DELETE");
    app_exec(g.app, "PRAGMA query_only = 1; BEGIN");
    point_ok(SQLOCK_SAVEPOINT_SET);
    refused(OUR_WRITE, SQLOCK_EREADONLY, "25006");
    ok(run(OUR_READ));
    point_ok(SQLOCK_SAVEPOINT_UNDO);
}

/* Its locks are on tables, and it waits for none. */
TEST(test_connections_that_share_a_cache_keep_each_other_out)
{
    void *other;

    sqlite3_enable_shared_cache(1);
    other = begin(w, "DELETE");
    sqlite3_enable_shared_cache(0);
    app_exec(other, "BEGIN; UPDATE app_row SET n = 0 WHERE id = 1");
    app_exec(g.app, "BEGIN");
    point_ok(SQLOCK_SAVEPOINT_SET);
    refused(OUR_WRITE, SQLOCK_EDB, "55P03");
    assert_int_equal(said.native, SQLITE_LOCKED_SHAREDCACHE);
    point_ok(SQLOCK_SAVEPOINT_UNDO);
    app_exec(other, "COMMIT");
    write_and_undo();
    app_exec(g.app, "COMMIT");
    assert_int_equal(seen_by(other), 100);
}

TEST_MAIN_ON(sqlite)
