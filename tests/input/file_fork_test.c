/* P17: SQLite files in a child of a process that has, or had, some open. */
#include <pthread.h>
#include <sqlite3.h>
#include <sqlock/driver.h>
#include <sqlock/sqlite.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/input/file.h"

struct factory {
    const char *path;
    sqlite3_stmt *left; /* what the application forgets in its connection, if keep is set */
    int keep, calls;
};

static int connect_file(void *user, void **out_native, sqlock_error *err)
{
    struct factory *f = user;
    sqlite3 *db = NULL;

    f->calls++;
    if (sqlite3_open(f->path, &db) != SQLITE_OK)
        return sqlock_error_set(err, SQLOCK_EUNREACH, 0, "%s", sqlite3_errmsg(db));
    if (f->keep)
        sqlite3_prepare_v2(db, "SELECT 1", -1, &f->left, NULL);
    *out_native = db;
    return 0;
}

static int open_by(struct factory *f, sqlock **out_m, sqlock_error *err)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;

    memset(err, 0, sizeof *err);
    o.connect = connect_file;
    o.connect_user = f;
    return sqlock_open(sqlock_driver_sqlite(), NULL, &o, out_m, err);
}

/* ---- what is refused ---------------------------------------------------------------------------
 */

static int factory_is_not_asked(void *arg)
{
    struct factory *f = arg;
    sqlock_error err;
    sqlock *m = NULL;

    f->calls = 0;
    assert_code(SQLOCK_EREFUSED, open_by(f, &m, &err), &err);
    assert_int_equal(f->calls, 0);
    return 0;
}

static int refused(void *path)
{
    sqlock_error err;

    assert_code(SQLOCK_EREFUSED, try_open(path, &err), &err);
    assert_non_null(strstr(err.text, "forked"));
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
    char *none = path_in(path, "no folder");
    sqlock_error err;

    assert_code(SQLOCK_EUNREACH, try_open(none, &err), &err);
    free(none);
    return child_wait(child_start(allowed, path), patience_ms(10000));
}

static int in_child(int (*fn)(void *), void *arg)
{
    return child_wait(child_start(fn, arg), patience_ms(20000));
}

static void test_child_asks_no_factory_for_what_it_may_not_have(void **state)
{
    char *path = new_migrated();
    struct factory f = {.path = path};
    sqlock_error err;
    sqlock *m = NULL;

    (void)state;
    assert_ok(open_by(&f, &m, &err), &err);
    assert_int_equal(f.calls, 1);
    assert_int_equal(in_child(factory_is_not_asked, &f), 0);
    sqlock_close(m);
    assert_int_equal(in_child(allowed, path), 0);
    free(path);
}

/* A mutex of SQLite's may be locked at the fork, and it guards all files. */
static void test_child_is_refused_files_that_its_parent_has_not_open_too(void **state)
{
    char *path = new_migrated(), *other = new_migrated();
    sqlock_error err;
    sqlock *m = NULL;

    (void)state;
    assert_ok(open_file(path, &m, &err), &err);
    assert_int_equal(in_child(refused, path), 0);
    assert_int_equal(in_child(refused, other), 0);
    sqlock_close(m);
    assert_int_equal(in_child(allowed, other), 0);
    free(path);
    free(other);
}

static void test_open_that_failed_leaves_nothing_to_refuse_children_for(void **state)
{
    char *path = new_migrated();

    (void)state;
    assert_int_equal(in_child(allowed_after_failures, path), 0);
    free(path);
}

/* Such a connection outlives its manager, and SQLite remembers its locks. */
static int refused_after_a_statement_was_left(void *path)
{
    struct factory f = {.path = path, .keep = 1};
    sqlock_error err;
    sqlock *m = NULL;

    assert_ok(open_by(&f, &m, &err), &err);
    sqlock_close(m);
    assert_int_equal(in_child(refused, path), 0);
    sqlite3_finalize(f.left);
    use(path);
    return 0;
}

