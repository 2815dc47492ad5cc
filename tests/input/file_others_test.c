/* SQLite files that others fill the disk of, replace, remove and lock in use. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sqlite3.h>
#include <sqlock/driver.h>
#include <sqlock/sqlite.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/input/file.h"

static sqlock_error err;

/* ---- no space -------------------------------------------------------------------------------- */

static void fill_up(const char *path)
{
    char block[4096] = {0};
    int fd = open(path, O_CREAT | O_WRONLY | O_APPEND, 0600);

    assert_true(fd >= 0);
    while (write(fd, block, sizeof block) > 0)
        ;
    while (write(fd, block, 1) > 0)
        ;
    assert_int_equal(errno, ENOSPC);
    close(fd);
}

/* Acquire until there is no space for it. A file system may find a little more at any time: it
 * keeps its books for each processor. Returns the larger of `token` and the last grant's token. */
static int64_t until_full(sqlock *m, const char *filler, const char *name, int64_t token)
{
    for (int i = 0; i < 50; i++) {
        sqlock_lock *lock = NULL;
        int rc;

        fill_up(filler);
        if ((rc = lock_try(m, name, 0, &lock, &err)) != SQLOCK_OK) {
            assert_code(SQLOCK_EFULL, rc, &err);
            assert_null(lock);
            return token;
        }
        if (sqlock_lock_token(lock) > token)
            token = sqlock_lock_token(lock);
        while (sqlock_release(lock, NULL) != SQLOCK_OK)
            assert_int_equal(unlink(filler), 0);
        sqlock_lock_free(lock);
    }
    fail_msg("the disk was never full");
    return token;
}

/* In a child with mounts of its own, which go with it. */
static int lock_on_a_full_disk(void *arg)
{
    const char *dir = arg;
    char *path = textf("%s/db", dir), *filler = textf("%s/filler", dir);
    sqlock_lock *held = NULL, *lock = NULL;
    sqlock *m = NULL;
    int64_t before;
    int rc;

    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", dir, "tmpfs", 0, "size=512k") != 0)
        return NOT_HERE;
    db_migrate(file_db(path));
    lite_exec_at(path, "PRAGMA journal_mode = DELETE");
    m = db_open(file_db(path));
    held = lock_now(m, "held");
    before = lock_draw(m, "often");

    until_full(m, filler, "new", 0);
    before = until_full(m, filler, "often", before);
    assert_true(err.flags & SQLOCK_RETRY);
    fill_up(filler);
    rc = sqlock_renew(held, &err);
    assert_true(rc == SQLOCK_EFULL || rc == SQLOCK_OK);
    assert_true(sqlock_is_held(held)); /* the old deadline stands */

    assert_int_equal(unlink(filler), 0);
    assert_ok(sqlock_renew(held, &err), &err);
    assert_code(SQLOCK_EBUSY, lock_try(m, "held", 0, &lock, &err), &err);
    lock = lock_now(m, "often");
    assert_true(sqlock_lock_token(lock) > before);
    lock_give(lock);
    lock_give(held);
    sqlock_close(m);
    lite_exec_at(path, "PRAGMA integrity_check");
    use(path);
    return 0;
}

TEST(test_a_full_disk_loses_nothing_and_works_when_space_returns)
{
    in_child_or_skip(lock_on_a_full_disk, temp_dir(),
                     "full disk: a small file system may not be mounted here");
}

/* ---- replaced, and locked by others ---------------------------------------------------------- */

