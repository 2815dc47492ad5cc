/* SQLite files that are reached by two names: what is locked under one must be locked under the
 * other, or refused. A WAL goes by its file's name, so two names are two holders with one token
 * (P1). */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <sqlock/driver.h>
#include <sqlock/sqlite.h>
#include <sqlock/transaction.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/input/file.h"

/* An older kernel, in place of libc's: it does not tell mounts. */
static int no_mount_ids;

int statx(int fd, const char *restrict path, int flags, unsigned mask, struct statx *restrict out)
{
    const long rc = syscall(SYS_statx, fd, path, flags, mask, out);

    if (no_mount_ids)
        out->stx_mask &= ~STATX_MNT_ID;
    return (int)rc;
}

static const char *const modes[] = {"PRAGMA journal_mode=WAL", "PRAGMA journal_mode=DELETE"};
enum { MODES = sizeof modes / sizeof *modes };

/* A held lock, "nightly", in a new file. */
static char *hold(const char *mode, sqlock **out_m, sqlock_lock **out_lock)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    char *path = new_migrated();
    sqlock_error err;

    o.request_ms = 500;
    sql(path, mode);
    assert_ok(sqlock_open(sqlock_driver_sqlite(), url_of(path), &o, out_m, &err), &err);
    assert_ok(try_acquire(*out_m, "nightly", 0, out_lock, &err), &err);
    return path;
}

static void let_go(char *path, sqlock *m, sqlock_lock *lock)
{
    sqlock_error err;

    assert_ok(sqlock_release(lock, &err), &err);
    sqlock_lock_free(lock);
    sqlock_close(m);
    free(path);
}

