#define _POSIX_C_SOURCE 200809L /* so that -std=c11 does as well as the compiler's own */

#include "recipes/majority.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <sqlock/driver.h>
#include <sqlock/register.h>
#include <sqlock/retry.h>

enum {
    PAUSE_FIRST_MS = 10, /* the first pause between two tries is random, up to this */
    PAUSE_MOST_MS = 250,
    LEFT_OUT_MS = 5000, /* after it was slow, or failed */
    PROPOSALS = 3,      /* of a number, under the same locks */
    TEXT_MAX = 64
};

enum majority_step {
    MAJORITY_TRY,  /* acquire the member's lock, and read its register */
    MAJORITY_NOTE, /* set the register to the number that is proposed */
    MAJORITY_END   /* release the lock */
};

struct majority_member {
    majority_lock *of;
    sqlock *m;
    sqlock_lock *lock;   /* one of those that count; NULL: none */
    sqlock_lock *handed; /* to or from the step */
    int takes_part, started;
    pthread_t thread; /* of the step, if it was started */
    enum majority_step step;
    int left_out, rc;
    int64_t number, version; /* of the register */
    sqlock_error err;
    sqlock_holder holder;
};

struct majority_lock {
    struct majority *set;
    size_t quorum;
    pthread_mutex_t mutex; /* of the members' locks */
    atomic_int lost;
    int64_t token;
    int rc; /* of the last try */
    char name[SQLOCK_NAME_MAX + 2]; /* too long texts stay so */
    char label[SQLOCK_LABEL_MAX + 2], actor[SQLOCK_ACTOR_MAX + 2];
    sqlock_acquire_opts opts; /* its texts are those above */
    struct majority_member members[MAJORITY_MOST];
};

/* `x` is each member in turn. */
#define MAJORITY_EACH(l, x)                                                                        \
    for (struct majority_member *x = (l)->members; x < (l)->members + (l)->set->n; x++)

/* ---- what is held ---------------------------------------------------------------------------- */

size_t majority_count(majority_lock *l)
{
    size_t n = 0;

    pthread_mutex_lock(&l->mutex);
    MAJORITY_EACH (l, x)
        n += x->lock != NULL && sqlock_is_held(x->lock);
    if (n < l->quorum)
        l->lost = 1;
    pthread_mutex_unlock(&l->mutex);
    return n;
}

/* A member's lock that was lost never comes back. So what is a quorum now was one all the time, as
 * long as no lock is added before this has looked. */
int majority_is_held(majority_lock *l)
{
    majority_count(l);
    return !l->lost;
}

int64_t majority_token(majority_lock *l)
{
    return l->token;
}

/* ---- the steps of a member, on a thread each ------------------------------------------------- */

static int majority_is_refusal(int rc)
{
    return rc == SQLOCK_EBUSY || rc == SQLOCK_EGUARDED;
}

/* No other try would do better. */
static int majority_is_final(int rc)
{
    return rc == SQLOCK_EINVAL || rc == SQLOCK_EFORK || rc == SQLOCK_ENOMEM ||
           rc == SQLOCK_ECANCELLED;
}

/* A register that holds nothing has number 0. Number and version are kept together, or not at all. */
static int majority_read(struct majority_member *x, sqlock_error *err)
{
    char text[TEXT_MAX + 1] = "";
    size_t len = 0;
    int64_t number = 0, version = 0;
    int end = 0;
    int rc = sqlock_register_get(x->m, x->of->name, text, TEXT_MAX, &len, &version, err);

    if (rc != 0 && (rc != SQLOCK_EINVAL || len <= TEXT_MAX))
        return rc;
    if (len > 0 && (sscanf(text, "majority %" SCNd64 "%n", &number, &end) != 1 ||
                    (size_t)end != len || number < 1 || number >= SQLOCK_TOKEN_MAX))
        return sqlock_error_set(err, SQLOCK_ECORRUPT, 0, "the name's register is of no majority");
    x->number = number;
    x->version = version;
    return 0;
}

