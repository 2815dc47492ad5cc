#include "cli/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where path leads: a link stays one, and its target is replaced. free() it; NULL: errno. */
static char *target_of(const char *path)
{
    struct stat st;
    char *real = realpath(path, NULL);

    if (real == NULL)
        return errno == ENOENT ? strdup(path) : NULL;
    /* Renamed over, a device (/dev/stdout) would be gone for everybody. */
    if (stat(real, &st) == 0 && S_ISREG(st.st_mode))
        return real;
    errno = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
    free(real);
    return NULL;
}

/* A name that nobody else has, hidden, in the same folder; collectors take those of *.prom only. By
 * chance and not by process: containers that share a folder have the same numbers. */
static char *name_beside(const char *target)
{
    const char *slash = strrchr(target, '/');
    int folder = slash != NULL ? (int)(slash + 1 - target) : 0;
    uint64_t chance;
    char *name;

    if (getrandom(&chance, sizeof chance, 0) != (ssize_t)sizeof chance)
        return NULL;
    if (asprintf(&name, "%.*s.%s.%016" PRIx64, folder, target, target + folder, chance) < 0)
        return NULL;
    return name;
}

static bool write_all(int fd, const char *text, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, text, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        text += n;
        len -= (size_t)n;
    }
    return fsync(fd) == 0;
}

/* So that the new name, too, is there after a crash. Where a folder cannot be flushed, that is so.
 */
static void flush_folder(char *path)
{
    char *slash = strrchr(path, '/');
    int fd;

    if (slash != NULL)
        slash[slash == path] = '\0';
    fd = open(slash != NULL ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

int file_replace(const char *path, const char *text, size_t len)
{
    char *target = target_of(path), *beside = target != NULL ? name_beside(target) : NULL;
    int fd = -1, failed = errno;

    if (beside == NULL)
        goto out;
    failed = 0;
    if ((fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) < 0) {
        failed = errno;
        goto out;
    }
    if (!write_all(fd, text, len) || rename(beside, target) != 0) {
        failed = errno;
        unlink(beside);
    } else {
        flush_folder(target);
    }
    close(fd);
out:
    free(beside);
    free(target);
    return failed;
}

char *file_text(const char *path)
{
    enum { MOST = 65536 };
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* it may be a pipe */
    char *text = fd >= 0 ? calloc(1, MOST + 1) : NULL;
    size_t used = 0;
    ssize_t n = 0;

    while (text != NULL && used < MOST && (n = read(fd, text + used, MOST - used)) > 0)
        used += (size_t)n;
    if (n < 0) {
        free(text);
        text = NULL;
    }
    if (fd >= 0)
        close(fd);
    return text;
}
