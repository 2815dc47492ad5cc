/* P17: in a forked child every handle is dead, and the parent's go on. */
#include "tests/drivers/suite.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sqlock/register.h>
#include <sqlock/transaction.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct forked {
    struct world *w;
    sqlock *m;
    sqlock_lock *lock, *imported;
    sqlock_op *op;
    sqlock_cancel *cancel;
};

static int work_never(sqlock_lock *lock, void *user)
{
    (void)lock;
    (void)user;
    abort();
}

static int info_never(const sqlock_info *info, void *user)
{
    (void)info;
    (void)user;
    abort();
}

static int use_dead_handles(void *arg)
{
    const struct forked *f = arg;
    sqlock_lock *none = NULL;
    sqlock_op *op = NULL;

    assert_lost(f->lock, SQLOCK_WHY_FORK);
    assert_int_equal(sqlock_is_held(f->lock), 0);
    says(SQLOCK_EFORK, sqlock_lock_fd(f->lock, &said));
    says(SQLOCK_EFORK, sqlock_acquire(f->m, "other", NULL, &none, &said));
    assert_null(none);
    says(SQLOCK_EFORK, sqlock_acquire_start(f->m, "other", NULL, &op, &said));
    says(SQLOCK_EFORK,
         sqlock_import(f->m, "nightly", sqlock_lock_owner(f->lock), 1, NULL, &none, &said));
    assert_null(none);
    assert_int_equal(sqlock_lock_why(f->imported), SQLOCK_WHY_FORK);
    says(SQLOCK_EFORK, sqlock_settle(f->imported, 0, &said));
    says(SQLOCK_EFORK, sqlock_release(f->imported, &said));
    says(SQLOCK_EFORK, sqlock_renew(f->lock, &said));
    says(SQLOCK_EFORK, sqlock_renew_start(f->lock, &op, &said));
    says(SQLOCK_EFORK, sqlock_settle(f->lock, 0, &said));
    says(SQLOCK_EFORK, sqlock_release(f->lock, &said));
    says(SQLOCK_EFORK, sqlock_release_start(f->lock, &op, &said));
    says(SQLOCK_EFORK, sqlock_list(f->m, NULL, info_never, NULL, &said));
    says(SQLOCK_EFORK, sqlock_break(f->m, "nightly", 1, &said));
    says(SQLOCK_EFORK, sqlock_reap(f->m, NULL, NULL, &said));
    says(SQLOCK_EFORK, sqlock_ensure(f->m, "x", &said));
    says(SQLOCK_EFORK, sqlock_register_set(f->m, "x", "v", 1, 0, NULL, &said));
    says(SQLOCK_EFORK, sqlock_register_get(f->m, "x", NULL, 0, &(size_t){0}, &(int64_t){0}, &said));
    says(SQLOCK_EFORK, sqlock_with(f->m, "x", NULL, work_never, NULL, NULL, &said));
    assert_int_equal(said.code, SQLOCK_EFORK);
    for (int i = 0; i < 2; i++) { /* nothing is done, so it can be done twice */
        drop(f->lock);
        drop(f->imported);
        sqlock_close(f->m);
    }
    assert_state(SQLOCK_LOST, f->lock);
    return 0;
}

TEST(test_handles_are_dead_in_a_child_and_live_in_the_parent)
{
    struct forked f = {.w = w};
    sqlock_acquire_opts o = wait_opts(0, 10000, 0);
    long renewals;

    f.m = open_manager(f.w, NULL);
    o.renew_ms = 100;
    f.lock = take_with(f.m, "nightly", &o);
    ok(sqlock_import(f.m, "nightly", sqlock_lock_owner(f.lock), sqlock_lock_token(f.lock), NULL,
                     &f.imported, &said));
    for (int i = 0; i < 3; i++)
        assert_int_equal(child_wait(child_start(use_dead_handles, &f), patience_ms(10000)), 0);
    renewals = spy_runs(SQLOCK_STMT_RENEW);
    assert_soon(spy_runs(SQLOCK_STMT_RENEW) >= renewals + 5, patience_ms(5000));
    ok(sqlock_renew(f.lock, &said));
    assert_int_equal(try_once(f.m, "nightly"), SQLOCK_EBUSY);
    assert_state(SQLOCK_UNSURE, f.imported);
    ok(sqlock_settle(f.imported, 0, &said));
    drop(f.imported);
    give(f.lock);
}

/* ---- a child with its parent's pid ----------------------------------------------------------- */

enum { NOT_ALLOWED = 77 };

/* In a namespace of pids: this is number 1, and so is its child in one of its own. */
static int use_dead_handles_as_number_one(void *arg)
{
    struct forked *f = arg;
    int status = -1;
    pid_t child;

    assert_int_equal(getpid(), 1);
    ok(open_here(f->w, NULL, &f->m, &said));
    f->lock = take(f->m, "nightly");
    ok(sqlock_import(f->m, "nightly", sqlock_lock_owner(f->lock), sqlock_lock_token(f->lock), NULL,
                     &f->imported, &said));
    child = (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0)
        _exit(getpid() == 1 ? use_dead_handles(f) : 90);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    ok(sqlock_renew(f->lock, &said));
    give(f->lock);
    drop(f->imported);
    sqlock_close(f->m);
    return 0;
}

static int be_number_one(void *arg)
{
    int status = -1;
    pid_t child;

    if (unshare(CLONE_NEWPID) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0)
        return NOT_ALLOWED;
    child = fork();
    if (child == 0)
        _exit(use_dead_handles_as_number_one(arg));
    assert_int_equal(waitpid(child, &status, 0), child);
    return status == 0 ? 0 : 1;
}