TEST(test_a_file_replaced_while_open_gets_no_grant_that_no_one_sees)
{
    char *path = new_without_wal(), *next = new_without_wal();
    sqlock_lock *before = NULL, *after = NULL, *none = NULL;
    sqlock *other = NULL;
    sqlock *m = db_open(file_db(path));

    before = lock_now(m, "before");
    assert_int_equal(rename(next, path), 0);
    /* At the first request it is noticed; the connection is opened again. */
    if (lock_try(m, "after", 0, &after, &err) != SQLOCK_OK) {
        assert_int_equal(err.code, SQLOCK_EDB);
        after = lock_now(m, "after");
    }
    assert_int_equal(lite_number_at(path, "SELECT count(*) FROM sqlock_lock WHERE owner NOTNULL"),
                     1);
    other = db_open(file_db(path));
    assert_code(SQLOCK_EBUSY, lock_try(other, "after", 0, &none, &err), &err);
    assert_code(SQLOCK_ELOST, sqlock_renew(before, &err), &err);
    assert_false(sqlock_is_held(before));
    assert_int_equal(sqlock_lock_why(before), SQLOCK_WHY_GONE);
    lock_give(after);
    sqlock_lock_free(before);
    sqlock_close(m);
    sqlock_close(other);
}

/* And nothing is put in its place, for it may have been moved, and come back. */
TEST(test_a_file_removed_while_open_grants_nothing_until_it_is_back)
{
    char *path = new_migrated(), *away = textf("%s/away", temp_dir());
    sqlock_lock *lock = NULL, *kept = NULL;
    sqlock *m = db_open(file_db(path));

    kept = lock_now(m, "kept");
    assert_int_equal(rename(path, away), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_not_equal(lock_try(m, "x", 100, &lock, &err), SQLOCK_OK);
        assert_int_not_equal(err.code, SQLOCK_EBUSY);
        assert_null(lock);
        assert_int_equal(access(path, F_OK), -1);
    }
    assert_error(SQLOCK_ESCHEMA, "not there", err.code, &err);
    assert_int_not_equal(sqlock_renew(kept, &err), SQLOCK_OK);
    assert_true(sqlock_is_held(kept)); /* the old deadline stands */
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(rename(away, path), 0);
    assert_ok(sqlock_renew(kept, &err), &err);
    lock_give(kept);
    sqlock_close(m);
    use(path);
}

struct writer {
    const char *path;
    int32_t hold_ms;
    int ready[2];
};

static int hold_the_write_lock(void *arg)
{
    struct writer *w = arg;
    sqlite3 *db = NULL;

    if (sqlite3_open(w->path, &db) != SQLITE_OK ||
        sqlite3_exec(db, "BEGIN EXCLUSIVE", NULL, NULL, NULL) != SQLITE_OK ||
        write(w->ready[1], "x", 1) != 1)
        return 98;
    sleep_ms(w->hold_ms);
    return sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK ? 0 : 97;
}

static pid_t start_writer(struct writer *w)
{
    pid_t child;
    char byte;

    assert_int_equal(pipe(w->ready), 0);
    child = child_start(hold_the_write_lock, w);
    assert_int_equal(read(w->ready[0], &byte, 1), 1);
    close(w->ready[0]);
    close(w->ready[1]);
    return child;
}

static const char *const modes[] = {"PRAGMA journal_mode = TRUNCATE", "PRAGMA journal_mode = WAL"};

TEST(test_acquire_waits_for_another_writer)
{
    for (int i = 0; i < 2; i++) {
        char *path = new_migrated();
        struct writer w = {.path = path, .hold_ms = 1000};
        sqlock_lock *lock = NULL;
        int64_t begun;
        pid_t child;
        sqlock *m;

        lite_exec_at(path, modes[i]);
        m = db_open(file_db(path));
        child = start_writer(&w);
        begun = now_us();
        assert_ok(lock_try(m, "x", patience_ms(8000), &lock, &err), &err);
        assert_between(700000, now_us() - begun, 1000 * (int64_t)patience_ms(4000));
        assert_int_equal(child_wait(child, 5000), 0);
        lock_give(lock);
        sqlock_close(m);
    }
}

