/* The number of a process (P17): what tells a child from its parent. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/check.h"

#include "core/base/process.h"

enum { THREADS = 8, NOT_ALLOWED = 77 };

static void *ask(void *out)
{
    *(int64_t *)out = sqlock_process_id();
    return NULL;
}

static int send_at_once(void *unused)
{
    pthread_t threads[THREADS];
    int64_t numbers[THREADS] = {0};

    (void)unused;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &numbers[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        if (numbers[i] == 0 || numbers[i] != sqlock_process_id())
            return 1;
    return 0;
}

/* In children, so that the threads are the first to ask: each child is born without a number. */
TEST(test_threads_have_the_number_of_their_process)
{
    assert_int_not_equal(sqlock_process_id(), 0);
    for (int i = 0; i < 50; i++)
        assert_int_equal(child_wait(child_start(send_at_once, NULL), patience_ms(10000)), 0);
}

static int differ(void *arg)
{
    const int64_t *before = arg; /* of the ancestors, 0 behind the last */
    int64_t all[6] = {0};
    size_t n = 0;

    for (; before[n] != 0; n++) {
        all[n] = before[n];
        if (sqlock_process_id() == before[n])
            return 1;
    }
    all[n] = sqlock_process_id();
    return n == 4 ? 0 : child_wait(child_start(differ, all), patience_ms(10000));
}

TEST(test_children_of_children_differ_from_all_before_them)
{
    int64_t mine[2] = {sqlock_process_id(), 0};

    for (int i = 0; i < 3; i++)
        assert_int_equal(child_wait(child_start(differ, mine), patience_ms(10000)), 0);
    assert_int_equal(sqlock_process_id(), mine[0]);
}

/* Made by the bare system call, which no handler of pthread_atfork() hears of. */
static pid_t clone_into_namespace(void)
{
    return (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, NULL, NULL, NULL, NULL);
}

static int number_one(void)
{
    const int64_t mine = sqlock_process_id();
    int status = -1;
    pid_t child = clone_into_namespace();

    if (child == 0)
        _exit(getpid() != 1 ? 2 : sqlock_process_id() == mine ? 1 : 0);
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return 3;
    return WEXITSTATUS(status);
}

static int be_number_one(void *unused)
{
    int status = -1;
    pid_t child;

    (void)unused;
    if (unshare(CLONE_NEWPID) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0)
        return NOT_ALLOWED;
    child = fork();
    if (child == 0)
        _exit(number_one());
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return 4;
    return WEXITSTATUS(status);
}

TEST(test_child_with_its_parents_pid_has_another_number)
{
    int result = child_wait(child_start(be_number_one, NULL), patience_ms(10000));

    if (result == NOT_ALLOWED) {
        print_error("SKIP: no pid namespace may be made here\n");
        skip();
    }
    assert_int_equal(result, 0);
}

static int note_number(void *out)
{
    *(int64_t *)out = sqlock_process_id();
    return 0;
}

/* As of vfork(): the same memory, which is therefore not emptied. */
TEST(test_child_that_shares_the_memory_has_another_number)
{
    static char stack[65536] __attribute__((aligned(16)));
    int64_t number = 0;
    pid_t child =
        clone(note_number, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &number);

    assert_between(1, child, INT32_MAX);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_not_equal(number, 0);
    assert_int_not_equal(number, sqlock_process_id());
}

TEST_MAIN_EACH(NULL, NULL)
