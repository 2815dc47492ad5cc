/* tests/lib/proxy.c: each fault does what its name says, and only that. A server that answers each
 * line with "re:" and the line stands behind the proxy. */
#include "tests/lib/proxy.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/lib/check.h"
#include "tests/lib/pg.h"
#include "tests/lib/words.h"

static struct {
    pid_t server;
    struct proxy *proxy;
    int fd;     /* a link through the proxy */
    char *seen; /* by the server, whose memory it is too */
} t;

enum { SEEN = 512 };

static struct sockaddr_un at(const char *dir, const char *name)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    snprintf(a.sun_path, sizeof a.sun_path, "%s/%s", dir, name);
    return a;
}

/* Serves 16 connections at once, until it is killed. */
__attribute__((noreturn)) static int serve(void *arg)
{
    struct pollfd fds[17] = {{*(int *)arg, POLLIN, 0}};
    nfds_t n = 1;

    for (;;) {
        poll(fds, n, -1);
        if (fds[0].revents && n < 17)
            fds[n++] = (struct pollfd){accept(fds[0].fd, NULL, NULL), POLLIN, 0};
        for (nfds_t i = 1; i < n; i++) {
            char line[256] = "re:";
            ssize_t got = fds[i].revents ? read(fds[i].fd, line + 3, sizeof line - 3) : -1;

            if (got > 0)
                strncat(t.seen, line + 3, (size_t)got);
            if (got > 0 && write(fds[i].fd, line, (size_t)got + 3) > 0)
                continue;
            if (got == 0) {
                close(fds[i].fd);
                fds[i].fd = -1;
            }
        }
    }
}

/* A connection to the proxy's socket, or -1. */
static int try_dial(void)
{
    struct sockaddr_un a = at(proxy_dir(t.proxy), ".s.PGSQL.5432");
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
        return fd;
    close(fd);
    return -1;
}

static int setup(__attribute__((unused)) void **state)
{
    const char *dir = temp_dir();
    struct sockaddr_un a = at(dir, "server");
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    t.seen = mmap(NULL, SEEN, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (bind(fd, (struct sockaddr *)&a, sizeof a) != 0 || listen(fd, 16) != 0)
        abort();
    t.server = child_start(serve, &fd);
    close(fd);
    t.proxy = proxy_start_unix(textf("%s/server", dir));
    t.fd = try_dial();
    return t.fd < 0;
}

static int teardown(__attribute__((unused)) void **state)
{
    close(t.fd);
    proxy_stop(t.proxy);
    kill(t.server, SIGKILL);
    child_wait(t.server, 5000);
    munmap(t.seen, SEEN);
    return 0;
}

static void say(int fd, const char *line)
{
    assert_int_equal(send(fd, line, strlen(line), MSG_NOSIGNAL), strlen(line));
}

/* What comes within the time: "" for nothing, NULL for the end of the connection. */
static const char *hear(int fd, int limit_ms)
{
    static char line[512];
    struct pollfd p = {fd, POLLIN, 0};
    ssize_t n;

    if (poll(&p, 1, limit_ms) == 0)
        return "";
    n = read(fd, line, sizeof line - 1);
    if (n <= 0)
        return NULL;
    line[n] = '\0';
    return line;
}

enum { LONG_MS = 10000, SHORT_MS = 60 };

static void redial(void)
{
    close(t.fd);
    t.fd = try_dial();
    assert_true(t.fd >= 0);
}

static void assert_answered(int fd, const char *line)
{
    say(fd, line);
    assert_string_equal(hear(fd, LONG_MS), textf("re:%s", line));
}

TEST(test_passes_both_ways_by_socket_and_by_port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)proxy_port(t.proxy)),
                            .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_answered(t.fd, "one");
    assert_int_equal(connect(tcp, (struct sockaddr *)&a, sizeof a), 0);
    assert_answered(tcp, "two");
    assert_int_equal(proxy_accepted(t.proxy), 2);
    assert_int_equal(proxy_requests(t.proxy), 2);
    close(tcp);
    assert_int_equal(proxy_cuts(t.proxy), 0);
}

TEST(test_hold_down_keeps_the_reply_and_not_the_request)
{
    proxy_mode_set(t.proxy, PROXY_HOLD_DOWN);
    say(t.fd, "one");
    assert_soon(strcmp(t.seen, "one") == 0, LONG_MS);
    assert_string_equal(hear(t.fd, SHORT_MS), "");
    assert_true(proxy_awaits_reply(t.proxy));
    proxy_mode_set(t.proxy, PROXY_PASS);
    assert_string_equal(hear(t.fd, LONG_MS), "re:one");
    assert_false(proxy_awaits_reply(t.proxy));
}

