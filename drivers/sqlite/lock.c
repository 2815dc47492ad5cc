/* The first lock of a process on a file, which the close() of another connection must not take. */
#include "sqlite.h"

/* A close() takes all POSIX locks that the process has on the file, through whichever descriptor.
 * So SQLite keeps a descriptor open while a connection of the process has a lock. But it looks for
 * locks under the file's mutex, which it leaves before the close(). Another thread that begins a
 * transaction in between loses its lock, and does not notice. Then:
 * - its journal looks like that of a dead program. The next program rolls it back, and writes.
 * - it commits all the same, and deletes the journal: by now the other program's.
 * - if that one dies, what it wrote cannot be rolled back: the file is damaged.
 * Two writers at once may also be granted the same lock.
 *
 * From the look to the close(), SQLite holds the mutex of its VFS. So whoever takes a first lock
 * under that mutex, as xLock does here, cannot come in between. SQLite takes the VFS's mutex before
 * the file's, too, and never the other way round. */

/* SQLite's functions for a file of its own VFS, and the same with our xLock: static, because an
 * application's connection outlives ours. Both are written once, under the mutex. */
static const sqlite3_io_methods *plain;
static sqlite3_io_methods ours;

enum { METHODS_VERSION = 3 }; /* the last one whose functions we can copy */

static sqlite3_mutex *lock_mutex(void)
{
    return sqlite3_mutex_alloc(SQLITE_MUTEX_STATIC_VFS1);
}

/* Later ones stand on the first one: while that is there, SQLite closes no descriptor. */
static int lock_take(sqlite3_file *file, int level)
{
    sqlite3_mutex *mutex = lock_mutex();
    int rc;

    if (level != SQLITE_LOCK_SHARED)
        return plain->xLock(file, level);
    sqlite3_mutex_enter(mutex);
    rc = plain->xLock(file, level);
    sqlite3_mutex_leave(mutex);
    return rc;
}

static void lock_use_ours(sqlite3_file *file)
{
    if (plain == NULL && file->pMethods->iVersion <= METHODS_VERSION) {
        plain = file->pMethods;
        ours = *plain;
        ours.xLock = lock_take;
    }
    if (file->pMethods == plain)
        file->pMethods = &ours;
}

/* Another VFS may use the mutex in its own way, so it stays as it is. */
void lite_lock_guard(const lite_conn *conn)
{
    sqlite3_file *file = NULL;

    if (!lite_is_plain(conn))
        return;
    sqlite3_mutex_enter(sqlite3_db_mutex(conn->db));
    sqlite3_file_control(conn->db, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    sqlite3_mutex_enter(lock_mutex());
    if (file != NULL && file->pMethods != NULL)
        lock_use_ours(file);
    sqlite3_mutex_leave(lock_mutex());
    sqlite3_mutex_leave(sqlite3_db_mutex(conn->db));
}
