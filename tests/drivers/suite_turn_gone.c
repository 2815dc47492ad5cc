/* P8, P23: who had the turn, or a seat, and is gone, delays no one who wants a lock with several
 * holders. */
#define SUITE_NEEDS QUEUES
#include <unistd.h>

#include <sqlock/async.h>
#include <sqlock/mode.h>

#include "tests/drivers/suite_gone.h"
#include "tests/drivers/suite_queue.h"
#include "tests/drivers/suite_seats.h"

enum { READERS = 4, APART_MS = 850 };

static int wait_to_read(sqlock *m)
{
    sqlock_acquire_opts o = mode_opts(SQLOCK_SHARED, 60000);
    sqlock_lock *lock = NULL;

    return -sqlock_acquire(m, "nightly", &o, &lock, &said);
}

/* All of them go in together, but for the one that is gone, and costs no more than an offer. They
 * come so far apart that who finds out at its own beat finds out nearly a second behind the one
 * before it. */
static void lose_the_first_reader(struct world *w, int signal, int32_t most_ms)
{
    pid_t first = child_to_wait(w, wait_to_read);
    sqlock *m = open_manager(w, NULL);
    sqlock_lock *lock = take(m, "nightly");
    static struct waiter readers[READERS]; /* their threads still write to them if this fails */
    int64_t released;

    child_goes();
    assert_soon(n_waiting_for(m, "nightly") == 1, patience_ms(5000));
    for (int i = 0; i < READERS; i++) {
        readers[i] = (struct waiter){.m = open_manager(w, NULL), .name = "nightly"};
        readers[i].opts = mode_opts(SQLOCK_SHARED, 60000);
        wait_start(&readers[i]);
        assert_soon(n_waiting_for(m, "nightly") == 2 + i, patience_ms(5000));
        sleep_ms(APART_MS);
    }
    end_between_transactions(w, first, signal);
    released = now_us();
    give(lock);
    for (int i = 0; i < READERS; i++) {
        served(&readers[i]);
        assert_between(0, readers[i].ended_us - released, patience_ms(most_ms) * INT64_C(1000));
    }
    for (int i = 0; i < READERS; i++)
        give(readers[i].lock);
    child_ends(first);
}

TEST_IF(PROCESSES | FORKS, test_P23_killed_reader_costs_all_others_one_offer)
{
    lose_the_first_reader(w, SIGKILL, OFFER_MS + 900);
}

TEST_IF(PROCESSES | FORKS, test_P23_stopped_reader_costs_all_others_one_offer)
{
    lose_the_first_reader(w, SIGSTOP, OFFER_MS + 1500);
}

enum { WRITERS = 3 };

static int wait_to_write(sqlock *m)
{
    sqlock_acquire_opts o = wait_opts(60000, 0, 0);

    for (int i = 0; i < WRITERS; i++) {
        sqlock_op *op;

        ok(sqlock_acquire_start(m, "door", &o, &op, &said));
        assert_soon(sqlock_op_place(op) > 0 || i == 0, patience_ms(5000));
    }
    return pause();
}

/* It has the turn, waits for a reader to go, and more of it wait behind. */
TEST_IF(PROCESSES | FORKS, test_P23_stopped_program_with_the_turn_costs_no_offer_too)
{
    pid_t first = child_to_wait(w, wait_to_write);
    sqlock *m = open_manager(w, NULL);
    sqlock_lock *reader = sit(m, "door", SQLOCK_SHARED);
    static struct waiter last; /* its thread still writes to it if this fails */
    int64_t stopped;

    child_goes();
    assert_soon(n_waiting_for(m, "door") == WRITERS, patience_ms(5000));
    last = (struct waiter){.m = open_manager(w, NULL), .name = "door"};
    last.opts = wait_opts(60000, 0, 0);
    wait_start(&last);
    assert_soon(n_waiting_for(m, "door") == WRITERS + 1, patience_ms(5000));
    end_between_transactions(w, first, SIGSTOP);
    stopped = now_us();
    give(reader);
    served(&last);
    assert_between(0, last.ended_us - stopped, patience_ms(OFFER_MS + 700) * INT64_C(1000));
    give(last.lock);
    child_ends(first);
}

/* The request is done, and never finished. Its owner may be one that the application gave. Returns
 * how long others are kept out. */
static int64_t close_once(struct world *w, sqlock *m, int64_t mode, const unsigned char *owner)
{
    sqlock_acquire_opts o = mode_opts(mode, 1000);
    sqlock *ends = open_manager(w, NULL);
    sqlock_lock *lock = NULL;
    sqlock_op *op;
    int64_t closed;

    o.owner = owner;
    o.lease_ms = 5000;
    ok(sqlock_acquire_start(ends, "door", &o, &op, &said));
    assert_soon(sqlock_op_step(op) != 0, patience_ms(5000));
    close_manager(w, ends);
    closed = now_us();
    o = wait_opts(60000, 0, 0);
    ok(sqlock_acquire(m, "door", &o, &lock, &said));
    closed = now_us() - closed;
    give(keep(lock));
    lock = NULL;
    ok(sqlock_op_finish(op, &lock, &said));
    assert_lost(keep(lock), SQLOCK_WHY_CLOSED);
    drop(lock);
    return closed;
}

/* A close takes 0.25 s at most, which a busy machine may need for something else. */
static void close_with_a_grant(struct world *w, sqlock *m, int64_t mode, const unsigned char *owner)
{
    int tries = 0;

    while (close_once(w, m, mode, owner) > 1500000)
        assert_between(0, ++tries, 2);
}

TEST(test_P8_grant_of_a_closed_manager_keeps_no_one_out, m)
{
    static const int64_t modes[] = {SQLOCK_EXCLUSIVE, SQLOCK_SHARED, SQLOCK_SLOTS(2)};
    const unsigned char owner[SQLOCK_OWNER_SIZE] = "an owner of mine";

    close_with_a_grant(w, m, SQLOCK_EXCLUSIVE, owner);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        close_with_a_grant(w, m, modes[i], NULL);
}

/* Its owner is the application's. The reply to the pass of its turn is lost, and it has the lock
 * anew when the pass is sent again: then the writer's beat has come before that, on PostgreSQL. */
TEST(test_P1_late_pass_of_a_turn_does_not_end_the_owners_next_grant, m, other)
{
    const unsigned char owner[SQLOCK_OWNER_SIZE] = "an owner of mine";
    sqlock_acquire_opts o = wait_opts(60000, 0, 0);
    struct waiter writer = {.m = other, .name = "door", .opts = wait_opts(60000, 0, 0)};
    sqlock_lock *lock = NULL;
    long passes;

    o.owner = owner;
    ok(sqlock_acquire(m, "door", &o, &lock, &said));
    wait_start(&writer);
    assert_soon(waiters_of(other, "door") == 1, patience_ms(5000));
    sleep_ms(APART_MS);
    passes = spy_runs(SQLOCK_STMT_PASS);
    spy_lose_reply(SQLOCK_STMT_PASS);
    ok(sqlock_downgrade(&lock, &said));
    give(lock);
    served(&writer);
    give(writer.lock);
    ok(sqlock_acquire(m, "door", &o, &lock, &said));
    assert_soon(spy_runs(SQLOCK_STMT_PASS) >= passes + 2, patience_ms(5000));
    sleep_ms(100);
    says(SQLOCK_EBUSY, try_once(other, "door"));
    give(keep(lock));
}