/* A member that was slow, or failed, is tried last for a while. */
static void majority_leave_out(const struct majority_member *x, int rc, int64_t took_us)
{
    struct majority *s = x->of->set;
    const int64_t slow_us = (s->slow_ms != 0 ? s->slow_ms : MAJORITY_SLOW_MS) * INT64_C(1000);
    int fails = rc != 0 && !majority_is_refusal(rc) && !majority_is_final(rc);

    s->left_out_until_us[x - x->of->members] =
        fails || took_us > slow_us ? sqlock_now_us() + LEFT_OUT_MS * INT64_C(1000) : 0;
}

/* Also an acquire whose reply was lost is given back. */
static int majority_try(struct majority_member *x)
{
    const majority_lock *l = x->of;
    sqlock_acquire_opts opts = l->opts;
    int64_t begun = sqlock_now_us(), ended;
    int rc;

    opts.wait_ms = 0;
    opts.holder = &x->holder;
    rc = sqlock_acquire(x->m, l->name, &opts, &x->handed, &x->err);
    if (rc == 0)
        rc = majority_read(x, &x->err);
    ended = sqlock_now_us();
    if (rc != 0)
        sqlock_scope_end(&x->handed);
    majority_leave_out(x, rc, ended - begun);
    return rc;
}

/* Only over what was read. Whatever else is there now, or may be, is read for the next proposal. */
static int majority_note(struct majority_member *x)
{
    int64_t version = 0;
    char text[TEXT_MAX];
    int len = snprintf(text, sizeof text, "majority %" PRId64, x->of->token);
    int rc = sqlock_register_set(x->m, x->of->name, text, (size_t)len, x->version, &version, &x->err);

    if (rc == 0) {
        x->number = x->of->token;
        x->version = version;
    } else if (rc == SQLOCK_CONFLICT || rc == SQLOCK_EUNSURE) {
        (void)!majority_read(x, NULL);
    }
    return rc != SQLOCK_CONFLICT ? rc
                                 : sqlock_error_set(&x->err, SQLOCK_EBUSY, SQLOCK_RETRY,
                                                    "another program has set the register");
}

static void *majority_run(void *arg)
{
    struct majority_member *x = arg;

    if (x->step == MAJORITY_NOTE)
        x->rc = majority_note(x);
    else
        x->rc = sqlock_lock_end(&x->handed, &x->err); /* before a try: of one that was lost */
    if (x->step == MAJORITY_TRY)
        x->rc = majority_try(x);
    return NULL;
}

/* ---- a step of all members ------------------------------------------------------------------- */

/* The thread gets no signals. If there can be none, this one does it. */
static void majority_start(struct majority_member *x)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    x->started = pthread_create(&x->thread, NULL, majority_run, x) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!x->started)
        majority_run(x);
}

static int majority_takes_part(const struct majority_member *x, enum majority_step step)
{
    if (step == MAJORITY_TRY)
        return x->m != NULL && !x->left_out && (x->lock == NULL || !sqlock_is_held(x->lock));
    if (step == MAJORITY_NOTE)
        return x->lock != NULL && x->number < x->of->token;
    return x->lock != NULL;
}

/* To its end on all members that take part. Returns how many of these succeeded. */
static size_t majority_do(majority_lock *l, enum majority_step step)
{
    size_t done = 0;

    pthread_mutex_lock(&l->mutex);
    MAJORITY_EACH (l, x) {
        x->takes_part = majority_takes_part(x, step);
        x->step = step;
        if (x->takes_part && step != MAJORITY_NOTE) {
            x->handed = x->lock;
            x->lock = NULL;
        }
    }
    pthread_mutex_unlock(&l->mutex);
    MAJORITY_EACH (l, x)
        if (x->takes_part)
            majority_start(x);
    MAJORITY_EACH (l, x) {
        if (x->takes_part && x->started)
            pthread_join(x->thread, NULL);
        done += x->takes_part && x->rc == 0;
    }
    majority_is_held(l); /* without what was granted just now, which counts from here on */
    pthread_mutex_lock(&l->mutex);
    MAJORITY_EACH (l, x) {
        x->lock = x->handed != NULL ? x->handed : x->lock;
        x->handed = NULL;
    }
    pthread_mutex_unlock(&l->mutex);
    return done;
}

/* ---- why it failed --------------------------------------------------------------------------- */

static int majority_says(const majority_lock *l, const struct majority_member *x, sqlock_error *err)
{
    if (err != NULL) {
        *err = x->err;
        snprintf(err->text, sizeof err->text, "member %d of %d: %.440s", (int)(x - l->members) + 1,
                 (int)l->set->n, x->err.text);
    }
    return x->rc;
}

