/* What is granted under SQLite is on the disk before it is told (P1, P2): the syncs are counted, in
 * place of libc's. */
#include <sqlock/sqlite.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/input/file.h"

static sqlock_error err;

static atomic_int syncs;

__attribute__((visibility("default"))) int fdatasync(int fd)
{
    atomic_fetch_add(&syncs, 1);
    return (int)syscall(SYS_fdatasync, fd);
}

__attribute__((visibility("default"))) int fsync(int fd)
{
    atomic_fetch_add(&syncs, 1);
    return (int)syscall(SYS_fsync, fd);
}

static void assert_synced(int rc)
{
    assert_ok(rc, &err);
    assert_true(atomic_exchange(&syncs, 0) > 0);
}

TEST(test_each_grant_renewal_and_release_is_synced)
{
    static const char *const modes[] = {"PRAGMA journal_mode=WAL", "PRAGMA journal_mode=DELETE"};

    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        char *path = new_migrated();
        sqlock_lock *lock = NULL;
        sqlock *m = NULL;

        lite_exec_at(path, modes[i]);
        m = db_open(file_db(path));
        for (int again = 0; again < 3; again++) { /* the first one in a WAL may sync its head */
            atomic_store(&syncs, 0);
            assert_synced(lock_try(m, "x", 0, &lock, &err));
            usleep(5000); /* in the same millisecond it would change nothing */
            assert_synced(sqlock_renew(lock, &err));
            assert_synced(sqlock_release(lock, &err));
            sqlock_lock_free(lock);
        }
        sqlock_close(m);
    }
}

TEST_MAIN_EACH(NULL, NULL)