/* P18: nobody holds it, so it is not busy; the database was not asked, so nothing is unsure. */
TEST(test_P18_a_writer_that_outlasts_the_wait_is_no_holder)
{
    for (int i = 0; i < 2; i++) {
        char *path = new_migrated();
        struct writer w = {.path = path, .hold_ms = 1500};
        sqlock_lock *lock = NULL;
        sqlock *m = NULL;
        int64_t begun;
        pid_t child;

        lite_exec_at(path, modes[i]);
        m = db_open(file_db(path));
        child = start_writer(&w);
        begun = now_us();
        assert_code(SQLOCK_EGUARDED, lock_try(m, "x", 300, &lock, &err), &err); /* P18 */
        assert_between(200000, now_us() - begun, 1200000);
        assert_string_equal(err.sqlstate, "55P03");
        assert_says(&err, "locked");
        assert_true(err.flags & SQLOCK_RETRY);
        assert_false(err.flags & SQLOCK_MAYBE);
        assert_null(lock);
        assert_int_equal(child_wait(child, 5000), 0);
        lock_give(lock_now(m, "x"));
        sqlock_close(m);
    }
}

static int see(const sqlock_info *info, void *user)
{
    (void)info, (void)user;
    return 0;
}

/* Who only reads meets a lock on the whole file too, where the journal is a rollback journal. */
TEST(test_P18_a_locked_file_is_no_error_of_who_only_reads)
{
    sqlock_reap_opts dry = SQLOCK_REAP_OPTS_INIT;
    char *path = new_migrated();
    struct db file = file_db(path);
    sqlite3 *db = lite_open(path);
    sqlock *m;

    lite_exec(db, "PRAGMA journal_mode = DELETE");
    file.request_ms = 100;
    dry.flags = SQLOCK_REAP_DRY_RUN;
    m = db_open(file);
    lite_exec(db, "BEGIN EXCLUSIVE");
    assert_code(SQLOCK_EGUARDED, sqlock_list(m, NULL, see, NULL, &err), &err);
    assert_true(err.flags & SQLOCK_RETRY);
    assert_code(SQLOCK_EGUARDED, sqlock_reap(m, &dry, NULL, &err), &err);
    assert_true(err.flags & SQLOCK_RETRY);
    sqlite3_close(db);
    assert_ok(sqlock_list(m, NULL, see, NULL, &err), &err);
    assert_ok(sqlock_reap(m, &dry, NULL, &err), &err);
    sqlock_close(m);
}

/* What a wait of 600 ms is told when somebody locks the file after 200 ms of it. */
static int end_of_a_wait_behind_a_writer(int32_t lease_ms, sqlock_holder *holder)
{
    char *path = new_migrated();
    sqlock_acquire_opts lease = SQLOCK_ACQUIRE_OPTS_INIT, wait = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL, *none = NULL;
    sqlock *m = NULL, *other = NULL;
    sqlock_op *op = NULL;
    sqlite3 *db = NULL;
    int rc;

    lite_exec_at(path, "PRAGMA journal_mode = DELETE");
    m = db_open(file_db(path));
    other = db_open(file_db(path));
    lease.lease_ms = lease_ms;
    lease.flags = SQLOCK_NO_RENEW;
    assert_ok(sqlock_acquire(m, "x", &lease, &lock, &err), &err);
    wait.wait_ms = 600;
    wait.holder = holder;
    assert_ok(sqlock_acquire_start(other, "x", &wait, &op, &err), &err);
    sleep_ms(200);
    db = lite_open(path);
    sqlite3_busy_timeout(db, patience_ms(5000));
    lite_exec(db, "BEGIN EXCLUSIVE");
    rc = sqlock_op_finish(op, &none, &err);
    sqlite3_close(db);
    assert_null(none);
    sqlock_lock_free(lock);
    sqlock_close(other);
    sqlock_close(m);
    return rc;
}

/* P8, P9: the lock is held, and by whom was told. The writer counts only after that lease. */
TEST(test_P9_a_writer_does_not_make_a_holder_forgotten)
{
    sqlock_holder holder = {.size = sizeof holder};

    assert_int_equal(end_of_a_wait_behind_a_writer(60000, &holder), SQLOCK_EBUSY);
    assert_in_range(holder.token, 1, SQLOCK_TOKEN_MAX);
    assert_in_range(holder.left_ms, 1, 60000);
    assert_int_equal(end_of_a_wait_behind_a_writer(400, &holder), SQLOCK_EGUARDED);
    assert_int_equal(holder.token, 0);
}