/* How many said yes, or that others hold it. */
static size_t majority_answered(majority_lock *l)
{
    size_t n = 0;

    MAJORITY_EACH (l, x)
        n += x->m != NULL && (x->rc == 0 || majority_is_refusal(x->rc));
    return n;
}

/* If a quorum has answered, others are in the way. Else it is the first that did not answer. */
static int majority_cause(majority_lock *l, sqlock_error *err)
{
    const struct majority_member *failed = NULL, *refused = NULL;

    MAJORITY_EACH (l, x) {
        if (majority_is_refusal(x->rc))
            refused = refused != NULL ? refused : x;
        else if (x->rc != 0 && (failed == NULL || majority_is_final(x->rc)))
            failed = x;
    }
    if (refused != NULL && majority_answered(l) >= l->quorum)
        failed = refused;
    if (failed == NULL || failed->rc == SQLOCK_EUNSURE) /* it was given back, or runs out */
        return sqlock_error_set(err, SQLOCK_ETIMEOUT, SQLOCK_RETRY, "majority: no answer in time");
    if (failed == refused && l->opts.holder != NULL)
        *l->opts.holder = refused->holder;
    return majority_says(l, failed, err);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Above all that a quorum has shown. */
static int64_t majority_next_number(majority_lock *l)
{
    int64_t most = 0;

    MAJORITY_EACH (l, x) {
        if (x->lock != NULL && sqlock_lock_token(x->lock) > most)
            most = sqlock_lock_token(x->lock);
        if (x->lock != NULL && x->number > most)
            most = x->number;
    }
    return most + 1;
}

/* The leases count from before their requests, so one look behind all of them is enough. */
static int majority_propose(majority_lock *l, sqlock_error *err)
{
    size_t noted = 0;

    l->lost = 0; /* it was not held before */
    for (int i = 0; i < PROPOSALS && noted < l->quorum; i++) {
        l->token = majority_next_number(l);
        if (l->token >= SQLOCK_TOKEN_MAX)
            return sqlock_error_set(err, SQLOCK_ECORRUPT, 0, "majority: tokens are at their end");
        noted = majority_do(l, MAJORITY_NOTE);
    }
    if (noted < l->quorum)
        return majority_cause(l, err);
    if (!majority_is_held(l))
        return sqlock_error_set(err, SQLOCK_ETIMEOUT, SQLOCK_RETRY,
                                "majority: leases ran out before a quorum was complete");
    return 0;
}

/* First those that have been quick, and the others only if that does not decide it. */
static size_t majority_try_all(majority_lock *l)
{
    const int64_t now = sqlock_now_us();
    size_t n;

    MAJORITY_EACH (l, x) {
        x->left_out = l->set->left_out_until_us[x - l->members] > now;
        x->rc = sqlock_error_set(&x->err, SQLOCK_EUNREACH, SQLOCK_RETRY, "it is not open");
    }
    n = majority_do(l, MAJORITY_TRY);
    if (majority_answered(l) >= l->quorum)
        return n;
    MAJORITY_EACH (l, x)
        x->left_out = !x->left_out;
    return n + majority_do(l, MAJORITY_TRY);
}

/* A minority is given back before the next try, or the end. */
static int majority_attempt(const sqlock_attempt *attempt, void *user, sqlock_error *err)
{
    majority_lock *l = user;

    (void)attempt;
    l->rc = majority_try_all(l) >= l->quorum ? majority_propose(l, err) : majority_cause(l, err);
    if (l->rc != 0)
        majority_do(l, MAJORITY_END);
    return l->rc == 0 || majority_is_final(l->rc) ? l->rc : SQLOCK_EBUSY;
}

static int majority_check(const struct majority *s, const sqlock_acquire_opts *o, sqlock_error *err)
{
    if (s->n < 1 || s->n > MAJORITY_MOST || s->slow_ms < 0 || s->quorum > s->n ||
        (s->quorum != 0 && s->quorum <= s->n / 2))
        return sqlock_error_set(err, SQLOCK_EINVAL, 0,
                                "majority: 1 to 16 members, and more than half of them a quorum");
    for (size_t i = 0; i < s->n; i++)
        for (size_t j = 0; j < i; j++)
            if (s->members[i] != NULL && s->members[i] == s->members[j])
                return sqlock_error_set(err, SQLOCK_EINVAL, 0, "majority: a member is there twice");
    if (o->flags != 0 || o->on_event != NULL || o->owner != NULL)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "majority: no flags, callback or owner");
    if (o->mode != SQLOCK_EXCLUSIVE)
        return sqlock_error_set(err, SQLOCK_EINVAL, 0, "majority: the lock must be exclusive");
    return 0;
}

