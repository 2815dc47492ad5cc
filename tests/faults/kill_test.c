/* Four clients hammer one name of a MariaDB: some release what they were granted, some let it run
 * out, free rows are pruned, connections are killed, and in the middle the server dies with -9 and
 * comes back. Tokens only rise (P2), one at a time holds the lock (P1), and no deadlock, lock wait
 * or other error of the database reaches a caller (P18). */
#include "tests/faults/faults.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <sqlock/mysql.h>

#include "tests/lib/my_private.h"

enum { CLIENTS = 4, LEASE_MS = 300, WAIT_MS = 2000, ENOUGH = 40 };

/* The mutex is not the lock's business: a client holds the lock when it takes it. */
static struct {
    pthread_mutex_t mutex;
    int stop;
    int64_t highest;
    int grants, fallen, inside, together, errors;
    char text[sizeof((sqlock_error *)0)->text];
} book = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static struct client {
    pthread_t thread;
    bool runs;
    int number;
    sqlock *m;
} clients[CLIENTS];

static int stop_clients(void)
{
    pthread_mutex_lock(&book.mutex);
    book.stop = 1;
    pthread_mutex_unlock(&book.mutex);
    for (int i = 0; i < CLIENTS; i++) {
        if (clients[i].runs)
            pthread_join(clients[i].thread, NULL);
        sqlock_close(clients[i].m);
    }
    memset(clients, 0, sizeof clients);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return stop_clients();
}

/* A grant that ran out before it came to be written down may be written down late: it says nothing
 * about the order. The look at the clock comes after the entry. */
static void enter(sqlock_lock *lock)
{
    int64_t token = sqlock_lock_token(lock);

    pthread_mutex_lock(&book.mutex);
    if (sqlock_is_held(lock)) {
        book.fallen += token <= book.highest;
        book.together += book.inside > 0;
        book.highest = token > book.highest ? token : book.highest;
        book.grants++;
    }
    book.inside++;
    pthread_mutex_unlock(&book.mutex);
}

static void leave(void)
{
    pthread_mutex_lock(&book.mutex);
    book.inside--;
    pthread_mutex_unlock(&book.mutex);
}

static int told(const char *what, int code, const sqlock_error *err)
{
    int stop;

    pthread_mutex_lock(&book.mutex);
    stop = book.stop;
    /* An answer may always be lost at the very end of a wait. */
    if (code != 0 && code != SQLOCK_EBUSY && code != SQLOCK_ELOST && code != SQLOCK_EUNSURE) {
        book.errors++;
        snprintf(book.text, sizeof book.text, "%s: %s, %.200s", what, sqlock_code_name(code),
                 err->text);
    }
    pthread_mutex_unlock(&book.mutex);
    return stop;
}

static void *work(void *arg)
{
    struct client *c = arg;

    for (int round = c->number, stop = 0; !stop; round++) {
        sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
        sqlock_error err = {0};
        sqlock_lock *lock = NULL;
        int rc;

        o.wait_ms = WAIT_MS;
        o.lease_ms = LEASE_MS;
        o.flags = SQLOCK_NO_RENEW;
        rc = sqlock_acquire(c->m, "hammer", &o, &lock, &err);
        stop = told("acquire", rc, &err);
        if (rc == 0) {
            enter(lock);
            if (round % 3 == 0)
                stop = told("renew", sqlock_renew(lock, &err), &err);
            leave();
            if (round % 7 != 0) /* else it is taken over from us */
                stop = told("release", sqlock_release(lock, &err), &err);
        }
        sqlock_lock_free(lock);
    }
    return NULL;
}

static void start_clients(void)
{
    book.stop = 0;
    for (int i = 0; i < CLIENTS; i++) {
        sqlock_error err = {0};

        clients[i].number = i;
        assert_ok(sqlock_open(sqlock_driver_mysql(), my_private_url(), NULL, &clients[i].m, &err),
                  &err);
        assert_int_equal(pthread_create(&clients[i].thread, NULL, work, &clients[i]), 0);
        clients[i].runs = true;
    }
}

static int grants(void)
{
    int n;

    pthread_mutex_lock(&book.mutex);
    n = book.grants;
    pthread_mutex_unlock(&book.mutex);
    return n;
}

/* Every connection of a client, one after the other. */
static void kill_connections(void)
{
    for (int i = 0; i < 8; i++) {
        int64_t id = my_private_number("SELECT max(id) FROM information_schema.processlist WHERE"
                                       " id <> connection_id() AND command IN ('Sleep', 'Query')"
                                       " AND user = 'root' AND id %% 8 = %d",
                                       i);

        if (id > 0) /* it may have gone by itself */
            my_private_exec("KILL %lld", (long long)id);
        sleep_ms(100);
    }
}

static void more_grants_come(void)
{
    int before = grants();

    assert_soon(grants() >= before + ENOUGH, patience_ms(20000));
}

static void test_killed_connections_are_told_to_nobody(void **state)
{
    sqlock_error err = {0};

    (void)state;
    assert_ok(sqlock_migrate(sqlock_driver_mysql(), my_private_url(), NULL, NULL, &err), &err);
    start_clients();
    more_grants_come();
    for (int i = 0; i < 3; i++)
        kill_connections();
    more_grants_come();
    stop_clients();
    if (book.errors > 0)
        fail_msg("%d errors; the last: %s", book.errors, book.text);
    assert_int_equal(book.fallen, 0);
    assert_int_equal(book.together, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_killed_connections_are_told_to_nobody, teardown),
    };

    return cmocka_run_group_tests_name("killed connections on MariaDB", tests, NULL, NULL);
}
