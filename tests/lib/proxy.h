/* A proxy between the library and a server, for tests of what a bad network does: it holds back,
 * delays, cuts and refuses when it is told to. One thread in the test's process serves all links.
 *
 * A function that changes what the proxy does has taken effect for every byte not yet forwarded
 * when it returns. Requests flow up (client to server), replies down.
 *
 * Not to be used from a forked child: the parent's thread serves the child's links too. */
#ifndef SQLOCK_TESTS_LIB_PROXY_H
#define SQLOCK_TESTS_LIB_PROXY_H

#include <stdbool.h>
#include <stdint.h>

struct proxy;

typedef enum proxy_mode {
    PROXY_PASS = 0,
    PROXY_HOLD_DOWN = 1, /* no reply passes; links stay open and look idle */
    PROXY_HOLD_UP = 2,   /* no request passes */
    PROXY_HOLD = 3       /* both: a cable that was pulled */
} proxy_mode;

/* Start a proxy before the socket at target_path, or the TCP port of a host. It listens on a socket
 * named .s.PGSQL.5432 in a temporary folder, and on a port of 127.0.0.1. It ends with proxy_stop(),
 * and the process may end without. */
struct proxy *proxy_start_unix(const char *target_path);
struct proxy *proxy_start_tcp(const char *host, const char *port);
/* Before the PostgreSQL server of this URL, or of the tests; skips the test where there is none. */
struct proxy *proxy_start_url(const char *url);
struct proxy *proxy_start_pg(void);
/* Links that are left are cut. NULL is allowed. */
void proxy_stop(struct proxy *p);

/* The database's URL by way of the proxy (of the last two). */
const char *proxy_url(const struct proxy *p);
const char *proxy_dir(const struct proxy *p); /* the folder with its socket: libpq's host= */
int proxy_port(const struct proxy *p);        /* on 127.0.0.1 */

/* What was held is passed on once the mode allows it again, as after a network's repair: also the
 * end of a connection. */
void proxy_mode_set(struct proxy *p, proxy_mode mode);
/* Every byte passes so much later than it came, each direction; 0: at once. */
void proxy_delay(struct proxy *p, int32_t ms);
/* And by up to so much more, drawn anew for each piece that comes; the order stays. */
void proxy_jitter(struct proxy *p, int32_t ms);
/* Pass at most so many bytes at once, and then none for a while, each direction; 0 bytes: all. */
void proxy_dribble(struct proxy *p, int32_t bytes, int32_t pause_ms);
/* Refuse new connections (nobody listens), until called with 0. Present links stay. */
void proxy_refuse(struct proxy *p, int refuse);

/* Cut present links now. What is on its way is lost. */
void proxy_cut(struct proxy *p);
/* After `bytes` more bytes of replies, over all links, cut the link that carries the next one. */
void proxy_cut_after(struct proxy *p, int64_t bytes);
/* Let `skip` requests and their replies pass. The next request is forwarded and its link is cut
 * when the server begins to answer it: it was done, and nobody heard. A request is what a client
 * sends between two replies, so a login is several. */
void proxy_cut_reply(struct proxy *p, int skip);
/* The same, but the link is cut when the request comes: the server never sees it. */
void proxy_cut_request(struct proxy *p, int skip);

/* A port of this address without a server; out_fd not NULL: that descriptor listens on it, and no
 * connection is accepted. */
int port_without_server(const char *address, int *out_fd);

/* For assert_soon(): how often a link was cut by one of the above; connections that were accepted;
 * requests that came, as proxy_cut_reply() counts them. */
int proxy_cuts(struct proxy *p);
int proxy_accepted(struct proxy *p);
int proxy_requests(struct proxy *p);
/* Whether the server has been sent a request whose reply has not begun to come. */
bool proxy_awaits_reply(struct proxy *p);

#endif
