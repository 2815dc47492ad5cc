/* A program's side of a database, where a test is about something else: opened, migrated and used
 * in one line each. What has no err must succeed: else the test fails with the caller's line. */
#ifndef SQLOCK_TESTS_LIB_DB_H
#define SQLOCK_TESTS_LIB_DB_H

#include <sqlock/driver.h>

#include "tests/lib/check.h"

/* Which one, and how. What is left out is as in SQLOCK_OPEN_OPTS_INIT. */
struct db {
    const sqlock_driver *driver;
    const char *url, *schema, *prefix;
    unsigned flags;
    int32_t request_ms, lease_ms, grace_ms;
    sqlock_connect_fn connect;
    void *connect_user;
};

sqlock_open_opts db_opts(struct db db);
/* The same one, opened with these flags, or by another URL. */
static inline struct db db_with(struct db db, unsigned flags)
{
    db.flags = flags;
    return db;
}

static inline struct db db_by(struct db db, const char *url)
{
    db.url = url;
    return db;
}

/* Open a manager; db_try() closes it again. */
int db_open_to(struct db db, sqlock **out_m, sqlock_error *err);
int db_try(struct db db, sqlock_error *err);
#define db_open(db) db_open_at((db), __FILE__, __LINE__)
/* To a version, or to the newest one. */
int db_migrate_to(struct db db, int version, unsigned flags, int *out_applied, sqlock_error *err);
int db_try_migrate(struct db db, sqlock_error *err);
/* Both are refused with this code, for the same reason. */
void assert_migrating_says_what_opening_says(struct db db, int code);
/* How many migrations were applied. */
#define db_migrate(db) db_migrate_at((db), __FILE__, __LINE__)
/* Acquire, renew and release by a manager of its own; the token. */
#define db_use(db, name) db_use_at((db), (name), __FILE__, __LINE__)

/* Acquire, and wait so long at most. */
int lock_try(sqlock *m, const char *name, int32_t wait_ms, sqlock_lock **out, sqlock_error *err);
/* A lock; lease_ms 0: the manager's. */
#define lock_take(m, name, lease_ms, flags)                                                        \
    lock_take_at((m), (name), (lease_ms), (flags), __FILE__, __LINE__)
/* The same without waiting. */
#define lock_now(m, name) lock_now_at((m), (name), __FILE__, __LINE__)
/* Release and free it. */
#define lock_give(lock) lock_give_at((lock), __FILE__, __LINE__)
/* The token of a grant that is given back at once. */
#define lock_draw(m, name) lock_draw_at((m), (name), __FILE__, __LINE__)
/* What it says of itself: 0 and its deadline, or SQLOCK_EUNSURE or SQLOCK_ELOST, and 0. */
int lock_look(sqlock_lock *lock, int64_t *deadline_us);

/* How many names a list has. */
int list_count(sqlock *m, unsigned flags);

sqlock *db_open_at(struct db db, const char *file, int line);
int db_migrate_at(struct db db, const char *file, int line);
int64_t db_use_at(struct db db, const char *name, const char *file, int line);
sqlock_lock *lock_take_at(sqlock *m, const char *name, int32_t lease_ms, unsigned flags,
                          const char *file, int line);
sqlock_lock *lock_now_at(sqlock *m, const char *name, const char *file, int line);
void lock_give_at(sqlock_lock *lock, const char *file, int line);
int64_t lock_draw_at(sqlock *m, const char *name, const char *file, int line);

#endif