/* ---- no descriptors -------------------------------------------------------------------------- */

enum { ENOUGH = 64 };

static void leave_no_descriptor(int *out)
{
    for (int i = 0; i < ENOUGH; i++)
        out[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_int_equal(out[ENOUGH - 1], -1);
    assert_int_equal(errno, EMFILE);
}

/* In a child, for its limit. What is open already works on once there are descriptors again: the
 * connection is kept, and no request is left in doubt. */
static int run_out_of_descriptors(void *path)
{
    struct rlimit few = {ENOUGH, ENOUGH};
    sqlock_lock *held = NULL, *lock = NULL;
    sqlock *m = NULL;
    int used[ENOUGH];

    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    m = db_open(file_db(path));
    held = lock_now(m, "held");
    leave_no_descriptor(used);
    /* Of the same millisecond, a renewal changes no byte: SQLite then writes none. */
    sleep_ms(2);
    assert_error(SQLOCK_ESYS, "descriptor", try_open(path, &err), &err);
    assert_code(SQLOCK_ESYS, try_migrate(path, &err), &err);
    /* A commit makes a journal, which takes one too. */
    assert_code(SQLOCK_ESYS, lock_try(m, "x", 0, &lock, &err), &err);
    assert_true(err.flags & SQLOCK_RETRY);
    assert_false(err.flags & (SQLOCK_RECONNECT | SQLOCK_MAYBE));
    assert_code(SQLOCK_ESYS, sqlock_renew(held, &err), &err);
    assert_true(sqlock_is_held(held));
    for (int i = 0; i < ENOUGH; i++)
        if (used[i] >= 0)
            close(used[i]);
    assert_ok(sqlock_renew(held, &err), &err);
    lock_give(held);
    sqlock_close(m);
    use(path);
    return 0;
}

TEST(test_running_out_of_descriptors_is_reported_as_what_it_is)
{
    char *path = new_without_wal();

    in_child(run_out_of_descriptors, path);
}

/* ---- cutting the opening --------------------------------------------------------------------- */

static void *wake_soon(void *fd)
{
    sleep_ms(100);
    sqlock_wake_set(*(int *)fd);
    return NULL;
}

/* P8: a cancel, or the manager's end, need not wait for the file while a connection is opened. */
TEST(test_opening_a_locked_file_is_cut_at_once)
{
    char *path = new_without_wal();
    struct writer w = {.path = path, .hold_ms = 1500};
    const sqlock_driver *driver = sqlock_driver_sqlite();
    sqlock_conn_opts o = {
        .size = sizeof o, .url = file_db(path).url, .wake_fd = sqlock_wake_make()};
    pid_t child = start_writer(&w);
    void *conn = NULL;
    pthread_t waker;
    int64_t begun;

    assert_between(0, o.wake_fd, INT32_MAX);
    for (int i = 0; i < 2; i++) { /* while it waits, and when it was cut before */
        begun = now_us();
        if (i == 0)
            assert_int_equal(pthread_create(&waker, NULL, wake_soon, &o.wake_fd), 0);
        assert_code(SQLOCK_ECANCELLED, driver->open(&o, sqlock_now_us() + 10000000, &conn, &err),
                    &err);
        assert_null(conn);
        assert_between(i == 0 ? 90000 : 0, now_us() - begun, 1000000);
        if (i == 0)
            pthread_join(waker, NULL);
    }
    sqlock_wake_clear(o.wake_fd);
    assert_ok(driver->open(&o, sqlock_now_us() + 10000000, &conn, &err), &err);
    sqlock_wake_set(o.wake_fd); /* not looked at any more */
    assert_ok(driver->begin(conn, sqlock_now_us() + 10000000, &err), &err);
    assert_ok(driver->rollback(conn, sqlock_now_us() + 10000000, &err), &err);
    driver->close(conn);
    sqlock_wake_close(o.wake_fd);
    assert_int_equal(child_wait(child, 5000), 0);
}

TEST_MAIN_EACH(NULL, NULL)
