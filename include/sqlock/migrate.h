/* The schema: migrations up and down, their state, and their SQL. */
#ifndef SQLOCK_MIGRATE_H
#define SQLOCK_MIGRATE_H

#include <sqlock/sqlock.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Migrations make the tables: numbered steps, the same on every database, with a way back. They are
 * part of the driver's library. Opening a manager never runs them.
 *
 * These functions connect by themselves, as sqlock_open() does. Of opts (NULL: defaults) they use
 * schema, prefix, flags, label, connect, and request_ms, which bounds each statement.
 *
 * A migrator may be killed at any moment and run again; there is nothing to mend by hand. On
 * PostgreSQL and SQLite a call is one transaction; elsewhere each statement can be repeated. Any
 * number of processes and threads may call at once. One works; the others wait for it, at most
 * twice request_ms, and find it done. */

#define SQLOCK_SCHEMA_LATEST (-1) /* a version: the newest one that this library knows */

#define SQLOCK_MIGRATE_DOWN 0x1u    /* go down, which deletes what newer versions stored */
#define SQLOCK_MIGRATE_DRY_RUN 0x2u /* look and count, change nothing */
#define SQLOCK_MIGRATE_HELD 0x4u    /* go down though locks are held: their holders lose them */

/* Bring the schema to this library's version: sqlock_migrate_to() the latest without flags. */
SQLOCK_API SQLOCK_CHECKED int sqlock_migrate(const sqlock_driver *driver, const char *url,
                              const sqlock_open_opts *opts, int *out_applied, sqlock_error *err);

/* Bring the schema to a version: from 0 (only the meta row, which keeps tokens rising) to the
 * latest. *out_applied, if not NULL, counts the migrations that were applied or taken back (dry
 * run: would be); 0 if there was nothing to do. Written on success only.
 * On the way up it refuses a server that sqlock_open() would refuse, with the same text, before it
 * writes anything: a replica, one of several servers that grant, weak durability (unless
 * opts->flags accept it). Without SQLOCK_MIGRATE_DOWN it goes up or nowhere, with it down or
 * nowhere. Going down waits for open transactions on the tables, and is refused while a lease runs.
 * Running programs get SQLOCK_ESCHEMA; after the next up their tokens go on rising.
 * Returns:   0, or
 *            SQLOCK_EINVAL   flags, an unknown version, or one in the other direction
 *            SQLOCK_ESCHEMA  the schema is newer than the library; a migration differs from the one
 *                            that was applied; there is no such schema to put tables into
 *            SQLOCK_EREFUSED PostgreSQL: one of our tables belongs to a stranger, whom the text
 *                            names
 *            SQLOCK_EBUSY    down: a lock is held
 *            SQLOCK_ETIMEOUT no answer in time, or another migration was running all the time
 *            SQLOCK_ELOST    MariaDB, MySQL: this one was stopped so long that another took over
 *            and the codes of sqlock_open(). Whatever it returns, the call may be made again. */
SQLOCK_API SQLOCK_CHECKED int sqlock_migrate_to(const sqlock_driver *driver, const char *url,
                                 const sqlock_open_opts *opts, int version, unsigned flags,
                                 int *out_applied, sqlock_error *err);

typedef enum sqlock_migration_state {
    SQLOCK_MIGRATION_PENDING = 1,    /* not applied */
    SQLOCK_MIGRATION_APPLIED = 2,    /* applied from the file that this library has */
    SQLOCK_MIGRATION_DRIFTED = 3,    /* applied from a file with another checksum */
    SQLOCK_MIGRATION_UNRECORDED = 4, /* the schema's version includes it, no record does */
    SQLOCK_MIGRATION_UNKNOWN = 5     /* recorded, and not known to this library: from a newer one */
} sqlock_migration_state;

/* A word for it ("pending"); a static string. Any thread. */
SQLOCK_API const char *sqlock_migration_state_name(sqlock_migration_state state);

typedef struct sqlock_migration_info {
    uint32_t size; /* sizeof(sqlock_migration_info) */
    int version;
    const char *name; /* "locks" */
    sqlock_migration_state state;
    int64_t applied_us;     /* server time; 0: no record */
    const char *checksum;   /* 16 hex digits, of this library's file; NULL: UNKNOWN */
    const char *recorded;   /* of the file that was applied; NULL: no record */
} sqlock_migration_info;

/* Return 0 to go on, anything else to stop. info and what it points to live during the call. */
typedef int (*sqlock_migration_fn)(const sqlock_migration_info *info, void *user);

/* Call fn for every migration that the library knows or the database has recorded, by version.
 * Changes nothing. In an empty database all are pending. Needs to read the meta and migration
 * tables.
 * Returns 0, what fn returned to stop, SQLOCK_EINVAL, or the database's codes. */
SQLOCK_API SQLOCK_CHECKED int sqlock_migration_status(const sqlock_driver *driver, const char *url,
                                       const sqlock_open_opts *opts, sqlock_migration_fn fn,
                                       void *user, sqlock_error *err);

/* Prove that the schema is what this library's migrations make. It compares the version, a record
 * with the right checksum for each migration, and every table. Of a table it compares the columns
 * (type, NOT NULL, place in the primary key), unique indexes, and the number of CHECKs (MySQL
 * before 8.0.16 keeps none). On PostgreSQL an index on a column that renewals change is a
 * difference too, because each renewal would write to it. It ignores further columns, other
 * indexes, further tables, and what a CHECK says. Changes nothing.
 * Returns 0, SQLOCK_ESCHEMA (the text names the first difference), or the codes of
 * sqlock_migration_status(). */
SQLOCK_API SQLOCK_CHECKED int sqlock_migration_verify(const sqlock_driver *driver, const char *url,
                                       const sqlock_open_opts *opts, sqlock_error *err);

/* Record the migrations up to a version (SQLOCK_SCHEMA_LATEST, or 1 and more) as applied, without
 * running them: for a database where another tool ran their statements. The tables must exist; for
 * the latest version they are compared as in sqlock_migration_verify(). Existing records stay. Safe
 * beside other migrators.
 * Returns 0, SQLOCK_EINVAL (version), SQLOCK_ESCHEMA (the tables are not of that version, a record
 * has another checksum, or the schema is newer already), or the codes of sqlock_migrate_to(). */
SQLOCK_API SQLOCK_CHECKED int sqlock_migration_baseline(const sqlock_driver *driver, const char *url,
                                         const sqlock_open_opts *opts, int version,
                                         sqlock_error *err);

/* Take a piece of text. Return 0 to go on, anything else to stop. */
typedef int (*sqlock_write_fn)(const char *text, size_t len, void *user);

#define SQLOCK_SQL_BARE 0x1u /* no transaction around it: for tools that bring their own */

/* Write the SQL of the migrations from one version to another (down if to < from), without a
 * database, for its own client (psql -v ON_ERROR_STOP=1, sqlite3 -bail, mysql) or another tool. It
 * includes the records, so afterwards sqlock_open() works and sqlock_migration_status() says
 * applied. It cannot check whether the schema is at `from`, nor whether locks are held. Of opts (or
 * NULL) it uses schema and prefix.
 * Returns 0, what write returned to stop, SQLOCK_EINVAL, SQLOCK_ENOMEM. */
SQLOCK_API SQLOCK_CHECKED int sqlock_migration_sql(const sqlock_driver *driver, const sqlock_open_opts *opts,
                                    int from, int to, unsigned flags, sqlock_write_fn write,
                                    void *user, sqlock_error *err);

#ifdef __cplusplus
}
#endif
#endif
