/* Release (P3, P5): ends exactly this grant, and says the truth when it is repeated. */
#include <assert.h>
#include <string.h>

#include <sqlock/async.h>

#include "core/engine/arguments.h"
#include "core/engine/leavers.h"
#include "core/engine/lines.h"
#include "core/engine/locks.h"
#include "core/leases/calling.h"
#include "core/leases/leases.h"
#include "core/leases/passing.h"
#include "core/sql/texts.h"

#define EARLY_US    1000 /* past the last moment, for clocks of whole milliseconds */
#define LOOKS       2
#define GLIMPSES    6             /* as many looks where a row is met for a moment */
#define GLIMPSE_US  INT64_C(5000) /* before the third look; three times as much before each next */
#define PROBES_MOST 15            /* more looks while others work on the row: some 250 ms */
#define PROBE_US    INT64_C(2000) /* before the first of them; so much more before each next */
#define GUARDED_MS  500           /* limit of a release that an open guard may block */

/* What comes next. */
enum release_phase {
    RELEASE_BEGIN,     /* decides between the next two */
    RELEASE_LOOK,      /* when does the lease end? */
    RELEASE_GIVE_BACK, /* the release itself, or a withdrawal */
    RELEASE_CAUSE,     /* was the grant broken before it? */
    RELEASE_PROBE,     /* does a guard still stand? */
    RELEASE_NEXT,      /* a withdrawal has freed the lock: who waits for it? */
    RELEASE_NOTIFY,    /* another client's waiter was offered the lock, or should look */
};

/* In MariaDB and MySQL a session that skips a locked row waits for the lock for an instant. For
 * another session that looks like a guard. A busy machine may leave that session just there, for
 * some tens of milliseconds. A real guard is still there at the last look. */
static int64_t glimpse_pause(int looks)
{
    int64_t pause = looks < LOOKS ? 0 : GLIMPSE_US;

    for (; looks > LOOKS; looks--)
        pause *= 3;
    return pause;
}

int verb_looks_again(sqlock_op *op, const struct answer *a)
{
    const int most = op->m->driver->caps & SQLOCK_CAP_GLIMPSES ? GLIMPSES : LOOKS;

    op->looks = a->outcome == SQLOCK_OUT_GUARDED ? op->looks + 1 : 0;
    if (op->looks == 0 || op->looks >= most) {
        op->looks = 0;
        return 0;
    }
    op_again(op, a->received + glimpse_pause(op->looks));
    return 1;
}

int verb_may_be_guarded(sqlock_op *op)
{
    op->succeeded = 1;
    op->retries_at_once = 0;
    return op->m->driver->adopter != NULL && !manager_has_one_writer(op->m);
}

int verb_send_probe(sqlock_op *op, int64_t token)
{
    const sqlock_lock *lock = op->lock;

    return OP_SEND(op, SQLOCK_STMT_PROBE, value_bytes(lock->ns, lock->ns_len),
                   value_bytes(lock->name, lock->key_len), value_int(token));
}

/* Those who wait for the lock look for it at the same time. While one of them works on the row, a
 * look shows nothing. So it counts for no guard and against none. The last look for which there is
 * time decides. */
void verb_probed(sqlock_op *op, const struct answer *a, const char *text)
{
    int guarded = a->outcome == SQLOCK_OUT_GUARDED, again;

    if (a->outcome == SQLOCK_OUT_SKIPPED) {
        guarded = op->looks > 0;
        if ((again = op->retries_at_once < PROBES_MOST))
            op_again(op, a->received + PROBE_US * ++op->retries_at_once);
    } else {
        again = verb_looks_again(op, a);
    }
    if (again && op->next_at < op->deadline)
        return;
    op_done(op, guarded ? op_error_set(op, SQLOCK_EGUARDED, 0, "%s", text) : 0);
}

/* A lock that was lost is also given back, for those who wait. The result is still that it was
 * lost. */
static void release_end(sqlock_op *op)
{
    sqlock_lock *lock = op->lock;

    if (lock->lease.state == SQLOCK_LOST)
        op_done(op, op_error_set(op, SQLOCK_ELOST, 0, "the lock was already lost: %s",
                                 sqlock_why_name(lock->lease.why)));
    else if (lock->guards && verb_may_be_guarded(op))
        op->phase = RELEASE_PROBE;
    else
        op_done(op, 0);
}

static void release_done(sqlock_op *op, int64_t now)
{
    sqlock_lock *lock = op->lock;

    lock->pending = PENDING_NOTHING;
    lock_change(lock, LEASE_RELEASED, now, 0);
    if (lock->seat >= 0 || lock->mode != SQLOCK_EXCLUSIVE)
        line_seat_left(lock);
    if (lock->token == 0 && lock->queued)
        leavers_give_back(lock); /* or its place would be granted the lock */
    if (op->phase == RELEASE_NOTIFY || op->phase == RELEASE_NEXT)
        op->succeeded = lock->lease.state != SQLOCK_LOST; /* whatever becomes of the call */
    else
        release_end(op);
}

