/* SQLite files that are reached by two names: what is locked under one must be locked under the
 * other, or refused. A WAL goes by its file's name, so two names are two holders (P1). */
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <sqlock/sqlite.h>
#include <sqlock/transaction.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/input/file.h"

static sqlock_error err;

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
struct held {
    char *path;
    sqlock *m;
    sqlock_lock *lock;
};

static struct held hold(const char *mode)
{
    struct held h = {.path = new_migrated()};
    struct db db = file_db(h.path);

    db.request_ms = 500;
    lite_exec_at(h.path, mode);
    h.m = db_open(db);
    h.lock = lock_now(h.m, "nightly");
    return h;
}

static void let_go(struct held h)
{
    lock_give(h.lock);
    sqlock_close(h.m);
}

/* As when its process is killed. */
static void forsake(struct held h)
{
    sqlock_lock_free(h.lock);
    sqlock_close(h.m);
}

/* What a guard of it says by this name of the file, on a connection of an application's. */
static int guard_at(struct held h, const char *path)
{
    sqlite3 *app = lite_open(path);
    sqlock_conn *conn = NULL;
    int rc;

    assert_ok(sqlock_adopt_sqlite(h.m, app, &conn, &err), &err);
    lite_exec(app, "BEGIN IMMEDIATE");
    rc = sqlock_guard(h.lock, conn, &err);
    sqlock_conn_free(conn);
    sqlite3_close(app);
    return rc;
}

/* ---- links ----------------------------------------------------------------------------------- */

TEST(test_P1_a_file_with_two_names_is_refused_and_taken_again_with_one)
{
    for (int i = 0; i < MODES; i++) {
        struct held h = hold(modes[i]);
        char *other = textf("%s.too", h.path);
        sqlock_lock *none = NULL;

        assert_int_equal(link(h.path, other), 0);
        assert_error(SQLOCK_EREFUSED, "names", try_open(other, &err), &err);
        assert_error(SQLOCK_EREFUSED, "names", try_open(h.path, &err), &err);
        assert_error(SQLOCK_EREFUSED, "names", try_migrate(other, &err), &err);
        assert_error(SQLOCK_EREFUSED, "names", lock_try(h.m, "new", 0, &none, &err), &err);
        assert_error(SQLOCK_EREFUSED, "names", sqlock_renew(h.lock, &err), &err);
        assert_true(sqlock_is_held(h.lock)); /* to its deadline */
        assert_int_equal(unlink(other), 0);
        assert_ok(sqlock_renew(h.lock, &err), &err);
        let_go(h);
    }
}

TEST(test_P11_a_guard_on_the_other_name_is_refused)
{
    struct held h = hold(modes[0]);
    char *other = textf("%s.too", h.path);

    assert_int_equal(link(h.path, other), 0);
    assert_error(SQLOCK_EREFUSED, "names", guard_at(h, other), &err);
    assert_int_equal(unlink(other), 0);
    let_go(h);
}

/* The copy has the lease's row, and keeps nobody out of the file. */
TEST(test_P11_a_guard_on_a_copy_of_the_file_is_refused)
{
    for (int i = 0; i < MODES; i++) {
        struct held h = hold(modes[i]);
        char *copy = textf("%s.copy", h.path);

        lite_exec_at(h.path, textf("VACUUM INTO '%s'", copy));
        assert_error(SQLOCK_EREFUSED, "another", guard_at(h, copy), &err);
        assert_ok(guard_at(h, h.path), &err);
        let_go(h);
    }
}

TEST(test_P1_symbolic_links_lead_to_one_file)
{
    for (int i = 0; i < MODES; i++) {
        struct held h = hold(modes[i]);
        char *folder = textf("%.*s", (int)(strrchr(h.path, '/') - h.path), h.path);
        char *link_to_file = textf("%s.link", h.path), *link_to_folder = textf("%s.link", folder);
        const char *const ways[] = {link_to_file, textf("%s/db", link_to_folder)};

        assert_int_equal(symlink(h.path, link_to_file), 0);
        assert_int_equal(symlink(folder, link_to_folder), 0);
        for (size_t w = 0; w < 2; w++) {
            sqlock *m = db_open(file_db(ways[w]));
            sqlock_lock *none = NULL;

            assert_code(SQLOCK_EBUSY, lock_try(m, "nightly", 0, &none, &err), &err);
            sqlock_close(m);
        }
        unlink(link_to_folder);
        let_go(h);
    }
}

/* The link leads to the same file again, but the WAL that is open has the old name. */
TEST(test_P1_a_file_renamed_behind_its_link_is_noticed)
{
    char *path = new_migrated(), *renamed = textf("%s.new", path),
         *by_link = textf("%s.link", path);
    sqlock_lock *a = NULL, *b = NULL;
    sqlock *m, *m2 = NULL;
    int mine, theirs;

    lite_exec_at(path, modes[0]);
    assert_int_equal(symlink(path, by_link), 0);
    m = db_open(file_db(by_link));
    lock_give(lock_now(m, "first"));
    assert_int_equal(rename(path, renamed), 0);
    assert_int_equal(unlink(by_link), 0);
    assert_int_equal(symlink(renamed, by_link), 0);
    mine = lock_try(m, "nightly", 0, &a, &err);
    theirs = db_open_to(file_db(by_link), &m2, &err);
    if (theirs == SQLOCK_OK)
        theirs = lock_try(m2, "nightly", 0, &b, &err);
    if (mine == SQLOCK_OK && theirs == SQLOCK_OK)
        fail_msg("two holders");
    sqlock_lock_free(a);
    sqlock_lock_free(b);
    sqlock_close(m);
    sqlock_close(m2);
}

