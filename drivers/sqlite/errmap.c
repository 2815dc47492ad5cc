/* SQLite's result codes as SQLSTATEs. Core's table says what they mean for the caller. */
#include "sqlite.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

typedef struct mapping {
    int native; /* an extended code stands before its primary one */
    char sqlstate[6];
    unsigned flags;
} mapping;

static const mapping mappings[] = {
    {SQLITE_BUSY_SNAPSHOT, "40001", 0},
    {SQLITE_BUSY, "55P03", 0},
    {SQLITE_LOCKED, "55P03", 0},
    {SQLITE_PROTOCOL, "55P03", 0}, /* lost many races for the locks of the WAL in a row */
    {SQLITE_SCHEMA, "40001", 0},   /* the schema changed again at each try to prepare */
    {SQLITE_CORRUPT, "XX001", 0},
    {SQLITE_NOTADB, "XX001", 0},
    {SQLITE_MISMATCH, "XX001", 0},
    {SQLITE_READONLY_DBMOVED, "XX000", SQLOCK_RECONNECT},
    {SQLITE_READONLY, "25006", 0},
    {SQLITE_FULL, "53100", 0},
    {SQLITE_IOERR_NOMEM, "53200", 0},
    {SQLITE_IOERR, "58030", SQLOCK_RECONNECT}, /* what the page cache holds is not to be trusted */
    {SQLITE_CANTOPEN, "08001", SQLOCK_RECONNECT},
    {SQLITE_PERM, "42501", 0},
    {SQLITE_AUTH, "42501", 0},
    {SQLITE_NOMEM, "53200", 0},
    {SQLITE_INTERRUPT, "57014", 0},
    {SQLITE_CONSTRAINT_CHECK, "23514", 0},
    {SQLITE_CONSTRAINT_NOTNULL, "23502", 0},
    {SQLITE_CONSTRAINT_PRIMARYKEY, "23505", 0},
    {SQLITE_CONSTRAINT_UNIQUE, "23505", 0},
    {SQLITE_CONSTRAINT, "23000", 0},
    {SQLITE_TOOBIG, "54000", 0},
};

static const mapping *mapping_find(int rc)
{
    static const mapping other = {SQLITE_ERROR, "XX000", 0};

    for (size_t i = 0; i < sizeof mappings / sizeof *mappings; i++)
        if (mappings[i].native == rc || mappings[i].native == (rc & 0xff))
            return &mappings[i];
    return &other;
}

/* Some codes are too coarse: then SQLite's message or the system's errno decides. */
static const char *errmap_refine(const char *sqlstate, int rc, int sys, const char *message)
{
    if (rc == SQLITE_ERROR && strncmp(message, "no such table", 13) == 0)
        return "42P01";
    if (rc == SQLITE_ERROR && strncmp(message, "no such column", 14) == 0)
        return "42703";
    if ((rc & 0xff) == SQLITE_CANTOPEN && sys == EROFS)
        return "25006";
    if ((rc & 0xff) == SQLITE_CANTOPEN && (sys == EACCES || sys == EPERM))
        return "42501";
    return sqlstate;
}

/* A transaction that has read meets another writer. SQLite reports that at once, however long the
 * handlers would wait. With WAL, what it has read is old as soon as the other one commits. Without
 * WAL, the other one cannot commit before this one ends. So there is nothing to wait for. */
static int tx_cannot_upgrade(const lite_conn *conn, int primary)
{
    return conn->adopted && primary == SQLITE_BUSY &&
           sqlite3_txn_state(conn->db, "main") == SQLITE_TXN_READ;
}

int lite_error(const lite_conn *conn, int rc, unsigned flags, const char *what, sqlock_error *err)
{
    const int last = conn->db != NULL ? sqlite3_extended_errcode(conn->db) : SQLITE_OK;
    const int primary = rc & 0xff;
    const int own = last != SQLITE_OK && (last & 0xff) == primary;
    const int code = own ? last : rc; /* rc is coarse unless the application uses extended codes */
    const char *message = own ? sqlite3_errmsg(conn->db) : sqlite3_errstr(rc);
    const int sys = own && (primary == SQLITE_IOERR || primary == SQLITE_CANTOPEN)
                        ? sqlite3_system_errno(conn->db)
                        : 0;
    const mapping *map = mapping_find(code);
    const char *sqlstate = errmap_refine(map->sqlstate, code, sys, message);
    int cancelled = 0;
    char number[32] = "";
    char text[256];

    /* A limit of the process, not of the database: the connection is as good as before. */
    if (sys == EMFILE || sys == ENFILE)
        return sqlock_error_set(err, SQLOCK_ESYS, flags | SQLOCK_RETRY,
                                "%s%sno file descriptor is available", what != NULL ? what : "",
                                what != NULL ? ": " : "");
    if (tx_cannot_upgrade(conn, primary)) {
        sqlstate = "40001";
        message = "another connection writes, or has written since this transaction began to read: "
                  "only a restart helps";
    } else if (primary == SQLITE_BUSY && lite_is_cancelled(conn)) {
        sqlstate = "57014";
        cancelled = 1;
        message = "cancelled while another connection kept the database locked";
    } else if (primary == SQLITE_BUSY) {
        message = "another connection kept the database locked";
    } else if (primary == SQLITE_INTERRUPT && conn->adopted && own) {
        message = "interrupted by the application";
    } else if (primary == SQLITE_INTERRUPT && !lite_is_cancelled(conn)) {
        return sqlock_error_set(err, SQLOCK_ETIMEOUT, flags | SQLOCK_RETRY, "%s%s%s",
                                what != NULL ? what : "", what != NULL ? ": " : "",
                                "stopped at the deadline");
    } else if (primary == SQLITE_INTERRUPT) {
        cancelled = 1;
    }
    if (sys != 0)
        snprintf(number, sizeof number, " (errno %d)", sys);
    snprintf(text, sizeof text, "%s%s%s%s", what != NULL ? what : "", what != NULL ? ": " : "",
             message, number);
    sqlock_error_db(err, sqlstate, code, flags | map->flags, text);
    if (cancelled)
        err->code = SQLOCK_ECANCELLED;
    /* An adopted connection stays in use, unless its file is gone. */
    if (conn->adopted && code != SQLITE_READONLY_DBMOVED)
        err->flags &= ~(unsigned)SQLOCK_RECONNECT;
    return err->code;
}
