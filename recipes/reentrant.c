#include "recipes/reentrant.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <sqlock/driver.h>

/* What an actor has of one name. Only the actor changes it. */
struct held {
    struct held *next;
    const void *actor;
    sqlock_lock *lock;
    int64_t mode;
    long count;
};

struct reentrant {
    sqlock *m;
    pthread_mutex_t mutex; /* of the list */
    struct held *first;
};

static _Thread_local char this_thread; /* its address is the thread's own */

/* A lock that is not held: lost, or, while its row cannot be looked at, maybe. */
static int reentrant_lost(const struct held *h, sqlock_error *err)
{
    if (sqlock_lock_state(h->lock) == SQLOCK_UNSURE)
        return sqlock_error_set(err, SQLOCK_EUNSURE, 0, "%.80s: its lease may have ended",
                                sqlock_lock_name(h->lock));
    return sqlock_error_set(err, SQLOCK_ELOST, 0, "%.80s: %s", sqlock_lock_name(h->lock),
                            sqlock_why_name(sqlock_lock_why(h->lock)));
}

/* Where it stands in the list, or the list's end. */
static struct held **held_at(struct reentrant *r, const void *actor, const char *name)
{
    struct held **at = &r->first;

    while (*at != NULL &&
           ((*at)->actor != actor || strcmp(sqlock_lock_name((*at)->lock), name) != 0))
        at = &(*at)->next;
    return at;
}

static struct held *held_find(struct reentrant *r, const void *actor, const char *name)
{
    struct held *h;

    pthread_mutex_lock(&r->mutex);
    h = *held_at(r, actor, name);
    pthread_mutex_unlock(&r->mutex);
    return h;
}

static void held_add(struct reentrant *r, struct held *h)
{
    pthread_mutex_lock(&r->mutex);
    h->next = r->first;
    r->first = h;
    pthread_mutex_unlock(&r->mutex);
}

static void held_remove(struct reentrant *r, const struct held *h)
{
    struct held **at = &r->first;

    pthread_mutex_lock(&r->mutex);
    while (*at != h)
        at = &(*at)->next;
    *at = h->next;
    pthread_mutex_unlock(&r->mutex);
}

struct reentrant *reentrant_new(sqlock *m)
{
    struct reentrant *r = calloc(1, sizeof *r);

    if (r == NULL)
        return NULL;
    r->m = m;
    pthread_mutex_init(&r->mutex, NULL);
    return r;
}

void reentrant_free(struct reentrant *r)
{
    while (r->first != NULL) {
        struct held *h = r->first;

        r->first = h->next;
        sqlock_scope_end(&h->lock);
        free(h);
    }
    pthread_mutex_destroy(&r->mutex);
    free(r);
}

static int64_t mode_of(const sqlock_acquire_opts *opts)
{
    return opts != NULL ? opts->mode : SQLOCK_EXCLUSIVE;
}

static int acquire_first(struct reentrant *r, const void *actor, const char *name,
                         const sqlock_acquire_opts *opts, sqlock_lock **out_lock, sqlock_error *err)
{
    struct held *h = calloc(1, sizeof *h);
    int rc;

    if (h == NULL)
        return sqlock_error_set(err, SQLOCK_ENOMEM, 0, "no memory for one more lock");
    if ((rc = sqlock_acquire(r->m, name, opts, &h->lock, err)) != 0) {
        sqlock_scope_end(&h->lock); /* after SQLOCK_EUNSURE it may be ours: give it back */
        free(h);
        return rc;
    }
    h->actor = actor;
    h->mode = mode_of(opts);
    h->count = 1;
    held_add(r, h);
    if (out_lock != NULL)
        *out_lock = h->lock;
    return 0;
}

int reentrant_acquire(struct reentrant *r, const void *actor, const char *name,
                      const sqlock_acquire_opts *opts, sqlock_lock **out_lock, sqlock_error *err)
{
    struct held *h;

    actor = actor != NULL ? actor : &this_thread;
    if (out_lock != NULL)
        *out_lock = NULL;
    if (name == NULL || (h = held_find(r, actor, name)) == NULL)
        return acquire_first(r, actor, name, opts, out_lock, err);
    if (!sqlock_is_held(h->lock))
        return reentrant_lost(h, err);
    if (h->mode != SQLOCK_EXCLUSIVE && h->mode != mode_of(opts))
        return sqlock_error_set(err, SQLOCK_EREFUSED, 0,
                                "the actor has it in another mode: release it first");
    h->count++;
    if (out_lock != NULL)
        *out_lock = h->lock;
    return 0;
}

int reentrant_release(struct reentrant *r, const void *actor, const char *name, sqlock_error *err)
{
    struct held *h =
        name != NULL ? held_find(r, actor != NULL ? actor : &this_thread, name) : NULL;
    int rc;

    if (h == NULL)
        return sqlock_error_set(err, SQLOCK_ESTATE, 0, "this actor does not hold that lock");
    if (--h->count > 0)
        return sqlock_is_held(h->lock)
                   ? 0
                   : reentrant_lost(h, err);
    held_remove(r, h);
    rc = sqlock_lock_end(&h->lock, err);
    free(h);
    return rc;
}
