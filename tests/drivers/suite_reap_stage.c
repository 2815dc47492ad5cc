#include "tests/drivers/suite_reap.h"

sqlock_reap_opts reap_at_once(void)
{
    sqlock_reap_opts o = SQLOCK_REAP_OPTS_INIT;

    o.grace_ms = 0;
    o.pause_ms = 0;
    return o;
}

sqlock_reap_report reap(sqlock *m, const sqlock_reap_opts *o)
{
    sqlock_reap_report r = {.size = sizeof r};

    ok(sqlock_reap(m, o, &r, &said));
    return r;
}

void age(struct world *w, int64_t ms)
{
    w->q->age(&w->place, ms);
}

int64_t abandon(sqlock *m, const char *name)
{
    sqlock_lock *lock = take_for(m, name, 600000, SQLOCK_NO_RENEW);
    int64_t token = sqlock_lock_token(lock);

    drop(lock);
    return token;
}

void abandon_jobs(sqlock *m, int n)
{
    char name[32];

    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "job/%03d", i);
        abandon(m, name);
    }
}

int64_t token_of(sqlock *m, const char *name)
{
    sqlock_lock *lock = take(m, name);
    int64_t token = sqlock_lock_token(lock);

    give(lock);
    return token;
}

static int count_one(const sqlock_info *info, void *user)
{
    struct count *c = user;

    c->rows++;
    c->held += info->held;
    return 0;
}

struct count count_rows(sqlock *m)
{
    sqlock_list_opts o = SQLOCK_LIST_OPTS_INIT;
    struct count c = {0, 0};

    o.flags = SQLOCK_LIST_FREE;
    ok(sqlock_list(m, &o, count_one, &c, &said));
    return c;
}

void *reaper_main(void *arg)
{
    struct reaper *r = arg;

    r->r.size = sizeof r->r;
    r->code = sqlock_reap(r->m, &r->o, &r->r, &r->err);
    return NULL;
}

void reaper_start(struct reaper *r, struct world *w, int rows)
{
    sqlock *m = open_with(w, with.lease_ms = patience_ms(1500));
    abandon_jobs(m, rows);
    age(w, HOUR_MS);
    r->m = m;
    r->o = reap_at_once();
    r->o.batch = 1;
    r->o.pause_ms = 100;
    assert_int_equal(pthread_create(&r->thread, NULL, reaper_main, r), 0);
    assert_soon(spy_runs(SQLOCK_STMT_REAP) > 0, patience_ms(5000));
}
