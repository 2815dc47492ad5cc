#include "cli/base/fds.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static bool was_closed[3]; /* set once, before anything else runs */

void fds_fill(void)
{
    int fd;

    for (int i = 0; i < 3; i++)
        was_closed[i] = fcntl(i, F_GETFD) < 0;
    /* open() returns the lowest free descriptor. */
    while ((fd = open("/dev/null", O_RDWR)) >= 0 && fd < 3)
        continue;
    if (fd >= 3)
        close(fd);
}

bool fds_was_closed(int fd)
{
    return fd >= 0 && fd < 3 && was_closed[fd];
}

void fds_silence(void)
{
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (fd < 0)
        return;
    dup2(fd, STDIN_FILENO);
    dup2(fd, STDOUT_FILENO);
    close(fd);
}

static bool is_kept(int fd, const int *keep, int n)
{
    for (int i = 0; i < n; i++)
        if (keep[i] == fd)
            return true;
    return false;
}

void fds_close_others(const int *keep, int n)
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *entry;

    if (dir == NULL)
        return;
    while ((entry = readdir(dir)) != NULL) {
        int fd = atoi(entry->d_name);

        if (fd > 2 && fd != dirfd(dir) && !is_kept(fd, keep, n))
            close(fd);
    }
    closedir(dir);
}