CORE_TEST(test_handles_are_dead_in_a_child_with_the_parents_pid)
{
#ifdef __SANITIZE_THREAD__
    print_error(
        "SKIP: the thread sanitizer bears no threads in a child of a program with threads\n");
    skip();
#endif
    struct forked f = {.w = w};
    int result = child_wait(child_start(be_number_one, &f), patience_ms(30000));

    if (result == NOT_ALLOWED) {
        print_error("SKIP: no pid namespace may be made here\n");
        skip();
    }
    assert_int_equal(result, 0);
}

/* ---- what else ends in a child --------------------------------------------------------------- */

static int scope_ends(void *arg)
{
    sqlock_lock *lock = ((struct forked *)arg)->lock;

    sqlock_scope_end(&lock);
    return 0;
}

CORE_TEST(test_scope_that_ends_in_a_child_releases_nothing)
{
    struct forked f = {.w = w};

    f.m = open_manager(f.w, NULL);
    f.lock = take(f.m, "nightly");
    assert_int_equal(child_wait(child_start(scope_ends, &f), patience_ms(10000)), 0);
    ok(sqlock_renew(f.lock, &said));
    assert_int_equal(try_once(f.m, "nightly"), SQLOCK_EBUSY);
    give(f.lock);
}

static int finish_parents_request(void *arg)
{
    struct forked *f = arg;
    sqlock_lock *lock = NULL;

    sqlock_op_cancel(f->op);
    says(SQLOCK_EFORK, sqlock_op_finish(f->op, &lock, &said));
    assert_null(lock);
    return 0;
}

CORE_TEST(test_child_cannot_finish_a_request_of_the_parent)
{
    struct forked f = {.w = w};
    sqlock_acquire_opts o = wait_opts(SQLOCK_WAIT_FOREVER, 0, 0);
    sqlock_lock *next = NULL;

    f.m = open_manager(f.w, NULL);
    f.lock = take(f.m, "nightly");
    ok(sqlock_acquire_start(f.m, "nightly", &o, &f.op, &said));
    assert_int_equal(sqlock_op_step(f.op), 0);
    int child = child_wait(child_start(finish_parents_request, &f), patience_ms(3000));
    give(f.lock);
    ok(sqlock_op_finish(f.op, &next, &said));
    give(next);
    assert_int_equal(child, 0);
}

static int fire_parents_cancel(void *arg)
{
    sqlock_cancel_fire(((struct forked *)arg)->cancel);
    return 0;
}

CORE_TEST(test_cancel_fired_in_a_child_cuts_nothing_of_the_parent)
{
    struct forked f = {.w = w};
    sqlock_acquire_opts o = wait_opts(SQLOCK_WAIT_FOREVER, 0, 0);
    sqlock_lock *next = NULL;

    ok(sqlock_cancel_new(&f.cancel, &said));
    f.m = open_manager(f.w, NULL);
    f.lock = take(f.m, "nightly");
    o.cancel = f.cancel;
    ok(sqlock_acquire_start(f.m, "nightly", &o, &f.op, &said));
    for (int i = 0; i < 20; i++)
        assert_int_equal(child_wait(child_start(fire_parents_cancel, &f), patience_ms(5000)), 0);
    assert_int_equal(sqlock_op_step(f.op), 0);
    give(f.lock);
    ok(sqlock_op_finish(f.op, &next, &said));
    give(next);
    sqlock_cancel_free(f.cancel);
}

/* ---- what a program that the holder executes inherits ---------------------------------------- */

struct listing {
    const char *path;
};

static int exec_ls(void *arg)
{
    int fd = open(((struct listing *)arg)->path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    if (fd < 0 || dup2(fd, 1) != 1)
        return 90;
    close(fd);
    execl("/bin/ls", "ls", "-l", "/proc/self/fd", (char *)NULL);
    return 91;
}

/* How many descriptors an executed program has; *out_text: as ls tells them. */
static int inherited(const char *dir, char *out_text, size_t size)
{
    char path[4200];
    struct listing l = {path};
    int lines = 0;
    size_t n;
    FILE *f;

    snprintf(path, sizeof path, "%s/ls", dir);
    assert_int_equal(child_wait(child_start(exec_ls, &l), patience_ms(10000)), 0);
    f = fopen(path, "r");
    assert_non_null(f);
    n = fread(out_text, 1, size - 1, f);
    fclose(f);
    out_text[n] = '\0';
    for (const char *p = out_text; (p = strstr(p, " -> ")) != NULL; p++)
        lines++;
    return lines;
}

TEST(test_no_descriptor_is_inherited_by_an_executed_program, m)
{
    sqlock_acquire_opts o = wait_opts(SQLOCK_WAIT_FOREVER, 0, 0);
    char *dir = temp_dir(), before[8192], after[8192];
    int n = inherited(dir, before, sizeof before);
    sqlock_lock *lock = take_for(m, "nightly", patience_ms(600), 0), *next = NULL;
    sqlock_op *op = NULL;

    assert_between(3, n, 1000);
    assert_between(0, sqlock_lock_fd(lock, &said), INT32_MAX);
    ok(sqlock_acquire_start(m, "nightly", &o, &op, &said));
    assert_soon(spy_opens() >= 3, patience_ms(3000)); /* migrate, calls, renewals */
    if (inherited(dir, after, sizeof after) != n)
        fail_msg("before:\n%s\nafter:\n%s", before, after);
    temp_dir_remove(dir);
    give(lock);
    ok(sqlock_op_finish(op, &next, &said));
    give(next);
}