static void test_connection_that_outlives_its_manager_counts(void **state)
{
    char *path = new_migrated();

    (void)state;
    assert_int_equal(in_child(refused_after_a_statement_was_left, path), 0);
    free(path);
}

/* ---- what the application itself had open ------------------------------------------------------
 */

/* A connection past the library, which has done as it was told. */
static sqlite3 *open_past(const char *path, const char *first, const char *then)
{
    sqlite3 *db = NULL;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, first, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, then, NULL, NULL, NULL), SQLITE_OK);
    return db;
}

static int refused_for_its_locks(void *path)
{
    sqlock_error err;

    assert_code(SQLOCK_EREFUSED, try_open(path, &err), &err);
    assert_non_null(strstr(err.text, "locks"));
    assert_non_null(strstr(err.text, path));
    assert_code(SQLOCK_EREFUSED, try_migrate(path, &err), &err);
    return 0;
}

static int refused_in_a_child(void *path)
{
    return in_child(refused_for_its_locks, path);
}

/* It would be granted what others hold: its WAL is removed as soon as the parent closes its own. */
static void test_child_is_refused_a_WAL_that_the_application_had_open(void **state)
{
    char *path = new_migrated(), *other = new_migrated();
    sqlite3 *db = open_past(path, "PRAGMA journal_mode = WAL", "SELECT * FROM sqlock_lock");

    (void)state;
    use(path); /* where it was opened it may */
    assert_int_equal(in_child(refused_for_its_locks, path), 0);
    assert_int_equal(in_child(refused_in_a_child, path), 0);
    assert_int_equal(in_child(allowed, other), 0);
    sqlite3_close(db);
    assert_int_equal(in_child(allowed, path), 0);
    free(path);
    free(other);
}

static void test_child_is_refused_a_file_that_the_application_was_reading(void **state)
{
    char *path = new_migrated();
    sqlite3 *db = open_past(path, "BEGIN", "SELECT * FROM sqlock_lock");

    (void)state;
    assert_int_equal(in_child(refused_for_its_locks, path), 0);
    /* Outside of a transaction SQLite remembers no lock without a WAL. */
    assert_int_equal(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(in_child(allowed, path), 0);
    sqlite3_close(db);
    free(path);
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
    for (int i = 0; i < OPENS; i++) {
        sqlock_error err = {0};
        sqlock *m = NULL;
        char url[4200];

        snprintf(url, sizeof url, "sqlite:%s", (const char *)path);
        if (sqlock_open(sqlock_driver_sqlite(), url, NULL, &m, &err) != 0) {
            print_error("%s\n", err.text);
            return path;
        }
        sqlock_close(m);
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

static void test_child_that_opened_its_connections_itself_is_not_refused(void **state)
{
    char *path = new_migrated();

    (void)state;
    assert_int_equal(in_child(many_open_at_once, path), 0);
    sql(path, "PRAGMA journal_mode = WAL");
    assert_int_equal(in_child(many_open_at_once, path), 0);
    free(path);
}

static void test_lock_that_a_close_of_the_same_process_took_away_is_taken_again(void **state)
{
    char *path = new_migrated();

    (void)state;
    slow_close_us = 300;
    assert_int_equal(in_child(many_open_at_once, path), 0);
    slow_close_us = 0;
    free(path);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_child_asks_no_factory_for_what_it_may_not_have),
    cmocka_unit_test(test_child_is_refused_files_that_its_parent_has_not_open_too),
    cmocka_unit_test(test_open_that_failed_leaves_nothing_to_refuse_children_for),
    cmocka_unit_test(test_connection_that_outlives_its_manager_counts),
    cmocka_unit_test(test_child_is_refused_a_WAL_that_the_application_had_open),
    cmocka_unit_test(test_child_is_refused_a_file_that_the_application_was_reading),
    cmocka_unit_test(test_child_that_opened_its_connections_itself_is_not_refused),
    cmocka_unit_test(test_lock_that_a_close_of_the_same_process_took_away_is_taken_again),
};

TEST_MAIN(tests)
