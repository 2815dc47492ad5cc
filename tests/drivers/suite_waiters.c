/* Who waits, as others see it: sqlock_list_waiters(); and as the waiter sees it: sqlock_op_place().
 */
#define SUITE_NEEDS QUEUES
#include <sqlock/admin.h>

#include "tests/drivers/suite_seats.h"

/* A page has 500. */
enum { SEEN_MOST = 2048, DOUBLED = 10 };

static struct seen {
    size_t n, stop_at; /* 0: never */
    struct entry {
        char name[SQLOCK_NAME_MAX + 1], label[SQLOCK_LABEL_MAX + 1];
        unsigned char owner[SQLOCK_OWNER_SIZE];
        int64_t place, waited_ms, mode;
    } all[SEEN_MOST];
} seen; /* too large for a stack */

static int note(const sqlock_waiter *waiter, void *user)
{
    struct seen *s = user;
    struct entry *e = &s->all[s->n];

    if (s->n == SEEN_MOST || waiter->size != sizeof *waiter ||
        waiter->name[waiter->name_len] != '\0')
        return -99;
    memcpy(e->name, waiter->name, waiter->name_len + 1);
    memcpy(e->label, waiter->label, sizeof e->label);
    memcpy(e->owner, waiter->owner, sizeof e->owner);
    e->place = waiter->place;
    e->waited_ms = waiter->waited_ms;
    e->mode = waiter->mode;
    s->n++;
    return s->n == s->stop_at ? 77 : 0;
}

/* Returns how many. */
static int look(sqlock *m, const char *name)
{
    memset(&seen, 0, sizeof seen);
    ok(sqlock_list_waiters(m, name, note, &seen, &said));
    return (int)seen.n;
}

static sqlock_op *start(sqlock *m, const char *name, const char *label, int64_t mode)
{
    sqlock_acquire_opts o = mode_opts(mode, 60000);
    sqlock_op *op = NULL;

    o.label = label;
    ok(sqlock_acquire_start(m, name, &o, &op, &said));
    return op;
}

/* ... until it has its place. Behind another of its manager that takes a moment. */
static sqlock_op *queue_up_for(sqlock *m, const char *name, const char *label, int64_t mode)
{
    int before = look(m, name);
    sqlock_op *op = start(m, name, label, mode);

    assert_soon(look(m, name) > before && sqlock_op_place(op) > 0, patience_ms(5000));
    return op;
}

static sqlock_op *queue_up(sqlock *m, const char *name, const char *label)
{
    return queue_up_for(m, name, label, SQLOCK_EXCLUSIVE);
}

static sqlock_lock *served(sqlock_op *op)
{
    sqlock_lock *lock = NULL;

    assert_soon(sqlock_op_step(op) == 1, patience_ms(5000));
    assert_int_equal(sqlock_op_place(op), 0);
    ok(sqlock_op_finish(op, &lock, &said));
    return keep(lock);
}

/* A request of it may be under way. */
static void give_up(sqlock_op *op)
{
    sqlock_lock *lock = NULL;

    sqlock_op_cancel(op);
    if (sqlock_op_finish(op, &lock, &said) == SQLOCK_ECANCELLED)
        assert_null(lock);
    else
        assert_int_equal(said.code, SQLOCK_EUNSURE);
    sqlock_lock_free(lock);
}

static void assert_seen(size_t i, const char *name, int64_t place, const char *label)
{
    assert_string_equal(seen.all[i].name, name);
    assert_int_equal(seen.all[i].place, place);
    assert_non_null(strstr(seen.all[i].label, label));
}

TEST(test_waiters_are_seen_in_the_order_of_their_places, a, b)
{
    static const char *const names[] = {"nightly", "nightly.2", "night"};
    unsigned char first[SQLOCK_OWNER_SIZE];
    sqlock_lock *locks[3], *lock;
    sqlock_op *ops[4];

    assert_int_equal(look(a, NULL), 0);
    for (int i = 0; i < 3; i++)
        locks[i] = take(a, names[i]);
    ops[0] = queue_up(b, "nightly", "one");
    ops[1] = queue_up(open_manager(w, NULL), "nightly", "two");
    ops[2] = queue_up(b, "nightly.2", "three");
    ops[3] = queue_up(b, "night", "");
    assert_int_equal(sqlock_op_place(ops[0]), 1);
    assert_int_equal(sqlock_op_place(ops[1]), 2);
    sleep_ms(300);
    assert_int_equal(look(a, NULL), 4);
    assert_seen(0, "night", 1, "@");
    assert_seen(1, "nightly", 1, " one");
    assert_seen(2, "nightly", 2, " two");
    assert_seen(3, "nightly.2", 1, " three");
    assert_between(300, seen.all[1].waited_ms, patience_ms(10000));
    assert_between(seen.all[2].waited_ms, seen.all[1].waited_ms, patience_ms(10000));
    assert_int_equal(look(a, "nightly"), 2); /* and no name that only begins so */
    assert_seen(1, "nightly", 2, " two");
    memcpy(first, seen.all[0].owner, sizeof first);
    assert_int_equal(look(a, "nightl"), 0);
    give(locks[0]);
    lock = served(ops[0]);
    assert_memory_equal(sqlock_lock_owner(lock), first, sizeof first);
    assert_int_equal(look(a, "nightly"), 1);
    assert_seen(0, "nightly", 1, " two");
    assert_soon(sqlock_op_place(ops[1]) == 1, patience_ms(3000)); /* a beat tells it */
    give(lock);
    give(served(ops[1]));
    for (int i = 1; i < 3; i++) {
        give(locks[i]);
        give(served(ops[i + 1]));
    }
    assert_int_equal(look(a, NULL), 0);
}

