#include "tests/lib/proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/lib/check.h"
#include "tests/lib/pg.h"
#include "tests/lib/proxy_serve.h"

static void must(bool ok, const char *what)
{
    if (!ok)
        fail_msg("proxy: %s: %s", what, strerror(errno));
}

/* ---- start and stop -------------------------------------------------------------------------- */

static int listen_at(struct sockaddr *at, socklen_t len)
{
    int one = 1;
    int fd = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    must(fd >= 0, "socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    must(bind(fd, at, len) == 0, "bind");
    must(listen(fd, 64) == 0, "listen");
    must(getsockname(fd, at, &len) == 0, "getsockname");
    return fd;
}

static void listen_all(struct proxy *p)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)p->port),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};

    must(snprintf(un.sun_path, sizeof un.sun_path, "%s/.s.PGSQL.5432", p->dir) <
             (int)sizeof un.sun_path,
         "the socket's path is too long");
    unlink(un.sun_path);
    p->listen_fd[0] = listen_at((struct sockaddr *)&un, sizeof un);
    p->listen_fd[1] = listen_at((struct sockaddr *)&in, sizeof in);
    p->port = ntohs(in.sin_port);
}

static struct proxy *start(const void *target, socklen_t len)
{
    struct proxy *p = calloc(1, sizeof *p);
    sigset_t all, before;

    must(p != NULL, "calloc");
    memcpy(&p->target, target, len);
    p->target_len = len;
    p->dice = 1;
    p->cut_bytes = p->cut_reply = p->cut_request = -1;
    p->dir = temp_dir();
    listen_all(p);
    must(pthread_mutex_init(&p->mutex, NULL) == 0, "pthread_mutex_init");
    /* A test's signals are for the test's threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    must(pthread_create(&p->thread, NULL, proxy_serve, p) == 0, "pthread_create");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return p;
}

struct proxy *proxy_start_unix(const char *target_path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    must(snprintf(a.sun_path, sizeof a.sun_path, "%s", target_path) < (int)sizeof a.sun_path,
         "the target's path is too long");
    return start(&a, sizeof a);
}

struct proxy *proxy_start_tcp(const char *host, const char *port)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    struct proxy *p;

    must(getaddrinfo(host, port, &hints, &found) == 0, "getaddrinfo");
    p = start(found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return p;
}

struct proxy *proxy_start_url(const char *url)
{
    char host[256];
    char port[16];
    struct proxy *p;

    pg_url_target(url, host, port);
    p = *port ? proxy_start_tcp(host, port) : proxy_start_unix(host);
    p->url = pg_url_through(url, p->dir, "5432");
    return p;
}

struct proxy *proxy_start_pg(void)
{
    return proxy_start_url(pg_url());
}

void proxy_stop(struct proxy *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->mutex);
    p->stop = true;
    pthread_mutex_unlock(&p->mutex);
    pthread_join(p->thread, NULL);
    for (size_t i = 0; i < MAX_LINKS; i++)
        if (p->links[i])
            proxy_drop_link(p, i);
    for (int i = 0; i < LISTENERS; i++)
        if (p->listen_fd[i] >= 0)
            close(p->listen_fd[i]);
    pthread_mutex_destroy(&p->mutex);
    temp_dir_remove(p->dir);
    free(p->url);
    free(p);
}

/* ---- control --------------------------------------------------------------------------------- */

const char *proxy_url(const struct proxy *p)
{
    return p->url;
}

const char *proxy_dir(const struct proxy *p)
{
    return p->dir;
}

int proxy_port(const struct proxy *p)
{
    return p->port;
}

static void set(struct proxy *p, int32_t *what, int32_t value)
{
    pthread_mutex_lock(&p->mutex);
    *what = value;
    pthread_mutex_unlock(&p->mutex);
}

void proxy_mode_set(struct proxy *p, proxy_mode mode)
{
    pthread_mutex_lock(&p->mutex);
    p->mode = mode;
    pthread_mutex_unlock(&p->mutex);
}

void proxy_delay(struct proxy *p, int32_t ms)
{
    set(p, &p->delay_ms, ms);
}

void proxy_jitter(struct proxy *p, int32_t ms)
{
    set(p, &p->jitter_ms, ms);
}

void proxy_dribble(struct proxy *p, int32_t bytes, int32_t pause_ms)
{
    pthread_mutex_lock(&p->mutex);
    p->dribble_bytes = bytes;
    p->dribble_ms = pause_ms;
    pthread_mutex_unlock(&p->mutex);
}

void proxy_refuse(struct proxy *p, int refuse)
{
    pthread_mutex_lock(&p->mutex);
    for (int i = 0; i < LISTENERS && refuse; i++) {
        if (p->listen_fd[i] < 0)
            continue;
        shutdown(p->listen_fd[i], SHUT_RDWR);
        close(p->listen_fd[i]);
        p->listen_fd[i] = -1;
    }
    if (!refuse && p->listen_fd[0] < 0)
        listen_all(p);
    pthread_mutex_unlock(&p->mutex);
}

void proxy_cut(struct proxy *p)
{
    pthread_mutex_lock(&p->mutex);
    for (size_t i = 0; i < MAX_LINKS; i++)
        if (p->links[i]) {
            proxy_drop_link(p, i);
            p->cuts++;
        }
    pthread_mutex_unlock(&p->mutex);
}

void proxy_cut_after(struct proxy *p, int64_t bytes)
{
    pthread_mutex_lock(&p->mutex);
    p->cut_bytes = bytes;
    pthread_mutex_unlock(&p->mutex);
}

void proxy_cut_reply(struct proxy *p, int skip)
{
    set(p, &p->cut_reply, skip);
}

void proxy_cut_request(struct proxy *p, int skip)
{
    set(p, &p->cut_request, skip);
}

static int look(struct proxy *p, const int *number)
{
    int n;

    pthread_mutex_lock(&p->mutex);
    n = *number;
    pthread_mutex_unlock(&p->mutex);
    return n;
}

int proxy_cuts(struct proxy *p)
{
    return look(p, &p->cuts);
}

int proxy_accepted(struct proxy *p)
{
    return look(p, &p->accepted);
}

int proxy_requests(struct proxy *p)
{
    return look(p, &p->requests);
}

bool proxy_awaits_reply(struct proxy *p)
{
    bool awaited = false;

    pthread_mutex_lock(&p->mutex);
    for (size_t i = 0; i < MAX_LINKS; i++)
        if (p->links[i])
            awaited |=
                p->links[i]->in_request && p->links[i]->flow[UP].sent == p->links[i]->flow[UP].len;
    pthread_mutex_unlock(&p->mutex);
    return awaited;
}

/* ---- no proxy -------------------------------------------------------------------------------- */

int port_without_server(const char *address, int *out_fd)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {inet_addr(address)}};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    must(bind(fd, (struct sockaddr *)&a, sizeof a) == 0, "bind");
    must(getsockname(fd, (struct sockaddr *)&a, &len) == 0, "getsockname");
    must(out_fd == NULL || listen(fd, 0) == 0, "listen");
    if (out_fd != NULL)
        *out_fd = fd;
    else
        close(fd);
    return ntohs(a.sin_port);
}
