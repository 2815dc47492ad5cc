/* SQLite: what is granted is on the disk before it is told (P1, P2): syncs are counted here. A
 * release in WAL mode does not wait for that, and may be undone by a power cut (P5). */
#include <sqlock/many.h>

#include <pthread.h>
#include <sqlite3.h>
#include <sqlock/sqlite.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/input/file.h"
#include "tests/lib/row.h"

static sqlock_error err;

static const char wal[] = "PRAGMA journal_mode = WAL";

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

/* The WAL's first frame syncs its head. */
static void warm_up(sqlock *m)
{
    lock_draw(m, "x");
    lock_draw(m, "x");
}

static void assert_synced(int rc, bool wanted)
{
    assert_ok(rc, &err);
    assert_int_equal(atomic_exchange(&syncs, 0) > 0, wanted);
}

static void each_is_synced(const char *mode, unsigned flags, bool releases)
{
    char *path = new_migrated();
    sqlock_lock *lock = NULL;
    sqlock *m = NULL;

    lite_exec_at(path, mode);
    m = db_open(db_with(file_db(path), flags));
    warm_up(m);
    for (int again = 0; again < 3; again++) {
        atomic_store(&syncs, 0);
        assert_synced(lock_try(m, "x", 0, &lock, &err), true);
        usleep(5000); /* in the same millisecond it would change nothing */
        assert_synced(sqlock_renew(lock, &err), true);
        assert_synced(sqlock_release(lock, &err), releases);
        sqlock_lock_free(lock);
    }
    sqlock_close(m);
}

TEST(test_P5_each_grant_and_renewal_is_synced_and_releases_that_must_be)
{
    each_is_synced("PRAGMA journal_mode = TRUNCATE", 0, true);
    each_is_synced(wal, 0, false);
    each_is_synced(wal, SQLOCK_OPEN_DURABLE_RELEASE, true);
}

static const char someone_waits[] =
    "INSERT INTO sqlock_client (id, alive_until, session)"
    " VALUES (zeroblob(16), 9000000000000, 0);"
    "INSERT INTO sqlock_waiter (ns, name, ticket, owner, client, ttl, grace, since)"
    " SELECT ns, name, 1, zeroblob(16), zeroblob(16), 30000, 0, 0 FROM sqlock_lock;"
    "UPDATE sqlock_lock SET waiters = 1, next_ticket = 1";

/* Who takes the offer up waits for the disk, and no one else uses its token. */
TEST(test_P2_release_that_offers_the_lock_need_not_be_synced)
{
    char *path = new_migrated();
    sqlock_lock *lock;
    sqlock *m;

    lite_exec_at(path, wal);
    m = db_open(file_db(path));
    warm_up(m);
    lock = lock_now(m, "x");
    lite_exec_at(path, someone_waits);
    atomic_store(&syncs, 0);
    assert_synced(sqlock_release(lock, &err), false);
    assert_true(row_of(m, "x").token > sqlock_lock_token(lock));
    sqlock_lock_free(lock);
    sqlock_close(m);
}

static void *wait_for_x(void *m)
{
    sqlock_lock *lock = NULL;

    return sqlock_acquire(m, "x", NULL, &lock, NULL) == 0 ? lock : NULL;
}

/* It grants the lock: the token that it draws must not be drawn again. */
TEST(test_P2_release_that_passes_the_lock_on_is_synced)
{
    char *path = new_migrated();
    sqlock_lock *lock;
    pthread_t waiter;
    void *next;
    sqlock *m;

    lite_exec_at(path, wal);
    m = db_open(file_db(path));
    warm_up(m);
    lock = lock_now(m, "x");
    assert_int_equal(pthread_create(&waiter, NULL, wait_for_x, m), 0);
    assert_soon(lite_number_at(path, "SELECT count(*) FROM sqlock_waiter") == 1, patience_ms(2000));
    sleep_ms(50); /* until it waits for the grant, and asks no more */
    atomic_store(&syncs, 0);
    assert_synced(sqlock_release(lock, &err), true);
    pthread_join(waiter, &next);
    assert_non_null(next);
    assert_true(sqlock_lock_token(next) > sqlock_lock_token(lock));
    lock_give(next);
    sqlock_lock_free(lock);
    sqlock_close(m);
}

