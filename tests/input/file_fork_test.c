/* P17: SQLite files in a child of a process that has, or had, some open. */
#include <pthread.h>
#include <sqlite3.h>
#include <sqlock/driver.h>
#include <sqlock/sqlite.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/input/file.h"

static sqlock_error err;

struct factory {
    const char *path;
    sqlite3_stmt *left; /* what the application forgets in its connection, if keep is set */
    int keep, calls;
};

static int connect_file(void *user, void **out_native, sqlock_error *out_err)
{
    struct factory *f = user;
    sqlite3 *db = NULL;

    f->calls++;
    if (sqlite3_open(f->path, &db) != SQLITE_OK)
        return sqlock_error_set(out_err, SQLOCK_EUNREACH, 0, "%s", sqlite3_errmsg(db));
    if (f->keep)
        sqlite3_prepare_v2(db, "SELECT 1", -1, &f->left, NULL);
    *out_native = db;
    return 0;
}

static struct db made_by(struct factory *f)
{
    return (struct db){
        .driver = sqlock_driver_sqlite(), .connect = connect_file, .connect_user = f};
}

/* ---- what is refused ------------------------------------------------------------------------- */

static int factory_is_not_called(void *arg)
{
    struct factory *f = arg;

    f->calls = 0;
    assert_code(SQLOCK_EREFUSED, db_try(made_by(f), &err), &err);
    assert_int_equal(f->calls, 0);
    return 0;
}

static int refused(void *path)
{
    assert_error(SQLOCK_EREFUSED, "forked", try_open(path, &err), &err);
    return 0;
}

static int allowed(void *path)
{
    use(path);
    return 0;
}

/* Also a failed open has been inside SQLite, and may have left something. */
static int allowed_after_failures(void *path)
{
    assert_code(SQLOCK_EUNREACH, try_open(textf("%s/no folder", (char *)path), &err), &err);
    in_child(allowed, path);
    return 0;
}

TEST(test_child_calls_no_factory_for_what_it_may_not_have)
{
    char *path = new_migrated();
    struct factory f = {.path = path};
    sqlock *m = db_open(made_by(&f));

    assert_int_equal(f.calls, 1);
    in_child(factory_is_not_called, &f);
    sqlock_close(m);
    in_child(allowed, path);
}

/* A mutex of SQLite's may be locked at the fork, and it guards all files. */
TEST(test_child_is_refused_files_that_its_parent_has_not_open_too)
{
    char *path = new_migrated(), *other = new_migrated();
    sqlock *m = db_open(file_db(path));

    in_child(refused, path);
    in_child(refused, other);
    sqlock_close(m);
    in_child(allowed, other);
}

TEST(test_open_that_failed_leaves_nothing_to_refuse_children_for)
{
    char *path = new_migrated();

    in_child(allowed_after_failures, path);
}

/* Such a connection outlives its manager, and SQLite remembers its locks. */
static int refused_after_a_statement_was_left(void *path)
{
    struct factory f = {.path = path, .keep = 1};
    sqlock *m = db_open(made_by(&f));

    sqlock_close(m);
    in_child(refused, path);
    sqlite3_finalize(f.left);
    use(path);
    return 0;
}

TEST(test_connection_that_outlives_its_manager_counts)
{
    char *path = new_migrated();

    in_child(refused_after_a_statement_was_left, path);
}

/* ---- what the application itself had open ---------------------------------------------------- */

/* A connection past the library, which has done as it was told. */
static sqlite3 *open_past(const char *path, const char *first, const char *then)
{
    sqlite3 *db = lite_open(path);

    lite_exec(db, first);
    lite_exec(db, then);
    return db;
}

static int refused_for_its_locks(void *path)
{
    assert_error(SQLOCK_EREFUSED, "locks", try_open(path, &err), &err);
    assert_says(&err, path);
    assert_code(SQLOCK_EREFUSED, try_migrate(path, &err), &err);
    return 0;
}

static int refused_in_a_child(void *path)
{
    in_child(refused_for_its_locks, path);
    return 0;
}

/* It would be granted what others hold: its WAL is removed as soon as the parent closes its own. */
TEST(test_child_is_refused_a_WAL_that_the_application_had_open)
{
    char *path = new_migrated(), *other = new_migrated();
    sqlite3 *db = open_past(path, "PRAGMA journal_mode = WAL", "SELECT * FROM sqlock_lock");

    use(path); /* where it was opened it may */
    in_child(refused_for_its_locks, path);
    in_child(refused_in_a_child, path);
    in_child(allowed, other);
    sqlite3_close(db);
    in_child(allowed, path);
}

TEST(test_child_is_refused_a_file_that_the_application_was_reading)
{
    char *path = new_without_wal();
    sqlite3 *db = open_past(path, "BEGIN", "SELECT * FROM sqlock_lock");

    in_child(refused_for_its_locks, path);
    /* Outside of a transaction SQLite remembers no lock without a WAL. */
    lite_exec(db, "COMMIT");
    in_child(allowed, path);
    sqlite3_close(db);
}

enum { OPENERS = 4, OPENS = 15 };

/* SQLite's, too: the file goes on to be open for a while after SQLite has seen that nobody has a
 * lock. Who takes one meanwhile loses it by the close(). */
static _Atomic int slow_close_us;

__attribute__((visibility("default"))) int close(int fd)
{
    if (slow_close_us > 0)
        usleep((useconds_t)slow_close_us);
    return (int)syscall(SYS_close, fd);
}

static void *open_again_and_again(void *path)
{
    sqlock_error own;

    for (int i = 0; i < OPENS; i++) {
        if (try_open(path, &own) != 0) {
            print_error("%s\n", own.text);
            return path;
        }
    }
    return NULL;
}

/* The lock that they share is in the name of one of them, which may have closed its connection. */
static int many_open_at_once(void *path)
{
    sqlite3 *db = open_past(path, "SELECT 1", "SELECT * FROM sqlock_lock");
    pthread_t threads[OPENERS];
    void *failed = NULL, *any = NULL;

    for (int i = 0; i < OPENERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, open_again_and_again, path), 0);
    for (int i = 0; i < OPENERS; i++) {
        pthread_join(threads[i], &failed);
        any = failed != NULL ? failed : any;
    }
    sqlite3_close(db);
    return any != NULL;
}

TEST(test_child_that_opened_its_connections_itself_is_not_refused)
{
    char *path = new_migrated();

    in_child(many_open_at_once, path);
    lite_exec_at(path, "PRAGMA journal_mode = WAL");
    in_child(many_open_at_once, path);
}

TEST(test_lock_that_a_close_of_the_same_process_took_away_is_taken_again)
{
    char *path = new_migrated();

    slow_close_us = 300;
    in_child(many_open_at_once, path);
    slow_close_us = 0;
}

TEST_MAIN_EACH(NULL, NULL)
