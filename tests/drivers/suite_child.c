/* P17: what a child of a process with a manager may open itself. */
#define SUITE_NEEDS (PROCESSES | FORKS)
#include "tests/drivers/suite.h"

#include <signal.h>
#include <unistd.h>

struct family {
    struct world *w;
    int go[2];
    sqlock *inherited;
};

static int open_code(struct world *w)
{
    sqlock *m = NULL;
    int rc = open_here(w, NULL, &m, &said);

    close_here(m);
    return rc;
}

/* ---- where the child may open a manager of its own ------------------------------------------- */

static int open_own(void *arg)
{
    const struct family *f = arg;
    sqlock *m = NULL;

    close_here(f->inherited);
    ok(open_here(f->w, NULL, &m, &said));
    assert_int_equal(try_once(m, "nightly"), SQLOCK_EBUSY); /* the parent's */
    for (int i = 0; i < 5; i++)
        give(take_for(m, "child", 200, 0));
    close_here(m);
    return 0;
}

/* It works in the child, and ends without a trace in the parent. */
TEST_IF(FORK_OPENS, test_child_opens_a_manager_of_its_own)
{
#ifdef __SANITIZE_THREAD__
    print_error(
        "SKIP: the thread sanitizer bears no threads in a child of a program with threads\n");
    skip();
#endif
    struct family f = {.w = w};

    f.inherited = open_manager(f.w, NULL);
    sqlock_lock *lock = take_for(f.inherited, "nightly", patience_ms(500), 0);
    sleep_ms(200); /* with both connections open */
    for (int i = 0; i < 3; i++)
        assert_int_equal(child_wait(child_start(open_own, &f), patience_ms(20000)), 0);
    assert_true(sqlock_is_held(lock));
    ok(sqlock_renew(lock, &said));
    give(lock);
}

/* ---- where it may not ------------------------------------------------------------------------ */

static int is_refused(struct world *w)
{
    sqlock *m = NULL;

    says(SQLOCK_EREFUSED, open_here(w, NULL, &m, &said));
    assert_null(m);
    assert_non_null(strstr(said.text, "forked"));
    assert_non_null(strstr(said.text, "exec"));
    says(SQLOCK_EREFUSED, migrate_here(w, NULL, &said));
    return 0;
}

static int be_refused(void *arg)
{
    return is_refused(((struct family *)arg)->w);
}

/* Until it is told to go on, after the parent's last close. */
static int be_refused_later(void *arg)
{
    const struct family *f = arg;
    char byte;

    assert_int_equal(read(f->go[0], &byte, 1), 1);
    assert_int_equal(is_refused(f->w), 0);
    close_here(f->inherited); /* does nothing here */
    assert_int_equal(is_refused(f->w), 0);
    return child_wait(child_start(be_refused, arg), patience_ms(10000)); /* a child of the child */
}

static int open_first_and_last(void *arg)
{
    const struct family *f = arg;
    sqlock *m = NULL;

    ok(migrate_here(f->w, NULL, &said));
    ok(open_here(f->w, NULL, &m, &said));
    give(take(m, "nightly"));
    close_here(m);
    assert_int_equal(open_code(f->w), 0);
    return 0;
}

/* What counts is what was open at the fork: nothing that the parent does later mends it. */
TEST_IF(FORK_REFUSED, test_only_a_child_that_comes_after_the_last_close_may_open_a_manager)
{
    struct family f = {.w = w, .inherited = open_manager(w, NULL)};
    pid_t early, late;

    assert_int_equal(pipe(f.go), 0);
    give(take(f.inherited, "nightly"));
    early = child_start(be_refused_later, &f);
    close_manager(f.w, f.inherited);
    late = child_start(open_first_and_last, &f);
    assert_int_equal(child_wait(late, patience_ms(20000)), 0);
    assert_int_equal(write(f.go[1], "", 1), 1);
    assert_int_equal(child_wait(early, patience_ms(20000)), 0);
    close(f.go[0]);
    close(f.go[1]);
    assert_int_equal(open_code(f.w), 0);
}

/* ---- a program that the child executes ------------------------------------------------------- */

static int execute_tries(void *arg)
{
    struct family *f = arg;

    close_here(f->inherited);
    signal(SIGPIPE, SIG_DFL); /* the tests' own client library may have had it ignored */
    suite_execute(f->w, "nightly");
    return 99;
}

/* P19: it ends with 0 only if it has left signals, locale and environment alone. */
TEST(test_executed_program_opens_a_manager_of_its_own)
{
    struct family f = {.w = w};

    f.inherited = open_manager(f.w, NULL);
    sqlock_lock *lock = take(f.inherited, "nightly");
    assert_int_equal(child_wait(child_start(execute_tries, &f), patience_ms(20000)), -SQLOCK_EBUSY);
    assert_true(sqlock_is_held(lock));
    give(lock);
    assert_int_equal(child_wait(child_start(execute_tries, &f), patience_ms(20000)), 0);
}