static majority_lock *majority_new(struct majority *set, const char *name,
                                   const sqlock_acquire_opts *opts)
{
    majority_lock *l = calloc(1, sizeof *l);

    if (l == NULL)
        return NULL;
    pthread_mutex_init(&l->mutex, NULL);
    l->set = set;
    l->quorum = set->quorum != 0 ? set->quorum : set->n / 2 + 1;
    l->opts = *opts;
    snprintf(l->name, sizeof l->name, "%s", name != NULL ? name : ""); /* which is refused */
    snprintf(l->label, sizeof l->label, "%s", opts->label != NULL ? opts->label : "");
    snprintf(l->actor, sizeof l->actor, "%s", opts->actor != NULL ? opts->actor : "");
    l->opts.label = l->label[0] != '\0' ? l->label : NULL;
    l->opts.actor = opts->actor != NULL ? l->actor : NULL; /* an empty one is refused */
    l->opts.user = NULL;
    MAJORITY_EACH (l, x) {
        x->of = l;
        x->m = set->members[x - l->members];
        x->holder.size = sizeof x->holder;
    }
    return l;
}

int majority_acquire(struct majority *set, const char *name, const sqlock_acquire_opts *opts,
                     majority_lock **out_lock, sqlock_error *err)
{
    sqlock_acquire_opts o = SQLOCK_ACQUIRE_OPTS_INIT;
    sqlock_retry_opts again = SQLOCK_RETRY_OPTS_INIT;
    sqlock_error said = {0};
    majority_lock *l = NULL;
    int rc;

    *out_lock = NULL;
    o = opts != NULL ? *opts : o;
    if ((rc = majority_check(set, &o, err)) != 0)
        return rc;
    if ((l = majority_new(set, name, &o)) == NULL)
        return sqlock_error_set(err, SQLOCK_ENOMEM, 0, "majority: out of memory");
    again.attempts = o.wait_ms == 0 ? 1 : INT32_MAX;
    again.base_ms = PAUSE_FIRST_MS;
    again.cap_ms = PAUSE_MOST_MS;
    again.total_ms = o.wait_ms;
    again.cancel = o.cancel;
    rc = sqlock_retry(NULL, majority_attempt, l, &again, &said);
    rc = rc == SQLOCK_EBUSY ? l->rc : rc;
    l->opts.cancel = NULL; /* these are the caller's */
    l->opts.holder = NULL;
    if (rc == 0) {
        *out_lock = l;
        return 0;
    }
    pthread_mutex_destroy(&l->mutex);
    free(l);
    if (err != NULL)
        *err = said;
    return rc;
}

int majority_mend(majority_lock *l, sqlock_error *err)
{
    MAJORITY_EACH (l, x)
        x->left_out = 0;
    if (majority_is_held(l))
        majority_do(l, MAJORITY_TRY);
    if (!majority_is_held(l))
        return sqlock_error_set(err, SQLOCK_ELOST, 0, "majority: there is no quorum any more");
    majority_do(l, MAJORITY_NOTE);
    MAJORITY_EACH (l, x)
        if (x->lock == NULL)
            return majority_says(l, x, err);
    return 0;
}

int majority_end(majority_lock **lock, sqlock_error *err)
{
    majority_lock *l = lock != NULL ? *lock : NULL;
    int rc = 0;

    if (l == NULL)
        return 0;
    *lock = NULL;
    if (!majority_is_held(l))
        rc = sqlock_error_set(err, SQLOCK_ELOST, 0, "majority: there was no quorum any more");
    if (majority_do(l, MAJORITY_END) < l->quorum)
        MAJORITY_EACH (l, x)
            if (x->takes_part && x->rc != 0 && rc == 0)
                rc = majority_says(l, x, err);
    pthread_mutex_destroy(&l->mutex);
    free(l);
    return rc;
}
