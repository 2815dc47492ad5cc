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
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/lib/check.h"
#include "tests/lib/pg.h"

static struct {
    char *dir;
    char path[100];
    pid_t server;
    struct proxy *proxy;
} t;

static int listen_at(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    if (bind(fd, (struct sockaddr *)&a, sizeof a) != 0 || listen(fd, 16) != 0)
        abort();
    return fd;
}

/* Serves 16 connections at once, until it is killed. Keeps what it was sent in the file "seen". */
__attribute__((noreturn)) static int serve(void *arg)
{
    struct pollfd fds[17] = {{*(int *)arg, POLLIN, 0}};
    nfds_t n = 1;
    char seen[128];

    snprintf(seen, sizeof seen, "%s/seen", t.dir);
    for (;;) {
        poll(fds, n, -1);
        if (fds[0].revents && n < 17)
            fds[n++] = (struct pollfd){accept(fds[0].fd, NULL, NULL), POLLIN, 0};
        for (nfds_t i = 1; i < n; i++) {
            char line[256] = "re:";
            ssize_t got = fds[i].revents ? read(fds[i].fd, line + 3, sizeof line - 3) : -1;
            FILE *f = got > 0 ? fopen(seen, "a") : NULL;

            if (f) {
                fwrite(line + 3, 1, (size_t)got, f);
                fclose(f);
            }
            if (got > 0 && write(fds[i].fd, line, (size_t)got + 3) > 0)
                continue;
            if (got == 0) {
                close(fds[i].fd);
                fds[i].fd = -1;
            }
        }
    }
}

static int setup(void **state)
{
    int fd;
    (void)state;
    t.dir = temp_dir();
    snprintf(t.path, sizeof t.path, "%s/server", t.dir);
    fd = listen_at(t.path);
    t.server = child_start(serve, &fd);
    close(fd);
    t.proxy = proxy_start_unix(t.path);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    proxy_stop(t.proxy);
    kill(t.server, SIGKILL);
    child_wait(t.server, 5000);
    temp_dir_remove(t.dir);
    return 0;
}

/* A connection to the proxy's socket, or -1. */
static int try_dial(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(a.sun_path, sizeof a.sun_path, "%s/.s.PGSQL.5432", proxy_dir(t.proxy));
    if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
        return fd;
    close(fd);
    return -1;
}

static int dial(void)
{
    int fd = try_dial();
    assert_true(fd >= 0);
    return fd;
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

static const char *server_saw(void)
{
    static char text[512];
    char path[128];
    FILE *f;
    size_t n = 0;

    snprintf(path, sizeof path, "%s/seen", t.dir);
    f = fopen(path, "r");
    if (f) {
        n = fread(text, 1, sizeof text - 1, f);
        fclose(f);
    }
    text[n] = '\0';
    return text;
}

enum { LONG_MS = 10000, SHORT_MS = 60 };

TEST(test_passes_both_ways_by_socket_and_by_port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)proxy_port(t.proxy)),
                            .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fd = dial();

    say(fd, "one");
    assert_string_equal(hear(fd, LONG_MS), "re:one");
    assert_int_equal(connect(tcp, (struct sockaddr *)&a, sizeof a), 0);
    say(tcp, "two");
    assert_string_equal(hear(tcp, LONG_MS), "re:two");
    assert_int_equal(proxy_links(t.proxy), 2);
    assert_int_equal(proxy_accepted(t.proxy), 2);
    assert_int_equal(proxy_requests(t.proxy), 2);
    close(tcp);
    close(fd);
    assert_soon(proxy_links(t.proxy) == 0, LONG_MS);
    assert_int_equal(proxy_cuts(t.proxy), 0);
}

TEST(test_hold_down_keeps_the_reply_and_not_the_request)
{
    int fd = dial();

    proxy_mode_set(t.proxy, PROXY_HOLD_DOWN);
    say(fd, "one");
    assert_soon(strcmp(server_saw(), "one") == 0, LONG_MS);
    assert_string_equal(hear(fd, SHORT_MS), "");
    proxy_mode_set(t.proxy, PROXY_PASS);
    assert_string_equal(hear(fd, LONG_MS), "re:one");
    close(fd);
}

TEST(test_hold_up_keeps_the_request)
{
    int fd = dial();

    proxy_mode_set(t.proxy, PROXY_HOLD_UP);
    say(fd, "one");
    assert_string_equal(hear(fd, SHORT_MS), "");
    assert_string_equal(server_saw(), "");
    proxy_mode_set(t.proxy, PROXY_PASS);
    assert_string_equal(hear(fd, LONG_MS), "re:one");
    close(fd);
}

TEST(test_hold_hides_the_end_of_a_connection)
{
    int fd = dial();

    say(fd, "one");
    assert_string_equal(hear(fd, LONG_MS), "re:one");
    proxy_mode_set(t.proxy, PROXY_HOLD);
    kill(t.server, SIGKILL);
    assert_string_equal(hear(fd, SHORT_MS), "");
    proxy_mode_set(t.proxy, PROXY_PASS);
    assert_null(hear(fd, LONG_MS));
    close(fd);
}

