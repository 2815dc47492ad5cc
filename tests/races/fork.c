/* A child after fork (P17): what its parent's connections know is not its own. The library's
 * handles are dead in a child (tests/drivers/suite_fork.c); here is what that keeps from happening.
 */
#include "races.h"

#include <sys/wait.h>
#include <unistd.h>

/* Runs fn in a child, which ends without a word; its result, 0 to 99. */
static int in_child(int (*fn)(conn c), conn c)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0)
        _exit(fn(c));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* ---- PostgreSQL -------------------------------------------------------------------------------
 */

static int forget(conn c)
{
    return close(PQsocket(c.pg)); /* the child's own number of it, and nothing more */
}

static int finish_it(conn c)
{
    PQfinish(c.pg);
    return 0;
}

/* The parent is in the middle of a grant while its child ends. */
static int commit_after(int (*fn)(conn c))
{
    conn a = open_conn();
    run(a, "DELETE FROM {lock}");
    run(a, "BEGIN");
    EXPECT(acquire(a, request_of('A', 5000 * MS)), SQLOCK_OUT_DONE);
    assert_int_equal(in_child(fn, a), 0);
    return try_run(a, "COMMIT");
}

TEST(child_that_ends_leaves_its_parents_session_alone, ON_POSTGRES)
{
    conn b = open_conn();
    assert_int_equal(commit_after(forget), 0);
    assert_int_equal(row_owner(b), 'A');
    /* Wrong: the child ends what it did not begin, and says goodbye in its parent's name. */
    assert_int_not_equal(commit_after(finish_it), 0);
    assert_int_equal(number(b, "SELECT count(*) FROM {lock}"), 0);
}

/* ---- SQLite -----------------------------------------------------------------------------------
 */

/* 1: it was granted the lock and has committed; 0: it was refused; 99: an error. */
static int grant_and_commit(conn c)
{
    answer a = acquire(c, request_of('C', 5000 * MS));
    if (a.error[0] || try_run(c, "COMMIT") != 0)
        return 99;
    return a.outcome == SQLOCK_OUT_DONE;
}

static int leave_alone(conn c)
{
    (void)c;
    return 0;
}

static int on_the_parents_connection(conn c)
{
    return grant_and_commit(c);
}

/* The child is made while the parent has the write lock. Locks are not inherited, but a
 * connection's belief in them is. The parent ends its transaction, B is granted the lock, and then
 * the child asks. */
static int asked_by_the_child(int (*fn)(conn c), int64_t *token_of_b)
{
    conn parent = open_conn(), b = open_conn();
    int go[2], status = -1;
    char byte = 0;
    pid_t child = -1;
    run(b, "DELETE FROM {lock}");
    run(parent, "BEGIN IMMEDIATE");
    assert_int_equal(pipe(go), 0);
    child = fork();
    if (child == 0)
        _exit(read(go[0], &byte, 1) == 1 ? fn(parent) : 99);
    run(parent, "ROLLBACK");
    *token_of_b = acquire(b, request_of('B', 5000 * MS)).token;
    assert_int_equal(write(go[1], "g", 1), 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    close(go[0]);
    close(go[1]);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

TEST(child_leaves_its_parents_connection_alone, ON_WAL)
{
    int64_t token_of_b = 0;
    assert_int_equal(asked_by_the_child(leave_alone, &token_of_b), 0);
    assert_true(token_of_b > 0);
    /* Wrong: the child's copy of its parent's connection believes that it may write, and that
     * nobody has written: both are granted the lock. */
    assert_int_equal(asked_by_the_child(on_the_parents_connection, &token_of_b), 1);
    assert_true(token_of_b > 0);
}

TEST_MAIN_OF_RACES("fork")
