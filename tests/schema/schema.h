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

/* ---- by the program -------------------------------------------------------------------------- */

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

/* ---- by schema.c ----------------------------------------------------------------------------- */

/* The words in braces replaced by the place's names. */
char *place_fill(const struct place *p, const char *text);
void place_exec(const struct place *p, const char *text);
int64_t place_number(const struct place *p, const char *text);

struct db place_db(const struct place *p);
#define place_opts(p) db_opts(place_db(p))
#define place_open(p) db_open(place_db(p))
/* The number of migrations that were applied. */
#define place_migrate(p) db_migrate(place_db(p))
/* place_new(), with the newest schema. */
struct place place_migrated(void);
/* Migrate to a version, or only down. */
#define migrate_to(p, version, flags, out_applied, err)                                            \
    db_migrate_to(place_db(p), (version), (flags), (out_applied), (err))
#define go_down(p, version, flags, out_applied, err)                                               \
    migrate_to((p), (version), SQLOCK_MIGRATE_DOWN | (flags), (out_applied), (err))
/* Open, migrate, verify: their codes. */
#define open_code(p, err)    db_try(place_db(p), (err))
#define migrate_code(p, err) db_try_migrate(place_db(p), (err))
int verify_code(const struct place *p, sqlock_error *err);
/* All that is in the database is as it was. */
#define assert_catalogue(p, expected) assert_string_equal(place_catalogue(p), (expected))
/* A killed migrator's lease, if it left one, runs out now: a test need not wait for it. */
void place_forget_migrator(const struct place *p);
/* Take the lock, renew it and give it back; the grant's token. */
#define place_use(p, name) db_use(place_db(p), (name))
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
#define assert_tables(p, expected) assert_string_equal(place_tables(p), (expected))
/* records.c: write migrations out and run them by place_pipe(). */
void place_pipe_written(const struct place *p, int from, int to);

/* ---- by tap.c ---------------------------------------------------------------------------------
 * A driver that looks on: it hands every call to the real one, and kills the process after a call
 * of one's choice, or lets a test act before each. And other libraries. */

/* One for the whole program: a driver's calls carry nothing of ours. */
struct tap {
    const sqlock_driver *real;
    long calls;                            /* that change or ask something; not open and close */
    long kill_after;                       /* SIGKILL behind so many calls; -1: never */
    void (*before)(void *user, long call); /* NULL: nothing */
    void *user;
};

/* The place by way of the tap, which is reset; p->driver leads back to the real one. */
struct place place_tapped(const struct place *p, struct tap **out_tap);

/* The same place as a newer library sees it, that knows a migration more: two tables. */
struct place place_grown(const struct place *p);
/* ... as the release before the newest migration sees it. */
struct place place_older(const struct place *p);
/* ... as a library sees it whose migrations, scripts or both are others. */
struct place place_with(const struct place *p, const sqlock_dialect *dialect);

/* ... as a library sees it to which the schema's generation is another one by so many. */
struct place place_of_generation(const struct place *p, int more);

#endif
