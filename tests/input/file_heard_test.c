/* SQLite: how a waiter of another manager learns that the lock was passed on to it (P22): by a
 * message, and where there can be none, by the file. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/input/file.h"

static atomic_int messages, refused;

__attribute__((visibility("default"))) int bind(int fd, const struct sockaddr *to, socklen_t size)
{
    if (atomic_load(&refused)) {
        errno = EPERM;
        return -1;
    }
    return (int)syscall(SYS_bind, fd, to, size);
}

__attribute__((visibility("default"))) ssize_t
sendto(int fd, const void *data, size_t len, int flags, const struct sockaddr *to, socklen_t size)
{
    atomic_fetch_add(&messages, 1);
    return syscall(SYS_sendto, fd, data, len, flags, to, size);
}

static void *wait_for_x(void *m)
{
    sqlock_lock *lock = NULL;

    return sqlock_acquire(m, "x", NULL, &lock, NULL) == 0 ? lock : NULL;
}

/* Long before the next beat of the waiter's manager, which is a second after the one before. */
static void pass_on(sqlock *a, sqlock *b, const char *path, int wanted)
{
    sqlock_lock *lock = lock_now(a, "x");
    pthread_t waiter;
    int64_t released;
    void *next;

    assert_int_equal(pthread_create(&waiter, NULL, wait_for_x, b), 0);
    assert_soon(lite_number_at(path, "SELECT count(*) FROM sqlock_waiter") == 1, patience_ms(2000));
    sleep_ms(150);
    atomic_store(&messages, 0);
    released = now_us();
    lock_give(lock);
    assert_int_equal(atomic_load(&messages), wanted);
    pthread_join(waiter, &next);
    assert_non_null(next);
    assert_in_range(now_us() - released, 0, patience_ms(500) * 1000);
    lock_give(next);
}

static void each_is_served(int without_messages)
{
    char *path = new_migrated();
    sqlock *a, *b;

    atomic_store(&refused, without_messages);
    a = db_open(file_db(path));
    b = db_open(file_db(path));
    for (int again = 0; again < 3; again++)
        pass_on(a, b, path, 1);
    sqlock_close(a);
    sqlock_close(b);
}

TEST(test_P22_release_sends_the_waiter_one_message)
{
    each_is_served(0);
}

TEST(test_P22_waiter_that_gets_no_message_sees_that_the_file_has_changed)
{
    each_is_served(1);
}

TEST_MAIN_EACH(NULL, NULL)
