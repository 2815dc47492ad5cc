/* Inside of the proxy: what proxy.c starts and controls, and the thread in proxy_serve.c serves. */
#ifndef SQLOCK_TESTS_LIB_PROXY_SERVE_H
#define SQLOCK_TESTS_LIB_PROXY_SERVE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "tests/lib/proxy.h"

enum { UP = 0, DOWN = 1 };
enum { MAX_LINKS = 256, BUFFER = 16384, LISTENERS = 2 };
enum { LOOK_MS = 1 }; /* so often it looks whether something was changed, or is due */

/* One direction of a link. It reads again when all that it read was forwarded. */
struct flow {
    int from, to;
    char data[BUFFER];
    size_t len, sent;
    int64_t due_us; /* when data may pass */
    bool ended;     /* from will send no more */
    bool shut;      /* and to was told */
};

struct link {
    struct flow flow[2];
    bool in_request; /* the client spoke last */
};

struct proxy {
    pthread_t thread;
    char *dir;
    char *url;
    int port;
    struct sockaddr_storage target;
    socklen_t target_len;

    pthread_mutex_t mutex; /* guards all below; the thread leaves it only while it waits */
    bool stop;
    proxy_mode mode;
    int32_t delay_ms, jitter_ms;
    int32_t dribble_bytes, dribble_ms;
    uint32_t dice;     /* of the jitter: the same from run to run */
    int64_t cut_bytes; /* of replies until the cut; -1: no cut */
    int cut_reply;     /* requests to pass before the one whose reply is cut; -1: no cut */
    int cut_request;
    int cuts, accepted, requests;
    int listen_fd[LISTENERS]; /* -1: refusing */
    struct link *links[MAX_LINKS];
};

/* The thread; arg is the proxy. Ends when stop is set. */
void *proxy_serve(void *arg);
/* Close the link at this place, so that both ends learn of it. With the mutex, or no thread. */
void proxy_drop_link(struct proxy *p, size_t i);

#endif