TEST(test_cut_reply_is_done_and_not_heard)
{
    int fd = dial();

    proxy_cut_reply(t.proxy, 1);
    say(fd, "one,");
    assert_string_equal(hear(fd, LONG_MS), "re:one,");
    say(fd, "two");
    assert_null(hear(fd, LONG_MS));
    assert_string_equal(server_saw(), "one,two");
    assert_int_equal(proxy_cuts(t.proxy), 1);
    close(fd);
    fd = dial();
    say(fd, ",three");
    assert_string_equal(hear(fd, LONG_MS), "re:,three");
    close(fd);
}

TEST(test_cut_request_is_not_done)
{
    int fd = dial();

    proxy_cut_request(t.proxy, 1);
    say(fd, "one");
    assert_string_equal(hear(fd, LONG_MS), "re:one");
    say(fd, "two");
    assert_null(hear(fd, LONG_MS));
    sleep_ms(SHORT_MS);
    assert_string_equal(server_saw(), "one");
    assert_int_equal(proxy_cuts(t.proxy), 1);
    close(fd);
}

TEST(test_cut_after_lets_so_many_bytes_through)
{
    int fd = dial();

    proxy_cut_after(t.proxy, 8);
    say(fd, "one");
    assert_string_equal(hear(fd, LONG_MS), "re:one");
    say(fd, "two");
    assert_string_equal(hear(fd, LONG_MS), "re");
    assert_null(hear(fd, LONG_MS));
    assert_int_equal(proxy_cuts(t.proxy), 1);
    close(fd);
}

TEST(test_cut_ends_all_links_and_no_new_one)
{
    int a = dial();
    int b = dial();

    say(a, "one");
    say(b, "one");
    assert_string_equal(hear(a, LONG_MS), "re:one");
    assert_string_equal(hear(b, LONG_MS), "re:one");
    proxy_cut(t.proxy);
    assert_int_equal(proxy_cuts(t.proxy), 2);
    assert_int_equal(proxy_links(t.proxy), 0);
    assert_null(hear(a, LONG_MS));
    assert_null(hear(b, LONG_MS));
    close(a);
    close(b);
    a = dial();
    say(a, "two");
    assert_string_equal(hear(a, LONG_MS), "re:two");
    close(a);
}

TEST(test_refuse_lets_nobody_in_and_keeps_who_is)
{
    int port = proxy_port(t.proxy);
    int fd = dial();

    say(fd, "one");
    assert_string_equal(hear(fd, LONG_MS), "re:one");
    proxy_refuse(t.proxy, 1);
    assert_int_equal(try_dial(), -1);
    assert_int_equal(errno, ECONNREFUSED);
    say(fd, "two");
    assert_string_equal(hear(fd, LONG_MS), "re:two");
    close(fd);
    proxy_refuse(t.proxy, 0);
    fd = dial();
    say(fd, "three");
    assert_string_equal(hear(fd, LONG_MS), "re:three");
    assert_int_equal(proxy_port(t.proxy), port);
    close(fd);
}

TEST(test_delay_delays_each_way)
{
    int64_t begun_us;
    int fd = dial();

    proxy_delay(t.proxy, 40);
    begun_us = now_us();
    say(fd, "one");
    assert_string_equal(hear(fd, LONG_MS), "re:one");
    assert_between(80000, now_us() - begun_us, (int64_t)LONG_MS * 1000);
    close(fd);
}

TEST(test_jitter_delays_no_less_than_nothing_and_keeps_the_order)
{
    int64_t begun_us, longest_us = 0;
    int fd = dial();

    proxy_jitter(t.proxy, 40);
    for (int i = 0; i < 8; i++) {
        begun_us = now_us();
        say(fd, "one");
        assert_string_equal(hear(fd, LONG_MS), "re:one");
        if (now_us() - begun_us > longest_us)
            longest_us = now_us() - begun_us;
    }
    assert_between(20000, longest_us, (int64_t)LONG_MS * 1000);
    proxy_jitter(t.proxy, 0);
    begun_us = now_us();
    say(fd, "two");
    assert_string_equal(hear(fd, LONG_MS), "re:two");
    assert_between(0, now_us() - begun_us, longest_us);
    close(fd);
}

TEST(test_dribble_passes_a_few_bytes_at_a_time)
{
    int fd = dial();
    char heard[16] = "";
    int pieces = 0;

    say(fd, "first");
    assert_string_equal(hear(fd, LONG_MS), "re:first");
    proxy_dribble(t.proxy, 3, 60);
    say(fd, "six");
    while (strlen(heard) < strlen("re:six")) {
        const char *piece = hear(fd, LONG_MS);

        assert_non_null(piece);
        assert_between(1, (int64_t)strlen(piece), 3);
        strcat(heard, piece);
        pieces++;
    }
    assert_string_equal(heard, "re:six");
    assert_int_equal(pieces, 2);
    close(fd);
}

TEST(test_postgres_is_reached_through_the_proxy)
{
    struct proxy *p = proxy_start_pg();
    char *through = pg_url_through(proxy_url(p), proxy_dir(p), "5432");
    char host[256];
    char port[16];

    assert_string_equal(through, proxy_url(p));
    pg_url_target(proxy_url(p), host, port);
    assert_memory_equal(host, proxy_dir(p), strlen(proxy_dir(p)));
    assert_string_equal(port, "");
    assert_true(proxy_accepted(p) >= 1);
    assert_true(proxy_requests(p) >= 1);
    free(through);
    proxy_stop(p);
}

TEST_MAIN_EACH(setup, teardown)
