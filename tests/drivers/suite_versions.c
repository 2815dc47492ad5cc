/* P20: a core and a driver of two releases. How they meet is told at the top of driver.h. The other
 * side is made of this one: by a size that ends earlier or later, and by what is put behind it. */
#include "tests/drivers/suite_in_transaction.h"

#include <sqlock/many.h>
#include <sqlock/migrate.h>
#include <sqlock/register.h>
#include <sqlock/transaction.h>

enum {
    TABLE_LEAST = offsetof(sqlock_driver, adopter),
    ADOPTER_LEAST = offsetof(sqlock_adopter, running)
};

/* ---- the driver's table ---------------------------------------------------------------------- */

/* The spied driver's table as one of that size, in an allocation of its own: a byte read behind it
 * is a sanitizer's finding. What is longer than ours ends with bytes that must not be looked at. */
/* As a driver of that size had been built: it says nothing of slots that it does not know. */
static sqlock_driver *table_of_size(uint32_t size)
{
    sqlock_driver *table = test_malloc(size);

    memset(table, 0xAA, size);
    memcpy(table, spied_driver(), size < sizeof *table ? size : sizeof *table);
    table->size = size;
    if (size < sizeof *table)
        table->caps &=
            ~(SQLOCK_CAP_WHOLE_URL | SQLOCK_CAP_RUNNING | SQLOCK_CAP_HOSTS | SQLOCK_CAP_HEARS);
    return table;
}

static int open_with_code(struct world *w, const sqlock_driver *driver, sqlock **out_m,
                          sqlock_error *err)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;

    place_opts(w, &o);
    return sqlock_open(driver, w->place.url, &o, out_m, err);
}

/* Everything that a manager does through its driver. */
static void use(struct world *w, const sqlock_driver *driver)
{
    sqlock *m = NULL;
    sqlock_lock *lock;

    ok(open_with_code(w, driver, &m, &said));
    lock = take(m, "nightly");
    ok(sqlock_renew(lock, &said));
    give(lock);
    sqlock_close(m);
}

CORE_TEST(test_driver_of_every_size_from_the_first_release_on_works)
{
    for (uint32_t size = TABLE_LEAST; size <= sizeof(sqlock_driver) + 64; size += sizeof(void *)) {
        sqlock_driver *table = table_of_size(size);

        use(w, table);
        test_free(table);
    }
}

static void refused_driver(struct world *w, const sqlock_driver *driver, int code, const char *word)
{
    sqlock *m = NULL;
    long opens = spy_opens();

    says(code, open_with_code(w, driver, &m, &said));
    assert_null(m);
    assert_non_null(strstr(said.text, word));
    assert_int_equal(spy_opens(), opens);
}

CORE_TEST(test_driver_with_a_size_that_cannot_be_is_refused)
{
    const uint32_t sizes[] = {0, 4, TABLE_LEAST - sizeof(void *), TABLE_LEAST - 1, TABLE_LEAST + 1};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        sqlock_driver *table = table_of_size(sizes[i] < 8 ? 8 : sizes[i]);

        table->size = sizes[i];
        refused_driver(w, table, SQLOCK_EINVAL, "NULL or incomplete");
        test_free(table);
    }
}

/* ---- optional slots -------------------------------------------------------------------------- */

static const struct {
    uint32_t cap;
    const char *name;
    size_t slot;
} options[] = {
    {SQLOCK_CAP_WHOLE_URL, "SQLOCK_CAP_WHOLE_URL", offsetof(sqlock_driver, whole_url)},
    {SQLOCK_CAP_RUNNING, "SQLOCK_CAP_RUNNING", offsetof(sqlock_driver, running)},
    {SQLOCK_CAP_HOSTS, "SQLOCK_CAP_HOSTS", offsetof(sqlock_driver, hosts)},
};

static void never(void)
{
    abort();
}