/* A break must be on the disk: if it were forgotten, the holder would live on. */
TEST(test_P5_breaks_and_withdrawals_behind_a_release_are_synced)
{
    char *path = new_migrated();
    sqlock_lock *lock;
    sqlock *m;

    lite_exec_at(path, wal);
    m = db_open(file_db(path));
    warm_up(m);
    lock = lock_now(m, "y");
    lock_give(lock_now(m, "x"));
    atomic_store(&syncs, 0);
    assert_synced(sqlock_break(m, "y", sqlock_lock_token(lock), &err), true);
    sqlock_lock_free(lock);
    sqlock_close(m);
}

/* What a power cut leaves: the files as they were when they were synced the last time. */
static sqlock *power_cut(sqlock *m, const char *saved)
{
    sqlock *after = db_open(file_db(saved));

    sqlock_close(m);
    return after;
}

static void save(const char *path, const char *saved)
{
    static const char *const sides[] = {"", "-wal"};

    for (int i = 0; i < 2; i++)
        assert_int_equal(system(textf("cp %s%s %s%s", path, sides[i], saved, sides[i])), 0);
}

TEST(test_P5_release_that_a_power_cut_undid_stands_until_its_lease_ends)
{
    char *path = new_migrated(), *saved = textf("%s.saved", path);
    sqlock_lock *lock, *next = NULL;
    sqlock *m;
    int64_t token;

    lite_exec_at(path, wal);
    m = db_open(file_db(path));
    warm_up(m);
    lock = lock_take(m, "x", 2000, 0);
    token = sqlock_lock_token(lock);
    save(path, saved);
    atomic_store(&syncs, 0);
    lock_give(lock);
    assert_int_equal(atomic_load(&syncs), 0); /* so the saved files are what the disk has */
    m = power_cut(m, saved);
    assert_code(SQLOCK_EBUSY, lock_try(m, "x", 0, &next, &err), &err);
    assert_int_equal(row_of(m, "x").token, token);
    next = lock_take(m, "x", 0, 0); /* waits */
    assert_true(sqlock_lock_token(next) > token);
    lock_give(next);
    sqlock_close(m);
}

enum { NAMES = 64 };

/* Whatever goes out together waits once: many grants, or a release with a grant. */
TEST(test_many_grants_of_one_commit_wait_for_the_disk_once)
{
    char *path = new_migrated(), texts[NAMES][8];
    const char *names[NAMES];
    sqlock_lock *locks[NAMES], *lock = NULL;
    int released = -1;
    sqlock *m;

    lite_exec_at(path, wal);
    m = db_open(file_db(path));
    warm_up(m);
    for (int i = 0; i < NAMES; i++) {
        snprintf(texts[i], sizeof texts[i], "n%d", i);
        names[i] = texts[i];
    }
    for (int again = 0; again < 3; again++) {
        atomic_store(&syncs, 0);
        assert_ok(sqlock_acquire_each(m, names, NAMES, NULL, locks, NULL, &err), &err);
        assert_int_equal(atomic_exchange(&syncs, 0), 1);
        assert_ok(sqlock_end_each(locks, NAMES, NULL, &err), &err);
        assert_int_equal(atomic_load(&syncs), 0);
        assert_ok(sqlock_swap(m, &lock, again % 2 == 0 ? "x" : "y", NULL, &released, &err), &err);
        assert_int_equal(atomic_exchange(&syncs, 0), 1);
        assert_int_equal(released, 0);
    }
    assert_ok(sqlock_lock_end(&lock, &err), &err);
    assert_int_equal(atomic_load(&syncs), 0);
    sqlock_close(m);
}