static const char *const sides[] = {"-wal", "-shm"};

/* Somebody "tidies up" a WAL that is in use: who comes next has another one. */
TEST(test_P1_a_removed_wal_is_noticed)
{
    for (size_t i = 0; i < 2; i++) {
        struct held h = hold(modes[0]);
        char *side = textf("%s%s", h.path, sides[i]);
        sqlite3 *app = lite_open(h.path); /* keeps what was removed in use */

        lite_exec(app, "SELECT * FROM sqlite_master");
        assert_int_equal(unlink(side), 0);
        assert_true(sqlock_renew(h.lock, &err) < 0);
        write_file(side, "", 0); /* as the next one's */
        assert_true(sqlock_renew(h.lock, &err) < 0);
        forsake(h);
        sqlite3_close(app);
        unlink(side);
        use(h.path);
    }
}

/* The manager was opened without a WAL, and the application made one since. */
TEST(test_P1_a_removed_wal_of_a_file_that_became_wal_is_noticed)
{
    struct held h = hold(modes[1]);
    sqlite3 *app = lite_open(h.path); /* keeps what was removed in use */
    sqlock_lock *lock;

    lite_exec(app, modes[0]);
    lite_exec(app, "SELECT * FROM sqlite_master");
    lock = lock_now(h.m, "in the WAL");
    assert_int_equal(unlink(textf("%s-wal", h.path)), 0);
    assert_true(sqlock_renew(lock, &err) < 0);
    sqlock_lock_free(lock);
    forsake(h);
    sqlite3_close(app);
}

TEST(test_a_wal_that_is_a_link_is_refused)
{
    for (size_t i = 0; i < 2; i++) {
        struct held h = hold(modes[0]);
        char *side = textf("%s%s", h.path, sides[i]), *other = textf("%s.too", side);

        assert_int_equal(link(side, other), 0);
        assert_error(SQLOCK_EREFUSED, "names", sqlock_renew(h.lock, &err), &err);
        assert_error(SQLOCK_EREFUSED, "names", try_open(h.path, &err), &err);
        assert_int_equal(unlink(other), 0);
        let_go(h); /* and SQLite removes both */
        write_file(other, "", 0);
        assert_int_equal(symlink(other, side), 0);
        assert_true(try_open(h.path, &err) < 0);
    }
}

/* ---- mounts ---------------------------------------------------------------------------------- */

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

    lock_now(db_open(file_db(t->path)), "nightly");
    write_file(textf("%s/held", t->dir), "", 0);
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
    char *path = textf("%s/db", t->dir);
    sqlock_lock *none = NULL;
    sqlock *m = NULL;
    int rc;

    if (t->alone)
        write_file(path, "", 0);
    else
        *strrchr(t->path, '/') = '\0';
    if (!bind_mount(t->path, t->alone ? path : t->dir))
        return NOT_HERE;
    no_mount_ids = t->old_kernel;
    rc = db_open_to(file_db(path), &m, &err);
    if (t->alone)
        assert_error(SQLOCK_EREFUSED, "mount the folder", rc, &err);
    else
        assert_code(SQLOCK_EBUSY, lock_try(m, "nightly", 0, &none, &err), &err);
    sqlock_close(m);
    return 0;
}

/* While it is open. */
static int use_until_mounted(void *arg)
{
    struct twice *t = arg;
    sqlock_lock *lock = lock_now(db_open(file_db(t->path)), "mine");

    if (!bind_mount(t->path, t->path))
        return NOT_HERE;
    assert_error(SQLOCK_EREFUSED, "mount the folder", sqlock_renew(lock, &err), &err);
    assert_int_equal(umount(t->path), 0);
    assert_ok(sqlock_renew(lock, &err), &err);
    return 0;
}

#define SKIPPED "a file under two names: nothing may be mounted here"

TEST(test_P1_a_file_mounted_alone_is_refused_and_its_folder_is_not)
{
    for (int i = 0; i < 8; i++) {
        char *path = new_migrated();
        struct twice t = {path, temp_dir(), i & 1, i >> 1 & 1};
        char *held = textf("%s/held", t.dir);
        pid_t child;

        lite_exec_at(path, modes[i >> 2]);
        child = child_start(holder, &t);
        while (access(held, F_OK) != 0 && !child_ended(child))
            usleep(1000);
        in_child_or_skip(use_mounted, &t, SKIPPED);
        kill(child, SIGKILL);
        child_wait(child, 5000);
    }
}

TEST(test_P1_a_file_that_is_mounted_alone_while_it_is_open_is_noticed)
{
    for (int i = 0; i < MODES; i++) {
        char *path = new_migrated();
        struct twice t = {path, temp_dir(), 1, 0};

        lite_exec_at(path, modes[i]);
        in_child_or_skip(use_until_mounted, &t, SKIPPED);
    }
}

TEST_MAIN_EACH(NULL, NULL)
