/* Points on the wire: each packet to a server, and each statement that SQLite begins to step.
 * Client libraries and drivers find these functions here, for a program's own come before those of
 * the libraries; they hand on to the real ones. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "tests/counted/fault.h"
#include "tests/lib/check.h"

/* ---- servers --------------------------------------------------------------------------------- */

/* The server has done what it was asked once it answers, or hangs up. */
static void await_answer(int fd)
{
    struct pollfd p = {fd, POLLIN, 0};

    poll(&p, 1, patience_ms(5000));
    sleep_ms(2); /* the rest of it */
}

static void lose_answer(int fd)
{
    char lost[4096];

    while (recv(fd, lost, sizeof lost, MSG_DONTWAIT) > 0)
        continue;
    shutdown(fd, SHUT_RDWR);
}

/* MariaDB and MySQL take several statements in a packet, behind its header and the command's
 * number. What stands before the one that fails has been done, and each commits by itself. NULL:
 * none does. */
static char *spoiled(const char *data, size_t len)
{
    char *copy;

    if (len < 6 || data[3] != 0 || data[4] != 3)
        return NULL;
    for (const char *at = data + 5;
         (at = memmem(at, len - (size_t)(at - data), ";\n", 2)) != NULL;) {
        at += 2;
        if (len - (size_t)(at - data) < 6 || fault_at(AT_PACKETS) == FAULT_NONE)
            continue;
        if ((copy = malloc(len)) == NULL)
            return NULL;
        memcpy(copy, data, len);
        memcpy(copy + (at - data), "FAULTY", 6);
        return copy;
    }
    return NULL;
}

/* Client libraries are shared objects: they have to see it. */
__attribute__((visibility("default"))) ssize_t send(int fd, const void *data, size_t len, int flags)
{
    ssize_t (*real)(int, const void *, size_t, int);
    enum fault fault = fault_at(AT_WIRE);
    ssize_t sent;

    find_real("send", &real, sizeof real);
    if (fault == FAULT_DIE_BEFORE)
        fault_die();
    if (fault == FAULT_LOSE_REQUEST) {
        shutdown(fd, SHUT_RDWR);
        errno = ECONNRESET;
        return -1;
    }
    char *other = spoiled(data, len);
    sent = real(fd, other != NULL ? other : data, len, flags);
    free(other);
    if (fault == FAULT_NONE)
        return sent;
    await_answer(fd);
    if (fault == FAULT_DIE_AFTER)
        fault_die();
    lose_answer(fd);
    return sent;
}

/* ---- SQLite ---------------------------------------------------------------------------------- */

#ifdef TEST_HAVE_SQLITE
#include <sqlite3.h>

/* A statement that fails is undone by SQLite. Only one that has committed may fail all the same:
 * when that took effect, and the journal behind it cannot be synced. */
int sqlite3_step(sqlite3_stmt *stmt)
{
    int (*real)(sqlite3_stmt *);
    enum fault fault = sqlite3_stmt_busy(stmt) ? FAULT_NONE : fault_at(AT_WIRE);
    int rc;

    find_real("sqlite3_step", &real, sizeof real);
    if (fault == FAULT_DIE_BEFORE)
        fault_die();
    if (fault == FAULT_ERROR)
        return SQLITE_NOMEM;
    if (fault == FAULT_LOSE_REQUEST)
        return SQLITE_IOERR;
    rc = real(stmt);
    if (fault == FAULT_DIE_AFTER)
        fault_die();
    if (fault == FAULT_LOSE_REPLY && rc == SQLITE_DONE &&
        sqlite3_get_autocommit(sqlite3_db_handle(stmt)))
        return SQLITE_IOERR;
    return rc;
}
#endif
