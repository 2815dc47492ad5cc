/* Locks of a process on a file, where SQLite lets its threads get into each other's way. */
#include "sqlite.h"

/* The first lock. A close() takes all POSIX locks that the process has on the file, through
 * whichever descriptor. So SQLite keeps a descriptor open while a connection of the process has a
 * lock. But it looks for locks under the file's mutex, which it leaves before the close(). Another
 * thread that begins a transaction in between loses its lock, and does not notice. Then:
 * - its journal looks like that of a dead program. The next program rolls it back, and writes.
 * - it commits all the same, and deletes the journal: by now the other program's.
 * - if that one dies, what it wrote cannot be rolled back: the file is damaged.
 * Two writers at once may also be granted the same lock.
 *
 * From the look to the close(), SQLite holds the mutex of its VFS. So whoever takes a first lock
 * under that mutex, as lock_take() does, cannot come in between. SQLite takes the VFS's mutex
 * before the file's, too, and never the other way round.
 *
 * The rollback of a dead program's journal. Whoever finds one tries to get the exclusive lock, and
 * goes away if others read the file. Until it has gone, SQLite remembers for the whole process that
 * a lock is pending. To a connection of another thread that looks like a writer of this process:
 * the journal must be its own, and need not be rolled back. So it writes on what the dead program
 * had left half done, and the file is damaged (seen in 3.40.1). lock_recover() leaves nothing
 * pending, and lock_is_reserved() does not look meanwhile.
 */

/* SQLite's functions for a file of its own VFS, and the same with ours: static, because an
 * application's connection outlives ours. Both are written once, under the mutex. */
static const sqlite3_io_methods *plain;
static sqlite3_io_methods ours;

enum { METHODS_VERSION = 3 }; /* the last one whose functions we can copy */

static sqlite3_mutex *lock_mutex(void)
{
    return sqlite3_mutex_alloc(SQLITE_MUTEX_STATIC_VFS1);
}

static int lock_level(sqlite3_file *file)
{
    int level = SQLITE_LOCK_NONE;

    plain->xFileControl(file, SQLITE_FCNTL_LOCKSTATE, &level);
    return level;
}

/* The mutex is held. The unlock takes the shared lock once more, which changes nothing, but in a
 * forked child: there SQLite remembers a lock of the parent's, and this would be the child's own.
 * It has to be missed (process.c). */
static int lock_recover(sqlite3_file *file)
{
    const int rc = plain->xLock(file, SQLITE_LOCK_EXCLUSIVE);

    if (rc != SQLITE_OK && lock_level(file) > SQLITE_LOCK_SHARED && !lite_process_is_forked())
        plain->xUnlock(file, SQLITE_LOCK_SHARED);
    return rc;
}

/* A writer has the reserved lock before it wants the exclusive one. Its own locks, and all that
 * come behind the first one, stand on that: while it is there, SQLite closes no descriptor. */
static int lock_take(sqlite3_file *file, int level)
{
    const int recovers = level == SQLITE_LOCK_EXCLUSIVE && lock_level(file) == SQLITE_LOCK_SHARED;
    sqlite3_mutex *mutex = lock_mutex();
    int rc;

    if (level != SQLITE_LOCK_SHARED && !recovers)
        return plain->xLock(file, level);
    sqlite3_mutex_enter(mutex);
    rc = recovers ? lock_recover(file) : plain->xLock(file, level);
    sqlite3_mutex_leave(mutex);
    return rc;
}

static int lock_is_reserved(sqlite3_file *file, int *out)
{
    sqlite3_mutex *mutex = lock_mutex();
    int rc;

    sqlite3_mutex_enter(mutex);
    rc = plain->xCheckReservedLock(file, out);
    sqlite3_mutex_leave(mutex);
    return rc;
}

static void lock_use_ours(sqlite3_file *file)
{
    if (plain == NULL && file->pMethods->iVersion <= METHODS_VERSION) {
        plain = file->pMethods;
        ours = *plain;
        ours.xLock = lock_take;
        ours.xCheckReservedLock = lock_is_reserved;
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
