/* URLs that name several hosts: what the tests of all databases share. */
#ifndef SQLOCK_TESTS_INPUT_HOSTS_H
#define SQLOCK_TESTS_INPUT_HOSTS_H

#include "tests/lib/db.h"
#include "tests/lib/proxy.h"
#include "tests/lib/words.h"

/* What sets the databases apart. All of it is about the private server. */
struct hosts {
    const sqlock_driver *(*driver)(void);
    struct db (*migrated)(void);
    const char *(*socket)(void);
    char *(*url)(const char *user); /* by the two proxies */
    const char *user;               /* who may do everything */
    int32_t share_ms; /* the first of two hosts has at least so much of a request of 4 s */
    void (*empty)(void);
    void (*weaken)(bool on); /* it may forget commits */
    int64_t (*tables)(void);
};

extern struct proxy *hosts_proxies[2]; /* two ways to that server */
int hosts_teardown(void **state);

/* The server, migrated, by the proxies. */
struct db hosts_two_ways(const struct hosts *h, const char *user, int32_t request_ms);
/* How many hosts a URL names, and how long each may take. */
uint32_t count_hosts(const struct hosts *h, const char *url, int64_t *out_each_us);
/* Lines of a table end with NULL. */
struct named {
    const char *url;
    uint32_t n;
    int64_t each_s;
};
void assert_counted(const struct hosts *h, const struct named *urls);
/* How long a good opening takes, in microseconds; else the test fails. */
int64_t opened_in(struct db db);
void assert_migrating_says_what_opening_says(struct db db, int code);

void a_silent_first_host_takes_its_share_alone(const struct hosts *h);
void a_refused_first_host_costs_nothing(const struct hosts *h);
void a_wrong_user_is_said_at_once(const struct hosts *h);
void migrations_are_refused_where_opening_is(const struct hosts *h);

#define HOSTS_TEST(test, part, h)                                                                  \
    TEST(test)                                                                                     \
    {                                                                                              \
        part(h);                                                                                   \
    }
#define HOSTS_TESTS(h)                                                                             \
    HOSTS_TEST(test_P8_a_silent_first_host_takes_its_share_alone,                                  \
               a_silent_first_host_takes_its_share_alone, h)                                       \
    HOSTS_TEST(test_a_refused_first_host_costs_nothing, a_refused_first_host_costs_nothing, h)     \
    HOSTS_TEST(test_P18_a_wrong_user_is_said_at_once, a_wrong_user_is_said_at_once, h)             \
    HOSTS_TEST(test_P16_migrations_are_refused_where_opening_is,                                   \
               migrations_are_refused_where_opening_is, h)

#endif
