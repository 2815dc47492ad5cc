#include "tests/lib/db.h"

#include <string.h>

/* The caller's line, not this file's. */
#define must(call, err) check_code(SQLOCK_OK, (call), (err), #call, file, line)

sqlock_open_opts db_opts(struct db db)
{
    sqlock_open_opts o = SQLOCK_OPEN_OPTS_INIT;

    o.schema = db.schema;
    o.prefix = db.prefix;
    o.flags = db.flags;
    o.request_ms = db.request_ms ? db.request_ms : o.request_ms;
    o.lease_ms = db.lease_ms ? db.lease_ms : o.lease_ms;
    o.grace_ms = db.grace_ms;
    o.connect = db.connect;
    o.connect_user = db.connect_user;
    return o;
}

int db_open_to(struct db db, sqlock **out_m, sqlock_error *err)
{
    sqlock_open_opts o = db_opts(db);

    memset(err, 0, sizeof *err);
    return sqlock_open(db.driver, db.url, &o, out_m, err);
}

int db_try(struct db db, sqlock_error *err)
{
    sqlock *m = NULL;
    int rc = db_open_to(db, &m, err);

    assert_true((rc == SQLOCK_OK) == (m != NULL));
    sqlock_close(m);
    return rc;
}

sqlock *db_open_at(struct db db, const char *file, int line)
{
    sqlock_error err;
    sqlock *m = NULL;

    must(db_open_to(db, &m, &err), &err);
    return m;
}

int db_migrate_to(struct db db, int version, unsigned flags, int *out_applied, sqlock_error *err)
{
    sqlock_open_opts o = db_opts(db);

    memset(err, 0, sizeof *err);
    return sqlock_migrate_to(db.driver, db.url, &o, version, flags, out_applied, err);
}

int db_try_migrate(struct db db, sqlock_error *err)
{
    return db_migrate_to(db, SQLOCK_SCHEMA_LATEST, 0, NULL, err);
}

void assert_migrating_says_what_opening_says(struct db db, int code)
{
    sqlock_error opened, err;

    assert_code(code, db_try(db, &opened), &opened);
    assert_code(code, db_try_migrate(db, &err), &err);
    assert_string_equal(err.text + strlen("migrate"), opened.text + strlen("open"));
}

int db_migrate_at(struct db db, const char *file, int line)
{
    sqlock_open_opts o = db_opts(db);
    sqlock_error err = {0};
    int applied = -1;

    must(sqlock_migrate(db.driver, db.url, &o, &applied, &err), &err);
    return applied;
}

int64_t db_use_at(struct db db, const char *name, const char *file, int line)
{
    sqlock *m = db_open_at(db, file, line);
    sqlock_lock *lock = lock_take_at(m, name, 0, 0, file, line);
    int64_t token = sqlock_lock_token(lock);
    sqlock_error err = {0};

    must(sqlock_renew(lock, &err), &err);
    lock_give_at(lock, file, line);
    sqlock_close(m);
    return token;
}

int lock_try(sqlock *m, const char *name, int32_t wait_ms, sqlock_lock **out, sqlock_error *err)
{
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;

    memset(err, 0, sizeof *err);
    o.wait_ms = wait_ms;
    return sqlock_acquire(m, name, &o, out, err);
}

sqlock_lock *lock_take_at(sqlock *m, const char *name, int32_t lease_ms, unsigned flags,
                          const char *file, int line)
{
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_error err = {0};
    sqlock_lock *lock = NULL;

    o.lease_ms = lease_ms;
    o.flags = flags;
    must(sqlock_acquire(m, name, &o, &lock, &err), &err);
    return lock;
}

sqlock_lock *lock_now_at(sqlock *m, const char *name, const char *file, int line)
{
    sqlock_lock *lock = NULL;
    sqlock_error err;

    must(lock_try(m, name, 0, &lock, &err), &err);
    return lock;
}

void lock_give_at(sqlock_lock *lock, const char *file, int line)
{
    sqlock_error err = {0};

    must(sqlock_release(lock, &err), &err);
    sqlock_lock_free(lock);
}

int64_t lock_draw_at(sqlock *m, const char *name, const char *file, int line)
{
    sqlock_lock *lock = lock_take_at(m, name, 0, 0, file, line);
    int64_t token = sqlock_lock_token(lock);

    lock_give_at(lock, file, line);
    return token;
}

/* What is promised is read before it is asked whether it holds still: a deadline that was read
 * later might belong to a renewal, which is fine, but a state that was read earlier is old. */
int lock_look(sqlock_lock *lock, int64_t *deadline_us)
{
    sqlock_state state;

    *deadline_us = sqlock_lock_deadline_us(lock);
    state = sqlock_lock_state(lock);
    if (state == SQLOCK_HELD || state == SQLOCK_AT_RISK)
        return 0;
    *deadline_us = 0;
    return state == SQLOCK_UNSURE ? SQLOCK_EUNSURE : SQLOCK_ELOST;
}

static int count_one(const sqlock_info *info, void *user)
{
    (void)info;
    ++*(int *)user;
    return 0;
}

int list_count(sqlock *m, unsigned flags)
{
    sqlock_list_opts o = SQLOCK_LIST_OPTS_INIT;
    sqlock_error err = {0};
    int n = 0;

    o.flags = flags;
    assert_ok(sqlock_list(m, &o, count_one, &n, &err), &err);
    return n;
}
