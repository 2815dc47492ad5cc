#include "tests/lib/proxy_serve.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/check.h"

/* ---- links ----------------------------------------------------------------------------------- */

void proxy_drop_link(struct proxy *p, size_t i)
{
    struct link *l = p->links[i];
    struct linger reset = {1, 0};

    /* shutdown() too: a forked child's copies of the descriptors keep a connection open. */
    for (int d = UP; d <= DOWN; d++) {
        setsockopt(l->flow[d].from, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        shutdown(l->flow[d].from, SHUT_RDWR);
        close(l->flow[d].from);
    }
    free(l);
    p->links[i] = NULL;
}

static void no_delay(int fd)
{
    int one = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); /* refused on a unix socket */
}

static void accept_link(struct proxy *p, int listen_fd)
{
    int client = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    int server = -1;
    struct link *l = NULL;
    size_t i = 0;

    if (client < 0)
        return;
    p->accepted++;
    while (i < MAX_LINKS && p->links[i])
        i++;
    server = socket(p->target.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (i == MAX_LINKS || server < 0 ||
        connect(server, (const struct sockaddr *)&p->target, p->target_len) != 0 ||
        (l = calloc(1, sizeof *l)) == NULL) {
        close(client);
        if (server >= 0)
            close(server);
        return;
    }
    fcntl(server, F_SETFL, O_NONBLOCK);
    no_delay(client);
    no_delay(server);
    l->flow[UP].from = l->flow[DOWN].to = client;
    l->flow[UP].to = l->flow[DOWN].from = server;
    p->links[i] = l;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static bool held(const struct proxy *p, int d)
{
    return (p->mode & (d == UP ? PROXY_HOLD_UP : PROXY_HOLD_DOWN)) != 0;
}

/* Whether this cut falls on the request that is under way; counts down if not. */
static bool counted_out(int *count)
{
    if (*count < 0)
        return false;
    return (*count)-- == 0;
}

/* Something was read from one side. False: the link is to be cut. */
static bool note_read(struct proxy *p, struct link *l, int d)
{
    bool cut = false;

    if (d == UP && !l->in_request) {
        l->in_request = true;
        p->requests++;
        cut = counted_out(&p->cut_request);
    } else if (d == DOWN && l->in_request) {
        l->in_request = false;
        cut = counted_out(&p->cut_reply);
    }
    p->cuts += cut;
    return !cut;
}

static int64_t due_us(struct proxy *p)
{
    int32_t ms = p->delay_ms;

    p->dice = p->dice * 1103515245 + 12345;
    if (p->jitter_ms > 0)
        ms += (int32_t)(p->dice >> 8) % (p->jitter_ms + 1);
    return now_us() + (int64_t)ms * 1000;
}

static bool read_some(struct proxy *p, struct link *l, int d)
{
    struct flow *f = &l->flow[d];
    ssize_t n = recv(f->from, f->data, sizeof f->data, 0);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    /* An error is told as an end: what the other side has in flight may still pass. */
    f->ended = n <= 0;
    f->len = n > 0 ? (size_t)n : 0;
    f->sent = 0;
    f->due_us = due_us(p);
    return f->ended || note_read(p, l, d);
}

static bool write_some(struct proxy *p, struct flow *f, int d)
{
    size_t want = f->len - f->sent;
    bool limited = d == DOWN && p->cut_bytes >= 0;
    ssize_t n = 0;

    if (p->dribble_bytes > 0 && want > (size_t)p->dribble_bytes) {
        want = (size_t)p->dribble_bytes;
        f->due_us = now_us() + (int64_t)p->dribble_ms * 1000;
    }
    if (limited && p->cut_bytes < (int64_t)want)
        want = (size_t)p->cut_bytes;
    if (want > 0)
        n = send(f->to, f->data + f->sent, want, MSG_NOSIGNAL);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    f->sent += (size_t)n;
    if (limited) {
        p->cut_bytes -= n;
        if (p->cut_bytes == 0 && f->sent < f->len) {
            p->cut_bytes = -1;
            p->cuts++;
            return false;
        }
    }
    return true;
}

/* What can be done for one direction. False: the link is over. */
static bool serve_flow(struct proxy *p, struct link *l, int d, bool readable)
{
    struct flow *f = &l->flow[d];

    if (held(p, d))
        return true;
    if (readable && f->len == f->sent && !f->ended && !read_some(p, l, d))
        return false;
    if (f->due_us > now_us())
        return true;
    if (f->sent < f->len && !write_some(p, f, d))
        return false;
    if (f->ended && f->sent == f->len && !f->shut) {
        shutdown(f->to, SHUT_WR);
        f->shut = true;
    }
    return !(l->flow[UP].shut && l->flow[DOWN].shut);
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* What to wait for in one direction; what is held back is not due before the next look. */
static void flow_events(const struct proxy *p, const struct flow *f, int d, short *from, short *to)
{
    if (held(p, d))
        return;
    if (f->len == f->sent && !f->ended)
        *from |= POLLIN;
    else if ((f->sent < f->len || !f->shut) && f->due_us <= now_us())
        *to |= POLLOUT;
}

/* poll() tells of a hangup even when nothing is asked for; a descriptor that has nothing to say to
 * us now is left out, or the thread would spin. */
static struct pollfd entry(int fd, short events)
{
    return (struct pollfd){events ? fd : -1, events, 0};
}

/* Fills fds: the listeners, then two for each place of a link. */
static void prepare(const struct proxy *p, struct pollfd *fds)
{
    for (int i = 0; i < LISTENERS; i++)
        fds[i] = entry(p->listen_fd[i], p->listen_fd[i] >= 0 ? POLLIN : 0);
    for (size_t i = 0; i < MAX_LINKS; i++) {
        struct pollfd *pair = fds + LISTENERS + 2 * i;
        const struct link *l = p->links[i];
        short client = 0;
        short server = 0;

        if (l) {
            flow_events(p, &l->flow[UP], UP, &client, &server);
            flow_events(p, &l->flow[DOWN], DOWN, &server, &client);
        }
        pair[UP] = entry(l ? l->flow[UP].from : -1, client);
        pair[DOWN] = entry(l ? l->flow[DOWN].from : -1, server);
    }
}

static void serve(struct proxy *p, const struct pollfd *fds)
{
    for (size_t i = 0; i < MAX_LINKS; i++) {
        const struct pollfd *pair = fds + LISTENERS + 2 * i;

        for (int d = UP; d <= DOWN && p->links[i]; d++)
            if (!serve_flow(p, p->links[i], d, pair[d].fd >= 0 && pair[d].revents != 0))
                proxy_drop_link(p, i);
    }
    for (int i = 0; i < LISTENERS; i++)
        if (p->listen_fd[i] >= 0 && p->listen_fd[i] == fds[i].fd && fds[i].revents)
            accept_link(p, p->listen_fd[i]);
}

void *proxy_serve(void *arg)
{
    struct proxy *p = arg;
    struct pollfd fds[LISTENERS + 2 * MAX_LINKS];
    const nfds_t n = sizeof fds / sizeof *fds;

    pthread_mutex_lock(&p->mutex);
    while (!p->stop) {
        int ready;

        prepare(p, fds);
        pthread_mutex_unlock(&p->mutex);
        ready = poll(fds, n, LOOK_MS);
        pthread_mutex_lock(&p->mutex);
        /* A link that was cut meanwhile left its place, and a new one is only made below. So an
         * answer of poll() is never taken for another link's. */
        if (ready >= 0)
            serve(p, fds);
    }
    pthread_mutex_unlock(&p->mutex);
    return NULL;
}