CORE_TEST(test_driver_that_says_it_can_and_has_no_slot_is_refused_by_name)
{
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        sqlock_driver table = *spied_driver();

        memset((char *)&table + options[i].slot, 0, sizeof(void *));
        table.caps |= options[i].cap;
        refused_driver(w, &table, SQLOCK_EINVAL, options[i].name);
        table.caps &= ~options[i].cap;
        use(w, &table);
    }
}

/* ---- the table for adopted connections ------------------------------------------------------- */

/* The driver's, as one of that size, allocated alone; where it has none, all slots are `never`. */
static sqlock_adopter *adopter_of_size(uint32_t size)
{
    sqlock_adopter *adopter = test_malloc(size), own = {.size = size};
    void (*slot)(void) = never;

    for (size_t at = offsetof(sqlock_adopter, adopt); at < sizeof own; at += sizeof slot)
        memcpy((char *)&own + at, &slot, sizeof slot);
    if (spied_driver()->adopter != NULL)
        own = *spied_driver()->adopter;
    memset(adopter, 0xAA, size);
    memcpy(adopter, &own, size < sizeof own ? size : sizeof own);
    adopter->size = size;
    return adopter;
}

static void guard_by(struct world *w, const sqlock_driver *driver)
{
    sqlock *m = NULL;
    sqlock_lock *lock;
    sqlock_conn *conn;

    ok(open_with_code(w, driver, &m, &said));
    lock = take(m, "nightly");
    conn = adopted(m, g.app);
    app_exec(g.app, g.side->begins[0]);
    ok(sqlock_guard(lock, conn, &said));
    app_exec(g.app, "COMMIT");
    let_go(conn);
    give(lock);
    sqlock_close(m);
}

TEST(test_adopter_of_every_size_works)
{
    sqlock_driver table = *spied_driver();
    uint32_t size = table.caps & SQLOCK_CAP_RUNNING ? sizeof(sqlock_adopter) : ADOPTER_LEAST;

    if (table.adopter != NULL)
        begin_app(w);
    for (; size <= sizeof(sqlock_adopter) + 64; size += sizeof(void *)) {
        sqlock_adopter *adopter = adopter_of_size(size);

        table.adopter = adopter;
        use(w, &table);
        if (g.app != NULL)
            guard_by(w, &table);
        test_free(adopter);
    }
}

