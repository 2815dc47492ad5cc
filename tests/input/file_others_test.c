/* SQLite files that others fill the disk of, replace, remove and lock while we use them. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sqlite3.h>
#include <sqlock/driver.h>
#include <sqlock/sqlite.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/input/file.h"

/* ---- no space ----------------------------------------------------------------------------------
 */

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
static int64_t until_full(sqlock *m, const char *filler, const char *name, int64_t token,
                          sqlock_error *err)
{
    for (int i = 0; i < 50; i++) {
        sqlock_lock *lock = NULL;
        int rc;

        fill_up(filler);
        if ((rc = try_acquire(m, name, 0, &lock, err)) != SQLOCK_OK) {
            assert_code(SQLOCK_EFULL, rc, err);
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
    char *path = path_in(dir, "db"), *filler = path_in(dir, "filler");
    sqlock_lock *held = NULL, *lock = NULL;
    sqlock_error err;
    sqlock *m = NULL;
    int64_t before;
    int rc;

    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", dir, "tmpfs", 0, "size=512k") != 0)
        return NOT_HERE;
    assert_ok(try_migrate(path, &err), &err);
    assert_ok(open_file(path, &m, &err), &err);
    assert_ok(try_acquire(m, "held", 0, &held, &err), &err);
    assert_ok(try_acquire(m, "often", 0, &lock, &err), &err);
    before = sqlock_lock_token(lock);
    assert_ok(sqlock_release(lock, &err), &err);
    sqlock_lock_free(lock);
    lock = NULL;

    until_full(m, filler, "new", 0, &err);
    before = until_full(m, filler, "often", before, &err);
    assert_true(err.flags & SQLOCK_RETRY);
    fill_up(filler);
    rc = sqlock_renew(held, &err);
    assert_true(rc == SQLOCK_EFULL || rc == SQLOCK_OK);
    assert_true(sqlock_is_held(held)); /* the old deadline stands */

    assert_int_equal(unlink(filler), 0);
    assert_ok(sqlock_renew(held, &err), &err);
    assert_code(SQLOCK_EBUSY, try_acquire(m, "held", 0, &lock, &err), &err);
    assert_ok(try_acquire(m, "often", 0, &lock, &err), &err);
    assert_true(sqlock_lock_token(lock) > before);
    assert_ok(sqlock_release(lock, &err), &err);
    sqlock_lock_free(lock);
    assert_ok(sqlock_release(held, &err), &err);
    sqlock_lock_free(held);
    sqlock_close(m);
    sql(path, "PRAGMA integrity_check");
    use(path);
    return 0;
}

static void test_a_full_disk_loses_nothing_and_works_when_space_returns(void **state)
{
    int result = child_wait(child_start(lock_on_a_full_disk, (void *)(uintptr_t)temp_dir()), 20000);

    (void)state;
    if (result == NOT_HERE) {
        print_error("SKIP: full disk: a small file system may not be mounted here\n");
        if (test_strict() && geteuid() == 0)
            fail_msg("STRICT=1 asks for every test");
        skip();
    }
    assert_int_equal(result, 0);
}

/* ---- replaced, and locked by others ------------------------------------------------------------
 */

static int64_t count_held(const char *path)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;
    int64_t n;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT count(*) FROM sqlock_lock WHERE owner NOTNULL",
                                        -1, &stmt, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    n = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    return n;
}

static void test_a_file_replaced_while_open_gets_no_grant_that_nobody_sees(void **state)
{
    char *path = new_migrated(), *next = new_migrated();
    sqlock_lock *before = NULL, *after = NULL, *none = NULL;
    sqlock_error err;
    sqlock *m = NULL, *other = NULL;

    (void)state;
    assert_ok(open_file(path, &m, &err), &err);
    assert_ok(try_acquire(m, "before", 0, &before, &err), &err);
    assert_int_equal(rename(next, path), 0);
    /* At the first request it is noticed; the connection is opened again. */
    if (try_acquire(m, "after", 0, &after, &err) != SQLOCK_OK) {
        assert_int_equal(err.code, SQLOCK_EDB);
        assert_ok(try_acquire(m, "after", 0, &after, &err), &err);
    }
    assert_int_equal(count_held(path), 1);
    assert_ok(open_file(path, &other, &err), &err);
    assert_code(SQLOCK_EBUSY, try_acquire(other, "after", 0, &none, &err), &err);
    assert_code(SQLOCK_ELOST, sqlock_renew(before, &err), &err);
    assert_false(sqlock_is_held(before));
    assert_int_equal(sqlock_lock_why(before), SQLOCK_WHY_GONE);
    assert_ok(sqlock_release(after, &err), &err);
    sqlock_lock_free(before);
    sqlock_lock_free(after);
    sqlock_close(m);
    sqlock_close(other);
    free(path);
    free(next);
}

/* And nothing is put in its place, for it may have been moved, and come back. */
static void test_a_file_removed_while_open_grants_nothing_until_it_is_back(void **state)
{
    char *path = new_migrated(), *away = path_in(temp_dir(), "away");
    sqlock_lock *lock = NULL, *kept = NULL;
    sqlock_error err;
    sqlock *m = NULL;

    (void)state;
    assert_ok(open_file(path, &m, &err), &err);
    assert_ok(try_acquire(m, "kept", 0, &kept, &err), &err);
    assert_int_equal(rename(path, away), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_not_equal(try_acquire(m, "x", 100, &lock, &err), SQLOCK_OK);
        assert_int_not_equal(err.code, SQLOCK_EBUSY);
        assert_null(lock);
        assert_int_equal(access(path, F_OK), -1);
    }
    assert_code(SQLOCK_ESCHEMA, err.code, &err);
    assert_non_null(strstr(err.text, "not there"));
    assert_int_not_equal(sqlock_renew(kept, &err), SQLOCK_OK);
    assert_true(sqlock_is_held(kept)); /* the old deadline stands */
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(rename(away, path), 0);
    assert_ok(sqlock_renew(kept, &err), &err);
    assert_ok(sqlock_release(kept, &err), &err);
    sqlock_lock_free(kept);
    sqlock_close(m);
    use(path);
    free(path);
    free(away);
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

static void wait_behind_a_writer(const char *mode)
{
    char *path = new_migrated(), pragma[64];
    struct writer w = {.path = path, .hold_ms = 1000};
    sqlock_lock *lock = NULL;
    sqlock_error err;
    sqlock *m = NULL;
    int64_t begun;
    pid_t child;

    snprintf(pragma, sizeof pragma, "PRAGMA journal_mode = %s", mode);
    sql(path, pragma);
    assert_ok(open_file(path, &m, &err), &err);
    child = start_writer(&w);
    begun = now_us();
    assert_ok(try_acquire(m, "x", patience_ms(8000), &lock, &err), &err);
    assert_between(700000, now_us() - begun, 1000 * (int64_t)patience_ms(4000));
    assert_int_equal(child_wait(child, 5000), 0);
    assert_ok(sqlock_release(lock, &err), &err);
    sqlock_lock_free(lock);
    sqlock_close(m);
    free(path);
}

static void test_acquire_waits_for_another_writer_of_a_rollback_journal(void **state)
{
    (void)state;
    wait_behind_a_writer("TRUNCATE");
}

static void test_acquire_waits_for_another_writer_of_a_WAL(void **state)
{
    (void)state;
    wait_behind_a_writer("WAL");
}

/* P18: nobody holds the lock, so it is not busy; and the database was never asked, so nothing is
 * unsure. */
static void test_P18_a_writer_that_outlasts_the_wait_is_no_holder(void **state)
{
    static const char *const modes[] = {"PRAGMA journal_mode = TRUNCATE",
                                        "PRAGMA journal_mode = WAL"};

    (void)state;
    for (int i = 0; i < 2; i++) {
        char *path = new_migrated();
        struct writer w = {.path = path, .hold_ms = 1500};
        sqlock_lock *lock = NULL;
        sqlock_error err;
        sqlock *m = NULL;
        int64_t begun;
        pid_t child;

        sql(path, modes[i]);
        assert_ok(open_file(path, &m, &err), &err);
        child = start_writer(&w);
        begun = now_us();
        assert_code(SQLOCK_EGUARDED, try_acquire(m, "x", 300, &lock, &err), &err); /* P18 */
        assert_between(200000, now_us() - begun, 1200000);
        assert_string_equal(err.sqlstate, "55P03");
        assert_non_null(strstr(err.text, "locked"));
        assert_true(err.flags & SQLOCK_RETRY);
        assert_false(err.flags & SQLOCK_MAYBE);
        assert_null(lock);
        assert_int_equal(child_wait(child, 5000), 0);
        assert_ok(try_acquire(m, "x", 0, &lock, &err), &err);
        assert_ok(sqlock_release(lock, &err), &err);
        sqlock_lock_free(lock);
        sqlock_close(m);
        free(path);
    }
}

static int see(const sqlock_info *info, void *user)
{
    (void)info;
    (void)user;
    return 0;
}

/* Who only reads meets a lock on the whole file too, where the journal is a rollback journal. */
static void test_P18_a_locked_file_is_no_error_of_who_only_reads(void **state)
{
    sqlock_reap_opts dry = SQLOCK_REAP_OPTS_INIT;
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    char *path = new_migrated();
    sqlite3 *db = NULL;
    sqlock_error err;
    sqlock *m = NULL;

    (void)state;
    sql(path, "PRAGMA journal_mode = DELETE");
    o.request_ms = 100;
    dry.flags = SQLOCK_REAP_DRY_RUN;
    assert_ok(sqlock_open(sqlock_driver_sqlite(), url_of(path), &o, &m, &err), &err);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
    assert_code(SQLOCK_EGUARDED, sqlock_list(m, NULL, see, NULL, &err), &err);
    assert_true(err.flags & SQLOCK_RETRY);
    assert_code(SQLOCK_EGUARDED, sqlock_reap(m, &dry, NULL, &err), &err);
    assert_true(err.flags & SQLOCK_RETRY);
    sqlite3_close(db);
    assert_ok(sqlock_list(m, NULL, see, NULL, &err), &err);
    assert_ok(sqlock_reap(m, &dry, NULL, &err), &err);
    sqlock_close(m);
    free(path);
}

/* What a wait of 600 ms is told when somebody locks the file from 200 ms after its begin to its
 * end. */
static int end_of_a_wait_behind_a_writer(int32_t lease_ms, sqlock_holder *holder)
{
    char *path = new_migrated();
    sqlock_acquire_opts lease = SQLOCK_ACQUIRE_OPTS_INIT, wait = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_lock *lock = NULL, *none = NULL;
    sqlock *m = NULL, *other = NULL;
    sqlock_op *op = NULL;
    sqlite3 *db = NULL;
    sqlock_error err;
    int rc;

    sql(path, "PRAGMA journal_mode = DELETE");
    assert_ok(open_file(path, &m, &err), &err);
    assert_ok(open_file(path, &other, &err), &err);
    lease.lease_ms = lease_ms;
    lease.flags = SQLOCK_NO_RENEW;
    assert_ok(sqlock_acquire(m, "x", &lease, &lock, &err), &err);
    wait.wait_ms = 600;
    wait.holder = holder;
    assert_ok(sqlock_acquire_start(other, "x", &wait, &op, &err), &err);
    sleep_ms(200);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, patience_ms(5000));
    assert_int_equal(sqlite3_exec(db, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
    rc = sqlock_op_finish(op, &none, &err);
    sqlite3_close(db);
    assert_null(none);
    sqlock_lock_free(lock);
    sqlock_close(other);
    sqlock_close(m);
    free(path);
    return rc;
}

/* P8, P9: the lock is simply held, and by whom was told. Only when that lease is over does the
 * writer count. */
static void test_P9_a_writer_does_not_make_a_holder_forgotten(void **state)
{
    sqlock_holder holder = {.size = sizeof holder};

    (void)state;
    assert_int_equal(end_of_a_wait_behind_a_writer(60000, &holder), SQLOCK_EBUSY);
    assert_in_range(holder.token, 1, SQLOCK_TOKEN_MAX);
    assert_in_range(holder.left_ms, 1, 60000);
    assert_int_equal(end_of_a_wait_behind_a_writer(400, &holder), SQLOCK_EGUARDED);
    assert_int_equal(holder.token, 0);
}

/* ---- no descriptors ----------------------------------------------------------------------------
 */

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
    sqlock_error err;
    sqlock *m = NULL;
    int used[ENOUGH];

    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    assert_ok(open_file(path, &m, &err), &err);
    assert_ok(try_acquire(m, "held", 0, &held, &err), &err);
    leave_no_descriptor(used);
    /* Of the same millisecond, a renewal changes no byte: SQLite then writes none, and needs none.
     */
    sleep_ms(2);
    assert_code(SQLOCK_ESYS, try_open(path, &err), &err);
    assert_non_null(strstr(err.text, "descriptor"));
    assert_code(SQLOCK_ESYS, try_migrate(path, &err), &err);
    /* A commit makes a journal, which takes one too. */
    assert_code(SQLOCK_ESYS, try_acquire(m, "x", 0, &lock, &err), &err);
    assert_true(err.flags & SQLOCK_RETRY);
    assert_false(err.flags & (SQLOCK_RECONNECT | SQLOCK_MAYBE));
    assert_code(SQLOCK_ESYS, sqlock_renew(held, &err), &err);
    assert_true(sqlock_is_held(held));
    for (int i = 0; i < ENOUGH; i++)
        if (used[i] >= 0)
            close(used[i]);
    assert_ok(sqlock_renew(held, &err), &err);
    assert_ok(sqlock_release(held, &err), &err);
    sqlock_lock_free(held);
    sqlock_close(m);
    use(path);
    return 0;
}

static void test_running_out_of_descriptors_is_told_as_what_it_is(void **state)
{
    char *path = new_migrated();

    (void)state;
    assert_int_equal(child_wait(child_start(run_out_of_descriptors, path), patience_ms(20000)), 0);
    free(path);
}

/* ---- cutting the opening -----------------------------------------------------------------------
 */

static void *wake_soon(void *fd)
{
    sleep_ms(100);
    sqlock_wake_set(*(int *)fd);
    return NULL;
}

/* P8: a cancel, or the manager's end, need not wait for the file while a connection is opened. */
static void test_opening_a_locked_file_is_cut_at_once(void **state)
{
    char *path = new_migrated();
    struct writer w = {.path = path, .hold_ms = 1500};
    const sqlock_driver *driver = sqlock_driver_sqlite();
    sqlock_conn_opts o = {.size = sizeof o, .url = url_of(path), .wake_fd = sqlock_wake_make()};
    pid_t child = start_writer(&w);
    sqlock_error err = {0};
    void *conn = NULL;
    pthread_t waker;
    int64_t begun;

    (void)state;
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
    free(path);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_full_disk_loses_nothing_and_works_when_space_returns),
    cmocka_unit_test(test_a_file_replaced_while_open_gets_no_grant_that_nobody_sees),
    cmocka_unit_test(test_a_file_removed_while_open_grants_nothing_until_it_is_back),
    cmocka_unit_test(test_acquire_waits_for_another_writer_of_a_rollback_journal),
    cmocka_unit_test(test_acquire_waits_for_another_writer_of_a_WAL),
    cmocka_unit_test(test_P18_a_writer_that_outlasts_the_wait_is_no_holder),
    cmocka_unit_test(test_P18_a_locked_file_is_no_error_of_who_only_reads),
    cmocka_unit_test(test_P9_a_writer_does_not_make_a_holder_forgotten),
    cmocka_unit_test(test_running_out_of_descriptors_is_told_as_what_it_is),
    cmocka_unit_test(test_opening_a_locked_file_is_cut_at_once),
};

TEST_MAIN(tests)