/* Its row is made in the transaction that grants it. */
TEST(test_first_grant_of_a_name_waits_for_the_disk_once)
{
    char *path = new_migrated();
    sqlock_lock *lock = NULL;
    sqlock *m = db_open(file_db(path));

    lock_draw(m, "x"); /* the first commit syncs the head of the WAL too */
    atomic_store(&syncs, 0);
    assert_ok(lock_try(m, "y", 0, &lock, &err), &err);
    assert_int_equal(atomic_exchange(&syncs, 0), 1);
    lock_give(lock);
    sqlock_close(m);
}

/* ---- without memory --------------------------------------------------------------------------
 * PRAGMA synchronous works while it is prepared, and may run out of memory before that and after.
 * SQLite allocates by these functions; one call of this thread's fails, after so many that work. */

static sqlite3_mem_methods memory;
static _Thread_local int left = -1; /* -1: it has failed, or none will */

static bool may_allocate(void)
{
    return left < 0 || left-- > 0;
}

static void *allocate(int size)
{
    return may_allocate() ? memory.xMalloc(size) : NULL;
}

static void *reallocate(void *p, int size)
{
    return may_allocate() ? memory.xRealloc(p, size) : NULL;
}

/* Before its first use; without the memory that each connection keeps for small pieces. */
__attribute__((constructor)) static void make_memory_scarce(void)
{
    sqlite3_mem_methods scarce;

    sqlite3_config(SQLITE_CONFIG_GETMALLOC, &memory);
    scarce = memory;
    scarce.xMalloc = allocate;
    scarce.xRealloc = reallocate;
    sqlite3_config(SQLITE_CONFIG_MALLOC, &scarce);
    sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0);
}

/* The call's code. *out_met: it met the failure. */
static int call_without_memory(int (*call)(sqlock *m, sqlock_lock **lock), sqlock *m,
                               sqlock_lock **lock, int after, bool *out_met)
{
    int rc;

    left = after;
    rc = call(m, lock);
    *out_met = left < 0;
    left = -1;
    return rc;
}

static int release_it(sqlock *m, sqlock_lock **lock)
{
    (void)m;
    return sqlock_release(*lock, &err);
}

static int acquire_it(sqlock *m, sqlock_lock **lock)
{
    return lock_try(m, "x", 0, lock, &err);
}

/* Whatever such a call left behind, on the only connection, the next grant is on the disk. */
static void grant_after_is_synced(sqlock *m)
{
    sqlock_lock *lock = NULL;

    atomic_store(&syncs, 0);
    assert_synced(lock_try(m, "y", 0, &lock, &err), true);
    lock_give(lock);
}

static void assert_tried(int times, int failures)
{
    assert_in_range(failures, 10, times);
}

TEST(test_P1_grant_is_synced_after_a_release_that_ran_out_of_memory)
{
    sqlock *m = db_open(file_db(new_migrated()));
    int failures = 0, after = 0;

    lock_draw(m, "y");
    for (bool met = true; met; after++) {
        sqlock_lock *lock = lock_now(m, "x"); /* what follows changes to a commit without a sync */
        int rc = call_without_memory(release_it, m, &lock, after, &met);

        failures += rc != 0;
        grant_after_is_synced(m);
        if (rc != 0)
            assert_ok(sqlock_release(lock, &err), &err);
        sqlock_lock_free(lock);
    }
    assert_tried(after, failures);
    sqlock_close(m);
}

TEST(test_P1_grant_is_synced_after_an_acquire_that_ran_out_of_memory)
{
    sqlock *m = db_open(file_db(new_migrated()));
    int failures = 0, after = 0;

    lock_draw(m, "x");
    lock_draw(m, "y");
    for (bool met = true; met; after++) {
        sqlock_lock *lock = NULL;

        lock_give(lock_now(m, "y")); /* what follows changes back */
        failures += call_without_memory(acquire_it, m, &lock, after, &met) != 0;
        grant_after_is_synced(m);
        sqlock_scope_end(&lock);
    }
    assert_tried(after, failures);
    sqlock_close(m);
}

TEST_MAIN_EACH(NULL, NULL)
