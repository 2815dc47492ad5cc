/* Calls about the schema, a line of the table each. Those that change it have their own place. */
#include "tests/counted/scene.h"

static int migrate(struct scene *s, sqlock_error *err)
{
    return sqlock_migrate(s->driver, s->place.url, &s->opts, NULL, err);
}

/* Whatever became of it, the call may be made again, and then all is there. */
static void mend(struct scene *s)
{
    sqlock_open_opts o = s->opts;
    sqlock_error err;

    o.request_ms = patience_ms(20000);
    assert_ok(sqlock_migrate(s->q->driver(), s->place.url, &o, NULL, &err), &err);
    assert_ok(sqlock_migration_verify(s->q->driver(), s->place.url, &o, &err), &err);
}

static void check_migrated(struct scene *s, int rc)
{
    sqlock_error second;

    if (rc == 0)
        assert_ok(sqlock_migration_verify(s->q->driver(), s->place.url, &s->opts, &second),
                  &second);
    mend(s);
}

/* ---- where there is a schema ----------------------------------------------------------------- */

static int go_down(struct scene *s, sqlock_error *err)
{
    return sqlock_migrate_to(s->driver, s->place.url, &s->opts, 0, SQLOCK_MIGRATE_DOWN, NULL, err);
}

static int count(const sqlock_migration_info *info, void *user)
{
    struct scene *s = user;

    s->number += info->state == SQLOCK_MIGRATION_APPLIED;
    return 0;
}

static int status(struct scene *s, sqlock_error *err)
{
    return sqlock_migration_status(s->driver, s->place.url, &s->opts, count, s, err);
}

static void check_status(struct scene *s, int rc)
{
    assert_int_equal(s->number,
                     rc == 0 ? (int64_t)s->q->driver()->dialect->n_migrations : INT64_C(0));
    mend(s);
}

static int verify(struct scene *s, sqlock_error *err)
{
    return sqlock_migration_verify(s->driver, s->place.url, &s->opts, err);
}

static void check_verified(struct scene *s, int rc)
{
    assert_true(rc != SQLOCK_ESCHEMA);
    mend(s);
}

static int baseline(struct scene *s, sqlock_error *err)
{
    return sqlock_migration_baseline(s->driver, s->place.url, &s->opts, SQLOCK_SCHEMA_LATEST, err);
}

static int swallow(const char *text, size_t len, void *user)
{
    struct scene *s = user;
    (void)text;

    s->number += (int64_t)len;
    return 0;
}

static int sql(struct scene *s, sqlock_error *err)
{
    return sqlock_migration_sql(s->driver, &s->opts, 0, (int)s->q->driver()->dialect->n_migrations,
                                0, swallow, s, err);
}

static void check_written(struct scene *s, int rc)
{
    if (rc == 0)
        assert_true(s->number > 100);
    mend(s);
}

const struct call schema_calls[] = {
    {"migrate", "sqlock_migrate", NEEDS_BARE, 5, 0, migrate, check_migrated, mend},
    {"migrate down", "sqlock_migrate_to", NEEDS_SCHEMA, 5, 0, go_down, check_verified, mend},
    {"migration status", "sqlock_migration_status", NEEDS_NOTHING, 2, 0, status, check_status,
     mend},
    {"migration verify", "sqlock_migration_verify", NEEDS_NOTHING, 2, 0, verify, check_verified,
     mend},
    {"migration baseline", "sqlock_migration_baseline", NEEDS_NOTHING, 3, 0, baseline,
     check_verified, mend},
    {"migration sql", "sqlock_migration_sql", NEEDS_NOTHING, 0, 0, sql, check_written, mend},
    {0},
};