static void assert_refused(int rc, const sqlock_error *err, const char *why)
{
    assert_code(SQLOCK_EREFUSED, rc, err);
    if (strstr(err->text, why) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", err->text, why);
}

/* ---- links -------------------------------------------------------------------------------------
 */

static void test_P1_a_file_with_two_names_is_refused_and_taken_again_with_one(void **state)
{
    (void)state;
    for (int i = 0; i < MODES; i++) {
        sqlock_lock *lock = NULL, *none = NULL;
        sqlock *m = NULL;
        char *path = hold(modes[i], &m, &lock), other[4200];
        sqlock_error err;

        snprintf(other, sizeof other, "%s.too", path);
        assert_int_equal(link(path, other), 0);
        assert_refused(try_open(other, &err), &err, "names");
        assert_refused(try_open(path, &err), &err, "names");
        assert_refused(try_migrate(other, &err), &err, "names");
        assert_refused(try_acquire(m, "new", 0, &none, &err), &err, "names");
        assert_refused(sqlock_renew(lock, &err), &err, "names");
        assert_true(sqlock_is_held(lock)); /* to its deadline */
        assert_int_equal(unlink(other), 0);
        assert_ok(sqlock_renew(lock, &err), &err);
        let_go(path, m, lock);
    }
}

static void test_P11_a_guard_on_the_other_name_is_refused(void **state)
{
    sqlock_lock *lock = NULL;
    sqlock *m = NULL;
    char *path = hold(modes[0], &m, &lock), other[4200];
    sqlite3 *app = NULL;
    sqlock_conn *conn = NULL;
    sqlock_error err;

    (void)state;
    snprintf(other, sizeof other, "%s.too", path);
    assert_int_equal(link(path, other), 0);
    assert_int_equal(sqlite3_open(other, &app), SQLITE_OK);
    assert_ok(sqlock_adopt_sqlite(m, app, &conn, &err), &err);
    assert_int_equal(sqlite3_exec(app, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    assert_refused(sqlock_guard(lock, conn, &err), &err, "names");
    sqlock_conn_free(conn);
    sqlite3_close(app);
    assert_int_equal(unlink(other), 0);
    let_go(path, m, lock);
}

/* The copy has the lease's row, and keeps nobody out of the file. */
static void test_P11_a_guard_on_a_copy_of_the_file_is_refused(void **state)
{
    (void)state;
    for (int i = 0; i < MODES; i++) {
        sqlock_lock *lock = NULL;
        sqlock *m = NULL;
        char *path = hold(modes[i], &m, &lock), copy[4200], into[4300];
        const char *const files[] = {copy, path};
        sqlock_conn *conn = NULL;
        sqlite3 *app = NULL;
        sqlock_error err;

        snprintf(copy, sizeof copy, "%s.copy", path);
        snprintf(into, sizeof into, "VACUUM INTO '%s'", copy);
        sql(path, into);
        for (int own = 0; own < 2; own++) {
            assert_int_equal(sqlite3_open(files[own], &app), SQLITE_OK);
            assert_ok(sqlock_adopt_sqlite(m, app, &conn, &err), &err);
            assert_int_equal(sqlite3_exec(app, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
            if (own)
                assert_ok(sqlock_guard(lock, conn, &err), &err);
            else
                assert_refused(sqlock_guard(lock, conn, &err), &err, "another");
            sqlock_conn_free(conn);
            sqlite3_close(app);
        }
        let_go(path, m, lock);
    }
}

static void test_P1_symbolic_links_lead_to_one_file(void **state)
{
    (void)state;
    for (int i = 0; i < MODES; i++) {
        sqlock_lock *lock = NULL, *none = NULL;
        sqlock *m = NULL, *m2 = NULL;
        char *path = hold(modes[i], &m, &lock), by_file[4200], by_folder[4300], folder[4200];
        const char *const ways[] = {by_file, by_folder};
        sqlock_error err;

        snprintf(by_file, sizeof by_file, "%s.link", path);
        snprintf(folder, sizeof folder, "%s.folder", path);
        snprintf(by_folder, sizeof by_folder, "%s%s", folder, strrchr(path, '/'));
        assert_int_equal(symlink(path, by_file), 0);
        *strrchr(path, '/') = '\0';
        assert_int_equal(symlink(path, folder), 0);
        path[strlen(path)] = '/';
        for (size_t w = 0; w < 2; w++) {
            assert_ok(open_file(ways[w], &m2, &err), &err);
            assert_code(SQLOCK_EBUSY, try_acquire(m2, "nightly", 0, &none, &err), &err);
            sqlock_close(m2);
        }
        let_go(path, m, lock);
    }
}

/* The link leads to the same file again, but the WAL that is open has the old name. */
static void test_P1_a_file_renamed_behind_its_link_is_noticed(void **state)
{
    char *path = new_migrated(), renamed[4200], by_link[4200];
    sqlock_lock *a = NULL, *b = NULL;
    sqlock *m = NULL, *m2 = NULL;
    sqlock_error err;
    int mine, theirs;

    (void)state;
    sql(path, modes[0]);
    snprintf(renamed, sizeof renamed, "%s.new", path);
    snprintf(by_link, sizeof by_link, "%s.link", path);
    assert_int_equal(symlink(path, by_link), 0);
    assert_ok(open_file(by_link, &m, &err), &err);
    assert_ok(try_acquire(m, "first", 0, &a, &err), &err);
    assert_ok(sqlock_release(a, &err), &err);
    sqlock_lock_free(a);
    assert_int_equal(rename(path, renamed), 0);
    assert_int_equal(unlink(by_link), 0);
    assert_int_equal(symlink(renamed, by_link), 0);
    mine = try_acquire(m, "nightly", 0, &a, &err);
    theirs = open_file(by_link, &m2, &err);
    if (theirs == SQLOCK_OK)
        theirs = try_acquire(m2, "nightly", 0, &b, &err);
    if (mine == SQLOCK_OK && theirs == SQLOCK_OK)
        fail_msg("two holders");
    sqlock_lock_free(a);
    sqlock_lock_free(b);
    sqlock_close(m);
    sqlock_close(m2);
    free(path);
}

/* Somebody "tidies up" a WAL that is in use: who comes next has another one. */
static void test_P1_a_removed_wal_is_noticed(void **state)
{
    static const char *const sides[] = {"-wal", "-shm"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        sqlock_lock *lock = NULL;
        sqlock *m = NULL;
        char *path = hold(modes[0], &m, &lock), side[4200];
        sqlock_error err;

        snprintf(side, sizeof side, "%s%s", path, sides[i]);
        assert_int_equal(unlink(side), 0);
        assert_true(sqlock_renew(lock, &err) < 0);
        write_file(side, "", 0); /* as the next one's */
        assert_true(sqlock_renew(lock, &err) < 0);
        sqlock_lock_free(lock);
        sqlock_close(m);
        unlink(side);
        use(path);
        free(path);
    }
}

/* The manager was opened without a WAL, and the application made one since. */
static void test_P1_a_removed_wal_of_a_file_that_became_wal_is_noticed(void **state)
{
    sqlock_lock *before = NULL, *lock = NULL;
    sqlock *m = NULL;
    char *path = hold(modes[1], &m, &before), side[4200];
    sqlite3 *app = NULL; /* keeps what was removed in use */
    sqlock_error err;

    (void)state;
    assert_int_equal(sqlite3_open(path, &app), SQLITE_OK);
    assert_int_equal(sqlite3_exec(app, modes[0], NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_exec(app, "SELECT * FROM sqlite_master", NULL, NULL, NULL), SQLITE_OK);
    assert_ok(try_acquire(m, "in the WAL", 0, &lock, &err), &err);
    snprintf(side, sizeof side, "%s-wal", path);
    assert_int_equal(unlink(side), 0);
    assert_true(sqlock_renew(lock, &err) < 0);
    sqlock_lock_free(lock);
    sqlock_lock_free(before);
    sqlock_close(m);
    sqlite3_close(app);
    free(path);
}

static void test_a_wal_that_is_a_link_is_refused(void **state)
{
    static const char *const sides[] = {"-wal", "-shm"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        sqlock_lock *lock = NULL;
        sqlock *m = NULL;
        char *path = hold(modes[0], &m, &lock), side[4200], other[4300];
        sqlock_error err;

        snprintf(side, sizeof side, "%s%s", path, sides[i]);
        snprintf(other, sizeof other, "%s.too", side);
        assert_int_equal(link(side, other), 0);
        assert_refused(sqlock_renew(lock, &err), &err, "names");
        assert_refused(try_open(path, &err), &err, "names");
        assert_int_equal(unlink(other), 0);
        assert_ok(sqlock_release(lock, &err), &err);
        sqlock_lock_free(lock);
        sqlock_close(m); /* and SQLite removes both */
        write_file(other, "", 0);
        assert_int_equal(symlink(other, side), 0);
        assert_true(try_open(path, &err) < 0);
        free(path);
    }
}

/* ---- mounts ------------------------------------------------------------------------------------
 */

struct twice {
    char *path;
    const char *dir;
    int alone; /* the file, else its folder */
    int old_kernel;
};

/* Holds "nightly" until it is killed. */
static int holder(void *arg)
{
    const struct twice *t = arg;
    char *held = path_in(t->dir, "held");
    sqlock_lock *lock = NULL;
    sqlock_error err;
    sqlock *m = NULL;

    assert_ok(open_file(t->path, &m, &err), &err);
    assert_ok(try_acquire(m, "nightly", 0, &lock, &err), &err);
    write_file(held, "", 0);
    pause();
    return 0;
}

static int bind_mount(const char *from, const char *to)
{
    return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount(from, to, NULL, MS_BIND, NULL) == 0;
}

/* As a container does, with the lock held outside. */
static int use_mounted(void *arg)
{
    struct twice *t = arg;
    char *path = path_in(t->dir, "db");
    sqlock_lock *none = NULL;
    sqlock_error err;
    sqlock *m = NULL;
    int rc;

    if (t->alone)
        write_file(path, "", 0);
    else
        *strrchr(t->path, '/') = '\0';
    if (!bind_mount(t->path, t->alone ? path : t->dir))
        return NOT_HERE;
    no_mount_ids = t->old_kernel;
    rc = open_file(path, &m, &err);
    if (t->alone)
        assert_refused(rc, &err, "mount the folder");
    else
        assert_code(SQLOCK_EBUSY, try_acquire(m, "nightly", 0, &none, &err), &err);
    sqlock_close(m);
    return 0;
}

/* While it is open. */
static int use_until_mounted(void *arg)
{
    struct twice *t = arg;
    sqlock_lock *lock = NULL;
    sqlock_error err;
    sqlock *m = NULL;

    assert_ok(open_file(t->path, &m, &err), &err);
    assert_ok(try_acquire(m, "mine", 0, &lock, &err), &err);
    if (!bind_mount(t->path, t->path))
        return NOT_HERE;
    assert_refused(sqlock_renew(lock, &err), &err, "mount the folder");
    assert_int_equal(umount(t->path), 0);
    assert_ok(sqlock_renew(lock, &err), &err);
    return 0;
}

static void in_child(int (*fn)(void *), struct twice *t)
{
    int result = child_wait(child_start(fn, t), 20000);

    if (result == NOT_HERE) {
        print_error("SKIP: a file under two names: nothing may be mounted here\n");
        if (test_strict() && geteuid() == 0)
            fail_msg("STRICT=1 asks for every test");
        skip();
    }
    assert_int_equal(result, 0);
}

static void test_P1_a_file_mounted_alone_is_refused_and_its_folder_is_not(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        char *path = new_migrated();
        struct twice t = {path, temp_dir(), i & 1, i >> 1 & 1};
        pid_t child;
        char *held;

        sql(path, modes[i >> 2]);
        child = child_start(holder, &t);
        held = path_in(t.dir, "held");
        while (access(held, F_OK) != 0 && !child_ended(child))
            usleep(1000);
        in_child(use_mounted, &t);
        kill(child, SIGKILL);
        child_wait(child, 5000);
        free(held);
        free(path);
    }
}

static void test_P1_a_file_that_is_mounted_alone_while_it_is_open_is_noticed(void **state)
{
    (void)state;
    for (int i = 0; i < MODES; i++) {
        char *path = new_migrated();
        struct twice t = {path, temp_dir(), 1, 0};

        sql(path, modes[i]);
        in_child(use_until_mounted, &t);
        free(path);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_P1_a_file_mounted_alone_is_refused_and_its_folder_is_not),
    cmocka_unit_test(test_P1_a_file_that_is_mounted_alone_while_it_is_open_is_noticed),
    cmocka_unit_test(test_P1_a_file_with_two_names_is_refused_and_taken_again_with_one),
    cmocka_unit_test(test_P11_a_guard_on_the_other_name_is_refused),
    cmocka_unit_test(test_P11_a_guard_on_a_copy_of_the_file_is_refused),
    cmocka_unit_test(test_P1_symbolic_links_lead_to_one_file),
    cmocka_unit_test(test_P1_a_file_renamed_behind_its_link_is_noticed),
    cmocka_unit_test(test_P1_a_removed_wal_is_noticed),
    cmocka_unit_test(test_P1_a_removed_wal_of_a_file_that_became_wal_is_noticed),
    cmocka_unit_test(test_a_wal_that_is_a_link_is_refused),
};

TEST_MAIN(tests)
