/* The machine that a database runs on: a small disk to be filled, and a clock to be stepped. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/check.h"
#include "tests/lib/undo.h"
#include "tests/torture/engine.h"

/* ---- the small disk -------------------------------------------------------------------------- */

static void unmount(const char *top)
{
    if (umount2(top, MNT_DETACH) != 0)
        fprintf(stderr, "%s was not unmounted: %s\n", top, strerror(errno));
}

static bool mount_small_disk(struct engine *e)
{
    snprintf(e->top, sizeof e->top, "%s", temp_dir());
    if (mount("tmpfs", e->top, "tmpfs", 0, "size=240m,mode=1777") == 0)
        return undo_later(unmount, e->top) != NULL;
    snprintf(e->why, sizeof e->why, "a small disk cannot be mounted: %s", strerror(errno));
    return false;
}

void engine_fill(struct engine *e)
{
    static const char block[65536];
    int fd = open(text("%s/ballast", e->top), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    for (size_t size = sizeof block; size >= 512;)
        if (write(fd, block, size) != (ssize_t)size)
            size /= 2;
    close(fd);
}

void engine_free(struct engine *e)
{
    unlink(text("%s/ballast", e->top));
}

/* ---- the clock ------------------------------------------------------------------------------- */

static bool make_clock(struct engine *e)
{
    char *dir = temp_dir();

    if (e->kind->ops->script && !faketime_path()) {
        snprintf(e->why, sizeof e->why, "no libfaketime is installed (package faketime)");
        return false;
    }
    chmod(dir, 0755);
    snprintf(e->clock, sizeof e->clock, "%s/clock", dir);
    engine_clock(e, 0);
    return true;
}

/* SQLite's clients look into the file without reading it: it stays the same file. Servers read it
 * anew each time, and half of it would be the true time: so it comes in one piece. */
void engine_clock(struct engine *e, int seconds)
{
    const int64_t ms = seconds * INT64_C(1000);
    const char *path = e->kind->ops->script ? text("%s.new", e->clock) : e->clock;
    const char *line = text("%+d\n", seconds);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    bool fine = fd >= 0 && (e->kind->ops->script
                                ? write(fd, line, strlen(line)) > 0 && rename(path, e->clock) == 0
                                : write(fd, &ms, sizeof ms) == sizeof ms);

    if (!fine || close(fd) != 0)
        fail_msg("%s: %s", path, strerror(errno));
}

/* Monotonic clocks stay true: no machine steps them. */
void engine_clock_env(const struct engine *e)
{
    if (!(e->wants & ENGINE_CLOCK))
        return;
    setenv("SQLOCK_TEST_PRELOAD", faketime_path(), 1);
    setenv("FAKETIME_TIMESTAMP_FILE", e->clock, 1);
    setenv("FAKETIME_NO_CACHE", "1", 1);
    setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1", 1);
}

bool engine_clock_broke(const struct engine *e)
{
    return (e->wants & ENGINE_CLOCK) && e->kind->family == FAMILY_POSTGRES &&
           shell("grep -Eq '^([a-z_]+\\(\\): |corrupted |double free)' '%s/log'", engine_folder(e));
}

/* A server's clock is its own. */
void engine_env(const struct engine *e)
{
    if (!e->kind->ops->script && (e->wants & ENGINE_CLOCK))
        setenv("TORTURE_CLOCK", e->clock, 1);
}

bool engine_machine(struct engine *e)
{
    return (!(e->wants & ENGINE_SMALL_DISK) || mount_small_disk(e)) &&
           (!(e->wants & ENGINE_CLOCK) || make_clock(e));
}

/* What libfaketime keeps for a process is left behind when that is killed. */
void engine_machine_end(const struct engine *e)
{
    if (e->wants & ENGINE_CLOCK)
        shell("for f in /dev/shm/*faketime_s*_*; do"
              " kill -0 ${f##*_} 2>/dev/null || rm -f \"$f\"; done");
}
