/* What the schema tests of all databases share. A program says what its database is like, with the
 * functions that stand under "by the program"; the tests of schema.c, steps.c and records.c are the
 * same for all. Texts live to the end of the program. */
#ifndef SQLOCK_TESTS_SCHEMA_H
#define SQLOCK_TESTS_SCHEMA_H

#include <stdint.h>

#include <sqlock/driver.h>

#include "tests/lib/db.h"
#include "tests/lib/words.h"

/* Of this library (core/engine/handshake.c). */
#define GENERATION 4

/* Where a schema is, or shall be. Its names live to the end of the process. */
struct place {
    const sqlock_driver *driver;
    const sqlock_dialect *dialect;
    char url[512];
    const char *schema; /* as options have it: NULL is the default */
    const char *prefix;
};

/* A piece of tables.sql and what a damaged schema has in its place. */
struct damage {
    const char *from, *to;
    bool verified; /* sqlock_migration_verify() notices it too; else it must not */
};

/* ---- by the program ---------------------------------------------------------------------------
 */

/* An empty database, or schema, with nothing of ours in it. */
struct place place_new(void);
/* Run SQL past the library, all in one transaction; a failure fails the test. */
void place_exec_text(const struct place *p, const char *sql);
int64_t place_number_text(const struct place *p, const char *sql);
/* All that the database knows about the schema of the place, and what stands in meta, as a text
 * that has neither the schema's name nor times in it. */
char *place_catalogue(const struct place *p);
/* Run SQL by the database's own client, with pipe_to(). */
bool place_pipe(const struct place *p, const char *sql);
/* Whether the lock table is there. */
bool place_has_locks(const struct place *p);
/* SQL that lets a migrator's lease run out; NULL: none is taken here. */
extern const char *const place_end_lease;
/* Ends with NULL. */
extern const struct damage place_damages[];
/* MySQL before 8.0.16 reads over CHECKs. */
bool place_keeps_checks(void);

/* ---- by schema.c ------------------------------------------------------------------------------
 */

/* The words in braces replaced by the place's names. */
char *place_fill(const struct place *p, const char *text);
void place_exec(const struct place *p, const char *text);
int64_t place_number(const struct place *p, const char *text);

struct db place_db(const struct place *p);
sqlock_open_opts place_opts(const struct place *p);
/* The number of migrations that were applied. */
#define place_migrate(p) db_migrate(place_db(p))
#define place_open(p)    db_open(place_db(p))
/* Migrate to a version, or only up, or only down. */
int migrate_to(const struct place *p, int version, unsigned flags, int *out_applied,
               sqlock_error *err);
int go_down(const struct place *p, int version, unsigned flags, int *out_applied,
            sqlock_error *err);
/* Open, migrate, verify: their codes. */
int open_code(const struct place *p, sqlock_error *err);
int migrate_code(const struct place *p, sqlock_error *err);
int verify_code(const struct place *p, sqlock_error *err);
/* All that is in the database is as it was. */
void assert_catalogue(const struct place *p, const char *expected);
/* A killed migrator's lease, if it left one, runs out now: a test need not wait for it. */
void place_forget_migrator(const struct place *p);
/* Take the lock and give it back; the grant's token. */
int64_t place_use(const struct place *p, const char *name);
/* The tables of tables.sql with `damage` (NULL: none) in them. The test fails if the damage is not
 * possible, because the file was rewritten. */
void place_build(const struct place *p, const struct damage *damage);
/* Whether a database could notice it. */
bool damage_shows(const struct damage *d);
/* A text where every `from` became `to`. */
char *text_replace(const char *text, const char *from, const char *to);

/* Hand text to a shell command that begins with the client's name. True: it ended well. Where there
 * is no such client the test is skipped, loudly; with STRICT=1 it fails. */
bool pipe_to(const char *client, const char *command, const char *text);
/* place_catalogue() without the floor of tokens, which is a clock's, and rises with each
 * way down. */
char *place_tables(const struct place *p);
void assert_tables(const struct place *p, const char *expected);
/* records.c: write migrations out and run them by place_pipe(). */
void place_pipe_written(const struct place *p, int from, int to);

#endif
