/* P1, P4, P10 between processes: where another process finds the same database. */
#include "tests/drivers/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct side {
    struct world *w;
    int pipe[2];
    const char *dir;
    int number;
    int32_t lease_ms;
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

static void test_processes_take_turns(void **state)
{
    struct side s = {.w = world(state), .dir = temp_dir()};
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

/* ---- a holder that dies, a holder that stops ------------------------------------------------- */

/* Hold the lock, say so, and say when it was last believed to be held. */
static int hold(void *arg)
{
    const struct side *s = arg;
    sqlock *m = open_in_child(s);
    sqlock_lock *lock = take_for(m, "nightly", s->lease_ms, 0);
    int64_t now = 0, last = 0;

    assert_int_equal(write(s->pipe[1], "", 1), 1);
    do {
        last = now;
        now = sqlock_now_us();
    } while (sqlock_is_held(lock));
    assert_int_equal(write(s->pipe[1], &last, sizeof last), sizeof last);
    sqlock_lock_free(lock);
    return 0;
}

static pid_t start_holder(struct side *s)
{
    pid_t child;
    char byte;

    assert_int_equal(pipe(s->pipe), 0);
    child = child_start(hold, s);
    close(s->pipe[1]); /* so that a child that dies is an end of file */
    assert_int_equal(read(s->pipe[0], &byte, 1), 1);
    return child;
}

/* P10 */
static void test_lock_of_a_killed_process_is_free_after_its_lease(void **state)
{
    struct side s = {.w = world(state), .lease_ms = 700};
    pid_t child = start_holder(&s);
    sqlock *m = open_manager(s.w, NULL);
    int64_t killed = now_us();

    kill(child, SIGKILL);
    assert_int_equal(child_wait(child, patience_ms(5000)), -SIGKILL);
    assert_int_equal(try_once(m, "nightly"), SQLOCK_EBUSY);
    sqlock_lock *lock = take(m, "nightly");
    assert_between(0, now_us() - killed, (700 + patience_ms(1500)) * INT64_C(1000));
    give(lock);
    close(s.pipe[0]);
}

/* P4: what it believed last, it believed before anybody else was let in. */
static void test_stopped_process_stops_believing_before_its_successor_comes(void **state)
{
    struct side s = {.w = world(state), .lease_ms = 500};
    pid_t child = start_holder(&s);
    sqlock *m = open_manager(s.w, NULL);
    int64_t granted, last = 0;

    sleep_ms(50); /* so that it has looked at the lock */
    kill(child, SIGSTOP);
    sqlock_lock *lock = take(m, "nightly");
    granted = sqlock_now_us();
    sleep_ms(100);
    kill(child, SIGCONT);
    assert_int_equal(read(s.pipe[0], &last, sizeof last), sizeof last);
    assert_int_equal(child_wait(child, patience_ms(5000)), 0);
    assert_between(1, last, granted);
    assert_true(sqlock_is_held(lock));
    give(lock);
    close(s.pipe[0]);
}

/* ---- migrating ------------------------------------------------------------------------------- */

static int migrate_on_signal(void *arg)
{
    struct side *s = arg;
    int applied = -1;
    char byte;

    close(s->pipe[1]);
    (void)!read(s->pipe[0], &byte, 1); /* the end of file is the starting shot */
    ok(migrate_here(s->w, &applied, &said));
    return applied;
}

static void test_processes_may_migrate_at_once(void **state)
{
    struct side s = {.w = world_bare(state)};
    pid_t children[SIDES];
    int applied = 0, again = -1;

    assert_int_equal(pipe(s.pipe), 0);
    for (int i = 0; i < SIDES; i++)
        children[i] = child_start(migrate_on_signal, &s);
    close(s.pipe[1]);
    for (int i = 0; i < SIDES; i++) {
        int result = child_wait(children[i], patience_ms(20000));

        assert_between(0, result, 99);
        applied = result > applied ? result : applied;
        if (result != 0 && result != applied)
            fail_msg("two processes applied migrations: %d and %d", result, applied);
    }
    close(s.pipe[0]);
    assert_between(1, applied, 99);
    ok(migrate_here(s.w, &again, &said));
    assert_int_equal(again, 0);
    give(take(open_manager(s.w, NULL), "nightly"));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_processes_take_turns),
    core_test(test_lock_of_a_killed_process_is_free_after_its_lease),
    core_test(test_stopped_process_stops_believing_before_its_successor_comes),
    cmocka_unit_test(test_processes_may_migrate_at_once),
};
PART(suite_processes, tests);
