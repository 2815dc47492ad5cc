/* P1, P14 on SQLite, where threads get into each other's way. A close() takes all locks that the
 * process has on the file. SQLite closes only while no connection of the process has one, but
 * another thread may take its first one between the look and the close(). And a thread that cannot
 * roll back a dead program's journal looks like a writer to others, until it has gone. */
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h> /* before sqlock/sqlite.h */
#include <sqlock/sqlite.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/drivers/suite_in_transaction.h"
#include "tests/lib/sqlite_app.h"
#include "tests/lib/sqlite_quirks.h"

#define RESERVED_BYTE 0x40000001 /* of SQLite's file format: whoever writes has locked it */

enum { MOMENT_MS = 300 };

static struct {
    void *ours; /* a connection of the driver's */
    void (*begin)(void);
    pthread_t thread;
    atomic_bool armed, begun;
} between;

static void *begin_main(void *unused)
{
    between.begin();
    atomic_store(&between.begun, true);
    return unused;
}

static bool is_database(int fd)
{
    struct stat a, b;

    return fstat(fd, &a) == 0 && stat(database_file(g.app), &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

/* In place of SQLite's close(): another thread begins before it, if it can. */
static int close_late(int fd)
{
    if (is_database(fd) && atomic_exchange(&between.armed, false)) {
        assert_int_equal(pthread_create(&between.thread, NULL, begin_main, NULL), 0);
        for (int i = 0; i < MOMENT_MS && !atomic_load(&between.begun); i++)
            sleep_ms(1);
    }
    return close(fd);
}

static void set_close(sqlite3_syscall_ptr function)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);

    assert_int_equal(vfs->xSetSystemCall(vfs, "close", function), SQLITE_OK);
}

static void end_between(void)
{
    set_close(NULL);
    g.driver->close(between.ours);
    between.ours = NULL;
}

static void *open_ours(void)
{
    sqlock_conn_opts o = {.size = sizeof o,
                          .url = g.w->place.url,
                          .connect = g.w->place.connect,
                          .connect_user = g.w->place.connect_user,
                          .scripts = g.scripts,
                          .wake_fd = -1};
    void *conn = NULL;

    ok(g.driver->open(&o, soon(), &conn, &said));
    return conn;
}

/* A rollback journal: in WAL mode every open connection has a lock all the time. */
static void set_between(struct world *w)
{
    begin_app(w);
    app_exec(g.app, "PRAGMA journal_mode = DELETE");
    ok(adopt(g.app, &g.conn));
    between.ours = open_ours();
    atomic_store(&between.begun, false);
    at_end(w, end_between);
}

static int look_for_lock(void *path)
{
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = RESERVED_BYTE, .l_len = 1};

    return fcntl(open(path, O_RDWR | O_CLOEXEC), F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

/* What others see: a child has its parent's locks no more than they have. */
static bool others_see_lock(void)
{
    char path[4300];

    snprintf(path, sizeof path, "%s", database_file(g.app));
    return child_wait(child_start(look_for_lock, path), patience_ms(10000)) == 1;
}

static void begin_between(void (*begin)(void), void (*close_it)(void *conn), void *conn)
{
    between.begin = begin;
    set_close((sqlite3_syscall_ptr)close_late);
    atomic_store(&between.armed, true);
    close_it(conn);
    assert_false(atomic_load(&between.armed));
    pthread_join(between.thread, NULL);
    assert_true(others_see_lock());
}

static void begin_ours(void)
{
    ok(g.driver->begin(between.ours, soon(), &said));
}

static void begin_adopted_one(void)
{
    app_exec(g.app, "BEGIN IMMEDIATE");
}

static void close_native(void *db)
{
    sqlite3_close(db);
}

/* Without it, the file was damaged: another program takes our journal for that of a dead one. */
TEST_AFTER(set_between, test_P1_write_of_ours_keeps_its_lock_when_the_application_closes)
{
    sqlite3 *db = NULL;

    assert_int_equal(sqlite3_open(database_file(g.app), &db), SQLITE_OK);
    begin_between(begin_ours, close_native, db);
    ok(g.driver->rollback(between.ours, soon(), &said));
}

TEST_AFTER(set_between, test_P1_write_of_ours_keeps_its_lock_when_another_one_closes)
{
    begin_between(begin_ours, g.driver->close, open_ours());
    ok(g.driver->rollback(between.ours, soon(), &said));
}

TEST_AFTER(set_between, test_P14_adopted_transaction_keeps_its_lock_when_we_close)
{
    begin_between(begin_adopted_one, g.driver->close, open_ours());
    app_exec(g.app, "ROLLBACK");
}

static sqlite3_file *file_of(void *app)
{
    sqlite3_file *file = NULL;

    assert_int_equal(sqlite3_file_control(native(app), "main", SQLITE_FCNTL_FILE_POINTER, &file),
                     SQLITE_OK);
    return file;
}

static int lock_as(sqlite3_file *file, int level)
{
    return file->pMethods->xLock(file, level);
}

static void unlock(sqlite3_file *file)
{
    assert_int_equal(file->pMethods->xUnlock(file, SQLITE_LOCK_NONE), SQLITE_OK);
}

static bool sees_writer(sqlite3_file *file)
{
    int reserved = 0;

    assert_int_equal(file->pMethods->xCheckReservedLock(file, &reserved), SQLITE_OK);
    return reserved != 0;
}

/* What SQLite does when two threads find a dead program's journal: each reads, looks for a writer
 * whose journal that is, and asks for the exclusive lock. The second one looked while the first was
 * still asking, took it for the writer, and wrote beside a journal that was not rolled back. */
TEST_AFTER(set_between, test_P14_thread_that_cannot_roll_back_does_not_look_like_a_writer)
{
    void *app = g.side->connect(&g.w->place), *second = NULL;
    sqlite3_file *a = file_of(g.app), *b = file_of(app);

    ok(adopt(app, &second));
    assert_int_equal(lock_as(a, SQLITE_LOCK_SHARED), SQLITE_OK);
    assert_int_equal(lock_as(b, SQLITE_LOCK_SHARED), SQLITE_OK);
    assert_int_equal(lock_as(a, SQLITE_LOCK_EXCLUSIVE), SQLITE_BUSY);
    assert_false(sees_writer(b));
    assert_int_equal(lock_as(a, SQLITE_LOCK_RESERVED), SQLITE_OK);
    assert_int_equal(lock_as(a, SQLITE_LOCK_EXCLUSIVE), SQLITE_BUSY);
    assert_true(sees_writer(b)); /* this one waits for its readers */
    unlock(a);
    assert_int_equal(lock_as(b, SQLITE_LOCK_EXCLUSIVE), SQLITE_OK);
    unlock(b);
    g.adopter->close(second);
    g.side->close(app);
}

TEST_MAIN_ON(sqlite)
