/* Servers of one origin that take over from each other, with commits that are lost on the way:
 * tokens and registers' versions only rise (P2, P13), over promotions, over one that comes back on
 * its old disk. PostgreSQL's are standbys that are promoted; MariaDB's have copies of
 * one data folder. */
#include "tests/faults/faults.h"

#include <sqlock/register.h>
#include <string.h>

#include "tests/lib/servers.h"

static sqlock_error err;

/* ---- one client after the other -------------------------------------------------------------- */

/* What has been given away so far, on all servers. */
static struct {
    int64_t token, version;
} last;

static void begin(const char *url)
{
    memset(&last, 0, sizeof last);
    db_migrate(db_of(url));
}

/* 1: they are above all that there have been. Another's lease may have to run out first. */
static int draw(sqlock *m, const char *name)
{
    sqlock_lock *lock = lock_take(m, name, 300, 0);
    int64_t version = 0, token = sqlock_lock_token(lock);
    size_t len;
    int rises;

    lock_give(lock);
    assert_ok(sqlock_register_get(m, "r", NULL, 0, &len, &version, &err), &err);
    assert_ok(sqlock_register_set(m, "r", name, strlen(name), version, &version, &err), &err);
    rises = token > last.token && version > last.version;
    last.token = token > last.token ? token : last.token;
    last.version = version > last.version ? version : last.version;
    return rises;
}

/* A client that is there for three grants. 1: all rose. */
static int visit(const struct server *s)
{
    sqlock *m = db_open(db_of(s->url));
    int rises = 1;

    for (int i = 0; i < 3; i++)
        rises &= draw(m, "x");
    sqlock_close(m);
    return rises;
}

/* ---- promotions ------------------------------------------------------------------------------ */

/* A dies, and B is promoted; B dies, and C is promoted, which has never heard of B: both are
 * timeline 2. Each time the last commits are lost. How many of the three visits rose. */
static int two_promotions(void)
{
    struct server a = server_postgres(), b, c;
    int risen;

    begin(a.url);
    risen = visit(&a);
    b = server_branch(&a);
    c = server_branch(&a);
    risen &= visit(&a); /* of this neither knows */
    server_kill(&a);
    server_promote(&b);
    risen += visit(&b);
    server_kill(&b);
    server_promote(&c);
    assert_int_equal(server_number(&c, "SELECT ('x' || left(pg_walfile_name(pg_current_wal_lsn()), "
                                       "8))::bit(32)::int"),
                     2);
    risen += visit(&c);
    server_kill(&c);
    return risen;
}

TEST(test_P2_tokens_rise_over_two_promotions_that_know_nothing_of_each_other)
{
    assert_int_equal(two_promotions(), 3);
}

/* Before MySQL 5.7.8 nobody may know when it was started. */
static struct server mysql_that_says_its_start(void)
{
    struct server s = server_mysql();

    if (server_number(&s, "SELECT version() LIKE '5.6.%%'"))
        skip();
    return s;
}

/* A goes on, and what it grants then its copy B does not know. B takes over, and A comes back on
 * its disk, where nothing is known of what B has granted meanwhile. How many of the four visits
 * rose. */
static int failback(struct server a)
{
    struct server b;
    int risen;

    begin(a.url);
    risen = visit(&a);
    b = server_branch(&a);
    risen += visit(&a);
    server_kill(&a);
    server_take_over(&b);
    risen += visit(&b);
    server_kill(&b);
    server_again(&a);
    risen += visit(&a);
    server_kill(&a);
    return risen;
}

TEST(test_P2_tokens_rise_over_a_failback_without_a_rebuild)
{
    assert_int_equal(failback(server_postgres()), 4);
}

TEST(test_P2_tokens_rise_over_a_copy_and_a_failback_on_mysql)
{
    assert_int_equal(failback(mysql_that_says_its_start()), 4);
}

/* ---- grace ----------------------------------------------------------------------------------- */

enum { LONGEST = 4000 };

