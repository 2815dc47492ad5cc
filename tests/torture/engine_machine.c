/* The machine that a database runs on: a disk that is small and can be filled, and a clock that can
 * be stepped. */
#include "tests/torture/engine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/check.h"
#include "tests/lib/undo.h"

enum { DISK_MB = 240 };

/* ---- the small disk ---------------------------------------------------------------------------
 */

static void unmount(const char *top)
{
    if (umount2(top, MNT_DETACH) != 0)
        fprintf(stderr, "%s was not unmounted: %s\n", top, strerror(errno));
}

static bool mount_small_disk(struct engine *e)
{
    char options[32];

    snprintf(e->top, sizeof e->top, "%s", temp_dir());
    snprintf(options, sizeof options, "size=%dm,mode=1777", DISK_MB);
    if (mount("tmpfs", e->top, "tmpfs", 0, options) == 0) {
        undo_later(unmount, e->top);
        return true;
    }
    snprintf(e->why, sizeof e->why, "a small disk cannot be mounted: %s", strerror(errno));
    return false;
}

static void ballast_path(const struct engine *e, char out[300])
{
    snprintf(out, 300, "%s/ballast", e->top);
}

void engine_fill(struct engine *e)
{
    static const char block[65536];
    size_t size = sizeof block;
    char path[300];
    int fd;

    ballast_path(e, path);
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    while (size >= 512)
        if (write(fd, block, size) != (ssize_t)size)
            size /= 2;
    close(fd);
}

void engine_free(struct engine *e)
{
    char path[300];

    ballast_path(e, path);
    unlink(path);
}

/* ---- the clock --------------------------------------------------------------------------------
 */

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

/* SQLite's clients look into the file without reading it: it stays the same file. */
static bool put_number(const char *path, int64_t ms)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    bool fine = fd >= 0 && write(fd, &ms, sizeof ms) == sizeof ms;

    if (fd >= 0)
        close(fd);
    return fine;
}

/* In one piece: a reader that finds half of it would see the true time. */
void engine_clock(struct engine *e, int seconds)
{
    char fresh[340];
    FILE *f;

    if (!e->kind->ops->script) {
        if (!put_number(e->clock, seconds * INT64_C(1000)))
            fail_msg("%s: %s", e->clock, strerror(errno));
        return;
    }
    snprintf(fresh, sizeof fresh, "%s.new", e->clock);
    f = fopen(fresh, "w");
    if (!f || fprintf(f, "%+d\n", seconds) < 0 || fclose(f) != 0 || rename(fresh, e->clock) != 0)
        fail_msg("%s: %s", fresh, strerror(errno));
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

/* A server's clock is its own. */
void engine_env(const struct engine *e)
{
    if (!e->kind->ops->script && (e->wants & ENGINE_CLOCK))
        setenv("TORTURE_CLOCK", e->clock, 1);
}

/* What libfaketime keeps for a process is left behind when that is killed. */
static void remove_clock_litter(void)
{
    DIR *dir = opendir("/dev/shm");

    for (struct dirent *entry; dir && (entry = readdir(dir)) != NULL;) {
        const char *number = strrchr(entry->d_name, '_');
        char path[300];

        if (!strstr(entry->d_name, "faketime_s") || !number)
            continue;
        if (kill((pid_t)strtol(number + 1, NULL, 10), 0) == 0 || errno != ESRCH)
            continue;
        snprintf(path, sizeof path, "/dev/shm/%s", entry->d_name);
        unlink(path);
    }
    if (dir)
        closedir(dir);
}

bool engine_machine(struct engine *e)
{
    return (!(e->wants & ENGINE_SMALL_DISK) || mount_small_disk(e)) &&
           (!(e->wants & ENGINE_CLOCK) || make_clock(e));
}

void engine_machine_end(const struct engine *e)
{
    if (e->wants & ENGINE_CLOCK)
        remove_clock_litter();
}
