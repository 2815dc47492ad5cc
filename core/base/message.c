/* Messages between processes of one machine: reasons to look, which may be lost. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/clock.h"

/* A name that is in no file system ("abstract"), and goes with its last descriptor. Processes in
 * another network namespace, such as a container's, cannot see it. */
static socklen_t message_address(const unsigned char to[SQLOCK_MESSAGE_SIZE],
                                 struct sockaddr_un *out)
{
    size_t len = strlen("sqlock_");

    memset(out, 0, sizeof *out);
    out->sun_family = AF_UNIX;
    memcpy(out->sun_path + 1, "sqlock_", len);
    for (int i = 0; i < SQLOCK_MESSAGE_SIZE; i++, len += 2)
        snprintf(out->sun_path + 1 + len, 3, "%02x", to[i]);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
}

static int message_socket(void)
{
    return socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

int sqlock_message_listen(const unsigned char to[SQLOCK_MESSAGE_SIZE])
{
    struct sockaddr_un address;
    socklen_t size = message_address(to, &address);
    int fd = message_socket();

    if (fd >= 0 && bind(fd, (const struct sockaddr *)&address, size) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return SQLOCK_ESYS;
}

void sqlock_message_send(const unsigned char to[SQLOCK_MESSAGE_SIZE],
                         const unsigned char text[SQLOCK_MESSAGE_SIZE])
{
    struct sockaddr_un address;
    socklen_t size = message_address(to, &address);
    int fd = message_socket();

    if (fd < 0)
        return;
    (void)sendto(fd, text, SQLOCK_MESSAGE_SIZE, MSG_NOSIGNAL, (const struct sockaddr *)&address,
                 size);
    close(fd);
}

int sqlock_message_take(int fd, unsigned char out[SQLOCK_MESSAGE_SIZE])
{
    ssize_t n;

    do
        n = fd >= 0 ? recv(fd, out, SQLOCK_MESSAGE_SIZE, MSG_TRUNC) : -1;
    while (n >= 0 && n != SQLOCK_MESSAGE_SIZE);
    return n == SQLOCK_MESSAGE_SIZE;
}

void sqlock_message_close(int fd)
{
    if (fd >= 0)
        close(fd);
}
