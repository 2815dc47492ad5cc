#ifndef SQLOCK_SCHEMA_MIGRATOR_H
#define SQLOCK_SCHEMA_MIGRATOR_H

#include "core/engine/manager.h"
#include "core/sql/rows.h"

/* What the database has recorded about a migration. */
struct record {
    int version;
    int64_t applied; /* in server time */
    char name[64];
    char checksum[40];
};

/* Which servers are accepted: those on which a manager could be opened, those that can be written
 * to, or all. */
enum judging { JUDGE_ALL, JUDGE_WRITABLE, JUDGE_NOTHING };

/* One connection that looks at the schema or changes it. */
struct migrator {
    sqlock *m;        /* holds the options; its connections and threads are not used */
    struct conn conn; /* of no pool */
    enum judging judging;
    struct texts *nowhere; /* texts with tables that cannot exist; only while it connects */
    sqlock_rows *rows;
    sqlock_error err;

    int changes; /* 1: it will do more than look, or a dry run of that */

    /* set by migrator_look() */
    int version, min_reader;
    struct record *ledger; /* in the order of versions */
    size_t n_ledger;

    /* the lease that keeps others out if DDL is not transactional */
    unsigned char owner[SQLOCK_OWNER_SIZE];
    int64_t token;     /* 0: no lease */
    int64_t lease_end; /* the lease is ours until then, by our clock */
};

/* Check the arguments. Even if this fails, call migrator_close() at the end. */
int migrator_init(struct migrator *g, const sqlock_driver *driver, const char *url,
                  const sqlock_open_opts *opts);
int migrator_connect(struct migrator *g, enum judging judging);
/* Free all. Gives g->err to err, with the verb before it. Returns rc. */
int migrator_close(struct migrator *g, const char *verb, int rc, sqlock_error *err);

/* Make one request, with this deadline. */
int migrator_send(struct migrator *g, sqlock_stmt stmt, const sqlock_value *values,
                  int64_t deadline);
/* Run one request, or one statement of a migration. Each has request_ms. Under a lease it must also
 * end before the lease does. */
int migrator_run(struct migrator *g, sqlock_stmt stmt, const sqlock_value *values);
int migrator_exec(struct migrator *g, const char *sql);

/* Record this server in the meta table if no server is there yet. A standby that is promoted before
 * the first grant then counts as another server, and the grace applies. If this fails, the first
 * manager does it. */
void migrator_meet_server(struct migrator *g);

/* Read the schema's version (0: there is no schema) and the records. */
int migrator_look(struct migrator *g);
/* NULL: there is no record. It also counts as none if it is above the schema's version: then a
 * killed migrator left it behind. */
const struct record *migrator_record(const struct migrator *g, int version);
/* NULL: this library does not know the version. */
const sqlock_migration *migrator_known(const struct migrator *g, int version);
int migrator_latest(const struct migrator *g);
/* Record a migration. done: it was applied, and the schema's version becomes this one if it was
 * lower. */
int migrator_put_record(struct migrator *g, const sqlock_migration *migration, int done);
/* The largest version whose migration was begun, up or down, and not ended: its record is above the
 * schema's version. If there is none, the schema's version. */
int migrator_begun(const struct migrator *g);

/* SQLOCK_ESCHEMA if the schema is newer than the library. */
int migrator_check_newer(struct migrator *g);
/* The code with which opening a manager would refuse the tables. Call it once it is known that no
 * stranger made them. */
int migrator_check_opening(struct migrator *g);
int migrator_check_drift(struct migrator *g);
/* SQLOCK_ESCHEMA if a table of this version is missing. For the latest version also if a table is
 * not as in tables.sql. */
int migrator_check_tables(struct migrator *g, int version);

/* migrate_guard.c: look at the schema, then run work(g, arg) while no other migrator works. All of
 * it is one transaction, if DDL is transactional. creates: the work may begin on an empty
 * database. */
int migrator_alone(struct migrator *g, int creates, int (*work)(struct migrator *g, void *arg),
                   void *arg);
/* Make sure that the lease, if there is one, lasts for the next statement. *out_deadline: the
 * deadline of that statement. */
int guard_keep(struct migrator *g, int64_t *out_deadline);

/* Check that *version is one of the dialect's versions. SQLOCK_SCHEMA_LATEST becomes the latest. */
int check_version(const sqlock_dialect *d, int *version, int least, sqlock_error *err);

#endif