static sqlock *open_gracious(const struct server *a, const struct server *b, int32_t grace_ms)
{
    const char *host_a = strstr(a->url, "host="), *host_b = strstr(b->url, "host=");
    struct db db =
        db_of(textf("postgresql:///postgres?%.*s,%.*s&user=postgres", (int)strcspn(host_a, "&"),
                    host_a, (int)strcspn(host_b + 5, "&"), host_b + 5));

    db.lease_ms = LONGEST;
    db.grace_ms = grace_ms;
    return db_open(db);
}

static int try(sqlock *m, const char *name)
{
    sqlock_lock *lock = NULL;
    int rc = lock_try(m, name, 0, &lock, &err);

    if (lock != NULL)
        lock_give(lock);
    return rc;
}

/* "lost" is granted by a commit that B does not have. Who was granted it believes in it, until its
 * lease is over; and so long nobody else is granted it. "kept" goes on. */
TEST(test_no_one_is_granted_what_a_lost_commit_may_have_granted)
{
    struct server a = server_postgres(), b;
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock *holder, *eager, *gracious;
    sqlock_lock *kept, *lost, *next = NULL;
    int64_t token, ends, lost_at;

    begin(a.url);
    b = server_copy(&a);
    holder = open_gracious(&a, &b, 60000);
    kept = held(holder, "kept", LONGEST, NULL);
    token = sqlock_lock_token(kept);
    assert_soon(server_number(&b, "SELECT count(*) FROM sqlock_lock") == 1, patience_ms(10000));
    server_cut(&b);
    o.flags = SQLOCK_NO_RENEW;
    assert_ok(sqlock_acquire(holder, "lost", &o, &lost, &err), &err);
    server_kill(&a);
    server_promote(&b);
    gracious = open_gracious(&a, &b, 60000);
    ends = sqlock_lock_deadline_us(lost);
    assert_error(SQLOCK_EBUSY, "may have lost the lock's holder", try(gracious, "lost"), &err);
    assert_code(SQLOCK_EBUSY, try(gracious, "never seen"), &err);
    assert_error(SQLOCK_EBUSY, "held by", try(gracious, "kept"), &err);
    o.flags = 0;
    o.wait_ms = patience_ms(20000);
    assert_ok(sqlock_acquire(gracious, "lost", &o, &next, &err), &err);
    assert_true(sqlock_now_us() >= ends);
    lost_at = server_number(&b, "SELECT lost_at FROM sqlock_meta");
    assert_true(lost_at > 0);
    assert_true(server_number(&b, "SELECT since - lost_at FROM sqlock_lock, sqlock_meta "
                                  "WHERE name = 'lost'") >= LONGEST * MS);
    assert_true(sqlock_lock_token(next) > sqlock_lock_token(lost));
    assert_int_equal(sqlock_lock_state(kept), SQLOCK_HELD); /* its holder came along */
    assert_int_equal(sqlock_lock_token(kept), token);
    lock_give(next);
    /* Without the option nobody waits; nor does anybody when a server was merely started anew. */
    server_exec(&b, "UPDATE sqlock_meta SET lost_at = (extract(epoch FROM clock_timestamp()) * "
                    "1000000)::bigint, longest = 60000000");
    eager = open_gracious(&a, &b, 0);
    assert_code(SQLOCK_EBUSY, try(gracious, "lost"), &err);
    assert_ok(try(eager, "lost"), &err);
    server_exec(&b, "UPDATE sqlock_meta SET lost_at = 0");
    lock_give(kept);
    sqlock_lock_free(lost);
    sqlock_close(holder);
    sqlock_close(eager);
    sqlock_close(gracious);
    server_kill(&b);
    server_again(&b);
    gracious = open_gracious(&a, &b, 60000);
    assert_ok(try(gracious, "lost"), &err);
    assert_int_equal(server_number(&b, "SELECT lost_at FROM sqlock_meta"), 0);
    sqlock_close(gracious);
    server_kill(&b);
}
TEST_MAIN_EACH(NULL, NULL)
