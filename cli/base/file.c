#include "cli/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINKS_MAX = 40 };

/* Open the folder that the path `way` leads to (it is free()d here). Links are followed one by one,
 * because another user's link may lead anywhere. Returns -1 and errno on failure. */
static int open_folder(char *way)
{
    int at = open(*way == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC), next = -1;
    char word[NAME_MAX + 1], target[PATH_MAX], *rest = way;
    struct stat st;

    for (int links = 0; at >= 0;) {
        size_t len = strcspn(rest += strspn(rest, "/"), "/");
        ssize_t n;
        char *joined;

        if (len == 0)
            break;
        snprintf(word, sizeof word, "%.*s", (int)(len < sizeof word ? len : sizeof word), rest);
        rest += len;
        errno = ENAMETOOLONG;
        if (len >= sizeof word || (next = openat(at, word, O_PATH | O_NOFOLLOW | O_CLOEXEC)) < 0 ||
            fstat(next, &st) != 0)
            goto failed;
        if (!S_ISLNK(st.st_mode)) {
            close(at);
            at = next;
            next = -1;
            continue;
        }
        errno = ELOOP;
        if ((st.st_uid != 0 && st.st_uid != geteuid()) || ++links > LINKS_MAX ||
            (n = readlinkat(next, "", target, sizeof target - 1)) < 0)
            goto failed;
        close(next);
        next = -1;
        target[n] = '\0';
        if (asprintf(&joined, "%s/%s", target, rest) < 0)
            goto failed;
        free(way);
        rest = way = joined;
        if (*target == '/') {
            close(at);
            at = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        }
    }
    free(way);
    return at;
failed:
    free(way);
    if (next >= 0)
        close(next);
    close(at);
    return -1;
}

/* Open the folder of path's file, and return the file's name there. A rename would replace a device
 * for everyone, and a link may lead anywhere: so there must be a plain file, or none. Returns -1
 * and errno on failure. */
static int open_place(const char *path, const char **out_name)
{
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    char *way = strndup(path, (size_t)(name - path));
    int folder = way != NULL ? open_folder(way) : -1, failed = 0;
    struct stat st;

    *out_name = name;
    if (folder < 0)
        return -1;
    if (*name == '\0')
        failed = EISDIR;
    else if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        failed = errno == ENOENT ? 0 : errno;
    else if (!S_ISREG(st.st_mode))
        failed = S_ISDIR(st.st_mode) ? EISDIR : S_ISLNK(st.st_mode) ? ELOOP : EINVAL;
    if (failed == 0)
        return folder;
    close(folder);
    errno = failed;
    return -1;
}

/* A hidden name in the same folder that no one else uses; collectors read *.prom only. It is
 * random, because containers that share a folder may have equal process numbers. */
static char *name_beside(const char *name)
{
    uint64_t chance;
    char *beside;

    if (getrandom(&chance, sizeof chance, 0) != (ssize_t)sizeof chance)
        return NULL;
    return asprintf(&beside, ".%s.%016" PRIx64, name, chance) < 0 ? NULL : beside;
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

/* So that the new name survives a crash too. Some systems cannot flush a folder. */
static void flush_folder(int folder)
{
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

int file_replace(const char *path, const char *text, size_t len)
{
    const char *name;
    int folder = open_place(path, &name), fd = -1, failed = 0;
    char *beside = folder >= 0 ? name_beside(name) : NULL;

    if (beside == NULL ||
        (fd = openat(folder, beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) < 0) {
        failed = errno;
    } else if (!write_all(fd, text, len) || renameat(folder, beside, folder, name) != 0) {
        failed = errno;
        unlinkat(folder, beside, 0);
    } else {
        flush_folder(folder);
    }
    if (fd >= 0)
        close(fd);
    if (folder >= 0)
        close(folder);
    free(beside);
    return failed;
}

char *file_text(const char *path)
{
    enum { MOST = 65536 };
    const char *name;
    int folder = open_place(path, &name), fd = -1;
    char *text = NULL;
    size_t used = 0;
    ssize_t n = 0;

    if (folder >= 0) {
        fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
        close(folder);
    }
    if (fd >= 0)
        text = calloc(1, MOST + 1);
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
