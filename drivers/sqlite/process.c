/* What a fork leaves behind in SQLite: whether this process may use it. */
#include "sqlite.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

/* ---- what this driver had open --------------------------------------------------------------- */

/* SQLite remembers, for all connections of a process, which locks it has on a file. A child
 * inherits this memory without the locks. If the parent had a connection open, three things go
 * wrong in the child:
 * - A connection that the child opens to the same file uses this memory, and believes in locks that
 *   it never takes. In WAL mode that is the lock that says "in use". When the parent closes, the
 *   next process believes to be the last one and removes the WAL. The child goes on in a file that
 *   no other process sees, and both are granted the same lock with the same token.
 * - Without WAL, if a thread of the parent was in a transaction at the fork, its locks are never
 *   released.
 * - A mutex of SQLite's that a thread of the parent held stays locked in the child, whichever file
 *   it opens.
 *
 * So a child opens no database at all. That needs no comparison of files: links and mounts make one
 * file look like two, and a file that is just being opened cannot be compared.
 *
 * These two are static, like SQLite's memory: a count and its process, without a mutex, because a
 * child could find it locked. The process is written before the count, so that the count never
 * belongs to another process. */
static _Atomic int64_t owner;
static atomic_long connections;

int lite_process_check(sqlock_error *err)
{
    if (atomic_load(&connections) == 0 || atomic_load(&owner) == sqlock_process_id())
        return 0;
    return sqlock_error_set(err, SQLOCK_EREFUSED, 0,
                            "this process was forked while its parent had a database open, and "
                            "SQLite takes the parent's file locks for its own: fork before the "
                            "first open or after the last close, or exec");
}

int lite_process_enter(sqlock_error *err)
{
    const int rc = lite_process_check(err);

    if (rc != 0)
        return rc;
    atomic_store(&owner, sqlock_process_id());
    atomic_fetch_add(&connections, 1);
    return 0;
}

void lite_process_leave(void)
{
    atomic_fetch_sub(&connections, 1);
}

/* ---- what the application had open ----------------------------------------------------------- */

/* What the application itself had open at the fork is not in our count. But its locks can be looked
 * for. A reader has a lock on these bytes; in WAL mode each connection that was ever used has one.
 * If SQLite believes that we read, and the kernel knows no such lock of this process, then SQLite
 * remembers a parent's lock. /proc shows what the kernel knows. In doubt the application may go on:
 * if /proc cannot be read, or may be incomplete, nothing is refused. */
#define SHARED_FIRST    INT64_C(0x40000002) /* of SQLite's file format */
#define PF_FORKNOEXEC   0x40u               /* of the kernel: forked, and no exec since */
#define PROC_STAT_FLAGS "%*c %*d %*d %*d %*d %*d %u"

int lite_read_text(const char *path, char *out, size_t size)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = -1;
    size_t len = 0;

    while (fd >= 0 && len < size - 1 && (n = read(fd, out + len, size - 1 - len)) > 0)
        len += (size_t)n;
    out[len] = '\0';
    if (fd >= 0)
        close(fd);
    return n < 0 ? -1 : 0;
}

/* Of the process's first thread: later threads never executed a program themselves. */
int lite_process_is_forked(void)
{
    char text[1024];
    const char *behind_name = NULL;
    unsigned flags = 0;

    if (lite_read_text("/proc/self/stat", text, sizeof text) == 0)
        behind_name = strrchr(text, ')');
    return behind_name != NULL && sscanf(behind_name + 1, " " PROC_STAT_FLAGS, &flags) == 1 &&
           (flags & PF_FORKNOEXEC) != 0;
}

/* Whether this process has locked the byte through fd: 1, 0, or -1: not known. */
static int fd_has_lock(int fd, int64_t byte)
{
    char path[64], text[4096];

    snprintf(path, sizeof path, "/proc/thread-self/fdinfo/%d", fd);
    if (lite_read_text(path, text, sizeof text) != 0)
        return -1;
    for (const char *at = text; (at = strstr(at, "lock:")) != NULL; at++) {
        long long first = 0, last = 0;
        const int n = sscanf(at, "lock: %*d: POSIX %*s %*s %*d %*s %lld %lld", &first, &last);

        if (n >= 1 && first <= byte && (n == 1 || byte <= last)) /* 1: up to "EOF" */
            return 1;
    }
    return 0;
}