/* A release passes the lock on by itself. A withdrawal only frees it. */
static void release_note_next(sqlock_op *op, const struct answer *a, int64_t now)
{
    if (calling_is_due(op, a, now))
        op->phase = RELEASE_NOTIFY;
    else if (op->lock->token == 0 && a->outcome == SQLOCK_OUT_DONE && calling_can(op))
        op->phase = RELEASE_NEXT;
}

static void release_denied(sqlock_op *op, sqlock_why why, int64_t now)
{
    sqlock_lock *lock = op->lock;

    assert(why != SQLOCK_WHY_NONE);
    lock->pending = PENDING_NOTHING;
    lock_change(lock, LEASE_DENIED, now, why);
    why = lock->lease.why;
    op_done(op, op_error_set(op, SQLOCK_ELOST, 0, "%s%s", sqlock_why_name(why),
                             lock->release_sent && why == SQLOCK_WHY_TAKEN
                                 ? "; the row no longer shows whether it was released or lost"
                                 : ""));
}

/* The row has a new owner. After a release whose reply was lost, before the lease's end by the
 * server's clock, only that release can have let another owner in. The only other cause is a break
 * while the holder lives. That holds only for a server that had confirmed the lease: another one
 * may have lost it, and granted the lock again. */
static int release_seems_applied(const sqlock_lock *lock, const struct answer *a)
{
    return lock->release_sent && lock_denied(lock, a) == SQLOCK_WHY_TAKEN &&
           a->server == lock->end_server && a->now < lock->server_end;
}

/* Find out whether the release or a break let another owner in. The row forgets a break after two
 * more grants, so there is a note of each break. An older driver has no request for the note, and
 * an older schema no table. */
static void release_find_cause(sqlock_op *op, int64_t now)
{
    assert(op->lock->release_sent);
    op->unsure = 1; /* until that is known, because the lost reply may be of another call */
    if (texts_has(op->m->texts, SQLOCK_STMT_WAS_BROKEN, NULL) != 0)
        release_done(op, now);
    else
        op->phase = RELEASE_CAUSE;
}

void verb_early(sqlock_op *op, const struct answer *a, int64_t now)
{
    int64_t left = op->lock->lost_until - a->now + EARLY_US;

    op->unsure = 1;
    op_error_set(op, SQLOCK_EUNSURE, SQLOCK_MAYBE,
                 "the reply was lost, and the request may still arrive within %lld ms",
                 (long long)(left / 1000));
    if (now + left >= op->deadline)
        op_done(op, SQLOCK_EUNSURE);
    else
        op_again(op, now + left);
}

/* The end of an imported grant is unknown here. If the release's reply is lost,
 * release_seems_applied() needs it, so this reads the row before. The look changes nothing, and
 * what it shows may be over soon: only the release decides. An older driver has no request for
 * it. */
static int release_must_look(const sqlock_op *op)
{
    const sqlock_lock *lock = op->lock;

    return lock->token != 0 && lock->server_end == 0 && !lock->release_sent &&
           texts_has(op->m->texts, SQLOCK_STMT_LEASE, NULL) == 0;
}

/* Send a request about this owner's grant. number is the statement's last value. */
static int release_send(sqlock_op *op, sqlock_stmt stmt, int64_t number)
{
    const sqlock_lock *lock = op->lock;

    return OP_SEND(op, stmt, value_bytes(lock->ns, lock->ns_len),
                   value_bytes(lock->name, lock->key_len),
                   value_bytes(lock->owner, sizeof lock->owner), value_int(number));
}

/* Without a token it is unknown whether there was a grant, or whether there will be one. The
 * acquire may still be committing, or be on its way on a connection that was given up. Meanwhile
 * the row shows nothing. So whatever the owner was granted unknown to us is withdrawn, and it is
 * granted nothing more. */
static int release_next(sqlock_op *op, int64_t now)
{
    const sqlock_lock *lock = op->lock;

    if (op->phase == RELEASE_BEGIN)
        op->phase = release_must_look(op) ? RELEASE_LOOK : RELEASE_GIVE_BACK;
    switch ((enum release_phase)op->phase) {
    case RELEASE_LOOK:
        return release_send(op, SQLOCK_STMT_LEASE, lock->token);
    case RELEASE_CAUSE:
        return OP_SEND(op, SQLOCK_STMT_WAS_BROKEN, value_bytes(lock->ns, lock->ns_len),
                       value_bytes(lock->name, lock->key_len), value_int(lock->token));
    case RELEASE_PROBE:
        return verb_send_probe(op, lock->token);
    case RELEASE_NEXT:
        return calling_send_look(op);
    case RELEASE_NOTIFY:
        return calling_send(op);
    default:
        if (lock->token != 0)
            return passing_send(op, lock->token, now);
        return release_send(
            op, lock->mode == SQLOCK_EXCLUSIVE ? SQLOCK_STMT_WITHDRAW : SQLOCK_STMT_UNSEAT,
            lock->lost_until);
    }
}