TEST(test_hold_up_keeps_the_request)
{
    proxy_mode_set(t.proxy, PROXY_HOLD_UP);
    say(t.fd, "one");
    assert_string_equal(hear(t.fd, SHORT_MS), "");
    assert_string_equal(t.seen, "");
    assert_false(proxy_awaits_reply(t.proxy));
    proxy_mode_set(t.proxy, PROXY_PASS);
    assert_string_equal(hear(t.fd, LONG_MS), "re:one");
}

TEST(test_hold_hides_the_end_of_a_connection)
{
    assert_answered(t.fd, "one");
    proxy_mode_set(t.proxy, PROXY_HOLD);
    kill(t.server, SIGKILL);
    assert_string_equal(hear(t.fd, SHORT_MS), "");
    proxy_mode_set(t.proxy, PROXY_PASS);
    assert_null(hear(t.fd, LONG_MS));
}

TEST(test_cut_reply_is_done_and_not_heard)
{
    proxy_cut_reply(t.proxy, 1);
    assert_answered(t.fd, "one,");
    say(t.fd, "two");
    assert_null(hear(t.fd, LONG_MS));
    assert_string_equal(t.seen, "one,two");
    assert_int_equal(proxy_cuts(t.proxy), 1);
    redial();
    assert_answered(t.fd, ",three");
}

TEST(test_cut_request_is_not_done)
{
    proxy_cut_request(t.proxy, 1);
    assert_answered(t.fd, "one");
    say(t.fd, "two");
    assert_null(hear(t.fd, LONG_MS));
    sleep_ms(SHORT_MS);
    assert_string_equal(t.seen, "one");
    assert_int_equal(proxy_cuts(t.proxy), 1);
}

TEST(test_cut_after_lets_so_many_bytes_through)
{
    proxy_cut_after(t.proxy, 8);
    assert_answered(t.fd, "one");
    say(t.fd, "two");
    assert_string_equal(hear(t.fd, LONG_MS), "re");
    assert_null(hear(t.fd, LONG_MS));
    assert_int_equal(proxy_cuts(t.proxy), 1);
}

TEST(test_cut_ends_all_links_and_no_new_one)
{
    int other = try_dial();

    assert_answered(t.fd, "one");
    assert_answered(other, "one");
    proxy_cut(t.proxy);
    assert_int_equal(proxy_cuts(t.proxy), 2);
    assert_null(hear(t.fd, LONG_MS));
    assert_null(hear(other, LONG_MS));
    close(other);
    redial();
    assert_answered(t.fd, "two");
}

TEST(test_refuse_lets_no_one_in_and_keeps_who_is)
{
    int port = proxy_port(t.proxy);

    assert_answered(t.fd, "one");
    proxy_refuse(t.proxy, 1);
    assert_int_equal(try_dial(), -1);
    assert_int_equal(errno, ECONNREFUSED);
    assert_answered(t.fd, "two");
    proxy_refuse(t.proxy, 0);
    redial();
    assert_answered(t.fd, "three");
    assert_int_equal(proxy_port(t.proxy), port);
}

TEST(test_delay_delays_each_way)
{
    int64_t begun_us;

    proxy_delay(t.proxy, 40);
    begun_us = now_us();
    assert_answered(t.fd, "one");
    assert_between(80000, now_us() - begun_us, (int64_t)LONG_MS * 1000);
}

TEST(test_jitter_delays_no_less_than_nothing_and_keeps_the_order)
{
    int64_t begun_us, longest_us = 0;

    proxy_jitter(t.proxy, 40);
    for (int i = 0; i < 8; i++) {
        begun_us = now_us();
        assert_answered(t.fd, "one");
        if (now_us() - begun_us > longest_us)
            longest_us = now_us() - begun_us;
    }
    assert_between(20000, longest_us, (int64_t)LONG_MS * 1000);
    proxy_jitter(t.proxy, 0);
    begun_us = now_us();
    assert_answered(t.fd, "two");
    assert_between(0, now_us() - begun_us, longest_us);
}

TEST(test_dribble_passes_a_few_bytes_at_a_time)
{
    char heard[16] = "";
    int pieces = 0;

    assert_answered(t.fd, "first");
    proxy_dribble(t.proxy, 3, 60);
    say(t.fd, "six");
    while (strlen(heard) < strlen("re:six")) {
        const char *piece = hear(t.fd, LONG_MS);

        assert_non_null(piece);
        assert_between(1, (int64_t)strlen(piece), 3);
        strcat(heard, piece);
        pieces++;
    }
    assert_string_equal(heard, "re:six");
    assert_int_equal(pieces, 2);
}

TEST(test_postgres_is_reached_through_the_proxy)
{
    struct proxy *p = proxy_start_pg();
    char host[256];
    char port[16];

    pg_url_target(proxy_url(p), host, port);
    assert_memory_equal(host, proxy_dir(p), strlen(proxy_dir(p)));
    assert_string_equal(port, "");
    assert_true(proxy_accepted(p) >= 1);
    assert_true(proxy_requests(p) >= 1);
    proxy_stop(p);
}

TEST_MAIN_EACH(setup, teardown)
