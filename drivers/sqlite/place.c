/* Where the open file is: whether its path still leads to it, and whether all programs that open it
 * find the same journals. */
#include "sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* SQLite finds a file's journals by its name, in its folder. A program that opens the file by
 * another hard link has a WAL of its own. So has one that finds the file alone mounted elsewhere,
 * as containers do. Neither program sees the other's commits, and both are granted the same lock
 * with the same token. Without WAL, a crash is not undone, because the journal is not found.
 *
 * So the driver refuses such a file. The name here shows it, whichever way the other programs came.
 * Symbolic links do no harm: SQLite follows them first. */

struct seen {
    dev_t dev;
    ino_t ino;
    uint64_t links;
    uint64_t mount; /* 0: not known */
};

/* Before Linux 5.8. O_PATH opens nothing: its close() drops no lock of this process. */
static uint64_t place_mount_by_proc(const char *path, int follow)
{
    const int fd = open(path, O_PATH | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW));
    char from[64], text[512] = "";
    const char *at = NULL;

    if (fd < 0)
        return 0;
    snprintf(from, sizeof from, "/proc/thread-self/fdinfo/%d", fd);
    if (lite_read_text(from, text, sizeof text) == 0)
        at = strstr(text, "mnt_id:");
    close(fd);
    return at != NULL ? strtoull(at + strlen("mnt_id:"), NULL, 10) : 0;
}

/* For processes whose filter of system calls does not know statx(). */
static int place_see_old(const char *path, int follow, struct seen *out)
{
    struct stat st;

    if (fstatat(AT_FDCWD, path, &st, follow ? 0 : AT_SYMLINK_NOFOLLOW) != 0)
        return -1;
    *out = (struct seen){st.st_dev, st.st_ino, st.st_nlink, place_mount_by_proc(path, follow)};
    return 0;
}

/* Looks at the file by its name and never opens it: closing any descriptor of the file would drop
 * all POSIX locks that this process has on it, those of SQLite too. Returns 0, or -1 and errno. */
static int place_see(const char *path, int follow, struct seen *out)
{
    const int flags = AT_STATX_SYNC_AS_STAT | AT_NO_AUTOMOUNT | (follow ? 0 : AT_SYMLINK_NOFOLLOW);
    unsigned mask = STATX_INO | STATX_NLINK;
    struct statx st;

#ifdef STATX_MNT_ID
    mask |= STATX_MNT_ID;
#endif
    if (statx(AT_FDCWD, path, flags, mask, &st) != 0)
        return errno == EPERM ? place_see_old(path, follow, out) : -1;
    out->dev = makedev(st.stx_dev_major, st.stx_dev_minor);
    out->ino = st.stx_ino;
    out->links = st.stx_nlink;
    out->mount = 0;
#ifdef STATX_MNT_ID
    if (st.stx_mask & STATX_MNT_ID)
        out->mount = st.stx_mnt_id;
#endif
    if (out->mount == 0)
        out->mount = place_mount_by_proc(path, follow);
    return 0;
}

static uint64_t place_mount_of_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char folder[PATH_MAX];
    struct seen st;

    if (slash == NULL || (size_t)(slash - path) >= sizeof folder - 1)
        return 0;
    snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    return place_see(folder, 1, &st) == 0 ? st.mount : 0;
}

static int place_check(const char *path, const struct seen *st, uint64_t folder, sqlock_error *err)
{
    if (st->links > 1)
        return sqlock_error_set(
            err, SQLOCK_EREFUSED, 0,
            "%s has several names (hard links), but its journal has one: programs "
            "that use another name are not kept out",
            path);
    if (st->mount != 0 && folder != 0 && st->mount != folder)
        return sqlock_error_set(err, SQLOCK_EREFUSED, 0,
                                "%s is mounted without its folder, where its journal is: programs "
                                "that use it elsewhere are not kept out; mount the folder",
                                path);
    return 0;
}

static int place_fail_gone(const char *path, sqlock_error *err)
{
    return sqlock_error_set(err, SQLOCK_EDB, SQLOCK_RECONNECT,
                            "the database file %s was replaced or removed while it was open", path);
}

/* ---- the journals of WAL mode ---------------------------------------------------------------- */

static const char *const side_names[LITE_SIDES] = {"-wal", "-shm"};

static int sides_check(const lite_conn *conn, uint64_t folder, sqlock_error *err)
{
    struct seen st;
    int rc = 0;

    for (int i = 0; rc == 0 && i < LITE_SIDES; i++) {
        if (conn->sides[i] == 0)
            continue;
        if (place_see(conn->side_paths[i], 0, &st) != 0 || st.ino != conn->sides[i])
            return place_fail_gone(conn->side_paths[i], err);
        rc = place_check(conn->side_paths[i], &st, folder, err);
    }
    return rc;
}