/* Who is next for a slot, or waits for shared holders to go, has left the queue. */
TEST(test_waiters_say_what_they_wait_for, a, b)
{
    sqlock_lock *door = take(a, "door"), *port = sit(a, "port", SQLOCK_SLOTS(1)),
                *room = sit(a, "room", SQLOCK_SHARED), *lane = take(a, "lane");
    sqlock_op *ops[] = {queue_up_for(b, "door", "reader", SQLOCK_SHARED),
                        start(b, "port", "third", SQLOCK_SLOTS(1)),
                        start(b, "room", "writer", SQLOCK_EXCLUSIVE),
                        queue_up_for(b, "lane", "fourth", SQLOCK_SLOTS(7))};

    assert_soon(look(a, NULL) == 4 && seen.all[2].place == 0 && seen.all[3].place == 0,
                patience_ms(5000));
    assert_int_equal(seen.all[0].mode, SQLOCK_SHARED);
    assert_int_equal(seen.all[1].mode, SQLOCK_SLOTS(7));
    assert_int_equal(seen.all[2].mode, SQLOCK_SLOTS(1));
    assert_int_equal(seen.all[3].mode, SQLOCK_EXCLUSIVE);
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        give_up(ops[i]);
    give(door);
    give(port);
    give(room);
    give(lane);
}

/* Whoever is in no queue has no place: it was granted the lock, or tries once. */
TEST(test_place_is_of_those_who_wait, a)
{
    sqlock_op *op = start(a, "nightly", "", SQLOCK_EXCLUSIVE), *release = NULL;
    sqlock_lock *lock = served(op);

    ok(sqlock_release_start(lock, &release, &said));
    assert_int_equal(sqlock_op_place(release), 0);
    ok(sqlock_op_finish(release, NULL, &said));
    drop(lock);
}

TEST(test_waiters_of_other_namespaces_are_not_seen, a)
{
    sqlock *other = open_with(w, with.ns = "other");
    sqlock_lock *lock = take(other, "nightly");
    sqlock_op *op = queue_up(other, "nightly", "");

    assert_int_equal(look(a, NULL), 0);
    assert_int_equal(look(a, "nightly"), 0);
    assert_int_equal(look(other, NULL), 1);
    give_up(op);
    give(lock);
}

/* Also while a session of its own shows others that it lives. */
TEST(test_waiter_sees_itself, a, b)
{
    sqlock_lock *lock = take(a, "nightly");
    sqlock_op *op = queue_up(b, "nightly", "");

    for (int i = 0; i < 15; i++) { /* a beat comes between */
        assert_int_equal(look(b, "nightly"), 1);
        assert_int_equal(look(a, "nightly"), 1);
        sleep_ms(100);
    }
    give_up(op);
    give(lock);
}

TEST(test_list_of_waiters_stops_when_its_callback_says_so, a)
{
    sqlock_lock *lock = take(a, "nightly");
    sqlock_op *first = queue_up(a, "nightly", "");
    sqlock_op *second = queue_up(open_manager(w, NULL), "nightly", "");

    memset(&seen, 0, sizeof seen);
    seen.stop_at = 1;
    memset(&said, 0, sizeof said);
    assert_int_equal(sqlock_list_waiters(a, NULL, note, &seen, &said), 77);
    assert_int_equal(seen.n, 1);
    assert_int_equal(said.code, 0);
    give_up(first);
    give_up(second);
    give(lock);
}

/* They are passed over, and others have their places. No manager knows the one that is dead here.
 */
TEST_IF(SQL, test_waiters_that_are_dead_are_not_seen, a, b)
{
    sqlock_lock *lock = take(a, "nightly");
    sqlock_op *op = queue_up(b, "nightly", ""), *living;

    run_past(w, "INSERT INTO {client} (id, alive_until, session) SELECT owner, 1, 0 FROM {waiter}");
    run_past(w, "INSERT INTO {waiter} (ns, name, ticket, owner, client, ttl, grace, label, since) "
                "SELECT ns, name, ticket + 1000, client, owner, ttl, grace, label, since "
                "FROM {waiter}");
    living = queue_up(open_manager(w, NULL), "nightly", "lives");
    assert_int_equal(look(a, NULL), 2);
    assert_seen(1, "nightly", 2, " lives");
    run_past(w, "DELETE FROM {client} WHERE alive_until = 1"); /* long ago */
    assert_int_equal(look(a, NULL), 2);
    give_up(op);
    give_up(living);
    give(lock);
}

