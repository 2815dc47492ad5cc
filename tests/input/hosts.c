#include "tests/input/hosts.h"

#include <string.h>

static sqlock_error err;
struct proxy *hosts_proxies[2];

int hosts_teardown(__attribute__((unused)) void **state)
{
    for (int i = 0; i < 2; i++) {
        proxy_stop(hosts_proxies[i]);
        hosts_proxies[i] = NULL;
    }
    return 0;
}

struct db hosts_two_ways(const struct hosts *h, const char *user, int32_t request_ms)
{
    struct db db = h->migrated();

    for (int i = 0; i < 2; i++)
        hosts_proxies[i] = proxy_start_unix(h->socket());
    db.url = h->url(user);
    db.request_ms = request_ms;
    return db;
}

uint32_t count_hosts(const struct hosts *h, const char *url, int64_t *out_each_us)
{
    sqlock_hosts hosts = {.size = sizeof hosts, .n = 1};

    assert_ok(h->driver()->hosts(url, &hosts, &err), &err);
    *out_each_us = hosts.each_us;
    return hosts.n;
}

void assert_counted(const struct hosts *h, const struct named *urls)
{
    for (; urls->url != NULL; urls++) {
        int64_t each;
        uint32_t n = count_hosts(h, urls->url, &each);

        if (n != urls->n || each != urls->each_s * 1000000)
            fail_msg("%s: %u hosts, %lld us for each", urls->url, n, (long long)each);
    }
}

int64_t opened_in(struct db db)
{
    int64_t begun = now_us();

    assert_ok(db_try(db, &err), &err);
    return now_us() - begun;
}

void a_silent_first_host_takes_its_share_alone(const struct hosts *h)
{
    struct db db = hosts_two_ways(h, h->user, 4000);

    proxy_mode_set(hosts_proxies[0], PROXY_HOLD);
    assert_between(h->share_ms * INT64_C(1000), opened_in(db), 3900000);
}

void a_refused_first_host_costs_nothing(const struct hosts *h)
{
    struct db db = hosts_two_ways(h, h->user, 5000);

    proxy_refuse(hosts_proxies[0], 1);
    assert_between(0, opened_in(db), patience_ms(2000) * INT64_C(1000));
}

void a_wrong_user_is_said_at_once(const struct hosts *h)
{
    struct db db = hosts_two_ways(h, "nobody_here", 60000);
    int64_t begun = now_us();

    assert_told(SQLOCK_EDENIED, "host 1: ", db_try(db, &err), &err);
    assert_int_equal(err.flags & SQLOCK_RETRY, 0);
    assert_between(0, now_us() - begun, patience_ms(5000) * INT64_C(1000));
}

void assert_migrating_says_what_opening_says(struct db db, int code)
{
    sqlock_error opened;

    assert_code(code, db_try(db, &opened), &opened);
    assert_code(code, db_try_migrate(db, &err), &err);
    assert_string_equal(err.text + strlen("migrate"), opened.text + strlen("open"));
}

void migrations_are_refused_where_opening_is(const struct hosts *h)
{
    struct db db = h->migrated();

    h->empty();
    h->weaken(true);
    assert_migrating_says_what_opening_says(db, SQLOCK_EREFUSED);
    assert_int_equal(h->tables(), 0);
    db_migrate(db_with(db, SQLOCK_OPEN_ACCEPT_WEAK));
    h->weaken(false);
}