static int side_name(lite_conn *conn, int i, sqlock_error *err)
{
    const size_t size = strlen(conn->name) + strlen(side_names[i]) + 1;

    if (conn->side_paths[i] == NULL && (conn->side_paths[i] = sqlock_mem_alloc(size)) == NULL)
        return sqlock_error_set(err, SQLOCK_ENOMEM, 0, "out of memory");
    snprintf(conn->side_paths[i], size, "%s%s", conn->name, side_names[i]);
    return 0;
}

/* They exist for as long as the connection does. The -shm belongs to all connections of the
 * process. A connection that joins them after it was removed uses another one than programs that
 * look for its name. */
int lite_remember_sides(lite_conn *conn, sqlock_error *err)
{
    struct seen st;

    if (!lite_is_plain(conn))
        return 0;
    for (int i = 0; i < LITE_SIDES; i++) {
        if (side_name(conn, i, err) != 0)
            return err->code;
        if (place_see(conn->side_paths[i], 0, &st) != 0 ||
            lite_process_has_open(st.dev, st.ino) == 0)
            return place_fail_gone(conn->side_paths[i], err);
        conn->sides[i] = st.ino;
    }
    return sides_check(conn, place_mount_of_folder(conn->name), err);
}

/* The application may have changed the file to WAL mode since it was opened. It cannot change it
 * back while the file is open. */
int lite_follow_journal(lite_conn *conn, sqlock_error *err)
{
    char mode[16] = "";
    int rc;

    if (conn->sides[0] != 0 || !lite_is_plain(conn))
        return 0;
    rc = lite_query(conn, "PRAGMA main.journal_mode", mode, sizeof mode, err);
    return rc == 0 && strcmp(mode, "wal") == 0 ? lite_remember_sides(conn, err) : rc;
}

/* ---- the file -------------------------------------------------------------------------------- */

/* A mount has one root for good. The root of the one that the file was opened on is a folder, so it
 * cannot be mounted on the file alone. As long as the file is on it, the folder is too. */
static uint64_t file_mount_of_folder(const lite_conn *conn, const struct seen *st)
{
    if (conn->mount != 0 && st->mount == conn->mount)
        return conn->mount;
    return place_mount_of_folder(conn->name);
}

/* The path may lead elsewhere by now. So may the name, where symbolic links led to at first. */
int lite_check_file(const lite_conn *conn, sqlock_error *err)
{
    struct seen st;
    uint64_t folder;

    if (strcmp(conn->path, conn->name) != 0 &&
        (place_see(conn->path, 1, &st) != 0 || st.dev != conn->dev || st.ino != conn->ino))
        return place_fail_gone(conn->path, err);
    if (place_see(conn->name, 0, &st) != 0 || st.dev != conn->dev || st.ino != conn->ino)
        return place_fail_gone(conn->name, err);
    folder = file_mount_of_folder(conn, &st);
    if (place_check(conn->name, &st, folder, err) != 0)
        return err->code;
    return sides_check(conn, folder, err);
}

int lite_remember_file(lite_conn *conn, sqlock_error *err)
{
    struct seen st;
    int moved = 0;

    conn->name = sqlite3_db_filename(conn->db, "main");
    if (place_see(conn->name, 1, &st) != 0)
        return sqlock_error_set(err, SQLOCK_EREFUSED, 0,
                                "%s is not a file: only a file that others can open keeps them out",
                                conn->path);
    conn->dev = st.dev;
    conn->ino = st.ino;
    /* The file may have been replaced between SQLite's open and this look. */
    sqlite3_file_control(conn->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
    if (moved || lite_check_file(conn, err) == SQLOCK_EDB)
        return sqlock_error_set(err, SQLOCK_EDB, SQLOCK_RECONNECT | SQLOCK_RETRY,
                                "the database file %s was replaced while it was opened",
                                conn->path);
    if (lite_check_file(conn, err) != 0)
        return err->code;
    if (place_mount_of_folder(conn->name) == st.mount)
        conn->mount = st.mount;
    return 0;
}

/* A connection that still has the old file open does not see what others do in the new one. */
int lite_check_adopted(lite_conn *conn, sqlock_error *err)
{
    const char *name = sqlite3_db_filename(conn->db, "main");
    struct seen st;
    int moved = 0;

    sqlite3_file_control(conn->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
    if (moved)
        return place_fail_gone(name, err);
    if (name == NULL || name[0] == '\0' || place_see(name, 1, &st) != 0)
        return 0; /* in memory, or of a kind that only its VFS knows */
    return place_check(name, &st, place_mount_of_folder(name), err);
}

void lite_running(void *arg, char *out, size_t size)
{
    const lite_conn *conn = arg;
    const char *name = sqlite3_db_filename(conn->db, "main");
    struct seen st;

    if (name == NULL || name[0] == '\0' || place_see(name, 1, &st) != 0)
        snprintf(out, size, "memory");
    else
        snprintf(out, size, "%llx:%llx", (unsigned long long)st.dev, (unsigned long long)st.ino);
}
