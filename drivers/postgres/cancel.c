/* Cancels a statement on the application's connection, over a connection of its own: the server
 * knows no other way. It goes to the very address of the application's connection, and names no
 * user and no password. */
#include <poll.h>

#include "postgres.h"

#ifdef LIBPQ_HAS_ASYNC_CANCEL

/* From libpq 17 on it is encrypted as the connection is, and never blocks. */
int pg_send_cancel(PGconn *pg, int64_t deadline)
{
    PGcancelConn *cancel = PQcancelCreate(pg);
    PostgresPollingStatusType want = PGRES_POLLING_FAILED;

    if (cancel != NULL && PQcancelStart(cancel))
        want = PGRES_POLLING_WRITING;
    while (want == PGRES_POLLING_READING || want == PGRES_POLLING_WRITING) {
        if (sqlock_wait_fd(PQcancelSocket(cancel), want == PGRES_POLLING_READING ? POLLIN : POLLOUT,
                           -1, deadline) != 1)
            break;
        want = PQcancelPoll(cancel);
    }
    if (cancel != NULL)
        PQcancelFinish(cancel);
    return want == PGRES_POLLING_OK || want == PGRES_POLLING_FAILED ? 0 : SQLOCK_ETIMEOUT;
}

#else

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

union address {
    struct sockaddr any;
    struct sockaddr_un path;
    struct sockaddr_storage storage;
};

/* Where the server listens. The peer of a unix socket has the path as the server sees it, and in a
 * container that is another one than ours. 0: the address cannot be found. */
static socklen_t server_address(PGconn *pg, union address *a)
{
    socklen_t len = sizeof *a;
    const char *folder = PQhost(pg);
    size_t room = sizeof a->path.sun_path;
    int n;

    memset(a, 0, sizeof *a);
    if (getpeername(PQsocket(pg), &a->any, &len) != 0)
        return 0;
    if (a->any.sa_family != AF_UNIX)
        return len;
    memset(a, 0, sizeof *a);
    a->path.sun_family = AF_UNIX;
    n = snprintf(a->path.sun_path, room, "%s/.s.PGSQL.%s", folder != NULL ? folder : "",
                 PQport(pg));
    if (n < 0 || (size_t)n >= room)
        return 0;
    if (a->path.sun_path[0] != '@')
        return sizeof a->path;
    a->path.sun_path[0] = '\0';
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)n);
}

static int cancel_connected(int fd, const union address *a, socklen_t len, int64_t deadline)
{
    int failed = 0;
    socklen_t size = sizeof failed;

    if (connect(fd, &a->any, len) == 0)
        return 1;
    return errno == EINPROGRESS && sqlock_wait_fd(fd, POLLOUT, -1, deadline) == 1 &&
           getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &size) == 0 && failed == 0;
}

/* PQcancel() knows no deadline: it blocks for as long as the other side accepts connections and
 * stays silent. So a connection with a deadline goes the same way first. It sends a request for
 * encryption, which needs no name, and gets one byte as an answer. Returns 1 also if that cannot be
 * tried. */
static int server_answers(PGconn *pg, int64_t deadline)
{
    static const char tls_request[] = {0, 0, 0, 8, 0x04, (char)0xd2, 0x16, 0x2f};
    union address a;
    socklen_t len = server_address(pg, &a);
    int fd = len > 0 ? socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) : -1;
    char answer;
    int answers;

    if (fd < 0)
        return 1;
    answers =
        cancel_connected(fd, &a, len, deadline) &&
        send(fd, tls_request, sizeof tls_request, MSG_NOSIGNAL) == (ssize_t)sizeof tls_request &&
        sqlock_wait_fd(fd, POLLIN, -1, deadline) == 1 && recv(fd, &answer, 1, 0) == 1;
    close(fd);
    return answers;
}

/* When PQcancel() returns, the server has sent the signal. */
int pg_send_cancel(PGconn *pg, int64_t deadline)
{
    PGcancel *cancel = NULL;
    char ignored[256];

    if (!server_answers(pg, deadline))
        return 0;
    cancel = PQgetCancel(pg);
    if (cancel != NULL)
        PQcancel(cancel, ignored, sizeof ignored);
    PQfreeCancel(cancel);
    return 0;
}

#endif
