#ifndef SQLOCK_VERBS_MIGRATOR_H
#define SQLOCK_VERBS_MIGRATOR_H

#include "core/engine/manager.h"
#include "core/sql/rows.h"

/* What the database has recorded of a migration. */
struct record {
    int version;
    int64_t applied; /* server time */
    char name[64];
    char checksum[40];
};

/* Of the server: whether opening a manager would refuse it, whether it can be written to, or
 * whatever it is. */
enum judging { JUDGE_ALL, JUDGE_WRITABLE, JUDGE_NOTHING };

/* One connection that looks at the schema, or changes it. */
struct migrator {
    sqlock *m; /* for its options; none of its connections or threads are used */
    void *conn;
    enum judging judging;
    struct texts *nowhere; /* texts about tables that cannot be there; while it connects */
    sqlock_rows *rows;
    sqlock_error err;

    int changes; /* 1: for more than to look, also in a dry run */

    /* by migrator_look() */
    int version, min_reader;
    struct record *ledger; /* by version */
    size_t n_ledger;

    /* the lease that keeps others out where DDL is not transactional */
    unsigned char owner[SQLOCK_OWNER_SIZE];
    int64_t token;     /* 0: there is no lease */
    int64_t lease_end; /* it is ours until then, by our clock */
};

/* Check the arguments. Ended by migrator_close(), also when this failed. */
int migrator_init(struct migrator *g, const sqlock_driver *driver, const char *url,
                  const sqlock_open_opts *opts);
int migrator_connect(struct migrator *g, enum judging judging);
/* Free it all. Tells err what g->err says, with the verb before it. Returns rc. */
int migrator_close(struct migrator *g, const char *verb, int rc, sqlock_error *err);

/* One request, with its deadline. */
int migrator_ask(struct migrator *g, sqlock_stmt stmt, const sqlock_value *values,
                 int64_t deadline);
/* One request; one statement of a migration. Each has request_ms, and under a lease not longer than
 * that lasts. */
int migrator_run(struct migrator *g, sqlock_stmt stmt, const sqlock_value *values);
int migrator_exec(struct migrator *g, const char *sql);

/* Let meta know this server, if it knows none yet: a standby that is promoted before the first
 * grant reached it is another server then, and a grace counts. What fails here is left to the first
 * manager. */
void migrator_meet_server(struct migrator *g);

/* Read the schema's version (0: there is none) and the records. */
int migrator_look(struct migrator *g);
/* NULL: there is none, or it lies above the schema's version: left over from a migrator that was
 * killed. */
const struct record *migrator_record(const struct migrator *g, int version);
/* NULL: this library does not know it. */
const sqlock_migration *migrator_known(const struct migrator *g, int version);
int migrator_latest(const struct migrator *g);
/* Record a migration; done: as applied, the schema's version is at least this one from then on. */
int migrator_put_record(struct migrator *g, const sqlock_migration *migration, int done);
/* The records above the schema's version are of migrations that were begun, up or down, and not
 * ended: the largest one, or the schema's version. */
int migrator_begun(const struct migrator *g);

/* SQLOCK_ESCHEMA when the schema is newer than the library, or a migration was applied from another
 * file than this library's. */
int migrator_check_newer(struct migrator *g);
/* The code with which opening a manager would refuse the tables that are there, once it is known
 * that they are no stranger's. */
int migrator_check_opening(struct migrator *g);
int migrator_check_drift(struct migrator *g);
/* ... when a table that this version has is missing or, of the latest version, is not what
 * tables.sql says. */
int migrator_check_tables(struct migrator *g, int version);

/* migrate_guard.c: look, then do work(g, arg) while no other migrator does anything. All of it is
 * one transaction where DDL is. creates: the work may begin on an empty database. */
int migrator_alone(struct migrator *g, int creates, int (*work)(struct migrator *g, void *arg),
                   void *arg);
/* Be sure of the lease for the next statement, if there is one. *out_deadline: the statement's. */
int guard_keep(struct migrator *g, int64_t *out_deadline);

/* SQLOCK_SCHEMA_LATEST or a version of the dialect's, into *version. */
int check_version(const sqlock_dialect *d, int *version, int least, sqlock_error *err);

#endif
