/* P1 between processes, where another one finds the same database. Holders that are killed or
 * stopped are in faults/holder_test.c, those who migrate at once in schema/schema.c. */
#include "tests/drivers/suite.h"

#include <fcntl.h>
#include <unistd.h>

struct side {
    struct world *w;
    const char *dir;
};

static sqlock *open_in_child(const struct side *s)
{
    sqlock *m = NULL;

    ok(open_here(s->w, NULL, &m, &said));
    return m;
}

/* ---- turns ----------------------------------------------------------------------------------- */

enum { SIDES = 3, TURNS = 15 };

/* A file that only one may make: two that are inside at once would meet at it. */
static int take_turns(void *arg)
{
    const struct side *s = arg;
    sqlock *m = open_in_child(s);
    int64_t last = 0;
    char path[4200];

    snprintf(path, sizeof path, "%s/inside", s->dir);
    for (int i = 0; i < TURNS; i++) {
        sqlock_lock *lock = take(m, "turn");
        int fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);

        assert_between(0, fd, INT32_MAX);
        assert_between(last + 1, sqlock_lock_token(lock), SQLOCK_TOKEN_MAX);
        last = sqlock_lock_token(lock);
        sleep_ms(1);
        assert_int_equal(unlink(path), 0);
        close(fd);
        give(lock);
    }
    sqlock_close(m);
    return 0;
}

TEST(test_processes_take_turns)
{
    struct side s = {.w = w, .dir = temp_dir()};
    pid_t children[SIDES];
    int results[SIDES];
    sqlock *m = open_manager(s.w, NULL);
    sqlock_lock *lock = take(m, "turn");
    int64_t last = sqlock_lock_token(lock) + SIDES * TURNS + 1;

    give(lock);
    close_manager(s.w, m);
    for (int i = 0; i < SIDES; i++)
        children[i] = child_start(take_turns, &s);
    for (int i = 0; i < SIDES; i++)
        results[i] = child_wait(children[i], patience_ms(30000));
    for (int i = 0; i < SIDES; i++)
        assert_int_equal(results[i], 0);
    /* No turn was left out, and each was a grant. */
    lock = take(open_manager(s.w, NULL), "turn");
    assert_between(last, sqlock_lock_token(lock), s.w->q->tokens_leave_gaps ? INT64_MAX : last);
    give(lock);
}