CORE_TEST(test_driver_without_an_adopter_refuses_to_adopt)
{
    sqlock_driver table = *spied_driver();
    sqlock_conn *conn = NULL;
    sqlock *m = NULL;

    table.adopter = NULL;
    use(w, &table);
    ok(open_with_code(w, &table, &m, &said));
    says(SQLOCK_EREFUSED, sqlock_adopt(m, w, 0, NULL, &conn, &said));
    assert_null(conn);
    assert_non_null(strstr(said.text, "does not work on an application's connections"));
    sqlock_close(m);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* A table with a dialect of its own, to be changed. */
struct changed {
    sqlock_driver table;
    sqlock_dialect dialect;
    sqlock_script scripts[SQLOCK_STMT_COUNT + 1];
};

static struct changed *changed(void)
{
    struct changed *c = test_calloc(1, sizeof *c);

    c->table = *spied_driver();
    c->dialect = *c->table.dialect;
    memcpy(c->scripts, c->dialect.scripts, SQLOCK_STMT_COUNT * sizeof *c->scripts);
    c->dialect.scripts = c->scripts;
    c->table.dialect = &c->dialect;
    return c;
}

static int write_never(const char *text, size_t len, void *user)
{
    (void)text, (void)len, (void)user;
    abort();
}

static int info_never(const sqlock_info *info, void *user)
{
    (void)info, (void)user;
    abort();
}

static int waiter_never(const sqlock_waiter *waiter, void *user)
{
    (void)waiter, (void)user;
    abort();
}

CORE_TEST(test_what_an_older_driver_lacks_is_refused_and_the_rest_works)
{
    struct changed *c = changed();
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock *m = NULL;

    c->dialect.n_scripts = SQLOCK_STMT_ENSURE; /* registers came later than locks */
    use(w, &c->table);
    ok(open_with_code(w, &c->table, &m, &said));
    says(SQLOCK_EREFUSED, sqlock_register_set(m, "x", "v", 1, 0, NULL, &said));
    says(SQLOCK_EREFUSED, sqlock_ensure(m, "x", &said));
    assert_non_null(strstr(said.text, "older"));
    sqlock_close(m);
    c->dialect.n_scripts = SQLOCK_STMT_LIST;
    memset(&c->scripts[SQLOCK_STMT_LIST], 0xAA,
           (SQLOCK_STMT_COUNT - SQLOCK_STMT_LIST) * sizeof *c->scripts);
    use(w, &c->table);
    ok(open_with_code(w, &c->table, &m, &said));
    says(SQLOCK_EREFUSED, sqlock_list(m, NULL, info_never, NULL, &said));
    assert_non_null(strstr(said.text, "older"));
    says(SQLOCK_EREFUSED, sqlock_list_waiters(m, "nightly", waiter_never, NULL, &said));
    assert_non_null(strstr(said.text, "no queue"));
    give(take(m, "nightly"));
    sqlock_close(m);
    place_opts(w, &o);
    says(SQLOCK_EREFUSED, sqlock_migrate(&c->table, w->place.url, &o, NULL, &said));
    c->dialect.n_scripts = SQLOCK_STMT_HANDSHAKE;
    says(SQLOCK_EREFUSED, open_with_code(w, &c->table, &m, &said));
    test_free(c);
}

/* A driver for leases only. What it does without is refused by that cause, and not as the fault of
 * a schema that no migration of this driver could mend. */
TEST_IF(LEASES_ONLY, test_what_a_driver_does_without_is_refused_and_leases_work, m)
{
    sqlock_lock *lock = take(m, "nightly"), *none = NULL;
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;
    sqlock_acquire_opts acts = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_conn *conn = NULL;
    int64_t version = 0;
    size_t len = 0;
    long runs = spy_runs(-1);

    says(SQLOCK_EREFUSED, sqlock_adopt(m, w, 0, NULL, &conn, &said));
    assert_null(conn);
    assert_non_null(strstr(said.text, "does not work on an application's connections"));
    says(SQLOCK_EREFUSED, sqlock_register_get(m, "x", NULL, 0, &len, &version, &said));
    says(SQLOCK_EREFUSED, sqlock_register_set(m, "x", "v", 1, 0, NULL, &said));
    says(SQLOCK_EREFUSED, sqlock_ensure(m, "x", &said));
    assert_non_null(strstr(said.text, "lacks this request"));
    acts.actor = "job 1";
    says(SQLOCK_EREFUSED, sqlock_acquire(m, "x", &acts, &none, &said));
    assert_int_equal(spy_runs(-1), runs);
    place_opts(w, &o);
    says(SQLOCK_EREFUSED, sqlock_migration_verify(spied_driver(), w->place.url, &o, &said));
    says(SQLOCK_EREFUSED,
         sqlock_migration_sql(spied_driver(), &o, 0, 1, 0, write_never, NULL, &said));
    assert_true(sqlock_is_held(lock));
    give(lock);
}

/* P5: without notes of breaks the row alone remembers one, and that is enough for the same request.
 */
TEST_IF(LEASES_ONLY, test_break_without_notes_whose_reply_was_lost_finds_its_own, m)
{
    sqlock_lock *lock = take_for(m, "nightly", 20000, SQLOCK_NO_RENEW);

    spy_lose_reply(SQLOCK_STMT_BREAK);
    ok(sqlock_break(m, "nightly", sqlock_lock_token(lock), &said));
    assert_int_equal(spy_runs(SQLOCK_STMT_BREAK), 2);
    assert_int_equal(spy_runs(SQLOCK_STMT_BREAK_NOTED), 0);
    says(SQLOCK_ELOST, sqlock_renew(lock, &said));
    assert_lost(lock, SQLOCK_WHY_BROKEN);
    assert_true(is_free(m, "nightly"));
}

/* What cannot begin is refused with the reason, and leaves no handle: here by a driver that has no
 * request for seats. */
TEST(test_list_that_cannot_begin_has_no_handles)
{
    const char *names[] = {"a", "b"};
    sqlock_acquire_opts o = wait_opts(1000, 2000, 0);
    struct changed *c = changed();
    sqlock_lock *locks[2];
    sqlock *m = NULL;

    c->dialect.n_scripts = SQLOCK_STMT_SEAT;
    ok(open_with_code(w, &c->table, &m, &said));
    o.mode = SQLOCK_SHARED;
    says(SQLOCK_EREFUSED, sqlock_acquire_each(m, names, 2, &o, locks, NULL, &said));
    assert_null(locks[0]);
    assert_null(locks[1]);
    says(SQLOCK_EREFUSED, sqlock_acquire_all(m, names, 2, &o, locks, &said));
    assert_null(locks[0]);
    assert_null(locks[1]);
    sqlock_close(m);
    test_free(c);
}

/* Notes of breaks came later too. Without one the row forgets a break behind two others. */
TEST(test_older_driver_without_notes_breaks_all_the_same)
{
    struct changed *c = changed();
    sqlock *m = NULL;
    sqlock_lock *lock;

    c->dialect.n_scripts = SQLOCK_STMT_BREAK_NOTED;
    memset(&c->scripts[SQLOCK_STMT_BREAK_NOTED], 0xAA,
           (SQLOCK_STMT_COUNT - SQLOCK_STMT_BREAK_NOTED) * sizeof *c->scripts);
    ok(open_with_code(w, &c->table, &m, &said));
    for (int i = 0; i < 2; i++) {
        lock = take_for(m, "nightly", 20000, SQLOCK_NO_RENEW);
        ok(sqlock_break(m, "nightly", sqlock_lock_token(lock), &said));
        for (int j = 0; j < 2 * i; j++)
            give(take(m, "nightly"));
        says(SQLOCK_ELOST, sqlock_renew(lock, &said));
        assert_int_equal(sqlock_lock_why(lock), i == 0 ? SQLOCK_WHY_BROKEN : SQLOCK_WHY_TAKEN);
        drop(lock);
    }
    sqlock_close(m);
    test_free(c);
}

/* A value more or less, and one would be taken for another. */
CORE_TEST(test_driver_whose_requests_differ_is_refused)
{
    struct changed *c = changed();

    c->scripts[SQLOCK_STMT_ACQUIRE].params = "b:ns b:name b:owner i:ttl i:not_after b:label i:mode";
    refused_driver(w, &c->table, SQLOCK_EREFUSED, "acquire");
    test_free(c);
    c = changed();
    c->scripts[SQLOCK_STMT_RELEASE] = spied_driver()->dialect->scripts[SQLOCK_STMT_BREAK];
    refused_driver(w, &c->table, SQLOCK_EREFUSED, "different releases");
    test_free(c);
    c = changed();
    c->dialect.size = offsetof(sqlock_dialect, placeholder) - 1;
    refused_driver(w, &c->table, SQLOCK_EINVAL, "NULL or incomplete");
    test_free(c);
}

/* ---- the options of a connection ------------------------------------------------------------- */

static int trap_fd;

/* As a core that knows no wake_fd would call open: what lies behind its struct is anything. */
static int open_as_older(const sqlock_conn_opts *opts, int64_t deadline, void **out_conn,
                         sqlock_error *err)
{
    sqlock_conn_opts older = *opts;

    older.size = offsetof(sqlock_conn_opts, wake_fd);
    older.wake_fd = trap_fd;
    return spied_driver()->open(&older, deadline, out_conn, err);
}

TEST(test_driver_reads_no_further_than_the_options_of_an_older_core)
{
    trap_fd = sqlock_wake_make();
    sqlock_wake_set(trap_fd); /* whoever looks at it is cancelled */
    w->driver.open = open_as_older;
    use(w, &w->driver);
    sqlock_wake_close(trap_fd);
}
