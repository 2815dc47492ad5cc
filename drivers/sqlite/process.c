/* What a fork leaves behind in SQLite: whether this process may use it. */
#include "sqlite.h"

/* SQLite remembers, for all connections of a process, which locks it has on a file. A child
 * inherits the memory and not the locks. With a connection open in the parent, one that the child
 * opens to the same file joins what is remembered, and believes in locks that it never takes: in
 * WAL mode, the lock that says "in use". When the parent closes, the next process takes itself for
 * the last one and removes the WAL; the child goes on in a file that nobody else sees, and both are
 * granted the same lock with the same token. Without WAL, the locks of a transaction that a thread
 * of the parent was in at the fork are never given back. And a mutex of SQLite's that a thread of
 * the parent held stays locked in the child, whichever file it opens. So a child opens none at all.
 * That asks for no comparison of files, which links and mounts make look like two, and which cannot
 * be made of one that is just being opened.
 *
 * Static, like what SQLite remembers; a count and its process, without a mutex: a child could find
 * it locked. The process is written before the count, so that no other one ever goes with it. */
static _Atomic int64_t owner;
static atomic_long connections;

int lite_process_enter(sqlock_error *err)
{
    const int64_t me = sqlock_process_id();

    if (atomic_load(&connections) != 0 && atomic_load(&owner) != me)
        return sqlock_error_set(err, SQLOCK_EREFUSED, 0,
                                "this process was forked while its parent had a database open, and "
                                "SQLite takes the parent's file locks for its own: fork before the "
                                "first open or after the last close, or exec");
    atomic_store(&owner, me);
    atomic_fetch_add(&connections, 1);
    return 0;
}

void lite_process_leave(void)
{
    atomic_fetch_sub(&connections, 1);
}