static void release_judge(sqlock_op *op, const struct answer *a, int64_t now)
{
    sqlock_why why = lock_denied(op->lock, a);

    if (a->outcome == SQLOCK_OUT_QUEUED)
        op->lock->release_sent = 1; /* if it came twice, it may be applied when those have left */
    if (passing_answered(op, a, now))
        return;
    if (a->outcome == SQLOCK_OUT_DONE || a->outcome == SQLOCK_OUT_NEVER) {
        release_note_next(op, a, now);
        release_done(op, now);
    } else if (a->outcome == SQLOCK_OUT_EARLY)
        verb_early(op, a, now);
    else if (release_seems_applied(op->lock, a))
        release_find_cause(op, now);
    else if (why != SQLOCK_WHY_NONE)
        release_denied(op, why, now);
    else if (a->outcome == SQLOCK_OUT_KIND)
        op_unknown_kind(op);
    else
        verb_locked(op, now); /* or it changed while we looked */
}

static void release_answered(sqlock_op *op, const struct answer *a, int64_t now)
{
    enum release_phase phase = (enum release_phase)op->phase;

    if (phase == RELEASE_PROBE) {
        verb_probed(op, a,
                    "released; no one else gets it until the transaction that guards it ends");
        return;
    }
    op->phase = RELEASE_BEGIN;
    if (phase == RELEASE_NEXT && calling_found(op, a, now)) {
        op->phase = RELEASE_NOTIFY;
    } else if (phase == RELEASE_NEXT || phase == RELEASE_NOTIFY) {
        release_end(op);
    } else if (phase == RELEASE_LOOK) {
        if (a->outcome == SQLOCK_OUT_DONE)
            lock_note_end(op->lock, a, a->server);
        op->phase = RELEASE_GIVE_BACK;
    } else if (phase == RELEASE_CAUSE && a->outcome == SQLOCK_OUT_BROKEN) {
        release_denied(op, SQLOCK_WHY_BROKEN, now);
    } else if (phase == RELEASE_CAUSE) {
        release_done(op, now);
    } else {
        release_judge(op, a, now);
    }
}

/* A lost reply of a look is treated as patiently as the release's own. */
static void release_failed(sqlock_op *op, int64_t now)
{
    enum release_phase phase = (enum release_phase)op->phase;

    op->phase = RELEASE_BEGIN;
    passing_failed(op);
    if (phase == RELEASE_PROBE) {
        op_done(op, 0);
    } else if (phase == RELEASE_NEXT || phase == RELEASE_NOTIFY) {
        release_end(op);
    } else if (phase == RELEASE_CAUSE && op->err.code == SQLOCK_ESCHEMA) {
        release_done(op, now);
    } else {
        if (phase == RELEASE_GIVE_BACK && (op->err.flags & SQLOCK_MAYBE))
            op->lock->release_sent = 1;
        op_failed(op, now);
    }
}

const struct verb release_verb = {release_next, release_answered, release_failed, 0, NULL};

int release_start(sqlock_lock *lock, int32_t wait_ms, sqlock_op **out_op, sqlock_error *err)
{
    return op_start(lock->m, lock, &release_verb, wait_ms, NULL, out_op, err);
}

void release_await_callback(sqlock_lock *lock)
{
    if (lock->on_event == NULL)
        return;
    mutex_lock(&lock->m->mu);
    lock_await_callback(lock);
    mutex_unlock(&lock->m->mu);
}

int release_begin(sqlock_lock *lock, sqlock_op **out_op, sqlock_error *err)
{
    int64_t request_ms = lock->m->request_us / 1000;
    int rc = 0, done, guarded;

    mutex_lock(&lock->m->mu);
    guarded = lock->lease.guarded != 0;
    lock->quiet = 1; /* no new callback begins after this */
    done = lock->lease.state == SQLOCK_RELEASED;
    if (!done) {
        lock_change(lock, LEASE_RELEASING, sqlock_now_us(), 0);
        lock->pending = PENDING_RELEASE;
    }
    lock_act(lock);
    if (!done && lock->m->stopping)
        rc = sqlock_error_set(err, SQLOCK_ELOST, 0, "%s", sqlock_why_name(SQLOCK_WHY_CLOSED));
    mutex_unlock(&lock->m->mu);
    if (rc != 0)
        return rc;
    rc = release_start(lock, guarded && request_ms > GUARDED_MS ? GUARDED_MS : 0, out_op, err);
    if (rc == 0 && done)
        op_end(*out_op, 0);
    return rc;
}

int sqlock_release_start(sqlock_lock *lock, sqlock_op **out_op, sqlock_error *err)
{
    UNCANCELLED;
    int rc = check_out_op(out_op, "release", err);

    if (rc != 0)
        return rc;
    rc = check_lock(lock, err);
    if (rc == 0)
        rc = release_begin(lock, out_op, err);
    return async_begin(rc, lock, "release", out_op, err);
}

int sqlock_release(sqlock_lock *lock, sqlock_error *err)
{
    UNCANCELLED;
    sqlock_op *op = NULL;
    int rc = check_lock(lock, err);

    if (rc == 0) {
        if ((rc = release_begin(lock, &op, err)) == 0)
            rc = op_drive(op, NULL, err);
        release_await_callback(lock);
    }
    return lock != NULL ? check_context(err, "release", lock->name, lock->name_len, rc) : rc;
}
