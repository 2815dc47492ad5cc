/* Commits: commits.races, and here a process that is killed. */
#include "races.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* A process that is killed with -9 right after the row of its grant came (0), or after its commit.
 * The token that it saw, and believes in if it takes the row for the grant. */
static int64_t killed_holder(int committed)
{
    int64_t token = 0;
    int ends[2], status = 0;
    pid_t child = -1;
    assert_int_equal(pipe(ends), 0);
    child = fork();
    if (child == 0) {
        conn c = open_conn(); /* of its own: none of the parent's is open */
        request r = request_of('A', 5000 * MS);
        int ok = try_run(c, "BEGIN IMMEDIATE") == 0;
        token = ok ? acquire(c, r).token : -1;
        if (committed && try_run(c, "COMMIT") != 0)
            token = -1;
        if (write(ends[1], &token, sizeof token) == (ssize_t)sizeof token)
            raise(SIGKILL);
        _exit(1);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &token, sizeof token), sizeof token);
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    return token;
}

TEST(grant_that_is_killed_before_its_commit_is_none, ON_SQLITE)
{
    int64_t believed = 0;
    conn b;
    answer got;
    lite_close_all();
    believed = killed_holder(0);
    assert_true(believed > 0);
    b = open_conn();
    got = acquire(b, request_of('B', 5000 * MS));
    EXPECT(got, SQLOCK_OUT_DONE);
    /* Wrong: who believed the row has it, and so has B. */
    assert_int_equal(number(b, "SELECT count(*) FROM {lock} WHERE ended_why = 0"), 1);
}

TEST(grant_that_is_killed_after_its_commit_is_granted_once, ON_SQLITE)
{
    int64_t token;
    conn b;
    lite_close_all();
    token = killed_holder(1);
    assert_true(token > 0);
    b = open_conn();
    assert_int_equal(acquire(b, request_of('A', 5000 * MS)).token,
                     token); /* the same, asked again */
    /* Wrong: who asks again as another owner waits for its own ghost, for a whole lease. */
    EXPECT(acquire(b, request_of('B', 5000 * MS)), SQLOCK_OUT_HELD);
}

TEST_MAIN_OF_RACES("commits")