/* Not every system that looks like Linux shows locks in /proc. */
static int proc_shows_locks(void)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    const int fd = memfd_create("sqlock", MFD_CLOEXEC);
    const int is_locked = fd >= 0 && fcntl(fd, F_SETLK, &lock) == 0 && fd_has_lock(fd, 0) == 1;

    if (fd >= 0)
        close(fd);
    return is_locked;
}

int lite_is_plain(const lite_conn *conn)
{
    char *vfs = NULL;
    int plain;

    sqlite3_file_control(conn->db, "main", SQLITE_FCNTL_VFSNAME, &vfs);
    plain = vfs != NULL && strcmp(vfs, "unix") == 0;
    sqlite3_free(vfs);
    return plain;
}

/* File systems that leave locks to the kernel. Others keep them where the kernel cannot show them.
 */
static int fs_leaves_locks(const lite_conn *conn)
{
    static const unsigned long known[] = {0xEF53 /* ext */,
                                          0x58465342 /* xfs */,
                                          0x9123683E /* btrfs */,
                                          0x01021994 /* tmpfs */,
                                          0xF2F52010 /* f2fs */,
                                          0x794C7630 /* overlay */,
                                          0x2FC12FC1 /* zfs */};
    struct statfs fs;

    if (!lite_is_plain(conn) || sqlite3_db_readonly(conn->db, "main") != 0 ||
        statfs(conn->path, &fs) != 0)
        return 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (((unsigned long)fs.f_type & 0xFFFFFFFF) == known[i])
            return 1;
    return 0;
}

/* Other threads open and close descriptors meanwhile, and some of them lead to servers that do not
 * answer. So this does not touch the descriptor, and sends nothing to a server:
 * AT_STATX_DONT_SYNC. */
static int fd_leads_to_file(dev_t dev, ino_t ino, int fd)
{
    char path[64];
    struct statx st;

    snprintf(path, sizeof path, "/proc/thread-self/fd/%d", fd);
    return statx(AT_FDCWD, path, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_INO, &st) == 0 &&
           makedev(st.stx_dev_major, st.stx_dev_minor) == dev && st.stx_ino == ino;
}

int lite_process_has_open(dev_t dev, ino_t ino)
{
    DIR *dir = opendir("/proc/thread-self/fd");
    const struct dirent *entry = NULL;
    int found = dir != NULL ? 0 : -1;

    while (found == 0 && (entry = readdir(dir)) != NULL)
        found = entry->d_name[0] != '.' && fd_leads_to_file(dev, ino, atoi(entry->d_name));
    if (dir != NULL)
        closedir(dir);
    return found;
}

/* 1: no descriptor of the file has the lock. Another connection of this process may have taken it
 * for all of them, so each is looked at. */
static int file_lock_is_missing(const lite_conn *conn)
{
    DIR *dir = opendir("/proc/thread-self/fd");
    const struct dirent *entry = NULL;
    int looked = 0, found = 0;

    while (dir != NULL && !found && (entry = readdir(dir)) != NULL) {
        const int fd = atoi(entry->d_name);

        if (entry->d_name[0] == '.' || !fd_leads_to_file(conn->dev, conn->ino, fd))
            continue;
        found = fd_has_lock(fd, SHARED_FIRST) != 0;
        looked++;
    }
    if (dir != NULL)
        closedir(dir);
    return looked > 0 && !found;
}

int lite_process_check_lock(lite_conn *conn, sqlock_error *err)
{
    if (!lite_process_is_forked() || !fs_leaves_locks(conn) || !file_lock_is_missing(conn) ||
        !proc_shows_locks())
        return 0;
    conn->lock_missing = 1;
    return sqlock_error_set(err, SQLOCK_EREFUSED, 0,
                            "%s: this process was forked while the application had it open, and "
                            "SQLite takes the parent's file locks for its own: fork with it "
                            "closed, or exec",
                            conn->path);
}