/* A waiter of a client that ended long ago: it would be seen again if the client came to life. */
TEST_IF(SQL, test_clients_that_ended_long_ago_are_forgotten, a, b)
{
    const int64_t until = sqlock_now_us() + 10000000;
    sqlock_lock *lock = take(a, "nightly");
    sqlock_op *op = queue_up(b, "nightly", "");
    int seen_now = 0;

    run_past(w, "INSERT INTO {client} (id, alive_until, session) SELECT owner, 1, 0 FROM {waiter}");
    run_past(w, "INSERT INTO {waiter} (ns, name, ticket, owner, client, ttl, grace, label, since) "
                "SELECT ns, name, ticket + 1000, client, owner, ttl, grace, label, since "
                "FROM {waiter}");
    while (seen_now != 1 && sqlock_now_us() < until) {
        run_past(w, "UPDATE {client} SET alive_until = 9000000000000000000 WHERE alive_until = 1");
        seen_now = look(a, NULL);
        run_past(w, "UPDATE {client} SET alive_until = 1 WHERE alive_until = 9000000000000000000");
        sqlock_sleep_us(100000);
    }
    assert_int_equal(seen_now, 1);
    give_up(op);
    give(lock);
}

/* A program that waits so briefly says only once that it lives, and leaves a client behind. */
TEST_IF(SQL, test_client_that_says_once_that_it_lives_takes_dead_ones_away, a, b)
{
    sqlock_lock *lock = take(a, "nightly");
    sqlock_op *op = queue_up(b, "nightly", "");
    sqlock_acquire_opts o = wait_opts(100, 0, 0);
    sqlock_lock *none = NULL;

    run_past(w, "INSERT INTO {client} (id, alive_until, session) SELECT owner, 1, 0 FROM {waiter}");
    run_past(w, "INSERT INTO {waiter} (ns, name, ticket, owner, client, ttl, grace, label, since) "
                "SELECT ns, name, ticket + 1000, client, owner, ttl, grace, label, since "
                "FROM {waiter}");
    give_up(op);
    assert_int_equal(sqlock_acquire(open_manager(w, NULL), "nightly", &o, &none, &said),
                     SQLOCK_EBUSY);
    run_past(w, "UPDATE {client} SET alive_until = 9000000000000000000 WHERE alive_until = 1");
    assert_soon(look(a, NULL) == 0, patience_ms(3000)); /* it is on its way out of the queue */
    give(lock);
}

/* It has left the queue, and waits for a shared holder to go. */
TEST(test_P9_who_is_next_for_a_shared_lock_stands_before_the_queue, a, b)
{
    sqlock_lock *shared = sit(a, "door", SQLOCK_SHARED);
    sqlock_op *next = start(b, "door", "writes", SQLOCK_EXCLUSIVE), *behind;

    assert_soon(look(a, "door") == 1 && seen.all[0].place == 0, patience_ms(5000));
    behind = queue_up(open_manager(w, NULL), "door", "behind");
    assert_int_equal(look(a, NULL), 2);
    assert_seen(0, "door", 0, " writes");
    assert_seen(1, "door", 1, " behind");
    give(shared);
    give(served(next));
    give(served(behind));
    assert_int_equal(look(a, NULL), 0);
}

/* Its places are counted on over the ends of pages. */
TEST_IF(SQL, test_list_of_waiters_goes_over_many_pages, a, b)
{
    sqlock_lock *lock = take(a, "nightly"), *other = take(a, "other");
    sqlock_op *op = queue_up(b, "nightly", ""), *last;
    char sql[256];

    for (int i = 0; i < DOUBLED; i++) {
        snprintf(sql, sizeof sql,
                 "INSERT INTO {waiter} (ns, name, ticket, owner, client, ttl, grace, label, since) "
                 "SELECT ns, name, ticket + %d, owner, client, ttl, grace, label, since "
                 "FROM {waiter}",
                 1000 << i);
        run_past(w, sql);
    }
    last = queue_up(b, "other", "");
    assert_int_equal(look(a, NULL), (1 << DOUBLED) + 1);
    for (int i = 0; i < 1 << DOUBLED; i++)
        assert_int_equal(seen.all[i].place, i + 1);
    assert_seen(1 << DOUBLED, "other", 1, "@");
    assert_int_equal(look(a, "nightly"), 1 << DOUBLED);
    run_past(w, "DELETE FROM {waiter} WHERE ticket >= 1000");
    give_up(op);
    give_up(last);
    give(lock);
    give(other);
}
