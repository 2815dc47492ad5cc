/* The journal: WAL for a file that sqlock makes, and what is safe for one that it is given. */
#include "sqlite.h"

#include <string.h>

/* TRUNCATE syncs the journal after it has emptied it. With DELETE, a power cut can bring the
 * journal back, and with it the state before a confirmed commit.
 *
 * WAL stays as it is: the mode belongs to the file, and so to the application. The transaction's
 * read lock keeps another program from switching the file to WAL between the query and the setting,
 * which would switch it back. */
int lite_journal_set(lite_conn *conn, sqlock_error *err)
{
    char mode[16] = "";
    char ignored[16];
    int rc = lite_query(conn, "BEGIN", ignored, sizeof ignored, err);

    if (rc == 0)
        rc = lite_query(conn, "SELECT count(*) FROM main.sqlite_master", ignored, sizeof ignored,
                        err);
    if (rc == 0)
        rc = lite_process_check_lock(conn, err);
    if (rc == 0)
        rc = lite_query(conn, "PRAGMA main.journal_mode", mode, sizeof mode, err);
    if (rc == 0 && strcmp(mode, "wal") != 0)
        rc = lite_query(conn, "PRAGMA main.journal_mode = TRUNCATE", mode, sizeof mode, err);
    if (rc == 0)
        rc = lite_query(conn, "COMMIT", ignored, sizeof ignored, err);
    if (rc == 0 && strcmp(mode, "wal") != 0 && strcmp(mode, "truncate") != 0)
        rc = sqlock_error_set(err, SQLOCK_EREFUSED, 0, "%s: its journal_mode stays %s", conn->path,
                              mode);
    return rc;
}

/* ---- a file that is made --------------------------------------------------------------------- */

#define SHM_REGION 32768 /* the size that SQLite's WAL maps */

/* Where a file system has no shared memory, SQLite would notice it only when it uses the file in
 * WAL mode, which it cannot leave then. So look first. The -shm stays for WAL, or another program
 * would lose its own. */
static int journal_has_memory(lite_conn *conn)
{
    volatile void *region = NULL;
    sqlite3_file *file = NULL;
    int has;

    sqlite3_file_control(conn->db, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    if (file == NULL || file->pMethods == NULL || file->pMethods->iVersion < 2 ||
        file->pMethods->xShmMap == NULL)
        return 0;
    has = file->pMethods->xShmMap(file, 0, SHM_REGION, 1, &region) == SQLITE_OK && region != NULL;
    file->pMethods->xShmUnmap(file, !has);
    return has;
}

/* WAL cannot be set within the transaction that makes the tables. Two who make the file at once
 * both get BUSY, as does one who meets a program that makes tables of its own: look again then,
 * because that program's file stays as it is. One that commits its first tables between the look
 * and the change has a file in WAL mode then. */
int lite_journal_make(lite_conn *conn, sqlock_error *err)
{
    char answer[32] = "";
    int rc;

    for (int tries = 0;; tries++) {
        rc = lite_query(conn, "PRAGMA main.page_count", answer, sizeof answer, err);
        if (rc != 0 || strcmp(answer, "0") != 0 || !journal_has_memory(conn))
            return rc;
        rc = lite_query(conn, "PRAGMA main.journal_mode = WAL", answer, sizeof answer, err);
        if (rc == 0 || (sqlite3_errcode(conn->db) & 0xff) != SQLITE_BUSY ||
            !lite_pause(conn, tries))
            return rc;
        memset(err, 0, sizeof *err);
    }
}
